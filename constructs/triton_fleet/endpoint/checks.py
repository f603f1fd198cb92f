"""Checks of the arguments of endpoints, and of a single-model endpoint's variants."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from triton_models.base.checks import Check
from triton_models.base.errors import Problem
from triton_models.base.suggest import some_of

CONTAINER_ENVIRONMENT = Check(
    id="container-environment",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html",
)
"""The container's environment sets nothing twice, and has 32 KB at most."""

_LARGEST_ENVIRONMENT = 32 * 1024


def container_environment(
    server: Mapping[str, str], extra: Mapping[str, str | None], *, where: str
) -> Iterator[Problem]:
    """Yield the problems with adding variables to those of the server's options.

    Args:
        server: The variables of the server's options.
        extra: The variables to add; None for a value that is known only at deployment.
        where: The place that the problems name.
    """
    for name in sorted(set(server) & set(extra)):
        yield CONTAINER_ENVIRONMENT.problem(
            what=f"{name} is set to {extra[name]!r} here and to {server[name]!r} by the server's options",
            where=where,
            expected="a variable that TritonServer does not set",
            why="one of the two values would be lost",
            fix="use the option of TritonServer instead",
        )
    variables = {**server, **extra}
    size = sum(len(name.encode()) + len((value or "").encode()) for name, value in variables.items())
    if size > _LARGEST_ENVIRONMENT:
        yield CONTAINER_ENVIRONMENT.problem(
            what=f"the environment has {size} bytes",
            where=where,
            expected=f"at most {_LARGEST_ENVIRONMENT} bytes, including those of the server's options",
            why="SageMaker refuses the model",
            fix="put long values into a file of the artifact",
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


def metric_interval(seconds: float | None, *, where: str) -> Iterator[Problem]:
    """Yield a problem with the interval of metrics; None is SageMaker's default of a minute."""
    if seconds is None or seconds in METRIC_INTERVALS:
        return
    yield METRIC_INTERVAL.problem(
        what=f"the interval of metrics is {seconds:g} s",
        where=where,
        expected=f"{', '.join(map(str, METRIC_INTERVALS[:-1]))} or {METRIC_INTERVALS[-1]} s",
        why="alarms and auto scaling read metrics every minute",
        fix="use one of these, or omit it for a minute",
    )


# SageMaker pins a session to an instance only if the container answers with a session id, and no branch of
# Triton's front end does (src/sagemaker_server.cc).
SEQUENCES_SPREAD = Check(
    id="triton-fleet:sequences-spread",
    source=(
        "2026-11-22: https://docs.aws.amazon.com/sagemaker/latest/dg/stateful-sessions.html"
        " https://github.com/triton-inference-server/server/blob/main/src/sagemaker_server.cc"
    ),
)
"""The requests of a sequence reach the instance that has its state."""


def sequences(models: Sequence[str], *, instances: int | None, setting: str, where: str) -> Iterator[Problem]:
    """Yield the warning about models with sequences on several instances.

    Args:
        models: The models whose declarations have sequence batching.
        instances: The most instances; None if that is known only at deployment.
        setting: The setting that limits it to one instance.
        where: The place that the warning names.
    """
    if not models or (instances is not None and instances <= 1):
        return
    yield SEQUENCES_SPREAD.problem(
        what=f"sequence batching in {some_of(models)}, on several instances",
        where=where,
        expected="one instance",
        why="nothing sends the requests of a sequence to the instance that has its state",
        fix=f"serve these models from one instance with {setting}, or from another endpoint",
    )


SINGLE_MODEL_ARTIFACT = Check(
    id="single-model-artifact",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html",
)
"""A single-model endpoint serves one artifact, by its name in the repository."""

_ARTIFACT = re.compile(r"[^/\s*]+\.tar\.gz")


def single_model_artifact(artifact: str | None, *, where: str) -> Iterator[Problem]:
    """Yield a problem with the name of an artifact; None if it is known only at deployment."""
    if artifact is None or _ARTIFACT.fullmatch(artifact):
        return
    yield SINGLE_MODEL_ARTIFACT.problem(
        what=f"the artifact is {artifact!r}",
        where=where,
        expected="a file name such as resnet50-0123456789ab.tar.gz",
        why="SageMaker reads one archive below the prefix, whose name ends in .tar.gz",
        fix="use the name that `fleet publish` printed, without the prefix",
    )


VARIANT_SET = Check(
    id="variant-set",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html",
)
"""The variants of an endpoint have different names, and at least one of them gets requests."""


def variant_set(
    names: Sequence[str], weights: Sequence[float | None], *, has_shadow: bool, where: str
) -> Iterator[Problem]:
    """Yield the problems with serving these production variants together.

    Args:
        names: The variants' names, the shadow's last if there is one.
        weights: The weights of the production variants; None if known only at deployment.
        has_shadow: The last name is the shadow's.
        where: The place that the problems name.
    """
    if not weights:
        yield VARIANT_SET.problem(
            what="the endpoint has no variant",
            where=where,
            expected="1 to 10",
            fix="add a Variant with an artifact",
        )
    for name in sorted({each for each in names if names.count(each) > 1}):
        yield VARIANT_SET.problem(
            what=f"{names.count(name)} variants are called {name!r}",
            where=where,
            expected="a different name for each",
            why="metrics, scaling and invocations identify a variant by its name",
            fix="name them, for example name='Current' and name='Candidate'",
        )
    if weights and all(weight == 0 for weight in weights):
        yield VARIANT_SET.problem(
            what="every variant has weight 0",
            where=where,
            expected="at least one weight above 0",
            why="no variant would get requests that do not name one",
            fix="set the weight of the serving variant to 1",
        )
    if has_shadow and len(weights) > 1:
        yield VARIANT_SET.problem(
            what=f"a shadow variant next to {len(weights)} production variants",
            where=where,
            expected="one production variant",
            why="SageMaker copies the requests of one variant only, to one other",
            fix="remove the shadow, or all variants but one",
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


def async_features(*, variants: int, has_shadow: bool, has_capture: bool, where: str) -> Iterator[Problem]:
    """Yield the problems with further features of an asynchronous endpoint.

    Args:
        variants: The number of its production variants.
        has_shadow: It has a shadow variant.
        has_capture: Requests and answers are captured.
        where: The place that the problems name.
    """
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
            yield ASYNC_EXCLUDES.problem(
                what=f"{argument} and async_inference are given",
                where=where,
                expected="only features of asynchronous endpoints",
                why=why,
                fix=fix,
            )
