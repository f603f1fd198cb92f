"""Checks of the imports of Python models: the image, the environment or the model must have the modules.

StubSetup in src/pb_stub.cc of python_backend (r25.09, read 2026-11-22) lets a model import modules from its
version folder and its directory.
"""

from __future__ import annotations

import ast
import posixpath
import sys
from collections.abc import Iterator, Sequence

from triton_models.base.errors import Problem
from triton_models.check.subject import ArtifactCheck, Model, Subject
from triton_models.config.pbtxt import ModelConfig
from triton_models.facts.image_contents import NAME_ADDED, python_packages

_SOURCE = "2026-11-22: python_backend r25.09, src/pb_stub.cc"

_ENVIRONMENT = "EXECUTION_ENV_PATH"
_MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
_DECLARED = "declare them in `packages` of the PythonModel, or an `environment` with them"
_WRITTEN = f"put them next to model.py, or into an environment that the parameter {_ENVIRONMENT} names"
_LARGEST = 1 << 20
_IMPORT_ERRORS = frozenset({"BaseException", "Exception", "ImportError", "ModuleNotFoundError"})


def python_import(subject: Subject) -> Iterator[Problem]:
    """Check that the imports of model.py work. Portable models are skipped: they run in another Python."""
    if subject.record.get("left_out"):
        return
    for model, config in subject.served():
        environment = _environment(subject, model, config)
        if model.backend.name != "python" or environment is None:
            continue
        for version in model.available_versions():
            folder = posixpath.join(model.path, str(version))
            path = posixpath.join(folder, model.backend.filename or "model.py")
            names = imported(subject.layout.beginning(path, _LARGEST) or b"") - _always(subject)
            missing = _missing(subject, names, (folder, model.path, *environment))
            if missing:
                yield Problem(
                    what=f"the model imports {', '.join(missing)}",
                    where=subject.layout.place(path),
                    expected="modules of Python, the image, the model's environment or its folder",
                    why="the import fails, and the model does not load",
                    fix=f"{_DECLARED if subject.record else _WRITTEN}; if a custom image has them, name "
                    f"them in {NAME_ADDED}",
                )


def imported(code: bytes) -> set[str]:
    """Return the top-level modules that code imports, except where it handles a failed import."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return set()
    return set(_imports(tree))


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (each.name.partition(".")[0] for each in node.names)
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
    caught = ast.walk(handler.type) if handler.type else ()
    names = {each.id for each in caught if isinstance(each, ast.Name)}
    return handler.type is None or bool(names & _IMPORT_ERRORS)


def _always(subject: Subject) -> set[str]:
    """Return the modules that every model can import: those of Python and of the image."""
    return set(sys.stdlib_module_names) | python_packages(subject.target.release) | subject.image_adds


def _environment(subject: Subject, model: Model, config: ModelConfig) -> tuple[str, ...] | None:
    """Return the folders with modules in a model's environment; None if the environment is not visible."""
    if _ENVIRONMENT not in config.parameters:
        return ()
    value = config.parameters[_ENVIRONMENT].string_value
    if not value.startswith(_MODEL_DIRECTORY):
        return None
    path = subject.inside(model, value.removeprefix(_MODEL_DIRECTORY).lstrip("/") or ".")
    library = f"{path}/lib"
    return tuple(f"{library}/{each}/site-packages" for each in subject.layout.children(library)) or None


def _missing(subject: Subject, names: set[str], folders: Sequence[str]) -> list[str]:
    """Return the modules missing from these folders; none if a .pth file may lead to other folders."""
    files, children = subject.layout.files, subject.layout.children
    absent = {
        name
        for name in names
        if not any(f"{each}/{name}.py" in files or name in children(each) for each in folders)
    }
    if not absent:
        return []
    others = {posixpath.basename(path) for path in files if posixpath.dirname(path) in folders}
    if any(name.endswith(".pth") for name in others):
        return []
    return sorted(absent - {name.partition(".")[0] for name in others})


CHECKS = (ArtifactCheck(id="python-import", source=_SOURCE, find=python_import),)
