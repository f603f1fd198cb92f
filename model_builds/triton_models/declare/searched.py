"""What the source code of a model's folder says without being run: variables, plans and sequences."""

from __future__ import annotations

import ast
import contextlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import get_args

from triton_models.base.files import source_files
from triton_models.declare.reading import FORM_MARK
from triton_models.facts.tensorrt import Hardware

_READS = re.compile(r"""environ(?:\.get\(|\[)\s*["']([A-Za-z0-9_]+)["']""")
_RANDOM = re.compile(r"\bRandomWeights\(")
_READS_OR_RANDOM = re.compile(_READS.pattern + r"\s*\)?\s*,\s*otherwise\s*=\s*RandomWeights\(")

# The AWS SDKs read credentials from the first, and a job of GitHub asks for a token with the second.
_OF_CREDENTIALS = re.compile(r"AWS_(?!REGION$|DEFAULT_REGION$).*|ACTIONS_.*")


@contextlib.contextmanager
def environment_of_a_build(given: Mapping[str, str]) -> Iterator[None]:
    """Set the variables of a build for a time, and hide those of credentials, which a build does not inherit.

    A declaration that calls AWS when it is read then fails in the same way everywhere. This does not contain
    hostile code, which may read files and other processes of its user.
    """
    before = dict(os.environ)
    for name in filter(_OF_CREDENTIALS.fullmatch, before):
        del os.environ[name]
    os.environ.update(given)
    try:
        yield
    finally:
        for name in {*given, *filter(_OF_CREDENTIALS.fullmatch, before)}:
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]


def variables_read(folder: Path) -> frozenset[str]:
    """Return the environment variables read by the Python files in a folder and below it."""
    if not folder.is_dir():
        return frozenset()
    return frozenset(
        name
        for path in source_files(folder)
        if path.suffix == ".py"
        for name in _READS.findall(path.read_text(encoding="utf-8", errors="replace"))
    )


def untrained(folder: Path, *, given: Collection[str], form: str = "") -> Iterator[str]:
    """Yield the unset variables that can provide trained weights for a model with random ones.

    Yields "" if the model has random weights and reads no such variable. The declaration is searched but not
    run, which is fast enough for thousands.

    A form may read its weights from any of the variables.
    """
    path = folder / "build.py"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    read = _READS.findall(text)
    random = [] if form else _READS_OR_RANDOM.findall(text)
    if random:
        yield from dict.fromkeys(name for name in random if name not in given)
    elif _RANDOM.search(text) and not set(read) & set(given):
        yield from dict.fromkeys(read) or [""]


_CALL, _SUFFIX = "compile_plan", ".plan"
_THIS_GPU = "this-gpu"


def written_plans(folder: Path) -> frozenset[str]:
    """Return the hardware of the plans that code in a folder makes, as in `TensorRt`; empty without plans."""
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


_FIELDS = (b"sequence_batching", b"SequenceBatching(")
_SUFFIXES = (".py", ".pbtxt")


def sequence_models(source: Path, files: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the folders below models/ of a source whose code or configurations mention sequence batching."""
    folders = {name.partition(FORM_MARK)[0] for name in names}
    found: dict[str, None] = {}
    for path in files:
        top, _, rest = path.partition("/")
        folder = rest.partition("/")[0]
        if top == "models" and folder in folders and folder not in found and path.endswith(_SUFFIXES):
            with open(source / path, "rb") as file:  # noqa: PTH123  a Path per file doubles the cost
                content = file.read()
                if any(field in content for field in _FIELDS):
                    found[folder] = None
    return tuple(found)
