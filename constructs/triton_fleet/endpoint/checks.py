"""Checks of the arguments of endpoints, and of a single-model endpoint's variants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from triton_models.base.checks import Check, Report

CONTAINER_ENVIRONMENT = Check(
    id="container-environment",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html",
)
"""The container's environment sets nothing twice, and has 32 KB at most."""

_LARGEST_ENVIRONMENT = 32 * 1024


def container_environment(report: Report, server: Mapping[str, str], extra: Mapping[str, str | None]) -> None:
    """Report problems with adding variables to those of the server's options."""
    for name in sorted(set(server) & set(extra)):
        report(
            CONTAINER_ENVIRONMENT,
            f"{name} is set to {extra[name]!r} here and to {server[name]!r} by the server's options",
            fix="use the option of TritonServer instead",
            why="one of the two values would be lost",
        )
    variables = {**server, **extra}
    size = sum(len(name.encode()) + len((value or "").encode()) for name, value in variables.items())
    if size > _LARGEST_ENVIRONMENT:
        report(
            CONTAINER_ENVIRONMENT,
            f"the environment has {size} bytes",
            fix=f"put long values into a file of the artifact: at most {_LARGEST_ENVIRONMENT} bytes in all",
            why="SageMaker refuses the model",
        )


# The intervals.
METRIC_INTERVAL = Check(
    id="metric-interval",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_MetricsConfig.html",
)
"""Metrics are published at an interval that SageMaker supports, and as often as alarms read them."""

METRIC_INTERVALS = (10, 30, 60)
"""Seconds. SageMaker also accepts 120, 180, 240 and 300. With gaps of minutes, the alarms and targets here,
which read every minute, would consider an instance dead."""


def metric_interval(report: Report, seconds: float | None) -> None:
    """Report problems with the interval of metrics; None is SageMaker's default of a minute."""
    if seconds is None or seconds in METRIC_INTERVALS:
        return
    report(
        METRIC_INTERVAL,
        f"the interval of metrics is {seconds:g} s",
        fix=f"use {', '.join(map(str, METRIC_INTERVALS[:-1]))} or {METRIC_INTERVALS[-1]} s",
        why="alarms and auto scaling read metrics every minute",
    )


SINGLE_MODEL_ARTIFACT = Check(
    id="single-model-artifact",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html",
)
"""A single-model endpoint serves one artifact, by its name in the repository."""

_ARTIFACT = re.compile(r"[^/\s*]+\.tar\.gz")


def single_model_artifact(report: Report, artifact: str | None) -> None:
    """Report problems with the name of an artifact; None if it is known only at deployment."""
    if artifact is None or _ARTIFACT.fullmatch(artifact):
        return
    report(
        SINGLE_MODEL_ARTIFACT,
        f"the artifact is {artifact!r}",
        fix="use the name that `fleet publish` printed, such as resnet50-0123456789ab.tar.gz",
        why="SageMaker reads one archive below the prefix, whose name ends in .tar.gz",
    )


VARIANT_SET = Check(
    id="variant-set",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html",
)
"""The variants of an endpoint have different names, and at least one of them gets requests."""


def variant_set(
    report: Report, names: Sequence[str], weights: Sequence[float | None], *, has_shadow: bool
) -> None:
    """Report problems with serving these production variants together."""
    if not weights:
        report(VARIANT_SET, "the endpoint has no variant", fix="add a Variant with an artifact")
    for name in sorted({each for each in names if names.count(each) > 1}):
        report(
            VARIANT_SET,
            f"{names.count(name)} variants are called {name!r}",
            fix="name them, for example name='Current' and name='Candidate'",
            why="metrics, scaling and invocations identify a variant by its name",
        )
    if weights and all(weight == 0 for weight in weights):
        report(
            VARIANT_SET,
            "every variant has weight 0",
            fix="set the weight of the serving variant to 1",
            why="no variant would get requests that do not name one",
        )
    if has_shadow and len(weights) > 1:
        report(
            VARIANT_SET,
            f"a shadow variant next to {len(weights)} production variants",
            fix="remove the shadow, or all variants but one",
            why="SageMaker copies the requests of one variant only, to one other",
        )


# The features, and which metrics are published.
ASYNC_EXCLUDES = Check(
    id="async-excludes",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html"
        " https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html"
    ),
)
"""Features that SageMaker does not have for asynchronous endpoints."""


def async_features(report: Report, *, variants: int, has_shadow: bool, has_capture: bool) -> None:
    """Report problems with further features of an asynchronous endpoint."""
    for asked, argument, why, fix in (
        (
            variants > 1,
            f"{variants} variants",
            "an asynchronous endpoint has one production variant only",
            "give each variant its own endpoint",
        ),
        (
            has_shadow,
            "shadow_variant",
            "SageMaker copies no requests of an asynchronous endpoint to a shadow variant",
            "remove shadow_variant",
        ),
        (
            has_capture,
            "data_capture",
            "SageMaker captures no data of asynchronous endpoints",
            "remove data_capture: requests and answers are in S3 anyway",
        ),
    ):
        if asked:
            report(ASYNC_EXCLUDES, f"{argument} and async_inference are given", fix=fix, why=why)
