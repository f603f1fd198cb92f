"""SageMaker's refusals of multi-model Models and their variants.

The messages are those of public records if available, and otherwise ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moto.sagemaker.exceptions import ValidationError

# Families with a local disk.
_LOCAL_DISK = ("g4dn", "g5", "g6", "g6e", "p4d", "p5")
_GPUS = frozenset("gp")  # the first letters of families with a GPU


def refuse_configuration(request: Mapping[str, Any], backend: Any) -> None:
    variants = request["ProductionVariants"]
    refusals = list(_of_host(variants))
    if any(_multi_model(each, backend) for each in variants):
        refusals += _of_multi_model(request, variants)
    if refusals:
        raise ValidationError(refusals[0])


def _of_host(variants: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in variants:
        kind, ami = each.get("InstanceType", ""), each.get("InferenceAmiVersion")
        if each.get("VolumeSizeInGB") and _family(kind) in _LOCAL_DISK:
            yield f"VolumeSizeInGB is not supported for instance type {kind}."
        if ami and _family(kind)[:1] not in _GPUS:
            yield f"InferenceAmiVersion {ami} is not supported for instance type {kind}."


def _of_multi_model(request: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(variants) > 1 or request.get("ShadowProductionVariants") or request.get("DataCaptureConfig"):
        yield "Data capture, shadow variants and several variants are not supported with MultiModel mode."
    if any(each.get("InstancePools") for each in variants):
        yield "InstancePools are not supported with MultiModel mode."


def _multi_model(variant: Mapping[str, Any], backend: Any) -> bool:
    return "MultiModel" in [each.get("Mode") for each in _containers(variant, backend)]


def _containers(variant: Mapping[str, Any], backend: Any) -> list[Mapping[str, Any]]:
    model = backend._models.get(variant.get("ModelName"))
    request = getattr(model, "request", None) or {}
    containers = (request.get("PrimaryContainer"), *request.get("Containers", ()))
    return [each for each in containers if each]


def _family(instance_type: str) -> str:
    return instance_type.removeprefix("ml.").partition(".")[0]
