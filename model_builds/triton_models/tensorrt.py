"""Compiling TensorRT plans with trtexec, on the GPU and with the TensorRT that will load them.

A plan loads only on the GPU model and in the TensorRT version that compiled it, down to the patch number
(NVIDIA's TensorRT support matrix; Triton server issues 7221 and 7613). Both are therefore checked before the
compiler starts, and the version is read back from the plan itself.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias

from triton_models.errors import FleetError, Problem, raise_if_any
from triton_models.instances import Gpu
from triton_models.releases import Release

Precision: TypeAlias = Literal["fp32", "tf32", "fp16"]
Version: TypeAlias = tuple[int, ...]

IMAGE_TRTEXEC = Path("/usr/src/tensorrt/bin/trtexec")
"""Where the Triton images have trtexec; it is not on their PATH."""

# trtexec flags by TensorRT major and precision. A precision that is not there cannot be had by a flag.
# Source: samples/common/sampleOptions.cpp of NVIDIA/TensorRT at the tags v8.6.1, v10.0.0 to v10.16, v11.0 and
# v11.1, read on 2026-11-21. TF32 is the default. From 11 on networks are strongly typed, and --fp16 is gone.
FLAGS: Mapping[int, Mapping[Precision, tuple[str, ...]]] = MappingProxyType(
    {
        8: {"fp32": ("--noTF32",), "tf32": (), "fp16": ("--fp16",)},
        10: {"fp32": ("--noTF32",), "tf32": (), "fp16": ("--fp16",)},
        11: {"fp32": ("--noTF32",), "tf32": ()},
    }
)

# "&&&& RUNNING TensorRT.trtexec [TensorRT v101303] [b9] # ..." is the first line of every run: 10.13.3.9.
# Before 10.4 the build number is missing, and TensorRT 8 writes v8601 for 8.6.1 (samples/common/logging.h).
_BANNER = re.compile(r"\[TensorRT v(\d+)\](?: \[b(\d+)\])?")
_FIRST_WITH_TWO_DIGITS = 100_000

# The head of a plan, little-endian (samples/common/sampleEngines.cpp of NVIDIA/TensorRT, getPlanVersionOnly):
# the bytes "ftrt", a zero word, 16 bytes of no interest here, then major, minor, patch and build.
_PLAN_HEAD = struct.Struct("<4sI16x4B")
_PLAN_MAGIC = b"ftrt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRange:
    """The shapes a plan takes for one input, batch first.

    Attributes:
        min: The smallest.
        opt: The one that TensorRT tunes its kernels for.
        max: The largest.
    """

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A trtexec that is known to fit a release, on a machine that has the GPU. `find_compiler` makes it.

    Attributes:
        trtexec: The executable.
        gpu: The GPU it compiles for.
        release: The release whose TensorRT it has.
    """

    trtexec: Path
    gpu: Gpu
    release: Release

    def compile(
        self, onnx: Path, plan: Path, *, shapes: Mapping[str, ShapeRange], precision: Precision = "fp32"
    ) -> str:
        """Compile an ONNX file into a plan.

        Returns:
            The TensorRT version in the plan's head, such as "10.13.3.9".

        Raises:
            FleetError: The precision cannot be had, trtexec failed, or the plan has another version.
        """
        command = self.command(onnx, plan, shapes=shapes, precision=precision)
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if run.returncode or not plan.is_file():
            plan.unlink(missing_ok=True)
            raise FleetError.of(
                what=f"trtexec could not compile {onnx.name} (exit status {run.returncode}): "
                + _complaint(run.stdout + run.stderr),
                where=" ".join(command),
                expected=f"a plan for {self.gpu.name} with TensorRT {self.release.tensorrt}",
                fix="run that command by hand with --verbose; an operator or a shape that TensorRT cannot "
                "take is named in its last error lines",
                rule="plan-compile",
            )
        version = plan_version(plan)
        raise_if_any(_version_problems(version, self.release, where=f"the plan that {self.trtexec} wrote"))
        return version

    def command(
        self, onnx: Path, plan: Path, *, shapes: Mapping[str, ShapeRange], precision: Precision
    ) -> list[str]:
        """The trtexec command line for this release's TensorRT.

        Raises:
            FleetError: The precision cannot be had by a flag of this TensorRT.
        """
        check_precision(self.release, precision)
        command = [str(self.trtexec), f"--onnx={onnx}", f"--saveEngine={plan}", "--skipInference"]
        command += FLAGS[major(self.release)][precision]
        for flag in ("min", "opt", "max"):
            sizes = {name: getattr(range_, flag) for name, range_ in sorted(shapes.items())}
            named = (f"{name}:{'x'.join(map(str, size))}" for name, size in sizes.items())
            command.append(f"--{flag}Shapes={','.join(named)}")
        return command


