"""What SageMaker does not do for asynchronous endpoints, and what only those have."""

from __future__ import annotations

from collections.abc import Iterator

from triton_models.base.errors import Problem

RULE = "async-excludes"
METRIC_RULE = "scaling-target-published"
# Read on 2026-11-21: the features, and which metrics are published.
SOURCES = (
    "https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html",
    "https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html",
)


def async_features(*, variants: int, has_shadow: bool, has_capture: bool, where: str) -> Iterator[Problem]:
    """The problems with what an asynchronous endpoint is asked for besides.

    Args:
        variants: The number of its production variants.
        has_shadow: Whether it has a shadow variant.
        has_capture: Whether requests and answers are captured.
        where: What the problems are reported for.
    """
    for asked, argument, why, fix in (
        (
            variants > 1,
            f"{variants} variants",
            "an asynchronous endpoint has one production variant only",
            "give each its own endpoint",
        ),
        (
            has_shadow,
            "shadow_variant",
            "SageMaker copies no requests of an asynchronous endpoint to a shadow variant",
            "leave shadow_variant out",
        ),
        (
            has_capture,
            "data_capture",
            "SageMaker captures no data of asynchronous endpoints",
            "leave data_capture out: requests and answers are in S3 anyway",
        ),
    ):
        if asked:
            yield Problem(
                what=f"{argument} and async_inference are given",
                where=where,
                expected="only what an asynchronous endpoint can do",
                why=why,
                fix=fix,
                rule=RULE,
            )


def target_published(
    policy: str, *, of_queue: bool, of_answers: bool, has_queue: bool, where: str
) -> Problem | None:
    """The problem with a target whose metric the endpoint does not publish.

    Args:
        policy: The target's name.
        of_queue: Whether its metric is of the queue of an asynchronous endpoint.
        of_answers: Whether its metric counts requests as only other endpoints publish them.
        has_queue: Whether the endpoint is asynchronous.
        where: What the problem is reported for.
    """
    if of_queue and not has_queue:
        return Problem(
            what=f"the target {policy} is of a queue, and the endpoint has no queue",
            where=where,
            expected="an endpoint with async_inference",
            why="no backlog is published otherwise, so the fleet would never change its size",
            fix="use InvocationsPerGpu or a utilisation, or give the endpoint async_inference",
            rule=METRIC_RULE,
        )
    if of_answers and has_queue:
        return Problem(
            what=f"the target {policy} counts requests, and the endpoint is asynchronous",
            where=where,
            expected="BacklogPerInstance, or a utilisation",
            why="SageMaker publishes no Invocations for asynchronous endpoints: the fleet would never change "
            "its size",
            fix="use BacklogPerInstance(requests=5)",
            rule=METRIC_RULE,
        )
    return None
