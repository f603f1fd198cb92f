"""What a new fleet is warmed up with: requests that can be sent, one for each model, small enough."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from triton_models.base.errors import Problem

RULE = "warm-up-requests"
# Read on 2026-11-21: Input, at most 8192 characters.
SOURCE = "https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_Target.html"

LONGEST_INPUT = 8192
"""Characters that an EventBridge rule passes to its target."""

_JSON = "application/json"


def warm_up_models(models: Sequence[str | None], *, where: str) -> Iterator[Problem]:
    """The problems with warming up these models; None is a name that is known only at deployment."""
    if not models:
        yield Problem(
            what="there is no request",
            where=where,
            expected="a request for at least one model",
            why="a new fleet would be watched for minutes without a model",
            fix="give a WarmUpRequest for each model that must not be slow",
            rule=RULE,
        )
    for name in sorted({each for each in models if each is not None and models.count(each) > 1}):
        yield Problem(
            what=f"{models.count(name)} requests for the model {name!r}",
            where=where,
            expected="one request for each model",
            why="the first request loads the model, so a second one warms up nothing",
            fix="keep one of them",
            rule=RULE,
        )


def warm_up_request(
    *, model: str | None, body: str | None, content_type: str | None, where: str
) -> Iterator[Problem]:
    """The problems with one request; None is a text that is known only at deployment."""
    for name, value in {"model": model, "body": body, "content_type": content_type}.items():
        if value is None:
            yield Problem(
                what=f"{name} is known only when the stack is deployed",
                where=where,
                expected="a literal string",
                why="nothing could be checked of it, and how long it will be decides whether it can be sent",
                fix="give the text itself",
                rule=RULE,
            )
        elif not value:
            yield Problem(
                what=f"{name} is empty",
                where=where,
                expected="the name of a model in the repository, and a request as an application sends it",
                why="SageMaker would refuse every request",
                fix=f"give the {name}",
                rule=RULE,
            )
    if body and content_type and content_type.partition(";")[0].strip().lower() == _JSON:
        yield from _not_json(body, where)


def warm_up_size(characters: int, *, where: str) -> Problem | None:
    """The problem with requests that need so many characters together."""
    if characters <= LONGEST_INPUT:
        return None
    return Problem(
        what=f"the requests have {characters} characters together, as JSON",
        where=where,
        expected=f"at most {LONGEST_INPUT}",
        why="they travel in the EventBridge rule, which passes no more",
        fix="send the smallest input that each model takes, such as a batch of one: any request loads the "
        "model, which is what takes long. Or split the models over two WarmUps",
        rule=RULE,
    )


def _not_json(body: str, where: str) -> Iterator[Problem]:
    try:
        json.loads(body)
    except ValueError as error:
        yield Problem(
            what=f"the body is not JSON: {error}",
            where=where,
            expected="a JSON document, as content_type says",
            why="the model would be loaded, but every request would fail and be logged as an error",
            fix="make it with json.dumps(), or name its content_type",
            rule=RULE,
        )
