"""The description of every probe, for `fleet probe` and the documentation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe. Those of an account and of a GPU add what they do to it.

    Attributes:
        id: Its name, in kebab-case, which `--only` takes.
        what: What it does, in a few words.
        decides: The ids of the beliefs on which it gives a verdict, in every case.
    """

    id: str
    what: str
    decides: tuple[str, ...]
