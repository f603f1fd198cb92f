"""A folder made aside and put into its place at once, so that what is there is always whole."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from triton_models.artifact.layout import BUILD_FILE
from triton_models.base.errors import FleetError


def refuse_foreign(target: Path) -> None:
    """Refuse to replace what `fleet build` did not write.

    Raises:
        FleetError: Something else is there.
    """
    if target.exists() and not (target / BUILD_FILE).is_file():
        raise FleetError.of(
            what=f"{target} exists and is no build",
            where="the output folder (-o)",
            expected=f"nothing there, or an earlier build with its {BUILD_FILE}",
            why="building replaces what is there",
            fix="move it away, or name another output folder",
            rule="output-taken",
        )


@contextlib.contextmanager
def staging_folder(output: Path, name: str) -> Iterator[Path]:
    """A temporary folder beside the target, so that moving a finished build there is a rename.

    Raises:
        FleetError: The output folder cannot be written to.
    """
    created = [folder for folder in (output, *output.parents) if not folder.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=f".{name}-", dir=output)
    except OSError as error:
        raise FleetError.of(
            what=f"cannot write to {output}: {error.strerror}",
            where="the output folder (-o)",
            expected="a folder that can be written to",
            fix="name another one",
            rule="output-unwritable",
        ) from error
    try:
        with temporary as staging:
            yield Path(staging)
    except BaseException:
        for folder in created:
            with contextlib.suppress(OSError):  # another build may have put something there meanwhile
                folder.rmdir()
        raise


def replace_folder(built: Path, target: Path, *, aside: Path) -> None:
    """Put a finished folder in the place of an earlier one, which stays if that fails."""
    if not target.exists():
        built.rename(target)
        return
    target.rename(aside)
    try:
        built.rename(target)
    except OSError:
        aside.rename(target)
        raise
