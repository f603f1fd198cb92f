"""Checks of folders and files: what Triton must find, and which model SageMaker serves.

The multi-model front end of Triton serves the last directory that the file system lists, unless a directory
declares an ensemble (server, src/sagemaker_server.cc of 2026-08-19). So an artifact must be unambiguous. On a
single-model endpoint, docker/sagemaker/serve of the same date starts the server.
"""

from __future__ import annotations

import posixpath
import re

from triton_models.artifact.layout import BUILD_FILE, BUILD_RECORD, MODEL_NAME, Layout
from triton_models.artifact.pbtxt import CONFIG_FILE, ModelConfig, as_json
from triton_models.artifact.targets import built_gpu
from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean, some_of
from triton_models.check.backend import MODEL_FILES
from triton_models.check.backend_rules import dali, fil
from triton_models.check.release import refuses_outside
from triton_models.check.subject import (
    MAX_VERSION,
    PORTABLE_FILES,
    REFUSED,
    Findings,
    Model,
    Subject,
    rule,
    version_number,
)
from triton_models.check.target import ENDPOINTS, LET_COMPLETE, MULTI_MODEL_ENDPOINT, SINGLE_MODEL_ENDPOINT
from triton_models.facts.instances import GPUS
from triton_models.facts.releases import RELEASES
from triton_models.facts.tensorrt import TENSORRT_VERSION

_SOURCE = "2026-11-21: Triton core 24.10, src/model_repository_manager/model_lifecycle.cc"
NO_MODEL = rule("no-model", _SOURCE)
TOO_DEEP = rule("too-deep", _SOURCE)
CONFIG_MISSING = rule("config-missing", _SOURCE)
VERSION_MISSING = rule("version-missing", _SOURCE)
VERSION_NUMBER = rule("version-number", _SOURCE)
MODEL_FILE_MISSING = rule("model-file-missing", _SOURCE)
LABEL_FILE = rule("label-file", _SOURCE)
LFS_POINTER = rule("lfs-pointer", _SOURCE)

_FRONT_END = "2026-08-19: server, src/sagemaker_server.cc and docker/sagemaker/serve"
_MULTI = (MULTI_MODEL_ENDPOINT,)
MODEL_NAME_RULE = rule("model-name", _FRONT_END, endpoints=ENDPOINTS)
SEVERAL_MODELS = rule("several-models", _FRONT_END, endpoints=_MULTI)
SEVERAL_ENSEMBLES = rule("several-ensembles", _FRONT_END, endpoints=_MULTI)
STRAY_DIRECTORY = rule("stray-directory", _FRONT_END, endpoints=_MULTI)
ENSEMBLE_UNDETECTED = rule("ensemble-undetected", _FRONT_END, endpoints=_MULTI)
ENSEMBLE_IN_COMMENT = rule("ensemble-in-comment", _FRONT_END, endpoints=_MULTI)
DECOUPLED = rule("decoupled", _FRONT_END, endpoints=_MULTI)
COMPOSING_CACHE = rule("composing-cache", _FRONT_END, endpoints=_MULTI)
ROOT_CONFIG = rule("root-config", _FRONT_END, endpoints=(SINGLE_MODEL_ENDPOINT,))

_LFS_POINTER = b"version https://git-lfs"
_LFS_POINTER_BYTES = range(100, 300)  # three short lines: a version, a digest and a size
_SPELLED_CONFIG = re.compile(r"(?ai:config\.(?:pbtxt?|pb\.txt|textproto|prototxt)(?:\.txt)?)")
_SPELLED_VERSION = re.compile(r"(?ai:v|ver|version|rev)[-_. ]?(\d{1,18})")
_BELOW_A_FOLDER = 2  # slashes in folder/model/file


