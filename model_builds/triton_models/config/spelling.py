"""A reader of config.pbtxt that behaves like Triton where the text formats of Python and C++ differ.

Tested on the bundled server, release 24.10, on 2026-11-21: C++ accepts bytes that are not UTF-8, and a space
between a minus and its number; Python refuses both. C++ refuses an unknown escape, which Python accepts.
"""

from __future__ import annotations

import re

from triton_models.base.errors import FleetError
from triton_models.config.pbtxt import CONFIG_SYNTAX, ModelConfig, parse_config

# A comment or a string; neither can start inside the other.
_COMMENT_OR_STRING = re.compile(r"""#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")
_ESCAPE = re.compile(r"\\(.)")
_KNOWN_ESCAPES = frozenset("abfnrtv\\?'\"01234567xXuU")
_SPACED_MINUS = re.compile(r"-([ \t]+)(?=[0-9.])")


def text_of(content: bytes) -> str:
    """Decode a configuration from UTF-8, otherwise from Latin-1, in which every byte is a character."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


def read_text(text: str, *, where: str) -> ModelConfig:
    """Parse the text of a config.pbtxt as Triton does.

    Raises:
        FleetError: Triton refuses the text, with line and column.
    """
    if "\\" in text:
        _refuse_unknown_escape(text, where=where)
    try:
        return parse_config(text, where=where)
    except FleetError:
        corrected = _SPACED_MINUS.sub(r"\1-", text)
        if corrected == text:
            raise
        return parse_config(corrected, where=where)


def _refuse_unknown_escape(text: str, *, where: str) -> None:
    for token in _COMMENT_OR_STRING.finditer(text):
        if token[0].startswith("#"):
            continue
        for escape in _ESCAPE.finditer(token[0]):
            if escape[1] not in _KNOWN_ESCAPES:
                at = token.start() + escape.start()
                line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
                problem = CONFIG_SYNTAX.problem(
                    what=f"unknown escape {escape[0]}",
                    where=f"{where}:{line}:{column}",
                    why="Triton refuses the model",
                    fix="use an escape of C, such as \\\\ for a backslash",
                )
                raise FleetError([problem])
