"""The table of errors: each id, an example of its text, and the source of its rule.

Read from the calls that report them. A part of a text that depends on what was given is `…`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.generate.places import ROOT
from triton_models.declare.mistakes import BAD_DECLARATION

_PACKAGES = (
    "constructs/triton_fleet",
    "model_builds/triton_models",
    "rehearsal/triton_rehearsal",
    "reporting",
)
_CHECK = re.compile(r'^(\w+) = Check\(\s*id="([^"]+)"', re.MULTILINE)
_WORD = re.compile(r"[a-z]{3}")
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

| id | what it reports | source of the rule |
|---|---|---|
"""
_TAIL = """
::: triton_models.base.errors.FleetError

::: triton_models.base.errors.Problem
"""


def page() -> str:
    """Return the page."""
    rows = {BAD_DECLARATION.id: ("a declaration that cannot be built or served", BAD_DECLARATION.source)}
    for package in _PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name, what, source in _reported(path):
                before = rows.get(name, ("", ""))
                rows[name] = (before[0] or what, before[1] or source)
    listed = [
        f"| `{name}` | {_cell(what)} | {_linked(_cell(source))} |"
        for name, (what, source) in sorted(rows.items())
    ]
    return _HEAD + "\n".join(listed) + "\n" + _TAIL


def _reported(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the ids in a module, with a text or a source."""
    code = path.read_text(encoding="utf-8")
    tree = ast.parse(code)
    checks = dict(_CHECK.findall(code))
    names = dict(checks)
    for each in tree.body:
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant | ast.JoinedStr | ast.BinOp):
            names[ast.unparse(each.targets[0])] = _text(each.value, names)
    functions = {
        each.name: ast.get_docstring(each) for each in tree.body if isinstance(each, ast.FunctionDef)
    }
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        given = {each.arg: _text(each.value, names) for each in call.keywords if each.arg}
        owner, _, method = ast.unparse(call.func).rpartition(".")
        if method in ("Check", "ArtifactCheck") and "…" not in given.get("id", "…"):
            find = next((ast.unparse(each.value) for each in call.keywords if each.arg == "find"), "")
            yield given["id"], (functions.get(find) or "").partition("\n\n")[0], given["source"]
        elif "what" in given and (rule := given.get("rule") or names.get(owner, "")).strip("…"):
            yield rule, _worded(given), ""
        elif len(call.args) > 1 and method != "add":  # which adds a tag
            rule = _text(call.args[0], names)
            if rule.startswith("triton-fleet:") or ast.unparse(call.args[0]) in checks:
                yield rule, _text(call.args[1], names), ""


def _worded(given: dict[str, str]) -> str:
    """Return the first part of an error that has words of its own."""
    parts = {"": given["what"], "expected: ": given.get("expected", ""), "fix: ": given.get("fix", "")}
    return next((f"{name}{text}" for name, text in parts.items() if _WORD.search(text)), "")


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
    """Return a source whose addresses are links, named after their hosts."""
    return re.sub(r"(https?://([^/ ,;]+)[^ ,;]*[^ ,;:.])", r"[\2](\1)", source.strip("…"))


def _cell(text: str) -> str:
    return " ".join(re.sub(r"([|*\[])", r"\\\1", text).split())
