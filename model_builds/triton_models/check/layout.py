"""Checks of folders and files that Triton must find in a model directory."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from triton_models.artifact.built_for import built_gpus
from triton_models.artifact.layout import BUILD_FILE
from triton_models.base.errors import FleetError, Problem
from triton_models.base.suggest import did_you_mean
from triton_models.check.backend import MODEL_FILES
from triton_models.check.release import refuses_outside
from triton_models.check.subject import PORTABLE_FILES, ArtifactCheck, Model, Subject, version_number
from triton_models.check.target import LET_COMPLETE
from triton_models.config.pbtxt import CONFIG_FILE
from triton_models.facts.instances import GPUS
from triton_models.facts.releases import RELEASES
from triton_models.facts.tensorrt import TENSORRT_VERSION

_SOURCE = "2026-11-21: Triton core 24.10, src/model_repository_manager/model_lifecycle.cc"

_MAX_VERSION = 2**63 - 1
_LFS_POINTER = b"version https://git-lfs"
_LFS_POINTER_BYTES = range(100, 300)  # three short lines: a version, a digest and a size


def no_model(subject: Subject) -> Iterator[Problem]:
    """Check that there is a model to load."""
    if not (subject.models or subject.unconfigured() or _nested(subject)):
        yield Problem(
            what="no model directory",
            where=subject.layout.where,
            expected=f"a folder with {CONFIG_FILE} and a version folder such as 1/",
            why="there is nothing to load",
            fix="run `fleet build NAME`, which writes one",
        )


def too_deep(subject: Subject) -> Iterator[Problem]:
    """Check that model directories are at the top, not below another folder."""
    nested = _nested(subject)
    if nested and not subject.models:
        yield Problem(
            what=f"a model directory one level too deep: {', '.join(nested)}",
            where=subject.layout.where,
            expected="model directories at the top",
            why="Triton and SageMaker look for models only in the top-level folders",
            fix=f"use {posixpath.join(subject.layout.where, posixpath.dirname(nested[0]))} instead"
            if subject.layout.sources
            else "pack the folder that contains the model directories",
        )


def config_missing(subject: Subject) -> Iterator[Problem]:
    """Check that every model directory has a configuration, unless the backend generates one."""
    if subject.target.auto_complete:
        for model in subject.models:
            if (
                model.text is None
                and model.backend.name
                and not model.completes
                and model.backend.name != "python"
            ):
                yield _no_config(
                    subject,
                    model.path,
                    why=f"the backend {model.backend.name!r} does not know the inputs and outputs",
                )
        return
    steps = subject.step_names()
    for folder in subject.unconfigured():
        if not subject.ensembles or folder in steps:
            yield _no_config(
                subject,
                folder,
                why="by default, this library's endpoints do not complete configurations",
                otherwise=f"; or {LET_COMPLETE}",
            )


def config_syntax(subject: Subject) -> Iterator[Problem]:
    """Check that every configuration can be parsed."""
    yield from subject.unreadable


def build_record(subject: Subject) -> Iterator[Problem]:
    """Yield a problem if the build record cannot be read, or names an unknown release or GPU."""
    try:
        subject.layout.build()
    except FleetError as error:
        yield from error.problems
        return
    release, gpus = subject.record.get("release"), built_gpus(subject.record)
    if release is not None and subject.target.release is None:
        yield _unknown_in_record(
            subject,
            "release",
            "Triton release",
            str(release),
            known=tuple(RELEASES),
            why="its server may not load the model's plans, environments and backends",
        )
    tensorrt = subject.record.get("tensorrt")
    if tensorrt is not None and not TENSORRT_VERSION.fullmatch(str(tensorrt)):
        yield Problem(
            what=f"the build record has tensorrt {tensorrt!r}",
            where=subject.layout.place(BUILD_FILE),
            expected="a version such as 10.13.3, or null",
            why="a plan loads only in the version that compiled it",
            fix="build the model again",
        )
    # With several GPUs, the target's GPU is None anyway: see `CheckTarget.with_record`.
    if len(gpus) == 1 and subject.target.gpu is None:
        yield _unknown_in_record(
            subject, "gpu", "GPU", gpus[0], known=tuple(GPUS), why="the serving GPU may not load its plans"
        )


def version_missing(subject: Subject) -> Iterator[Problem]:
    """Check that every model has a version that its policy makes available."""
    for model in subject.models:
        if not (model.available_versions() or model.is_replaced):
            what, expected, fix = _no_version(subject, model)
            yield Problem(
                what=what,
                where=subject.layout.place(model.path),
                expected=expected,
                why="Triton refuses the model: "
                '"at least one version must be available under the version policy"',
                fix=fix,
            )


def version_number_size(subject: Subject) -> Iterator[Problem]:
    """Check that the server can represent the number of every version."""
    for model in subject.models:
        for name in subject.layout.children(model.path):
            number = version_number(name)
            if number is not None and abs(number) > _MAX_VERSION:
                yield Problem(
                    what=f"a version folder {name!r}",
                    where=subject.layout.place(model.path),
                    expected=f"a number of at most {_MAX_VERSION}",
                    why="it crashes the server",
                    fix="use a shorter number",
                )


def model_file_missing(subject: Subject) -> Iterator[Problem]:
    """Check that every available version has the file that its backend opens."""
    for model, config in subject.served():
        names = _opened(subject, model)
        # A file for a compute capability replaces the default one on that GPU, so the default may be absent.
        alternatives = tuple(config.cc_model_filenames.values()) if names else ()
        for version in model.available_versions():
            folder = posixpath.join(model.path, str(version))
            if names and not any(subject.layout.has(posixpath.join(folder, n)) for n in names + alternatives):
                yield _file_missing(subject, model, folder=folder, names=names)
            for name in alternatives:
                if not subject.layout.has(posixpath.join(folder, name)):
                    yield _file_missing(subject, model, folder=folder, names=(name,))


def label_file(subject: Subject) -> Iterator[Problem]:
    """Check that the label files of outputs exist."""
    for model, config in subject.parsed():
        labeled: set[str] = set()
        for output in config.output:
            name = output.label_filename
            if not name:
                continue
            where = f"output {output.name!r}: label_filename"
            path = subject.inside(model, name)
            if output.name in labeled:
                yield subject.refuse(
                    model,
                    where,
                    f"two label files for {output.name!r}",
                    expected="one",
                    fix="list the output once",
                )
            labeled.add(output.name)
            if refuses_outside(subject.target.release, name):
                continue  # `release.label_outside` reports it
            if path is not None and path not in subject.layout.files:
                folder = path in subject.layout.directories
                yield subject.refuse(
                    model,
                    where,
                    f"{name!r} is a folder" if folder else f"there is no file {name!r}",
                    expected=f"a text file {path}, with one label per line",
                    why="it crashes the server" if folder else "Triton refuses the model",
                    fix="put it next to config.pbtxt, or remove label_filename",
                )


def lfs_pointer(subject: Subject) -> Iterator[Problem]:
    """Check that a model's file is the file itself, not a Git LFS pointer."""
    for model, config in subject.served():
        names = (*_opened(subject, model), *config.cc_model_filenames.values())
        for version in model.available_versions():
            for name in names:
                path = posixpath.join(model.path, str(version), name)
                if subject.layout.files.get(path, 0) not in _LFS_POINTER_BYTES:
                    continue
                if subject.layout.beginning(path, len(_LFS_POINTER)) == _LFS_POINTER:
                    yield Problem(
                        what=f"{name} is a Git LFS pointer, not the file itself",
                        where=subject.layout.place(path),
                        expected="the content of the file",
                        why="the backend cannot read it",
                        fix="run `git lfs pull` and pack the model again",
                    )


