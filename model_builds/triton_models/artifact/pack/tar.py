"""Headers of a tar archive (POSIX.1-2001, "pax") that contain only the name, size and kind of an entry.

Python's tarfile also writes them, but its bytes depend on the version of Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

BLOCK_BYTES = 512

# Two empty blocks end an archive.
END = bytes(2 * BLOCK_BYTES)

_FILE, _FOLDER, _EXTENDED = b"0", b"5", b"x"

# The only file of an artifact that must be executable: Python finds an environment by the first executable
# python3 on PATH. Up to release 25.07, Triton runs bin/activate, which can make it executable; from 25.08 on,
# nothing does (ParseActivationScript in src/pb_utils.cc of python_backend, commit 8b5a055 of 2025-08-13).
_INTERPRETER = "/bin/python3"
_NAME_BYTES = 100
_MAX_SIZE = 8 * 1024**3 - 1  # eleven octal digits


def file_header(name: str, size: int) -> bytes:
    """Return the header before a file's content."""
    mode = 0o755 if name.endswith(_INTERPRETER) else 0o644
    return _header(name, size=size, mode=mode, kind=_FILE)


def folder_header(name: str) -> bytes:
    """Return the header of a folder."""
    return _header(f"{name}/", size=0, mode=0o755, kind=_FOLDER)


def frames(directories: Collection[str], sizes: Mapping[str, int]) -> Iterator[tuple[bytes, str | None]]:
    """Yield an archive without its contents: what precedes that of each file, with the file; None at the end.

    Args:
        directories: The paths of folders.
        sizes: The size of each file, by its path.
    """
    before = b""
    for name in sorted({*directories, *sizes}):
        if name in directories:
            before += folder_header(name)
            continue
        yield before + file_header(name, sizes[name]), name
        before = _padding(sizes[name])
    yield before + END, None


def _padding(size: int) -> bytes:
    return bytes(-size % BLOCK_BYTES)


def _header(name: str, *, size: int, mode: int, kind: bytes) -> bytes:
    extended = b""
    if not name.isascii() or len(name) > _NAME_BYTES:
        extended += _record("path", name)
    if size > _MAX_SIZE:
        extended += _record("size", str(size))
        size = 0
    block = _block(name, size=size, mode=mode, kind=kind)
    if not extended:
        return block
    before = _block("././@PaxHeader", size=len(extended), mode=0o644, kind=_EXTENDED)
    return before + extended + _padding(len(extended)) + block


def _record(key: str, value: str) -> bytes:
    """Return a line of an extended header, which starts with its own length."""
    line = f" {key}={value}\n".encode()
    size = len(line) + 1
    while len(str(size)) + len(line) != size:
        size = len(str(size)) + len(line)
    return str(size).encode() + line


def _block(name: str, *, size: int, mode: int, kind: bytes) -> bytes:
    before = b"".join(
        (
            name.encode("ascii", "replace")[:_NAME_BYTES].ljust(_NAME_BYTES, b"\0"),
            b"%07o\0" % mode,
            b"0000000\0" * 2,  # user and group
            b"%011o\0" % size,
            b"00000000000\0",  # time
        )
    )
    after = b"".join(
        (
            kind,
            bytes(100),  # the target of a link
            b"ustar\00000",
            bytes(64),  # names of user and group
            b"0000000\0" * 2,  # device
            bytes(155 + 12),
        )
    )
    checksum = sum(before) + sum(after) + 8 * ord(" ")
    return before + b"%06o\0 " % checksum + after
