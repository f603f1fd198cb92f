"""The caller of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

_CREDENTIAL = re.compile(r"Credential=([^/]+)/")


def assumed_role(headers: Mapping[str, Any], account: str, partition: str) -> Any:
    """Return the assumed role that signed a request; None for any other caller.

    Args:
        headers: The request's headers.
        account: The account to which the request goes.
        partition: The account's partition.
    """
    key = _CREDENTIAL.search(headers.get("Authorization", ""))
    session = sts_backends[account][partition].get_assumed_role_from_access_key(key[1]) if key else None
    iam: Any = iam_backends[account][partition]
    return iam.get_role_by_arn(session.role_arn) if session else None
