"""Folders written to a temporary place and then moved, so that they are always complete."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from triton_models.artifact.layout import BUILD_FILE
from triton_models.base.errors import FleetError


def refuse_foreign(target: Path) -> None:
    """Refuse to replace a folder that `fleet build` did not write.

    Raises:
        FleetError: Another file or folder exists there.
    """
    if target.exists() and not (target / BUILD_FILE).is_file():
        raise FleetError.of(
            what=f"{target} exists and is not a build",
            where="the output folder (-o)",
            why="a build replaces the folder",
            fix=f"move it away, or choose a new folder, or that of an earlier build with its {BUILD_FILE}",
            rule="output-taken",
        )


@contextlib.contextmanager
def staging_folder(output: Path, name: str) -> Iterator[Path]:
    """Yield a temporary folder next to the target, so that moving a finished build is a rename.

    Raises:
        FleetError: The output folder is not writable.
    """
    created = [folder for folder in (output, *output.parents) if not folder.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=f".{name}-", dir=output)
    except OSError as error:
        raise FleetError.of(
            what=f"cannot write to {output}: {error.strerror}",
            where="the output folder (-o)",
            fix="choose a writable folder",
            rule="output-unwritable",
        ) from error
    try:
        with temporary as staging:
            yield Path(staging)
    except BaseException:
        for folder in created:
            with contextlib.suppress(OSError):  # another build may have written to it meanwhile
                folder.rmdir()
        raise


def replace_folder(built: Path, target: Path, *, aside: Path) -> None:
    """Replace an earlier folder with a finished one; keep the earlier one if that fails."""
    if not target.exists():
        built.rename(target)
        return
    target.rename(aside)
    try:
        built.rename(target)
    except OSError:
        aside.rename(target)
        raise
