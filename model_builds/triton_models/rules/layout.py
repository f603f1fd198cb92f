"""Rules about folders: what SageMaker picks from an artifact, and what Triton must find in it.

SageMaker takes the last directory that the file system lists, unless one says it is an ensemble (Triton
server, src/sagemaker_server.cc). So an artifact must leave it no choice.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from triton_models.config import CONFIG_FILE
from triton_models.errors import FleetError, Problem
from triton_models.rules.subject import MODEL_FILES, PORTABLE_FILES, Rule, Subject

# It becomes an object key and SageMaker's TargetModel. Releases from 26.03 refuse a slash there.
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def model_name(subject: Subject) -> Iterator[Problem]:
    """The model's name can be an object key and a target model."""
    if not _MODEL_NAME.fullmatch(subject.layout.model):
        yield Problem(
            what=f"the name {subject.layout.model!r}",
            where=subject.layout.where,
            expected="a letter or digit, then up to 199 letters, digits, dots, underscores and hyphens",
            why="the name becomes an S3 key and SageMaker's TargetModel",
            fix="rename the folder or file",
        )


def no_model(subject: Subject) -> Iterator[Problem]:
    """There is something to load."""
    if not (subject.models or subject.unconfigured() or _nested(subject)):
        yield Problem(
            what="no model directory",
            where=subject.layout.where,
            expected=f"a folder with {CONFIG_FILE} and a version folder such as 1/",
            why="SageMaker would find nothing to load",
            fix="`fleet build NAME` writes one",
        )


def too_deep(subject: Subject) -> Iterator[Problem]:
    """Model directories are at the top, not below another folder."""
    nested = _nested(subject)
    if nested and not subject.models:
        yield Problem(
            what=f"a model directory one level too deep: {', '.join(nested)}",
            where=subject.layout.where,
            expected="model directories at the top",
            why="SageMaker looks for models only in the top-level folders",
            fix=f"give {posixpath.join(subject.layout.where, posixpath.dirname(nested[0]))} instead"
            if subject.layout.sources
            else "pack the folder that holds the model directories",
        )


def config_missing(subject: Subject) -> Iterator[Problem]:
    """Every model directory has a configuration."""
    steps = subject.step_names()
    for folder in subject.unconfigured():
        if not subject.ensembles or folder in steps:
            yield Problem(
                what=f"no {CONFIG_FILE} in {folder!r}",
                where=subject.layout.place(folder),
                expected=f"{folder}/{CONFIG_FILE}",
                why="the endpoint loads with configuration auto-complete off, which is ten times faster",
                fix=f"write {CONFIG_FILE} with name, backend, max_batch_size, inputs and outputs",
            )


def config_syntax(subject: Subject) -> Iterator[Problem]:
    """Every configuration can be parsed."""
    yield from subject.unreadable


def build_record(subject: Subject) -> Iterator[Problem]:
    """What was built for can be read."""
    try:
        subject.layout.build()
    except FleetError as error:
        yield from error.problems


def several_models(subject: Subject) -> Iterator[Problem]:
    """One plain model, or one ensemble."""
    plain = [model.folder for model in subject.models]
    if len(plain) > 1 and not subject.ensembles:
        yield Problem(
            what=f"{len(plain)} plain models in one artifact: {', '.join(plain)}",
            where=subject.layout.where,
            expected="exactly one plain model, or one ensemble with its composing models",
            why="SageMaker would serve only the one that the file system lists last, whichever that is",
            fix="make one artifact of each, or an ensemble of them",
        )


def several_ensembles(subject: Subject) -> Iterator[Problem]:
    """One ensemble."""
    names = [model.folder for model in subject.ensembles]
    if len(names) > 1:
        yield Problem(
            what=f"{len(names)} ensembles in one artifact: {', '.join(names)}",
            where=subject.layout.where,
            expected="exactly one ensemble with its composing models",
            why="SageMaker would serve the one that the file system lists last, whichever that is",
            fix="make one artifact of each, with its own copies of the composing models",
        )


