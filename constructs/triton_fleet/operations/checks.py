"""Checks of alarms, dashboards and warm-ups."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem

# The ranges of the metrics.
ALARM_THRESHOLD = Check(
    id="alarm-threshold",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
)
"""A threshold is a value that its metric can exceed."""


def alarm_threshold(
    value: float | None, *, lowest: float, below: float | None, unit: str, where: str
) -> Iterator[Problem]:
    """The problem with this threshold.

    Args:
        value: The threshold; None if it is known only at deployment.
        lowest: The least that makes sense.
        below: The value that it must stay below; None if the metric has no bound.
        unit: Its unit.
        where: The place that the problem names.
    """
    if value is None or (value >= lowest and (below is None or value < below)):
        return
    expected = f"{lowest:g} {unit} or more" + ("" if below is None else f", and below {below:g} {unit}")
    yield ALARM_THRESHOLD.problem(
        what=f"the threshold is {value:g}",
        where=where,
        expected=expected,
        why="the alarm would always fire, or never",
        fix=f"set a threshold of {expected}",
    )


# A scalable target is registered for one variant of one endpoint.
SAME_VARIANT = Check(
    id="same-variant",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html",
)
"""Everything given for an endpoint's alarms or dashboard belongs to that endpoint."""


def same_variant(*, watched: str, given: str, what: str, where: str) -> Iterator[Problem]:
    """The problem with giving what belongs to another variant.

    Args:
        watched: Endpoint and variant that are watched.
        given: Endpoint and variant that the argument belongs to.
        what: A name for the argument.
        where: The place that the problem names.
    """
    if watched == given:
        return
    yield SAME_VARIANT.problem(
        what=f"{what} is of {given}, not of {watched}",
        where=where,
        expected=f"{what} of {watched}",
        why="its limits would be compared with the metrics of another variant",
        fix=f"use {what} of the same endpoint and variant, or omit it",
    )


HOURLY_PRICE = Check(id="hourly-price", source=FROM_ARGUMENTS)
"""A price is a finite number above 0."""


def hourly_price(usd: float | None, *, where: str) -> Iterator[Problem]:
    """The problem with what an instance is said to cost for an hour; None is no price, or none known yet."""
    if usd is None or (usd > 0 and math.isfinite(usd)):
        return
    yield HOURLY_PRICE.problem(
        what=f"the price is {usd:g}",
        where=where,
        expected="a finite number above 0, in USD per hour",
        why="every cost that is calculated from it would be wrong",
        fix="use AWS's price for the instance type in your region, or omit it",
    )


MONTHLY_LIMIT = Check(id="monthly-limit", source=FROM_ARGUMENTS)
"""A budget's limit is a finite number above 0."""

BUDGET_DESTINATION = Check(id="budget-destination", source=FROM_ARGUMENTS)
"""The warnings of a budget reach someone."""


def monthly_limit(usd: float | None, *, where: str) -> Iterator[Problem]:
    """The problem with the limit of a budget; None is no limit, or none known yet."""
    if usd is None or (usd > 0 and math.isfinite(usd)):
        return
    yield MONTHLY_LIMIT.problem(
        what=f"the limit is {usd:g}",
        where=where,
        expected="a finite number above 0, in USD per month",
        why="AWS refuses the budget",
        fix="give what the fleet may cost per month, or omit it",
    )


def budget_destination(*, given: bool, where: str) -> Iterator[Problem]:
    """The problem with a budget that has neither a topic nor an address."""
    if given:
        return
    yield BUDGET_DESTINATION.problem(
        what="a budget without a topic and without an address",
        where=where,
        expected="a topic, an address, or both",
        why="no one would get its warnings",
        fix="give alarm_email or alarm_topic, or remove the budget",
    )


EMAIL_ADDRESS = Check(
    id="email-address",
    source="2026-11-21: https://docs.aws.amazon.com/sns/latest/dg/sns-email-notifications.html",
)
"""Alarms go to a valid e-mail address."""

_EMAIL_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")


