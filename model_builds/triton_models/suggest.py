"""What a mistyped name may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(given: str, known: Iterable[str], *, otherwise: str) -> str:
    """A question naming up to three known names close to the one given, or `otherwise` if none is close."""
    folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(str(given).casefold(), folded, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(folded[name] for name in close)}?" if close else otherwise
