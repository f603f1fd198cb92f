"""Probes that create SageMaker models and endpoint configurations, which cost nothing."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from triton_models.facts.host_amis import family
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.probe.account import trouble
from triton_models.probe.account.costs import CPU_TYPE
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import SHARED, Work
from triton_models.probe.verdict import UndecidedError, Verdict, decide, undecided

ENVIRONMENT: Mapping[str, str] = {
    "SAGEMAKER_TRITON_PING_MODE": "live",
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
    "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": "1048576",
}
"""The container's environment: the defaults of a fleet."""

PREFIX = "models/"
"""The prefix of the repository behind the probes' endpoint."""

LOG_GROUPS = "/aws/sagemaker/Endpoints/"
"""The start of the name of an endpoint's log group."""

_CREATES = ("sagemaker:CreateModel", "sagemaker:DeleteModel", "sagemaker:AddTags", "iam:PassRole")
_NOT_LISTED = "ml.g6.xlarge"
_LISTED = ("g4dn", "g5")
_NO_MULTI_MODEL = "MultiModel"
_AMIS = ("al2-ami-sagemaker-inference-gpu-3-1", "al2023-ami-sagemaker-inference-gpu-4-1")


def create_model(work: Work, name: str, *, prefix: str, owner: str | None = None) -> Steps:
    """Create a multi-model Model on a prefix of the run's bucket."""
    container = {
        "Image": work.image,
        "Mode": "MultiModel",
        "ModelDataUrl": f"s3://{work.bucket()}/{prefix}",
        "Environment": dict(ENVIRONMENT),
    }
    role, sagemaker = work.role(), work.clients("sagemaker")

    def make() -> None:
        sagemaker.create_model(
            ModelName=name, ExecutionRoleArn=role, PrimaryContainer=container, Tags=work.tags
        )

    yield from work.when_role_is_known(lambda: work.create("model", name, make, owner=owner))
    return ()


def _empty_prefix(work: Work) -> Steps:
    """Create a model on a prefix without an object. If that is refused, add an object and try again."""
    from botocore.exceptions import ClientError

    belief, name = "model-on-empty-prefix", work.name("empty")
    try:
        yield from create_model(work, name, prefix="empty/")
    except ClientError as error:
        if trouble.denied(error) or trouble.signed_out(error):
            raise
        refused = f"{trouble.code(error)}: {trouble.message(error)}"
    else:
        return [decide(belief, "CreateModel accepted a prefix without an object", holds=True)]
    work.clients("s3").put_object(Bucket=work.bucket(), Key="empty/manifest.json", Body=b"{}")
    try:
        yield from create_model(work, name, prefix="empty/")
    except ClientError as error:
        msg = f"CreateModel refused the prefix without an object and with one: {trouble.message(error)}"
        raise UndecidedError(msg) from None
    return [decide(belief, f"accepted with an object; without one: {refused}", holds=False)]


def variant(work: Work, model: str, **more: Any) -> dict[str, Any]:
    """Return a production variant with one instance, like a fleet's."""
    return {
        "VariantName": "AllTraffic",
        "ModelName": model,
        "InitialInstanceCount": 1,
        "InstanceType": work.place.instance.name,
        "InitialVariantWeight": 1.0,
        **more,
    }


def deployment_config(bake_s: int, alarm: str | None = None) -> dict[str, Any]:
    """Return a deployment that moves all traffic at once, bakes, and rolls back on the alarm, if any."""
    policy = {
        "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": bake_s},
        "MaximumExecutionTimeoutInSeconds": 3600,
        "TerminationWaitInSeconds": 0,
    }
    watched = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": alarm}]}} if alarm else {}
    return {"BlueGreenUpdatePolicy": policy, **watched}


def configure(
    work: Work, name: str, variants: Sequence[dict[str, Any]], *, owner: str | None = SHARED, **more: Any
) -> None:
    """Create an endpoint configuration. By default it stays until the endpoint, which may use it, is gone."""
    sagemaker = work.clients("sagemaker")

    def make() -> None:
        sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=list(variants), Tags=work.tags, **more
        )

    work.create("endpoint-config", name, make, owner=owner)


