"""The program of a `Worker` process: it runs one task after the other until the connection closes."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from triton_models.base.errors import FleetError, Problem
from triton_models.deliver.worker import Reply

_OUT, _ERROR = 1, 2


def main(descriptor: int) -> None:
    """Run the tasks that arrive over a connection.

    Args:
        descriptor: The connection's file descriptor; child processes must not inherit it.
    """
    os.set_inheritable(descriptor, False)  # noqa: FBT003  positional only
    os.dup2(_ERROR, _OUT)  # standard output belongs to the result of the command
    signal.signal(signal.SIGTERM, _stop)
    faulthandler.enable()  # on a crash, log the line of Python that led to it
    connection = Connection(descriptor)
    folder, variables = Path.cwd(), dict(os.environ)
    while True:
        try:
            task, argument, log = connection.recv()
        except (EOFError, OSError):
            return
        with _speaking_into(log):
            reply = _done(task, argument, connection)
        try:
            connection.send(reply)
        except OSError:  # the parent has stopped waiting
            return
        # One model's code must not affect the next one's.
        os.chdir(folder)
        if dict(os.environ) != variables:
            os.environ.clear()
            os.environ.update(variables)


def _done(task: Any, argument: Any, connection: Connection) -> Reply:
    def report(step: str) -> None:
        sys.stderr.write(f"{step} ...\n")  # the last line of a log shows the step that failed
        sys.stderr.flush()
        connection.send(step)

    try:
        return Reply(answer=task(argument, report))
    except FleetError as error:
        traceback.print_exc()
        return Reply(problems=error.problems, sound=not _ran_out_of_memory(error))
    except BaseException as error:  # noqa: BLE001  any error ends only this task
        traceback.print_exc()
        return Reply(problems=(_unexpected(error),), sound=False)


def _ran_out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _stop(*_: object) -> None:
    """End the task and the process, and with it everything it started."""
    sys.exit("stopped")


@contextlib.contextmanager
def _speaking_into(log: Path | None) -> Iterator[None]:
    """Redirect the output of this process and its children to a file."""
    if log is None:
        yield
        return
    kept = os.dup(_ERROR)
    with log.open("ab") as file:
        _redirect(file.fileno())
    try:
        yield
    finally:
        _redirect(kept)
        os.close(kept)


def _redirect(descriptor: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a model's code may have replaced it
            stream.flush()
    os.dup2(descriptor, _OUT)
    os.dup2(descriptor, _ERROR)


def _unexpected(error: BaseException) -> Problem:
    said = str(error).partition("\n")[0]
    return Problem(
        what=f"{type(error).__name__}: {said}" if said else type(error).__name__,
        where=_last_line(error),
        expected="code that returns, or raises an Exception",
        why="the model could not be built",
        fix="read the full traceback in its log",
        rule="unexpected",
    )


def _last_line(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "the worker process"
