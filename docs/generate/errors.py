"""The table of errors: each id, an example of its text, and the source of its rule.

Read from the calls that report them. A part of a text that depends on what was given is `…`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.generate.places import ROOT
from triton_models.artifact.unpacking import refusals

_PACKAGES = (
    "constructs/triton_fleet",
    "model_builds/triton_models",
    "rehearsal/triton_rehearsal",
    "reporting",
)
_CONSTANT = re.compile(r'^(\w+) = "([a-z0-9:-]+)"$', re.MULTILINE)
_CHECK = re.compile(r'^(\w+) = Check\(\s*id="([^"]+)"', re.MULTILINE)
_HEAD = """\
# Errors

An error says what was given, where, what is expected, why, and what to do. The id in brackets names its rule.
Several mistakes are reported at once.

```text
error: ml.g5.12xlarge has 4 GPUs [multi-model-one-gpu]
  where:    Fleet/Endpoint
  expected: a type with one GPU: ml.g4dn.xlarge, ml.g5.2xlarge, ...
  why:      SageMaker runs multi-model endpoints on types with at most one GPU
  fix:      use ml.g5.2xlarge, and more instances for more throughput
```

A warning's id begins with `triton-fleet:`. `Annotations.of(construct).acknowledge_warning(id)` accepts it.

| id | an example | source of the rule |
|---|---|---|
"""
_TAIL = """
::: triton_models.base.errors.FleetError

::: triton_models.base.errors.Problem
"""


def page() -> str:
    """Return the page."""
    rows = {name: ("", check.source) for name, check in refusals.CHECKS.items()}
    for package in _PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name, what, source in _reported(path):
                before = rows.get(name, ("", ""))
                rows[name] = (before[0] or what, before[1] or source)
    return (
        _HEAD
        + "".join(
            f"| `{name}` | {_cell(what)} | {_cell(_linked(source))} |\n"
            for name, (what, source) in sorted(rows.items())
        )
        + _TAIL
    )


def _reported(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the ids in a module, with a text or a source."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    names = {**dict(_CONSTANT.findall(source)), **dict(_CHECK.findall(source))}
    functions = {
        each.name: ast.get_docstring(each) or "" for each in tree.body if isinstance(each, ast.FunctionDef)
    }
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        given = {each.arg: each.value for each in call.keywords}
        texts = [_text(each, names) for each in call.args]
        owner, _, method = ast.unparse(call.func).rpartition(".")
        if "id" in given and "source" in given:
            find = functions.get(ast.unparse(given["find"]), "") if "find" in given else ""
            yield _text(given["id"], names), find.partition("\n\n")[0], _text(given["source"], names)
        elif "rule" in given and "what" in given:
            yield _text(given["rule"], names), _text(given["what"], names), ""
        elif method in ("problem", "error") and owner in names and "what" in given:
            yield names[owner], _text(given["what"], names), ""
        elif texts and texts[0].startswith("triton-fleet:") and len(texts) > 1:
            yield texts[0], texts[1], ""


def _text(node: ast.expr, names: dict[str, str]) -> str:
    """Return the text of an expression, with `…` for what is known only when it runs."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each, names) for each in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left, names) + _text(node.right, names)
    if isinstance(node, ast.IfExp):
        return _text(node.body, names)
    return names.get(node.id, "…") if isinstance(node, ast.Name) else "…"


def _linked(source: str) -> str:
    return re.sub(r"(https?://[^ ,;]*[^ ,;:.])", r"<\1>", "" if source == "…" else source)


def _cell(text: str) -> str:
    return " ".join(re.sub(r"([|*\[])", r"\\\1", text).split())
