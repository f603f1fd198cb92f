"""The page of `fleet`: what `fleet VERB --help` prints, for every verb."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from triton_models.cli.main import PROGRAM, SECTIONS, verb_help

_HEAD = """\
# The `fleet` command

`fleet VERB --help` prints the same. Every verb takes `--json`, which prints the result, or the errors, as one
JSON document. The exit status is 0 for success, 1 for a mistake or a refusal, 2 for wrong usage, and 130 if
interrupted.
"""


def page() -> str:
    """Return the page."""
    os.environ["COLUMNS"] = "100"
    parts = [_HEAD]
    for title, verbs in SECTIONS.items():
        parts += [f"## {title}", ""]
        for name, verb in verbs.items():
            parser = argparse.ArgumentParser(prog=f"{PROGRAM} {name}", description=verb_help(verb))
            verb(parser)
            helps = "\n".join(_helps(parser))
            parts += [f"### {PROGRAM} {name}", "", "```text", helps.rstrip(), "```", ""]
    return "\n".join(parts)


def _helps(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the help of a verb, then of the verbs below it."""
    yield parser.format_help()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _helps(below)
