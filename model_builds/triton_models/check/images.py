"""Checks of parts that the image must have: backends with their libraries, and repository agents.

They follow GetBackendLibraryProperties (src/backend_model.cc) for backends and CreateAgent
(src/repo_agent.cc) for agents, in Triton core r25.09, read 2026-11-22.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from triton_models.base.errors import Problem
from triton_models.base.suggest import CLOSER, close_to, did_you_mean
from triton_models.check.subject import ArtifactCheck, Model, Subject
from triton_models.config.pbtxt import ModelConfig
from triton_models.facts.image_contents import BACKEND_LIBRARIES, NAME_ADDED, REPOSITORY_AGENTS, backends
from triton_models.facts.releases import REMOVED_BACKENDS

_SOURCE = "2026-11-22: Triton core r25.09, src/backend_model.cc and src/repo_agent.cc"

_PYTHON_LIBRARY = "model.py"


def backend_unknown(subject: Subject) -> Iterator[Problem]:
    """Check that the image has the backend, or the model contains its library."""
    target = subject.target
    known = backends(target.release, cpu=target.gpu_count == 0)
    for model, config in subject.served():
        name = model.backend.name
        if (
            not name
            or name in known | subject.image_adds | set(REMOVED_BACKENDS)
            or _brings_library(subject, model, config)
        ):
            continue
        if target.endpoint is None and not close_to(name, known, cutoff=CLOSER):
            continue  # it may be a custom backend of that server
        cpus = " for CPUs" if name in BACKEND_LIBRARIES else ""
        image = (
            f"the image of release {target.release.name}{cpus} lacks"
            if target.release
            else f"Triton's images{cpus} lack"
        )
        elsewhere = f"put libtriton_{name}.so into the model, or name it in {NAME_ADDED}"
        yield subject.refuse(
            model,
            "backend",
            f"the backend {name!r}, which {image}",
            expected=f"one of {', '.join(sorted(known))}",
            why="the model does not load: unable to find backend library",
            fix=did_you_mean(name, known, otherwise=f"if a custom image has it, {elsewhere}"),
        )


def runtime(subject: Subject) -> Iterator[Problem]:
    """Check that the image or the model has the library named by `runtime`."""
    for model, config in subject.having("runtime"):
        libraries = BACKEND_LIBRARIES.get(model.backend.name, ())
        if not config.runtime or config.runtime in libraries or not libraries:
            continue
        if not _brings_library(subject, model, config):
            yield subject.refuse(
                model,
                "runtime",
                f"runtime {config.runtime!r} for the backend {model.backend.name!r}",
                expected=f"no runtime, or {' or '.join(libraries)}",
                fix=did_you_mean(config.runtime, libraries, otherwise="remove runtime"),
            )


def repository_agent(subject: Subject) -> Iterator[Problem]:
    """Check that repository agents are listed, have names, and exist."""
    known = REPOSITORY_AGENTS | subject.image_adds
    for model, config in subject.having("model_repository_agents"):
        names = [agent.name for agent in config.model_repository_agents.agents]
        absent = [name for name in names if name not in known]
        if names and not absent:
            continue
        what = f"the agent {absent[0]!r}" if absent else "model_repository_agents without an agent"
        yield subject.refuse(
            model,
            "model_repository_agents",
            what if all(names) else "an agent without a name",
            expected=f"the name of an agent that the server has, such as {' or '.join(sorted(known))}",
            why="Triton refuses the model" if names else "it crashes the server",
            fix="name an agent, or remove model_repository_agents; if a custom image has it, name it in "
            f"{NAME_ADDED}",
        )


def _brings_library(subject: Subject, model: Model, config: ModelConfig) -> bool:
    """Return True if the backend's library is in the model, which is impossible for backends in Python."""
    name = config.runtime or f"libtriton_{model.backend.name}.so"
    folders = [model.path, *(posixpath.join(model.path, str(each)) for each in model.available_versions())]
    return name != _PYTHON_LIBRARY and any(
        posixpath.join(folder, name) in subject.layout.files for folder in folders
    )


CHECKS = (
    ArtifactCheck(id="backend-unknown", source=_SOURCE, find=backend_unknown),
    ArtifactCheck(id="runtime", source=_SOURCE, find=runtime),
    ArtifactCheck(id="repository-agent", source=_SOURCE, find=repository_agent),
)
