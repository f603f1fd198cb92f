"""Checks of models that call other models, which Triton calls business logic scripting.

SageMaker loads one model of an artifact, or its ensemble with the steps: issues 5452 of server and 3299 of
aws/deep-learning-containers. The caller must load every other model that it calls, and Triton looks for them
among all artifacts of the instance; tests/models/test_called_models.py tests both on the bundled server.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from triton_models.artifact.layout import Layout
from triton_models.artifact.pbtxt import CALLS, ModelConfig, calls_of
from triton_models.check.python import instances_of
from triton_models.check.report import Findings, rule
from triton_models.check.subject import Model, Subject
from triton_models.check.target import MULTI_MODEL_ENDPOINT
from triton_models.facts.load_threads import MAX_CALLERS

_SOURCE = "issues 5452 of triton-inference-server/server and 3299 of aws/deep-learning-containers"
_SEEN = "2026-11-24: seen on Triton 24.10"
_MULTI_MODEL = (MULTI_MODEL_ENDPOINT,)
INNER_MODEL = rule("inner-model", _SOURCE, endpoints=_MULTI_MODEL)
INNER_MODEL_NAME = rule("inner-model-name", _SOURCE, endpoints=_MULTI_MODEL)
INNER_MODEL_INSTANCES = rule("inner-model-instances", _SEEN, endpoints=_MULTI_MODEL)
INNER_MODEL_UNLOAD = rule("inner-model-unload", _SEEN, endpoints=_MULTI_MODEL)
INNER_MODEL_CALLERS = rule("inner-model-callers", "triton_models.facts.load_threads", endpoints=_MULTI_MODEL)

_MAX_MODEL_PY = 1 << 20
_FUNCTIONS = {"InferenceRequest", "load_model"}
_NAMES = (b"InferenceRequest", b"load_model", b"CalledModels")


def check_artifact(report: Findings, subject: Subject) -> None:
    """Check that the models that call others leave threads to load these."""
    found = [model.folder for model, config in subject.parsed() if calls_of(config)]
    if len(found) > MAX_CALLERS:
        what = f"{len(found)} models call others: {', '.join(found)}"
        fix = f"call them from at most {MAX_CALLERS} models of an artifact"
        why = "each waits in a loading thread; if all threads wait, no model loads again"
        report(INNER_MODEL_CALLERS, what, fix=fix, why=why)


def check_model(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report what is wrong in the calls of a model."""
    calls, count = calls_of(config), instances_of(config)
    there = {each.folder for each in report.subject.models} if calls else set()
    for declared, name in calls.items():
        if name not in there:
            others = ", ".join(sorted(there - {model.folder})) or "no other model"
            what = f"the code calls the model {name!r}, which is not in the artifact"
            fix = f"add the model {name}/, or remove the parameter; there is {others}"
            why = "the caller cannot load it, and so does not load"
            report(INNER_MODEL, what, at=f"parameters: {CALLS}{declared}", fix=fix, why=why)
    if calls and count > 1:
        what = f"{count} instances of a model that calls others"
        fix = "set count: 1; dynamic batching lets one instance take several requests"
        why = "each unloads the called models, and in a race the server aborts"
        report(INNER_MODEL_INSTANCES, what, at="instance_group", fix=fix, why=why)
    if model.backend.name == "python" and not model.is_ensemble:
        for path in model.paths(model.backend.filename):
            _check_code(report, path)


def _check_code(report: Findings, path: str) -> None:
    code, place = _code(report.subject.layout, path), report.file(path)
    for name, line in code.fixed.items():
        what = f"the code calls the model {name!r} by a fixed name"
        fix = f'declare PythonModel(..., calls=["{name}"]), and call the unique name that CalledModels has'
        why = "another version with the name on the instance answers in its place, or both fail"
        place(INNER_MODEL_NAME, what, at=f"line {line}", fix=fix, why=why)
    if "CalledModels" in code.called and "unload" not in code.called:
        what = "the code creates CalledModels and never unloads them"
        fix = "add a method finalize(self) that calls unload()"
        why = "the called models would stay in memory after SageMaker evicts their caller"
        place(INNER_MODEL_UNLOAD, what, fix=fix, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """The calls in the code of a Python model.

    Attributes:
        fixed: The models that it names in calls of Triton's functions, with the line of the first one.
        called: The names of all functions and methods that it calls.
    """

    fixed: dict[str, int]
    called: set[str]


def _code(layout: Layout, path: str) -> _Code:
    code = _Code(fixed={}, called=set())
    source = layout.beginning(path, _MAX_MODEL_PY) or b""
    try:
        tree = ast.parse(source if any(each in source for each in _NAMES) else b"")
    except (SyntaxError, ValueError):
        return code  # loading the model gives a better error
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
            code.called.add(function)
            if function in _FUNCTIONS and (name := _model_name(node, function)):
                code.fixed.setdefault(name, node.lineno)
    return code


def _model_name(call: ast.Call, function: str) -> str:
    """Return the model's name in a call; empty if it is known only at run time."""
    value = next((each.value for each in call.keywords if each.arg == "model_name"), None)
    if value is None and function == "load_model":
        value = next(iter(call.args), None)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
