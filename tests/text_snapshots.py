"""Snapshots of messages, one file each, readable in the form in which they are shown."""

from __future__ import annotations

from pathlib import Path

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation


class TextFile(SingleFileSnapshotExtension):
    """A file in tests/snapshots."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        """Return the folder of a test module."""
        return str(Path(__file__).parent / "snapshots" / test_location.basename)