def _opened(subject: Subject, model: Model) -> tuple[str, ...]:
    """Return the files of which the backend opens one in a version folder; empty if it may need none."""
    config, backend = model.config, model.backend.name
    named = config.default_model_filename if config is not None else ""
    if named:
        names: tuple[str, ...] = (named,) if backend in MODEL_FILES else ()
    elif model.backend.filename and backend != "pytorch":
        names = (model.backend.filename,) if backend in MODEL_FILES else ()
    else:
        names = MODEL_FILES.get(backend, ())
    return names + PORTABLE_FILES.get(backend, ()) if subject.portable else names


def _unknown_in_record(
    subject: Subject, field: str, called: str, given: str, *, known: tuple[str, ...], why: str
) -> Problem:
    otherwise = f"if newer tools built it, update yours, or choose another one with --{field}"
    close = did_you_mean(given, known, otherwise="")
    return Problem(
        what=f"unknown {called} {given!r}",
        where=f"{subject.layout.place(BUILD_FILE)}: {field}",
        expected=f"one of {', '.join(known)}",
        why=why,
        fix=f"{close} Otherwise, {otherwise}" if close else otherwise,
    )


def _no_version(subject: Subject, model: Model) -> tuple[str, str, str]:
    """Return what is wrong if no version is available, the expected form, and the fix."""
    expected = "a folder with a number as its name, such as 1/, for ensembles as well"
    if model.versions:
        return (
            f"no version of {model.folder!r} is available under its version_policy",
            f"a policy that makes one of {', '.join(map(str, model.versions))} available",
            "remove version_policy, or use an existing version in it",
        )
    for name in subject.layout.children(model.path):
        if len(name) > 1 and name.startswith("0") and name.isascii() and name.isdecimal():
            return (
                f"no version folder in {model.folder!r}; {name!r} begins with a zero",
                expected,
                f"rename {name}/ to {name.lstrip('0') or '0'}/: Triton does not accept a leading zero",
            )
    content = "an empty file .keep" if model.is_ensemble else "the model's file"
    return (
        f"no version folder in {model.folder!r}",
        expected,
        f"create {posixpath.join(model.path, '1')}/ and put {content} into it",
    )


