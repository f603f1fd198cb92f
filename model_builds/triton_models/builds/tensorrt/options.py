"""What is told to trtexec, by TensorRT's major version.

Source: samples/common/sampleOptions.cpp of NVIDIA/TensorRT at the tags v8.6.1, v10.0.1 to v10.16, v11.0 and
v11.1, read on 2026-11-21. trtexec refuses to start on an option that it does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from triton_models.base.errors import FleetError
from triton_models.builds.tensorrt import autocast
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import LEVELS, Hardware, Precision, major

AUTOCAST_REQUIREMENTS = "model_builds/locks/requirements-autocast.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a precision is had.

    Attributes:
        flags: What trtexec is told.
        autocast: The ONNX file is converted first: networks are strongly typed, and compute in the types that
            the file has.
    """

    flags: tuple[str, ...] = ()
    autocast: bool = False


# TF32 is trtexec's default. From 11 on every network is strongly typed, and --fp16 is gone.
_BY_FLAG = {"fp32": Way(flags=("--noTF32",)), "tf32": Way(), "fp16": Way(flags=("--fp16",))}
_BY_TYPE = {"fp32": Way(flags=("--noTF32",)), "tf32": Way(), "fp16": Way(autocast=True)}
WAYS: Mapping[int, Mapping[str, Way]] = MappingProxyType({8: _BY_FLAG, 10: _BY_FLAG, 11: _BY_TYPE})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What a plan is compiled with. What is None is left to trtexec.

    Attributes:
        precision: What the plan calculates in.
        hardware: The GPUs that the plan runs on.
        workspace_mb: The most GPU memory that a kernel of the plan may ask for, in MiB.
        optimization_level: From 0, compiled fast, to 5, fastest when it runs.
    """

    precision: Precision = "fp32"
    hardware: Hardware = "this-gpu"
    workspace_mb: int | None = None
    optimization_level: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """One run of trtexec.

    Attributes:
        trtexec: The executable.
        onnx: What it compiles.
        plan: What it writes.
        release: The release whose TensorRT it has.
        shapes: The ranges of the inputs that the network leaves open; none if it fixes all of them, for then
            trtexec takes none: "Static model does not take explicit shapes".
        options: What the plan is compiled with.
        timing_cache: The file of measured times to use and add to.
    """

    trtexec: Path
    onnx: Path
    plan: Path
    release: Release
    shapes: Mapping[str, ShapeRange] = field(default_factory=dict)
    options: PlanOptions = field(default_factory=PlanOptions)
    timing_cache: Path | None = None

    def arguments(self) -> list[str]:
        """The executable and its arguments."""
        return [str(self.trtexec), *self._files(), *self._tuning(), *self._shapes()]

    def _files(self) -> Iterator[str]:
        yield f"--onnx={self.onnx}"
        yield f"--saveEngine={self.plan}"
        yield "--skipInference"
        if self.timing_cache is not None:
            yield f"--timingCacheFile={self.timing_cache}"

    def _tuning(self) -> Iterator[str]:
        yield from way(self.release, self.options.precision).flags
        level = LEVELS.get(self.options.hardware)
        if level is not None:
            yield f"--hardwareCompatibilityLevel={level}"
        if self.options.workspace_mb is not None:
            # Without a unit it is MiB; 8.6 takes no unit.
            yield f"--memPoolSize=workspace:{self.options.workspace_mb}"
        if self.options.optimization_level is not None:
            yield f"--builderOptimizationLevel={self.options.optimization_level}"

    def _shapes(self) -> Iterator[str]:
        for flag in ("min", "opt", "max") if self.shapes else ():
            sizes = {name: getattr(range_, flag) for name, range_ in sorted(self.shapes.items())}
            named = (f"{name}:{'x'.join(map(str, size))}" for name, size in sizes.items())
            yield f"--{flag}Shapes={','.join(named)}"


def way(release: Release, precision: Precision) -> Way:
    """How a precision is had with a release's TensorRT, one of `WAYS`."""
    return WAYS[major(release)][precision]


def check_precision(release: Release, precision: Precision) -> None:
    """Whether a precision can be had on this machine with a release's TensorRT.

    Raises:
        FleetError: It cannot: what converts the ONNX file is not installed.
    """
    if way(release, precision).autocast and not autocast.is_installed():
        raise FleetError.of(
            what=f"precision {precision!r} needs AutoCast, and the package nvidia-modelopt is missing",
            where=f"precision={precision!r} of the declaration, with release {release.name}",
            expected="the packages of requirements-autocast.txt in this Python",
            why=f"TensorRT {release.tensorrt} is strongly typed: it has no flag for a precision, so the ONNX "
            "file is converted before it is compiled",
            fix=f"pip install --no-deps -r {AUTOCAST_REQUIREMENTS}, or build with a release before 26.06",
            rule="plan-precision",
        )
