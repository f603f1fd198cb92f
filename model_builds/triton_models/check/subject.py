"""The subject of the checks: the models of an artifact or a repository, as Triton and SageMaker see them.

`Findings` is the report of their problems, and `rule` names what they break.
"""

from __future__ import annotations

import functools
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from triton_models.artifact.layout import Layout
from triton_models.artifact.pbtxt import CONFIG_FILE, ModelConfig, read_text, schema, text_of
from triton_models.base.checks import Check, Report
from triton_models.base.errors import FleetError, Problem
from triton_models.check.backend import Backend, backend_of
from triton_models.check.target import MULTI_MODEL_ENDPOINT, CheckTarget
from triton_models.facts.image_contents import REPOSITORY_AGENTS, added

# SageMaker's front end in Triton searches the raw text for this (server, src/sagemaker_server.cc of
# 2026-08-19): only double quotes, no space before the colon, and even in comments.
_SAGEMAKER_ENSEMBLE = re.compile(r'platform:\s*"ensemble"')

# Stand-ins for files that need a GPU, in builds without one: their record has "gpu": null.
PORTABLE_FILES: Mapping[str, tuple[str, ...]] = {"tensorrt": ("model.onnx",)}

# VersionsToLoad of Triton core (src/model_repository_manager/model_lifecycle.cc, release 24.10): these
# folders are never versions. From other names it reads a leading number, like std::stoll, but it rejects
# leading zeros.
_NO_VERSIONS = frozenset({"warmup", "initial_state", "configs"})
_VERSION_NUMBER = re.compile(r"\s*([+-]?[0-9]+)")
MAX_VERSION = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model directory.

    Attributes:
        layout, target, record: Those of the subject.
        folder: The directory's name, by which other models refer to the model.
        path: Its path in the layout; "" if the layout's top is the model directory itself.
        text: The content of its config.pbtxt; None without one.
        config: The parsed configuration; None if it cannot be parsed, and empty if Triton does not need a
            config.pbtxt.
        versions: The numbers of its version folders, in ascending order.
        is_ensemble: True if it is meant as an ensemble, even if SageMaker does not recognize it.
        backend: The backend that Triton derives from the backend, the platform and the file names.
        completes: True if the backend may fill in missing parts of the configuration.
        is_replaced: True if a repository agent may make the server load other files instead. The
            configuration is then None.
    """

    layout: Layout
    target: CheckTarget
    record: Mapping[str, Any]
    folder: str
    path: str
    text: str | None
    config: ModelConfig | None
    versions: tuple[int, ...]
    is_ensemble: bool
    backend: Backend
    completes: bool
    is_replaced: bool = False

    @property
    def config_path(self) -> str:
        """The path of its config.pbtxt in the layout."""
        return posixpath.join(self.path, CONFIG_FILE)

    def inside(self, path: str) -> str | None:
        """Return a path relative to the model as a path in the layout; None if it leads out of the layout."""
        if path.startswith("/"):
            return None
        found = posixpath.normpath(posixpath.join(self.path, path))
        return None if found.split("/")[0] == ".." else found

    def paths(self, *names: str) -> Iterator[str]:
        """Yield the paths of files with these names in the folders of the available versions."""
        for version in self.available_versions():
            for name in names:
                path = posixpath.join(self.path, str(version), name)
                if path in self.layout.files:
                    yield path

    @property
    def is_portable(self) -> bool:
        """Return True if it was built without a GPU, so a stand-in for a plan is accepted."""
        return "gpu" in self.record and self.record["gpu"] is None

    @property
    def image_adds(self) -> frozenset[str]:
        """The backends, agents and modules that the image adds, by the record and the target."""
        return added(self.record) | self.target.image_adds

    @property
    def looks_like_ensemble(self) -> bool:
        """Return True if SageMaker takes it for an ensemble."""
        return _looks_like_ensemble(self.text)

    def available_versions(self) -> tuple[int, ...]:
        """Return the versions that the version policy makes available, in ascending order."""
        if self.config is None or not self.config.HasField("version_policy"):
            return self.versions[-1:]
        policy = self.config.version_policy
        choice = policy.WhichOneof("policy_choice")
        if choice == "specific":
            return tuple(version for version in self.versions if version in policy.specific.versions)
        if choice == "latest":
            count = policy.latest.num_versions
            return self.versions[-count:] if count else ()
        return self.versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An artifact or a repository with its models.

    Attributes:
        models: Its model directories: every top-level folder with a config.pbtxt, or the top itself. If
            Triton does not need a config.pbtxt, also every top-level folder with a version folder.
        unreadable: The problems of configurations that cannot be parsed.
    """

    layout: Layout
    target: CheckTarget
    models: tuple[Model, ...]
    ensembles: tuple[Model, ...]
    unreadable: tuple[Problem, ...]
    record: Mapping[str, Any]

    def unconfigured(self) -> tuple[str, ...]:
        """Return top-level folders that look like model directories, but have no configuration."""
        if CONFIG_FILE in self.layout.files:
            return ()
        return tuple(
            folder
            for folder in self.layout.children("")
            if f"{folder}/{CONFIG_FILE}" not in self.layout.files and version_numbers(self.layout, folder)
        )

    def is_renamed(self, model: Model) -> bool:
        """Return True if SageMaker's multi-model hosting renames a model to the target model's name.

        It does so with the ensemble, or with the only model.
        """
        multi_model = self.target.endpoint == MULTI_MODEL_ENDPOINT
        return multi_model and (model.is_ensemble or not self.ensembles)

    def step_names(self) -> set[str]:
        """Return the names of the models in the ensembles' steps."""
        return {
            step.model_name
            for model in self.ensembles
            if model.config is not None
            for step in model.config.ensemble_scheduling.step
        }

    def parsed(self) -> Iterator[tuple[Model, ModelConfig]]:
        """Yield every model that has a parsed configuration, with the configuration."""
        return ((model, model.config) for model in self.models if model.config is not None)

    def served(self) -> Iterator[tuple[Model, ModelConfig]]:
        """Yield the same as `parsed`, without the ensembles."""
        return (each for each in self.parsed() if not each[0].is_ensemble)


