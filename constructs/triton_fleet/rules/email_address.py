"""Alarms go to a valid e-mail address."""

from __future__ import annotations

import re

from triton_models.base.errors import Problem

RULE = "email-address"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sns/latest/dg/sns-email-notifications.html"

_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")


def email_address(address: str | None, *, where: str) -> Problem | None:
    """The problem with an address; None is one not known yet."""
    if address is None or _ADDRESS.fullmatch(address):
        return None
    return Problem(
        what=f"the address is {address[:60]!a}",
        where=where,
        expected="an e-mail address such as oncall@example.com",
        why="SNS refuses the subscription, and no one would get an alarm",
        fix="give the address of who is on call, or of a list",
        rule=RULE,
    )