def check_precision(release: Release, precision: Precision) -> None:
    """Whether a precision can be had by a flag of a release's TensorRT.

    Raises:
        FleetError: It cannot.
    """
    offered = FLAGS[major(release)]
    if precision not in offered:
        raise FleetError.of(
            what=f"TensorRT {release.tensorrt} has no flag for precision {precision!r}",
            where=f"precision={precision!r} of the declaration",
            expected=f"one of {', '.join(offered)}",
            why="its networks are strongly typed: the types are those of the ONNX file",
            fix="convert the ONNX file (python -m modelopt.onnx.autocast) and compile that with 'fp32'",
            rule="plan-precision",
        )


def find_compiler(*, release: Release, gpu: Gpu) -> Compiler:
    """The compiler for a release and a GPU on this machine.

    Raises:
        FleetError: The machine has not that GPU, trtexec is missing, or it belongs to another TensorRT; all
            that is wrong is named together.
    """
    trtexec = _find_trtexec()
    raise_if_any([*_gpu_problems(gpu, release), *_trtexec_problems(trtexec, release)])
    return Compiler(trtexec=trtexec or IMAGE_TRTEXEC, gpu=gpu, release=release)


def plan_version(plan: Path) -> str:
    """The TensorRT version that compiled a plan, from its first 28 bytes.

    Raises:
        FleetError: The file is not a plan.
    """
    with plan.open("rb") as file:
        head = file.read(_PLAN_HEAD.size)
    if len(head) == _PLAN_HEAD.size:
        magic, zero, *version = _PLAN_HEAD.unpack(head)
        if (magic, zero) == (_PLAN_MAGIC, 0):
            return ".".join(map(str, version))
    raise FleetError.of(
        what=f"{plan.name} is not a TensorRT plan",
        where=str(plan),
        expected="a file that starts with 'ftrt', as trtexec --saveEngine writes it",
        why="Triton would refuse it when the model is first invoked",
        fix="build the model again with `fleet build --gpu ...`",
        rule="not-a-plan",
    )


def check_shapes(onnx: Path, shapes: Mapping[str, ShapeRange]) -> None:
    """Compare shape ranges with the inputs of an ONNX file.

    Raises:
        FleetError: An input has no range, a range has no input, or its numbers contradict the input or each
            other; all of it together.
    """
    import onnx as onnx_format

    graph = onnx_format.load(str(onnx), load_external_data=False).graph
    inputs = {
        value.name: tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)
        for value in graph.input
    }
    raise_if_any(
        Problem(
            what=what,
            where=f"compile_plan(..., shapes=...) for {onnx.parent.parent.name}/1/{onnx.name}",
            expected=expected,
            why="trtexec refuses such ranges, and a plan refuses shapes outside of them",
            fix="give every input one ShapeRange of its rank, with min <= opt <= max in every dimension",
            rule="plan-shapes",
        )
        for what, expected in _shape_mistakes(inputs, shapes)
    )


def _shape_mistakes(
    inputs: Mapping[str, tuple[int, ...]], shapes: Mapping[str, ShapeRange]
) -> Iterator[tuple[str, str]]:
    if missing := inputs.keys() - shapes.keys():
        yield f"no range for {', '.join(sorted(missing))}", f"ranges for {', '.join(inputs)}"
    if unknown := shapes.keys() - inputs.keys():
        yield f"a range for {', '.join(sorted(unknown))}", f"ranges for {', '.join(inputs)}"
    for name in sorted(inputs.keys() & shapes.keys()):
        size, range_ = inputs[name], shapes[name]
        given = f"{name}: {range_.min} to {range_.max}, best {range_.opt}"
        if {len(range_.min), len(range_.opt), len(range_.max)} != {len(size)}:
            yield given, f"{len(size)} dimensions in each"
            continue
        for fixed, *ordered in zip(size, range_.min, range_.opt, range_.max, strict=True):
            if ordered != sorted(ordered) or ordered[0] < 1:
                yield given, "1 <= min <= opt <= max in every dimension"
            elif fixed and set(ordered) != {fixed}:  # 0 is a dimension that the network leaves open
                yield given, f"{fixed} in the dimension that the network fixes to {fixed}"


