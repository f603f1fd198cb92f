"""Checks of Python models: parameters, names, environments, imports, shared memory, and calls of others.

Which environment a model uses follows `backend_rules.python`. The backend uses a folder directly, and only
checks that it has bin/activate. The interpreter then looks for python3 on PATH and for pyvenv.cfg next to it
(Modules/getpath.py of CPython). StubSetup in src/pb_stub.cc (r25.09, read 2026-11-22) lets a model import
modules from its version folder and its directory.

SageMaker loads one model of an artifact, or its ensemble with the steps: issues 5452 of server and 3299 of
aws/deep-learning-containers. A model that calls others, which Triton calls business logic scripting, must
load them, and Triton looks for them among all artifacts of the instance; tests/models/test_called_models.py
tests both on the bundled server.
"""

from __future__ import annotations

import ast
import math
import posixpath
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from triton_models.artifact.environments.declared import problems_of
from triton_models.artifact.environments.packages import loads_in
from triton_models.artifact.pbtxt import CALLS, ModelConfig, as_json, calls_of
from triton_models.check.backend_rules.python import (
    ENVIRONMENT,
    MODEL_DIRECTORY,
    ON_CPU,
    environment_of,
    refusals,
)
from triton_models.check.backend_rules.python_code import check_code
from triton_models.check.layout import is_lfs_pointer
from triton_models.check.subject import REFUSED, Findings, Model, Subject, parameter, rule, type_name
from triton_models.check.target import ENDPOINTS, MULTI_MODEL_ENDPOINT
from triton_models.declare.tensors import ELEMENT_BYTES
from triton_models.facts.containers import (
    MAX_CALLERS,
    PythonRegions,
    rows_of_a_request,
    too_little_shared_memory,
)
from triton_models.facts.image_contents import NAME_ADDED, python_packages
from triton_models.facts.releases import RELEASES

_SOURCE = "2026-11-21: python_backend, src/stub_launcher.cc and src/pb_env.cc; CPython, Modules/getpath.py"
_BACKEND = "2026-11-21: python_backend 24.10, src/python_be.cc"
PYTHON_PARAMETER = rule("python-parameter", _BACKEND)
PYTHON_FILE = rule("python-file", _BACKEND)
PYTHON_CODE = rule("python-code", "2026-11-28: python_backend r25.09, src/pb_stub.cc")
PYTHON_NAME = rule("python-name", _BACKEND)
PYTHON_IMPORT = rule("python-import", "2026-11-22: python_backend r25.09, src/pb_stub.cc")
ENVIRONMENT_OUTSIDE = rule("environment-outside", _SOURCE, endpoints=ENDPOINTS)
ENVIRONMENT_FILES = rule("environment-files", _SOURCE)
ENVIRONMENT_PYTHON = rule("environment-python", _SOURCE)
ENVIRONMENT_NUMPY = rule("environment-numpy", _SOURCE)
ENVIRONMENT_WHEEL = rule("environment-wheel", _SOURCE)

_ISSUES = "issues 5452 of triton-inference-server/server and 3299 of aws/deep-learning-containers"
_SEEN = "2026-11-24: seen on Triton 24.10"
_MULTI_MODEL = (MULTI_MODEL_ENDPOINT,)
INNER_MODEL = rule("inner-model", _ISSUES, endpoints=_MULTI_MODEL)
INNER_MODEL_NAME = rule("inner-model-name", _ISSUES, endpoints=_MULTI_MODEL)
INNER_MODEL_INSTANCES = rule("inner-model-instances", _SEEN, endpoints=_MULTI_MODEL)
INNER_MODEL_UNLOAD = rule("inner-model-unload", _SEEN, endpoints=_MULTI_MODEL)
INNER_MODEL_CALLERS = rule("inner-model-callers", "triton_models.facts.containers", endpoints=_MULTI_MODEL)

_LIBRARY = re.compile(r"python(\d+\.\d+)")
_NUMPY = re.compile(r"numpy-([0-9]+)[^/-]*\.dist-info")
_TAG = re.compile(rb"^Tag:\s*(\S+)", re.MULTILINE)
_WHEEL_BYTES = 1 << 16

# INVALID_CHARS in src/pb_utils.h of python_backend, branches r25.08 to r26.07 but not r25.07, read
# 2026-11-22. StubLauncher::Launch refuses them in the name of the model and of each instance, which begins
# with the group's name. It does not check the path of an environment, and the server names the region of
# shared memory.
_REFUSED_IN_NAMES = frozenset(";|&$`<>()[]{}\\\"'*?~#!")
_NAMES_CHECKED_SINCE = "25.08"

