"""Probes of endpoint updates: what they preserve, what ends them, and scaling and deletion meanwhile."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from triton_models.probe.account import artifacts, trouble
from triton_models.probe.account.costs import CPU_ENDPOINT
from triton_models.probe.account.cpu_endpoint import CPU_START, cpu_endpoint_name, cpu_variant
from triton_models.probe.account.endpoint import START_MINUTES, in_service, invoke, markers, serving, upload
from triton_models.probe.account.models import configure, create_container, create_endpoint, deployment_config
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import Outcome, Verdict, decide, undecided

_UPDATE_MINUTES = 45.0
_ALARM_MINUTES = 10.0
_OTHER_COUNT = 2
_ABOUT_ALARMS, _UNREAD = "larm", "not authorized"
_SCALES = (
    "application-autoscaling:RegisterScalableTarget",
    "application-autoscaling:DeregisterScalableTarget",
)
_UPDATES = (
    "sagemaker:CreateEndpointConfig",
    "sagemaker:UpdateEndpoint",
    "sagemaker:DescribeEndpoint",
    "cloudwatch:PutMetricAlarm",
    "cloudwatch:DescribeAlarms",
    "cloudwatch:DeleteAlarms",
)


def _updates(work: Work) -> Steps:
    """Update to a configuration of two instances, retaining the variant's one, with an alarm to monitor."""
    alarms, count = _OF_UPDATES
    name, config = serving(work, cpu_endpoint_name(work)), work.name("kept")
    configure(work, config, [cpu_variant(work, name, InitialInstanceCount=_OTHER_COUNT)])
    alarm = _alarm(work, "quiet", breaching=False)
    why = yield from _moved(work, name, config, alarm)
    watched = decide(alarms, why or "the update with an alarm to monitor succeeded", holds=not why)
    if why and _ABOUT_ALARMS not in why:
        return [undecided(alarms, why), undecided(count, why)]
    if why:
        why = yield from _moved(work, name, config, None)
    if why:
        return [watched, undecided(count, why)]
    [shown] = work.clients("sagemaker").describe_endpoint(EndpointName=name)["ProductionVariants"]
    kept = shown["DesiredInstanceCount"]
    seen = f"one instance before, {_OTHER_COUNT} in the configuration, {kept} after"
    return [watched, decide(count, seen, holds=kept == 1)]


def _moved(work: Work, name: str, config: str, alarm: str | None) -> Generator[None, None, str]:
    """Update an endpoint, retaining its variants' properties; return why it failed, empty if it did not."""
    from botocore.exceptions import ClientError

    sagemaker = work.clients("sagemaker")
    try:
        if sagemaker.describe_endpoint(EndpointName=name)["EndpointConfigName"] != config:
            sagemaker.update_endpoint(
                EndpointName=name,
                EndpointConfigName=config,
                RetainAllVariantProperties=True,
                DeploymentConfig=deployment_config(work.clock.bake_s, alarm),
            )
    except ClientError as error:
        if _ABOUT_ALARMS not in trouble.message(error) and trouble.denied(error):
            raise
        return f"{error.operation_name}: {trouble.message(error)}"
    found = yield from in_service(work, minutes=_UPDATE_MINUTES, name=name)
    if found["EndpointStatus"] == "InService" and found["EndpointConfigName"] == config:
        return ""
    return f"{found['EndpointStatus']}: {found.get('FailureReason', 'without a reason')}"


def _same_configuration(work: Work) -> Steps:
    """Update an endpoint to its current configuration, with another deployment strategy."""
    belief, name = "configuration-in-use-refused", serving(work, cpu_endpoint_name(work))
    sagemaker = work.clients("sagemaker")
    config = sagemaker.describe_endpoint(EndpointName=name)["EndpointConfigName"]
    refused = trouble.refusal(
        lambda: sagemaker.update_endpoint(
            EndpointName=name,
            EndpointConfigName=config,
            RetainAllVariantProperties=True,
            DeploymentConfig=deployment_config(2 * work.clock.bake_s),
        )
    )
    if refused:
        return [decide(belief, refused, holds=True)]
    found = yield from in_service(work, minutes=_UPDATE_MINUTES, name=name)
    return [decide(belief, f"accepted: {found['EndpointStatus']}", holds=False)]


def _undone(work: Work) -> Steps:
    """Delete an endpoint that is Creating, then update it with an alarm that is already in ALARM."""
    name, sagemaker = work.name("Undone"), work.clients("sagemaker")
    target = upload(work, "undone-1.tar.gz", artifacts.inspector(markers(work)))
    yield from create_container(work, name)
    for config in (name, work.name("never")):
        configure(work, config, [cpu_variant(work, name)])
    resumed = work.journal.entry("endpoint", name) is not None
    create_endpoint(work, name, name)
    deletion = _deletion(work, name, resumed=resumed)
    if deletion.outcome is Outcome.FALSE:
        return [deletion, *(undecided(each, "it was deleted") for each in _OF_UNDONE[1:])]
    found = yield from in_service(work, minutes=START_MINUTES, name=name)
    if found["EndpointStatus"] != "InService":
        why = trouble.failure(str(found.get("FailureReason", "without a reason")))
        return [deletion, *(undecided(each, why) for each in _OF_UNDONE[1:])]
    yield from invoke(work, target, {}, name=name)
    alarm = _alarm(work, "loud", breaching=True)
    yield from work.until(lambda: _fires(work, alarm), minutes=_ALARM_MINUTES, what="the alarm")
    sagemaker.update_endpoint(
        EndpointName=name,
        EndpointConfigName=work.name("never"),
        DeploymentConfig=deployment_config(work.clock.bake_s, alarm),
    )
    refusal = _scale(work, name)
    counts, found = yield from _watched(work, name)
    return [deletion, _ended(name, found), _blocked(refusal, counts)]


