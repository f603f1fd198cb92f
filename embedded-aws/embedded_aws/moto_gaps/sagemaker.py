"""SageMaker's models, endpoint configurations and endpoints.

moto's gaps:
- Its list of instance types is years old. botocore's model of the API has the current ones.
- The description of a model or an endpoint configuration shows only some of its properties.
- It lacks UpdateEndpoint. If a variant is registered with Application Auto Scaling, AWS refuses an update
  that changes the variant's instance type or removes the variant, and so does this UpdateEndpoint. Read on
  2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
  Both also refuse the configuration that the endpoint has.
- Nothing takes time. Here an update does if its DeploymentConfig waits: see `endpoint_update`. Meanwhile AWS
  refuses to update, scale or delete the endpoint.
- A second endpoint, model or configuration with the same name replaces the first. AWS refuses it.
- A variant without a weight has none; AWS's default is 1.
- A change of counts loses the weights, and the other way round, and needs no time. See `capacity`.
- DescribeEndpoint does not show the images of the variants. See `endpoint_update`.
- ListModels ignores its filters. Values that the model of the API excludes are accepted; see `requests`.
- It lacks all refusals, certain or assumed, of multi-model Models and their variants. The messages are those
  of public records if available, and otherwise ours.
- It finds the owner of tags only if the ARN has the name's capitals, and keeps both values of a key that is
  set again. AWS's ARNs of endpoints are in lower case.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timezone
from functools import cache
from typing import Any

from moto.applicationautoscaling.models import applicationautoscaling_backends
from moto.core.responses import ActionResult
from moto.core.utils import get_service_model
from moto.sagemaker.exceptions import ValidationError
from moto.sagemaker.models import FakeEndpoint, FakeEndpointConfig, Model, SageMakerModelBackend
from moto.sagemaker.responses import SageMakerResponse

from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.capacity import change_capacity, refuse_in_progress
from embedded_aws.moto_gaps.endpoint_update import (
    EndpointUpdate,
    Wanted,
    end_instances,
    endpoint_changed,
    with_images,
)
from embedded_aws.moto_gaps.requests import page, violations

# The parts of a variant that an update can retain, by their type in the API, with the fields of a described
# variant.
_RETAINABLE = {
    "DesiredInstanceCount": ("CurrentInstanceCount", "DesiredInstanceCount"),
    "DesiredWeight": ("CurrentWeight", "DesiredWeight"),
}

_moto_delete_endpoint = SageMakerModelBackend.delete_endpoint
_moto_tagged = SageMakerModelBackend._get_resource_from_arn


@cache
def instance_types() -> frozenset[str]:
    shape: Any = get_service_model("sagemaker").shape_for("ProductionVariantInstanceType")
    return frozenset(shape.enum)


@patch.replaces(FakeEndpointConfig, "validate_instance_type")
def _accept(self: FakeEndpointConfig, instance_type: str) -> None:
    """Accept any instance type: `_request` has refused those that do not exist."""


def _request(response: SageMakerResponse) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response.body)
    violated = list(violations("sagemaker", response._get_action(), found))
    if violated:
        errors = "error" if len(violated) == 1 else "errors"
        raise ValidationError(f"{len(violated)} validation {errors} detected: {'; '.join(violated)}")
    return found


def _backend(response: SageMakerResponse) -> Any:
    # Any: moto requires more than the API, and its resources get the fields below only at run time.
    return response.sagemaker_backend


def _refuse_second(kind: str, name: str, known: Iterable[str], arn: str) -> None:
    if name in known:
        raise ValidationError(f'Cannot create already existing {kind} "{arn}".')


@patch.replaces(SageMakerResponse, "create_model")
def _create_model(self: SageMakerResponse) -> ActionResult:
    request, backend = _request(self), _backend(self)
    name = request["ModelName"]
    known = backend._models
    arn = f"arn:{self.partition}:sagemaker:{self.region}:{self.current_account}:model/{name}"
    _refuse_second("model", name, known, arn)
    model = backend.create_model(
        model_name=name,
        execution_role_arn=request.get("ExecutionRoleArn"),
        primary_container=request.get("PrimaryContainer"),
        vpc_config=request.get("VpcConfig"),
        containers=request.get("Containers"),
        tags=request.get("Tags"),
    )
    model.request = request
    return ActionResult({"ModelArn": model.arn})


def _describe_model(self: Model) -> dict[str, Any]:
    return {
        "EnableNetworkIsolation": False,
        **_without_tags(getattr(self, "request", {})),
        "ModelName": self.model_name,
        "ModelArn": self.arn,
        "CreationTime": self.creation_time,
    }


def _created(model: Model) -> float:
    return model.creation_time.replace(tzinfo=timezone.utc).timestamp()


@patch.replaces(SageMakerResponse, "list_models")
def _list_models(self: SageMakerResponse) -> ActionResult:
    request = _request(self)
    bounds = [request.get(f"CreationTime{side}") for side in ("After", "Before")]
    after, before = (None if each is None else float(each) for each in bounds)
    found = [
        {"ModelName": model.model_name, "ModelArn": model.arn, "CreationTime": model.creation_time}
        for model in _backend(self)._models.values()
        if request.get("NameContains", "") in model.model_name
        and (after is None or _created(model) > after)
        and (before is None or _created(model) < before)
    ]
    by_name = request.get("SortBy") == "Name"
    found.sort(key=lambda each: each["ModelName" if by_name else "CreationTime"])
    if request.get("SortOrder") != "Ascending":
        found.reverse()
    refusal = ValidationError("The token is not valid.")
    return ActionResult(page(request, "Models", found, size=10, refusal=refusal))


@patch.replaces(SageMakerResponse, "create_endpoint_config")
def _create_endpoint_config(self: SageMakerResponse) -> ActionResult:
    request, backend = _request(self), _backend(self)
    name = request["EndpointConfigName"]
    arn = FakeEndpointConfig.arn_formatter(name, self.current_account, self.region)
    _refuse_second("endpoint configuration", name, backend.endpoint_configs, arn)
    _refuse_configuration(request, backend)
    for variant in request["ProductionVariants"]:
        if "ServerlessConfig" in variant and "InstanceType" in variant:
            msg = f"Variant {variant['VariantName']} has both an InstanceType and a ServerlessConfig."
            raise ValidationError(msg)
    config = backend.create_endpoint_config(
        endpoint_config_name=name,
        production_variants=[_with_type(each) for each in request["ProductionVariants"]],
        data_capture_config=request.get("DataCaptureConfig"),
        async_inference_config=request.get("AsyncInferenceConfig"),
        tags=request.get("Tags"),
        kms_key_id=request.get("KmsKeyId"),
    )
    config.request = request
    return ActionResult({"EndpointConfigArn": config.endpoint_config_arn})


def _describe_endpoint_config(self: FakeEndpointConfig) -> dict[str, Any]:
    return {
        "EnableNetworkIsolation": False,
        **_without_tags(getattr(self, "request", {})),
        "EndpointConfigName": self.endpoint_config_name,
        "EndpointConfigArn": self.endpoint_config_arn,
        "CreationTime": self.creation_time,
    }


@patch.replaces(SageMakerResponse, "create_endpoint")
def _create_endpoint(self: SageMakerResponse) -> ActionResult:
    request, backend = _request(self), _backend(self)
    name = request["EndpointName"]
    arn = FakeEndpoint.arn_formatter(name, self.current_account, self.region)
    _refuse_second("endpoint", name, backend.endpoints, arn)
    config = _config(backend, request["EndpointConfigName"])
    make: Any = FakeEndpoint
    endpoint = make(
        account_id=backend.account_id,
        region_name=backend.region_name,
        endpoint_name=name,
        endpoint_config_name=request["EndpointConfigName"],
        production_variants=_weighted(config),
        data_capture_config=config.data_capture_config or None,
        tags=request.get("Tags"),
    )
    endpoint.production_variants = with_images(backend, config, endpoint.production_variants)
    endpoint.arn = endpoint.arn.lower()
    endpoint.last_deployment_config = request.get("DeploymentConfig")
    backend.endpoints[name] = endpoint
    for status in ("CREATING", "IN_SERVICE"):
        endpoint_changed(backend, endpoint, status)
    return ActionResult({"EndpointArn": endpoint.arn})


@patch.adds(SageMakerResponse, "update_endpoint")
def _update_endpoint(self: SageMakerResponse) -> ActionResult:
    request, backend = _request(self), _backend(self)
    name = request["EndpointName"]
    endpoint = backend.endpoints.get(name)
    if endpoint is None:
        arn = FakeEndpoint.arn_formatter(name, self.current_account, self.region)
        raise ValidationError(f'Could not find endpoint "{arn}".')
    refuse_in_progress(endpoint)
    config = _config(backend, request["EndpointConfigName"])
    if config.endpoint_config_name == endpoint.endpoint_config_name:
        raise ValidationError(
            "Cannot update endpoint with the currently in use endpoint configuration "
            f'"{endpoint.endpoint_config_name}"'
        )
    _refuse_change_of_scaled(backend, endpoint, config)
    _refuse_end_of_queue(backend, endpoint, config)
    variants = with_images(backend, config, endpoint._process_production_variants(_weighted(config)))
    if request.get("RetainAllVariantProperties"):
        excluded = {
            item["VariantPropertyType"] for item in request.get("ExcludeRetainedVariantProperties", ())
        }
        _retain(variants, endpoint.production_variants, excluded)
    if not request.get("RetainDeploymentConfig"):
        endpoint.last_deployment_config = request.get("DeploymentConfig")
    wanted = Wanted(
        config=request["EndpointConfigName"],
        variants=variants,
        data_capture=config.data_capture_config or None,
        deployment=endpoint.last_deployment_config or {},
    )
    EndpointUpdate(backend, endpoint, wanted).start()
    return ActionResult({"EndpointArn": endpoint.arn})


@patch.replaces(SageMakerModelBackend, "delete_endpoint")
def _delete_endpoint(self: SageMakerModelBackend, endpoint_name: str) -> None:
    if endpoint_name in self.endpoints:
        if self.endpoints[endpoint_name].endpoint_status != "Failed":
            refuse_in_progress(self.endpoints[endpoint_name])
        endpoint_changed(self, self.endpoints[endpoint_name], "DELETING")
    _moto_delete_endpoint(self, endpoint_name)
    end_instances(endpoint_name)


def _tagged(self: SageMakerModelBackend, arn: str) -> Any:
    kind, _, name = arn.rpartition(":")[2].partition("/")
    if kind == "endpoint":
        named = {known.lower(): known for known in self.endpoints}
        arn = f"{arn.removesuffix(name)}{named.get(name.lower(), name)}"
    try:
        found = _moto_tagged(self, arn)
    except (AttributeError, LookupError, ValueError):
        found = None
    if found is None:
        raise ValidationError(f"Could not find {kind} {arn}")
    return found


@patch.replaces(SageMakerModelBackend, "add_tags")
def _add_tags(self: SageMakerModelBackend, arn: str, tags: list[dict[str, str]]) -> list[dict[str, str]]:
    owner = _tagged(self, arn)
    kept = {tag["Key"]: tag for tag in (*(owner.tags or ()), *tags)}
    owner.tags = list(kept.values())
    return owner.tags  # type: ignore[no-any-return]


def _refuse_change_of_scaled(backend: Any, endpoint: Any, config: Any) -> None:
    """Refuse forbidden changes of a scaled variant. AWS documents the refusal, but not its wording."""
    before = _types(backend.endpoint_configs.get(endpoint.endpoint_config_name))
    after = _types(config)
    scaled = _scaled_variants(backend, endpoint.endpoint_name)
    refused = sorted(name for name in scaled & before.keys() if after.get(name) != before[name])
    if refused:
        raise ValidationError(
            f"Cannot update endpoint {endpoint.endpoint_name}: the instance type of the variant(s) "
            f"[{', '.join(refused)}] would change, or they would be removed, while they are registered as "
            "scalable targets with Application Auto Scaling. Deregister them first."
        )


def _refuse_end_of_queue(backend: Any, endpoint: Any, config: Any) -> None:
    """Refuse to make an asynchronous endpoint a real-time one. Source: sagemaker-python-sdk issue 3124."""
    before = backend.endpoint_configs.get(endpoint.endpoint_config_name)
    if (
        before
        and before.request.get("AsyncInferenceConfig")
        and not config.request.get("AsyncInferenceConfig")
    ):
        raise ValidationError("The AsyncInferenceConfig parameter cannot be removed from this endpoint.")


def _types(config: Any) -> dict[str, str | None]:
    variants = config.production_variants if config else ()
    return {variant["VariantName"]: variant.get("InstanceType") for variant in variants}


def _scaled_variants(backend: Any, endpoint_name: str) -> set[str]:
    scaling: Any = applicationautoscaling_backends[backend.account_id][backend.region_name]
    prefix = f"endpoint/{endpoint_name}/variant/"
    resources = scaling.targets.get("sagemaker:variant:DesiredInstanceCount", {})
    return {resource.removeprefix(prefix) for resource in resources if resource.startswith(prefix)}


def _retain(variants: list[dict[str, Any]], live: list[dict[str, Any]], excluded: set[str]) -> None:
    """Keep the live counts and weights of the variants that stay, except for the excluded properties."""
    former = {variant["VariantName"]: variant for variant in live}
    for variant in variants:
        for kind, fields in _RETAINABLE.items():
            if kind not in excluded:
                kept = former.get(variant["VariantName"], {})
                variant |= {field: kept[field] for field in fields if field in kept}


def _with_type(variant: dict[str, Any]) -> dict[str, Any]:
    """Return a variant in moto's form: a variant with pools gets the instance type of the first one."""
    pools = variant.get("InstancePools")
    return {**variant, "InstanceType": pools[0]["InstanceType"]} if pools else variant


def _config(backend: Any, name: str) -> Any:
    config = backend.endpoint_configs.get(name)
    if config is None:
        arn = FakeEndpointConfig.arn_formatter(name, backend.account_id, backend.region_name)
        raise ValidationError(f'Could not find endpoint configuration "{arn}".')
    return config


def _weighted(config: Any) -> list[dict[str, Any]]:
    return [{"InitialVariantWeight": 1.0, **variant} for variant in config.production_variants]


def _without_tags(request: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key != "Tags"}


patch.replace(
    SageMakerModelBackend,
    update_endpoint_weights_and_capacities=change_capacity,
    _get_resource_from_arn=_tagged,
)
patch.replace(FakeEndpointConfig, response_object=property(_describe_endpoint_config))
patch.replace(Model, response_object=property(_describe_model))


# Families with a local disk.
_LOCAL_DISK = ("g4dn", "g5", "g6", "g6e", "p4d", "p5")
_GPUS = frozenset("gp")  # the first letters of families with a GPU


def _refuse_configuration(request: Mapping[str, Any], backend: Any) -> None:
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
