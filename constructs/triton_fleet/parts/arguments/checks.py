"""Checks that others share: of numbers, times, ids and ARNs, and of what must be known at synthesis."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from aws_cdk import Annotations, Duration, Size
from constructs import IConstruct

from triton_fleet.parts.arguments.tokens import deferred, is_list_token, known
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import FleetError

Fact = TypeVar("Fact")
Unit = Literal["milliseconds", "seconds", "minutes"]
SizeUnit = Literal["bytes", "gibibytes"]

LARGEST_INTEGER = 2**31 - 1
"""The services count instances and seconds in 32 bits."""

# The ranges in the API models of SageMaker, CodeBuild and Application Auto Scaling.
NUMBER_RANGE = Check(
    id="number-range",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html",
)

WHOLE_TIME = Check(id="whole-time", source=FROM_ARGUMENTS)

WHOLE_SIZE = Check(id="whole-size", source=FROM_ARGUMENTS)

LITERAL_NEEDED = Check(id="literal-needed", source=FROM_ARGUMENTS)


def number_range(
    report: Report, value: float | None, *, least: float, most: float | None, name: str, unit: str = ""
) -> None:
    """Report a number that is out of its range."""
    if value is None or (math.isfinite(value) and least <= value and (most is None or value <= most)):
        return
    space = f" {unit}" if unit else ""
    bounded = most is not None and (most < LARGEST_INTEGER or value > most)
    expected = f"{least:g} to {most:.10g}{space}" if bounded else f"{least:g}{space} or more"
    report(
        NUMBER_RANGE,
        f"{name} is {value:.10g}{space}",
        fix=f"give {expected}",
        why="the service refuses it, and the deployment fails part-way through",
    )


def quantity_range(
    report: Report,
    given: Duration | Size | None,
    *,
    least: int,
    most: int,
    name: str,
    unit: Unit | SizeUnit = "seconds",
) -> None:
    """Report a time or a size that is out of its range; one known only at deployment is accepted."""
    whole_quantity(report, given, name=name, unit=unit)
    if given is not None:
        number_range(report, in_unit(given, unit), least=least, most=most, name=name, unit=unit)


def whole_quantity(
    report: Report, given: Duration | Size | None, *, name: str, unit: Unit | SizeUnit = "seconds"
) -> None:
    """Report a time or a size that is not an integer in this unit."""
    if given is None or _is_whole(given, unit):
        return
    check, kind = (WHOLE_TIME, "Duration") if isinstance(given, Duration) else (WHOLE_SIZE, "Size")
    report(
        check,
        f"{name} is not an integer number of {unit}",
        fix=f"write it with {kind}.{'millis' if unit == 'milliseconds' else unit}(...)",
        why=f"the service counts in {unit}, and a token of another unit cannot be converted",
    )


def in_unit(given: Duration | Size, unit: Unit | SizeUnit) -> float | None:
    """Convert a time or a size; None if it is known only at deployment, or is not an integer."""
    return known(_converted(given, unit)) if _is_whole(given, unit) else None


def _is_whole(given: Duration | Size, unit: Unit | SizeUnit) -> bool:
    try:
        converted = _converted(given, unit)
    except RuntimeError:  # from the CDK: a fraction of a unit, or a token in another unit
        return False
    return known(converted) is None or converted.is_integer()


def _converted(given: Duration | Size, unit: Unit | SizeUnit) -> float:
    return float(getattr(given, f"to_{unit}")())


def literal_list(report: Report, given: Sequence[str], *, name: str) -> None:
    """Report a list that is known only at deployment, because its length is needed now."""
    if is_list_token(given):
        not_literal(report, name)


def not_literal(report: Report, name: str) -> None:
    """Report a value that is needed now, and known only at deployment."""
    report(
        LITERAL_NEEDED,
        f"{name} is known only when the stack is deployed",
        fix="give the value itself, from context instead of a CloudFormation parameter",
        why="the template depends on it",
    )


def look_up(report: Report, argument: str, value: str, table: Callable[[str], Fact]) -> Fact | None:
    """Return the fact that an argument names, or None after reporting why there is none."""
    place = report.at(argument)
    if deferred(value):
        not_literal(place, argument)
        return None
    try:
        return table(value)
    except FleetError as error:
        place.add(replace(problem, where=place.where) for problem in error.problems)
        return None


def warn(construct: IConstruct, report: Report) -> None:
    """Show problems as warnings of a construct, under the ids of their checks."""
    for problem in report.problems:
        sentences = (problem.what, problem.why, problem.fix)
        text = " ".join(f"{each[0].upper()}{each[1:]}." for each in sentences if each)
        Annotations.of(construct).add_warning_v2(problem.rule, text)


ACCOUNT_ID = Check(
    id="account-id",
    source="2026-11-21: https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-identifiers.html",
)


def account_id(report: Report, account: str | None) -> None:
    """Report problems with an account's id; None if it is not given, or known only at deployment."""
    if account is None or re.fullmatch("[0-9]{12}", account):
        return
    report(
        ACCOUNT_ID,
        f"the account is {account[:60]!a}",
        fix="use the 12-digit account ID, including leading zeros, not an alias or a name",
        why="policies with ARNs of any other account would allow nothing",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arn:
    """ARNs of one kind of resource. A call reports problems with one, in a region if that matters."""

    check: Check
    name: str
    pattern: re.Pattern[str]
    example: str
    why: str
    fix: str

    def __call__(self, report: Report, arn: str | None, *, region: str | None = None) -> None:
        if arn is None:
            return
        parts, fix = self.pattern.fullmatch(arn), self.fix
        if parts is not None and region in (None, parts[1]):
            return
        if parts is not None:
            what, fix = f"the {self.name} is in {parts[1]}", f"name a {self.name} in {region}"
        elif self.name == "secret" and not arn.startswith("arn:"):
            what = "the secret is not an ARN"  # it may be the secret itself, which must not be logged
        else:
            what = f"the {self.name} is {arn[:80]!a}"
        example = self.example.replace("REGION", region or "us-east-1")
        report(self.check, what, fix=f"{fix}, as in {example}", why=self.why)


key_arn = _Arn(
    check=Check(
        id="key-arn",
        source="2026-11-22: https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html",
    ),
    name="key",
    pattern=re.compile(r"arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]+"),
    example="arn:aws:kms:REGION:123456789012:key/1234abcd",
    why="permissions name a key's ARN, and S3 uses keys of its own region",
    fix="copy the key's ARN, not its alias or id",
)
topic_arn = _Arn(
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
secret_arn = _Arn(
    # Secrets Manager appends a hyphen and six characters to the name.
    check=Check(
        id="secret-arn",
        source="2026-11-22: https://docs.aws.amazon.com/secretsmanager/latest/userguide/whats-in-a-secret.html",
    ),
    name="secret",
    pattern=re.compile(
        r"arn:aws[a-z-]*:secretsmanager:([a-z0-9-]+):[0-9]{12}:secret:[A-Za-z0-9_/+=.@-]+-[A-Za-z0-9]{6}"
    ),
    example="arn:aws:secretsmanager:REGION:123456789012:secret:hub-token-a1B2c3",
    why="any other permission would cover no secret, or more than one",
    fix="give the full ARN that Secrets Manager shows, with the six characters at its end",
)
role_arn = _Arn(
    check=Check(
        id="role-arn",
        source="2026-11-23: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html",
    ),
    name="role",
    pattern=re.compile(r"arn:aws[a-z-]*:iam:():[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,576}"),
    example="arn:aws:iam::123456789012:role/deploy",
    why="a user, a session or a name is not a role",
    fix="copy the ARN of the role, which begins with arn:aws:iam::",
)
