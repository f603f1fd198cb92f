"""Checks of auto scaling: capacities, names, targets and statistics."""

from __future__ import annotations

import re
from collections.abc import Sequence

from triton_fleet.endpoint.hosting.variants import DeployedVariant
from triton_fleet.operations.scaling.target import ScalingTarget
from triton_models.base.checks import Check, Report

_ZERO = "only asynchronous endpoints scale to zero"

CAPACITY_RANGE = Check(
    id="capacity-range",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-zero-instances.html"
        " https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html"
    ),
)
"""The range of auto scaling is valid, and starts above zero unless requests wait in a queue."""


def capacity(
    report: Report, minimum: float | None, maximum: float | None, *, has_queue: bool = False
) -> None:
    """Check a range of instances, of which None is known only at deployment."""
    fewest = 0 if has_queue else 1
    if minimum is not None and minimum < fewest:
        fix = f"set the minimum to {fewest} or more"
        report(CAPACITY_RANGE, f"the minimum capacity is {minimum}", fix=fix, why="" if has_queue else _ZERO)
    elif minimum is not None and maximum is not None and minimum > maximum:
        what = f"the minimum capacity {minimum} is above the maximum {maximum}"
        report(CAPACITY_RANGE, what, fix=f"set the maximum to {minimum} or more")


ONE_SCALING_PER_VARIANT = Check(
    id="one-scaling-per-variant",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html",
)


def one_scaling(report: Report, resource: str, *, already: str | None) -> None:
    """Check that no other construct scales a variant."""
    if already is not None:
        report(
            ONE_SCALING_PER_VARIANT,
            f"{resource} is already scaled by {already}",
            why="a second one overwrites the first one's bounds, and removing either removes both",
            fix="move all targets, steps and schedules to the first one, or scale another variant",
        )


ONE_TARGET_PER_METRIC = Check(
    id="one-target-per-metric",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScalingPolicy.html",
)
POLICY_NAME = Check(
    id="policy-name",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html",
)

FROM_ZERO = "FromZero"
"""The policy of an asynchronous endpoint that brings the first instance back."""
RESERVED_NAMES = frozenset({"Target", FROM_ZERO})
"""Construct ids that scaling has taken for itself."""


def scaling_names(report: Report, names: Sequence[str]) -> None:
    """Check the names of policies, of target tracking and step scaling together."""
    for name in sorted({name for name in names if names.count(name) > 1}):
        report(
            ONE_TARGET_PER_METRIC,
            f"{names.count(name)} targets for {name}",
            why="two targets for one metric pull the fleet in two directions",
            fix="keep one of them, or use different names if their metrics differ",
        )
    for name in sorted(RESERVED_NAMES.intersection(names)):
        fix = "name it after its metric, such as QueueDepth"
        report(
            ONE_TARGET_PER_METRIC, f"a policy is named {name!r}, which EndpointScaling uses itself", fix=fix
        )


def policy_name(report: Report, name: str) -> None:
    """Check the name of a policy or scheduled action, which is the id of a construct: no token."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", name):
        fix = "use 1 to 100 letters, digits, hyphens, dots and underscores, such as QueueDepth or Morning"
        report(POLICY_NAME, f"the name is {name[:60]!a}", fix=fix)


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


def statistic_name(report: Report, statistic: str) -> None:
    """Check that CloudWatch has a statistic."""
    if not _STATISTIC.fullmatch(statistic):
        fix = f"use {', '.join(_STATISTICS)}, a percentile such as p90, or a range such as TM(10%:90%)"
        report(STATISTIC_NAME, f"the statistic is {statistic[:40]!a}", fix=fix)


SCALING_NUMBER = Check(
    id="scaling-number",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_Operations.html",
)
"""Scaling numbers are finite; those used in calculations are known at synthesis."""


def scaling_number_now(report: Report, name: str) -> None:
    """Report a number that others are computed from, and that is known only at deployment."""
    report(
        SCALING_NUMBER,
        f"{name} is known only when the stack is deployed",
        why="other numbers are computed from it at synthesis",
        fix="use the number itself, from context instead of a CloudFormation parameter",
    )


SCALING_TARGET_REACHABLE = Check(
    id="scaling-target-reachable",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-add-code-define.html",
)
_ALL_PERCENT = 100.0


def scaling_target(report: Report, value: float | None, *, limit: float | None, per: str = "GPU") -> None:
    """Check that a metric can reach its target.

    Args:
        report: Gets the problem.
        value: The target for one GPU, vCPU or instance; None is known only at deployment.
        limit: The most that the metric can reach for one; None if it has no bound.
        per: The unit of hardware that the target is for.
    """
    if value is None or (limit != _ALL_PERCENT and value > 0 and (limit is None or value <= limit)):
        return
    if limit == _ALL_PERCENT and 0 < value < 1:
        report(
            SCALING_TARGET_REACHABLE,
            f"the target is {value:g} %",
            why="any request exceeds it, so the fleet would always have its maximum",
            fix=f"give percent: {value * _ALL_PERCENT:g} instead of {value:g}",
        )
    elif limit is None or not 0 < value <= limit:
        most = "" if limit is None else f" and at most {limit:g}"
        report(
            SCALING_TARGET_REACHABLE,
            f"the target is {value:g}",
            why="the metric never reaches it, so the fleet would only grow or only shrink",
            fix=f"set the target for one {per}: more than 0{most}",
        )


SCALING_TARGET_HARDWARE = Check(
    id="scaling-target-hardware",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
)
SCALING_TARGET_PUBLISHED = Check(
    id="scaling-target-published",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html"
        " https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html"
    ),
)
"""The metrics of targets are published, which differs between asynchronous endpoints and others."""


def target_of_variant(report: Report, target: ScalingTarget, variant: DeployedVariant) -> None:
    """Check that a variant publishes the metric of a target."""
    policy = target._policy
    if target._OF_QUEUE and not variant.asynchronous:
        report(
            SCALING_TARGET_PUBLISHED,
            f"the target {policy} needs a queue, and the endpoint has no queue",
            why="without a backlog metric, the fleet would never change its size",
            fix="use InvocationsPerGpu or a utilization, or give the endpoint async_inference",
        )
    if target._COUNTS_ANSWERS and variant.asynchronous:
        report(
            SCALING_TARGET_PUBLISHED,
            f"the target {policy} counts requests, and the endpoint is asynchronous",
            why="SageMaker publishes no Invocations for asynchronous endpoints",
            fix="use BacklogPerInstance(requests=5)",
        )
    if target._PER == "GPU" and variant.instance.gpu is None:
        report(
            SCALING_TARGET_HARDWARE,
            f"the target {policy} is per GPU, and {variant.instance.name} has no GPU",
            why="without GPU metrics, the fleet would never change its size",
            fix="use CpuUtilization(percent=60), or an instance type with a GPU",
        )
