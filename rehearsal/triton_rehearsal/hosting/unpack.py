"""Unpacks an artifact with the reader of `fleet check`.

An endpoint may accept more. SageMaker's reader is not documented, so everything on which readers disagree is
refused here.
"""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import IO

from triton_models.artifact import archive
from triton_models.base.errors import FleetError
from triton_rehearsal.assumptions import holds

_GZIP_HEAD = 10
_COMPRESSED = 0b110


class BadArtifactError(Exception):
    """The object is not an archive that an endpoint unpacks."""


def unpack(stream: IO[bytes], folder: Path) -> None:
    """Unpack a .tar.gz into a folder, which appears only when it is complete.

    Raises:
        BadArtifactError: The tarball breaks a rule of `triton_models.artifact.archive`. Nothing stays on the
            disk.
    """
    if not holds("unpacker_takes_stored_blocks"):
        stream = _without_stored_blocks(stream)
    try:
        archive.unpack(stream, folder, where="the archive", executables=holds("executable_bits_kept"))
    except FleetError as error:
        found = (f"{each.what} in {each.where} [{each.rule}]" for each in itertools.islice(error.problems, 3))
        raise BadArtifactError("; ".join(found)) from error


def _without_stored_blocks(stream: IO[bytes]) -> IO[bytes]:
    """Return the stream, or refuse it if its first DEFLATE block is stored without compression."""
    content = stream.read()
    if content[_GZIP_HEAD : _GZIP_HEAD + 1] and not content[_GZIP_HEAD] & _COMPRESSED:
        message = "invalid block type"
        raise BadArtifactError(message)
    return io.BytesIO(content)
