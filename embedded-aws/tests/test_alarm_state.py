"""The states of alarms: for data points, some of which are missing, by AWS's own tables, and by rules."""

from __future__ import annotations

import pytest

from embedded_aws.cloudwatch.alarm_state import Limit, Rule
from embedded_aws.syntax import SyntaxFormError

MISSING, IGNORE, BREACHING, NOT_BREACHING = "missing", "ignore", "breaching", "notBreaching"
TREATMENTS = (MISSING, IGNORE, BREACHING, NOT_BREACHING)
OK, ALARM, NO_DATA, KEPT = "OK", "ALARM", "INSUFFICIENT_DATA", None

# doc_source/AlarmThatSendsEmail.md of awsdocs/amazon-cloudwatch-user-guide: data points, oldest first (0 is
# within the threshold, X breaches it, - is missing), then the state for each treatment of missing data.
THREE_OF_THREE = {
    "0-X-X": (OK, OK, OK, OK),
    "0----": (OK, OK, OK, OK),
    "-----": (NO_DATA, KEPT, ALARM, OK),
    "0XX-X": (ALARM, ALARM, ALARM, ALARM),
    "----X": (NO_DATA, KEPT, ALARM, OK),
    "X----": (ALARM, KEPT, ALARM, OK),
}
TWO_OF_THREE = {
    "0-X-X": (ALARM, ALARM, ALARM, ALARM),
    "00X0X": (ALARM, ALARM, ALARM, ALARM),
    "0-X--": (OK, OK, ALARM, OK),
    "----0": (OK, OK, ALARM, OK),
    "----X": (NO_DATA, KEPT, ALARM, OK),
}
# "Avoiding premature transitions to ALARM state" in the same chapter's newer form.
NOT_PREMATURE = {"---X-": (NO_DATA, KEPT, ALARM, OK), "--X--": (ALARM, KEPT, ALARM, OK)}

ROWS = [
    pytest.param(to_alarm, points, treatment, state, id=f"{to_alarm}of3 {points} {treatment}")
    for to_alarm, table in ((3, {**THREE_OF_THREE, **NOT_PREMATURE}), (2, TWO_OF_THREE))
    for points, states in table.items()
    for treatment, state in zip(TREATMENTS, states, strict=True)
]
VALUES = {"0": 1.0, "X": 3.0, "-": None}


@pytest.mark.parametrize(("to_alarm", "points", "treatment", "state"), ROWS)
def test_missing_data_is_treated_as_in_the_tables_of_the_user_guide(
    to_alarm: int, points: str, treatment: str, state: str | None
) -> None:
    limit = Limit(
        comparison="GreaterThanThreshold", threshold=2.0, periods=3, to_alarm=to_alarm, missing=treatment
    )

    assert limit.state([VALUES[point] for point in points]) == state


@pytest.mark.parametrize(
    ("comparison", "breaching"),
    [
        ("GreaterThanThreshold", [3.0]),
        ("GreaterThanOrEqualToThreshold", [2.0, 3.0]),
        ("LessThanThreshold", [1.0]),
        ("LessThanOrEqualToThreshold", [1.0, 2.0]),
    ],
)
def test_a_comparison_decides_about_the_threshold_itself(comparison: str, breaching: list[float]) -> None:
    limit = Limit(comparison=comparison, threshold=2.0, periods=1, to_alarm=1)

    assert [value for value in (1.0, 2.0, 3.0) if limit.state([value]) == ALARM] == breaching


STATES = {"high": "ALARM", "low": "OK", "new": "INSUFFICIENT_DATA"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("ALARM(high)", True),
        ('ALARM("low")', False),
        ("INSUFFICIENT_DATA(new)", True),
        ("INSUFFICIENT_DATA(absent)", True),
        ("ALARM(arn:aws:cloudwatch:us-east-1:123456789012:alarm:high)", True),
        ("FALSE", False),
        ("NOT ALARM(low)", True),
        ("ALARM(high) AND ALARM(low)", False),
        ("TRUE OR TRUE AND FALSE", True),
        ("(TRUE OR TRUE) AND FALSE", False),
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


@pytest.mark.parametrize("text", ["", "ALARM(a) AND", "ALARM(a) ALARM(b)", "TRUE)", "ALARM()", "BROKEN(a)"])
def test_text_that_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(SyntaxFormError):
        Rule(text)
