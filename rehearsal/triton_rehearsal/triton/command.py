"""The `tritonserver` of a rehearsed build: the bundled server, with the stand-ins for GPU backends.

In NVIDIA's image the program is on PATH, and a build's commands start it. `install` puts an equivalent on
PATH here; `python -m triton_rehearsal.triton.command` puts it where `fleet verify` finds it. However it or
its caller ends, its guard ends the server and removes the files that it leaves behind.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import triton_models
import triton_rehearsal
from triton_models.base.errors import FleetError
from triton_models.deliver.verify.server import SOCKETS
from triton_rehearsal.triton import guard
from triton_rehearsal.triton.backend_directory import leftovers_of, make_backends, new_mark
from triton_rehearsal.triton.runtime import ENVIRONMENT, find_runtime

PROGRAM = "tritonserver"

_PREFIX_FLAG = "--backend-config=python,shm-region-prefix-name="
_EXIT_MISTAKE, _EXIT_SIGNAL = 1, 128

# Variables of a Python environment here that would affect the Python of the server's models.
_OTHER_PYTHON = {"PYTHONHOME", "VIRTUAL_ENV", "PYTHONUSERBASE"}

_PROGRAM = (
    "import sys; sys.path[:0] = {paths!r}; "
    "from triton_rehearsal.triton.command import main; sys.exit(main(sys.argv[1:]))"
)


def install(folder: Path) -> Path:
    """Put the program into a folder, which is created if missing. Returns the folder, for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(Path(package.__path__[0]).resolve().parent) for package in (triton_rehearsal, triton_models)]
    command = [sys.executable, "-I", "-c", _PROGRAM.format(paths=paths)]
    program = folder / PROGRAM
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    program.chmod(0o755)
    return folder


def main(arguments: Sequence[str]) -> int:
    """Run the server until it ends. SIGTERM and Ctrl-C stop it, like the real one.

    The arguments override those set here. The status is the server's, or 128 and the number of the signal.
    """
    try:
        status = _run(arguments)
    except FleetError as error:
        sys.stderr.write(f"error: {error}\n")
        return _EXIT_MISTAKE
    return status if status >= 0 else _EXIT_SIGNAL - status


def _run(arguments: Sequence[str]) -> int:
    """Run the server. Returns its exit status, or the negative signal that ended it."""
    runtime = find_runtime()
    with tempfile.TemporaryDirectory(prefix="fleet-tritonserver-", ignore_cleanup_errors=True) as folder:
        mark = new_mark()
        make_backends(runtime, Path(folder) / "backends", mark=mark)
        given = [each.removeprefix(_PREFIX_FLAG) for each in arguments if each.startswith(_PREFIX_FLAG)]
        charge = guard.Charge(
            command=[
                str(runtime.server),
                f"--backend-directory={folder}/backends",
                *([] if given else [f"{_PREFIX_FLAG}{mark}"]),
                # A model for a GPU may include configs/cpu.pbtxt. Without this file the name is ignored.
                "--model-config-name=cpu",
                *arguments,
            ],
            environment={
                **{name: value for name, value in os.environ.items() if name not in _OTHER_PYTHON},
                **runtime.variables(),
            },
            directory=folder,
            log="",
            leftovers=[pattern for each in (mark, *given) for pattern in leftovers_of(each)],
            start=str(Path.cwd()),
            sockets=os.environ.get(SOCKETS, ""),
        )
        with guard.start(charge) as guarding:
            server = guard.started(guarding)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda number, _: os.kill(server, number))
            assert guarding.stdout is not None  # noqa: S101  given by PIPE
            return int(guarding.stdout.read() or -signal.SIGKILL)


if __name__ == "__main__":
    install(ENVIRONMENT / "bin")