def email_address(address: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with an address; None if it is known only at deployment."""
    if address is None or _EMAIL_ADDRESS.fullmatch(address):
        return
    yield EMAIL_ADDRESS.problem(
        what=f"the address is {address[:60]!a}",
        where=where,
        expected="an e-mail address such as oncall@example.com",
        why="SNS refuses the subscription, and no one would get an alarm",
        fix="use the address of the person on call, or of a mailing list",
    )


# A function runs for 15 minutes at most, and so does a warm-up.
WARM_UP_INTERVAL = Check(
    id="warm-up-interval",
    source="2026-11-21: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html",
)
"""A warm-up sends its requests often enough for a canary, without loading the fleet."""

SHORTEST_WARM_UP_INTERVAL = 1
"""Seconds."""
LONGEST_WARM_UP_INTERVAL = 300
"""Seconds: three rounds in the run of a function."""


def warm_up_interval(seconds: float | None, *, where: str) -> Iterator[Problem]:
    """The problem with sending the requests at this interval; None is a time known only at deployment."""
    if seconds is not None and SHORTEST_WARM_UP_INTERVAL <= seconds <= LONGEST_WARM_UP_INTERVAL:
        return
    given = "known only when the stack is deployed" if seconds is None else f"{seconds:g} s"
    yield WARM_UP_INTERVAL.problem(
        what=f"every is {given}",
        where=where,
        expected=f"{SHORTEST_WARM_UP_INTERVAL} to {LONGEST_WARM_UP_INTERVAL} s",
        why="shorter intervals load the fleet, and longer ones hardly reach a canary",
        fix="keep the default of 15 seconds",
    )


# Input, at most 8192 characters.
WARM_UP_REQUESTS = Check(
    id="warm-up-requests",
    source="2026-11-21: https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html",
)
"""The requests of a warm-up are valid, small, and one per model."""

LONGEST_INPUT = 8192
"""Characters that an EventBridge rule passes to its target."""
_JSON = "application/json"


def warm_up_models(models: Sequence[str | None], *, where: str) -> Iterator[Problem]:
    """The problems with warming up these models; None if it is known only at deployment."""
    if not models:
        yield WARM_UP_REQUESTS.problem(
            what="there is no request",
            where=where,
            expected="a request for at least one model",
            why="the alarms would watch a new fleet that has no model loaded",
            fix="add a WarmUpRequest for each model that must not be slow",
        )
    for name in sorted({each for each in models if each is not None and models.count(each) > 1}):
        yield WARM_UP_REQUESTS.problem(
            what=f"{models.count(name)} requests for the model {name!r}",
            where=where,
            expected="one request per model",
            why="the first request loads the model",
            fix="keep one of them",
        )


def warm_up_request(
    *, model: str | None, body: str | None, content_type: str | None, where: str
) -> Iterator[Problem]:
    """Yield the problems with one request; None is a string that is known only at deployment."""
    for name, value in {"model": model, "body": body, "content_type": content_type}.items():
        if value is None:
            yield WARM_UP_REQUESTS.problem(
                what=f"{name} is known only when the stack is deployed",
                where=where,
                expected="a literal string",
                why="its length is checked at synthesis",
                fix="use the literal value",
            )
        elif not value:
            yield WARM_UP_REQUESTS.problem(
                what=f"{name} is empty",
                where=where,
                expected="the name of a model in the repository, and a valid request",
                why="SageMaker would refuse every request",
                fix=f"set {name}",
            )
    if body and content_type and is_json(content_type):
        yield from _not_json(body, where)


def is_json(content_type: str) -> bool:
    """Return whether a body of this type is JSON."""
    return content_type.partition(";")[0].strip().lower() == _JSON


def warm_up_size(characters: int, *, where: str) -> Iterator[Problem]:
    """The problem with requests that need so many characters together."""
    if characters <= LONGEST_INPUT:
        return
    yield WARM_UP_REQUESTS.problem(
        what=f"the requests have {characters} characters together, as JSON",
        where=where,
        expected=f"at most {LONGEST_INPUT}",
        why="an EventBridge rule, which carries them, passes no more",
        fix="send the smallest input that each model accepts, such as a batch of one, or split the models "
        "between two warm-ups",
    )


def _not_json(body: str, where: str) -> Iterator[Problem]:
    try:
        json.loads(body)
    except ValueError as error:
        yield WARM_UP_REQUESTS.problem(
            what=f"the body is not JSON: {error}",
            where=where,
            expected="a JSON document, as content_type says",
            why="the model would load, but every request would fail",
            fix="create it with json.dumps(), or set another content_type",
        )
