"""A secret is named by its full ARN."""

from __future__ import annotations

import re

from triton_models.base.errors import Problem

RULE = "secret-arn"
# Read on 2026-11-22: Secrets Manager ends an ARN with a hyphen and six characters of its own.
SOURCE = "https://docs.aws.amazon.com/secretsmanager/latest/userguide/whats-in-a-secret.html"

_ARN = re.compile(
    r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9_/+=.@-]+-[A-Za-z0-9]{6}"
)


def secret_arn(arn: str | None, *, where: str) -> Problem | None:
    """The problem with a secret's ARN; None is one not known yet, or none at all."""
    if arn is None or _ARN.fullmatch(arn):
        return None
    # What is no ARN may be the secret itself, which belongs into no log.
    return Problem(
        what=f"the secret is {arn[:80]!a}" if arn.startswith("arn:") else "the secret is named by no ARN",
        where=where,
        expected="an ARN such as arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-token-a1B2c3",
        why="a permission for anything else would be for no secret, or for others as well",
        fix="give the full ARN that Secrets Manager shows, with the six characters at its end",
        rule=RULE,
    )
