"""Checks of forests of decision trees, for the FIL backend.

What the backend itself refuses, or does not notice: see `backend_rules.fil`. The files that Treelite refuses
were tried with Treelite 4.0.0 to 4.7.0 and XGBoost 1.7 to 3.2 on 2026-11-24. What GPUs refuse: see
`artifact.forest_head`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import IO, TypeVar

from triton_models.artifact import forest_head
from triton_models.artifact.forest_head import ForestHead
from triton_models.artifact.pbtxt import GPU_MEMORY, ModelConfig, as_json
from triton_models.base.checks import Check
from triton_models.check.backend_rules import fil
from triton_models.check.backend_rules.refusal import Refusal
from triton_models.check.subject import Findings, Model, Subject, is_on_cpu, parameter, rule
from triton_models.facts.gpu_memory import FOREST_PARTS, default_pool_mib
from triton_models.facts.releases import Release

_SOURCE = "2026-11-28: fil_backend r24.03 to r26.06 and rapids-triton; Treelite 4.0.0 to 4.7.0"
FIL_PARAMETER = rule("fil-parameter", _SOURCE)
FIL_TENSOR = rule("fil-tensor", _SOURCE)
FIL_XGBOOST = rule("fil-xgboost", _SOURCE)
FIL_LIGHTGBM = rule("fil-lightgbm", "2026-11-28: Treelite 4.7.0 and LightGBM 4.7.0, tried")
FIL_CHECKPOINT = rule("fil-checkpoint", _SOURCE)
FIL_GPU = rule(
    "fil-gpu", "2026-11-24: the importers of cuML 24.02 to 26.04 and nvForest 26.06, as fil_backend pins them"
)
FIL_POOL = rule(
    "fil-pool", "2026-11-24: rapids-triton, triton_memory_resource.hpp; core, cuda_memory_manager.cc"
)

_CHECKPOINT = "treelite_checkpoint"
_HEADS: Mapping[str, Callable[[IO[bytes]], ForestHead | None]] = {
    "xgboost": forest_head.read_legacy,
    "xgboost_json": forest_head.read_xgboost,
    "xgboost_ubj": forest_head.read_xgboost,
    "lightgbm": forest_head.read_lightgbm,
    _CHECKPOINT: forest_head.read_checkpoint,
}
_FORMAT_BYTES = 64
_MOST_BYTES = 1 << 28  # of a text file, which is read whole
# Treelite reads checkpoints of its own major version, and Treelite 4 those of 3.9 (src/serializer.cc).
_OLD_CHECKPOINT, _MAJOR = (3, 9), 4
# Treelite knows the key `cats` of XGBoost 3.1 and newer since 4.6, and UBJSON since 4.3.
_FIRST_WITH_CATEGORIES, _FIRST_WITH_UBJSON = (4, 6), (4, 3)

_T = TypeVar("_T")
_ON_CPU = "add instance_group [ { kind: KIND_CPU } ]"


def check_artifact(report: Findings, subject: Subject) -> None:
    """Check that the forests of an artifact fit into the memory pool that they share on a GPU."""
    gpu, total = subject.target.gpu, 0
    for model, config in subject.served():
        # Declared memory is compared with the endpoint's own pool.
        if _runs_on_gpu(model, config) and GPU_MEMORY not in config.parameters:
            size = sum(subject.layout.files[path] for path in _files(model, config))
            count = max(1, sum(group.count or 1 for group in config.instance_group))
            total += count * size // FOREST_PARTS
    if gpu and total > default_pool_mib(gpu) << 20:
        fix = f"{_ON_CPU}; or declare Instances(gpu_memory_mb=...) and TritonServer(cuda_memory_pool=...)"
        why = f"on {gpu.name} they share a pool of {default_pool_mib(gpu)} MiB, which cannot grow"
        report(FIL_POOL, f"forests of about {total >> 20} MiB on a GPU", fix=fix, why=why)


def check_model(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report what is wrong in the configuration and the file of a forest."""
    if model.backend.name != "fil" or model.is_ensemble:
        return
    release = model.target.release
    name, document = release.name if release else None, as_json(config)
    on_gpu = _runs_on_gpu(model, config)
    _report(report, FIL_PARAMETER, fil.check_options(document, name, on_gpu=on_gpu))
    _report(report, FIL_TENSOR, fil.check_tensors(document), why="every request fails")
    _check_release(report, model, config)
    for path in _files(model, config):
        kind = _kind(config)
        _check_contents(report, model, config, path)
        head = _read(model, path, _HEADS[kind]) if kind in _HEADS else None
        if kind == _CHECKPOINT and (reason := _unloadable(head, release)):
            fix = "declare a Forest with the framework's file, built as one target's checkpoint of Treelite 4"
            report.file(path)(FIL_CHECKPOINT, reason, fix=fix, why="no server of the release loads it")
        if head is None or head.version[0] != _MAJOR or (kind == _CHECKPOINT and head.targets != 1):
            continue
        _report(report, FIL_XGBOOST, fil.check_objective(head.objective, linear=head.linear))
        sizes = fil.check_sizes(
            document, name, features=head.features, classes=head.classes, targets=head.targets
        )
        if head.targets != 1:
            _report(report, FIL_XGBOOST, sizes)
            continue
        why = "the backend does not compare, and reads or writes beyond the tensor"
        _report(report, FIL_TENSOR, sizes, why=why)
        if on_gpu:
            _check_on_gpu(report, config, path, head)