def subject_of(layout: Layout, target: CheckTarget) -> Subject:
    """Return the subject of the checks for a layout; every configuration is parsed once."""
    record = _record(layout)
    known = target.with_record(record)
    problems: list[Problem] = []
    models = tuple(_model(layout, path, known, record, problems) for path in _model_paths(layout, known))
    return Subject(
        layout=layout,
        target=known,
        models=models,
        ensembles=tuple(model for model in models if model.is_ensemble),
        unreadable=tuple(problems),
        record=record,
    )


def version_numbers(layout: Layout, folder: str) -> tuple[int, ...]:
    """Return the numbers that Triton reads from a model directory's folders, in ascending order."""
    numbers = set()
    for name in layout.children(folder):
        number = version_number(name)
        if number is not None and abs(number) <= MAX_VERSION:
            numbers.add(number)
    return tuple(sorted(numbers))


def version_number(name: str) -> int | None:
    """Return the number that Triton reads from a folder's name; None if Triton ignores the folder."""
    if name in _NO_VERSIONS or (len(name) > 1 and name.startswith("0")):
        return None
    match = _VERSION_NUMBER.match(name)
    return int(match[1]) if match else None


@functools.cache
def type_name(data_type: int) -> str:
    """Return a data type as config.pbtxt spells it, or its number if it does not exist."""
    known = schema().DataType.DESCRIPTOR.values_by_number
    return str(known[data_type].name) if data_type in known else str(data_type)


def tensors_of(config: ModelConfig) -> Iterator[tuple[str, Any]]:
    """Yield each input and output of a model, after "input" or "output"."""
    yield from (("input", tensor) for tensor in config.input)
    yield from (("output", tensor) for tensor in config.output)


def parameter(config: ModelConfig, name: str) -> str | None:
    """Return the value of a parameter; None if it is not set."""
    return str(config.parameters[name].string_value) if name in config.parameters else None


def is_on_cpu(config: ModelConfig) -> bool:
    """Return True if all instances of a model are on the CPU, also on a machine with a GPU."""
    groups, on_cpu = config.instance_group, schema().ModelInstanceGroup.KIND_CPU
    return bool(groups) and all(group.kind == on_cpu for group in groups)


