"""What runs inside the process of a `Worker`: one task after the other, until nobody asks any more."""

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
    """Do the tasks that come over a connection.

    Args:
        descriptor: The connection's file descriptor, which what this starts must not hold open.
    """
    os.set_inheritable(descriptor, False)  # noqa: FBT003  it takes it so
    os.dup2(_ERROR, _OUT)  # standard output belongs to the result of the command
    signal.signal(signal.SIGTERM, _stop)
    faulthandler.enable()  # a crash is told with the line of Python that led to it, in the log
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
        except OSError:  # nobody waits for it any more
            return
        # What one model's code changes must not reach the next one's.
        os.chdir(folder)
        if dict(os.environ) != variables:
            os.environ.clear()
            os.environ.update(variables)


def _done(task: Any, argument: Any, connection: Connection) -> Reply:
    def report(step: str) -> None:
        sys.stderr.write(f"{step} ...\n")  # a log that ends says what it was at
        sys.stderr.flush()
        connection.send(step)

    try:
        return Reply(answer=task(argument, report))
    except FleetError as error:
        traceback.print_exc()
        return Reply(problems=error.problems, sound=not _ran_out_of_memory(error))
    except BaseException as error:  # noqa: BLE001  whatever it is, it is this task's end and not the others'
        traceback.print_exc()
        return Reply(problems=(_unexpected(error),), sound=False)


def _ran_out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _stop(*_: object) -> None:
    """End the task, and with the connection closed the process, so that what it has running is ended too."""
    sys.exit("stopped")


@contextlib.contextmanager
def _speaking_into(log: Path | None) -> Iterator[None]:
    """Let all that is printed go into a file, by what this process starts as well."""
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
        with contextlib.suppress(Exception):  # a model's code may have put anything there
            stream.flush()
    os.dup2(descriptor, _OUT)
    os.dup2(descriptor, _ERROR)


def _unexpected(error: BaseException) -> Problem:
    said = str(error).partition("\n")[0]
    return Problem(
        what=f"{type(error).__name__}: {said}" if said else type(error).__name__,
        where=_last_line(error),
        expected="code that returns, or raises an Exception that says what is wrong",
        why="the model could not be made",
        fix="read its log, which has the whole traceback",
        rule="unexpected",
    )


def _last_line(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "the worker process"
