"""Checks of numbers, times and ARNs, and of what must be known at synthesis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from aws_cdk import Duration, Size

from triton_fleet.arguments.tokens import is_list_token, known
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem

Unit = Literal["milliseconds", "seconds", "minutes"]
SizeUnit = Literal["bytes", "gibibytes"]

LARGEST_INTEGER = 2**31 - 1
"""The services count instances and seconds in 32 bits."""

# The ranges in the API models of SageMaker, CodeBuild and Application Auto Scaling.
NUMBER_RANGE = Check(
    id="number-range",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html",
)
"""A number is in the range that the service accepts."""

WHOLE_TIME = Check(id="whole-time", source=FROM_ARGUMENTS)
"""A time has no fraction of the unit in which the service counts."""

WHOLE_SIZE = Check(id="whole-size", source=FROM_ARGUMENTS)
"""A size has no fraction of the unit in which the service counts."""

LITERAL_NEEDED = Check(id="literal-needed", source=FROM_ARGUMENTS)
"""What the synthesis depends on is known at synthesis."""


def number_range(
    value: float | None, *, least: float, most: float | None, name: str, where: str, unit: str = ""
) -> Iterator[Problem]:
    """The problem with a number.

    Args:
        value: What was given; None is a number not known yet, or none at all.
        least: The least that is taken.
        most: The most; None if it has no bound.
        name: The argument's name.
        where: What the problem is reported for.
        unit: What it is counted in, such as "s".
    """
    if value is None or (value >= least and (most is None or value <= most)):
        return
    space = f" {unit}" if unit else ""
    bounded = most is not None and (most < LARGEST_INTEGER or value > most)
    expected = f"{least:g} to {most:.10g}{space}" if bounded else f"{least:g}{space} or more"
    yield NUMBER_RANGE.problem(
        what=f"{name} is {value:.10g}{space}",
        where=where,
        expected=expected,
        why="the service refuses it, and the deployment fails part-way through",
        fix=f"give {expected}",
    )


def time_range(
    given: Duration | None, *, least: int, most: int, name: str, where: str, unit: Unit = "seconds"
) -> Iterator[Problem]:
    """The problem with a time; one that is known only at deployment is let pass.

    Args:
        given: The time; None without one.
        least: The shortest, in this unit.
        most: The longest.
        name: The argument's name.
        where: What the problem is reported for.
        unit: What the service counts in.
    """
    if given is None:
        return
    yield from whole_time(given, name=name, where=where, unit=unit)
    yield from number_range(in_unit(given, unit), least=least, most=most, name=name, where=where, unit=unit)


def whole_time(given: Duration, *, name: str, where: str, unit: Unit = "seconds") -> Iterator[Problem]:
    """The problem with a time that is not an integer number of units; arguments as of `time_range`."""
    if not _is_whole(given, unit):
        yield WHOLE_TIME.problem(
            what=f"{name} is not a whole number of {unit}",
            where=where,
            expected=f"a Duration in whole {unit}",
            why=f"the service counts in {unit}, and a token of another unit cannot be converted",
            fix=f"write it with Duration.{'millis' if unit == 'milliseconds' else unit}(...)",
        )


def size_range(
    given: Size | None, *, least: int, most: int, name: str, where: str, unit: SizeUnit
) -> Iterator[Problem]:
    """The problem with a size; arguments as of `time_range`."""
    if given is None:
        return
    yield from whole_size(given, name=name, where=where, unit=unit)
    yield from number_range(in_unit(given, unit), least=least, most=most, name=name, where=where, unit=unit)


def whole_size(given: Size, *, name: str, where: str, unit: SizeUnit) -> Iterator[Problem]:
    """The problem with a size that is not an integer number of units; arguments as of `time_range`."""
    if not _is_whole(given, unit):
        yield WHOLE_SIZE.problem(
            what=f"{name} is not a whole number of {unit}",
            where=where,
            expected=f"a Size in whole {unit}",
            why=f"the service counts in {unit}, and a token of another unit cannot be converted",
            fix=f"write it with Size.{unit}(...)",
        )


def in_unit(given: Duration | Size, unit: Unit | SizeUnit) -> float | None:
    """A time or a size in a unit; None if it is known only at deployment, or no whole number of them."""
    return known(_converted(given, unit)) if _is_whole(given, unit) else None


def _is_whole(given: Duration | Size, unit: Unit | SizeUnit) -> bool:
    try:
        converted = _converted(given, unit)
    except RuntimeError:  # the CDK's own: a part of a unit is left over, or a token of another unit
        return False
    return known(converted) is None or converted.is_integer()


def _converted(given: Duration | Size, unit: Unit | SizeUnit) -> float:
    return float(getattr(given, f"to_{unit}")())


def literal_list(given: Sequence[str], *, name: str, where: str) -> Iterator[Problem]:
    """The problem with a list that is known only at deployment: its length is needed now.

    Args:
        given: The list; each of its strings may be a token.
        name: The argument's name.
        where: What the problem is reported for.
    """
    if is_list_token(given):
        yield not_literal(name, where=where, expected="a list written down; each string in it may be a token")


def not_literal(name: str, *, where: str, expected: str) -> Problem:
    """The problem with a value that is known only at deployment where it is needed now."""
    return LITERAL_NEEDED.problem(
        what=f"{name} is known only when the stack is deployed",
        where=where,
        expected=expected,
        why="what is synthesised depends on it",
        fix="give the value itself, from context instead of a CloudFormation parameter",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arn:
    """ARNs of one kind of resource.

    Attributes:
        check: What finds the problems.
        name: The resource in a sentence.
        pattern: Of the ARN; its first group is the region.
        example: An ARN, with REGION in the place of the region.
        why: Why the ARN matters.
        fix: What to do about a string that is no such ARN.
        longest: The most characters; None without a limit of its own.
    """

    check: Check
    name: str
    pattern: re.Pattern[str]
    example: str
    why: str
    fix: str
    longest: int | None = None


_KEY = _Arn(
    check=Check(
        id="key-arn",
        source="2026-11-22: https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html",
    ),
    name="key",
    pattern=re.compile(r"arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]+"),
    example="arn:aws:kms:REGION:123456789012:key/1234abcd",
    why="permissions name a key's ARN, and S3 uses keys of its own region",
    fix="copy the key's ARN; an alias or an id will not do",
)
_TOPIC = _Arn(
    check=Check(
        id="topic-arn",
        source="2026-11-22: "
        "https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Notify_Users_Alarm_Changes.html",
    ),
    name="topic",
    pattern=re.compile(r"arn:aws[a-z-]*:sns:([a-z0-9-]+):[0-9]{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?"),
    example="arn:aws:sns:REGION:123456789012:alarms",
    why="an alarm publishes to topics of its own region only",
    fix="copy the ARN of the topic",
)
_SECRET = _Arn(
    # Secrets Manager ends an ARN with a hyphen and six characters of its own.
    check=Check(
        id="secret-arn",
        source="2026-11-22: https://docs.aws.amazon.com/secretsmanager/latest/userguide/whats-in-a-secret.html",
    ),
    name="secret",
    pattern=re.compile(
        r"arn:aws[a-z-]*:secretsmanager:([a-z0-9-]+):[0-9]{12}:secret:[A-Za-z0-9_/+=.@-]+-[A-Za-z0-9]{6}"
    ),
    example="arn:aws:secretsmanager:REGION:123456789012:secret:hub-token-a1B2c3",
    why="a permission for anything else would cover no secret, or others as well",
    fix="give the full ARN that Secrets Manager shows, with the six characters at its end",
)
_RESERVATION = _Arn(
    check=Check(
        id="reservation-arn",
        source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/"
        "API_ProductionVariantCapacityReservationConfig.html",
    ),
    name="capacity reservation",
    pattern=re.compile(r"arn:aws[a-z-]*:sagemaker:([a-z0-9-]*):[0-9]{12}:[a-z0-9-]{1,14}/.+"),
    example="arn:aws:sagemaker:REGION:123456789012:training-plan/name",
    why="SageMaker refuses the endpoint's configuration",
    fix="give the ARN that SageMaker shows for the reservation, not its name",
    longest=258,
)


def key_arn(arn: str | None, *, region: str | None, where: str) -> Iterator[Problem]:
    """The problem with the ARN of a key that encrypts a bucket; see `_arn`."""
    yield from _arn(_KEY, arn, region=region, where=where)


def topic_arn(arn: str | None, *, region: str | None, where: str) -> Iterator[Problem]:
    """The problem with the ARN of a topic that alarms publish to; see `_arn`."""
    yield from _arn(_TOPIC, arn, region=region, where=where)


def secret_arn(arn: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with a secret's ARN; see `_arn`."""
    yield from _arn(_SECRET, arn, region=None, where=where)


