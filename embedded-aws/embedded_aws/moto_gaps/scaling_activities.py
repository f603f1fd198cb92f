"""The activities of Application Auto Scaling, which moto lacks, in AWS's words.

Texts: https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-scaling-activities.html
and https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-query-history.html, read 2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moto.applicationautoscaling.models import ApplicationAutoscalingBackend
from moto.moto_api._internal import mock_random

WEEKS_KEPT = 6

_WEEK_S = 7 * 24 * 3600


class Activities:
    """The activities of the scalable targets of an account in a region, newest first."""

    def __init__(self) -> None:
        self._kept: list[dict[str, Any]] = []

    def listed(self, *, unscaled: bool = False) -> list[dict[str, Any]]:
        """Return the activities as the API shows them.

        Args:
            unscaled: True to include attempts that did not change anything.
        """
        return [each for each in self._kept if unscaled or "NotScaledReasons" not in each]

    def begin(self, target: Any, *, count: int, cause: str, now: float) -> dict[str, Any]:
        """Add the activity of a change to a number of instances, and return it."""
        return self._add(
            target,
            now=now,
            Description=f"Setting desired instance count to {count}.",
            Cause=cause,
            StatusCode="InProgress",
            StatusMessage=(
                f"Successfully set desired instance count to {count}. "
                "Waiting for change to be fulfilled by sagemaker."
            ),
        )

    @staticmethod
    def succeed(activity: dict[str, Any], *, count: int, now: float) -> None:
        """End an activity whose instances have come or gone."""
        message = (
            f"Successfully set desired instance count to {count}. Change successfully fulfilled by sagemaker."
        )
        activity |= {"StatusCode": "Successful", "StatusMessage": message, "EndTime": now}

    @staticmethod
    def fail(activity: dict[str, Any], *, count: int, reason: str, now: float) -> None:
        """End an activity that SageMaker refused, or whose instances did not come."""
        message = f"Failed to set desired instance count to {count}. Reason: {reason}"
        activity |= {"StatusCode": "Failed", "StatusMessage": message, "EndTime": now}

    def bounds_set(self, target: Any, *, action: str, now: float) -> None:
        """Add the activity of a scheduled action that set a target's bounds."""
        bounds = f"min capacity to {target.min_capacity} and max capacity to {target.max_capacity}"
        self._add(
            target,
            now=now,
            Description=f"Setting {bounds}",
            Cause=f"scheduled action name {action} was triggered",
            StatusCode="Successful",
            StatusMessage=f"Successfully set {bounds}",
        )

    def not_scaled(self, target: Any, *, cause: str, reason: Mapping[str, Any], now: float) -> None:
        """Add an attempt to scale that changed nothing, unless the newest entry already says so."""
        reasons = [dict(reason)]
        same = [each for each in self._kept[:1] if each.get("NotScaledReasons") == reasons]
        if not same:
            self._add(
                target,
                now=now,
                Description="Attempting to scale due to alarm triggered",
                Cause=cause,
                StatusCode="Failed",
                NotScaledReasons=reasons,
            )

    def _add(self, target: Any, *, now: float, **texts: Any) -> dict[str, Any]:
        activity = {
            "ActivityId": str(mock_random.uuid4()),
            "ServiceNamespace": target.service_namespace,
            "ResourceId": target.resource_id,
            "ScalableDimension": target.scalable_dimension,
            "StartTime": now,
            **texts,
        }
        oldest = now - WEEKS_KEPT * _WEEK_S
        self._kept = [activity, *(each for each in self._kept if each["StartTime"] > oldest)]
        return activity


def activities_of(backend: ApplicationAutoscalingBackend) -> Activities:
    """Return the activities of an account in a region. A reset of moto empties them."""
    found: Activities = vars(backend).setdefault("embedded_aws_activities", Activities())
    return found