_DECLARED = "declare them in `packages` of the PythonModel, or an `environment` with them"
_WRITTEN = f"put them next to model.py, or into an environment that the parameter {ENVIRONMENT} names"
_LARGEST = 1 << 20
_FUNCTIONS = {"InferenceRequest", "load_model"}
_NAMES = (b"InferenceRequest", b"load_model", b"CalledModels")
_IMPORT_ERRORS = frozenset({"BaseException", "Exception", "ImportError", "ModuleNotFoundError"})


def check_artifact(report: Findings, subject: Subject) -> None:
    """Report what is wrong in the environments of an artifact, and in what its Python models share."""
    callers = [model.folder for model, config in subject.parsed() if calls_of(config)]
    if len(callers) > MAX_CALLERS:
        what = f"{len(callers)} models call others: {', '.join(callers)}"
        fix = f"call them from at most {MAX_CALLERS} models of an artifact"
        why = "each waits in a loading thread; if all threads wait, no model loads again"
        report(INNER_MODEL_CALLERS, what, fix=fix, why=why)
    named = (_environment_path(model, config) for model, config in subject.served())
    for path in dict.fromkeys(path for path in named if path is not None):
        if path in subject.layout.files:
            name, where = posixpath.basename(path), subject.layout.place(path)
            with suppress(OSError), subject.layout.opened(path) as content:
                report.add(problems_of(content, name=name, release=subject.target.release, where=where))
        elif path in subject.layout.directories:
            _check_environment(report, path)
    if subject.target.endpoint in ENDPOINTS:
        # Instances on GPUs are counted once: the number of GPUs is unknown. Variable sizes count as 1.
        ensembles = [model.config for model in subject.ensembles if model.config is not None]
        entry = ensembles[0] if len(ensembles) == 1 else None
        called = {name for _, config in subject.parsed() for name in calls_of(config).values()}
        shared = {
            model.folder: regions(config, entry=entry, called=model.folder in called)
            for model, config in subject.served()
            if model.backend.name == "python"
        }
        report.add(too_little_shared_memory(shared, where=subject.layout.where))


