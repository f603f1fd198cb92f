"""S3's conditional writes and bucket policies.

moto's gaps:
- A statement whose condition does not hold denies. In AWS it says nothing, so the usual policy that denies
  everything without TLS would lock everybody out here.
- Logging to a bucket is refused until that bucket's policy allows it. AWS looks at the policy when it
  delivers: the policy that the CDK writes names the logged bucket, and so can only come after it.
- It looks at a condition such as If-None-Match and then writes, with time for another writer in between. In
  AWS exactly one of several conditional writers wins.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.models import FakeBucket
from moto.s3.responses import S3Response

from rehearsal.aws.moto_gaps import mend

# The loopback connection stands for the TLS connection that a client of AWS has.
_HOLDS = {"Bool": {"aws:SecureTransport": "true"}}


_writing = threading.RLock()
_moto_put_object = S3Response.put_object


def _put_object(self: S3Response) -> Any:
    with _writing:
        return _moto_put_object(self)


def _get_permission(self: FakeBucket, action: str, resource: str) -> PermissionResult:
    """What the policy says of an action, by the statements whose conditions are known to hold.

    Of the conditions only TLS is evaluated: a statement with any other says nothing here.
    """
    if self.policy is None:
        return PermissionResult.NEUTRAL
    document = json.loads(self.policy)
    declared = document["Statement"]
    statements = declared if isinstance(declared, list) else [declared]
    holding = [_unconditional(statement) for statement in statements if _applies(statement)]
    policy = IAMPolicy(json.dumps({**document, "Statement": holding}))
    return policy.is_action_permitted(action, resource)


def _applies(statement: Mapping[str, Any]) -> bool:
    condition = statement.get("Condition")
    return not condition or condition == _HOLDS


def _unconditional(statement: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in statement.items() if key != "Condition"}


def _log_permissions_enabled_policy(target_bucket: FakeBucket, target_prefix: str | None) -> bool:  # noqa: ARG001
    return True


def install() -> None:
    """Close the gaps."""
    mend.replace(S3Response, put_object=_put_object)
    mend.replace(
        FakeBucket,
        get_permission=_get_permission,
        _log_permissions_enabled_policy=staticmethod(_log_permissions_enabled_policy),
    )
