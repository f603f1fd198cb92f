"""Checks of alarms, dashboards and warm-ups."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from triton_models.base.checks import FROM_ARGUMENTS, Check, Report

# The ranges of the metrics.
ALARM_THRESHOLD = Check(
    id="alarm-threshold",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html",
)
"""A threshold is a value that its metric can exceed."""


def alarm_threshold(
    report: Report, value: float | None, *, lowest: float, below: float | None, unit: str
) -> None:
    """Report problems with this threshold."""
    if value is None or (value >= lowest and (below is None or value < below)):
        return
    expected = f"{lowest:g} {unit} or more" + ("" if below is None else f", and below {below:g} {unit}")
    report(
        ALARM_THRESHOLD,
        f"the threshold is {value:g}",
        fix=f"set a threshold of {expected}",
        why="the alarm would always fire, or never",
    )


# A scalable target is registered for one variant of one endpoint.
SAME_VARIANT = Check(
    id="same-variant",
    source="2026-11-21: https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html",
)
"""Everything given for an endpoint's alarms or dashboard belongs to that endpoint."""


def same_variant(report: Report, *, watched: str, given: str, what: str) -> None:
    """Report problems with giving what belongs to another variant."""
    if watched == given:
        return
    report(
        SAME_VARIANT,
        f"{what} is of {given}, not of {watched}",
        fix=f"use {what} of the same endpoint and variant, or omit it",
        why="its limits would be compared with the metrics of another variant",
    )


HOURLY_PRICE = Check(id="hourly-price", source=FROM_ARGUMENTS)
"""A price is a finite number above 0."""


def hourly_price(report: Report, usd: float | None) -> None:
    """Report problems with the price of an instance per hour; None is not given, or not known yet."""
    if usd is None or (usd > 0 and math.isfinite(usd)):
        return
    report(
        HOURLY_PRICE,
        f"the price is {usd:g}",
        fix="use a finite number above 0, such as AWS's price for the type in your region, or omit it",
        why="every cost that is calculated from it would be wrong",
    )


MONTHLY_LIMIT = Check(id="monthly-limit", source=FROM_ARGUMENTS)
"""A budget's limit is a finite number above 0."""

BUDGET_DESTINATION = Check(id="budget-destination", source=FROM_ARGUMENTS)
"""The warnings of a budget reach someone."""


def monthly_limit(report: Report, usd: float | None) -> None:
    """Report problems with the limit of a budget; None is no limit, or none known yet."""
    if usd is None or (usd > 0 and math.isfinite(usd)):
        return
    report(
        MONTHLY_LIMIT,
        f"the limit is {usd:g}",
        fix="give what the fleet may cost per month in USD, a finite number above 0, or omit it",
        why="AWS refuses the budget",
    )


def budget_destination(report: Report, *, given: bool) -> None:
    """Report problems with a budget that has neither a topic nor an address."""
    if given:
        return
    report(
        BUDGET_DESTINATION,
        "a budget without a topic and without an address",
        fix="give alarm_email or alarm_topic, or remove the budget",
        why="no one would get its warnings",
    )


EMAIL_ADDRESS = Check(
    id="email-address",
    source="2026-11-21: https://docs.aws.amazon.com/sns/latest/dg/sns-email-notifications.html",
)
"""Alarms go to a valid e-mail address."""

_EMAIL_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")


def email_address(report: Report, address: str | None) -> None:
    """Report problems with an address; None if it is known only at deployment."""
    if address is None or _EMAIL_ADDRESS.fullmatch(address):
        return
    report(
        EMAIL_ADDRESS,
        f"the address is {address[:60]!a}",
        fix="use an address such as oncall@example.com",
        why="SNS refuses the subscription, and no one would get an alarm",
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


def warm_up_interval(report: Report, seconds: float | None) -> None:
    """Report problems with sending the requests at this interval; None is a time known only at deployment."""
    if seconds is not None and SHORTEST_WARM_UP_INTERVAL <= seconds <= LONGEST_WARM_UP_INTERVAL:
        return
    given = "known only when the stack is deployed" if seconds is None else f"{seconds:g} s"
    report(
        WARM_UP_INTERVAL,
        f"every is {given}",
        fix=f"use {SHORTEST_WARM_UP_INTERVAL} to {LONGEST_WARM_UP_INTERVAL} s; the default is 15",
        why="shorter intervals load the fleet, and longer ones hardly reach a canary",
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


def warm_up_models(report: Report, models: Sequence[str | None]) -> None:
    """Report problems with warming up these models; None if it is known only at deployment."""
    if not models:
        report(
            WARM_UP_REQUESTS,
            "there is no request",
            fix="add a WarmUpRequest for each model that must not be slow",
            why="the alarms would watch a new fleet that has no model loaded",
        )
    for name in sorted({each for each in models if each is not None and models.count(each) > 1}):
        report(
            WARM_UP_REQUESTS,
            f"{models.count(name)} requests for the model {name!r}",
            fix="keep one of them",
            why="the first request loads the model",
        )


def warm_up_request(report: Report, *, model: str | None, body: str | None, content_type: str | None) -> None:
    """Report problems with one request; None is a string that is known only at deployment."""
    for name, value in {"model": model, "body": body, "content_type": content_type}.items():
        if value is None:
            report(
                WARM_UP_REQUESTS,
                f"{name} is known only when the stack is deployed",
                fix="use the literal value",
                why="its length is checked at synthesis",
            )
        elif not value:
            report(
                WARM_UP_REQUESTS,
                f"{name} is empty",
                fix=f"set {name}",
                why="SageMaker would refuse every request",
            )
    if body and content_type and is_json(content_type):
        _not_json(report, body)


def is_json(content_type: str) -> bool:
    """Return whether a body of this type is JSON."""
    return content_type.partition(";")[0].strip().lower() == _JSON


def warm_up_size(report: Report, characters: int) -> None:
    """Report problems with requests that need so many characters together."""
    if characters <= LONGEST_INPUT:
        return
    report(
        WARM_UP_REQUESTS,
        f"the requests have {characters} characters together, as JSON",
        fix=f"use at most {LONGEST_INPUT}: send smaller inputs, or split the models between two warm-ups",
        why="an EventBridge rule, which carries them, passes no more",
    )


def _not_json(report: Report, body: str) -> None:
    try:
        json.loads(body)
    except ValueError as error:
        report(
            WARM_UP_REQUESTS,
            f"the body is not JSON: {error}",
            fix="create it with json.dumps(), or set another content_type",
            why="the model would load, but every request would fail",
        )
