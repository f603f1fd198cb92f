"""docs/command_line.md: every verb of `fleet` with its options, from the parsers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from triton_models.cli.main import PROGRAM, SECTIONS, Verb

PAGE = Path(__file__).resolve().parents[1] / "command_line.md"

_HEAD = """\
# The `fleet` command

`fleet VERB --help` prints the same. Every verb takes `--json`, which prints the result, or the errors, as one
JSON document. The exit status is 0 for success, 1 for a mistake or a refusal, 2 for wrong usage, and 130 if
interrupted.
"""


def page() -> str:
    """Return the page."""
    parts = [_HEAD, *_overview()]
    for verbs in SECTIONS.values():
        for name, verb in verbs.items():
            parser = argparse.ArgumentParser(prog=f"{PROGRAM} {name}", add_help=False)
            verb.add_arguments(parser)
            parts += ["", f"## {PROGRAM} {name}", "", f"{_sentence(verb.help)}", *_verb(parser, level=2)]
    return "\n".join(parts) + "\n"


def _overview() -> Iterator[str]:
    yield "| verb | |"
    yield "|---|---|"
    for title, verbs in SECTIONS.items():
        yield f"| **{title}** | |"
        yield from (_row(name, verb) for name, verb in verbs.items())


def _row(name: str, verb: Verb) -> str:
    return f"| [`{PROGRAM} {name}`](#{PROGRAM}-{name}) | {_sentence(verb.help)} |"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _verb(parser: argparse.ArgumentParser, *, level: int) -> Iterator[str]:
    """Yield the usage and the options of a verb, then those of the verbs below it."""
    given = [each for each in parser._actions if not isinstance(each, argparse._SubParsersAction)]
    actions = sorted(given, key=_is_option)
    if actions:
        yield ""
        yield f"    {' '.join([parser.prog, *map(_usage, actions)])}"
        yield ""
        yield "| argument | |"
        yield "|---|---|"
        yield from (f"| {_spelling(each)} | {_meaning(each)} |" for each in actions)
    for each in parser._actions:
        if isinstance(each, argparse._SubParsersAction):
            for name, below in each.choices.items():
                yield ""
                yield f"{'#' * (level + 1)} {parser.prog} {name}"
                yield from _verb(_without_help(below), level=level + 1)


def _without_help(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser._actions = [each for each in parser._actions if not isinstance(each, argparse._HelpAction)]
    return parser


def _is_option(action: argparse.Action) -> bool:
    return bool(action.option_strings)


def _value(action: argparse.Action) -> str:
    """Return the value that an argument takes, as a usage line has it."""
    if action.nargs == 0:
        return ""
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    metavar = action.metavar or action.dest.upper()
    return metavar if isinstance(metavar, str) else " ".join(metavar)


def _usage(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return {"+": f"{value}...", "*": f"[{value}...]", "?": f"[{value}]"}.get(str(action.nargs), value)
    text = f"{action.option_strings[-1]} {value}".rstrip()
    return text if action.required else f"[{text}]"


def _spelling(action: argparse.Action) -> str:
    names = ", ".join(action.option_strings)
    return f"`{f'{names} {_value(action)}'.strip()}`".replace("|", "\\|")


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": PROGRAM}
    return re.sub(r"\s+", " ", text).replace("|", "\\|")