def _check_contents(report: Findings, model: Model, config: ModelConfig, path: str) -> None:
    """Report a file that is not what its model_type says, or not all of it."""
    kind = _kind(config)
    contents = forest_head.format_of(model.layout.beginning(path, _FORMAT_BYTES) or b"")
    if refusals := list(fil.check_format(as_json(config), None, contents)):
        _report(report, FIL_PARAMETER, refusals)
    elif kind.startswith("xgboost"):
        refusals = _read(model, path, lambda file: list(fil.check_xgboost(file, kind))) or []
        _report(report, FIL_XGBOOST, refusals)
    elif kind == "lightgbm" and model.layout.files[path] <= _MOST_BYTES:
        refusals = _read(model, path, lambda file: list(fil.check_lightgbm(file.read().decode()))) or []
        why = "the server does not load it, or answers otherwise"
        _report(report, FIL_LIGHTGBM, refusals, why=why)


def _check_release(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report files of XGBoost that are too new for the release."""
    release, kind = model.target.release, _kind(config)
    if release is None or kind not in {"xgboost_json", "xgboost_ubj"}:
        return
    too_new: dict[str, str] = {}
    if kind == "xgboost_ubj" and release.treelite < _FIRST_WITH_UBJSON:
        too_new["a file in UBJSON"] = "use release 24.09 or newer"
    for path in _files(model, config) if release.treelite < _FIRST_WITH_CATEGORIES else ():
        if _read(model, path, fil.has_categories):
            what = f"{model.layout.place(path)} was written by XGBoost 3.1 or newer"
            too_new[what] = "use an older XGBoost, or release 26.01 or newer"
    for file, otherwise in too_new.items():
        fix = f"declare a Forest, built as a checkpoint that releases from 24.03 on read; or {otherwise}"
        why = "its Treelite does not know the format, so the model does not load"
        what = f"{file}, for release {release.name}"
        report(FIL_XGBOOST, what, at="parameters: model_type", fix=fix, why=why)


def _check_on_gpu(report: Findings, config: ModelConfig, path: str, head: ForestHead) -> None:
    """Check that no forest is loaded on a GPU whose importer refuses it, which would end the server."""
    release = report.subject.target.release
    refused = forest_head.gpu_refuses(
        head,
        release.name if release else None,
        probabilities=parameter(config, "predict_proba") == "true",
        classifier="true" in {parameter(config, "output_class"), parameter(config, "is_classifier")},
    )
    if refused:
        of = f"release {release.name}" if release else "every release"
        what = f"{path} has {refused}, which {of} cannot load on a GPU"
        fix = f"{_ON_CPU}, or declare a Forest: the build does it"
        why = "the error ends the server, with every model of the instance"
        report(FIL_GPU, what, at="instance_group", fix=fix, why=why)


def _report(
    report: Findings, check: Check, refusals: Iterable[Refusal], *, why: str = "the backend refuses the model"
) -> None:
    for refusal in refusals:
        report(check, refusal.what, at=refusal.at, fix=refusal.fix, why=f"{why}: {refusal.message}")


def _read(model: Model, path: str, read: Callable[[IO[bytes]], _T]) -> _T | None:
    """Return what a function reads from a file; None if the file cannot be read."""
    with suppress(OSError, ValueError), model.layout.opened(path) as file:
        return read(file)
    return None


def _unloadable(head: ForestHead | None, release: Release | None) -> str:
    """Return what keeps the release from loading a checkpoint, or every release; empty if one does."""
    if head is None:
        return "a file that is not a checkpoint of Treelite, or is cut off"
    major, minor = head.version
    if major != _MAJOR and head.version != _OLD_CHECKPOINT:
        return f"a checkpoint of Treelite {major}.{minor}"
    if head.targets != 1:
        return f"a forest with {head.targets} targets"
    if release and release.treelite < (major,):
        return f"a checkpoint of Treelite {major}, for release {release.name}"
    return ""


def _runs_on_gpu(model: Model, config: ModelConfig) -> bool:
    """Return True for a forest that runs on a GPU if the machine has one."""
    return model.backend.name == "fil" and model.target.gpu_count != 0 and not is_on_cpu(config)


def _files(model: Model, config: ModelConfig) -> Iterator[str]:
    return model.paths(config.default_model_filename or fil.FILES.get(_kind(config), ""))


def _kind(config: ModelConfig) -> str:
    return fil.read_options(as_json(config), None).model_type
