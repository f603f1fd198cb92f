"""The scaling of variants by policies, schedules and changes of bounds, and the work of every minute.

All policies of a target whose alarms are in ALARM count: the largest capacity wins, and capacity is only
removed if every tracking policy that may remove some wants it. Nothing happens while the endpoint is updated.

moto lacks their activities. Their texts are AWS's:
https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-scaling-activities.html
and https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-query-history.html, read 2026-11-23.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moto.applicationautoscaling.models import (
    ApplicationAutoscalingBackend,
    FakeApplicationAutoscalingPolicy,
    applicationautoscaling_backends,
)
from moto.cloudwatch.models import cloudwatch_backends
from moto.moto_api._internal import mock_random
from moto.sagemaker.exceptions import AWSValidationException
from moto.sagemaker.models import sagemaker_backends

from embedded_aws import clock
from embedded_aws.autoscaling import DEFAULT_COOLDOWN_S, next_time, stepped_capacity, tracked_capacity
from embedded_aws.clock import moment
from embedded_aws.cloudwatch.alarms import SCALING, Alarm, Change
from embedded_aws.moto_gaps.alarm_actions import ACTIONS
from embedded_aws.moto_gaps.capacity import change_capacity
from embedded_aws.moto_gaps.cloudwatch import alarms_of, evaluate_alarms
from embedded_aws.moto_gaps.endpoint_update import hosts
from embedded_aws.moto_gaps.events import run_schedules
from embedded_aws.moto_gaps.queues import deliver

WEEKS_KEPT = 6

_WEEK_S = 7 * 24 * 3600


class Activities:
    """The activities of the scalable targets of an account in a region, newest first."""

    def __init__(self) -> None:
        self._kept: list[dict[str, Any]] = []

    def listed(self, *, unscaled: bool = False) -> list[dict[str, Any]]:
        return [each for each in self._kept if unscaled or "NotScaledReasons" not in each]

    def begin(self, target: Any, *, count: int, cause: str, now: float) -> dict[str, Any]:
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
    def end(activity: dict[str, Any], *, count: int, failure: str | None, now: float) -> None:
        """End an activity whose instances have come or gone, or that failed."""
        status = "Successful" if failure is None else "Failed"
        message = f"Failed to set desired instance count to {count}. Reason: {failure}"
        if failure is None:
            done = "Change successfully fulfilled by sagemaker."
            message = f"Successfully set desired instance count to {count}. {done}"
        activity |= {"StatusCode": status, "StatusMessage": message, "EndTime": now}

    def bounds_set(self, target: Any, *, action: str, now: float) -> None:
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
    found: Activities = vars(backend).setdefault("embedded_aws_activities", Activities())
    return found


DIMENSION = "sagemaker:variant:DesiredInstanceCount"


@dataclass(slots=True, kw_only=True)
class _State:
    """The state of a target between evaluations.

    Attributes:
        changed: The time of the last change: only one is made at a moment.
        bounds_new: True if the capacity has not been compared to new bounds yet.
        out_until: The end of the cooldown after scaling out.
        counted: The capacity from which changes count until then, since what was added may not serve yet.
        in_until: The end of the cooldown after scaling in.
    """

    changed: float = -math.inf
    bounds_new: bool = False
    out_until: float = -math.inf
    counted: int = 0
    in_until: float = -math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    policy: FakeApplicationAutoscalingPolicy
    alarm: str
    capacity: int
    grows: bool

    @property
    def cause(self) -> str:
        return f"monitor alarm {self.alarm} in state ALARM triggered policy {self.policy.policy_name}"

    @property
    def cooldown(self) -> float:
        tracking = self.policy.target_tracking_scaling_policy_configuration
        if tracking is not None:
            name = "ScaleOutCooldown" if self.grows else "ScaleInCooldown"
            return float(tracking.get(name, DEFAULT_COOLDOWN_S))
        return float(
            (self.policy.step_scaling_policy_configuration or {}).get("Cooldown", DEFAULT_COOLDOWN_S)
        )


class VariantScaling:
    def __init__(self, backend: ApplicationAutoscalingBackend, target: Any, *, now: float) -> None:
        self._backend, self._target, self._now = backend, target, now
        _, self._endpoint_name, _, self._variant_name = target.resource_id.split("/")
        self._sagemaker = sagemaker_backends[backend.account_id][backend.region_name]
        self._suspended: Mapping[str, bool] = target.suspended_state or {}
        states: dict[str, _State] = vars(backend).setdefault("embedded_aws_scaling", {})
        self._state = states.setdefault(target.arn, _State())

    @property
    def _capacity(self) -> int | None:
        """The desired number of instances; None if the endpoint is not InService."""
        endpoint: Any = self._sagemaker.endpoints.get(self._endpoint_name)
        if endpoint is None or endpoint.endpoint_status != "InService":
            return None
        for variant in endpoint.production_variants:
            if variant["VariantName"] == self._variant_name:
                return int(variant["DesiredInstanceCount"])
        return None

    def follow_policies(self) -> None:
        capacity = self._capacity
        if capacity is None or self._state.changed == self._now:
            return
        wishes = list(self._wishes(capacity))
        outwards = [wish for wish in wishes if wish.grows]
        if outwards:
            self._scale_out(max(outwards, key=lambda wish: wish.capacity), capacity)
        elif wishes and self._all_ready(wishes):
            self._scale_in(max(wishes, key=lambda wish: wish.capacity), capacity)

    def set_bounds(self) -> None:
        self._state.bounds_new = True
        self.keep_bounds()

    def keep_bounds(self) -> None:
        """Scale to new bounds if the capacity is outside of them, as soon as the endpoint is InService."""
        capacity, target = self._capacity, self._target
        if capacity is None or not self._state.bounds_new:
            return
        self._state.bounds_new = False
        if target.min_capacity is not None and capacity < target.min_capacity:
            cause = f"minimum capacity was set to {target.min_capacity}"
            self._set(target.min_capacity, cause)
        elif target.max_capacity is not None and capacity > target.max_capacity:
            cause = f"maximum capacity was set to {target.max_capacity}"
            self._set(target.max_capacity, cause)

    def follow_schedules(self) -> None:
        due = [(moment, action) for action in self._actions() if (moment := self._due(action)) is not None]
        for _, action in sorted(due, key=lambda each: each[0]):
            vars(action)["embedded_aws_ran"] = self._now
            if not self._suspended.get("ScheduledScalingSuspended"):
                wanted = action.scalable_target_action
                self._target.update(wanted.get("MinCapacity"), wanted.get("MaxCapacity"), None)
                self._state.bounds_new = True
                name = action.scheduled_action_name
                activities_of(self._backend).bounds_set(self._target, action=name, now=self._now)

    def _actions(self) -> list[Any]:
        target = self._target
        return self._backend.describe_scheduled_actions(
            "", target.service_namespace, target.resource_id, target.scalable_dimension
        )

    def _due(self, action: Any) -> datetime | None:
        """Return the time of an action that has passed since it last ran; None if it is not due."""
        since = max(vars(action).get("embedded_aws_ran", action.creation_time), action.start_time or 0)
        start = moment(action.start_time or action.creation_time)
        found = next_time(action.schedule, after=moment(since), start=start, zone=action.timezone or "UTC")
        last = min(self._now, action.end_time or math.inf)
        return found if found is not None and found.timestamp() <= last else None

    def _wishes(self, capacity: int) -> Iterator[_Wish]:
        alarms = alarms_of(cloudwatch_backends[self._backend.account_id][self._backend.region_name])
        cooling = self._now < self._state.out_until
        counted = self._state.counted if cooling else capacity
        for policy in self._policies():
            for alarm in alarms.firing(policy.policy_arn):
                values = alarms.values(alarm, at=self._now)
                if values:
                    yield from _wish(policy, alarm, values, capacity=capacity, counted=counted)

    def _policies(self) -> list[FakeApplicationAutoscalingPolicy]:
        return [
            policy
            for policy in self._backend.policies.values()
            if (policy.resource_id, policy.scalable_dimension)
            == (self._target.resource_id, self._target.scalable_dimension)
        ]

    def _all_ready(self, wishes: Sequence[_Wish]) -> bool:
        """Return True if every tracking policy that may remove capacity is among the wishes."""
        wishing = {wish.policy.policy_name for wish in wishes}
        return all(
            policy.policy_name in wishing
            for policy in self._policies()
            if (tracking := policy.target_tracking_scaling_policy_configuration) is not None
            and not tracking.get("DisableScaleIn")
        )

    def _scale_out(self, wish: _Wish, capacity: int) -> None:
        wanted = self._within_bounds(wish.capacity)
        if self._suspended.get("DynamicScalingOutSuspended"):
            return
        if wanted > capacity:
            cooling = self._now < self._state.out_until
            self._state.counted = self._state.counted if cooling else capacity
            self._state.in_until = -math.inf

            def cool(since: float) -> None:
                self._state.out_until = since + wish.cooldown

            self._set(wanted, wish.cause, cool)
        elif wish.capacity > capacity:
            self._not_scaled(wish, Code="AlreadyAtMaxCapacity", MaxCapacity=self._target.max_capacity)

    def _scale_in(self, wish: _Wish, capacity: int) -> None:
        wanted = self._within_bounds(wish.capacity)
        if self._suspended.get("DynamicScalingInSuspended") or self._now < self._state.in_until:
            return
        if wanted < capacity:

            def cool(since: float) -> None:
                self._state.in_until = since + wish.cooldown

            self._set(wanted, wish.cause, cool)
        elif wish.capacity < capacity:
            self._not_scaled(wish, Code="AlreadyAtMinCapacity", MinCapacity=self._target.min_capacity)
        else:
            self._not_scaled(wish, Code="AlreadyAtDesiredCapacity", CurrentCapacity=capacity)

    def _within_bounds(self, capacity: int) -> int:
        return max(self._target.min_capacity or 0, min(self._target.max_capacity or 0, capacity))

    def _not_scaled(self, wish: _Wish, **reason: Any) -> None:
        activities = activities_of(self._backend)
        activities.not_scaled(self._target, cause=wish.cause, reason=reason, now=self._now)

    def _set(self, count: int, cause: str, cool: Callable[[float], object] = float) -> None:
        """Change the number of instances, with an activity that ends when they have come or gone.

        A cooldown counts from the activity's end: ScaleOutCooldown in the API reference.
        """
        cool(self._now)
        self._state.changed = self._now
        activities = activities_of(self._backend)
        activity = activities.begin(self._target, count=count, cause=cause, now=self._now)
        change = {"VariantName": self._variant_name, "DesiredInstanceCount": count}

        def end(failure: str | None) -> None:
            now = max(self._now, clock.current().time())
            activities.end(activity, count=count, failure=failure, now=now)
            if failure is None:
                cool(now)

        try:
            change_capacity(self._sagemaker, self._endpoint_name, [change], then=end)
        except AWSValidationException as error:
            reason = (
                f"{error.message} (Service: AmazonSageMaker; Status Code: 400; "
                f"Error Code: ValidationException; Request ID: {mock_random.uuid4()})."
            )
            activities.end(activity, count=count, failure=reason, now=self._now)


def _run_policy(_: Change, arn: str, account: str, region: str, at: float) -> None:
    """Scale the target of the policy that an alarm runs, as all of the target's policies want it.

    An alarm in ALARM runs its policy at every evaluation. Its action is the policy's ARN, which `:createdBy/`
    and an id may follow. An action that is no policy of a variant has no effect.
    """
    backend = applicationautoscaling_backends[account][region]
    for policy in list(backend.policies.values()):
        target = backend.targets.get(DIMENSION, {}).get(policy.resource_id)
        if target is not None and arn.startswith(policy.policy_arn):
            VariantScaling(backend, target, now=at).follow_policies()


ACTIONS[SCALING] = _run_policy


def follow_schedules(backend: ApplicationAutoscalingBackend, *, now: float) -> None:
    """Run the scheduled actions of variants that have become due, then keep new bounds."""
    for target in list(backend.targets.get(DIMENSION, {}).values()):
        scaling = VariantScaling(backend, target, now=now)
        scaling.follow_schedules()
        scaling.keep_bounds()


def _wish(
    policy: FakeApplicationAutoscalingPolicy,
    alarm: Alarm,
    values: Sequence[float],
    *,
    capacity: int,
    counted: int,
) -> Iterator[_Wish]:
    grows = alarm.settings["ComparisonOperator"].startswith("Greater")
    tracking = policy.target_tracking_scaling_policy_configuration
    wanted: int | None
    if tracking is not None:
        wanted = tracked_capacity(tracking, value=values[-1], capacity=counted if grows else capacity)
    else:
        steps = policy.step_scaling_policy_configuration or {}
        threshold = float(alarm.settings["Threshold"])
        wanted = stepped_capacity(steps, values=values, threshold=threshold, capacity=capacity)
        grows = wanted is not None and wanted > capacity
        if grows:
            wanted = stepped_capacity(steps, values=values, threshold=threshold, capacity=counted)
    if wanted is not None:
        yield _Wish(policy=policy, alarm=alarm.name, capacity=wanted, grows=grows)


_MINUTE_S = 60.0
_log = logging.getLogger(__name__)


def evaluate(account: str, *, at: float) -> None:
    """Run due schedules, read queues for functions, then evaluate every alarm, and perform actions."""
    run_schedules(account, at=at)
    deliver(account, at=at)
    for backend in list(applicationautoscaling_backends[account].values()):
        follow_schedules(backend, now=at)
    evaluate_alarms(account, at=at)


class EveryMinute:
    """A thread that evaluates at the end of each minute of the clock, unless its waits are over at once."""

    def __init__(self, account: str) -> None:
        self._account = account
        self._woken = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="every-minute", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Stop, after the evaluation that is under way."""
        self._closed = True
        self._woken.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            now = clock.current()
            left = None if math.isinf(now.speed) else now.here(_MINUTE_S - now.time() % _MINUTE_S)
            woken = self._woken.wait(left)
            self._woken.clear()
            if self._closed:
                return
            if not woken:
                try:
                    at = clock.current().time()
                    for host in hosts():  # or the newest minute would lack its last requests
                        host.flush_metrics()
                    evaluate(self._account, at=at)
                except Exception:  # noqa: BLE001  the next minute may go well
                    _log.exception("the evaluation of alarms failed")
