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
"""A name is one that SageMaker takes for an endpoint or a variant."""

# SageMaker's pattern counts no hyphens; the length is a limit of its own.
_RESOURCE_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")
LONGEST_RESOURCE_NAME = 63
"""Characters of a name, hyphens among them."""


def resource_name(name: str | None, *, what: str, where: str) -> Iterator[Problem]:
    """The problem with a name.

    Args:
        name: The name; None is one not known yet, or none at all.
        what: What is named, such as "the endpoint".
        where: What the problem is reported for.
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
        why="SageMaker refuses the name, after everything before it has been deployed",
        fix=f"shorten it to {LONGEST_RESOURCE_NAME} characters"
        if too_long
        else "begin and end with a letter or a digit, and have only these and hyphens between",
    )


CONTENT_TYPES = Check(
    id="content-types",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CaptureContentTypeHeader.html",
)
"""Content types of captured data are such that SageMaker takes them."""

MOST_CONTENT_TYPES = 10
LONGEST_CONTENT_TYPE = 256
"""Characters of a type."""
_CONTENT_TYPE = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*/[a-zA-Z0-9](-*[a-zA-Z0-9.])*")


def content_types(types: Sequence[str], *, name: str, where: str) -> Iterator[Problem]:
    """The problems with content types.

    Args:
        types: What was given; SageMaker's pattern leaves out types with a plus or an underscore.
        name: The argument's name.
        where: What the problems are reported for.
    """
    for each in types:
        if len(each) > LONGEST_CONTENT_TYPE or not _CONTENT_TYPE.fullmatch(each):
            yield _content_types_problem(f"{name} holds {each[:60]!a}", where)
    if len(types) > MOST_CONTENT_TYPES:
        yield _content_types_problem(f"{name} holds {len(types)} content types", where)


def _content_types_problem(what: str, where: str) -> Problem:
    return CONTENT_TYPES.problem(
        what=what,
        where=where,
        expected=f"at most {MOST_CONTENT_TYPES} types such as application/json, each of up to "
        f"{LONGEST_CONTENT_TYPE} letters, digits, hyphens and dots",
        why="SageMaker refuses the endpoint configuration",
        fix="leave it out: what is not named is kept in base64",
    )


ASYNC_TOPICS = Check(
    id="async-topics",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AsyncInferenceNotificationConfig.html",
)
"""An answer can be included in the notifications of a topic only if there is the topic."""


def async_topics(included: Sequence[str], *, given: Sequence[str], where: str) -> Iterator[Problem]:
    """The problems with including answers in notifications.

    Args:
        included: The outcomes, "success" or "error", whose notifications hold the answer.
        given: The outcomes that have a topic.
        where: What the problems are reported for.
    """
    for outcome in sorted(set(included) - set(given)):
        yield ASYNC_TOPICS.problem(
            what=f"include_inference_in names {outcome!r}, and there is no {outcome}_topic",
            where=where,
            expected="only outcomes with a topic",
            why="no notification is sent, so the answer would be in none",
            fix=f"give {outcome}_topic, or leave {outcome!r} out",
        )
    for outcome in sorted({each for each in included if included.count(each) > 1}):
        yield ASYNC_TOPICS.problem(
            what=f"include_inference_in names {outcome!r} {included.count(outcome)} times",
            where=where,
            expected="each outcome once",
            why="naming the outcome again changes nothing",
            fix="name it once",
        )
