"""Checks of models that call other models, which Triton calls business logic scripting.

SageMaker loads one model of an artifact, or its ensemble with the steps: issues 5452 of server and 3299 of
aws/deep-learning-containers. The caller must load every other model that it calls, and Triton looks for them
among all artifacts of the instance; tests/models/test_called_models.py tests both on the bundled server.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from triton_models.base.errors import Problem
from triton_models.check.shared_memory import instances_of
from triton_models.check.subject import ArtifactCheck, Model, Subject
from triton_models.check.target import MULTI_MODEL_ENDPOINT
from triton_models.config.pbtxt import CALLS, calls_of
from triton_models.facts.load_threads import MAX_CALLERS

_MULTI_MODEL = (MULTI_MODEL_ENDPOINT,)
_MAX_MODEL_PY = 1 << 20
_FUNCTIONS = {"InferenceRequest", "load_model"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """The code of a Python model, with regard to other models.

    Attributes:
        path: Its path in the layout.
        fixed: The models that it names in calls of Triton's functions, with the line of the first one.
        loads: True if it creates `CalledModels`, which loads the declared calls.
        unloads: True if it calls a method `unload`.
    """

    path: str
    fixed: dict[str, int]
    loads: bool
    unloads: bool


def inner_model(subject: Subject) -> Iterator[Problem]:
    """Check that every declared call is of a model in the artifact."""
    there = {model.folder for model in subject.models}
    for model, config in subject.having("parameters"):
        for declared, name in calls_of(config).items():
            if name not in there:
                yield subject.refuse(
                    model,
                    f"parameters: {CALLS}{declared}",
                    f"the code calls the model {name!r}, which is not in the artifact",
                    expected=f"one of {', '.join(sorted(there - {model.folder})) or 'its models'}",
                    why="the caller cannot load it, and so does not load",
                    fix=f"add the model {name}/, or remove the parameter",
                )


def fixed_name(subject: Subject) -> Iterator[Problem]:
    """Check that no code calls a model by a fixed name."""
    for code in _codes(subject):
        for name, line in code.fixed.items():
            yield Problem(
                what=f"the code calls the model {name!r} by a fixed name",
                where=f"{subject.layout.place(code.path)}:{line}",
                expected="the name from CalledModels, which loads the model under a unique name",
                why="another version with the name on the instance answers in its place, or both fail",
                fix=f'declare PythonModel(..., calls=["{name}"]), and call it with CalledModels',
            )


def unloaded(subject: Subject) -> Iterator[Problem]:
    """Check that a caller unloads the models that it loads."""
    for code in _codes(subject):
        if code.loads and not code.unloads:
            yield Problem(
                what="the code creates CalledModels and never unloads them",
                where=subject.layout.place(code.path),
                expected="a call of its method unload in finalize",
                why="the called models would stay in memory after SageMaker evicts their caller",
                fix="add a method finalize(self) that calls unload()",
            )


def callers(subject: Subject) -> Iterator[Problem]:
    """Check that the models that call others leave threads to load these."""
    found = [model.folder for model, config in subject.having("parameters") if calls_of(config)]
    if len(found) > MAX_CALLERS:
        yield Problem(
            what=f"{len(found)} models call others: {', '.join(found)}",
            where=subject.layout.where,
            expected=f"at most {MAX_CALLERS} in an artifact",
            why="each waits in a loading thread; if all threads wait, no model loads again",
            fix="call the models from fewer places",
        )


def instances(subject: Subject) -> Iterator[Problem]:
    """Check that a model that calls others has one instance."""
    for model, config in subject.having("parameters"):
        count = instances_of(config)
        if calls_of(config) and count > 1:
            yield subject.refuse(
                model,
                "instance_group",
                f"{count} instances of a model that calls others",
                expected="a single one",
                why="each unloads the called models, and in a race the server aborts",
                fix="set count: 1; dynamic batching lets one instance take several requests",
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
    if not any(each in source for each in (b"InferenceRequest", b"load_model", b"CalledModels")):
        return None
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None  # loading the model gives a better error
    fixed: dict[str, int] = {}
    called = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else _name(node.func)
            called.add(function)
            if function in _FUNCTIONS and (name := _model_name(node, function)):
                fixed.setdefault(name, node.lineno)
    return _Code(path=path, fixed=fixed, loads="CalledModels" in called, unloads="unload" in called)


def _model_name(call: ast.Call, function: str) -> str:
    """Return the model's name in a call; empty if it is known only at run time."""
    value = next((each.value for each in call.keywords if each.arg == "model_name"), None)
    if value is None and function == "load_model":
        value = next(iter(call.args), None)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


_SOURCE = "issues 5452 of triton-inference-server/server and 3299 of aws/deep-learning-containers"
_SEEN = "2026-11-24: seen on Triton 24.10"

CHECKS = (
    ArtifactCheck(id="inner-model", source=_SOURCE, find=inner_model, endpoints=_MULTI_MODEL),
    ArtifactCheck(
        id="inner-model-name", source=f"{_SOURCE}; {_SEEN}", find=fixed_name, endpoints=_MULTI_MODEL
    ),
    ArtifactCheck(id="inner-model-instances", source=_SEEN, find=instances, endpoints=_MULTI_MODEL),
    ArtifactCheck(id="inner-model-unload", source=_SEEN, find=unloaded, endpoints=_MULTI_MODEL),
    ArtifactCheck(
        id="inner-model-callers",
        source="triton_models.facts.load_threads",
        find=callers,
        endpoints=_MULTI_MODEL,
    ),
)
