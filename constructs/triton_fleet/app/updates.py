"""The checks of updates: the strategy, its waits, and the thresholds that roll one back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from triton_fleet.app.config import ALL_AT_ONCE, BY_PART, OFF, REPLACE, STRATEGIES, FleetConfig
from triton_fleet.arguments.checks import number_range
from triton_fleet.hosting.deployment import Deployment
from triton_fleet.hosting.deployment_checks import DEPLOYMENT_PORTION
from triton_fleet.operations.checks import alarm_threshold, warm_up_request
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean

UNKNOWN_DEPLOYMENT = Check(id="unknown-deployment", source=FROM_ARGUMENTS)
DEPLOYMENT_SIZE = Check(id="deployment-size", source=FROM_ARGUMENTS)
WARM_UP_WITHOUT_WAIT = Check(id="warm-up-without-wait", source=FROM_ARGUMENTS)


_LONGEST_WAIT_MINUTES = 60


def update_problems(config: FleetConfig, *, where: Callable[[str], str]) -> Iterator[Problem]:
    """Yield the problems of the configuration of updates.

    Args:
        config: The configuration.
        where: Says where a key is.
    """
    wrong_wait = list(
        number_range(
            config.deployment_wait_minutes,
            least=0,
            most=_LONGEST_WAIT_MINUTES,
            name="deployment_wait_minutes",
            where=where("deployment_wait_minutes"),
        )
    )
    yield from wrong_wait
    if config.deployment not in STRATEGIES:
        yield from _unknown(config.deployment, where=where("deployment"))
    elif config.deployment not in BY_PART and config.deployment_size is not None:
        yield from _size_of_all(config.deployment, where=where("deployment_size"))
    elif not wrong_wait and isinstance(strategy := config.update_strategy, Deployment):
        for problem in strategy._problems(where="", capacity=config.min_capacity):
            key = "deployment_size" if problem.rule == DEPLOYMENT_PORTION.id else "deployment_wait_minutes"
            yield replace(problem, where=where(key))
    for key in ("server_error_percent", "model_error_percent"):
        yield from alarm_threshold(getattr(config, key), lowest=0, below=100, unit="%", where=where(key))
    yield from alarm_threshold(
        config.minimum_requests,
        lowest=1,
        below=None,
        unit="requests per minute",
        where=where("minimum_requests"),
    )
    yield from alarm_threshold(
        config.latency_p99_ms, lowest=1, below=None, unit="ms", where=where("latency_p99_ms")
    )
    given = {} if isinstance(config.warm_up, str) else config.warm_up
    requests = {model: body for model, body in given.items() if body != OFF}
    for model, body in requests.items():
        yield from warm_up_request(
            model=model, body=body, content_type="application/json", where=where(f"{model!r} in warm_up")
        )
    if requests and not config.deployment_wait_minutes and config.deployment != REPLACE:
        yield from _never_warm(where=where("warm_up"))


def _unknown(given: str, *, where: str) -> Iterator[Problem]:
    yield UNKNOWN_DEPLOYMENT.problem(
        what=f"deployment is {given!r}",
        where=where,
        expected=f"one of {', '.join(STRATEGIES)}",
        why="SageMaker has no other way to update an endpoint",
        fix=did_you_mean(given, STRATEGIES, otherwise=f"use {ALL_AT_ONCE}"),
    )


def _size_of_all(given: str, *, where: str) -> Iterator[Problem]:
    yield DEPLOYMENT_SIZE.problem(
        what=f"deployment_size with the deployment {given}",
        where=where,
        expected=f"no size, or one of {', '.join(BY_PART)}",
        why="the size would be ignored: all instances change at once",
        fix="remove deployment_size, or choose a strategy that divides the fleet",
    )


def _never_warm(*, where: str) -> Iterator[Problem]:
    yield WARM_UP_WITHOUT_WAIT.problem(
        what="warm_up with a deployment_wait_minutes of 0",
        where=where,
        expected="a wait of a minute or more",
        why="models are loaded while a new fleet is watched, and it never is",
        fix="raise deployment_wait_minutes, or remove warm_up",
    )
