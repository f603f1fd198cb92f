"""Unpacks an artifact with the reader of `fleet check`.

An endpoint may accept more. SageMaker's reader is not documented, so everything on which readers disagree is
refused here.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import IO

from triton_models.artifact import archive
from triton_models.base.errors import FleetError


class BadArtifactError(Exception):
    """The object is not an archive that an endpoint unpacks."""


def unpack(stream: IO[bytes], folder: Path) -> None:
    """Unpack a .tar.gz into a folder, which appears only when it is complete.

    Raises:
        BadArtifactError: The tarball breaks a rule of `triton_models.artifact.archive`. Nothing stays on the
            disk.
    """
    try:
        archive.unpack(stream, folder, where="the archive")
    except FleetError as error:
        found = (f"{each.what} in {each.where} [{each.rule}]" for each in itertools.islice(error.problems, 3))
        raise BadArtifactError("; ".join(found)) from error
