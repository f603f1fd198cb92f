"""Built roots: written to a temporary place and then moved, and marked if a verification refuses them.

So a root is always complete. `fleet pack` refuses one with the mark, which is inside the root: copying or
renaming the root keeps it, and a new build, which replaces the entire root, removes it. It is never packed,
because an artifact's bytes do not depend on measurements.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_models.artifact.layout import BUILD_FILE, REFUSED_FILE
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, Problem
from triton_models.base.json_text import parsed

OUTPUT_TAKEN = Check(id="output-taken", source=FROM_ARGUMENTS)
OUTPUT_UNWRITABLE = Check(id="output-unwritable", source=FROM_ARGUMENTS)
UNMARKED = Check(id="unmarked", source=FROM_ARGUMENTS)
REFUSED = Check(id="refused", source=FROM_ARGUMENTS)


def refuse_foreign(target: Path) -> None:
    """Refuse to replace a folder that `fleet build` did not write."""
    if target.exists() and not (target / BUILD_FILE).is_file():
        what = f"{target} exists and is not a build"
        why = "a build replaces the folder"
        fix = f"move it away, or choose a new folder, or that of an earlier build with its {BUILD_FILE}"
        raise OUTPUT_TAKEN.error(what=what, where="the output folder (-o)", why=why, fix=fix)


@contextlib.contextmanager
def staging_folder(output: Path, name: str) -> Iterator[Path]:
    """Yield a temporary folder next to the target, so that moving a finished build is a rename."""
    created = [folder for folder in (output, *output.parents) if not folder.exists()]
    try:
        output.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=f".{name}-", dir=output)
    except OSError as error:
        what, fix = f"cannot write to {output}: {error.strerror}", "choose a writable folder"
        raise OUTPUT_UNWRITABLE.error(what=what, where="the output folder (-o)", fix=fix) from error
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


def refuse(root: Path, problems: Sequence[Problem]) -> None:
    """Mark a root as one that must not be published.

    Raises:
        FleetError: The mark cannot be written; the error includes the problems.
    """
    said = {"refused": [problem.as_dict() for problem in problems]}
    try:
        (root / REFUSED_FILE).write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        own = UNMARKED.problem(
            what=f"cannot write the mark that prevents packing: {error.strerror}",
            where=str(root / REFUSED_FILE),
            why="`fleet pack` would accept the model",
            fix="remove the folder, or make it writable and verify again",
        )
        raise FleetError([*problems, own]) from error


def accept(root: Path) -> None:
    """Remove the mark of an earlier verification."""
    (root / REFUSED_FILE).unlink(missing_ok=True)


def refused(root: Path) -> Iterator[Problem]:
    """Yield the problem of packing a root with the mark."""
    try:
        text = (root / REFUSED_FILE).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:  # it exists, even if it is unreadable
        text = ""
    what = f"the verification refused it: {_first(text)}"
    fix = f"fix and rebuild the model, or run `fleet verify {root}` again"
    yield REFUSED.problem(what=what, where=str(root), why="applications would get wrong answers", fix=fix)


def _first(text: str) -> str:
    try:
        what: str = parsed(text)["refused"][0]["what"]
    except (ValueError, KeyError, IndexError, TypeError):
        return f"see {REFUSED_FILE} in it"
    return what.partition("\n")[0]