def _find_trtexec() -> Path | None:
    found = shutil.which("trtexec") or shutil.which(IMAGE_TRTEXEC)
    return Path(found) if found else None


def _gpu_problems(gpu: Gpu, release: Release) -> Iterator[Problem]:
    if _number(gpu.compute_capability) < _number(release.min_compute_capability):
        yield Problem(
            what=f"release {release.name} has no TensorRT for {gpu.name} ({gpu.compute_capability})",
            where=f"--gpu {gpu.name} --release {release.name}",
            expected=f"a GPU of capability {release.min_compute_capability} or newer",
            fix="build for another GPU or with an older release",
            rule="gpu-too-old",
        )
    present = _present_gpus()
    if not present or not all(_is_model(name, gpu) for name in present):
        yield Problem(
            what=f"this machine has {', '.join(map(repr, present)) or 'no NVIDIA GPU'}, not {gpu.name}",
            where=f"--gpu {gpu.name}, and `nvidia-smi --query-gpu=name`",
            expected=f"every GPU of the machine to be {gpu.name}",
            why="a plan runs only on the GPU model that compiled it",
            fix="build on such a machine, or leave --gpu out for a portable build",
            rule="gpu-absent",
        )


def _present_gpus() -> list[str]:
    try:
        run = subprocess.run(
            ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return []
    return [line.strip() for line in run.stdout.splitlines() if line.strip()] if run.returncode == 0 else []


def _is_model(marketing_name: str, gpu: Gpu) -> bool:
    """Whether nvidia-smi's name, such as "NVIDIA A100-SXM4-40GB", is that GPU, such as "A100-40GB"."""
    return set(gpu.name.split("-")) <= set(re.split(r"[ -]", marketing_name))


def _trtexec_problems(trtexec: Path | None, release: Release) -> Iterator[Problem]:
    if major(release) not in FLAGS:
        yield Problem(
            what=f"no trtexec flags are known for TensorRT {release.tensorrt}",
            where=f"--release {release.name}",
            expected=f"a release with TensorRT {' or '.join(map(str, FLAGS))}",
            fix="choose a newer release, or add a row to FLAGS in triton_models/tensorrt.py",
            rule="tensorrt-unknown",
        )
    if trtexec is None:
        yield Problem(
            what="trtexec not found",
            where=f"PATH and {IMAGE_TRTEXEC}",
            expected=f"the trtexec of TensorRT {release.tensorrt}",
            fix=f"build inside the image of release {release.name}, or leave --gpu out for a portable build",
            rule="trtexec-missing",
        )
        return
    help_text = subprocess.run(
        [str(trtexec), "--help"], capture_output=True, text=True, errors="replace", check=False
    )
    version = _banner_version(help_text.stdout + help_text.stderr)
    yield from _version_problems(version, release, where=f"{trtexec} --help")


def _banner_version(text: str) -> str:
    match = _BANNER.search(text)
    if not match:
        return "unknown"
    number, build = int(match[1]), match[2]
    base = 100 if number >= _FIRST_WITH_TWO_DIGITS else 10
    parts = [number // 100 // base, number // 100 % base, number % 100]
    return ".".join(map(str, [*parts, build] if build else parts))


def _version_problems(version: str, release: Release, *, where: str) -> Iterator[Problem]:
    """Compare versions as far as both are known: some rows of the release table have three parts."""
    if any(have != want for have, want in zip(version.split("."), release.tensorrt.split("."), strict=False)):
        yield Problem(
            what=f"TensorRT {version}",
            where=where,
            expected=f"TensorRT {release.tensorrt}, which release {release.name} loads",
            why="a plan loads only in the TensorRT version that compiled it",
            fix=f"build inside the image of release {release.name}",
            rule="tensorrt-version",
        )


def major(release: Release) -> int:
    """The major version of a release's TensorRT."""
    return int(release.tensorrt.partition(".")[0])


def _number(version: str) -> Version:
    return tuple(map(int, version.split(".")))


def _complaint(output: str) -> str:
    """The first lines that trtexec marks as errors: the later ones only repeat that it failed."""
    errors = [line.partition("[E]")[2].strip() for line in output.splitlines() if "[E]" in line]
    return "; ".join(errors[:3]) or "it named no error"