def check_artifact(report: Findings, subject: Subject) -> None:
    """Report what Triton does not find at the top of an artifact, and in its build record."""
    nested = _nested(subject)
    if nested:
        what = f"a model directory one level too deep: {some_of(nested)}"
        top = posixpath.join(subject.layout.where, posixpath.dirname(nested[0]))
        pack = "pack the folder that contains the model directories"
        fix = f"use {top} instead" if subject.layout.sources else pack
        why = "Triton and SageMaker look for models only in the top-level folders"
        report(TOO_DEEP, what, fix=fix, why=why)
    elif not subject.models and not subject.unconfigured():
        fix = f"run `fleet build NAME`, which writes {CONFIG_FILE} and a version folder such as 1/"
        fix = _misnamed(subject, "") or fix
        report(NO_MODEL, "no model directory", fix=fix, why="there is nothing to load")
    _check_configurations(report, subject)
    report.add(subject.unreadable)
    try:
        subject.layout.build()
    except FleetError as error:
        report.add(error.problems)
    else:
        _check_record(report.file(BUILD_FILE), subject)
    for model in subject.models:
        _check_versions(report.file(model.path), model)
    _check_choice(report, subject)
    _check_features(report, subject)


def check_model(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report files that a model's configuration names, but that are missing or unusable."""
    _check_labels(report, model, config)
    if model.is_ensemble:
        return
    names, layout = _opened(model, config), model.layout
    # A file for a compute capability replaces the default one on that GPU, so the default may be absent.
    others = tuple(config.cc_model_filenames.values()) if names else ()
    for version in model.available_versions():
        folder = posixpath.join(model.path, str(version))
        for choice, accepted in ((names, names + others), *(((name,), (name,)) for name in others)):
            paths = [posixpath.join(folder, name) for name in accepted]
            if choice and not any(_opens(model, config, path) for path in paths):
                what = f"no {' or '.join(choice)} in {folder}/"
                what += "".join(f": {path} is a folder" for path in paths if path in layout.directories)
                fix = f"add it for the backend {model.backend.name!r}, or name it as default_model_filename"
                report.file(folder)(MODEL_FILE_MISSING, what, fix=fix)
    for path in model.paths(*names, *config.cc_model_filenames.values()):
        if is_lfs_pointer(layout, path):
            what = f"{posixpath.basename(path)} is a Git LFS pointer, not the file itself"
            fix = "run `git lfs pull` and pack the model again"
            report.file(path)(LFS_POINTER, what, fix=fix, why="the backend cannot read it")


def _opens(model: Model, config: ModelConfig, path: str) -> bool:
    """Return whether there is what the backend opens at a path: a file, or a folder in which it has one.

    LoadModel of onnxruntime_backend, model_file of fil_backend, torch::jit::load, LoadPlan of
    tensorrt_backend, and Python's import (r25.09, read 2026-11-28).
    """
    layout, backend = model.layout, model.backend.name
    if path not in layout.directories:
        return path in layout.files
    files = {
        "onnxruntime": "model.onnx",
        "fil": _forest_file(config) if config.default_model_filename else "",
    }
    if backend in files:
        return bool(files[backend]) and posixpath.join(path, files[backend]) in layout.files
    return backend not in {"python", "pytorch", "tensorrt"}


def is_lfs_pointer(layout: Layout, path: str) -> bool:
    """Return whether a file is one that Git LFS has not downloaded, which "lfs-pointer" reports."""
    small = layout.files[path] in _LFS_POINTER_BYTES
    return small and layout.beginning(path, len(_LFS_POINTER)) == _LFS_POINTER


def _check_configurations(report: Findings, subject: Subject) -> None:
    missing, otherwise = {}, ""
    if subject.target.auto_complete:
        for model in subject.models:
            backend = model.backend.name
            if model.text is None and not model.completes and backend not in {"", "python"}:
                missing[model.path] = f"the backend {backend!r} does not know the inputs and outputs"
    else:
        steps, otherwise = subject.step_names(), f"; or {LET_COMPLETE}"
        for folder in subject.unconfigured():
            if not subject.ensembles or folder in steps:
                missing[folder] = "by default, this library's endpoints do not complete configurations"
    for folder, why in missing.items():
        fix = f"write {CONFIG_FILE} with name, backend, max_batch_size, inputs and outputs{otherwise}"
        fix = _misnamed(subject, folder) or fix
        report.file(folder)(CONFIG_MISSING, f"no {CONFIG_FILE} in {folder!r}", fix=fix, why=why)


def _check_record(report: Findings, subject: Subject) -> None:
    record, target, unknown = subject.record, subject.target, []
    gpu, tensorrt = built_gpu(record), record.get("tensorrt")
    if record.get("release") is not None and target.release is None:
        why = "its server may not load the model's plans, environments and backends"
        unknown.append(("release", "Triton release", str(record["release"]), tuple(RELEASES), why))
    if gpu is not None and target.gpu is None:
        unknown.append(("gpu", "GPU", gpu, tuple(GPUS), "the serving GPU may not load its plans"))
    for field, called, given, known, why in unknown:
        close = did_you_mean(given, known, otherwise="")
        fix = f"update your tools if newer ones built it, or choose one of {', '.join(known)} with --{field}"
        fix = f"{close} Otherwise, {fix}" if close else fix
        report(BUILD_RECORD, f"unknown {called} {given!r}", at=field, fix=fix, why=why)
    if tensorrt is not None and not TENSORRT_VERSION.fullmatch(str(tensorrt)):
        what = f"the build record has tensorrt {tensorrt!r}, not a version such as 10.13.3"
        why = "a plan loads only in the version that compiled it"
        report(BUILD_RECORD, what, fix="build the model again", why=why)


def _check_versions(report: Findings, model: Model) -> None:
    for name in model.layout.children(model.path):
        if abs(version_number(name) or 0) > MAX_VERSION:
            what, fix = f"a version folder {name!r}", f"use a number of at most {MAX_VERSION}"
            report(VERSION_NUMBER, what, fix=fix, why="it crashes the server")
    if not (model.available_versions() or model.is_replaced):
        what, fix = _no_version(model)
        why = f'{REFUSED}: "at least one version must be available under the version policy"'
        report(VERSION_MISSING, what, fix=fix, why=why)


def _check_labels(report: Findings, model: Model, config: ModelConfig) -> None:
    labeled: set[str] = set()
    for output in config.output:
        name, at = output.label_filename, f"output {output.name!r}: label_filename"
        if not name:
            continue
        if output.name in labeled:
            report(LABEL_FILE, f"two label files for {output.name!r}", at=at, fix="list the output once")
        labeled.add(output.name)
        path = model.inside(name)
        # If the release refuses its path, "label-outside" reports it.
        if path in model.layout.files or path is None or refuses_outside(model.target.release, name):
            continue
        folder = path in model.layout.directories
        what = f"{name!r} is a folder" if folder else f"there is no file {name!r}"
        fix = f"write a text file {path} with one label per line, or remove label_filename"
        report(LABEL_FILE, what, at=at, fix=fix, why="it crashes the server" if folder else REFUSED)


def _opened(model: Model, config: ModelConfig) -> tuple[str, ...]:
    """Return the files of which the backend opens one in a version folder; empty if it may need none."""
    backend = model.backend
    names = MODEL_FILES.get(backend.name, ())
    filename = config.default_model_filename or (backend.filename if backend.name != "pytorch" else "")
    if backend.name == "dali":
        return dali.files_of({"default_model_filename": filename})
    if backend.name == "fil" and not filename:
        names = tuple(filter(None, [_forest_file(config)]))
    if filename:
        names = (filename,) if names else ()
    return names + PORTABLE_FILES.get(backend.name, ()) if model.is_portable else names


def _forest_file(config: ModelConfig) -> str:
    return fil.FILES.get(fil.read_options(as_json(config), None).model_type, "")


def _no_version(model: Model) -> tuple[str, str]:
    if model.versions:
        return (
            f"no version of {model.folder!r} is available under its version_policy",
            f"remove version_policy, or use one of {', '.join(map(str, model.versions))} in it",
        )
    what = f"no version folder in {model.folder!r}"
    for name in model.layout.children(model.path):
        number = _SPELLED_VERSION.fullmatch(name)
        if number:
            return f"{what}; {name!r} is no number", f"rename {name}/ to {int(number[1])}/"
        if len(name) > 1 and name.startswith("0") and name.isascii() and name.isdecimal():
            return (
                f"{what}; {name!r} begins with a zero",
                f"rename {name}/ to {name.lstrip('0') or '0'}/: Triton does not accept a leading zero",
            )
    content = "an empty file .keep" if model.is_ensemble else "the model's file"
    return what, f"create {posixpath.join(model.path, '1')}/ and put {content} into it"


def _misnamed(subject: Subject, folder: str) -> str:
    """Return the fix for a configuration under another name, such as config.pbtxt.txt; "" without one."""
    for path in sorted(subject.layout.files):
        name = posixpath.basename(path)
        spelled = _SPELLED_CONFIG.fullmatch(name) and name != CONFIG_FILE
        if (
            spelled
            and path.count("/") < _BELOW_A_FOLDER
            and (not folder or posixpath.dirname(path) == folder)
        ):
            return f"rename {path} to {posixpath.join(posixpath.dirname(path), CONFIG_FILE)}"
    return ""


def _nested(subject: Subject) -> list[str]:
    """Return the folders one level down that contain a configuration, if there are none at the top."""
    return sorted(
        posixpath.dirname(path)
        for path in (subject.layout.files if not subject.models else ())
        if path.count("/") == _BELOW_A_FOLDER and posixpath.basename(path) == CONFIG_FILE
    )


# SageMaker


def _check_choice(report: Findings, subject: Subject) -> None:
    models = [model.folder for model in subject.models]
    ensembles = [model.folder for model in subject.ensembles]
    if not MODEL_NAME.fullmatch(subject.layout.model):
        fix = "rename it: a letter or digit, then at most 199 letters, digits, dots, underscores, hyphens"
        why = "the name becomes an S3 key and SageMaker's TargetModel"
        report(MODEL_NAME_RULE, f"the name {subject.layout.model!r}", fix=fix, why=why)
    why = "SageMaker would serve only the one that the file system lists last"
    if len(models) > 1 and not ensembles:
        what = f"{len(models)} plain models in one artifact: {some_of(models)}"
        fix = "pack each into its own artifact, or combine them in an ensemble"
        report(SEVERAL_MODELS, what, fix=fix, why=why)
    if len(ensembles) > 1:
        what = f"{len(ensembles)} ensembles in one artifact: {some_of(ensembles)}"
        fix = "pack each into its own artifact, with copies of the composing models"
        report(SEVERAL_ENSEMBLES, what, fix=fix, why=why)
    if any(model.path == "" for model in subject.models):
        fix = "pack the model with `fleet pack`, which adds a folder with the model's name"
        why = "the container of a single-model endpoint does not start"
        report.file(CONFIG_FILE)(ROOT_CONFIG, f"{CONFIG_FILE} at the top", fix=fix, why=why)
    elif models and not ensembles:
        known = {*models, *subject.unconfigured()}
        for folder in subject.layout.children(""):
            if folder not in known:
                fix = f"move {folder!r} into the model directory, or remove it"
                why = "SageMaker may take the other folder for the model, and the load fails"
                what = f"a folder {folder!r} next to a plain model"
                report.file(folder)(STRAY_DIRECTORY, what, fix=fix, why=why)
    for model in subject.models:
        _check_detection(report.of(model), model)


def _check_features(report: Findings, subject: Subject) -> None:
    steps, ensembles = subject.step_names(), [model.folder for model in subject.ensembles]
    answering = {*steps, *(ensembles or (model.folder for model in subject.models))}
    for model, config in subject.parsed():
        if config.model_transaction_policy.decoupled and model.folder in answering:
            fix = "remove model_transaction_policy, or use a single-model endpoint"
            why, at = "the model loads, but every invocation fails with 400", "model_transaction_policy"
            report.of(model)(DECOUPLED, f"{model.folder!r} is decoupled", at=at, fix=fix, why=why)
        if config.response_cache.enable and model.folder in steps:
            # The cache's key has the names of composing models, not the artifact's.
            what, why = f"{model.folder!r} caches its answers", "requests may get another model's results"
            report.of(model)(COMPOSING_CACHE, what, at="response_cache", fix="remove response_cache", why=why)


def _check_detection(report: Findings, model: Model) -> None:
    if model.is_ensemble and not model.looks_like_ensemble:
        what = f"{model.folder!r} is an ensemble that SageMaker does not recognize"
        fix = 'write exactly platform: "ensemble", in double quotes, without a space before the colon'
        why = "SageMaker would serve one of the composing models instead, without an error"
        report(ENSEMBLE_UNDETECTED, what, at="platform", fix=f"{fix}; and remove backend", why=why)
    alone = len(report.subject.models) == 1
    if model.looks_like_ensemble and not model.is_ensemble and model.config is not None and not alone:
        what = f'{model.folder!r} is not an ensemble, but its text contains platform: "ensemble"'
        why = "SageMaker searches the raw text, and may serve this model instead"
        report(ENSEMBLE_IN_COMMENT, what, fix="reword the comment", why=why)
