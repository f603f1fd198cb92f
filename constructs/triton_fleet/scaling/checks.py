"""Checks of targets and policies: their names, numbers and metrics."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from triton_models.base.checks import Check
from triton_models.base.errors import Problem
from triton_models.facts.instances import InstanceType

ONE_SCALING_A_VARIANT = Check(
    id="one-scaling-a-variant",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html",
)
"""Each variant has one scalable target."""


def one_scaling(resource: str, *, already: str | None, where: str) -> Iterator[Problem]:
    """The problem with scaling a variant.

    Args:
        resource: The scaled resource, as Application Auto Scaling names it.
        already: The construct that scales it already; None without one.
        where: The place that the problem names.
    """
    if already is None:
        return
    yield ONE_SCALING_A_VARIANT.problem(
        what=f"{resource} is already scaled by {already}",
        where=where,
        expected="one EndpointScaling per variant",
        why="a second one overwrites the first one's bounds, and removing either removes both",
        fix="move all targets, steps and schedules to the first one, or scale another variant",
    )


ONE_TARGET_A_METRIC = Check(
    id="one-target-a-metric",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScalingPolicy.html",
)
"""Policies of a fleet have different names."""

FROM_ZERO = "FromZero"
"""The policy of an asynchronous endpoint that brings the first instance back."""
RESERVED_NAMES = frozenset({"Target", FROM_ZERO})
"""Construct ids that scaling has taken for itself."""


def scaling_names(names: Sequence[str], *, where: str) -> Iterator[Problem]:
    """The problems with these names of policies, of target tracking and step scaling together."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield ONE_TARGET_A_METRIC.problem(
            what=f"{names.count(name)} targets for {name}",
            where=where,
            expected="one target per metric, each with its own name",
            why="two targets for one metric pull the fleet in two directions",
            fix="keep one of them, or use different names if their metrics differ",
        )
    for name in sorted(RESERVED_NAMES.intersection(names)):
        yield ONE_TARGET_A_METRIC.problem(
            what=f"a policy is named {name!r}",
            where=where,
            expected=f"any name except {', '.join(sorted(RESERVED_NAMES))}",
            why="EndpointScaling already has a construct with this id",
            fix="name it after its metric, such as QueueDepth",
        )


# The patterns of PolicyName and ScheduledActionName.
POLICY_NAME = Check(
    id="policy-name",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html",
)
"""Names of scaling policies and scheduled actions are valid, and literal."""

_POLICY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def policy_name(name: str, *, where: str) -> Iterator[Problem]:
    """Yield the problem with a name; tokens are not valid, because the name is the id of a construct."""
    if _POLICY_NAME.fullmatch(name):
        return
    yield POLICY_NAME.problem(
        what=f"the name is {name[:60]!a}",
        where=where,
        expected="1 to 100 letters, digits, hyphens, dots and underscores, known at synthesis",
        why="it is part of the policy's name, and the id of its construct",
        fix="name it after its metric or its hour, such as QueueDepth or Morning",
    )


# From the API models in botocore 1.44.5: Application Auto Scaling accepts any statistic of CloudWatch in a
# query of a customized metric (TargetTrackingMetricStat), and AnomalyDetectorMetricStat has the grammar. Its
# o, u and the endings _E, _L and _H are not documented.
STATISTIC_NAME = Check(
    id="statistic-name",
    source=(
        "2026-11-22: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Statistics-definitions.html"
        " https://docs.aws.amazon.com/autoscaling/application/APIReference/API_TargetTrackingMetricStat.html"
    ),
)
"""A statistic is one that CloudWatch supports."""

_STATISTICS = ("Average", "Minimum", "Maximum", "Sum", "SampleCount", "IQM")
_DECIMALS = r"(\.\d{1,10})?"
_BELOW_HUNDRED = rf"\d{{1,2}}{_DECIMALS}"
_PERCENT = rf"({_BELOW_HUNDRED}|100(\.0{{1,10}})?)%"
_NUMBER = rf"\d+{_DECIMALS}([Ee][+-]?\d+)?"


def _between(bound: str) -> str:
    """Return the pattern of two bounds, one of which may be missing."""
    return rf"\(({bound}:({bound})?|:{bound})\)"


