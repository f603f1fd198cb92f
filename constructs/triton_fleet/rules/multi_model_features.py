"""What SageMaker does not do for multi-model endpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from triton_models.errors import Problem

RULE = "multi-model-excludes"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html"

_SINGLE = "use a SingleModelEndpoint for that model"
_NEITHER = "call the endpoint from a queue's consumer, or use another way of hosting"

# argument: what it asks for, what to do instead
EXCLUDED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "data_capture": ("data capture", _SINGLE),
        "variants": ("several production variants", _SINGLE),
        "shadow_variant": ("shadow variants", _SINGLE),
        "async_inference": ("asynchronous inference", _NEITHER),
        "serverless": ("serverless inference", _NEITHER),
        "managed_instance_scaling": (
            "scaling to zero, which needs inference components",
            "keep one instance and attach an EndpointScaling",
        ),
        "model_data_source": (
            "uncompressed models",
            "pack each model into an artifact, as `fleet build` does",
        ),
    }
)
"""The arguments by which it might be asked for."""


def multi_model_features(arguments: Iterable[str], *, where: str) -> Iterator[Problem]:
    """The problem with each argument that asks a multi-model endpoint for what it cannot do."""
    for argument in arguments:
        feature, instead = EXCLUDED[argument]
        yield Problem(
            what=f"{argument} is given",
            where=where,
            expected="only what a multi-model endpoint can do",
            why=f"SageMaker has no {feature} on multi-model endpoints",
            fix=instead,
            rule=RULE,
        )