def reservation_arn(arn: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with a reservation's ARN; see `_arn`."""
    yield from _arn(_RESERVATION, arn, region=None, where=where)


def _arn(kind: _Arn, arn: str | None, *, region: str | None, where: str) -> Iterator[Problem]:
    """The problem with an ARN.

    Args:
        kind: What the ARN must name.
        arn: The ARN; None if it is not known yet, or not given.
        region: The region of what uses the resource; None if that is not known, or does not matter.
        where: Where the ARN was given.
    """
    if arn is None:
        return
    parts = kind.pattern.fullmatch(arn)
    too_long = kind.longest is not None and len(arn) > kind.longest
    if parts is not None and not too_long and region in (None, parts[1]):
        return
    fix = kind.fix
    if parts is None and kind is _SECRET and not arn.startswith("arn:"):
        what = "the secret is named by no ARN"  # it may be the secret itself, which belongs into no log
    elif parts is None or too_long:
        what = f"the {kind.name} is {arn[:80]!a}" + f" and goes on to {len(arn)} characters" * too_long
    else:
        what, fix = f"the {kind.name} is in {parts[1]}", f"name a {kind.name} in {region}"
    limit = f", of at most {kind.longest} characters" if kind.longest else ""
    yield kind.check.problem(
        what=what,
        where=where,
        expected=f"an ARN such as {kind.example.replace('REGION', region or 'us-east-1')}{limit}",
        why=kind.why,
        fix=fix,
    )