def stray_directory(subject: Subject) -> Iterator[Problem]:
    """Nothing beside a plain model that SageMaker could take for it."""
    if subject.ensembles or not subject.models or subject.models[0].path == "":
        return
    known = {model.folder for model in subject.models} | set(subject.unconfigured())
    for folder in subject.layout.children(""):
        if folder not in known:
            yield Problem(
                what=f"a folder {folder!r} beside a plain model",
                where=subject.layout.place(folder),
                expected="the model directory and loose files, no other folder",
                why="SageMaker may take the other folder for the model, and the load fails",
                fix=f"move {folder!r} into the model directory, or remove it",
            )


def version_missing(subject: Subject) -> Iterator[Problem]:
    """Every model has a version that its policy makes available."""
    for model in subject.models:
        if model.available_versions():
            continue
        other = [name for name in subject.layout.children(model.path) if name.isdigit()]
        if model.versions:
            what = f"no version of {model.folder!r} is available under its version_policy"
        elif other:
            what = f"no version folder in {model.folder!r}; {', '.join(other)} begins with a zero"
        else:
            what = f"no version folder in {model.folder!r}"
        yield Problem(
            what=what,
            where=subject.layout.place(model.path),
            expected="a folder whose name is a number from 1 up, such as 1/; an ensemble needs one as well",
            why='Triton refuses the model: "at least one version must be available under the version policy"',
            fix=f"make {posixpath.join(model.path, '1')}/ and put the model's file into it"
            if not model.is_ensemble
            else f"make {posixpath.join(model.path, '1')}/ and put an empty file .keep into it",
        )


def model_file_missing(subject: Subject) -> Iterator[Problem]:
    """Every available version holds what its backend opens."""
    for model, config in subject.parsed():
        backend = subject.backend(model)
        if model.is_ensemble:
            continue
        names = (
            (config.default_model_filename,)
            if config.default_model_filename
            else MODEL_FILES.get(backend, ())
        )
        if subject.portable:
            names += PORTABLE_FILES.get(backend, ())
        # A file for a compute capability replaces the default one on that GPU, so the default may be absent.
        alternatives = tuple(config.cc_model_filenames.values())
        for version in model.available_versions():
            folder = posixpath.join(model.path, str(version))
            if names and not any(subject.layout.has(posixpath.join(folder, n)) for n in names + alternatives):
                yield _file_missing(subject, folder=folder, names=names, backend=backend)
            for name in alternatives:
                if not subject.layout.has(posixpath.join(folder, name)):
                    yield _file_missing(subject, folder=folder, names=(name,), backend=backend)


def _file_missing(subject: Subject, *, folder: str, names: tuple[str, ...], backend: str) -> Problem:
    return Problem(
        what=f"no {' or '.join(names)} in {folder}/",
        where=subject.layout.place(folder),
        expected=f"the file that the backend {backend!r} opens",
        why="Triton refuses the model",
        fix=f"put it there, or name another one with default_model_filename in {CONFIG_FILE}",
    )


def _nested(subject: Subject) -> tuple[str, ...]:
    """Folders one level down that hold a configuration."""
    return tuple(
        sorted(
            posixpath.dirname(path)
            for path in subject.layout.files
            if path.count("/") == 2 and posixpath.basename(path) == CONFIG_FILE  # noqa: PLR2004 (folder/model/file)
        )
    )


RULES = (
    Rule(id="model-name", find=model_name),
    Rule(id="no-model", find=no_model),
    Rule(id="too-deep", find=too_deep),
    Rule(id="config-missing", find=config_missing),
    Rule(id="config-syntax", find=config_syntax),
    Rule(id="build-record", find=build_record),
    Rule(id="several-models", find=several_models),
    Rule(id="several-ensembles", find=several_ensembles),
    Rule(id="stray-directory", find=stray_directory),
    Rule(id="version-missing", find=version_missing),
    Rule(id="model-file-missing", find=model_file_missing),
)
