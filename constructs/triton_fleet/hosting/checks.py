"""Checks of names, data capture and asynchronous inference."""

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


CONTENT_TYPES = Check(
    id="content-types",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CaptureContentTypeHeader.html",
)
"""Content types of captured data are valid in SageMaker."""

MOST_CONTENT_TYPES = 10
LONGEST_CONTENT_TYPE = 256
"""Characters of a type."""
_CONTENT_TYPE = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*/[a-zA-Z0-9](-*[a-zA-Z0-9.])*")


def content_types(types: Sequence[str], *, name: str, where: str) -> Iterator[Problem]:
    """Yield the problems with content types.

    Args:
        types: The types; SageMaker's pattern excludes those with a plus or an underscore.
        name: The argument's name.
        where: The place that the problems name.
    """
    for each in types:
        if len(each) > LONGEST_CONTENT_TYPE or not _CONTENT_TYPE.fullmatch(each):
            yield _content_types_problem(f"{name} contains {each[:60]!a}", where)
    if len(types) > MOST_CONTENT_TYPES:
        yield _content_types_problem(f"{name} has {len(types)} content types", where)


def _content_types_problem(what: str, where: str) -> Problem:
    return CONTENT_TYPES.problem(
        what=what,
        where=where,
        expected=f"at most {MOST_CONTENT_TYPES} types such as application/json, each of up to "
        f"{LONGEST_CONTENT_TYPE} letters, digits, hyphens and dots",
        why="SageMaker refuses the endpoint configuration",
        fix="remove it: other content types are stored in base64",
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
