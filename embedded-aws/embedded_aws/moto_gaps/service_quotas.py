"""Service Quotas of SageMaker and CodeBuild.

moto's gaps: it only has the quotas of VPC, all on one page, and lacks GetAWSDefaultServiceQuota and
ListServiceQuotas. The names are those in AWS's documentation. It does not show the codes of SageMaker's
quotas: here they are derived from the names, except for the totals. The values are ours.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.servicequotas.exceptions import NoSuchResource
from moto.servicequotas.models import ServiceQuotasBackend
from moto.servicequotas.responses import ServiceQuotasResponse
from moto.utilities.utils import get_partition

from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.requests import page
from embedded_aws.moto_gaps.sagemaker import instance_types

# https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html, read 2026-11-21.
_BUILDS = {
    "L-F1FE1B52": "Concurrently running builds for Linux GPU Small environment",
    "L-D906BEE7": "Concurrently running builds for Linux GPU Large environment",
    "L-9D07B6EF": "Concurrently running builds for Linux/Small environment",
    "L-4DDC4A99": "Concurrently running builds for Linux/Large environment",
}
# Of the account, whatever the instance type: from public lists of quotas, read 2026-11-25.
_TOTALS = {
    "L-7A3DF611": "Number of instances across active endpoints",
    "L-F311B08F": "Number of instances across all processing jobs",
}
_SERVICES = {"codebuild": "AWS CodeBuild", "sagemaker": "Amazon SageMaker"}
_VALUE = 8.0
_PAGE = 100


_moto_list = ServiceQuotasBackend.list_aws_default_service_quotas
_moto_get = ServiceQuotasBackend.get_service_quota


def _quotas(backend: ServiceQuotasBackend, service: str) -> list[dict[str, Any]]:
    if service == "codebuild":
        names = _BUILDS
    else:
        usages = ("endpoint usage", "processing job usage")
        listed = (f"{name} for {usage}" for name in sorted(instance_types()) for usage in usages)
        names = _TOTALS | {
            f"L-{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}": name for name in listed
        }
    region = backend.region_name
    arn = f"arn:{get_partition(region)}:servicequotas:{region}:{backend.account_id}:{service}"
    return [
        {
            "ServiceCode": service,
            "ServiceName": _SERVICES[service],
            "QuotaArn": f"{arn}/{code}",
            "QuotaCode": code,
            "QuotaName": name,
            "Value": _VALUE,
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
            "QuotaAppliedAtLevel": "ACCOUNT",
        }
        for code, name in names.items()
    ]


@patch.replaces(ServiceQuotasBackend, "list_aws_default_service_quotas")
def _list(self: ServiceQuotasBackend, service_code: str) -> list[dict[str, Any]]:
    if service_code in _SERVICES:
        return _quotas(self, service_code)
    return _moto_list(self, service_code)


@patch.replaces(ServiceQuotasBackend, "get_service_quota")
def _get(self: ServiceQuotasBackend, service_code: str, quota_code: str) -> dict[str, Any]:
    if service_code not in _SERVICES:
        return _moto_get(self, service_code, quota_code)
    for quota in _quotas(self, service_code):
        if quota["QuotaCode"] == quota_code:
            return quota
    raise NoSuchResource


@patch.adds(ServiceQuotasResponse, "get_aws_default_service_quota")
def _get_default(self: ServiceQuotasResponse) -> str:
    asked = json.loads(self.body)
    quota = self.backend.get_service_quota(asked["ServiceCode"], asked["QuotaCode"])
    return json.dumps({"Quota": quota})


@patch.adds(ServiceQuotasResponse, "list_service_quotas")
@patch.replaces(ServiceQuotasResponse, "list_aws_default_service_quotas")
def _list_page(self: ServiceQuotasResponse) -> str:
    """Answer with a page of an account's quotas, or of their defaults, which are the same here."""
    asked = json.loads(self.body)
    quotas = self.backend.list_aws_default_service_quotas(asked["ServiceCode"])
    refusal = JsonRESTError("InvalidPaginationTokenException", "Invalid token was provided.")
    return json.dumps(page(asked, "Quotas", quotas, size=_PAGE, refusal=refusal))