def create_endpoint(work: Work, name: str, config: str) -> None:
    """Create an endpoint that stays until the end of the run."""
    sagemaker = work.clients("sagemaker")

    def make() -> None:
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=config, Tags=work.tags)

    work.create("endpoint", name, make, owner=SHARED)


def create_container(work: Work, name: str) -> Generator[None, None, None]:
    """Create the log group and the model of an endpoint of that name.

    The role must not create the group. Otherwise, a late line could recreate it after its removal.
    """
    group, logs = f"{LOG_GROUPS}{name}", work.clients("logs")
    work.create("log-group", group, lambda: logs.create_log_group(logGroupName=group), owner=SHARED)
    yield from create_model(work, name, prefix=PREFIX, owner=SHARED)


def _refusal(work: Work, suffix: str, variants: list[dict[str, Any]], **more: Any) -> str:
    """Return why CreateEndpointConfig refuses variants; empty if it accepts them."""
    return trouble.refusal(lambda: configure(work, work.name(suffix), variants, owner=None, **more))


def _configurations(work: Work) -> Steps:
    """Try configurations that AWS's documents leave open, after a plain one that must be accepted."""
    model = work.name("configured")
    work.clients("s3").put_object(Bucket=work.bucket(), Key=f"{PREFIX}manifest.json", Body=b"{}")
    yield from create_model(work, model, prefix=PREFIX)
    plain = _refusal(work, "plain", [variant(work, model)])
    if _NO_MULTI_MODEL in plain:
        rest = (undecided(each, plain) for each in _OF_CONFIGURATIONS[1:])
        return [decide(_OF_CONFIGURATIONS[0], plain, holds=False), *rest]
    if plain:
        msg = f"CreateEndpointConfig refused a plain configuration: {plain}"
        raise UndecidedError(msg)
    yield
    return [
        _listed(work, model),
        _refused(work, "data-capture-excluded", _excluded(work, model)),
        _refused(work, "instance-pools-single-model", _pools(work, model)),
        _refused(work, "local-storage-refused", _volume(work, model)),
        _accepted(work, "undocumented-features", _features(work, model)),
        _accepted(work, "multi-model-undocumented-types", _types(work, model)),
        _accepted(work, "ami-fits-instance-family", _amis(work, model)),
        _refused(work, "gpu-ami-on-cpu-refused", _ami_without_gpu(work, model)),
    ]


def _excluded(work: Work, model: str) -> dict[str, str]:
    capture = {
        "EnableCapture": True,
        "InitialSamplingPercentage": 1,
        "DestinationS3Uri": f"s3://{work.bucket()}/captured",
        "CaptureOptions": [{"CaptureMode": "Input"}],
    }
    one, other = variant(work, model), variant(work, model, VariantName="Other")
    return {
        "data capture": _refusal(work, "capture", [one], DataCaptureConfig=capture),
        "a shadow variant": _refusal(work, "shadow", [one], ShadowProductionVariants=[other]),
        "two variants": _refusal(work, "variants", [one, other]),
    }


def _pools(work: Work, model: str) -> dict[str, str]:
    one = variant(work, model)
    del one["InstanceType"]
    names = (work.place.instance.name, work.another_type)
    pools = [{"InstanceType": name, "Priority": number} for number, name in enumerate(names, 1)]
    return {"instance pools": _refusal(work, "pools", [one | {"InstancePools": pools}])}


def _volume(work: Work, model: str) -> dict[str, str]:
    return {"a volume size": _refusal(work, "volume", [variant(work, model, VolumeSizeInGB=100)])}


def _features(work: Work, model: str) -> dict[str, str]:
    routing = variant(work, model, RoutingConfig={"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"})
    metrics = {"EnableEnhancedMetrics": True, "EnableDetailedObservability": True}
    return {
        "least-outstanding-requests routing": _refusal(work, "routing", [routing]),
        "detailed observability": _refusal(work, "observed", [variant(work, model)], MetricsConfig=metrics),
    }


