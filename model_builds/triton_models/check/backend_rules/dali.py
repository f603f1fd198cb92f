"""Which files the DALI backend opens.

DaliModel and LoadModel of dali_backend (src/dali_model.h) and ValidateFilename (src/utils/utils.h), r24.01 to
r26.06; read 2026-11-28. What it compares with the pipeline itself, only a load shows.
"""

from __future__ import annotations

import re

from .refusal import Config, Refusal  # noqa: TID252  also found outside this repository

FILE, FALLBACK = "model.dali", "dali.py"
NAMES_CHECKED_SINCE = "25.07"

_REFUSED = re.compile(r"[^A-Za-z0-9_.-]")


def files_of(config: Config) -> tuple[str, ...]:
    """Return the files that the backend tries in turn; the last one whatever the configuration names."""
    return tuple(dict.fromkeys((config.get("default_model_filename") or FILE, FALLBACK)))


def refusals(config: Config, *, release: str | None) -> list[Refusal]:
    """Return what the backend refuses in a configuration."""
    name = str(config.get("default_model_filename") or FILE)
    wrong = _REFUSED.search(name)
    if wrong is None or release is None or release < NAMES_CHECKED_SINCE:
        return []
    return [
        Refusal(
            message=f"Model file name '{name}' contains an invalid character: '{wrong[0]}'",
            what=f"the file name {name!r} has the character {wrong[0]!r}",
            at="default_model_filename",
            fix="use letters, digits, underscores, dots and hyphens, and no folder",
        )
    ]
