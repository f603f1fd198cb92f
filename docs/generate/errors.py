"""docs/errors.md: every error by its id, read from the code that reports it.

Read statically. A part of a text that depends on what was given is `…`.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from triton_models.artifact.unpacking import refusals
from triton_models.declare.mistakes import BAD_DECLARATION

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"

_PACKAGES = (
    "constructs/triton_fleet",
    "model_builds/triton_models",
    "rehearsal/triton_rehearsal",
    "reporting/triton_report",
)
# By the beginning of the path of the module that reports it: the first that fits.
_SECTIONS = {
    "constructs/triton_fleet": "At synthesis",
    "model_builds/triton_models/check": "In a model or an artifact",
    "model_builds/triton_models/artifact": "In a model or an artifact",
    "triton_models.artifact": "In a model or an artifact",
    "model_builds/triton_models/environments": "In a model or an artifact",
    "model_builds/triton_models/client": "In an application",
    "": "In a declaration, a build or a command",
}
_HEAD = """\
# Errors

An error says what was given, where, what is expected, why, and what to do. This page has the id in brackets,
with the source of its rule; `…` stands for what was given. Several mistakes are reported at once.

```
error: ml.g5.12xlarge has 4 GPUs [multi-model-one-gpu]
  where:    Fleet/Endpoint
  expected: a type with one GPU: ml.g4dn.xlarge, ml.g5.2xlarge, ...
  why:      SageMaker runs multi-model endpoints on types with at most one GPU
  fix:      use ml.g5.2xlarge, and more instances for more throughput
```

A warning's id begins with `triton-fleet:`. `Annotations.of(construct).acknowledge_warning(id)` accepts it.
"""
_UNKNOWN = "…"
_CHECKS = ("Check", "ArtifactCheck")
_REPORTS = ("what", "expected", "fix")


@dataclass(slots=True)
class _Rule:
    """An id with what the code says of it."""

    path: str
    description: str = ""
    source: str = ""
    texts: list[str] = field(default_factory=list)


class _Module:
    """The syntax tree of a module, with the texts of its constants."""

    def __init__(self, path: Path, everywhere: Mapping[str, str]) -> None:
        self.path = path.relative_to(ROOT).as_posix()
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.functions = {each.name: each for each in self.tree.body if isinstance(each, ast.FunctionDef)}
        self.constants = dict(everywhere)
        self.constants.update(self._constants())

    def _constants(self) -> Iterator[tuple[str, str]]:
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                text = self.text(node.value)
                if _UNKNOWN not in text:
                    yield node.targets[0].id, text

    def text(self, node: ast.expr | None) -> str:
        """Return the text of an expression, with `…` for what is known only when it runs."""
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            parts = (each.value if isinstance(each, ast.FormattedValue) else each for each in node.values)
            return "".join(map(self.text, parts))
        if isinstance(node, ast.Name):
            return self.constants.get(node.id, _UNKNOWN)
        if isinstance(node, ast.IfExp):
            return self.text(node.body)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.text(node.left) + self.text(node.right)
        return _UNKNOWN

    def calls(self, node: ast.AST | None = None) -> Iterator[tuple[str, dict[str, ast.expr], ast.Call]]:
        """Yield the name and the keyword arguments of each call in it."""
        for each in ast.walk(node or self.tree):
            if isinstance(each, ast.Call):
                given = {keyword.arg: keyword.value for keyword in each.keywords if keyword.arg}
                yield ast.unparse(each.func), given, each


def page() -> str:
    """Return the page."""
    rules = _rules()
    parts = [_HEAD]
    for title in dict.fromkeys(_SECTIONS.values()):
        parts.append(f"## {title}\n")
        parts += [
            "\n".join(_entry(name, rule)) for name, rule in sorted(rules.items()) if _title(rule) == title
        ]
    return "\n".join(parts)


def ids() -> frozenset[str]:
    """Return the ids on the page."""
    return frozenset(_rules())


def _title(rule: _Rule) -> str:
    return next(title for path, title in _SECTIONS.items() if rule.path.startswith(path))


def _entry(name: str, rule: _Rule) -> Iterator[str]:
    yield f"### {name}\n"
    if rule.description:
        yield f"{rule.description}\n"
    if rule.texts:
        yield from dict.fromkeys(rule.texts)
        yield ""
    if rule.source:
        linked = re.sub(r"(https?://[^ ,;]*[^ ,;:.])", r"<\1>", rule.source)
        yield f"Source: {linked}.\n"


@functools.cache
def _rules() -> Mapping[str, _Rule]:
    paths = [path for package in _PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    everywhere = dict(_shared(paths))
    modules = [_Module(path, everywhere) for path in paths]
    rules = dict(_archives())
    names: dict[str, str] = {}
    for module in modules:
        _declared(module, rules, names)
    for module in modules:
        _reported(module, rules, names)
    return rules


def _shared(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield the public constants whose name means the same text in every module."""
    found = defaultdict(set)
    for path in paths:
        for name, text in _Module(path, {}).constants.items():
            if not name.startswith("_"):
                found[name].add(text)
    yield from ((name, texts.pop()) for name, texts in found.items() if len(texts) == 1)


