"""Checks of names and asynchronous inference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from triton_models.base.checks import Check
from triton_models.base.errors import Problem

# Names of variants have the same pattern and length.
RESOURCE_NAME = Check(
    id="resource-name",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html",
)
"""Names of endpoints and variants are valid in SageMaker."""
# SageMaker's pattern does not limit the hyphens; the length is a separate limit.
_RESOURCE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
LONGEST_RESOURCE_NAME = 63
"""Characters of a name, including hyphens."""


def resource_name(name: str | None, *, what: str, where: str) -> Iterator[Problem]:
    """Yield the problem with a name.

    Args:
        name: The name; None if it is not given, or known only at deployment.
        what: The resource, such as "the endpoint".
        where: The place that the problem names.
    """
    if name is None:
        return
    too_long = len(name) > LONGEST_RESOURCE_NAME
    if _RESOURCE_NAME.fullmatch(name) and not too_long:
        return
    yield RESOURCE_NAME.problem(
        what=f"{what} is named {name[:80]!a}" + f", with {len(name)} characters" * too_long,
        where=where,
        expected=f"1 to {LONGEST_RESOURCE_NAME} letters, digits and hyphens, such as search-g5",
        why="SageMaker refuses the name, and the deployment fails part-way through",
        fix=f"shorten it to {LONGEST_RESOURCE_NAME} characters"
        if too_long
        else "start and end with a letter or a digit, with only letters, digits and hyphens between",
    )


ASYNC_TOPICS = Check(
    id="async-topics",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AsyncInferenceNotificationConfig.html",
)
"""Answers are included only in notifications of an existing topic."""


def async_topics(included: Sequence[str], *, given: Sequence[str], where: str) -> Iterator[Problem]:
    """Yield the problems with including answers in notifications.

    Args:
        included: The outcomes, "success" or "error", whose notifications include the answer.
        given: The outcomes that have a topic.
        where: The place that the problems name.
    """
    for outcome in sorted(set(included) - set(given)):
        yield ASYNC_TOPICS.problem(
            what=f"include_inference_in names {outcome!r}, and there is no {outcome}_topic",
            where=where,
            expected="only outcomes with a topic",
            why="without a topic, no notification is sent",
            fix=f"add {outcome}_topic, or remove {outcome!r}",
        )
    for outcome in sorted({each for each in included if included.count(each) > 1}):
        yield ASYNC_TOPICS.problem(
            what=f"include_inference_in names {outcome!r} {included.count(outcome)} times",
            where=where,
            expected="each outcome once",
            why="",
            fix="keep one of them",
        )
