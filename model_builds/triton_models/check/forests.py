"""Checks of forests of decision trees, for the FIL backend.

They follow src/model.h, src/shared_state.h and src/serialization.h of fil_backend at r24.03 to r26.06, and
get_config_param of rapids-triton, read 2026-11-24. The files that Treelite refuses were tried with Treelite
4.0.0 to 4.7.0 and XGBoost 1.7 to 3.2 on the same day. What GPUs refuse: see `artifact.forest_head`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import IO

from triton_models.artifact.forest_head import (
    ForestHead,
    gpu_refuses,
    read_checkpoint,
    read_lightgbm,
    read_xgboost,
)
from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.check.subject import ArtifactCheck, Model, Subject, type_name
from triton_models.config.pbtxt import GPU_MEMORY, ModelConfig, schema
from triton_models.facts.gpu_memory import FOREST_PARTS, default_pool_mib

_SOURCE = "2026-11-24: fil_backend r24.03 to r26.06 and rapids-triton; Treelite 4.0.0 to 4.7.0"
_GPU_SOURCE = "2026-11-24: the importers of cuML 24.02 to 26.04 and nvForest 26.06, as fil_backend pins them"
_POOL_SOURCE = "2026-11-24: rapids-triton, triton_memory_resource.hpp; core, cuda_memory_manager.cc"

# The formats, with the files that the backend opens by default.
_FILES = {
    "xgboost": "xgboost.model",
    "xgboost_json": "xgboost.json",
    "xgboost_ubj": "xgboost.ubj",
    "lightgbm": "model.txt",
    "treelite_checkpoint": "checkpoint.tl",
}
_DEFAULT = "xgboost"
_HEADS: Mapping[str, Callable[[IO[bytes]], ForestHead | None]] = MappingProxyType(
    {
        "xgboost_json": read_xgboost,
        "xgboost_ubj": read_xgboost,
        "lightgbm": read_lightgbm,
        "treelite_checkpoint": read_checkpoint,
    }
)
# Treelite reads checkpoints of its own major version, and Treelite 4 those of 3.9 (src/serializer.cc).
_READABLE = ((3, 9), (4, 0))
_SWITCHES = ("predict_proba", "is_classifier", "output_class", "xgboost_allow_unknown_field")
_CLASSIFIER_SINCE = "25.09"
_TENSORS = ("input__0", "output__0")

# XGBoost 3.1 and newer write it within the first bytes, after the names of the features. Treelite knows it
# since 4.6, and UBJSON since 4.3.
_CATEGORIES = b"cats"
_BEGINNING = 1 << 20
_FIRST_WITH_CATEGORIES = (4, 6)
_FIRST_WITH_UBJSON = (4, 3)


def fil_parameter(subject: Subject) -> Iterator[Problem]:
    """Check that the parameters of a forest are there and valid."""
    for model, config in _forests(subject):
        given = {name: entry.string_value for name, entry in config.parameters.items()}
        kind = given.get("model_type", _DEFAULT)
        if kind not in _FILES:
            fix = did_you_mean(kind, _FILES, otherwise="write one of them")
            yield subject.refuse(
                model,
                "parameters: model_type",
                f"model_type is {kind!r}",
                expected=f"one of {', '.join(_FILES)}",
                fix=fix,
            )
        for name in _SWITCHES:
            if given.get(name, "true") not in {"true", "false"}:
                yield subject.refuse(
                    model,
                    f"parameters: {name}",
                    f"{name} is {given[name]!r}",
                    expected="true or false, in lower case",
                    fix="write true or false",
                )
        yield from _classifier(subject, model, given)


def fil_tensor(subject: Subject) -> Iterator[Problem]:
    """Check that a forest has the input and the output that the backend asks for."""
    for model, config in _forests(subject):
        for part, name, tensors in zip(
            ("input", "output"), _TENSORS, (config.input, config.output), strict=True
        ):
            found = next((each for each in tensors if each.name == name), None)
            kind = "" if found is None else type_name(found.data_type)
            if kind != "TYPE_FP32":
                yield subject.refuse(
                    model,
                    part,
                    f"there is no {part} {name!r}" if found is None else f"{part} {name!r} is {kind}",
                    expected=f"the {part} {name!r} of TYPE_FP32",
                    why="every request fails: the names and the types are fixed",
                    fix=f'write {part} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ ... ] }} ]',
                )


def fil_xgboost(subject: Subject) -> Iterator[Problem]:
    """Check that the release's Treelite knows the format of a file of XGBoost."""
    release = subject.target.release
    if release is None:
        return
    for model, config in _forests(subject):
        kind = _kind(config)
        if kind not in {"xgboost_json", "xgboost_ubj"}:
            continue
        if kind == "xgboost_ubj" and release.treelite < _FIRST_WITH_UBJSON:
            yield _unknown(
                subject, model, f"a file in UBJSON, for release {release.name}", "release 24.09 or newer"
            )
        for path in _files(subject, model, config):
            begin = subject.layout.beginning(path, _BEGINNING)
            if begin and _CATEGORIES in begin and release.treelite < _FIRST_WITH_CATEGORIES:
                place = subject.layout.place(path)
                what = f"{place} was written by XGBoost 3.1 or newer, for release {release.name}"
                yield _unknown(
                    subject, model, what, "a file of XGBoost before 3.1, or release 26.01 or newer"
                )


