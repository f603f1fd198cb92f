"""Checks of models that call other models, which Triton calls business logic scripting.

SageMaker loads one model of an artifact, or its ensemble with the steps: issues 5452 of server and 3299 of
aws/deep-learning-containers. The caller must load every other model that it calls;
tests/triton_models/test_check_against_triton.py tests this on the bundled server.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from triton_models.base.errors import Problem
from triton_models.check.subject import ArtifactCheck, Model, Subject
from triton_models.check.target import MULTI_MODEL_ENDPOINT

_SOURCE = "issues 5452 of triton-inference-server/server and 3299 of aws/deep-learning-containers"

_MAX_MODEL_PY = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """The other models named in the code of a Python model.

    Attributes:
        path: The path of the code in the layout.
        calls: The models that it calls, with the line of the first call.
        loads: The models that it loads.
        loads_others: True if it also loads models whose names are known only at run time.
    """

    path: str
    calls: dict[str, int]
    loads: frozenset[str]
    loads_others: bool


def inner_model(subject: Subject) -> Iterator[Problem]:
    """Check that every model that another one calls is in the artifact, and is loaded."""
    codes = list(_codes(subject))
    if any(code.loads_others for code in codes):
        return
    loaded = subject.step_names().union(*(code.loads for code in codes))
    there = {model.folder for model in subject.models}
    for code in codes:
        for name, line in code.calls.items():
            if name not in there or name not in loaded:
                load = f'pb_utils.load_model("{name}") in initialize(), unload_model in finalize()'
                yield Problem(
                    what=f"the code calls the model {name!r}, which "
                    + ("nothing loads" if name in there else "is not in the artifact"),
                    where=f"{subject.layout.place(code.path)}:{line}",
                    expected=f"a model of the artifact that is a step of its ensemble, or {load}",
                    why="SageMaker loads an artifact's ensemble with its steps, or its only model",
                    fix=f"add {load}" if name in there else f"add the model {name}/ to the artifact",
                )


def _codes(subject: Subject) -> Iterator[_Code]:
    for model, _ in subject.served():
        if model.backend.name == "python":
            for version in model.available_versions():
                code = _read(subject, model, version)
                if code is not None:
                    yield code


def _read(subject: Subject, model: Model, version: int) -> _Code | None:
    path = posixpath.join(model.path, str(version), model.backend.filename)
    source = subject.layout.beginning(path, _MAX_MODEL_PY) or b""
    if b"InferenceRequest" not in source and b"load_model" not in source:
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None  # loading the model gives a better error
    calls: dict[str, int] = {}
    loads: set[str] = set()
    loads_others = False
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "InferenceRequest" and (name := _literal(_argument(node, "model_name"))):
            calls.setdefault(name, node.lineno)
        elif called == "load_model":
            name = _literal(_argument(node, "model_name") or next(iter(node.args), None))
            loads |= {name} - {""}
            loads_others |= not name
    return _Code(path=path, calls=calls, loads=frozenset(loads), loads_others=loads_others)


def _argument(call: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == name), None)


def _literal(value: ast.expr | None) -> str:
    """Return the string in a literal argument; empty if it is known only at run time."""
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


CHECKS = (
    ArtifactCheck(id="inner-model", source=_SOURCE, find=inner_model, endpoints=(MULTI_MODEL_ENDPOINT,)),
)
