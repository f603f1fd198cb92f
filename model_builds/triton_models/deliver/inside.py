"""The program of a `Worker` process: it runs one task after the other until the connection closes."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from triton_models.base.errors import FleetError, Problem
from triton_models.base.processes import tie_to_parent
from triton_models.deliver.worker import LOOK_S, Answer, Reply, died

_OUT, _ERROR = 1, 2


def main(descriptor: int) -> None:
    """Run the tasks that arrive over a connection."""
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

    return _reply(lambda: task(argument, report))


def _reply(task: Callable[[], Any]) -> Reply:
    try:
        return Reply(answer=task())
    except _ApartError as error:
        return Reply(problems=error.problems)
    except FleetError as error:
        traceback.print_exc()
        return Reply(problems=error.problems, sound=not _ran_out_of_memory(error))
    except BaseException as error:  # noqa: BLE001  any error ends only this task
        traceback.print_exc()
        return Reply(problems=(_unexpected(error),), sound=False)


class _ApartError(FleetError):
    """The problems of a function that ran apart, whose traceback is in the log."""


def apart(function: Callable[[], Answer], *, name: str) -> Answer:
    """Call a function in a copy of this process, and return its answer. Its other effects end with the copy.

    The copy is a fork, so it has the frameworks that this process imported. A process that has only imported
    PyTorch may be forked; once it has computed, or used a GPU, a copy would lack its threads and fail.
    https://docs.pytorch.org/docs/stable/notes/multiprocessing.html, read 2026-11-25.

    Raises:
        FleetError: The function failed, or its process ended.
    """
    receiving, sending = Pipe(duplex=False)
    child = os.fork()
    if not child:
        status = 1
        try:
            tie_to_parent()
            sending.send(_reply(function))
            status = 0
        except BaseException:  # noqa: BLE001  an answer that cannot be pickled
            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:  # whatever a model's code has put in their place
                os._exit(status)
    sending.close()
    with receiving:
        reply = _reply_of(child, receiving)
    if isinstance(reply, int):
        raise FleetError([died(name, reply)])
    if reply.problems:
        raise _ApartError(reply.problems)
    answer: Answer = reply.answer
    return answer


def _reply_of(child: int, receiving: Connection) -> Reply | int:
    """Wait for the reply of a copy, or for its exit status. A child of it may hold the pipe open."""
    ended, status, reply = 0, 0, None
    while reply is None and not ended:
        ready = receiving.poll(LOOK_S)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ready or receiving.poll(0):
            try:
                reply = receiving.recv()
            except (EOFError, OSError):
                break
    if not ended:
        _, status = os.waitpid(child, 0)
    return reply if isinstance(reply, Reply) else os.waitstatus_to_exitcode(status)


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
        why="the model could not be built",
        fix="read the full traceback in its log",
        rule="unexpected",
    )


def _last_line(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "the worker process"