def _model_paths(layout: Layout, target: CheckTarget) -> Iterator[str]:
    if CONFIG_FILE in layout.files:
        yield ""
        return
    for folder in layout.children(""):
        configured = f"{folder}/{CONFIG_FILE}" in layout.files
        if configured or (target.auto_complete and version_numbers(layout, folder)):
            yield folder


def _model(
    layout: Layout, path: str, target: CheckTarget, record: Mapping[str, Any], problems: list[Problem]
) -> Model:
    text, config = None, None
    config_path = posixpath.join(path, CONFIG_FILE)
    if config_path in layout.files:
        try:
            text = text_of(layout.texts.get(config_path, b""))
            config = read_text(text, where=layout.place(config_path))
        except FleetError as error:
            problems.extend(error.problems)
    else:
        config = schema().ModelConfig()
    is_replaced = config is not None and _has_own_agent(config, target, record)
    if is_replaced:
        config = None
    folder = path or layout.model
    backend = Backend() if config is None else backend_of(config, folder=folder, path=path, layout=layout)
    return Model(
        layout=layout,
        target=target,
        record=record,
        folder=folder,
        path=path,
        text=text,
        config=config,
        versions=version_numbers(layout, path),
        is_ensemble=_is_ensemble(text, config),
        backend=backend,
        completes=target.auto_complete and backend.completes(layout, path),
        is_replaced=is_replaced,
    )


def _has_own_agent(config: ModelConfig, target: CheckTarget, record: Mapping[str, Any]) -> bool:
    """Return True if the model uses a custom agent, which may make the server load another model."""
    own = {agent.name for agent in config.model_repository_agents.agents} - REPOSITORY_AGENTS
    return bool(own) and all(own) and (target.endpoint is None or own <= added(record) | target.image_adds)


def _is_ensemble(text: str | None, config: ModelConfig | None) -> bool:
    if config is None:
        return _looks_like_ensemble(text)
    return bool(
        config.platform == "ensemble"
        or config.backend == "ensemble"
        or config.HasField("ensemble_scheduling")
    )


def _looks_like_ensemble(text: str | None) -> bool:
    return text is not None and _SAGEMAKER_ENSEMBLE.search(text) is not None


def _record(layout: Layout) -> Mapping[str, Any]:
    try:
        return layout.build()
    except FleetError:
        return {}


REFUSED = "Triton refuses the model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Check):
    """A check of an artifact; `endpoints` are the kinds that it applies to, or empty for every server."""

    endpoints: tuple[str, ...] = ()


def rule(name: str, source: str, *, endpoints: tuple[str, ...] = ()) -> Rule:
    """Return the rule with this id."""
    return Rule(id=name, source=source, endpoints=endpoints)


class Findings(Report):
    """The report of an artifact, or of a place in it.

    Example:
        >>> report = Findings(subject).of(model)
        >>> report(MAX_BATCH_SIZE, "max_batch_size: -1", at="max_batch_size", fix="write 0 or more")
    """

    def __init__(self, subject: Subject, where: str = "") -> None:
        """Start without a problem; the place is the artifact if no other is given."""
        super().__init__(where or subject.layout.where)
        self.subject = subject

    def __call__(self, check: Check, what: str, *, fix: str, why: str = REFUSED, at: str = "") -> None:
        """Add a problem, unless the rule does not apply to the target; `at` is the part of the place."""
        endpoints = check.endpoints if isinstance(check, Rule) else ()
        if not endpoints or self.subject.target.endpoint in endpoints:
            where = f"{self.where}: {at}" if at else self.where
            self.add([check.problem(what=what, where=where, fix=fix, why=why)])

    def of(self, model: Model) -> Findings:
        """Return the report of a model's configuration. It adds to this one."""
        return self.file(model.config_path)

    def file(self, path: str) -> Findings:
        """Return the report of a file or folder in the artifact. It adds to this one."""
        report = Findings(self.subject, self.subject.layout.place(path))
        report._found = self._found
        return report
