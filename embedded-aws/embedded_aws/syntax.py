"""The syntax of metric math, of the rules of alarms and of filter patterns, read by Python's parser.

They have Python's operators, some in another spelling, which bind as Python's do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

_SPELLINGS = {
    "&&": "and",
    "||": "or",
    "^": "**",
    "AND": "and",
    "OR": "or",
    "NOT": "not",
    "TRUE": "True",
    "FALSE": "False",
}
_SPELLED = re.compile(r"""("[^"]*"|'[^']*')|&&|\|\||\^|\b(?:AND|OR|NOT|TRUE|FALSE)\b""")
_CONDITION = "_"
_LOGICAL = (ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.Load)


class SyntaxFormError(ValueError):
    """A text that does not follow the syntax."""


def parse(text: str) -> ast.expr:
    """Return the tree of an expression, in which strings have no escapes."""

    def spelled(found: re.Match[str]) -> str:
        return repr(found[1][1:-1]) if found[1] else f" {_SPELLINGS[found[0]]} "

    try:
        return ast.parse(f"({_SPELLED.sub(spelled, text)}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SyntaxFormError(f"{getattr(error, 'msg', error)}: {text.strip()[:100]}") from error


class Logic:
    """Conditions of a form with AND, OR, NOT and parentheses, which `conditions` has in their order."""

    def __init__(self, text: str, condition: re.Pattern[str]) -> None:
        self.conditions = list(condition.finditer(text))
        numbers = iter(range(len(self.conditions)))
        self._tree = parse(condition.sub(lambda _: f" {_CONDITION}{next(numbers)} ", text))
        for node in ast.walk(self._tree):
            constant = isinstance(node, ast.Constant) and isinstance(node.value, bool)
            named = isinstance(node, ast.Name) and node.id.startswith(_CONDITION)
            if not (constant or named or isinstance(node, _LOGICAL)):
                raise SyntaxFormError(f"unexpected {ast.unparse(node)!r}: {text.strip()[:100]}")

    def holds(self, test: Callable[[re.Match[str]], bool]) -> bool:
        return self._holds(self._tree, test)

    def _holds(self, node: ast.expr, test: Callable[[re.Match[str]], bool]) -> bool:
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(self._holds(part, test) for part in parts)
            case ast.BoolOp(values=parts):
                return any(self._holds(part, test) for part in parts)
            case ast.UnaryOp(operand=part):
                return not self._holds(part, test)
            case ast.Name(id=name):
                return test(self.conditions[int(name.removeprefix(_CONDITION))])
        return bool(getattr(node, "value", False))
