"""The description of every probe, for `fleet probe` and the documentation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe. Subclasses for accounts and GPUs add the actions.

    Attributes:
        id: Its name in kebab-case, for `--only`.
        what: A short description of its actions.
        decides: The ids of the beliefs on which it always gives a verdict.
    """

    id: str
    what: str
    decides: tuple[str, ...]
