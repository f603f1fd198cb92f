"""A key or a topic is named by its ARN, and is in the region of what uses it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from triton_models.base.errors import Problem

KEY_RULE = "key-arn"
TOPIC_RULE = "topic-arn"
# Read on 2026-11-22.
SOURCES = (
    "https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html",
    "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Notify_Users_Alarm_Changes.html",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    """A kind of resource that is used in its own region only.

    Attributes:
        name: Its name in a sentence.
        service: The service in its ARN.
        resource: A pattern of the last part of its ARN.
        example: An example of that part.
        why: Why the ARN and the region matter.
        fix: What to do about a string that is no such ARN.
        rule: The rule's id.
    """

    name: str
    service: str
    resource: str
    example: str
    why: str
    fix: str
    rule: str


_KEY = _Resource(
    name="key",
    service="kms",
    resource="key/[A-Za-z0-9-]+",
    example="key/1234abcd",
    why="permissions name a key by its ARN, and S3 encrypts with keys of its own region",
    fix="copy the key's ARN; an alias or an id will not do",
    rule=KEY_RULE,
)
_TOPIC = _Resource(
    name="topic",
    service="sns",
    resource=r"[A-Za-z0-9_-]{1,256}(\.fifo)?",
    example="alarms",
    why="an alarm publishes to topics of its own region only",
    fix="copy the ARN of the topic",
    rule=TOPIC_RULE,
)


def key_arn(arn: str | None, *, region: str | None, where: str) -> Problem | None:
    """The problem with the ARN of a key that encrypts a bucket; see `_problem`."""
    return _problem(_KEY, arn, region=region, where=where)


def topic_arn(arn: str | None, *, region: str | None, where: str) -> Problem | None:
    """The problem with the ARN of a topic that alarms publish to; see `_problem`."""
    return _problem(_TOPIC, arn, region=region, where=where)


def _problem(kind: _Resource, arn: str | None, *, region: str | None, where: str) -> Problem | None:
    """The problem with an ARN.

    Args:
        kind: What the ARN must name.
        arn: The ARN; None if the resource is not given.
        region: The region of what uses the resource; None if that is not known.
        where: Where the ARN was given.
    """
    if arn is None:
        return None
    pattern = rf"arn:aws[a-z-]*:{kind.service}:([a-z0-9-]+):[0-9]{{12}}:{kind.resource}"
    parts = re.fullmatch(pattern, arn)
    if parts is not None and region in (None, parts[1]):
        return None
    example = f"arn:aws:{kind.service}:{region or 'us-east-1'}:123456789012:{kind.example}"
    return Problem(
        what=f"the {kind.name} is {arn[:80]!a}" if parts is None else f"the {kind.name} is in {parts[1]}",
        where=where,
        expected=f"the ARN of a {kind.name}, such as {example}",
        why=kind.why,
        fix=kind.fix if parts is None else f"name a {kind.name} in {region}",
        rule=kind.rule,
    )