def fil_checkpoint(subject: Subject) -> Iterator[Problem]:
    """Check that a release can load a checkpoint."""
    release = subject.target.release
    for model, config in _forests(subject):
        for path in _files(subject, model, config):
            if _kind(config) != "treelite_checkpoint":
                continue
            head = _head(subject, path, _kind(config))
            what = _unloadable(head)
            if head and not what and release and release.treelite < head.version[:1]:
                what = f"a checkpoint of Treelite {head.version[0]}, for release {release.name}"
            if what:
                yield Problem(
                    what=what,
                    where=subject.layout.place(path),
                    expected="a checkpoint of one forest for one target, written by Treelite 3.9 or 4",
                    why="no server of the release loads it",
                    fix="declare a Forest with the framework's file, which is built as such a checkpoint",
                )


def fil_gpu(subject: Subject) -> Iterator[Problem]:
    """Check that no forest is loaded on a GPU whose importer refuses it, which would end the server."""
    release = subject.target.release
    for model, config in _on_gpu(subject):
        switch = _switches(config)
        for path in _files(subject, model, config):
            head = _head(subject, path, _kind(config))
            if head is None or _unloadable(head) or head.version[0] != _READABLE[-1][0]:
                continue
            refused = gpu_refuses(
                head,
                release.name if release else None,
                probabilities=switch("predict_proba"),
                classifier=switch("output_class") or switch("is_classifier"),
            )
            if refused:
                of = f"release {release.name}" if release else "every release"
                yield subject.refuse(
                    model,
                    "instance_group",
                    f"{path} has {refused}, which {of} cannot load on a GPU",
                    expected="KIND_CPU",
                    why="the error ends the server, with every model of the instance",
                    fix="add instance_group [ { kind: KIND_CPU } ], or declare a Forest: the build does it",
                )


def fil_pool(subject: Subject) -> Iterator[Problem]:
    """Check that the forests of an artifact fit into the memory pool that they share on a GPU."""
    gpu, wanted = subject.target.gpu, 0
    for model, config in _on_gpu(subject) if gpu else ():
        files = sum(subject.layout.files[path] for path in _files(subject, model, config))
        count = max(1, sum(group.count or 1 for group in config.instance_group))
        if GPU_MEMORY not in config.parameters:  # declared memory is compared with the endpoint's own pool
            wanted += count * files // FOREST_PARTS
    if gpu and wanted > default_pool_mib(gpu) << 20:
        yield Problem(
            what=f"forests of about {wanted >> 20} MiB on a GPU",
            where=subject.layout.where,
            expected=f"at most {default_pool_mib(gpu)} MiB, the pool that an endpoint reserves on {gpu.name}",
            why="forests share this pool, which cannot grow: the model would not load",
            fix="add instance_group [ { kind: KIND_CPU } ]; or declare Instances(gpu_memory_mb=...), with "
            "TritonServer(cuda_memory_pool=...) above it",
        )


