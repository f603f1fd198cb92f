"""CloudWatch Logs' filter patterns."""

from __future__ import annotations

import json

import pytest

from embedded_aws.moto_gaps.logs import PatternError, matcher, selected

FAILED = "E1123 failed to load 'a::m.tar.gz' version 1: Internal: no"


@pytest.mark.parametrize(
    ("pattern", "message", "expected"),
    [
        ("", "anything", True),
        ("ERROR", "an ERROR here", True),
        ("ERROR code", "an ERROR here", False),
        ('"an ERROR"', "an ERROR here", True),
        (r'"say \"no\""', 'they say "no"', True),
        ("?ERROR ?WARN", "WARN: careful", True),
        ("ERROR -exiting", "ERROR: going on", True),
        ("ERROR -exiting", "ERROR: exiting", False),
        ("""\"failed to load '" "' version " -"out of memory\"""", FAILED, True),
        ("""\"failed to load '" "' version " -"out of memory\"""", f"{FAILED} out of memory", False),
    ],
)
def test_terms_are_found_in_a_message(pattern: str, message: str, expected: bool) -> None:
    assert matcher(pattern)(message) is expected


EVENT = {
    "type": "UpdateTrail",
    "status": 404,
    "ok": False,
    "none": None,
    "user": {"name": "anna", "roles": [{"id": 7}]},
    "address": "123.123.4.5",
}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ('{ $.type = "UpdateTrail" }', True),
        ("{ $.type = UpdateTrail }", True),
        ("{ $.status = 404 }", True),
        ('{ $.status = "404" }', False),
        ("{ $.status != 404 }", False),
        ("{ $.absent != 404 }", False),
        ("{ $.status >= 400 && $.status < 500 }", True),
        ("{ $.status > 404 || $.user.name = anna }", True),
        ('{ ($.status = 1 || $.status = 404) && $.type = "X*" }', False),
        ("{ $.user.roles[0].id = 7 }", True),
        ("{ $.ok IS TRUE }", False),
        ("{ $.none IS NULL }", True),
        ("{ $.absent NOT EXISTS }", True),
    ],
)
def test_a_selector_finds_a_value_of_a_json_event(pattern: str, expected: bool) -> None:
    assert matcher(pattern)(json.dumps(EVENT)) is expected


def test_a_selector_matches_no_event_that_is_not_json() -> None:
    assert not matcher("{ $.a NOT EXISTS }")("plain text")


def test_a_value_of_an_event_is_read_by_its_selector() -> None:
    assert (selected(EVENT, "$.user.roles[0].id"), selected(EVENT, "$.absent")) == (7, None)


@pytest.mark.parametrize(
    "pattern",
    ["[ip, user]", '"open', "{ $.a }", "{ $.a = }", "{ a = 1 }", "{ $.a < x }", "{ ($.a = 1 }", "%e%"],
)
def test_a_pattern_that_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        matcher(pattern)
