"""Detection and checks of this machine's GPU and trtexec."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from triton_models.artifact.networks import PlanHeader
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem, raise_if_any
from triton_models.builds.tensorrt.compiler import COMPILE_TIMEOUT_S, Compiler, version_problems
from triton_models.builds.tensorrt.options import WAYS
from triton_models.builds.tensorrt.timing_cache import TimingCache
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import RELEASE_VARIABLE, Release
from triton_models.facts.tensorrt import major

GPU_TOO_OLD = Check(id="gpu-too-old", source="NVIDIA's support matrix of TensorRT, in facts/releases.py")
GPU_ABSENT = Check(id="gpu-absent", source=FROM_ARGUMENTS)
TENSORRT_UNKNOWN = Check(id="tensorrt-unknown", source=FROM_ARGUMENTS)
TRTEXEC_MISSING = Check(id="trtexec-missing", source=FROM_ARGUMENTS)

IMAGE_TRTEXEC = Path("/usr/src/tensorrt/bin/trtexec")
"""The path of trtexec in the Triton images, where it is not on PATH."""

# "&&&& RUNNING TensorRT.trtexec [TensorRT v101303] [b9] # ..." is the first line of every run: 10.13.3.9.
# Before 10.4 the build number is missing, and TensorRT 8 writes v8601 for 8.6.1 (samples/common/logging.h).
_BANNER = re.compile(r"\[TensorRT v(\d+)\](?: \[b(\d+)\])?")
_FIRST_WITH_TWO_DIGITS = 100_000


def find_compiler(
    *,
    release: Release,
    gpu: Gpu,
    logs: Path,
    timing_cache: TimingCache | None = None,
    timeout_s: float = COMPILE_TIMEOUT_S,
) -> Compiler:
    """Return the compiler for a release and a GPU on this machine.

    In the release's image, its trtexec is right, and the table of releases may be wrong: a difference is a
    warning. Elsewhere it is an error.
    """
    trtexec = find_trtexec()
    devices = [each[0] for each in query_gpus("name")]
    version = trtexec_version(trtexec) if trtexec else "unknown"
    in_image = os.environ.get(RELEASE_VARIABLE) == release.name and version != "unknown"
    if in_image and not PlanHeader(tensorrt=version).loads_in(release.tensorrt):
        sys.stderr.write(
            f"warning: the image of release {release.name} has TensorRT {version}, not {release.tensorrt}: "
            "plans are built with it\n"
        )
        release = replace(release, tensorrt=version)
    raise_if_any([*gpu_problems(gpu, release, devices), *_trtexec_problems(trtexec, version, release)])
    return Compiler(
        trtexec=trtexec or IMAGE_TRTEXEC,
        gpu=gpu,
        release=release,
        device=devices[0],
        # Older versions do not print their build number, but the table has it.
        tensorrt=max(version, release.tensorrt, key=lambda each: each.count(".")),
        logs=logs,
        timing_cache=timing_cache,
        timeout_s=timeout_s,
    )


def find_trtexec() -> Path | None:
    """Return the trtexec on PATH, otherwise the image's; None if there is none."""
    found = shutil.which("trtexec") or shutil.which(IMAGE_TRTEXEC)
    return Path(found) if found else None


def capability_problems(gpu: Gpu, release: Release) -> Iterator[Problem]:
    """Yield a problem if the TensorRT of a release cannot compile for a GPU."""
    if float(gpu.compute_capability) < float(release.min_compute_capability):
        what = f"TensorRT of release {release.name} does not support {gpu.name} ({gpu.compute_capability})"
        needed = f"a GPU of compute capability {release.min_compute_capability} or newer"
        fix = f"build for {needed}, or with an older release"
        where = f"--gpu {gpu.name} --release {release.name}"
        yield GPU_TOO_OLD.problem(what=what, where=where, fix=fix)


def gpu_problems(gpu: Gpu, release: Release, devices: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem if this machine's GPUs, as named by nvidia-smi, are not the required model."""
    yield from capability_problems(gpu, release)
    if not devices or not all(is_model(name, gpu) for name in devices):
        what = f"this machine has {', '.join(map(repr, devices)) or 'no NVIDIA GPU'}, not only {gpu.name}"
        yield GPU_ABSENT.problem(
            what=what,
            where=f"--gpu {gpu.name}, and `nvidia-smi --query-gpu=name`",
            why="a plan runs only on the GPU model that compiled it",
            fix="build on such a machine, or omit --gpu for a portable build",
        )


def query_gpus(*facts: str) -> list[list[str]]:
    """Return facts about each GPU of the machine from nvidia-smi, such as its "name"; empty without a GPU."""
    command = ["nvidia-smi", f"--query-gpu={','.join(facts)}", "--format=csv,noheader"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    lines = [line for line in run.stdout.splitlines() if line.strip()] if run.returncode == 0 else []
    return [[value.strip() for value in line.split(",")] for line in lines]


def is_model(marketing_name: str, gpu: Gpu) -> bool:
    """Return whether nvidia-smi's name, such as "NVIDIA A100-SXM4-40GB", is a GPU, such as "A100-40GB"."""
    return set(gpu.name.split("-")) <= set(re.split(r"[ -]", marketing_name))


def _trtexec_problems(trtexec: Path | None, version: str, release: Release) -> Iterator[Problem]:
    if major(release) not in WAYS:
        yield TENSORRT_UNKNOWN.problem(
            what=f"the trtexec flags of TensorRT {release.tensorrt} are unknown",
            where=f"--release {release.name}",
            fix="choose a newer release, or add a row to WAYS in triton_models/builds/tensorrt/options.py",
        )
    if trtexec is None:
        yield TRTEXEC_MISSING.problem(
            what="trtexec not found",
            where=f"PATH and {IMAGE_TRTEXEC}",
            fix=f"build inside the image of release {release.name}, or omit --gpu for a portable build",
        )
    else:
        yield from version_problems(version, release, where=f"{trtexec} --help")


def trtexec_version(trtexec: Path) -> str:
    """Return the TensorRT version of a trtexec, from its banner."""
    run = subprocess.run(
        [str(trtexec), "--help"], capture_output=True, text=True, errors="replace", check=False
    )
    match = _BANNER.search(run.stdout + run.stderr)
    if not match:
        return "unknown"
    number, build = int(match[1]), match[2]
    base = 100 if number >= _FIRST_WITH_TWO_DIGITS else 10
    parts = [number // 100 // base, number // 100 % base, number % 100]
    return ".".join(map(str, [*parts, build] if build else parts))
