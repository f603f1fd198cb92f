"""The page of the embedded AWS: its operations and resource types, and where moto differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from docs.generate.places import ROOT
from embedded_aws import coverage

_DIFFERENCES = ROOT / "embedded-aws" / "moto_tests.json"
_HOSTING = """\
InvokeEndpoint is answered by `fleet rehearse`, with real Triton servers. See also
[the embedded AWS](../embedded-aws/index.md).
"""


def page() -> str:
    """The page."""
    return "\n".join((coverage.page(), _HOSTING, *_tests(), ""))


def _tests() -> Iterator[str]:
    listed: Mapping[str, list[str]] = json.loads(_DIFFERENCES.read_text(encoding="utf-8"))
    yield "## moto's own tests"
    yield ""
    number = sum(map(len, listed.values()))
    yield f"{number} of moto's tests of these services pass against moto alone, and not here:"
    yield ""
    yield "| reason | tests |"
    yield "|---|---|"
    for reason, tests in sorted(listed.items()):
        names = ", ".join(f"`{test.partition('::')[2].partition('[')[0]}`" for test in tests)
        yield f"| {reason} | {names} |"
    yield ""
    yield "`python embedded-aws/moto_tests.py` runs them again, and fails on one that is not listed."
