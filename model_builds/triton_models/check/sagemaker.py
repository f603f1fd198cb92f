"""Checks of an artifact for SageMaker: the choice of the model to serve, and unsupported features.

The multi-model front end of Triton serves the last directory that the file system lists, unless a directory
declares an ensemble (server, src/sagemaker_server.cc of 2026-08-19). So an artifact must be unambiguous. On a
single-model endpoint, docker/sagemaker/serve of the same date starts the server.
"""

from __future__ import annotations

from collections.abc import Iterator

from triton_models.artifact.layout import MODEL_NAME
from triton_models.base.errors import Problem
from triton_models.check.subject import ArtifactCheck, Subject
from triton_models.check.target import ENDPOINTS, MULTI_MODEL_ENDPOINT, SINGLE_MODEL_ENDPOINT
from triton_models.config.pbtxt import CONFIG_FILE

_SOURCE = "triton-inference-server/server, src/sagemaker_server.cc and docker/sagemaker/serve of 2026-08-19"

_MULTI = (MULTI_MODEL_ENDPOINT,)
_SINGLE = (SINGLE_MODEL_ENDPOINT,)


def model_name(subject: Subject) -> Iterator[Problem]:
    """Check that the model's name is valid as an object key and a target model."""
    if not MODEL_NAME.fullmatch(subject.layout.model):
        yield Problem(
            what=f"the name {subject.layout.model!r}",
            where=subject.layout.where,
            expected="a letter or digit, then up to 199 letters, digits, dots, underscores and hyphens",
            why="the name becomes an S3 key and SageMaker's TargetModel",
            fix="rename the folder or file",
        )


def several_models(subject: Subject) -> Iterator[Problem]:
    """Check that there is one plain model, or one ensemble."""
    plain = [model.folder for model in subject.models]
    if len(plain) > 1 and not subject.ensembles:
        yield Problem(
            what=f"{len(plain)} plain models in one artifact: {', '.join(plain)}",
            where=subject.layout.where,
            expected="exactly one plain model, or one ensemble with its composing models",
            why="SageMaker would serve only the one that the file system lists last",
            fix="pack each into its own artifact, or combine them in an ensemble",
        )


def several_ensembles(subject: Subject) -> Iterator[Problem]:
    """Check that there is at most one ensemble."""
    names = [model.folder for model in subject.ensembles]
    if len(names) > 1:
        yield Problem(
            what=f"{len(names)} ensembles in one artifact: {', '.join(names)}",
            where=subject.layout.where,
            expected="exactly one ensemble with its composing models",
            why="SageMaker would serve the one that the file system lists last",
            fix="pack each into its own artifact, with copies of the composing models",
        )


def stray_directory(subject: Subject) -> Iterator[Problem]:
    """Check that there is no folder next to a plain model that SageMaker could mistake for it."""
    if subject.ensembles or not subject.models or subject.models[0].path == "":
        return
    known = {model.folder for model in subject.models} | set(subject.unconfigured())
    for folder in subject.layout.children(""):
        if folder not in known:
            yield Problem(
                what=f"a folder {folder!r} next to a plain model",
                where=subject.layout.place(folder),
                expected="the model directory, and no other folder",
                why="SageMaker may take the other folder for the model, and the load fails",
                fix=f"move {folder!r} into the model directory, or remove it",
            )


def ensemble_undetected(subject: Subject) -> Iterator[Problem]:
    """Check that SageMaker recognizes an ensemble."""
    for model in subject.ensembles:
        if not model.looks_like_ensemble:
            yield Problem(
                what=f"{model.folder!r} is an ensemble that SageMaker does not recognize",
                where=subject.place(model, "platform"),
                expected='exactly platform: "ensemble", in double quotes, without a space before the colon',
                why="SageMaker would serve one of the composing models instead, without an error",
                fix='write platform: "ensemble" and remove backend',
            )


def ensemble_in_comment(subject: Subject) -> Iterator[Problem]:
    """Check that SageMaker does not mistake a plain model for an ensemble."""
    for model, _ in subject.parsed():
        if model.looks_like_ensemble and not model.is_ensemble and len(subject.models) > 1:
            yield Problem(
                what=f'{model.folder!r} is not an ensemble, but its text contains platform: "ensemble"',
                where=subject.place(model),
                expected="this text only in the ensemble's configuration, and in no comment elsewhere",
                why="SageMaker searches the raw text, and may serve this model instead",
                fix="reword the comment",
            )


def decoupled(subject: Subject) -> Iterator[Problem]:
    """Check that a model answers once, because SageMaker's multi-model hosting cannot stream."""
    served = subject.step_names() | {model.folder for model in subject.ensembles or subject.models}
    for model, config in subject.parsed():
        if config.model_transaction_policy.decoupled and model.folder in served:
            yield Problem(
                what=f"{model.folder!r} is decoupled",
                where=subject.place(model, "model_transaction_policy"),
                expected="one response per request",
                why="the model loads, but every invocation fails with 400",
                fix="remove model_transaction_policy, or use a single-model endpoint",
            )


def composing_cache(subject: Subject) -> Iterator[Problem]:
    """Check that composing models do not cache: the cache's key has their names, not the artifact's."""
    for model, config in subject.parsed():
        if config.response_cache.enable and model.folder in subject.step_names():
            yield Problem(
                what=f"{model.folder!r} caches its answers",
                where=subject.place(model, "response_cache"),
                expected="no response_cache in a composing model",
                why="the cache outlives the model: requests may get another model's results",
                fix="remove response_cache",
            )


def root_config(subject: Subject) -> Iterator[Problem]:
    """Check that the model is in a folder, as single-model endpoints require."""
    if any(model.path == "" for model in subject.models):
        yield Problem(
            what=f"{CONFIG_FILE} at the top",
            where=subject.layout.place(CONFIG_FILE),
            expected=f"a folder with the model's name that holds {CONFIG_FILE} and the version folders",
            why="the container of a single-model endpoint does not start",
            fix="pack the model with `fleet pack`, which adds the folder",
        )


CHECKS = (
    ArtifactCheck(id="model-name", source=_SOURCE, find=model_name, endpoints=ENDPOINTS),
    ArtifactCheck(id="several-models", source=_SOURCE, find=several_models, endpoints=_MULTI),
    ArtifactCheck(id="several-ensembles", source=_SOURCE, find=several_ensembles, endpoints=_MULTI),
    ArtifactCheck(id="stray-directory", source=_SOURCE, find=stray_directory, endpoints=_MULTI),
    ArtifactCheck(id="ensemble-undetected", source=_SOURCE, find=ensemble_undetected, endpoints=_MULTI),
    ArtifactCheck(id="ensemble-in-comment", source=_SOURCE, find=ensemble_in_comment, endpoints=_MULTI),
    ArtifactCheck(id="decoupled", source=_SOURCE, find=decoupled, endpoints=_MULTI),
    ArtifactCheck(id="composing-cache", source=_SOURCE, find=composing_cache, endpoints=_MULTI),
    ArtifactCheck(id="root-config", source=_SOURCE, find=root_config, endpoints=_SINGLE),
)
