"""Checks of folders and files that Triton must find in a model directory."""

from __future__ import annotations

import posixpath

from triton_models.artifact.layout import BUILD_FILE, BUILD_RECORD
from triton_models.artifact.pbtxt import CONFIG_FILE, ModelConfig
from triton_models.artifact.targets import built_gpu
from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean
from triton_models.check.backend import MODEL_FILES
from triton_models.check.release import refuses_outside
from triton_models.check.report import REFUSED, Findings, rule
from triton_models.check.subject import MAX_VERSION, PORTABLE_FILES, Model, Subject, version_number
from triton_models.check.target import LET_COMPLETE
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

_LFS_POINTER = b"version https://git-lfs"
_LFS_POINTER_BYTES = range(100, 300)  # three short lines: a version, a digest and a size
_BELOW_A_FOLDER = 2  # slashes in folder/model/file


def check_artifact(report: Findings, subject: Subject) -> None:
    """Report what Triton does not find at the top of an artifact, and in its build record."""
    nested = _nested(subject)
    if nested:
        what = f"a model directory one level too deep: {', '.join(nested)}"
        top = posixpath.join(subject.layout.where, posixpath.dirname(nested[0]))
        pack = "pack the folder that contains the model directories"
        fix = f"use {top} instead" if subject.layout.sources else pack
        why = "Triton and SageMaker look for models only in the top-level folders"
        report(TOO_DEEP, what, fix=fix, why=why)
    elif not subject.models and not subject.unconfigured():
        fix = f"run `fleet build NAME`, which writes {CONFIG_FILE} and a version folder such as 1/"
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
            if choice and not any(layout.has(posixpath.join(folder, name)) for name in accepted):
                what = f"no {' or '.join(choice)} in {folder}/"
                fix = f"add it for the backend {model.backend.name!r}, or name it as default_model_filename"
                report.file(folder)(MODEL_FILE_MISSING, what, fix=fix)
    for path in model.paths(*names, *config.cc_model_filenames.values()):
        small = layout.files[path] in _LFS_POINTER_BYTES
        if small and layout.beginning(path, len(_LFS_POINTER)) == _LFS_POINTER:
            what = f"{posixpath.basename(path)} is a Git LFS pointer, not the file itself"
            fix = "run `git lfs pull` and pack the model again"
            report.file(path)(LFS_POINTER, what, fix=fix, why="the backend cannot read it")


def _check_configurations(report: Findings, subject: Subject) -> None:
    """Check that every model directory has a configuration, unless the backend generates one."""
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
        report.file(folder)(CONFIG_MISSING, f"no {CONFIG_FILE} in {folder!r}", fix=fix, why=why)


def _check_record(report: Findings, subject: Subject) -> None:
    """Check that a build record has a valid TensorRT, and a release and a GPU that are known."""
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
    """Check that a model has a version that its policy makes available, and none too large."""
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
    if filename:
        names = (filename,) if names else ()
    return names + PORTABLE_FILES.get(backend.name, ()) if model.is_portable else names


def _no_version(model: Model) -> tuple[str, str]:
    """Return what is wrong if no version is available, and the fix."""
    if model.versions:
        return (
            f"no version of {model.folder!r} is available under its version_policy",
            f"remove version_policy, or use one of {', '.join(map(str, model.versions))} in it",
        )
    what = f"no version folder in {model.folder!r}"
    for name in model.layout.children(model.path):
        if len(name) > 1 and name.startswith("0") and name.isascii() and name.isdecimal():
            return (
                f"{what}; {name!r} begins with a zero",
                f"rename {name}/ to {name.lstrip('0') or '0'}/: Triton does not accept a leading zero",
            )
    content = "an empty file .keep" if model.is_ensemble else "the model's file"
    return what, f"create {posixpath.join(model.path, '1')}/ and put {content} into it"


def _nested(subject: Subject) -> list[str]:
    """Return the folders one level down that contain a configuration, if there are none at the top."""
    return sorted(
        posixpath.dirname(path)
        for path in (subject.layout.files if not subject.models else ())
        if path.count("/") == _BELOW_A_FOLDER and posixpath.basename(path) == CONFIG_FILE
    )
