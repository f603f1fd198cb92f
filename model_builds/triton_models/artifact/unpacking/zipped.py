"""The entries of a zip archive, in the form of those of a tar archive.

zipfile compares each local header with the central directory, and each content with its CRC-32. It neither
limits sizes nor knows links: `extractall` writes a link as a file, and keeps the last of several with a name.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO

from triton_models.artifact.unpacking import headers
from triton_models.artifact.unpacking.entries import Entry
from triton_models.artifact.unpacking.inflate import refuse_bomb
from triton_models.artifact.unpacking.limits import Limits
from triton_models.artifact.unpacking.refusals import RefusedError, shown
from triton_models.artifact.unpacking.tape import Content, Tape
from triton_models.base.errors import FleetError

_PIECE_BYTES = 1 << 20
_ENCRYPTED = 0x1  # of the general purpose flags
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})  # LZMA's dictionary can take 4 GiB of memory

# What zipfile raises about damaged archives.
_DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, OverflowError)


def zip_entries(
    source: IO[bytes], limits: Limits, failure: Callable[[RefusedError], FleetError]
) -> Iterator[Entry]:
    """Yield every entry of a zip archive.

    Args:
        source: The archive, which can be read anywhere.
        limits: The limits of its size.
        failure: Returns the error that readers of damaged content get.

    Raises:
        RefusedError: The archive cannot be read any further.
        OSError: The source cannot be read.
    """
    size = source.seek(0, 2)
    try:
        opened = zipfile.ZipFile(source)
    except _DAMAGES as error:
        raise RefusedError("archive-damaged", f"not a valid zip archive: {error}") from None
    unpacked = 0
    with opened:
        for info in opened.infolist():
            parts = _parts(opened, info, lambda so_far: refuse_bomb(size, so_far, limits), before=unpacked)
            tape = Tape(parts, failure)
            entry = _entry(info, Content(tape, info.file_size))
            yield entry
            entry.content.skip()
            if next(tape.rest(), None) is not None:
                raise RefusedError("archive-damaged", f"more bytes than declared: {shown(info.filename)!r}")
            unpacked += info.file_size


def _entry(info: zipfile.ZipInfo, content: Content) -> Entry:
    name = shown(info.orig_filename)
    if "\0" in info.orig_filename:  # zipfile drops the rest
        raise RefusedError("archive-name", f"a name with a NUL: {name!r}")
    if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
        raise RefusedError(
            "archive-kind", f"encrypted, or compressed by another method than deflate: {name!r}"
        )
    mode = info.external_attr >> 16
    if info.is_dir() and info.file_size:
        raise RefusedError("archive-ambiguous", f"{info.file_size} bytes in a folder: {name!r}")
    return Entry(info.filename.encode(), _kind(mode, folder=info.is_dir()), info.file_size, mode, content)


def _kind(mode: int, *, folder: bool) -> bytes:
    """Return the kind in the words of tar. Only archives written on Unix have a mode."""
    if stat.S_ISLNK(mode):
        return b"2"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return b"6"
    return headers.FOLDER if folder else b"0"


def _parts(
    opened: zipfile.ZipFile, info: zipfile.ZipInfo, check: Callable[[int], None], *, before: int
) -> Iterator[bytes]:
    """Yield a content in parts, while all of them stay within the limits."""
    done = before
    try:
        with opened.open(info) as content:
            while piece := content.read(_PIECE_BYTES):
                done += len(piece)
                check(done)
                yield piece
    except _DAMAGES as error:
        raise RefusedError("archive-damaged", f"{shown(info.filename)!r} cannot be read: {error}") from None
