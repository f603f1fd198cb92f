"""What SageMaker does not do for multi-model endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from triton_models.base.errors import Problem

RULE = "multi-model-excludes"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html"

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
        yield Problem(
            what=f"{argument} is given",
            where=where,
            expected="only what a multi-model endpoint can do",
            why=why,
            fix=instead,
            rule=RULE,
        )
