"""`fleet check-quotas`: check that the account's service quotas suffice for the endpoint and its builds.

In a new account the quotas for GPU instances are 0, and a deployment fails on them only after minutes. AWS
takes minutes to days to raise a quota.

The codes of SageMaker's quotas differ per instance type and are not documented, so quotas are found by name.
`quota_needs` has the quotas that a fleet needs.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from triton_models.base.checks import Check, Report
from triton_models.base.outcome import progress
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.quota_needs import ENDPOINT_TOTAL, Need, endpoint_quota, needs

SERVICE_QUOTAS = Check(id="service-quotas", source="Service Quotas of the account")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota with the account's value, and the instances of other endpoints that it counts, by endpoint."""

    need: Need
    code: str
    value: float
    adjustable: bool
    in_use: Mapping[str, int] = field(default_factory=dict)

    @property
    def least(self) -> float:
        """The lowest sufficient value, with what is in use."""
        return self.need.least + sum(self.in_use.values())

    @property
    def enough(self) -> bool:
        """True if the quota suffices."""
        return self.value >= self.least

    def as_dict(self) -> dict[str, Any]:
        """Return the quota as JSON-ready data."""
        return {
            "service": self.need.service,
            "name": self.need.name,
            "code": self.code,
            "value": self.value,
            "needed": self.need.least,
            "in_use": dict(self.in_use),
            "enough": self.enough,
            "for": self.need.what,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The outcome of `fleet check-quotas`; `unread` says why the instances of other endpoints are unknown."""

    region: str
    quotas: tuple[Quota, ...]
    unread: str = ""

    @property
    def exit_code(self) -> int:
        """0 if every quota suffices, otherwise 1."""
        return 0 if all(quota.enough for quota in self.quotas) else 1

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data, with the command for each quota that is too low."""
        return {
            "region": self.region,
            "unread": self.unread,
            "quotas": [
                quota.as_dict() | ({} if quota.enough else {"request": self.request(quota)})
                for quota in self.quotas
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield a line per quota, followed by the command to increase it if it is too low."""
        for quota in self.quotas:
            verdict = "ok " if quota.enough else "low"
            need = quota.need
            has = f"{quota.value:g} of {need.least:g} needed"
            if quota.in_use:
                listed = ", ".join(f"{count} by {name}" for name, count in quota.in_use.items())
                has += f", and {sum(quota.in_use.values())} in use ({listed})"
            yield f"{verdict}  {has}  {need.name} ({need.service} {quota.code})"
            if not quota.enough:
                yield f"     for {need.what}"
                yield f"     {self.request(quota)}"
        if self.unread:
            yield f"Other endpoints count as well, and could not be read: {self.unread}"

    def request(self, quota: Quota) -> str:
        """Return the command that requests a higher value."""
        if not quota.adjustable:
            return "AWS raises it only through AWS Support: open a case"
        return (
            f"aws service-quotas request-service-quota-increase --region {self.region} "
            f"--service-code {quota.need.service} --quota-code {quota.code} "
            f"--desired-value {quota.least:g}"
        )


def read(wanted: Sequence[Need], client: Any) -> tuple[Quota, ...]:
    """Read the account's values by a client of Service Quotas.

    Raises:
        FleetError: Service Quotas has no quota with one of the names; one problem per name.
        botocore.exceptions.ClientError: The caller lacks permission to read a quota.
    """
    listed: dict[tuple[str, str], Mapping[str, Any]] = {}
    for service in dict.fromkeys(need.service for need in wanted if need.code is None):
        names = {need.name for need in wanted if need.service == service}
        listed |= {(service, name): quota for name, quota in _by_name(service, names, client).items()}
    missing = [need for need in wanted if need.code is None and (need.service, need.name) not in listed]
    if missing:
        report = Report("Service Quotas")
        for need in missing:
            why = "the region does not offer the instance type for this use, or the quota was renamed"
            fix = "choose another --region or instance type, or find the quota in the Service Quotas console"
            report(SERVICE_QUOTAS, f"Service Quotas has no quota {need.name!r}", fix=fix, why=why)
        report.raise_if_any()
    return tuple(_applied(need, listed.get((need.service, need.name)), client) for need in wanted)


def run(arguments: argparse.Namespace) -> Quotas:
    """Run `fleet check-quotas --instance-type TYPE [--max-capacity N] [--parallel-builds N]`."""
    import boto3.session
    from botocore.exceptions import ClientError

    instance = find_instance_type(arguments.instance_type)
    build_type = arguments.build_instance_type
    if build_type:
        find_instance_type(build_type)
    with _aws_errors():
        session = boto3.session.Session()
        region = session.region_name
        if not region:
            fix = "give one, such as --region us-east-1, or configure one for AWS"
            raise SERVICE_QUOTAS.error(what="the region is missing", where="the command line", fix=fix)
        wanted = needs(
            instance,
            region=region,
            instances=arguments.max_capacity,
            builds=arguments.parallel_builds,
            machine=arguments.machine,
            build_type=build_type,
        )
        progress(f"reading {len(wanted)} quotas in {region}")
        found = read(wanted, session.client("service-quotas"))
        try:
            used = in_use(session.client("sagemaker"), fleet=arguments.fleet)
        except ClientError as error:
            return Quotas(region=region, quotas=found, unread=error.response["Error"]["Code"])
        counted = (replace(each, in_use=used.get(each.need.name, {})) for each in found)
        return Quotas(region=region, quotas=tuple(counted))


def in_use(sagemaker: Any, *, fleet: str | None) -> Mapping[str, Mapping[str, int]]:
    """Return the instances of the account's endpoints, by quota and endpoint.

    Endpoints of the fleet itself do not count, because the need includes them.

    Raises:
        botocore.exceptions.ClientError: The caller lacks permission to describe endpoints.
    """
    used: dict[str, dict[str, int]] = {}
    pages = sagemaker.get_paginator("list_endpoints").paginate()
    for name in [each["EndpointName"] for page in pages for each in page["Endpoints"]]:
        if fleet is not None and (name == fleet or name.startswith(f"{fleet}-")):
            continue
        try:
            shown = sagemaker.describe_endpoint(EndpointName=name)
            config = sagemaker.describe_endpoint_config(EndpointConfigName=shown["EndpointConfigName"])
        except sagemaker.exceptions.ClientError as error:
            if error.response["Error"]["Code"] == "ValidationException":
                continue  # it was deleted after it was listed
            raise
        types = {each["VariantName"]: each.get("InstanceType") for each in config["ProductionVariants"]}
        for variant in shown.get("ProductionVariants", ()):
            count = max(variant.get("CurrentInstanceCount", 0), variant.get("DesiredInstanceCount", 0))
            for quota in (endpoint_quota(types.get(variant["VariantName"]) or ""), ENDPOINT_TOTAL):
                if count:
                    counts = used.setdefault(quota, {})
                    counts[name] = counts.get(name, 0) + count
    return used


def _by_name(service: str, names: set[str], client: Any) -> dict[str, Mapping[str, Any]]:
    """Return the quotas with these names. The listing has thousands, and stops when all are found."""
    found: dict[str, Mapping[str, Any]] = {}
    pages = client.get_paginator("list_aws_default_service_quotas").paginate(
        ServiceCode=service, PaginationConfig={"PageSize": 100}
    )
    for page in pages:
        found |= {quota["QuotaName"]: quota for quota in page["Quotas"] if quota["QuotaName"] in names}
        if len(found) == len(names):
            break
    return found


def _applied(need: Need, default: Mapping[str, Any] | None, client: Any) -> Quota:
    code = need.code or (default or {})["QuotaCode"]
    try:
        quota = client.get_service_quota(ServiceCode=need.service, QuotaCode=code)["Quota"]
    except client.exceptions.NoSuchResourceException:
        asked = {"ServiceCode": need.service, "QuotaCode": code}
        quota = default or client.get_aws_default_service_quota(**asked)["Quota"]
    return Quota(need=need, code=code, value=quota["Value"], adjustable=quota.get("Adjustable", True))


@contextlib.contextmanager
def _aws_errors() -> Iterator[None]:
    """Convert errors of AWS and its SDK to a FleetError about Service Quotas."""
    import botocore.exceptions as aws

    try:
        yield
    except aws.ClientError as error:
        details = error.response.get("Error", {})
        what = f"Service Quotas refused {error.operation_name}: {details.get('Code')}"
        why = str(details.get("Message", ""))
        fix = "allow servicequotas:Get* and servicequotas:List*, as in ServiceQuotasReadOnlyAccess"
        raise SERVICE_QUOTAS.error(what=what, where="Service Quotas", why=why, fix=fix) from None
    except aws.BotoCoreError as error:
        what, where = "cannot read Service Quotas", "Service Quotas"
        fix = "sign in (`aws sso login`), or check --region and the AWS_* environment variables"
        raise SERVICE_QUOTAS.error(what=what, where=where, why=str(error), fix=fix) from None
