"""The keys of CloudWatch Logs' groups, for which moto has no calls."""

from __future__ import annotations

import json
from typing import Any

from moto.kms.models import kms_backends
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.models import LogGroup
from moto.logs.responses import LogsResponse

from embedded_aws.moto_gaps import patch


def _associate_kms_key(self: LogsResponse) -> str:
    group, key = _group(self), self._get_param("kmsKeyId")
    if not _may_use(key, region=self.region, account=self.current_account):
        message = f"The specified KMS key does not exist or is not allowed to be used with Arn '{group.arn}'"
        raise InvalidParameterException(message)
    group.kms_key_id = key
    return ""


def _disassociate_kms_key(self: LogsResponse) -> str:
    _group(self).kms_key_id = None
    return ""


def _group(self: LogsResponse) -> LogGroup:
    name = self._get_param("logGroupName")
    if name not in self.logs_backend.groups:
        raise ResourceNotFoundException
    group: LogGroup = self.logs_backend.groups[name]
    return group


def _may_use(key: str, *, region: str, account: str) -> bool:
    """Return whether the key's policy lets CloudWatch Logs of a region use it."""
    found = kms_backends[account][region].keys.get(key.rpartition("/")[2])
    policy: dict[str, Any] = json.loads(found.policy) if found else {}
    return any(
        f"logs.{region}." in json.dumps(statement.get("Principal", ""))
        for statement in policy.get("Statement", ())
        if statement["Effect"] == "Allow"
    )


def install() -> None:
    """Close the gap."""
    patch.add(LogsResponse, associate_kms_key=_associate_kms_key, disassociate_kms_key=_disassociate_kms_key)
