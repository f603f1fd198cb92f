"""Checks of the features, arguments and instance types of multi-model endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from triton_models.base.checks import Check, Report
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, INSTANCE_TYPES, InstanceType
from triton_models.facts.releases import Release

# Core's backend_model_instance.cc and cache_manager.cc (main of 2026-06-09), and sagemaker_server.cc of
# 2026-08-19.
MULTI_MODEL_ARGUMENT = Check(
    id="multi-model-argument",
    source="2026-11-21: https://github.com/triton-inference-server/core/blob/main/src/cache_manager.cc",
)
"""No argument of the server harms the models of a shared endpoint."""

_CACHE = "composing models with the same name in two artifacts would share cached answers"
_HARM: Mapping[str, str] = MappingProxyType(
    {
        "--model-load-gpu-limit": "above the limit a load fails with 400, and SageMaker evicts nothing",
        "--cache-config": _CACHE,
        "--response-cache-byte-size": _CACHE,
    }
)


def multi_model_arguments(report: Report, arguments: Sequence[str]) -> None:
    """Report problems with arguments for the server of a multi-model endpoint."""
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in _HARM:
            report(
                MULTI_MODEL_ARGUMENT,
                f"the server argument {argument!r}",
                fix="remove it, or serve the model that needs it from a separate endpoint",
                why=_HARM[name],
            )


MULTI_MODEL_EXCLUDES = Check(
    id="multi-model-excludes",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html",
)
"""Features that SageMaker does not have for multi-model endpoints."""

_SINGLE = "use a SingleModelEndpoint for that model"
_NEITHER = "call the endpoint from the consumer of a queue, or host the models in another way"
# argument: the reason, the fix
EXCLUDED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "data_capture": ("SageMaker captures no data of multi-model endpoints", _SINGLE),
        "variants": ("a multi-model endpoint has one production variant only", _SINGLE),
        "shadow_variant": (
            "SageMaker copies no requests of a multi-model endpoint to a shadow variant",
            _SINGLE,
        ),
        "async_inference": ("SageMaker has no asynchronous inference for multi-model endpoints", _NEITHER),
        "serverless": ("SageMaker has no serverless inference for multi-model endpoints", _NEITHER),
        "managed_instance_scaling": (
            "scaling to zero needs inference components, which a multi-model endpoint lacks",
            "keep one instance and attach an EndpointScaling",
        ),
        "model_data_source": (
            "a multi-model endpoint cannot read uncompressed models",
            "pack each model into an artifact, as `fleet build` does",
        ),
    }
)
"""The arguments of these features."""


def multi_model_features(report: Report, arguments: Iterable[str]) -> None:
    """Report problems with each argument for a feature that a multi-model endpoint lacks."""
    for argument in arguments:
        why, instead = EXCLUDED[argument]
        report(MULTI_MODEL_EXCLUDES, f"{argument} is given", fix=instead, why=why)


MULTI_MODEL_ONE_GPU = Check(
    id="multi-model-one-gpu",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoint-instance.html",
)
"""A multi-model endpoint runs on instance types with at most one GPU."""


def multi_model_gpu(report: Report, instance: InstanceType) -> None:
    """Report problems if a multi-model endpoint cannot run on an instance type with so many GPUs."""
    if instance.gpu is None or instance.gpu_count == 1:  # every type without one is fine
        return
    documented = [known.name for known in _documented()]
    sibling = f"{instance.name.rsplit('.', 1)[0]}.2xlarge"
    better = sibling if sibling in documented else DEFAULT_INSTANCE_TYPE
    report(
        MULTI_MODEL_ONE_GPU,
        f"{instance.name} has {instance.gpu_count} GPUs",
        fix=f"use {better}, and more instances for more throughput",
        why="SageMaker runs multi-model endpoints on types with at most one GPU",
    )


def _documented() -> list[InstanceType]:
    return [
        known for known in INSTANCE_TYPES.values() if known.gpu_count == 1 and known.multi_model_documented
    ]


# The GPU types on AWS's list are ml.p2, ml.p3, ml.g4dn and ml.g5. SageMaker has a list of its own, and
# refused ml.g4dn before it was added there (sagemaker-python-sdk issue 1323).
MULTI_MODEL_TYPE = Check(
    id="multi-model-type",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-support.html",
)
"""A multi-model endpoint runs on an instance type that AWS lists for it, unless the user allows others."""


def multi_model_type(report: Report, instance: InstanceType, *, asked: bool) -> None:
    """Report problems if AWS does not list an instance type for multi-model endpoints."""
    if asked or instance.multi_model_documented or instance.gpu_count > 1:  # several: see multi_model_gpu
        return
    report(
        MULTI_MODEL_TYPE,
        f"{instance.name} is not on AWS's list for multi-model endpoints",
        fix=f"use {DEFAULT_INSTANCE_TYPE}, or try it with allow_unlisted_instance_type=True",
        why="SageMaker may refuse it at deployment",
    )


# At the tags v2.51 to v2.71: commits d697e8d71 and f3bdcc7db, first in 2.64.
UNLOAD_STALL = Check(
    id="triton-fleet:unload-stall",
    source="2026-11-21: https://github.com/triton-inference-server/server/blob/main/src/sagemaker_server.cc",
)
"""Unloading a model does not block requests to other models."""

FIRST_WITH_STALL = "25.12"


def unload_stall(report: Report, release: Release) -> None:
    """Report problems about evictions with this release on an endpoint of many models."""
    if release.name < FIRST_WITH_STALL:
        return
    report(
        UNLOAD_STALL,
        f"release {release.name} holds a lock while it unloads a model",
        fix="size the fleet so that models are rarely evicted, watch ModelUnloadingTime, or use "
        "release 25.09",
        why="all requests to the instance wait for it, for half a second or more",
    )