def _declared(module: _Module, rules: dict[str, _Rule], names: dict[str, str]) -> None:
    """Add the checks that a module declares, and the names of those that stand on their own."""
    for call, given, _ in module.calls():
        if call in _CHECKS and "id" in given and (name := module.text(given["id"])) != _UNKNOWN:
            find = module.functions.get(ast.unparse(given["find"])) if "find" in given else None
            rules[name] = _Rule(module.path, _first(find), module.text(given["source"]).strip(_UNKNOWN))
            if find is not None:
                rules[name].texts += _texts_below(module, find)
    for node, after in zip(module.tree.body, [*module.tree.body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            given = {each.arg: each.value for each in node.value.keywords if each.arg}
            if ast.unparse(node.value.func) in _CHECKS and "id" in given:
                name = module.text(given["id"])
                names[ast.unparse(node.targets[0])] = name
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    rules[name].description = " ".join(str(after.value.value).split())


def _archives() -> Iterator[tuple[str, _Rule]]:
    """Yield the rules of archives, which are a table instead of code."""
    for name, check in refusals.CHECKS.items():
        said = asdict(refusals.problem(name, "", where=""))
        yield name, _Rule(refusals.__name__, source=check.source, texts=_line(said))


def _reported(module: _Module, rules: dict[str, _Rule], names: Mapping[str, str]) -> None:
    """Add the texts of errors that name their rule, or are made with a check that has a name."""
    for call, given, _ in module.calls():
        owner, _, method = call.rpartition(".")
        if method in ("problem", "error") and owner in names:
            rule = names[owner]
        elif call == "Mistake":
            rule = BAD_DECLARATION.id
        elif "rule" in given and all(each in given for each in _REPORTS):
            rule = module.text(given["rule"])
        else:
            continue
        if _UNKNOWN not in rule:
            rules.setdefault(rule, _Rule(module.path)).texts += _text(module, given)


def _texts_below(module: _Module, function: ast.FunctionDef) -> list[str]:
    """Return the texts that a function reports, and those of the functions of its module that it calls."""
    reached, waiting = {function.name}, [function]
    found = []
    while waiting:
        for call, given, _ in module.calls(waiting.pop()):
            if call == "Problem" and "rule" not in given:
                found += _text(module, given)
            if call in module.functions and call not in reached:
                reached.add(call)
                waiting.append(module.functions[call])
    return found


def _text(module: _Module, given: Mapping[str, ast.expr]) -> list[str]:
    """Return the line of one text, if the code has any of its words."""
    return _line({name: module.text(each).strip() for name, each in given.items()})


def _line(said: Mapping[str, str]) -> list[str]:
    shown = {name: said.get(name, "") for name in ("what", "expected", "why", "fix")}
    parts = [f"{name}: {words}" for name, words in shown.items() if re.search(r"\w", words)]
    return [f"- {_plain('; '.join(parts).removeprefix('what: '))}"] if parts else []


def _plain(text: str) -> str:
    """Return a text in one line, in which nothing but backticks is Markdown."""
    code = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(
        part if part.startswith("`") else re.sub(r"([*<\[]|\b_|_\b)", r"\\\1", part) for part in code
    )


def _first(function: ast.FunctionDef | None) -> str:
    text = ast.get_docstring(function) if function is not None else None
    return " ".join((text or "").partition("\n\n")[0].split())