def _forests(subject: Subject) -> Iterator[tuple[Model, ModelConfig]]:
    return ((model, config) for model, config in subject.served() if model.backend.name == "fil")


def _on_gpu(subject: Subject) -> Iterator[tuple[Model, ModelConfig]]:
    """Yield the forests that run on a GPU if the machine has one."""
    kinds = schema().ModelInstanceGroup
    for model, config in _forests(subject):
        groups = config.instance_group
        if subject.target.gpu_count != 0 and not (
            groups and all(group.kind == kinds.KIND_CPU for group in groups)
        ):
            yield model, config


def _files(subject: Subject, model: Model, config: ModelConfig) -> Iterator[str]:
    """Yield the files of a forest's versions."""
    name = config.default_model_filename or _FILES.get(_kind(config), "")
    for version in model.versions:
        path = posixpath.join(model.path, str(version), name)
        if path in subject.layout.files:
            yield path


def _kind(config: ModelConfig) -> str:
    return (
        str(config.parameters["model_type"].string_value) if "model_type" in config.parameters else _DEFAULT
    )


def _switches(config: ModelConfig) -> Callable[[str], bool]:
    return lambda name: name in config.parameters and config.parameters[name].string_value == "true"


def _head(subject: Subject, path: str, kind: str) -> ForestHead | None:
    read = _HEADS.get(kind)
    if read is None:
        return None
    try:
        with subject.layout.opened(path) as file:
            return read(file)
    except OSError:
        return None


def _unloadable(head: ForestHead | None) -> str:
    """Return what keeps every release from loading a checkpoint; empty if one does."""
    if head is None:
        return "a file that is not a checkpoint of Treelite, or is cut off"
    if head.version != _READABLE[0] and head.version[:1] != _READABLE[1][:1]:
        return f"a checkpoint of Treelite {head.version[0]}.{head.version[1]}"
    return "" if head.targets == 1 else f"a forest with {head.targets} targets"


def _classifier(subject: Subject, model: Model, given: dict[str, str]) -> Iterator[Problem]:
    """Yield the problems of the parameters without which the backend refuses a model."""
    release = subject.target.release
    name = "is_classifier" if release is None or release.name >= _CLASSIFIER_SINCE else "output_class"
    known = [each for each in ("output_class", name) if each in given]
    if not known:
        yield _missing(subject, model, name, "true for a classifier, otherwise false")
    elif given[known[0]] == "true" and not _is_number(given.get("threshold", "")):
        yield _missing(subject, model, "threshold", "a number, such as 0.5, for a classifier")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _missing(subject: Subject, model: Model, name: str, expected: str) -> Problem:
    return subject.refuse(
        model,
        "parameters",
        f"there is no valid {name}",
        expected=expected,
        why=f"the backend refuses the model: Required parameter {name} not found in config",
        fix=f'add parameters {{ key: "{name}" value: {{ string_value: "..." }} }}',
    )


def _unknown(subject: Subject, model: Model, what: str, expected: str) -> Problem:
    return subject.refuse(
        model,
        "parameters: model_type",
        what,
        expected=expected,
        why="its Treelite does not know the format, so the model does not load",
        fix="declare it as a Forest, which is built as a checkpoint that every release from 24.03 on reads",
    )


CHECKS = (
    ArtifactCheck(id="fil-parameter", source=_SOURCE, find=fil_parameter),
    ArtifactCheck(id="fil-tensor", source=_SOURCE, find=fil_tensor),
    ArtifactCheck(id="fil-xgboost", source=_SOURCE, find=fil_xgboost),
    ArtifactCheck(id="fil-checkpoint", source=_SOURCE, find=fil_checkpoint),
    ArtifactCheck(id="fil-gpu", source=_GPU_SOURCE, find=fil_gpu),
    ArtifactCheck(id="fil-pool", source=_POOL_SOURCE, find=fil_pool),
)
