"""How the Python backend reads the parameters of a model.

ModelState of python_backend (src/python_be.cc), GetPythonEnvironment (src/stub_launcher.cc) and
ExtractIfNotExtracted (src/pb_env.cc), r24.03 to r26.05; read 2026-11-28. It reads two parameters. The
sizes of shared memory are options of the server's command line.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from .refusal import Config, Refusal  # noqa: TID252  also found outside this repository

ENVIRONMENT = "EXECUTION_ENV_PATH"
ON_CPU = "FORCE_CPU_ONLY_INPUT_TENSORS"
MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"


def refusals(config: Config) -> list[Refusal]:
    """Return what the backend refuses in the parameters, whatever files there are."""
    values, problems = _values(config), []
    path, on_cpu = values.get(ENVIRONMENT, ""), values.get(ON_CPU, "yes")
    if on_cpu not in {"yes", "no"}:
        message, fix = f"Incorrect value for {ON_CPU}: {on_cpu}'", "write yes or no, in lower case"
        what, at = f"{ON_CPU} is {on_cpu!r}", f"parameters: {ON_CPU}"
        problems.append(Refusal(message=message, what=what, at=at, fix=fix))
    if path and not path.startswith(("/", MODEL_DIRECTORY)):
        name = posixpath.basename(path.rstrip("/")) or "environment.tar.gz"
        why = "the server looks for it in its own working directory"
        if MODEL_DIRECTORY in path:
            why = "only a path that begins with it is the model's directory"
        message, at = f"Failed to get the canonical path for {path}.", f"parameters: {ENVIRONMENT}"
        fix = f"write {MODEL_DIRECTORY}/{name}, and put {name} into the model's directory"
        problems.append(Refusal(message=message, what=f"{ENVIRONMENT} is {path!r}: {why}", at=at, fix=fix))
    return problems


def environment_of(config: Config, directory: str) -> str:
    """Return the path of the environment for a model in a directory; "" without one."""
    path = _values(config).get(ENVIRONMENT, "")
    return directory + path.removeprefix(MODEL_DIRECTORY) if path.startswith(MODEL_DIRECTORY) else path


def _values(config: Config) -> Mapping[str, str]:
    parameters: Mapping[str, Any] = config.get("parameters", {})
    return {name: str(entry.get("string_value", "")) for name, entry in parameters.items()}
