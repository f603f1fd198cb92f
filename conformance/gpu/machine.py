"""The machine that is asked: its image, its GPUs, and the output of commands."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from triton_models.builds.tensorrt.machine import is_model, query_gpus
from triton_models.facts.instances import GPUS, Gpu
from triton_models.facts.releases import DEFAULT_RELEASE, Release
from triton_models.facts.releases import release as release_named

IMAGE_VARIABLE = "NVIDIA_TRITON_SERVER_VERSION"
"""The variable that Triton's images set to their release; see the belief image-names-release."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine, with the name, driver, compute capability and memory of each GPU, as nvidia-smi shows them.

    `gpu` is the row of the GPU table for all of them; None without one.
    """

    release: Release
    gpus: list[list[str]]
    gpu: Gpu | None

    @property
    def place(self) -> str:
        return self.gpu.name if self.gpu else self.gpus[0][0] if self.gpus else "no GPU"

    @property
    def present(self) -> Gpu:
        """The GPU; a test that needs one is skipped without it."""
        if self.gpu is None:
            pytest.skip(f"{self.place} is not in the GPU table")
        return self.gpu


@functools.cache
def machine(wanted: str | None) -> Machine:
    """Return this machine. If its image does not name its release, it has the wanted one."""
    image = os.environ.get(IMAGE_VARIABLE)
    if image and wanted not in {None, image}:
        msg = f"this container is of release {image}, not {wanted}: omit --release"
        raise pytest.UsageError(msg)
    gpus = [list(each) for each in query_gpus("name", "driver_version", "compute_cap", "memory.total")]
    same = (gpu for gpu in GPUS.values() if gpus and all(is_model(each[0], gpu) for each in gpus))
    return Machine(release=release_named(wanted or image or DEFAULT_RELEASE), gpus=gpus, gpu=next(same, None))


def lacking(needs: set[str]) -> str:
    """Return why this machine is not the one that a test needs; empty if it is."""
    if "image" in needs and not os.environ.get(IMAGE_VARIABLE):
        return f"this is not the image of a Triton release: {IMAGE_VARIABLE} is not set"
    if "GPU" in needs and not query_gpus("name"):
        return "this machine has no NVIDIA GPU: nvidia-smi shows none"
    return ""


def run(*command: str, seconds: float = 120.0, **variables: str) -> str:
    """Return the last line of a command's output; its status and output if it fails."""
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds,
        cwd="/",
    )
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    if done.returncode:
        return f"status {done.returncode}: {' | '.join(lines[-5:])}"
    return (lines or [""])[-1]


def image_python() -> str:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if sys.prefix != sys.base_prefix:
        folders = [each for each in folders if Path(each) != Path(sys.prefix) / "bin"]
    return shutil.which("python3", path=os.pathsep.join(folders)) or "python3"


def python(program: str) -> str:
    """Return what a program prints in the image's Python, without the user's packages."""
    return run(image_python(), "-s", "-c", program)


def numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def alike(found: str, expected: str) -> bool:
    return all(own == other for own, other in zip(found.split("."), expected.split("."), strict=False))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def variable(name: str) -> Any:
    return os.environ.get(name)