_STATISTIC = re.compile(
    "|".join(
        (
            *_STATISTICS,
            rf"(p|tm|wm|tc|ts)({_BELOW_HUNDRED}|100)",
            rf"(TM|WM|TC|TS){_between(_PERCENT)}",
            rf"(PR|TM|WM|TC|TS){_between(_NUMBER)}",
        )
    ),
    re.ASCII,
)


def statistic_name(statistic: str, *, where: str) -> Iterator[Problem]:
    """The problem with following a metric by this statistic; a token is not known yet."""
    if _STATISTIC.fullmatch(statistic):
        return
    yield STATISTIC_NAME.problem(
        what=f"the statistic is {statistic[:40]!a}",
        where=where,
        expected=f"{', '.join(_STATISTICS)}; a percentile such as p90 or p99.9, or the same with tm, wm, tc "
        "or ts; or a range such as TM(10%:90%), the same with WM, TC or TS, or PR(:300)",
        why="CloudWatch does not support this statistic",
        fix="use Average, or a percentile such as p90",
    )


SCALING_NUMBER = Check(
    id="scaling-number",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_Operations.html",
)
"""Scaling numbers are finite; those used in calculations are known at synthesis."""


def is_number(value: object, *, whole: bool = False) -> bool:
    """Return whether a value is a finite number, and an integer if asked. True and False are not numbers."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value) and not (whole and isinstance(value, float))


def scaling_number(
    value: object, *, deferred: bool, whole: bool = False, name: str, where: str
) -> Iterator[Problem]:
    """The problem with a value that should be a number.

    Args:
        value: The given value.
        deferred: True if it is known only when the stack is deployed.
        whole: True if it must be an integer.
        name: Its name.
        where: The place that the problem names.
    """
    if deferred or is_number(value, whole=whole):
        return
    kind = "an integer" if whole else "a finite number"
    yield SCALING_NUMBER.problem(
        what=f"{name} is {value!r}",
        where=where,
        expected=kind,
        why="Application Auto Scaling refuses anything else, at deployment",
        fix=f"use {kind}{_number_instead(value)}",
    )


def _number_instead(value: object) -> str:
    """Return the fix for a value that is not such a number."""
    if isinstance(value, bool):
        return ", not True or False"
    if isinstance(value, str):
        return ", without quotes"
    if isinstance(value, float) and math.isfinite(value):
        return f", such as {math.ceil(value)}"
    return ""


def scaling_number_now(*, deferred: bool, name: str, where: str) -> Iterator[Problem]:
    """The problem with a number that others are computed from.

    Args:
        deferred: True if it is known only when the stack is deployed.
        name: Its name.
        where: The place that the problem names.
    """
    if not deferred:
        return
    yield SCALING_NUMBER.problem(
        what=f"{name} is known only when the stack is deployed",
        where=where,
        expected="a number",
        why="other numbers are computed from it at synthesis",
        fix="use the number itself, from context instead of a CloudFormation parameter",
    )


_WHOLE_PERCENT = 100.0

SCALING_TARGET_REACHABLE = Check(
    id="scaling-target-reachable",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html",
)
"""The target of a metric is a value that the metric can reach."""


def scaling_target(
    value: float | None, *, limit: float | None, where: str, per: str = "GPU"
) -> Iterator[Problem]:
    """The problem with keeping a metric at this value.

    Args:
        value: The target for one GPU, vCPU or instance; None if it is known only at deployment.
        limit: The most that the metric can reach for one; None if it has no bound.
        where: The place that the problem names.
        per: The unit of hardware that the target is for.
    """
    if limit == _WHOLE_PERCENT and value is not None and 0 < value < 1:
        yield SCALING_TARGET_REACHABLE.problem(
            what=f"the target is {value:g} %",
            where=where,
            expected=f"1 to {limit:g}, per {per}",
            why="any request exceeds it, so the fleet would always have its maximum",
            fix=f"give percent: {value * _WHOLE_PERCENT:g} instead of {value:g}",
        )
        return
    if value is None or (value > 0 and (limit is None or value <= limit)):
        return
    fix = "set the target for one instance"
    if per != "instance":
        fix = f"set the target for one {per}; it is multiplied by the number of {per}s"
    yield SCALING_TARGET_REACHABLE.problem(
        what=f"the target is {value:g}",
        where=where,
        expected="more than 0" if limit is None else f"more than 0 and at most {limit:g}, per {per}",
        why="the metric never reaches it, so the fleet would only grow or only shrink",
        fix=fix,
    )


SCALING_TARGET_HARDWARE = Check(
    id="scaling-target-hardware",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
)
"""A target per GPU scales only instances with GPUs."""


def scaling_hardware(instance: InstanceType, *, per_gpu: bool, policy: str, where: str) -> Iterator[Problem]:
    """The problem with a target on this instance type.

    Args:
        instance: The type of the scaled instances.
        per_gpu: True if the target is given for a GPU.
        policy: The target's name.
        where: The place that the problem names.
    """
    if not per_gpu or instance.gpu_count > 0:
        return
    yield SCALING_TARGET_HARDWARE.problem(
        what=f"the target {policy} is per GPU, and {instance.name} has no GPU",
        where=where,
        expected="a target without GPUs, such as CpuUtilization(percent=60)",
        why="without GPU metrics, the fleet would never change its size",
        fix="use CpuUtilization or InvocationsPerInstance, or an instance type with a GPU",
    )


# The features, and which metrics are published.
SCALING_TARGET_PUBLISHED = Check(
    id="scaling-target-published",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html"
        " https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html"
    ),
)
"""The metrics of targets are published, which differs between asynchronous endpoints and others."""


def target_published(
    policy: str, *, of_queue: bool, of_answers: bool, has_queue: bool, where: str
) -> Iterator[Problem]:
    """The problem with a target whose metric the endpoint does not publish.

    Args:
        policy: The target's name.
        of_queue: True if its metric describes the queue of an asynchronous endpoint.
        of_answers: True if its metric counts requests, which asynchronous endpoints do not publish.
        has_queue: True if the endpoint is asynchronous.
        where: The place that the problem names.
    """
    if of_queue and not has_queue:
        yield SCALING_TARGET_PUBLISHED.problem(
            what=f"the target {policy} needs a queue, and the endpoint has no queue",
            where=where,
            expected="an endpoint with async_inference",
            why="without a backlog metric, the fleet would never change its size",
            fix="use InvocationsPerGpu or a utilization, or give the endpoint async_inference",
        )
        return
    if of_answers and has_queue:
        yield SCALING_TARGET_PUBLISHED.problem(
            what=f"the target {policy} counts requests, and the endpoint is asynchronous",
            where=where,
            expected="BacklogPerInstance, or a utilization",
            why="SageMaker publishes no Invocations for asynchronous endpoints",
            fix="use BacklogPerInstance(requests=5)",
        )
        return


ALIAS_ENDPOINT_NAME = Check(
    id="alias-endpoint-name",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html",
)
"""An endpoint behind an alias is named after its instance type and its release."""

LONGEST_ENDPOINT_NAME = 63
"""The characters of an endpoint's name."""


