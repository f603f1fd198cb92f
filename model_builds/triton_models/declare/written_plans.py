"""The plans that a declaration's own code makes, found in its source code without running it.

`write` may compile plans, or copy an existing one. Its source code shows this: a call of
`BuildJob.compile_plan` with its hardware, or the name of a plan file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from triton_models.base.source_files import source_files
from triton_models.facts.tensorrt import Hardware

_CALL, _SUFFIX = "compile_plan", ".plan"
_THIS_GPU = "this-gpu"


def written_plans(folder: Path) -> frozenset[str]:
    """Return the hardware of the plans that code in a folder makes, as in `TensorRt`; empty without plans.

    Args:
        folder: The folder of the declaration.
    """
    return frozenset(level for path in source_files(folder) for level in _plans_of(path))


def _plans_of(path: Path) -> Iterator[str]:
    if path.suffix == _SUFFIX:
        yield _THIS_GPU
    if path.suffix != ".py":
        return
    text = path.read_bytes()
    if _CALL.encode() not in text and _SUFFIX.encode() not in text:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # for another version of Python, so its calls are unknown
        yield _THIS_GPU
    else:
        yield from _plans_in(tree)


def _plans_in(tree: ast.AST) -> Iterator[str]:
    called: set[ast.expr] = set()
    for node in ast.walk(tree):  # a call comes before the function that it names
        if isinstance(node, ast.Call) and _is_compile_plan(node.func):
            called.add(node.func)
            yield _hardware(node)
        elif isinstance(node, ast.expr) and node not in called and _is_compile_plan(node):
            yield _THIS_GPU  # passed on as a function, so its hardware is unknown
        elif isinstance(node, ast.Constant) and str(node.value).endswith(_SUFFIX):
            yield _THIS_GPU


def _is_compile_plan(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == _CALL) or (
        isinstance(node, ast.Name) and node.id == _CALL
    )


def _hardware(call: ast.Call) -> str:
    """Return the hardware argument of a call; the narrowest hardware if it is not a literal."""
    for argument in call.keywords:
        if argument.arg == "hardware" and isinstance(argument.value, ast.Constant):
            level = str(argument.value.value)
            return level if level in get_args(Hardware) else _THIS_GPU
    return _THIS_GPU