def check_model(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report what is wrong in the parameters, the names, the calls and the code of a Python model."""
    _check_calls(report, model, config)
    if model.backend.name != "python" or model.is_ensemble:
        return
    filename, value = config.default_model_filename, parameter(config, ENVIRONMENT) or ""
    # Triton only checks that the last character is one of these three.
    if filename and filename[-1] not in ".py":
        what, fix = f"a Python model in {filename!r}", "rename the file to end with .py"
        report(PYTHON_FILE, what, at="default_model_filename", fix=fix)
    for refusal in refusals(as_json(config)):
        report(PYTHON_PARAMETER, refusal.what, at=refusal.at, fix=refusal.fix)
    path, at = _environment_path(model, config), f"parameters: {ENVIRONMENT}"
    if path is not None and not model.layout.has(path):
        fix = "pack the environment into the model as a folder or .tar.gz, or correct the path"
        report(PYTHON_PARAMETER, f"there is no {path!r}", at=at, fix=fix)
    elif path is None and value.startswith(("/", MODEL_DIRECTORY)) and value not in model.image_adds:
        fix = f"put it into the artifact, as {MODEL_DIRECTORY}/environment, or /../environment for steps"
        if value.startswith("/"):
            fix += f"; if a custom image has it, name the path in {NAME_ADDED}"
        what = f"the environment {value!r} is outside the artifact"
        why = "the path does not exist on an endpoint"
        report(ENVIRONMENT_OUTSIDE, what, at=at, fix=fix, why=why)
    _check_process_names(report, model, config)
    for path in model.paths(model.backend.filename):
        _check_calls_in_code(report, path)
        _check_code(report.file(path), model, path)
    if not model.record.get("left_out"):  # portable models run in another Python
        _check_imports(report, model, config)


def _check_calls(report: Findings, model: Model, config: ModelConfig) -> None:
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


def _check_process_names(report: Findings, model: Model, config: ModelConfig) -> None:
    release = model.target.release
    if release is None or release.name < _NAMES_CHECKED_SINCE:
        return
    names = {} if report.subject.is_renamed(model) else {"name": model.folder}
    names |= {f"instance_group {n}: name": group.name for n, group in enumerate(config.instance_group)}
    for part, name in names.items():
        refused = sorted(set(name) & _REFUSED_IN_NAMES)
        if refused:
            what = f"the name {name!r} contains {' '.join(refused)}"
            fix = f"use a name without any of {' '.join(sorted(_REFUSED_IN_NAMES))}"
            why = f"releases since {_NAMES_CHECKED_SINCE} refuse it: Invalid stub name"
            report(PYTHON_NAME, what, at=part, fix=fix, why=why)


def _check_code(report: Findings, model: Model, path: str) -> None:
    layout, release = model.layout, model.target.release or RELEASES[max(RELEASES)]
    code = layout.contents([path], _LARGEST).get(path, b"")
    package = path.removesuffix(".py") + "/__init__.py"  # would be imported instead
    if len(code) != layout.files[path] or package in layout.files or is_lfs_pointer(layout, path):
        return
    major, minor = map(int, release.python.split("."))
    for refusal in check_code(code, python=(major, minor), completes=model.target.auto_complete):
        report(PYTHON_CODE, refusal.what, at=refusal.at, fix=refusal.fix, why=f"{REFUSED}: {refusal.message}")


def _check_imports(report: Findings, model: Model, config: ModelConfig) -> None:
    environment = _visible_packages(model, config)
    if environment is None:
        return
    for path in model.paths(model.backend.filename or "model.py"):
        names = imported(model.layout.beginning(path, _LARGEST) or b"")
        names -= set(sys.stdlib_module_names) | python_packages(model.target.release) | model.image_adds
        missing = _missing(model, names, (posixpath.dirname(path), model.path, *environment))
        if missing:
            do = _DECLARED if model.record else _WRITTEN
            fix = f"{do}; if a custom image has them, name them in {NAME_ADDED}"
            what = f"the model imports {', '.join(missing)}"
            why = "the import fails, and the model does not load"
            report.file(path)(PYTHON_IMPORT, what, fix=fix, why=why)


def _check_environment(report: Findings, path: str) -> None:
    layout, release = report.subject.layout, report.subject.target.release
    needed = {
        "bin/activate": "Triton refuses the model",
        "bin/python3": "without it, Python uses the image's packages",
    }
    for name, why in needed.items():
        if f"{path}/{name}" not in layout.files:
            fix = "declare it as Wheels and rebuild the model, or unpack a complete environment there"
            report.file(path)(ENVIRONMENT_FILES, f"no {name} in the environment {path!r}", fix=fix, why=why)
    matches = map(_LIBRARY.fullmatch, layout.children(posixpath.join(path, "lib")))
    pythons = [match[1] for match in matches if match]
    if release is not None and release.python not in pythons:
        had = f"is for Python {', '.join(pythons)}" if pythons else "has no lib/python3.X"
        fix = f"build it again for release {release.name}, which has Python {release.python}, or serve it "
        fix += "with the release that it was built for"
        why = "the model's process does not find its packages"
        report.file(f"{path}/lib")(ENVIRONMENT_PYTHON, f"the environment {path!r} {had}", fix=fix, why=why)
    for python in pythons:
        if release is None or python == release.python:
            folder = f"{path}/lib/python{python}/site-packages"
            _check_numpy(report.file(folder), path, folder)
            for name in layout.children(folder):
                if name.endswith(".dist-info"):
                    _check_wheel(report, f"{folder}/{name}/WHEEL", name.removesuffix(".dist-info"), python)


def _check_numpy(report: Findings, environment: str, folder: str) -> None:
    release, layout = report.subject.target.release, report.subject.layout
    names, below = layout.children(folder), release.numpy_below if release else None
    majors = [int(match[1]) for match in map(_NUMPY.fullmatch, names) if match]
    # A .pth file may add more folders with packages.
    elsewhere = any(path.endswith(".pth") and posixpath.dirname(path) == folder for path in layout.files)
    if not (majors or "numpy" in names or elsewhere):
        what = f"no NumPy in the environment {environment!r}"
        fix = "add numpy==version to its wheels, and rebuild it"
        why = "the Python backend imports it, and does not see the image's NumPy"
        report(ENVIRONMENT_NUMPY, what, fix=fix, why=why)
    if below is not None and any(major >= below for major in majors):
        what = f"NumPy {max(majors)} in the environment {environment!r}"
        fix = f"pin numpy<{below}, and build the model again; or serve with release 24.12 or newer"
        why = "the model loads, and answers with empty tensors and status 200"
        report(ENVIRONMENT_NUMPY, what, fix=fix, why=why)


def _check_wheel(report: Findings, path: str, name: str, python: str) -> None:
    layout = report.subject.layout
    content = layout.beginning(path, _WHEEL_BYTES) if path in layout.files else b""
    tags = [tag.decode(errors="replace") for tag in _TAG.findall(content or b"")]
    if tags and not any(_loads(tag, python) for tag in tags):
        fix = "declare the environment as Wheels, so that pip downloads wheels for the image: Python "
        fix += f"{python} on Linux x86-64 with glibc"
        what, why = f"{name} is built for {', '.join(tags)}", "the import fails, and the model does not load"
        report.file(path)(ENVIRONMENT_WHEEL, what, fix=fix, why=why)


def instances_of(config: ModelConfig) -> int:
    """Return the number of instances of a model. Triton starts one by default."""
    return sum(max(group.count, 1) for group in config.instance_group) or 1


def imported(code: bytes) -> set[str]:
    """Return the top-level modules that code imports, except where it handles a failed import."""
    try:
        return set(_imports(ast.parse(code)))
    except (SyntaxError, ValueError):
        return set()


def _environment_path(model: Model, config: ModelConfig) -> str | None:
    """Return an environment's path in the layout; None without one, or if it is outside."""
    value = parameter(config, ENVIRONMENT) or ""
    if model.backend.name != "python" or not value.startswith(MODEL_DIRECTORY):
        return None
    path = environment_of(as_json(config), model.folder)
    # A value without a slash after the keyword names a neighbor of the model's directory.
    return model.inside(f"../{path}" if model.path else posixpath.relpath(path, model.folder))


def _loads(tag: str, python: str) -> bool:
    """Return True if a package with this tag can be imported. Local builds have the tag linux_x86_64."""
    return tag.count("-") == 2 and loads_in(tag.replace("-linux_", "-manylinux_"), python)  # noqa: PLR2004


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.partition(".")[0]
    elif _is_guarded(node):
        return
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


def _is_guarded(node: ast.AST) -> bool:
    """Return True if the code works even if the imports in this node fail or do not run."""
    if isinstance(node, ast.Try):
        return any(map(_handles_missing, node.handlers))
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _handles_missing(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _IMPORT_ERRORS for node in ast.walk(handler.type))


def _visible_packages(model: Model, config: ModelConfig) -> tuple[str, ...] | None:
    """Return the folders with modules in a model's environment; None if the environment is not visible."""
    if parameter(config, ENVIRONMENT) is None:
        return ()
    library = f"{_environment_path(model, config)}/lib"
    return tuple(f"{library}/{name}/site-packages" for name in model.layout.children(library)) or None


def _missing(model: Model, names: set[str], folders: Sequence[str]) -> list[str]:
    """Return the modules missing from these folders; none if a .pth file may lead to other folders."""
    files, children = model.layout.files, model.layout.children
    absent = {
        name
        for name in names
        if not any(f"{folder}/{name}.py" in files or name in children(folder) for folder in folders)
    }
    if not absent:
        return []
    others = {posixpath.basename(path) for path in files if posixpath.dirname(path) in folders}
    if any(name.endswith(".pth") for name in others):
        return []
    return sorted(absent - {name.partition(".")[0] for name in others})


def regions(config: ModelConfig, *, entry: ModelConfig | None = None, called: bool = False) -> PythonRegions:
    """Return the shared memory of a Python model's instances.

    Requests go to `entry`, the ensemble of which the model is a step, or to the model itself. Another model
    that calls it may send more rows.
    """
    inputs = () if parameter(config, ON_CPU) == "no" else config.input
    rows, request = max(config.max_batch_size, 1), config if entry is None else entry
    if not (called or config.HasField("dynamic_batching") or config.HasField("sequence_batching")):
        rows = min(rows, rows_of_a_request(_row(tensor for tensor in request.input if not tensor.optional)))
    return PythonRegions(count=instances_of(config), row=_row([*config.output, *inputs]), rows=rows)


def _row(tensors: Iterable[Any]) -> int:
    """Return the bytes of a row of tensors. Variable sizes count as 1."""
    return sum(
        math.prod(max(size, 1) for size in tensor.dims) * ELEMENT_BYTES.get(type_name(tensor.data_type), 0)
        for tensor in tensors
    )


# The code of models that call others


def _check_calls_in_code(report: Findings, path: str) -> None:
    source = report.subject.layout.beginning(path, _LARGEST) or b""
    try:
        tree = ast.parse(source if any(name in source for name in _NAMES) else b"")
    except (SyntaxError, ValueError):
        return  # loading the model gives a better error
    place, fixed, called = report.file(path), dict[str, int](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
            called.add(function)
            if function in _FUNCTIONS and (name := _model_name(node, function)):
                fixed.setdefault(name, node.lineno)
    for name, line in fixed.items():
        what = f"the code calls the model {name!r} by a fixed name"
        fix = f'declare PythonModel(..., calls=["{name}"]), and call the unique name that CalledModels has'
        why = "another version with the name on the instance answers in its place, or both fail"
        place(INNER_MODEL_NAME, what, at=f"line {line}", fix=fix, why=why)
    if "CalledModels" in called and "unload" not in called:
        what = "the code creates CalledModels and never unloads them"
        fix = "add a method finalize(self) that calls unload()"
        why = "the called models would stay in memory after SageMaker evicts their caller"
        place(INNER_MODEL_UNLOAD, what, fix=fix, why=why)


def _model_name(call: ast.Call, function: str) -> str:
    """Return the model's name in a call; empty if it is known only at run time."""
    values = [keyword.value for keyword in call.keywords if keyword.arg == "model_name"]
    values += call.args[:1] if function == "load_model" else []
    value = next(iter(values), None)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