def _types(work: Work, model: str) -> dict[str, str]:
    return {_NOT_LISTED: _refusal(work, "g6", [variant(work, model, InstanceType=_NOT_LISTED)])}


def _amis(work: Work, model: str) -> dict[str, str]:
    found = {}
    for ami in _AMIS:
        for each in _LISTED:
            one = variant(work, model, InstanceType=f"ml.{each}.2xlarge", InferenceAmiVersion=ami)
            found[f"{ami} on ml.{each}"] = _refusal(work, f"{each}-{ami[-3:]}", [one])
    return found


def _ami_without_gpu(work: Work, model: str) -> dict[str, str]:
    one = variant(work, model, InstanceType=CPU_TYPE, InferenceAmiVersion=_AMIS[-1])
    return {f"{_AMIS[-1]} on {CPU_TYPE}": _refusal(work, "cpu-ami", [one])}


def _listed(work: Work, model: str) -> Verdict:
    """Return the verdict on the types that AWS lists. A region without one answers differently."""
    belief, answers = "multi-model-instance-types", {}
    for name in _listed_types():
        one = variant(work, model, InstanceType=name)
        answers[name] = _refusal(work, f"type-{name.replace('.', '-')}", [one])
    seen = _seen(work, belief, answers)
    refused = any(_NO_MULTI_MODEL in answer for answer in answers.values())
    if not refused and all(answers.values()):
        return undecided(belief, seen)
    return decide(belief, seen, holds=not refused)


def _listed_types() -> list[str]:
    """Return the listed types with a GPU, and one type per family without a GPU."""
    listed = [each for each in INSTANCE_TYPES.values() if each.multi_model_documented]
    with_gpu = [each.name for each in listed if each.gpu and family(each) in _LISTED]
    without = {family(each): each.name for each in listed if not each.gpu}
    return [*with_gpu, *without.values()]


def _accepted(work: Work, belief: str, answers: Mapping[str, str]) -> Verdict:
    """Return the verdict on a belief that every request is accepted."""
    return decide(belief, _seen(work, belief, answers), holds=not any(answers.values()))


def _refused(work: Work, belief: str, answers: Mapping[str, str]) -> Verdict:
    """Return the verdict on a belief that every request is refused. CreateEndpoint could still refuse one."""
    seen = _seen(work, belief, answers)
    if any(answers.values()) and not all(answers.values()):
        return undecided(belief, f"the answers differ: {seen}")
    return decide(belief, seen, holds=all(answers.values()))


def _seen(work: Work, belief: str, answers: Mapping[str, str]) -> str:
    work.observe(f"configuration-{belief}", {"asked": list(answers)}, {"refusals": dict(answers)})
    return "; ".join(f"{what}: {answered or 'accepted'}" for what, answered in answers.items())


_OF_CONFIGURATIONS = (
    "multi-model-instance-types",
    "data-capture-excluded",
    "instance-pools-single-model",
    "local-storage-refused",
    "undocumented-features",
    "multi-model-undocumented-types",
    "ami-fits-instance-family",
    "gpu-ami-on-cpu-refused",
)

PROBES = (
    AccountProbe(
        id="empty-prefix",
        what="creates a multi-model Model on an empty prefix",
        decides=("model-on-empty-prefix",),
        run=_empty_prefix,
        creates="a bucket, a role, a model",
        allowed=(*_CREATES, "iam:CreateRole", "iam:PutRolePolicy", "s3:CreateBucket", "s3:PutObject"),
        cheap=True,
    ),
    AccountProbe(
        id="configurations",
        what="creates endpoint configurations that AWS's documents leave open",
        decides=_OF_CONFIGURATIONS,
        run=_configurations,
        creates="a model, endpoint configurations",
        allowed=(*_CREATES, "sagemaker:CreateEndpointConfig", "sagemaker:DeleteEndpointConfig"),
        cheap=True,
    ),
)