def alias_endpoint_name(name: str, *, expected: str, where: str) -> Iterator[Problem]:
    """The problem with an endpoint of this name behind an alias.

    Args:
        name: The endpoint's name.
        expected: The name that follows from its fleet, instance types and release. More may follow.
        where: The place that the problem names.
    """
    if name == expected or name.startswith(f"{expected}-"):
        return
    yield ALIAS_ENDPOINT_NAME.problem(
        what=f"the endpoint is named {name!r}",
        where=where,
        expected=f"the name {expected!r}",
        why="another type or release needs another endpoint, next to the current one",
        fix="use endpoint_name=endpoint_name_for(fleet, instance_type, release=release) for the endpoint",
    )


def alias_name_length(name: str, *, fleet: str, where: str) -> Iterator[Problem]:
    """The problem with the length of an endpoint's name.

    Args:
        name: The name that fleet, instance types and release make.
        fleet: The fleet's part of it.
        where: The place that the problem names.
    """
    if len(name) <= LONGEST_ENDPOINT_NAME:
        return
    yield ALIAS_ENDPOINT_NAME.problem(
        what=f"the endpoint's name {name!r} has {len(name)} characters",
        where=where,
        expected=f"at most {LONGEST_ENDPOINT_NAME}",
        why="SageMaker limits names to 63 characters, including the type and the release",
        fix=f"shorten the fleet's name to {LONGEST_ENDPOINT_NAME - len(name) + len(fleet)} characters",
    )
