"""An AWS account is named by its number."""

from __future__ import annotations

import re

from triton_models.base.errors import Problem

RULE = "account-id"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-identifiers.html"

_ACCOUNT = re.compile(r"[0-9]{12}")


def account_id(account: str | None, *, where: str) -> Problem | None:
    """The problem with an account's id; None is one not known yet, or none at all."""
    if account is None or _ACCOUNT.fullmatch(account):
        return None
    return Problem(
        what=f"the account is {account[:60]!a}",
        where=where,
        expected="12 digits, such as 123456789012",
        why="ARNs are made with it: a policy that names no account there is allows nothing",
        fix="give the account's id, not its alias or its name",
        rule=RULE,
    )
