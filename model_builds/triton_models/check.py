"""What Triton or SageMaker would refuse or silently get wrong, found in milliseconds and without either."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from triton_models.errors import FleetError, Problem
from triton_models.layout import Layout, read_layout
from triton_models.rules import config, ensemble, layout
from triton_models.rules.subject import subject_of

RULES = (*layout.RULES, *config.RULES, *ensemble.RULES)


def check_layout(layout: Layout) -> list[Problem]:
    """Everything wrong with an artifact's content; empty if it is accepted."""
    subject = subject_of(layout)
    return [
        replace(problem, rule=problem.rule or rule.id) for rule in RULES for problem in rule.find(subject)
    ]


def check_path(path: Path) -> list[Problem]:
    """Everything wrong with what is at a path; empty if it is accepted.

    Args:
        path: An artifact root, a bare model directory, or a .tar.gz, which is not unpacked to disk.
    """
    try:
        return check_layout(read_layout(path))
    except FleetError as error:
        return list(error.problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The outcome of `fleet check`: each path with what is wrong with it."""

    problems: Mapping[str, tuple[Problem, ...]]

    @property
    def exit_code(self) -> int:
        """0 if every path is accepted."""
        return 1 if any(self.problems.values()) else 0

    def as_dict(self) -> dict[str, Any]:
        """Each path with its problems."""
        return {
            "accepted": self.exit_code == 0,
            "paths": {
                path: [problem.as_dict() for problem in found] for path, found in self.problems.items()
            },
        }

    def lines(self) -> Iterator[str]:
        """The problems in full, then one line for each path."""
        for path, found in self.problems.items():
            for problem in found:
                yield from (str(problem), "")
            count = len(found)
            yield f"{path}: {count} problem{'s' * (count != 1)}" if found else f"{path}: accepted"


def run(arguments: argparse.Namespace) -> Checked:
    """`fleet check PATH...`."""
    paths: list[Path] = arguments.paths
    return Checked(problems={str(path): tuple(check_path(path)) for path in paths})
