"""What the rules look at: the models inside an artifact, as Triton and SageMaker would see them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from triton_models.config import CONFIG_FILE, ModelConfig, decode, parse_config
from triton_models.errors import FleetError, Problem
from triton_models.layout import Layout, is_version

# What SageMaker's front end in Triton searches for in the raw text (server, src/sagemaker_server.cc of
# 2026-08-19): double quotes only, no space before the colon, and a comment counts too.
_SAGEMAKER_ENSEMBLE = re.compile(r'platform:\s*"ensemble"')

# Triton core, src/model_config_utils.cc, AutoCompleteBackendFields and constants.h; read 2026-11-21.
PLATFORM_BACKENDS: Mapping[str, str] = MappingProxyType(
    {
        "onnxruntime_onnx": "onnxruntime",
        "pytorch_aoti": "pytorch",
        "pytorch_libtorch": "pytorch",
        "tensorflow_graphdef": "tensorflow",
        "tensorflow_savedmodel": "tensorflow",
        "tensorrt_plan": "tensorrt",
    }
)

# The file or folder that a backend opens in a version folder when the configuration names none, from the same
# source and from each backend's own documentation; read 2026-11-21. Any one of a row will do. A backend that
# is not listed may need no file at all.
MODEL_FILES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dali": ("model.dali", "dali.py"),
        "fil": ("xgboost.model", "xgboost.json", "xgboost.ubj", "model.txt", "checkpoint.tl", "model.pkl"),
        "onnxruntime": ("model.onnx",),
        "openvino": ("model.xml",),
        "python": ("model.py",),
        "pytorch": ("model.pt", "model.pt2", "model.py"),
        "tensorflow": ("model.savedmodel", "model.graphdef"),
        "tensorrt": ("model.plan",),
        "vllm": ("model.json",),
    }
)

# What stands in for a file that needs a GPU in a build that named none: a build record with "gpu": null.
PORTABLE_FILES: Mapping[str, tuple[str, ...]] = MappingProxyType({"tensorrt": ("model.onnx",)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model directory.

    Attributes:
        folder: Its name; the model's name to the other models of the artifact.
        path: Its path in the artifact; "" when the artifact's top is the model directory itself.
        text: Its config.pbtxt as written; None if that cannot be read.
        config: The same, parsed; None if that failed.
        versions: Its version folders, in ascending order.
    """

    folder: str
    path: str
    text: str | None
    config: ModelConfig | None
    versions: tuple[int, ...]

    @property
    def config_path(self) -> str:
        """The path of its config.pbtxt in the artifact."""
        return posixpath.join(self.path, CONFIG_FILE)

    @property
    def is_ensemble(self) -> bool:
        """Whether it is meant as an ensemble, however it says so."""
        config = self.config
        if config is None:
            return self.looks_like_ensemble
        return bool(
            config.platform == "ensemble"
            or config.backend == "ensemble"
            or config.HasField("ensemble_scheduling")
        )

    @property
    def looks_like_ensemble(self) -> bool:
        """Whether SageMaker takes it for an ensemble."""
        return self.text is not None and _SAGEMAKER_ENSEMBLE.search(self.text) is not None

    def available_versions(self) -> tuple[int, ...]:
        """The versions that the version policy makes available."""
        policy = self.config.version_policy if self.config is not None else None
        choice = policy.WhichOneof("policy_choice") if policy is not None else None
        if policy is not None and choice == "all":
            return self.versions
        if policy is not None and choice == "specific":
            return tuple(version for version in self.versions if version in policy.specific.versions)
        count = policy.latest.num_versions if policy is not None and choice == "latest" else 1
        return self.versions[-max(count, 1) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An artifact with its models.

    Attributes:
        layout: What it holds.
        models: Its model directories: every top-level folder with a config.pbtxt, or the top itself.
        unreadable: What is wrong with configurations that could not be parsed.
        portable: It was built for no GPU, so what stands in for a plan will do.
    """

    layout: Layout
    models: tuple[Model, ...]
    unreadable: tuple[Problem, ...]
    portable: bool

    @property
    def ensembles(self) -> tuple[Model, ...]:
        """The models meant as ensembles."""
        return tuple(model for model in self.models if model.is_ensemble)

    def unconfigured(self) -> tuple[str, ...]:
        """Top-level folders that are model directories in all but the configuration."""
        if CONFIG_FILE in self.layout.files:
            return ()
        return tuple(
            folder
            for folder in self.layout.children("")
            if f"{folder}/{CONFIG_FILE}" not in self.layout.files
            and any(is_version(name) for name in self.layout.children(folder))
        )

    def step_names(self) -> set[str]:
        """The names of the models that the ensembles' steps run."""
        return {
            step.model_name
            for model in self.ensembles
            if model.config is not None
            for step in model.config.ensemble_scheduling.step
        }

    def parsed(self) -> Iterator[tuple[Model, ModelConfig]]:
        """Every model whose configuration could be parsed, with it."""
        for model in self.models:
            if model.config is not None:
                yield model, model.config

    def place(self, model: Model, part: str = "") -> str:
        """A part of a model's configuration, as an error names it."""
        place = self.layout.place(model.config_path)
        return f"{place}: {part}" if part else place

    def backend(self, model: Model) -> str:
        """The backend that runs a model, found as Triton finds it; "" if it cannot be told."""
        config = model.config
        if config is None:
            return ""
        if config.backend or config.platform:
            return str(config.backend or PLATFORM_BACKENDS.get(config.platform, config.platform))
        for backend, names in MODEL_FILES.items():
            named = config.default_model_filename in names
            if named or any(self.layout.has(path) for path in self.version_paths(model, names)):
                return backend
        return ""

    def version_paths(self, model: Model, names: tuple[str, ...]) -> tuple[str, ...]:
        """The paths of files of these names in every version folder."""
        return tuple(
            posixpath.join(model.path, str(version), name) for version in model.versions for name in names
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that is checked.

    Attributes:
        id: Stable: it is printed with every problem and may be searched for.
        find: Yields a problem for each place that breaks the rule. Problems need not carry the id.
    """

    id: str
    find: Callable[[Subject], Iterator[Problem]]


def subject_of(layout: Layout) -> Subject:
    """The models in an artifact, each configuration parsed once."""
    folders = [folder for folder in layout.children("") if f"{folder}/{CONFIG_FILE}" in layout.files]
    paths = [""] if CONFIG_FILE in layout.files else folders
    models: list[Model] = []
    problems: list[Problem] = []
    for path in paths:
        text, config = None, None
        config_path = posixpath.join(path, CONFIG_FILE)
        try:
            text = decode(layout.texts.get(config_path, b""), where=layout.place(config_path))
            config = parse_config(text, where=layout.place(config_path))
        except FleetError as error:
            problems.extend(error.problems)
        models.append(
            Model(
                folder=path or layout.model,
                path=path,
                text=text,
                config=config,
                versions=tuple(sorted(int(name) for name in layout.children(path) if is_version(name))),
            )
        )
    return Subject(
        layout=layout, models=tuple(models), unreadable=tuple(problems), portable=_is_portable(layout)
    )


def _is_portable(layout: Layout) -> bool:
    try:
        record = layout.build()
    except FleetError:
        return False
    return "gpu" in record and record["gpu"] is None
