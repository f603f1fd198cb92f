"""Which lines of Python only check or report a value: a trace that loses them answers as the network does."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator, Sequence
from typing import Any

_LOGGERS = frozenset({"log", "logger", "logging"})
_LEVELS = frozenset(
    [*("critical", "debug", "error", "exception", "fatal", "info", "log", "warn", "warning"), "warning_once"]
)


def use_of_line(file: str, line: int) -> tuple[str, bool]:
    """Return whether a line is a "check" or a "return", and whether its function catches what it raises."""
    linecache.checkcache(file)
    return _use_within(_statements("".join(linecache.getlines(file))), line)


@functools.lru_cache(maxsize=64)
def _statements(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError):
        return []


def _use_within(block: Sequence[ast.stmt], line: int, function: ast.stmt | None = None) -> tuple[str, bool]:
    here = [statement for statement in block if statement.lineno <= line <= _end(statement)]
    if len(here) != 1:  # none, or several on one line
        return "", False
    (statement,) = here
    if use := _use_of(statement, line, function):
        return use, False
    inner = next((one for one in _blocks(statement) if one[0].lineno <= line <= _end(one[-1])), None)
    if inner is None:
        return "", False
    function = statement if isinstance(statement, ast.FunctionDef) else function
    use, caught = _use_within(inner, line, function)
    return use, caught or _catches(statement, inner)


def _use_of(statement: ast.stmt, line: int, function: ast.stmt | None) -> str:
    """Return what a statement itself, without the statements in it, does with a value."""
    match statement:
        case _ if (parts := _parts_of_check(statement)) and line <= _end(parts[0]):
            return "" if _assigns(parts[0]) else "check"
        case ast.Return() if not _assigns(statement):
            return "return"
        case ast.Assign(targets=[target]) if function and not _assigns(statement.value):
            return "check" if _is_only_checked(target, function) else ""
    return ""


def _parts_of_check(statement: ast.stmt) -> list[Any]:
    """Return what a check tests, and what it raises or reports."""
    match statement:
        case ast.Expr() if _reports([statement]):
            return [statement]
        case ast.If() if _reports([*statement.body, *statement.orelse]):
            return [statement.test, *statement.body, *statement.orelse]
        case ast.Assert() | ast.Expr(ast.Call(ast.Attribute(ast.Name("torch"), "_assert" | "_check"))):
            return [statement]
        case ast.If() if _raises(statement.body):
            return [statement.test, *statement.body]
        case ast.If() if _raises(statement.orelse):
            return [statement.test, *statement.orelse]
    return []


def _reports(block: Sequence[ast.stmt]) -> bool:
    """Return whether statements only print, warn and log, under conditions or not."""
    for statement in block:
        match statement:
            case ast.If():
                if not _reports([*statement.body, *statement.orelse]):
                    return False
            case ast.Expr(ast.Call(function)) if _is_report(function):
                pass
            case ast.Import() | ast.Pass():
                pass
            case _:
                return False
    return True


def _is_report(function: ast.expr) -> bool:
    match function:
        case ast.Name("print" | "warn") | ast.Attribute(ast.Name("warnings"), "warn"):
            return True
        case ast.Attribute(ast.Call(ast.Name(owner) | ast.Attribute(attr=owner)), level):
            return owner == "getLogger" and level in _LEVELS
        case ast.Attribute(ast.Name(owner) | ast.Attribute(attr=owner), level):
            return owner.strip("_").lower() in _LOGGERS and level in _LEVELS
    return False


def _raises(block: Sequence[ast.stmt]) -> bool:
    """Return whether statements end with an error, after those that build its message."""
    plain = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)
    return (
        bool(block) and isinstance(block[-1], ast.Raise) and all(isinstance(one, plain) for one in block[:-1])
    )


def _is_only_checked(target: ast.expr, function: ast.stmt) -> bool:
    """Return whether a function uses a variable only in checks."""
    nodes = list(ast.walk(function))
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    if any(_catches(one, getattr(one, "body", [])) for one in statements):
        return False
    parts = [part for one in statements for part in _parts_of_check(one) if not _assigns(part)]
    checked = {id(node) for part in parts for node in ast.walk(part)}
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    own = {name.id for name in names if isinstance(name, ast.Name)}
    uses = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    own -= {name for one in statements if isinstance(one, ast.Global | ast.Nonlocal) for name in one.names}
    return len(own) == len(names) and all(id(node) in checked for node in uses if node.id in own)


def _assigns(node: ast.AST) -> bool:
    return any(isinstance(one, ast.NamedExpr) for one in ast.walk(node))


def _catches(statement: ast.stmt, block: Sequence[ast.stmt]) -> bool:
    """Return whether a statement may go on after an error in a block of its own."""
    if isinstance(statement, ast.With):
        return any("suppress" in ast.unparse(item.context_expr) for item in statement.items)
    handlers = getattr(statement, "handlers", ()) if block is getattr(statement, "body", None) else ()
    return not all(_raises(handler.body) for handler in handlers)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for owner in (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        for field in ("body", "orelse", "finalbody"):
            if block := getattr(owner, field, None):
                yield block


def _end(node: ast.stmt | ast.expr) -> int:
    return node.end_lineno or node.lineno
