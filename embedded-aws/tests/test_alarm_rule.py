"""The rules of composite alarms."""

from __future__ import annotations

import pytest

from embedded_aws.cloudwatch.alarm_state import Rule
from embedded_aws.syntax import SyntaxFormError

STATES = {"high": "ALARM", "low": "OK", "new": "INSUFFICIENT_DATA"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("ALARM(high)", True),
        ('ALARM("low")', False),
        ("OK('low')", True),
        ("INSUFFICIENT_DATA(new)", True),
        ("INSUFFICIENT_DATA(absent)", True),
        ("ALARM(arn:aws:cloudwatch:us-east-1:123456789012:alarm:high)", True),
        ('ALARM( "arn:aws:cloudwatch:us-east-1:123456789012:alarm:high" )', True),
        ("TRUE", True),
        ("FALSE", False),
        ("NOT ALARM(low)", True),
        ("NOT NOT FALSE", False),
        ("ALARM(high) AND ALARM(low)", False),
        ("ALARM(high) OR ALARM(low)", True),
        ("TRUE OR TRUE AND FALSE", True),
        ("(TRUE OR TRUE) AND FALSE", False),
        ("NOT TRUE OR TRUE", True),
        ("NOT (TRUE OR TRUE)", False),
        ("((ALARM(high)))", True),
        ("ALARM(high)AND(NOT OK(new))", True),
    ],
)
def test_a_rule_holds_for_the_states_of_its_alarms(text: str, holds: bool) -> None:
    assert Rule(text).holds(STATES) is holds


def test_a_rule_names_each_of_its_alarms_once() -> None:
    text = 'ALARM("a b") OR (OK(c) AND NOT ALARM("a b")) OR ALARM(arn:aws:cloudwatch:us-east-1:1:alarm:d)'

    assert Rule(text).alarms == ("a b", "c", "d")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AND",
        "ALARM(a) AND",
        "ALARM(a) ALARM(b)",
        "(TRUE",
        "TRUE)",
        "NOT",
        "ALARM()",
        "BROKEN(a)",
        "alarm(a)",
    ],
)
def test_text_that_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(SyntaxFormError):
        Rule(text)
