"""The options of trtexec, by TensorRT's major version.

Source: samples/common/sampleOptions.cpp of NVIDIA/TensorRT at the tags v8.6.1, v10.0.1 to v10.16, v11.0 and
v11.1, read on 2026-11-21. trtexec refuses to start with an unknown option.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import raise_if_any
from triton_models.builds.tensorrt import autocast
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import LEVELS, Hardware, Precision, major, precision_problems

PLAN_PRECISION = Check(id="plan-precision", source=FROM_ARGUMENTS)
INSTALL_AUTOCAST = "python -m triton_models.builds.locked autocast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The flags and conversion for a precision.

    Attributes:
        autocast: The type to convert the ONNX file to first, because a strongly typed network computes in the
            types of its file; None for no conversion.
    """

    flags: tuple[str, ...] = ()
    autocast: Literal["fp16", "bf16"] | None = None


# TF32 is trtexec's default. From TensorRT 11 on, every network is strongly typed and --fp16 does not exist.
# A quantized network says in its file what is quantized. Until TensorRT 10, --fp16 lets the rest be FP16 if
# that is faster (NVIDIA in TensorRT issue 2086, read 2026-11-26); from 11 on, it has the type in the file.
_BY_FLAG = {"fp32": Way(flags=("--noTF32",)), "tf32": Way(), "fp16": Way(flags=("--fp16",))}
_BY_FLAG_10 = {
    **_BY_FLAG,
    "bf16": Way(flags=("--bf16",)),
    "int8": Way(flags=("--int8", "--fp16")),
    "fp8": Way(flags=("--fp8", "--fp16")),
}
_BY_TYPE = {
    "fp32": Way(flags=("--noTF32",)),
    "tf32": Way(),
    "fp16": Way(autocast="fp16"),
    "bf16": Way(autocast="bf16"),
    "int8": Way(flags=("--noTF32",)),
    "fp8": Way(flags=("--noTF32",)),
}
WAYS: Mapping[int, Mapping[str, Way]] = MappingProxyType({8: _BY_FLAG, 10: _BY_FLAG_10, 11: _BY_TYPE})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The options of a plan's compilation; None leaves the choice to trtexec."""

    precision: Precision = "fp32"
    hardware: Hardware = "this-gpu"
    workspace_mb: int | None = None
    optimization_level: int | None = None
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The command line of a trtexec run.

    Attributes:
        profiles: For each profile, the ranges of the inputs with open dimensions. Empty if there are none,
            because trtexec then refuses shapes: "Static model does not take explicit shapes".
        timing_cache: The file of measured times to use and add to.
    """

    trtexec: Path
    onnx: Path
    plan: Path
    release: Release
    profiles: Sequence[Mapping[str, ShapeRange]] = ()
    options: PlanOptions = field(default_factory=PlanOptions)
    timing_cache: Path | None = None

    def arguments(self) -> list[str]:
        """Return the executable and its arguments."""
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
            # The default unit is MiB; 8.6 does not accept a unit.
            yield f"--memPoolSize=workspace:{self.options.workspace_mb}"
        if self.options.optimization_level is not None:
            yield f"--builderOptimizationLevel={self.options.optimization_level}"
        yield from (f"--staticPlugins={plugin}" for plugin in self.options.plugins)

    def _shapes(self) -> Iterator[str]:
        for index, shapes in enumerate(self.profiles):
            if len(self.profiles) > 1:
                yield f"--profile={index}"  # its shapes must follow at once
            for flag in ("min", "opt", "max"):
                sizes = {name: getattr(range_, flag) for name, range_ in sorted(shapes.items())}
                named = (f"{name}:{'x'.join(map(str, size))}" for name, size in sizes.items())
                yield f"--{flag}Shapes={','.join(named)}"


def way(release: Release, precision: Precision) -> Way:
    """Return the entry of `WAYS` for a precision with a release's TensorRT."""
    raise_if_any(precision_problems(precision, release=release, gpu=None, where="the precision of a plan"))
    return WAYS[major(release)][precision]


def check_precision(release: Release, precision: Precision) -> None:
    """Check that this machine supports a precision with a release's TensorRT."""
    if way(release, precision).autocast and not autocast.is_installed():
        raise PLAN_PRECISION.error(
            what=f"precision {precision!r} needs AutoCast, and the package nvidia-modelopt is missing",
            where=f"precision={precision!r} of the declaration, with release {release.name}",
            why=f"TensorRT {release.tensorrt} has no precision flag",
            fix=f"run {INSTALL_AUTOCAST}, or build with a release before 26.06",
        )
