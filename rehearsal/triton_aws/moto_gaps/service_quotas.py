"""Service Quotas of SageMaker and CodeBuild.

moto's gaps: it only has the quotas of VPC, and lacks GetAWSDefaultServiceQuota. The names are those in AWS's
documentation. It does not show the codes of SageMaker's quotas: here they are derived from the names. The
values are ours.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.models import ServiceQuotasBackend
from moto.servicequotas.responses import ServiceQuotasResponse

from triton_aws.assumptions import holds
from triton_aws.moto_gaps import patch
from triton_aws.moto_gaps.sagemaker import instance_types

# https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html, read 2026-11-21.
_BUILDS = {
    "L-F1FE1B52": "Concurrently running builds for Linux GPU Small environment",
    "L-D906BEE7": "Concurrently running builds for Linux GPU Large environment",
    "L-9D07B6EF": "Concurrently running builds for Linux/Small environment",
    "L-4DDC4A99": "Concurrently running builds for Linux/Large environment",
}
_VALUE = 8.0
_moto_list = ServiceQuotasBackend.list_aws_default_service_quotas
_moto_get = ServiceQuotasBackend.get_service_quota


def _quotas(service: str) -> list[dict[str, Any]]:
    if service == "codebuild":
        names = _BUILDS
    else:
        usages = ("endpoint usage", "processing job usage")
        listed = (f"{name} for {usage}" for name in sorted(instance_types()) for usage in usages)
        names = {f"L-{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}": name for name in listed}
    suffix = "" if holds("quota_names") else " (renamed)"
    return [
        {
            "ServiceCode": service,
            "QuotaCode": code,
            "QuotaName": f"{name}{suffix}",
            "Value": _VALUE,
            "Adjustable": True,
        }
        for code, name in names.items()
    ]


def _list(self: ServiceQuotasBackend, service_code: str) -> list[dict[str, Any]]:
    if service_code in ("sagemaker", "codebuild"):
        return _quotas(service_code)
    return _moto_list(self, service_code)


def _get(self: ServiceQuotasBackend, service_code: str, quota_code: str) -> dict[str, Any]:
    if service_code not in ("sagemaker", "codebuild"):
        return _moto_get(self, service_code, quota_code)
    for quota in _quotas(service_code):
        if quota["QuotaCode"] == quota_code:
            return quota
    raise NoSuchResource


def _get_default(self: ServiceQuotasResponse) -> str:
    asked = json.loads(self.body)
    quota = self.backend.get_service_quota(asked["ServiceCode"], asked["QuotaCode"])
    return json.dumps({"Quota": quota})


def install() -> None:
    """Close the gaps."""
    patch.add(ServiceQuotasResponse, get_aws_default_service_quota=_get_default)
    patch.replace(ServiceQuotasBackend, list_aws_default_service_quotas=_list, get_service_quota=_get)
