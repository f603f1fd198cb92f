"""Checks of a build machine before any installation: its GPU, and a driver for the release's CUDA.

A build job runs `python3 -m triton_models.builds.tensorrt.driver` to set LD_LIBRARY_PATH. AWS does not
document the drivers of build hosts. If the driver is older than the image's CUDA requires, CUDA's forward
compatibility may help: NVIDIA's images contain a newer user-mode driver in a folder. Their entry point tests
it and puts the folder first, but CodeBuild and Processing replace that entry point. Their bash does the
same by /etc/shinit_v2 (BASH_ENV), unless that was changed. Source, read on 2026-11-22:
https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html

The module needs only the standard library, because no package is installed yet.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from triton_models.base.checks import Check
from triton_models.base.errors import FleetError, raise_if_any
from triton_models.base.outcome import show_problems
from triton_models.builds.tensorrt.machine import gpu_problems, query_gpus
from triton_models.facts.instances import Gpu
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import RELEASES, Release
from triton_models.facts.releases import release as release_named

IMAGE_COMPAT = Path("/usr/local/cuda/compat/lib.real")
"""The folder of the newer user-mode driver in NVIDIA's images."""

DRIVER_TOO_OLD = Check(id="driver-too-old", source="NVIDIA's CUDA compatibility, in facts/releases.py")

_VARIABLE = "LD_LIBRARY_PATH"
_INITIALIZE = "import ctypes, sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0) != 0)"


def library_path(
    *,
    gpu: Gpu,
    release: Release,
    compat: Path = IMAGE_COMPAT,
    environment: Mapping[str, str] = os.environ,
    initializes: Callable[[str], bool] | None = None,
) -> str:
    """Return the library search path with which this machine runs the CUDA of a release."""
    devices = query_gpus("name", "driver_version")
    raise_if_any(gpu_problems(gpu, release, [name for name, _ in devices]))
    given = environment.get(_VARIABLE, "")
    oldest = min((driver for _, driver in devices), key=_numbers)
    if _numbers(oldest) >= _numbers(release.min_driver):
        return given
    helped = given if str(compat) in given.split(":") else ":".join(filter(None, (str(compat), given)))
    if compat.is_dir() and (initializes or _cuda_initializes)(helped):
        sys.stderr.write(f"driver {oldest} is older than {release.min_driver}: CUDA runs by {compat}\n")
        return helped
    raise _too_old(oldest, release, compat)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the search path; for an unsuitable machine, print the reason to standard error and return 1."""
    parser = argparse.ArgumentParser(prog="python3 -m triton_models.builds.tensorrt.driver")
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--release", required=True)
    given = parser.parse_args(arguments)
    try:
        found = library_path(gpu=gpu_named(given.gpu), release=release_named(given.release))
    except FleetError as error:
        show_problems(error.problems)
        return 1
    sys.stdout.write(f"{found}\n")
    return 0


def _cuda_initializes(path: str) -> bool:
    command = [sys.executable, "-c", _INITIALIZE]
    run = subprocess.run(command, env={**os.environ, _VARIABLE: path}, capture_output=True, check=False)
    return run.returncode == 0


def _too_old(driver: str, release: Release, compat: Path) -> FleetError:
    fitting = [
        each.name
        for each in RELEASES.values()
        if each.on_sagemaker and _numbers(each.min_driver) <= _numbers(driver)
    ]
    needed = f"CUDA {release.cuda} of release {release.name} needs {release.min_driver}"
    return DRIVER_TOO_OLD.error(
        what=f"the machine has driver {driver}, without forward compatibility; {needed}",
        where=f"`nvidia-smi --query-gpu=driver_version`, and {compat}",
        why="CUDA would not start, so the build could not compile",
        fix=f"build and serve with release {fitting[-1]}, whose CUDA supports it"
        if fitting
        else "build on another machine: ProcessingJob() or ReservedMachines()",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


if __name__ == "__main__":
    sys.exit(main())
