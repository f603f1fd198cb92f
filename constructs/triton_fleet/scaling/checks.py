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
"""A variant is scaled once."""


def one_scaling(resource: str, *, already: str | None, where: str) -> Iterator[Problem]:
    """The problem with scaling a variant.

    Args:
        resource: What is scaled, as Application Auto Scaling names it.
        already: Where the same is scaled already, if it is.
        where: What the problem is reported for.
    """
    if already is None:
        return
    yield ONE_SCALING_A_VARIANT.problem(
        what=f"{resource} is scaled by {already} already",
        where=where,
        expected="one scaling for each variant",
        why="registering it again overwrites the bounds of the first, and removing either removes both",
        fix="give the first one all targets, steps and schedules, or name another variant",
    )


ONE_TARGET_A_METRIC = Check(
    id="one-target-a-metric",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScalingPolicy.html",
)
"""What scales a fleet has a name of its own."""

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
            expected="each metric once, each under its own name",
            why="two targets for one metric pull the fleet in two directions",
            fix="keep one of them, or name them differently if their metrics differ",
        )
    for name in sorted(RESERVED_NAMES.intersection(names)):
        yield ONE_TARGET_A_METRIC.problem(
            what=f"a policy is named {name!r}",
            where=where,
            expected=f"any other name than {', '.join(sorted(RESERVED_NAMES))}",
            why="scaling has a construct of that id already",
            fix="name it after its metric, such as QueueDepth",
        )


# The patterns of PolicyName and ScheduledActionName.
POLICY_NAME = Check(
    id="policy-name",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html",
)
"""The name of a scaling policy or of a scheduled action, which is the id of a construct as well."""

_POLICY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def policy_name(name: str, *, where: str) -> Iterator[Problem]:
    """The problem with a name; a token is not valid either, because ids of constructs are written down."""
    if _POLICY_NAME.fullmatch(name):
        return
    yield POLICY_NAME.problem(
        what=f"the name is {name[:60]!a}",
        where=where,
        expected="1 to 100 letters, digits, hyphens, dots and underscores, known when the app is synthesised",
        why="it is part of the policy's name and the id of its construct",
        fix="name it after its metric or its hour, such as QueueDepth or Morning",
    )


# With the API models in botocore 1.44.5: Application Auto Scaling takes any statistic of CloudWatch in a
# query of a customized metric (TargetTrackingMetricStat), and CloudWatch writes its grammar down as
# AnomalyDetectorMetricStat. The o, the u and the endings _E, _L and _H in that are explained nowhere.
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
    """Two bounds, of which one may be left out."""
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
        expected=f"{', '.join(_STATISTICS)}; a percentile such as p90 or p99.9, and likewise tm, wm, tc or "
        "ts; or a range such as TM(10%:90%), also of WM, TC and TS, or PR(:300)",
        why="CloudWatch does not support this statistic",
        fix="write Average, or a percentile such as p90",
    )


SCALING_NUMBER = Check(
    id="scaling-number",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_Operations.html",
)
"""The numbers of auto scaling are numbers, known where others are computed from them."""


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
        value: What was given.
        deferred: Whether it is known only when the stack is deployed.
        whole: Whether only an integer will do.
        name: What it is called.
        where: What the problem is reported for.
    """
    if deferred or is_number(value, whole=whole):
        return
    kind = "an integer" if whole else "a finite number"
    yield SCALING_NUMBER.problem(
        what=f"{name} is {value!r}",
        where=where,
        expected=kind,
        why="Application Auto Scaling accepts nothing else, and refuses it only at deployment",
        fix=f"give {kind}{_number_instead(value)}",
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
        deferred: Whether it is known only when the stack is deployed.
        name: What it is called.
        where: What the problem is reported for.
    """
    if not deferred:
        return
    yield SCALING_NUMBER.problem(
        what=f"{name} is known only when the stack is deployed",
        where=where,
        expected="a number",
        why="what Application Auto Scaling takes is computed from it at synthesis",
        fix="give the number itself, from context instead of a CloudFormation parameter",
    )


SCALING_TARGET_REACHABLE = Check(
    id="scaling-target-reachable",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html",
)
"""A target that auto scaling keeps is a value that the metric can have."""


