"""Facts about a machine: its GPUs, its image, and the output of commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from triton_models.base.processes import end_group, tie_to_parent
from triton_models.builds.tensorrt.machine import query_gpus

COMMAND_S = 120.0
"""The time limit of a command: the first CUDA program on a cold machine takes half a minute."""

IMAGE_VARIABLE = "NVIDIA_TRITON_SERVER_VERSION"
"""The variable that Triton's images set to their release; see the belief image-names-release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenGpu:
    """A GPU as nvidia-smi shows it.

    Attributes:
        name: Its name, such as "NVIDIA A10G".
        driver: The host's driver, such as "580.82.07".
        capability: Its compute capability; empty if nvidia-smi is too old to report it.
        memory_mib: Its memory; 0 if nvidia-smi does not report it.
    """

    name: str
    driver: str
    capability: str = ""
    memory_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The result of a command.

    Attributes:
        status: The exit status; 127 if the command does not exist, 124 on a timeout.
        output: The output on both streams.
    """

    status: int
    output: str

    @property
    def last(self) -> str:
        """The last line of the output."""
        return next((line.strip() for line in reversed(self.output.splitlines()) if line.strip()), "")


def ran(*command: str, environment: Mapping[str, str] | None = None, seconds: float = COMMAND_S) -> Ran:
    """Run a command to its end or its time limit, and leave none of its processes behind."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd="/",
            env=environment,
            start_new_session=True,
            preexec_fn=tie_to_parent,  # noqa: PLW1509  a lone prctl call
        )
    except OSError as error:
        return Ran(status=127, output=f"{command[0]}: {error.strerror}")
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Ran(status=124, output=f"{command[0]}: no end after {seconds:g} seconds")
    finally:
        end_group(process)
    return Ran(status=process.returncode, output=output)


def seen_gpus() -> tuple[SeenGpu, ...]:
    """Return the machine's GPUs; empty without a GPU or its driver."""
    answer = query_gpus("name", "driver_version", "compute_cap", "memory.total") or [
        [*each, "", ""] for each in query_gpus("name", "driver_version")
    ]
    return tuple(
        SeenGpu(name=name, driver=driver, capability=capability, memory_mib=_mib(memory))
        for name, driver, capability, memory in answer
    )


def image_release(environment: Mapping[str, str] | None = None) -> str | None:
    """Return the release of the Triton image that this runs in; None outside of one."""
    return (os.environ if environment is None else environment).get(IMAGE_VARIABLE) or None


def image_python() -> str:
    """Return the path of the image's own python3, even in a virtual environment."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if sys.prefix != sys.base_prefix:
        own = {Path(sys.prefix) / "bin", Path(sys.executable).parent}
        folders = [folder for folder in folders if Path(folder) not in own]
    return shutil.which("python3", path=os.pathsep.join(folders)) or "python3"


def python_says(program: str) -> Ran:
    """Run a program in the image's Python, with the image's PYTHONPATH and without user packages."""
    return ran(image_python(), "-s", "-c", program)


def _mib(memory: str) -> int:
    """Return the number in "23028 MiB"; 0 without a number."""
    number = memory.partition(" ")[0]
    return int(number) if number.isdigit() else 0
