"""Checks of what a multi-model endpoint cannot do or run on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from triton_models.base.checks import Check
from triton_models.base.errors import Problem
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, INSTANCE_TYPES, InstanceType
from triton_models.facts.releases import Release

# Core's backend_model_instance.cc and cache_manager.cc (main of 2026-06-09), and sagemaker_server.cc of
# 2026-08-19.
MULTI_MODEL_ARGUMENT = Check(
    id="multi-model-argument",
    source="2026-11-21: https://github.com/triton-inference-server/core/blob/main/src/cache_manager.cc",
)
"""No argument of the server turns a shared endpoint against its own models."""

_CACHE = "composing models of the same name in two artifacts would answer for each other"
_HARM: Mapping[str, str] = MappingProxyType(
    {
        "--model-load-gpu-limit": "beyond the limit a load fails with 400, and SageMaker evicts nothing",
        "--cache-config": _CACHE,
        "--response-cache-byte-size": _CACHE,
    }
)


def multi_model_arguments(arguments: Sequence[str], *, where: str) -> Iterator[Problem]:
    """The problems with arguments for the server of a multi-model endpoint."""
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in _HARM:
            yield MULTI_MODEL_ARGUMENT.problem(
                what=f"the server argument {argument!r}",
                where=where,
                expected=f"no {name} on a multi-model endpoint",
                why=_HARM[name],
                fix="leave it out, or serve the model that needs it on an endpoint of its own",
            )


MULTI_MODEL_EXCLUDES = Check(
    id="multi-model-excludes",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html",
)
"""What SageMaker does not do for multi-model endpoints."""

_SINGLE = "use a SingleModelEndpoint for that model"
_NEITHER = "call the endpoint from a queue's consumer, or use another way of hosting"
# argument: why it is refused, what to do instead
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
            "to scale to zero an endpoint needs inference components, which a multi-model endpoint lacks",
            "keep one instance and attach an EndpointScaling",
        ),
        "model_data_source": (
            "a multi-model endpoint reads no uncompressed models",
            "pack each model into an artifact, as `fleet build` does",
        ),
    }
)
"""The arguments by which it might be asked for."""


def multi_model_features(arguments: Iterable[str], *, where: str) -> Iterator[Problem]:
    """The problem with each argument that asks a multi-model endpoint for what it cannot do."""
    for argument in arguments:
        why, instead = EXCLUDED[argument]
        yield MULTI_MODEL_EXCLUDES.problem(
            what=f"{argument} is given",
            where=where,
            expected="only what a multi-model endpoint can do",
            why=why,
            fix=instead,
        )


MULTI_MODEL_ONE_GPU = Check(
    id="multi-model-one-gpu",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoint-instance.html",
)
"""A multi-model endpoint takes instance types with one GPU, or with none."""


def multi_model_gpu(instance: InstanceType, *, where: str) -> Iterator[Problem]:
    """The problem with serving a multi-model endpoint from this instance type."""
    if instance.gpu is None or instance.gpu_count == 1:  # every type without one is fine
        return
    documented = [known.name for known in _documented()]
    sibling = f"{instance.name.rsplit('.', 1)[0]}.2xlarge"
    better = sibling if sibling in documented else DEFAULT_INSTANCE_TYPE
    yield MULTI_MODEL_ONE_GPU.problem(
        what=f"{instance.name} has {instance.gpu_count} GPUs",
        where=where,
        expected=f"a type with one GPU: {', '.join(documented)}",
        why="SageMaker takes multi-model endpoints on types with one GPU only, and says so at deployment",
        fix=f"use {better}, and more instances for more throughput",
    )


def _documented() -> list[InstanceType]:
    return [
        known for known in INSTANCE_TYPES.values() if known.gpu_count == 1 and known.multi_model_documented
    ]


# Of those with a GPU ml.p2, ml.p3, ml.g4dn and ml.g5 are listed. SageMaker keeps a list of its own, and
# refused ml.g4dn before that was on it (sagemaker-python-sdk issue 1323).
MULTI_MODEL_TYPE = Check(
    id="multi-model-type",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-support.html",
)
"""A multi-model endpoint runs on an instance type that AWS lists for one, unless another is asked for."""


def multi_model_type(instance: InstanceType, *, asked: bool, where: str) -> Iterator[Problem]:
    """The problem with serving a multi-model endpoint from this instance type.

    Args:
        instance: The instance type.
        asked: `True` if the user explicitly allows a type that AWS does not list.
        where: What the problem is reported for.
    """
    if asked or instance.multi_model_documented or instance.gpu_count > 1:  # several: see multi_model_gpu
        return
    yield MULTI_MODEL_TYPE.problem(
        what=f"{instance.name} is not on AWS's list for multi-model endpoints",
        where=where,
        expected="an ml.g4dn or ml.g5 type with one GPU, or a type without one",
        why="SageMaker may refuse it, and would only at deployment",
        fix=f"use {DEFAULT_INSTANCE_TYPE}, or try it with allow_unlisted_instance_type",
    )


# At the tags v2.51 to v2.71: commits d697e8d71 and f3bdcc7db, first in 2.64.
UNLOAD_STALL = Check(
    id="triton-fleet:unload-stall",
    source="2026-11-21: https://github.com/triton-inference-server/server/blob/main/src/sagemaker_server.cc",
)
"""Unloading a model does not hold up the requests for all the others."""

FIRST_WITH_STALL = "25.12"


def unload_stall(release: Release, *, where: str) -> Iterator[Problem]:
    """The warning of evictions with this release on an endpoint of many models."""
    if release.name < FIRST_WITH_STALL:
        return
    yield UNLOAD_STALL.problem(
        what=f"release {release.name} holds a lock while it unloads a model",
        where=where,
        expected=f"a release before {FIRST_WITH_STALL}, or models that are seldom evicted",
        why="every request to the instance waits for it, for half a second or more",
        fix="size the fleet so that models are seldom evicted, watch ModelUnloadingTime, or use "
        "release 25.09",
    )