def scaling_target(
    value: float | None, *, limit: float | None, where: str, per: str = "GPU"
) -> Iterator[Problem]:
    """The problem with keeping a metric at this value.

    Args:
        value: The target for one GPU, vCPU or instance; None is a number not known yet.
        limit: The most that the metric can reach for one; None if it has no bound.
        where: What the problem is reported for.
        per: What the target is given for.
    """
    if value is None or (value > 0 and (limit is None or value <= limit)):
        return
    fix = "give the target for one instance"
    if per != "instance":
        fix = f"give the target for one {per}; it is multiplied by the number of {per}s"
    yield SCALING_TARGET_REACHABLE.problem(
        what=f"the target is {value:g}",
        where=where,
        expected="more than 0" if limit is None else f"more than 0 and at most {limit:g}, for each {per}",
        why="the metric never gets there, so the fleet would only grow or only shrink",
        fix=fix,
    )


SCALING_TARGET_HARDWARE = Check(
    id="scaling-target-hardware",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
)
"""A target that is given for a GPU scales instances that have one."""


def scaling_hardware(instance: InstanceType, *, per_gpu: bool, policy: str, where: str) -> Iterator[Problem]:
    """The problem with a target on this instance type.

    Args:
        instance: The type of the scaled instances.
        per_gpu: Whether the target is given for a GPU.
        policy: The target's name.
        where: What the problem is reported for.
    """
    if not per_gpu or instance.gpu_count > 0:
        return
    yield SCALING_TARGET_HARDWARE.problem(
        what=f"the target {policy} is for each GPU, and {instance.name} has no GPU",
        where=where,
        expected="a target that the instances can have, such as CpuUtilization(percent=60)",
        why="nothing is published about GPUs there, so the fleet would never change its size",
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
"""What SageMaker does not do for asynchronous endpoints, and what only those have."""


def target_published(
    policy: str, *, of_queue: bool, of_answers: bool, has_queue: bool, where: str
) -> Iterator[Problem]:
    """The problem with a target whose metric the endpoint does not publish.

    Args:
        policy: The target's name.
        of_queue: Whether its metric is of the queue of an asynchronous endpoint.
        of_answers: Whether its metric counts requests as only other endpoints publish them.
        has_queue: Whether the endpoint is asynchronous.
        where: What the problem is reported for.
    """
    if of_queue and not has_queue:
        yield SCALING_TARGET_PUBLISHED.problem(
            what=f"the target {policy} is of a queue, and the endpoint has no queue",
            where=where,
            expected="an endpoint with async_inference",
            why="no backlog is published otherwise, so the fleet would never change its size",
            fix="use InvocationsPerGpu or a utilisation, or give the endpoint async_inference",
        )
        return
    if of_answers and has_queue:
        yield SCALING_TARGET_PUBLISHED.problem(
            what=f"the target {policy} counts requests, and the endpoint is asynchronous",
            where=where,
            expected="BacklogPerInstance, or a utilisation",
            why="SageMaker publishes no Invocations for asynchronous endpoints: the fleet would never change "
            "its size",
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
        expected: What its fleet, its instance types and its release make of it.
        where: What the problem is reported for.
    """
    if name == expected:
        return
    yield ALIAS_ENDPOINT_NAME.problem(
        what=f"the endpoint is named {name!r}",
        where=where,
        expected=f"the name {expected!r}",
        why="another type or release needs another endpoint, so that what serves today keeps its plans",
        fix="give the endpoint endpoint_name=endpoint_name_for(fleet, instance_type, release=release)",
    )


def alias_name_length(name: str, *, fleet: str, where: str) -> Iterator[Problem]:
    """The problem with the length of an endpoint's name.

    Args:
        name: The name that fleet, instance types and release make.
        fleet: The fleet's part of it.
        where: What the problem is reported for.
    """
    if len(name) <= LONGEST_ENDPOINT_NAME:
        return
    yield ALIAS_ENDPOINT_NAME.problem(
        what=f"the endpoint's name {name!r} has {len(name)} characters",
        where=where,
        expected=f"at most {LONGEST_ENDPOINT_NAME}",
        why="SageMaker limits names to 63 characters, the type and the release among them",
        fix=f"give the fleet a name of at most {LONGEST_ENDPOINT_NAME - len(name) + len(fleet)} characters",
    )
