"""The entries of a tar archive: header blocks, joined with the extended headers before them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from triton_models.artifact.unpacking import headers
from triton_models.artifact.unpacking.extended import lines_of, long_name, refuse_for_all
from triton_models.artifact.unpacking.headers import Header
from triton_models.artifact.unpacking.limits import Limits
from triton_models.artifact.unpacking.refusals import RefusedError, shown
from triton_models.artifact.unpacking.tape import BLOCK_BYTES, Content, Tape

_EXTENSIONS = frozenset({headers.EXTENDED, headers.FOR_ALL, headers.LONG_NAME, headers.LONG_LINK})
_MEMBERS = headers.FILES | headers.LINKS | headers.DEVICES | {headers.FOLDER}
_KINDS = {
    b"7": "a contiguous file",
    b"S": "a sparse file",
    b"V": "a volume label",
    b"M": "the rest of a file on another volume",
    b"D": "a folder of an incremental backup",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, folder, link or device described by its headers."""

    name: bytes
    kind: bytes
    size: int
    mode: int
    content: Content


@dataclass(slots=True)
class _Before:
    """The values of the extended headers before a member."""

    lines: Mapping[bytes, bytes] | None = None
    long: dict[bytes, bytes] = field(default_factory=dict)
    for_all: bool = False

    def __bool__(self) -> bool:
        return self.lines is not None or bool(self.long)


def entries(tape: Tape, limits: Limits) -> Iterator[Entry]:
    """Yield every entry, to the end of the archive.

    Raises:
        RefusedError: The archive cannot be read any further.
    """
    before = _Before()
    while block := tape.block():
        if block.count(0) == BLOCK_BYTES:
            if before or before.for_all:
                raise _unfinished()
            _refuse_after_end(tape)
            return
        header = headers.parse(block)
        if header.kind in _EXTENSIONS:
            _extend(before, header, _extension(tape, header, limits))
            continue
        entry = _entry(header, before, tape)
        yield entry
        entry.content.skip()
        tape.skip(-entry.size % BLOCK_BYTES)
        before = _Before()
    raise RefusedError("archive-damaged", "the archive does not end with two blocks of zeros")


def _extension(tape: Tape, header: Header, limits: Limits) -> bytes:
    if header.size > limits.header_bytes:
        raise RefusedError("archive-limit", f"an extended header of {header.size} bytes")
    content = tape.read(header.size)
    if tape.read(-header.size % BLOCK_BYTES).strip(b"\0"):  # tarfile reads on to the end of the block
        raise RefusedError("archive-ambiguous", "bytes after the end of an extended header")
    return content


def _extend(before: _Before, header: Header, content: bytes) -> None:
    if header.kind == headers.FOR_ALL:
        if before:
            raise _unfinished()
        refuse_for_all(lines_of(content))
        before.for_all = True
    elif header.kind == headers.EXTENDED:
        if before:
            raise _unfinished()
        before.lines = lines_of(content)
    else:
        if before.lines is not None or header.kind in before.long:
            raise RefusedError("archive-ambiguous", "two extended headers for one member")
        before.long[header.kind] = long_name(content)


def _unfinished() -> RefusedError:
    return RefusedError("archive-ambiguous", "an extended header that no member follows")


def _entry(header: Header, before: _Before, tape: Tape) -> Entry:
    if header.kind not in _MEMBERS:
        kind = _KINDS.get(header.kind, f"a member of the unknown type {header.kind!r}")
        raise RefusedError("archive-kind", f"{kind}: {shown(header.name)!r}")
    if header.kind == b"\0" and header.name.endswith(b"/"):
        raise RefusedError(
            "archive-ambiguous", f"a file whose name ends with a slash: {shown(header.name)!r}"
        )
    lines = before.lines or {}
    name = lines.get(b"path", before.long.get(headers.LONG_NAME, header.name))
    size = _size(header, lines, name)
    if size and header.kind not in headers.FILES:
        raise RefusedError(
            "archive-ambiguous", f"{size} bytes in a member that is not a file: {shown(name)!r}"
        )
    return Entry(name, header.kind, size, header.mode, Content(tape, size))


def _size(header: Header, lines: Mapping[bytes, bytes], name: bytes) -> int:
    """Return the size; an extended header may override it only if it exceeds the header block's field."""
    size = int(lines.get(b"size", header.size))
    if size != header.size and size < headers.EIGHT_GIB:
        what = f"two sizes of {shown(name)!r}: {header.size} and {size}"
        raise RefusedError("archive-ambiguous", what)
    return size


def _refuse_after_end(tape: Tape) -> None:
    zeros = 0
    for piece in tape.rest():
        if bytes(piece).count(0) != len(piece):
            raise RefusedError("archive-trailing", "bytes after the end of the tar archive")
        zeros += len(piece)
    if zeros < BLOCK_BYTES:
        raise RefusedError("archive-damaged", "the archive does not end with two blocks of zeros")
