"""Checks of an artifact for SageMaker: the choice of the model to serve, and unsupported features.

The multi-model front end of Triton serves the last directory that the file system lists, unless a directory
declares an ensemble (server, src/sagemaker_server.cc of 2026-08-19). So an artifact must be unambiguous. On a
single-model endpoint, docker/sagemaker/serve of the same date starts the server.
"""

from __future__ import annotations

from triton_models.artifact.layout import MODEL_NAME
from triton_models.artifact.pbtxt import CONFIG_FILE
from triton_models.check.report import Findings, rule
from triton_models.check.subject import Model, Subject
from triton_models.check.target import ENDPOINTS, MULTI_MODEL_ENDPOINT, SINGLE_MODEL_ENDPOINT

_SOURCE = "triton-inference-server/server, src/sagemaker_server.cc and docker/sagemaker/serve of 2026-08-19"
_MULTI = (MULTI_MODEL_ENDPOINT,)
MODEL_NAME_RULE = rule("model-name", _SOURCE, endpoints=ENDPOINTS)
SEVERAL_MODELS = rule("several-models", _SOURCE, endpoints=_MULTI)
SEVERAL_ENSEMBLES = rule("several-ensembles", _SOURCE, endpoints=_MULTI)
STRAY_DIRECTORY = rule("stray-directory", _SOURCE, endpoints=_MULTI)
ENSEMBLE_UNDETECTED = rule("ensemble-undetected", _SOURCE, endpoints=_MULTI)
ENSEMBLE_IN_COMMENT = rule("ensemble-in-comment", _SOURCE, endpoints=_MULTI)
DECOUPLED = rule("decoupled", _SOURCE, endpoints=_MULTI)
COMPOSING_CACHE = rule("composing-cache", _SOURCE, endpoints=_MULTI)
ROOT_CONFIG = rule("root-config", _SOURCE, endpoints=(SINGLE_MODEL_ENDPOINT,))


def check_artifact(report: Findings, subject: Subject) -> None:
    """Report what SageMaker would refuse, or serve instead of the model."""
    models = [model.folder for model in subject.models]
    ensembles = [model.folder for model in subject.ensembles]
    if not MODEL_NAME.fullmatch(subject.layout.model):
        fix = "rename it: a letter or digit, then at most 199 letters, digits, dots, underscores, hyphens"
        why = "the name becomes an S3 key and SageMaker's TargetModel"
        report(MODEL_NAME_RULE, f"the name {subject.layout.model!r}", fix=fix, why=why)
    why = "SageMaker would serve only the one that the file system lists last"
    if len(models) > 1 and not ensembles:
        what = f"{len(models)} plain models in one artifact: {', '.join(models)}"
        fix = "pack each into its own artifact, or combine them in an ensemble"
        report(SEVERAL_MODELS, what, fix=fix, why=why)
    if len(ensembles) > 1:
        what = f"{len(ensembles)} ensembles in one artifact: {', '.join(ensembles)}"
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
    _check_configurations(report, subject)


def _check_configurations(report: Findings, subject: Subject) -> None:
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
