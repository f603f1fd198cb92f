"""An answer can be included in the notifications of a topic only if there is the topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_models.base.errors import Problem

RULE = "async-topics"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AsyncInferenceNotificationConfig.html"


def async_topics(included: Sequence[str], *, given: Sequence[str], where: str) -> Iterator[Problem]:
    """The problems with including answers in notifications.

    Args:
        included: The outcomes, "success" or "error", whose notifications hold the answer.
        given: The outcomes that have a topic.
        where: What the problems are reported for.
    """
    for outcome in sorted(set(included) - set(given)):
        yield Problem(
            what=f"include_inference_in names {outcome!r}, and there is no {outcome}_topic",
            where=where,
            expected="only outcomes with a topic",
            why="no notification is sent, so the answer would be in none",
            fix=f"give {outcome}_topic, or leave {outcome!r} out",
            rule=RULE,
        )
    for outcome in sorted({each for each in included if included.count(each) > 1}):
        yield Problem(
            what=f"include_inference_in names {outcome!r} {included.count(outcome)} times",
            where=where,
            expected="each outcome once",
            why="an answer is in a notification or it is not: naming the outcome again changes nothing",
            fix="name it once",
            rule=RULE,
        )