def _deletion(work: Work, name: str, *, resumed: bool) -> Verdict:
    """Return the verdict on deleting an endpoint that is Creating."""
    from botocore.exceptions import ClientError

    belief = "endpoint-creating-not-deletable"
    if resumed:
        return undecided(belief, "it was started by an earlier process")
    try:
        work.clients("sagemaker").delete_endpoint(EndpointName=name)
    except ClientError as error:
        if not trouble.busy(error):
            raise
        return decide(belief, trouble.message(error), holds=True)
    return decide(belief, "DeleteEndpoint was accepted while it was Creating", holds=False)


def _scale(work: Work, name: str) -> str:
    """Make auto scaling request two instances; return the message if it is refused."""
    from botocore.exceptions import ClientError

    client, resource = work.clients("application-autoscaling"), f"endpoint/{name}/variant/AllTraffic"

    def make() -> None:
        client.register_scalable_target(
            ServiceNamespace="sagemaker",
            ResourceId=resource,
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
            MinCapacity=_OTHER_COUNT,
            MaxCapacity=_OTHER_COUNT,
        )

    try:
        work.create("scaling", resource, make)
    except ClientError as error:
        if not trouble.busy(error):
            raise
        return trouble.message(error)
    return ""


def _watched(work: Work, name: str) -> Generator[None, None, tuple[set[int], Mapping[str, Any]]]:
    """Return the variant's instance counts during an update, and the endpoint's final description."""
    sagemaker, counts = work.clients("sagemaker"), set[int]()

    def settled() -> Mapping[str, Any] | None:
        found: Mapping[str, Any] = sagemaker.describe_endpoint(EndpointName=name)
        if found["EndpointStatus"] not in {"Updating", "RollingBack"}:
            return found
        counts.update(each["DesiredInstanceCount"] for each in found["ProductionVariants"])
        return None

    found = yield from work.until(settled, minutes=_UPDATE_MINUTES, what="the update")
    return counts, found


def _ended(name: str, found: Mapping[str, Any]) -> Verdict:
    """Return the verdict on an update that an alarm should have ended."""
    belief, why = "alarm-before-update-ends-it", str(found.get("FailureReason", "updated"))
    if _UNREAD in why:
        return undecided(belief, why)
    undone = found["EndpointStatus"] == "InService" and found["EndpointConfigName"] == name
    return decide(belief, f"{found['EndpointStatus']}: {why}", holds=undone)


def _blocked(refusal: str, counts: set[int]) -> Verdict:
    """Return the verdict on auto scaling during an update."""
    belief = "scaling-blocked-in-updates"
    if refusal:
        return decide(belief, f"RegisterScalableTarget: {refusal}", holds=True)
    if not counts:
        return undecided(belief, "the update ended too soon")
    seen = f"auto scaling requested {_OTHER_COUNT} instances; the count during the update: {sorted(counts)}"
    return decide(belief, seen, holds=counts == {1})


def _alarm(work: Work, suffix: str, *, breaching: bool) -> str:
    """Create an alarm on a metric without data, which fires at once or never."""
    name = work.name(suffix)
    request = {
        "AlarmName": name,
        "Namespace": "fleet-probe",
        "MetricName": "none",
        "Statistic": "Maximum",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1.0,
        "ComparisonOperator": "GreaterThanThreshold",
        "TreatMissingData": "breaching" if breaching else "notBreaching",
    }
    work.create("alarm", name, lambda: work.clients("cloudwatch").put_metric_alarm(**request))
    return name


def _fires(work: Work, alarm: str) -> bool | None:
    """Return True once an alarm is in ALARM; otherwise None."""
    [shown] = work.clients("cloudwatch").describe_alarms(AlarmNames=[alarm])["MetricAlarms"]
    return True if shown["StateValue"] == "ALARM" else None


_OF_UPDATES = ("alarms-read-with-execution-role", "retained-instance-count")
_OF_UNDONE = ("endpoint-creating-not-deletable", "alarm-before-update-ends-it", "scaling-blocked-in-updates")

PROBES = (
    AccountProbe(
        id="updates",
        what="updates the endpoint without a GPU, retaining its count, while an alarm is monitored",
        decides=_OF_UPDATES,
        run=_updates,
        creates="an alarm, a configuration, one more instance",
        allowed=_UPDATES,
        minutes=15,
        pays=((CPU_ENDPOINT, 30 / 60),),
        needs=(CPU_START,),
    ),
    AccountProbe(
        id="same-configuration",
        what="updates only the deployment strategy",
        decides=("configuration-in-use-refused",),
        run=_same_configuration,
        creates="one more instance",
        allowed=("sagemaker:UpdateEndpoint", "sagemaker:DescribeEndpoint"),
        minutes=12,
        pays=((CPU_ENDPOINT, 24 / 60),),
        needs=(CPU_START,),
        after=("updates",),
    ),
    AccountProbe(
        id="undone",
        what="deletes a starting endpoint, and updates it with an alarm that fires",
        decides=_OF_UNDONE,
        run=_undone,
        creates="an alarm, a scalable target, configurations, an endpoint of one instance without a GPU",
        allowed=(*_UPDATES, *_SCALES, "sagemaker:CreateEndpoint", "sagemaker:DeleteEndpoint"),
        minutes=30,
        pays=((CPU_ENDPOINT, 45 / 60),),
    ),
)
