"""Reading code of a Python that is newer than this one.

Newer syntax is rewritten: an f-string becomes a plain string, and its expressions are read by themselves
(PEP 701, and https://docs.python.org/3.12/reference/lexical_analysis.html#f-strings, read 2026-11-28), type
parameters go (PEP 695), and so do stars (PEP 646 and 654). What this Python then refuses, all do.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import sys
import tokenize
import warnings

_PREFIXED = re.compile(r"(?:(?<!\w)(?i:(rb?|br?|u|fr?|rf)))?('''|\"\"\"|'|\")")
_TYPED = re.compile(
    r"(\b(?:class|def)\s+\w+)\s*(?=\[)|((?:^|[;:])[ \t]*)type\s+(\w+)\s*(?=[=[])", re.MULTILINE
)
_STARS = re.compile(r"(^|[,=])\s*\*{1,2}(?=\s*\w)")
_STRING = re.compile("\0(\\d+)\0")
_GROUPS = re.compile(r"\bexcept(\s*)\*(?=\s*[\w(])")
_UNPACKED = re.compile(r"(\*\s*\w+\s*:\s*)\*(?=\s*\w)")
_OPENING, _CLOSING = "([{", {")": "(", "]": "[", "}": "{"}


def parse(code: bytes, python: tuple[int, int]) -> ast.Module:
    """Return the tree of code for a Python that may be newer.

    Raises:
        SyntaxError: No Python up to that version reads it.
        ValueError: It has a null byte.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _compiled(code, python)
        except SyntaxError as error:
            if sys.version_info >= python or b"\0" in code:
                raise
            try:
                encoding, _ = tokenize.detect_encoding(io.BytesIO(code).readline)
                text = code.decode(encoding)
            except (SyntaxError, UnicodeDecodeError, LookupError):
                raise error from None
            return _compiled(_rewrite(text.replace("\r\n", "\n"), python), python)


def _compiled(code: bytes | str, python: tuple[int, int]) -> ast.Module:
    tree = ast.parse(code, feature_version=min(python, sys.version_info[:2]))
    compile(tree, "model.py", "exec", dont_inherit=True)
    return tree


def _rewrite(text: str, python: tuple[int, int]) -> str:
    """Return code without newer syntax; strings are put aside, so that only code is rewritten."""
    plain, strings = _Reader(text, formats=python >= (3, 12)).split()
    numbers = itertools.count()
    plain = re.sub("\0", lambda _: f"\0{next(numbers)}\0", plain)
    if python >= (3, 12):
        plain = _without_types(plain)
    if sys.version_info < (3, 11) <= python:
        plain = _without_stars(_UNPACKED.sub(r"\1", _GROUPS.sub(r"except \1", plain)))
    return _STRING.sub(lambda match: strings[int(match[1])], plain)


def _without_types(plain: str) -> str:
    """Return code without type parameters, and with aliases of types as assignments."""
    result, place = "", 0
    while match := _TYPED.search(plain, place):
        start = end = match.end()
        result += plain[place:start]
        place = start
        if plain[start] == "[":
            end = _after_bracket(plain, start)
            if not _are_parameters(plain[start + 1 : end - 1]):
                continue
        follows = plain[end:].lstrip()
        if match[1] and follows.startswith(("(", ":")):
            place = end
        elif match[3] and follows.startswith("=") and not follows.startswith("=="):
            result, place = f"{result[: -len(match[0])]}{match[2]}{match[3]}", end
    return result + plain[place:]


def _after_bracket(plain: str, start: int) -> int:
    """Return the place behind the bracket that closes the one at the start, or the end of the code."""
    depth = 0
    for place in range(start, len(plain)):
        depth += (plain[place] in _OPENING) - (plain[place] in _CLOSING)
        if depth == 0:
            return place + 1
    return len(plain)


def _are_parameters(text: str) -> bool:
    """Return whether a text has type parameters: they read like those of a function, without stars."""
    names = _STARS.sub(r"\1", _STRING.sub("0", text))
    try:
        ast.parse(f"def f({names}\n): pass")
    except SyntaxError:
        return False
    return bool(text.strip())


