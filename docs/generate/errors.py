"""The table of errors: each id, an example of its text, and the source of its rule.

Read from the calls that report them. A part of a text that depends on what was given is `…`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.generate import ROOT
from triton_models.declare.mistakes import BAD_DECLARATION

_PACKAGES = (
    "constructs/triton_fleet",
    "model_builds/triton_models",
    "rehearsal/triton_rehearsal",
    "reporting",
)
_CHECK = re.compile(r'^(\w+) = (?:Check\(\s*id=|rule\(\s*)"([^"]+)"', re.MULTILINE)
_WORD = re.compile(r"[a-z]{3}")
_HEAD = """\
# Errors

An error says what was given, where, why it matters, and what to do. The id in brackets names its rule.
Several mistakes are reported at once.

```text
error: ml.g5.12xlarge has 4 GPUs [multi-model-one-gpu]
  where:    Fleet/Endpoint
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
        f"| `{name}` | {_cell(what or name.replace('-', ' '))} | {_linked(_cell(source))} |"
        for name, (what, source) in sorted(rows.items())
    ]
    return _HEAD + "\n".join(listed) + "\n" + _TAIL


def _reported(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the ids in a module, with a text or a source."""
    code = path.read_text(encoding="utf-8")
    tree = ast.parse(code)
    checks = dict(_CHECK.findall(code))
    names = {name: [(0, rule)] for name, rule in checks.items()}
    for line, name, value in sorted(_assigned(tree), key=lambda each: each[0]):
        names.setdefault(name, []).append((line, _text(value, names)))
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        given = {each.arg: _text(each.value, names) for each in call.keywords if each.arg}
        texts = [_text(each, names) for each in call.args]
        owner, _, method = ast.unparse(call.func).rpartition(".")
        if method == "Check" and "…" not in given.get("id", "…"):
            yield given["id"], "", given["source"]
        elif method == "rule" and len(texts) > 1:
            yield texts[0], "", texts[1]
        elif "what" in given and (rule := given.get("rule") or checks.get(owner, "")).strip("…"):
            yield rule, _worded(given), ""
        elif len(texts) > 1 and (rule := checks.get(ast.unparse(call.args[0]), "")):
            yield rule, _worded({"what": texts[1], **given}), ""
        elif len(texts) > 1 and method != "add" and texts[0].startswith("triton-fleet:"):
            yield texts[0], texts[1], ""  # other calls of "add" add a tag


def _assigned(tree: ast.Module) -> Iterator[tuple[int, str, ast.expr]]:
    """Yield the assignments of texts to names, with their lines."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            if isinstance(each.value, ast.Constant | ast.JoinedStr | ast.BinOp | ast.IfExp):
                yield each.lineno, each.targets[0].id, each.value
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Tuple):
            values = each.value.elts if isinstance(each.value, ast.Tuple) else ()
            for target, value in zip(each.targets[0].elts, values, strict=False):
                yield each.lineno, ast.unparse(target), value


def _worded(given: dict[str, str]) -> str:
    """Return the first part of an error that has words of its own."""
    parts = {"": given["what"], "fix: ": given.get("fix", "")}
    return next((f"{name}{text}" for name, text in parts.items() if _WORD.search(text)), "")


def _text(node: ast.expr, names: dict[str, list[tuple[int, str]]]) -> str:
    """Return the text of an expression, with `…` for what is known only when it runs."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each, names) for each in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left, names) + _text(node.right, names)
    if isinstance(node, ast.IfExp):
        return _text(node.body, names)
    known = names.get(node.id, []) if isinstance(node, ast.Name) else []
    return next((text for line, text in reversed(known) if line < node.lineno), "…")


def _linked(source: str) -> str:
    """Return a source whose addresses are links, named after their hosts."""
    return re.sub(r"(https?://([^/ ,;]+)[^ ,;]*[^ ,;:.])", r"[\2](\1)", source.strip("…"))


def _cell(text: str) -> str:
    return " ".join(re.sub(r"([|*\[])", r"\\\1", text).split())
