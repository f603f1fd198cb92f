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
    values = _values(config)
    path, on_cpu = values.get(ENVIRONMENT, ""), values.get(ON_CPU, "yes")
    found = []
    if on_cpu not in {"yes", "no"}:
        found.append(
            Refusal(
                message=f"Incorrect value for {ON_CPU}: {on_cpu}'",
                what=f"{ON_CPU} is {on_cpu!r}",
                at=f"parameters: {ON_CPU}",
                fix="write yes or no, in lower case",
            )
        )
    if path and not path.startswith(("/", MODEL_DIRECTORY)):
        name = posixpath.basename(path.rstrip("/")) or "environment.tar.gz"
        known = (
            "only a path that begins with it is the model's directory"
            if MODEL_DIRECTORY in path
            else ("the server looks for it in its own working directory")
        )
        found.append(
            Refusal(
                message=f"Failed to get the canonical path for {path}.",
                what=f"{ENVIRONMENT} is {path!r}: {known}",
                at=f"parameters: {ENVIRONMENT}",
                fix=f"write {MODEL_DIRECTORY}/{name}, and put {name} into the model's directory",
            )
        )
    return found


def environment_of(config: Config, directory: str) -> str:
    """Return the path of the environment for a model in a directory; "" without one."""
    path = _values(config).get(ENVIRONMENT, "")
    return directory + path.removeprefix(MODEL_DIRECTORY) if path.startswith(MODEL_DIRECTORY) else path


def _values(config: Config) -> Mapping[str, str]:
    parameters: Mapping[str, Any] = config.get("parameters", {})
    return {name: str(entry.get("string_value", "")) for name, entry in parameters.items()}
