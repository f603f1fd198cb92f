"""Restricts a server and its children to their user: no port and no memory that other users can access.

Triton binds its SageMaker port on every address and does not authenticate callers, so anyone who reaches this
port can load and run a model's code. Its shared memory, through which requests pass, is open to every user.
Therefore the kernel asks this process about some of the server's calls (a seccomp user notification, Linux
5.9):

- bind(): a TCP port becomes a Unix socket with the port's number as its name, in a folder of the user.
  Nothing listens on the network. A call without a port number gets a port of the loopback interface.
- fchmod() of shared memory: the permissions of other users are removed.

This does not isolate the code of a model, which runs as this machine's user.

Only the standard library, so that the guard starts in milliseconds. Source of the numbers, read on
2026-11-22:
https://man7.org/linux/man-pages/man2/seccomp_unotify.2.html, <linux/seccomp.h>, <linux/audit.h>
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import stat
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_CONTINUE = 1
_SETFD = 1

_RECEIVE, _ANSWER, _REPLACE = 0xC0502100, 0xC0182101, 0x40182103
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_REPLACEMENT = struct.Struct("=QIIII")

_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_OFFSET_OF_CALL, _OFFSET_OF_ARCHITECTURE = 0, 4
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108  Linux's folder for it
_LONGEST_ADDRESS = 28  # sockaddr_in6
_LONGEST_NAME = 107  # sockaddr_un, and a null byte


@dataclass(frozen=True)
class _Calls:
    audit: int
    bind: int
    fchmod: int
    seccomp: int
    pidfd_getfd: int = 438
    pidfd_open: int = 434


@dataclass(frozen=True)
class _Call:
    """A call that the kernel asks about: the first eight fields of its notification."""

    question: int
    thread: int
    flags: int
    number: int
    architecture: int
    instruction: int
    descriptor: int
    argument: int


_CALLS = {
    "x86_64": _Calls(audit=0xC000003E, bind=49, fchmod=91, seccomp=317),
    "aarch64": _Calls(audit=0xC00000B7, bind=200, fchmod=52, seccomp=277),
}
_libc = ctypes.CDLL(None, use_errno=True)


def ask_about_own_calls(to: socket.socket) -> None:
    """From now on, let another process decide on the system calls of this process and its children.

    Called in the child of a fork, before it becomes the server. The socket sends the descriptor for
    `answer_calls` to the other end, or the reason why the kernel refuses.
    """
    try:
        listener = _filtered_calls()
    except OSError as error:
        to.send(str(error).encode())
        raise
    socket.send_fds(to, [b"."], [listener])
    os.close(listener)


def _filtered_calls() -> int:
    """Return a descriptor from which the calls of this process can be read."""
    calls = _calls()
    # A process that filters its calls must not gain privileges from a program of another user.
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    instructions = [
        (_LOAD, 0, 0, _OFFSET_OF_ARCHITECTURE),
        (_JUMP_IF_EQUAL, 0, 4, calls.audit),
        (_LOAD, 0, 0, _OFFSET_OF_CALL),
        (_JUMP_IF_EQUAL, 1, 0, calls.bind),
        (_JUMP_IF_EQUAL, 0, 1, calls.fchmod),
        (_RETURN, 0, 0, _ASK),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in instructions))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(code)))
    return _checked(_libc.syscall(calls.seccomp, _SET_MODE_FILTER, _NEW_LISTENER, program))


def answer_calls(by: socket.socket, folder: Path | None, *, report: Callable[[str], object]) -> None:
    """Answer the calls of a child that called `ask_about_own_calls`, in a thread, as long as the child lives.

    Each socket in the folder is named after its port. Without one, ports stay ports of the loopback
    interface.
    """
    _, (listener, *_), _, _ = socket.recv_fds(by, 1, 1)
    threading.Thread(target=_answer, args=(listener, folder, report), daemon=True).start()


def _answer(listener: int, folder: Path | None, report: Callable[[str], object]) -> None:
    events = select.poll()
    events.register(listener, select.POLLIN)
    while events.poll()[0][1] & select.POLLIN:
        asked = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, asked)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT):  # the caller is gone
                continue
            return
        call = _Call(*_NOTIFICATION.unpack(asked)[:8])
        try:
            answer = _RESPONSE.pack(call.question, 0, 0, _done(listener, call, folder))
        except OSError as error:
            report(f"system call {call.number} of thread {call.thread}: {error}")
            answer = _RESPONSE.pack(call.question, 0, -(error.errno or errno.EACCES), 0)
        with suppress(FileNotFoundError):  # the caller is gone
            fcntl.ioctl(listener, _ANSWER, bytearray(answer))


def _done(listener: int, call: _Call, folder: Path | None) -> int:
    """Perform the allowed part of a call. Returns the flags of the answer."""
    if call.number == _calls().bind:
        return _bind(listener, call, folder)
    place = Path(f"/proc/{call.thread}/fd/{call.descriptor}")
    if not str(place.readlink()).startswith(_SHARED_MEMORY):
        return _CONTINUE
    place.chmod(call.argument & stat.S_IRWXU)
    return 0


def _bind(listener: int, call: _Call, folder: Path | None) -> int:
    with _socket_of(call) as theirs:
        if theirs.family not in (socket.AF_INET, socket.AF_INET6):
            return _CONTINUE
        with Path(f"/proc/{call.thread}/mem").open("rb", buffering=0) as memory:
            memory.seek(call.argument)
            given = memory.read(_LONGEST_ADDRESS)
        port = int.from_bytes(given[2:4], "big")
        if folder is None or not port or theirs.type != socket.SOCK_STREAM:
            theirs.bind(("::1" if theirs.family == socket.AF_INET6 else "127.0.0.1", port))
            return 0
        with _private(folder, port) as ours:
            ours.setblocking(theirs.getblocking())
            replacement = _REPLACEMENT.pack(
                call.question, _SETFD, ours.fileno(), call.descriptor, os.O_CLOEXEC
            )
            fcntl.ioctl(listener, _REPLACE, bytearray(replacement))
    return 0


def _private(folder: Path, port: int) -> socket.socket:
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    name = str(folder / str(port))
    place = os.open(folder, os.O_PATH)
    try:
        # The path may be too long for a socket's name; the folder's descriptor then shortens it.
        ours.bind(name if len(os.fsencode(name)) <= _LONGEST_NAME else f"/proc/self/fd/{place}/{port}")
    except BaseException:
        ours.close()
        raise
    finally:
        os.close(place)
    return ours


def _socket_of(call: _Call) -> socket.socket:
    status = Path(f"/proc/{call.thread}/status").read_text()
    process = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Tgid:"))
    calls = _calls()
    handle = _checked(_libc.syscall(calls.pidfd_open, process, 0))
    try:
        return socket.socket(fileno=_checked(_libc.syscall(calls.pidfd_getfd, handle, call.descriptor, 0)))
    finally:
        os.close(handle)


def _calls() -> _Calls:
    machine = platform.machine()
    if machine not in _CALLS:
        raise OSError(errno.ENOSYS, f"the system calls of {machine} are not known")
    return _CALLS[machine]


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
