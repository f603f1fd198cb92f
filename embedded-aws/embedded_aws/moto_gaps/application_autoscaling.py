"""Application Auto Scaling as SageMaker endpoints use it.

moto's gaps:
- A target of a SageMaker variant can be registered without the endpoint. AWS refuses, so a target that does
  not depend on its endpoint fails there and must fail here.
- A target registered without a role does not show one. AWS shows the service-linked role that it uses.
- The policies and scheduled actions of a deregistered target stay. AWS deletes them with the target.
- A policy that is written again gets a new ARN. In AWS it keeps its ARN.
- A target tracking policy of a variant has no alarms. AWS creates two, and deletes them with the policy.
- A policy without a registered target is accepted.
- It accepts a schedule that is none, a negative capacity, and a maximum below the minimum; a target shows no
  SuspendedState until one is set.
- New bounds do not change the capacity. See `scaling`.
- It lacks DescribeScalingActivities. Pages of targets repeat, and schedules have no pages.
- The names of policies in a request are ignored.
- The alarms of a policy are only those of DynamoDB and ECS. AWS lists every alarm that runs the policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moto.applicationautoscaling import responses
from moto.applicationautoscaling.exceptions import AWSValidationException
from moto.applicationautoscaling.models import (
    ApplicationAutoscalingBackend,
    FakeApplicationAutoscalingPolicy,
    FakeScalableTarget,
)
from moto.applicationautoscaling.responses import ApplicationAutoScalingResponse
from moto.cloudwatch.models import cloudwatch_backends
from moto.core.exceptions import JsonRESTError
from moto.moto_api._internal import mock_random
from moto.sagemaker.models import sagemaker_backends
from moto.utilities.utils import get_partition

from embedded_aws import clients, clock
from embedded_aws.autoscaling import PREDEFINED, ScheduleError, next_time, tracking_alarms
from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.requests import page
from embedded_aws.moto_gaps.scaling import DIMENSION, VariantScaling, activities_of

_SERVICE_ROLE = (
    "arn:{partition}:iam::{account}:role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
    "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
)

_NOT_SUSPENDED = dict.fromkeys(
    ("DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended"), False
)

_ID_LENGTH = len(str(mock_random.uuid4()))


_moto_register = ApplicationAutoscalingBackend.register_scalable_target
_moto_put_policy = ApplicationAutoscalingBackend.put_scaling_policy
_moto_put_schedule = ApplicationAutoscalingBackend.put_scheduled_action
_moto_deregister = ApplicationAutoscalingBackend.deregister_scalable_target


@patch.replaces(ApplicationAutoscalingBackend, "register_scalable_target")
def _register(
    self: ApplicationAutoscalingBackend, namespace: str, r_id: str, dimension: str, **options: Any
) -> FakeScalableTarget:
    if namespace == "sagemaker" and dimension == DIMENSION:
        _check_variant(self, r_id)
        partition = get_partition(self.region_name)
        service_role = _SERVICE_ROLE.format(partition=partition, account=self.account_id)
        options["role_arn"] = options.get("role_arn") or service_role
    former: Any = self.targets.get(dimension, {}).get(r_id)
    _check_bounds(former, options)
    suspended = {
        **_NOT_SUSPENDED,
        **(former.suspended_state if former else {}),
        **(options["suspended_state"] or {}),
    }
    options["suspended_state"] = suspended
    target: FakeScalableTarget = _moto_register(self, namespace, r_id, dimension, **options)
    if dimension == DIMENSION:
        VariantScaling(self, target, now=clock.current().time()).set_bounds()
    return target


def _check_bounds(former: FakeScalableTarget | None, options: Mapping[str, Any]) -> None:
    least, most = options["min_capacity"], options["max_capacity"]
    if any(bound is not None and bound < 0 for bound in (least, most)):
        raise AWSValidationException("Minimum and maximum capacity must be greater than or equal to 0")
    least = former.min_capacity if former and least is None else least
    most = former.max_capacity if former and most is None else most
    if least is None or most is None:
        msg = "MinCapacity and MaxCapacity must be specified to register a new scalable target"
        raise AWSValidationException(msg)
    if least > most:
        raise AWSValidationException("Maximum capacity cannot be less than minimum capacity")


def _check_variant(backend: ApplicationAutoscalingBackend, resource_id: str) -> None:
    _, endpoint_name, _, variant = resource_id.split("/")
    endpoint = sagemaker_backends[backend.account_id][backend.region_name].endpoints.get(endpoint_name)
    if endpoint is None:
        raise AWSValidationException(f"No endpoint found for resource ID: {resource_id}")
    if variant not in (found["VariantName"] for found in endpoint.production_variants):
        raise AWSValidationException(f"No production variant found for resource ID: {resource_id}")


@patch.replaces(ApplicationAutoscalingBackend, "deregister_scalable_target")
def _deregister(self: ApplicationAutoscalingBackend, namespace: str, r_id: str, dimension: str) -> None:
    _moto_deregister(self, namespace, r_id, dimension)
    for key, policy in list(self.policies.items()):
        if (policy.service_namespace, policy.resource_id, policy.scalable_dimension) == (
            namespace,
            r_id,
            dimension,
        ):
            policy.delete_alarms(self.account_id, self.region_name)
            del self.policies[key]
    for action in self.describe_scheduled_actions("", namespace, r_id, dimension):
        self.delete_scheduled_action(namespace, action.scheduled_action_name, r_id, dimension)


@patch.replaces(ApplicationAutoscalingBackend, "put_scaling_policy")
def _put_policy(self: ApplicationAutoscalingBackend, **request: Any) -> FakeApplicationAutoscalingPolicy:
    names = ("service_namespace", "resource_id", "scalable_dimension", "policy_name")
    key = FakeApplicationAutoscalingPolicy.formulate_key(*(request[name] for name in names))
    former = self.policies.get(key)
    if request["service_namespace"] == "sagemaker":
        _check_target(self, request["resource_id"], request["scalable_dimension"])
        if request["policy_type"] == "TargetTrackingScaling":
            _check_metric(request["policy_body"])
    policy = _moto_put_policy(self, **request)
    if former is not None:
        policy.policy_arn, policy.creation_time = former.policy_arn, former.creation_time
        policy.alarms = former.alarms
    if policy.service_namespace == "sagemaker":
        _put_alarms(self, policy)
    return policy


@patch.replaces(ApplicationAutoscalingBackend, "put_scheduled_action")
def _put_schedule(self: ApplicationAutoscalingBackend, **request: Any) -> None:
    now = clock.current().now()
    try:
        if request["schedule"]:
            next_time(request["schedule"], after=now, start=now, zone=request["timezone"] or "UTC")
    except ScheduleError as error:
        raise AWSValidationException(f"Invalid schedule expression: {error}") from error
    _moto_put_schedule(self, **request)


def _check_target(backend: ApplicationAutoscalingBackend, resource_id: str, dimension: str) -> None:
    if resource_id not in backend.targets.get(dimension, {}):
        raise JsonRESTError(
            "ObjectNotFoundException",
            "No scalable target registered for service namespace: sagemaker, resource ID: "
            f"{resource_id}, scalable dimension: {dimension}",
        )


def _check_metric(configuration: Mapping[str, Any]) -> None:
    predefined = configuration.get("PredefinedMetricSpecification")
    if (predefined is None) == ("CustomizedMetricSpecification" not in configuration):
        msg = "Specify either a PredefinedMetricSpecification or a CustomizedMetricSpecification"
        raise AWSValidationException(msg)
    if predefined is not None and (kind := predefined["PredefinedMetricType"]) not in PREDEFINED:
        msg = f"The predefined metric type {kind} is not one of a SageMaker variant: {', '.join(PREDEFINED)}"
        raise AWSValidationException(msg)


def _put_alarms(backend: ApplicationAutoscalingBackend, policy: FakeApplicationAutoscalingPolicy) -> None:
    """Write the alarms of a policy. One that was there before keeps its name."""
    if policy.resource_id.startswith("endpoint/") and policy.policy_type == "TargetTrackingScaling":
        cloudwatch = clients.client("cloudwatch", backend.region_name)
        former = {str(alarm.name)[: -_ID_LENGTH - 1]: str(alarm.name) for alarm in policy.alarms}
        policy_id = policy.alarms[0].alarm_actions[0].rpartition("/")[2] if former else mock_random.uuid4()
        wanted = tracking_alarms(
            policy.target_tracking_scaling_policy_configuration or {},
            resource_id=policy.resource_id,
            action=f"{policy.policy_arn}:createdBy/{policy_id}",
        )
        names: list[str] = []
        for alarm in wanted:
            prefix = str(alarm["AlarmName"])
            names.append(former.pop(prefix, f"{prefix}-{mock_random.uuid4()}"))
            cloudwatch.put_metric_alarm(**{**alarm, "AlarmName": names[-1]})
        if former:
            cloudwatch.delete_alarms(AlarmNames=list(former.values()))
        alarms = cloudwatch_backends[backend.account_id][backend.region_name].alarms
        policy.alarms = [alarms[name] for name in names]


_PAGE = 50
_FILTERS = ("ServiceNamespace", "ResourceId", "ScalableDimension")


@patch.replaces(responses, "_build_alarms")
def _alarms(policy: FakeApplicationAutoscalingPolicy) -> list[dict[str, str]]:
    alarms = cloudwatch_backends[policy.account_id][policy.region_name].alarms
    return [
        {"AlarmName": alarm.name, "AlarmARN": alarm.alarm_arn}
        for alarm in sorted(alarms.values(), key=lambda alarm: alarm.name)
        if any(str(action).startswith(policy.policy_arn) for action in alarm.alarm_actions or ())
    ]


@patch.replaces(ApplicationAutoScalingResponse, "describe_scalable_targets")
def _describe_targets(self: ApplicationAutoScalingResponse) -> str:
    self._validate_params()
    backend, request = self.applicationautoscaling_backend, json.loads(self.body)
    found = backend.describe_scalable_targets(
        request["ServiceNamespace"], request.get("ResourceIds"), request.get("ScalableDimension")
    )
    return _page(request, "ScalableTargets", [responses._build_target(each) for each in found])


@patch.replaces(ApplicationAutoScalingResponse, "describe_scaling_policies")
def _describe_policies(self: ApplicationAutoScalingResponse) -> str:
    request = json.loads(self.body)
    found = [responses._build_policy(each) for each in self.applicationautoscaling_backend.policies.values()]
    return _page(request, "ScalingPolicies", found, names="PolicyName")


@patch.replaces(ApplicationAutoScalingResponse, "describe_scheduled_actions")
def _describe_schedules(self: ApplicationAutoScalingResponse) -> str:
    request, backend = json.loads(self.body), self.applicationautoscaling_backend
    found = [responses._build_scheduled_action(each) for each in backend.scheduled_actions]
    return _page(request, "ScheduledActions", found, names="ScheduledActionName")


@patch.adds(ApplicationAutoScalingResponse, "describe_scaling_activities")
def _describe_activities(self: ApplicationAutoScalingResponse) -> str:
    self._validate_params()
    request, activities = json.loads(self.body), activities_of(self.applicationautoscaling_backend)
    found = activities.listed(unscaled=bool(request.get("IncludeNotScaledActivities")))
    return _page(request, "ScalingActivities", found)


def _page(
    request: Mapping[str, Any], member: str, items: Sequence[Mapping[str, Any]], *, names: str = ""
) -> str:
    """Return a page of the items that a request asks for, without the fields that they lack."""
    chosen = request.get(f"{names}s") if names else None
    found = [
        {key: value for key, value in item.items() if value is not None}
        for item in items
        if all(request.get(name) in (None, item[name]) for name in _FILTERS)
        and (not chosen or item[names] in chosen)
    ]
    refusal = JsonRESTError("InvalidNextTokenException", "The next token supplied is invalid.")
    return json.dumps(page(request, member, found, size=_PAGE, refusal=refusal))
