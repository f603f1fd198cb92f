"""The lists of Application Auto Scaling: targets, policies with their alarms, schedules, activities.

moto's gaps:
- It lacks DescribeScalingActivities.
- Pages of targets repeat, and schedules have no pages.
- The names of policies in a request are ignored.
- The alarms of a policy are only those of DynamoDB and ECS. AWS lists every alarm that runs the policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moto.applicationautoscaling import responses
from moto.applicationautoscaling.models import FakeApplicationAutoscalingPolicy
from moto.applicationautoscaling.responses import ApplicationAutoScalingResponse
from moto.cloudwatch.models import cloudwatch_backends
from moto.core.exceptions import JsonRESTError

from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.pages import BadTokenError, page
from embedded_aws.moto_gaps.scaling_activities import activities_of

_PAGE = 50
_FILTERS = ("ServiceNamespace", "ResourceId", "ScalableDimension")


class _InvalidNextTokenError(JsonRESTError):
    def __init__(self) -> None:
        super().__init__("InvalidNextTokenException", "The next token supplied is invalid.")


def _alarms(policy: FakeApplicationAutoscalingPolicy) -> list[dict[str, str]]:
    """Return the alarms that run a policy, in the form of the API."""
    alarms = cloudwatch_backends[policy.account_id][policy.region_name].alarms
    return [
        {"AlarmName": alarm.name, "AlarmARN": alarm.alarm_arn}
        for alarm in sorted(alarms.values(), key=lambda alarm: alarm.name)
        if any(str(action).startswith(policy.policy_arn) for action in alarm.alarm_actions or ())
    ]


def _describe_targets(self: ApplicationAutoScalingResponse) -> str:
    self._validate_params()
    backend, request = self.applicationautoscaling_backend, json.loads(self.body)
    found = backend.describe_scalable_targets(
        request["ServiceNamespace"], request.get("ResourceIds"), request.get("ScalableDimension")
    )
    return _page(request, "ScalableTargets", [responses._build_target(each) for each in found])


def _describe_policies(self: ApplicationAutoScalingResponse) -> str:
    request = json.loads(self.body)
    found = [responses._build_policy(each) for each in self.applicationautoscaling_backend.policies.values()]
    return _page(request, "ScalingPolicies", found, names="PolicyName")


def _describe_schedules(self: ApplicationAutoScalingResponse) -> str:
    request, backend = json.loads(self.body), self.applicationautoscaling_backend
    found = [responses._build_scheduled_action(each) for each in backend.scheduled_actions]
    return _page(request, "ScheduledActions", found, names="ScheduledActionName")


def _describe_activities(self: ApplicationAutoScalingResponse) -> str:
    self._validate_params()
    request, activities = json.loads(self.body), activities_of(self.applicationautoscaling_backend)
    found = activities.listed(unscaled=bool(request.get("IncludeNotScaledActivities")))
    return _page(request, "ScalingActivities", found)


def _page(
    request: Mapping[str, Any], member: str, items: Sequence[Mapping[str, Any]], *, names: str = ""
) -> str:
    """Return a page of the items that a request asks for, without the fields that they lack.

    Args:
        request: The request.
        member: The list's name in the answer.
        items: All items.
        names: The item's field with its name, if the request can have names. They are in the plural there.
    """
    chosen = request.get(f"{names}s") if names else None
    found = [
        {key: value for key, value in item.items() if value is not None}
        for item in items
        if all(request.get(name) in (None, item[name]) for name in _FILTERS)
        and (not chosen or item[names] in chosen)
    ]
    try:
        shown, token = page(found, token=request.get("NextToken"), size=request.get("MaxResults") or _PAGE)
    except BadTokenError as error:
        raise _InvalidNextTokenError from error
    return json.dumps({member: shown} | ({"NextToken": token} if token else {}))


def install() -> None:
    """Close the gaps."""
    patch.add(ApplicationAutoScalingResponse, describe_scaling_activities=_describe_activities)
    patch.replace(
        ApplicationAutoScalingResponse,
        describe_scalable_targets=_describe_targets,
        describe_scaling_policies=_describe_policies,
        describe_scheduled_actions=_describe_schedules,
    )
    patch.replace(responses, _build_alarms=_alarms)