def _without_stars(plain: str) -> str:
    """Return code without the stars of indices, which are the same in lists."""
    result, stack = [], []
    for place, letter in enumerate(plain):
        if letter in _OPENING:
            stack.append(letter)
        elif letter in _CLOSING and stack:
            stack.pop()
        before = plain[:place].rstrip()[-1:] if letter == "*" else ""
        is_star = stack[-1:] == ["["] and before in {"[", ","} and plain[place + 1 : place + 2] != "*"
        result.append("" if letter == "*" and is_star else letter)
    return "".join(result)


class _Reader:
    """Splits code into strings, and the code around them."""

    def __init__(self, text: str, *, formats: bool) -> None:
        self.text, self.place, self.formats = text, 0, formats

    def split(self, end: str = "") -> tuple[str, list[str]]:
        """Return code with a null byte for each string, and the strings; up to what ends an expression."""
        code, strings, stack = "", list[str](), list[str]()
        while self.place < len(self.text):
            letter, rest = self.text[self.place], self.text[self.place : self.place + 2]
            if end and not stack and letter in end and rest != "!=":
                return code, strings
            match = _PREFIXED.match(self.text, self.place)
            if match:
                code += "\0"
                strings.append(self._string(match[1] or "", match[2]))
                continue
            if letter == "#":
                self.place = self._find("\n")
                continue
            if letter in _OPENING:
                stack.append(letter)
            elif letter in _CLOSING:
                if end and stack[-1:] != [_CLOSING[letter]]:
                    raise self._error(f"f-string: unmatched '{letter}'")
                stack = stack[:-1]
            code += letter
            self.place += 1
        if end:
            raise self._error("f-string: expecting '}'")
        return code, strings

    def _find(self, what: str) -> int:
        place = self.text.find(what, self.place)
        return len(self.text) if place < 0 else place

    def _error(self, message: str) -> SyntaxError:
        line = self.text.count("\n", 0, self.place) + 1
        return SyntaxError(message, ("model.py", line, None, None))

    def _string(self, prefix: str, quote: str) -> str:
        """Return a string as it is, or an f-string as a plain one with as many lines."""
        start, formats = self.place, self.formats and "f" in prefix.lower()
        self.place += len(prefix) + len(quote)
        while self.place < len(self.text):
            letter = self.text[self.place]
            if self.text.startswith(quote, self.place):
                self.place += len(quote)
                literal = self.text[start : self.place]
                return f'"""{chr(10) * literal.count(chr(10))}"""' if formats else literal
            if letter == "\n" and len(quote) == 1:
                break
            if letter == "\\":
                following = self.text[self.place + 1 : self.place + 3]
                named = formats and following == "N{" and "r" not in prefix.lower()
                hidden = 1 if formats and following[:1] in {"{", "}"} else 2
                self.place = self._find("}") + 1 if named else self.place + hidden
            elif formats and letter in "{}":
                self._field(letter)
            else:
                self.place += 1
        self.place = start
        raise self._error(f"unterminated {'f-' * formats}string literal")

    def _field(self, letter: str, *, nested: bool = False) -> None:
        """Read a replacement field, or a doubled bracket, of an f-string."""
        if not nested and self.text.startswith(letter * 2, self.place):
            self.place += 2
            return
        if letter == "}":
            raise self._error("f-string: single '}' is not allowed")
        self.place += 1
        code, strings = self.split("!:}")
        code = re.sub(r"(?<![=!<>])=\s*$", "", code)
        parts = iter(strings)
        plain = re.sub("\0", lambda _: next(parts), code)
        if not plain.strip():
            raise self._error("f-string: valid expression required before '}'")
        try:
            expression = ast.parse(f"({plain}\n)", mode="eval").body
        except SyntaxError as error:
            raise self._error(f"f-string: {error.msg}") from None
        if (
            isinstance(expression, ast.GeneratorExp) and not expression.col_offset
        ):  # in no parentheses of its own
            raise self._error("f-string: invalid syntax")
        if self.text[self.place] == "!":
            conversion = re.compile(r"!\s*[rsa]\s*(?=[:}])").match(self.text, self.place)
            if not conversion:
                raise self._error("f-string: invalid conversion character: expected 's', 'r', or 'a'")
            self.place = conversion.end()
        if self.text[self.place] == ":":
            self._specification()
        self.place += 1

    def _specification(self) -> None:
        while self.place < len(self.text) and self.text[self.place] != "}":
            if self.text[self.place] == "{":
                self._field("{", nested=True)
            else:
                self.place += 1
        if self.place >= len(self.text):
            raise self._error("f-string: expecting '}'")
