"""The mark that a failed verification leaves in a built root, which `fleet pack` refuses then.

It lies inside the root, so that a copy or another name takes it along, and a new build, which replaces the
root whole, leaves it behind. It is never packed: the bytes of an artifact say nothing of what was measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_models.artifact.layout import REFUSED_FILE
from triton_models.base.errors import FleetError, Problem


def refuse(root: Path, problems: Sequence[Problem]) -> None:
    """Mark a root as one that must not be published.

    Raises:
        FleetError: The mark cannot be written; with the problems.
    """
    said = {"refused": [problem.as_dict() for problem in problems]}
    try:
        (root / REFUSED_FILE).write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        own = Problem(
            what=f"the mark that keeps it from being packed cannot be written: {error.strerror}",
            where=str(root / REFUSED_FILE),
            expected="a folder that can be written to",
            why="`fleet pack` would take the model",
            fix="remove the folder, or make it writable and verify again",
            rule="unmarked",
        )
        raise FleetError([*problems, own]) from error


def accept(root: Path) -> None:
    """Take the mark of an earlier verification away."""
    (root / REFUSED_FILE).unlink(missing_ok=True)


def refused(root: Path) -> Iterator[Problem]:
    """The problem of packing a root that carries the mark; nothing without one."""
    try:
        text = (root / REFUSED_FILE).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError:  # it is there, whatever it says
        text = ""
    yield Problem(
        what=f"the verification refused it: {_first(text)}",
        where=str(root),
        expected="a model that answers as its source does",
        why="applications would get wrong answers from it",
        fix=f"fix the model and build it again, or `fleet verify {root}` again",
        rule="refused",
    )


def _first(text: str) -> str:
    try:
        what: str = json.loads(text)["refused"][0]["what"]
    except (ValueError, KeyError, IndexError, TypeError):
        return f"see {REFUSED_FILE} in it"
    return what.partition("\n")[0]