def _no_config(subject: Subject, folder: str, *, why: str, otherwise: str = "") -> Problem:
    return Problem(
        what=f"no {CONFIG_FILE} in {folder!r}",
        where=subject.layout.place(folder),
        expected=f"{folder}/{CONFIG_FILE}",
        why=why,
        fix=f"write {CONFIG_FILE} with name, backend, max_batch_size, inputs and outputs{otherwise}",
    )


def _file_missing(subject: Subject, model: Model, *, folder: str, names: tuple[str, ...]) -> Problem:
    return Problem(
        what=f"no {' or '.join(names)} in {folder}/",
        where=subject.layout.place(folder),
        expected=f"the file that the backend {model.backend.name!r} opens",
        why="Triton refuses the model",
        fix=f"add it, or name another one with default_model_filename in {CONFIG_FILE}",
    )


def _nested(subject: Subject) -> tuple[str, ...]:
    """Return the folders one level down that contain a configuration."""
    if subject.models:
        return ()
    return tuple(
        sorted(
            posixpath.dirname(path)
            for path in subject.layout.files
            if path.count("/") == 2 and posixpath.basename(path) == CONFIG_FILE  # noqa: PLR2004 (folder/model/file)
        )
    )


CHECKS = (
    ArtifactCheck(id="no-model", source=_SOURCE, find=no_model),
    ArtifactCheck(id="too-deep", source=_SOURCE, find=too_deep),
    ArtifactCheck(id="config-missing", source=_SOURCE, find=config_missing),
    ArtifactCheck(id="config-syntax", source=_SOURCE, find=config_syntax),
    ArtifactCheck(id="build-record", source=_SOURCE, find=build_record),
    ArtifactCheck(id="version-missing", source=_SOURCE, find=version_missing),
    ArtifactCheck(id="version-number", source=_SOURCE, find=version_number_size),
    ArtifactCheck(id="model-file-missing", source=_SOURCE, find=model_file_missing),
    ArtifactCheck(id="label-file", source=_SOURCE, find=label_file),
    ArtifactCheck(id="lfs-pointer", source=_SOURCE, find=lfs_pointer),
)
