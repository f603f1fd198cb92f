"""SageMaker's refusals of multi-model Models and their variants.

The messages are those of public records if available, and otherwise ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from moto.s3.models import s3_backends
from moto.sagemaker.exceptions import ValidationError

from embedded_aws.assumptions import holds
from embedded_aws.images import images

# Families with a local disk, and GPU families that AWS lists for multi-model endpoints.
_LOCAL_DISK = ("g4dn", "g5", "g6", "g6e", "p4d", "p5")
_LISTED_GPUS = ("g4dn", "g5", "p2", "p3")
_GPUS = frozenset("gp")  # the first letters of families with a GPU


def refuse_empty_prefix(request: Mapping[str, Any], backend: Any) -> None:
    """Refuse a multi-model Model on a prefix without an object, if CreateModel is assumed to do so."""
    if holds("model_on_empty_prefix"):
        return
    containers = (request.get("PrimaryContainer"), *request.get("Containers", ()))
    for container in containers:
        if container and container.get("Mode") == "MultiModel" and _empty(container["ModelDataUrl"], backend):
            raise ValidationError(f"Could not find model data at {container['ModelDataUrl']}.")


def _empty(url: str, backend: Any) -> bool:
    location = urlsplit(url)
    buckets: Any = s3_backends[backend.account_id]["aws"].buckets
    bucket = buckets.get(location.netloc)
    return bucket is None or not any(key.startswith(location.path[1:]) for key in bucket.keys)


def refuse_configuration(request: Mapping[str, Any], backend: Any) -> None:
    """Refuse an endpoint configuration that a multi-model Model cannot have."""
    variants = request["ProductionVariants"]
    refusals = list(_of_host(variants))
    if any(_multi_model(each, backend) for each in variants):
        refusals += _of_multi_model(request, variants)
    if refusals:
        raise ValidationError(refusals[0])


def refuse_host(variants: Sequence[Mapping[str, Any]], backend: Any) -> None:
    """Refuse an endpoint with a host image that a multi-model Model may not have."""
    for each in variants:
        if (
            "InferenceAmiVersion" in each
            and _multi_model(each, backend)
            and not holds("ami_with_multi_model")
        ):
            raise ValidationError("InferenceAmiVersion is not supported with MultiModel mode.")


def refusal_to_start(variants: Sequence[Mapping[str, Any]], backend: Any) -> str:
    """Return the reason why an endpoint does not start; an empty string if it starts."""
    for each in variants:
        with_gpu = _family(each.get("InstanceType", ""))[:1] in _GPUS
        used = (str(found.get("Image", "")) for found in _containers(each, backend))
        if not with_gpu and any(map(images().needs_gpu, used)):
            return (
                f"The primary container for production variant {each['VariantName']} did not pass the ping "
                "health check. Please check CloudWatch logs for this endpoint."
            )
    return ""


def _of_host(variants: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for each in variants:
        kind, ami = each.get("InstanceType", ""), each.get("InferenceAmiVersion")
        if each.get("VolumeSizeInGB") and _family(kind) in _LOCAL_DISK and holds("local_storage_refused"):
            yield f"VolumeSizeInGB is not supported for instance type {kind}."
        if ami and not holds("ami_fits_instance_family"):
            yield f"Invalid combination of instance type {kind} and InferenceAmiVersion {ami}."
        if ami and _family(kind)[:1] not in _GPUS and holds("gpu_ami_on_cpu_refused"):
            yield f"InferenceAmiVersion {ami} is not supported for instance type {kind}."


def _of_multi_model(request: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    several = len(variants) > 1 or request.get("ShadowProductionVariants")
    if holds("data_capture_excluded") and (several or request.get("DataCaptureConfig")):
        yield "Data capture, shadow variants and several variants are not supported with MultiModel mode."
    if any(each.get("InstancePools") for each in variants) and holds("instance_pools_single_model"):
        yield "InstancePools are not supported with MultiModel mode."
    if (any(map(_routed, variants)) or request.get("MetricsConfig")) and not holds("undocumented_features"):
        yield "The routing or the metrics configuration is not supported with MultiModel mode."
    for each in variants:
        kind = each.get("InstanceType", "")
        family = _family(kind)
        undocumented = family[:1] in _GPUS and family not in _LISTED_GPUS
        if (undocumented and not holds("multi_model_undocumented_types")) or (
            family == "g4dn" and not holds("multi_model_instance_types")
        ):
            yield f"MultiModel mode is not supported for instance type {kind}."


def _routed(variant: Mapping[str, Any]) -> bool:
    strategy: str = variant.get("RoutingConfig", {}).get("RoutingStrategy", "RANDOM")
    return strategy != "RANDOM"


def _multi_model(variant: Mapping[str, Any], backend: Any) -> bool:
    return "MultiModel" in [each.get("Mode") for each in _containers(variant, backend)]


def _containers(variant: Mapping[str, Any], backend: Any) -> list[Mapping[str, Any]]:
    model = backend._models.get(variant.get("ModelName"))
    request = getattr(model, "request", None) or {}
    containers = (request.get("PrimaryContainer"), *request.get("Containers", ()))
    return [each for each in containers if each]


def _family(instance_type: str) -> str:
    return instance_type.removeprefix("ml.").partition(".")[0]
