"""The mark of a failed verification in a built root, which `fleet pack` then refuses.

The mark is inside the root, so copying or renaming the root keeps it, and a new build, which replaces the
entire root, removes it. It is never packed, because an artifact's bytes do not depend on measurements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_models.artifact.layout import REFUSED_FILE
from triton_models.base.errors import FleetError, Problem
from triton_models.base.json_text import parsed


def refuse(root: Path, problems: Sequence[Problem]) -> None:
    """Mark a root as one that must not be published.

    Raises:
        FleetError: The mark cannot be written; the error includes the problems.
    """
    said = {"refused": [problem.as_dict() for problem in problems]}
    try:
        (root / REFUSED_FILE).write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        own = Problem(
            what=f"cannot write the mark that prevents packing: {error.strerror}",
            where=str(root / REFUSED_FILE),
            why="`fleet pack` would accept the model",
            fix="remove the folder, or make it writable and verify again",
            rule="unmarked",
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
    yield Problem(
        what=f"the verification refused it: {_first(text)}",
        where=str(root),
        why="applications would get wrong answers",
        fix=f"fix and rebuild the model, or run `fleet verify {root}` again",
        rule="refused",
    )


def _first(text: str) -> str:
    try:
        what: str = parsed(text)["refused"][0]["what"]
    except (ValueError, KeyError, IndexError, TypeError):
        return f"see {REFUSED_FILE} in it"
    return what.partition("\n")[0]
