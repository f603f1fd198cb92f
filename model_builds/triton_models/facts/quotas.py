"""`fleet check-quotas`: check that the account's service quotas suffice for the endpoint and its builds.

In a new account the quotas for GPU instances are 0, and a deployment fails on them only after minutes. AWS
takes minutes to days to raise a quota.

The codes of SageMaker's quotas differ per instance type and are not documented, so quotas are found by name.

Sources, read 2026-11-22:

* https://docs.aws.amazon.com/general/latest/gr/sagemaker.md: SageMaker's quotas, one name per instance type.
* https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html: CodeBuild's quotas. Their codes are from
  outputs of `aws service-quotas list-service-quotas` published by others. New accounts have 0 or 1 of each.
* Outputs of CreateEndpoint published by others: "The account-level service limit 'Number of instances across
  active endpoints' is 3 Instances, with current utilization of 3 Instances". The codes of the totals are from
  public lists of quotas, read 2026-11-25.
* https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html: an update starts a
  fleet of the same size next to the old one. Changing the release or the instance type does so too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from triton_models.base import options as opt
from triton_models.base.checks import Check, Report
from triton_models.base.outcome import progress
from triton_models.facts.build_machines import (
    BUILD_MACHINES,
    CPU_BUILD_MACHINE,
    automatic_machine,
    processing_type,
)
from triton_models.facts.instances import InstanceType
from triton_models.facts.instances import instance_type as find_instance_type

DEFAULT_MAX_CAPACITY = 4
"""The default maximum capacity of the app in this repository."""

MACHINES = ("automatic", "on-demand", "processing-job", "none")

_SMALL, _LARGE, _GPU_SMALL = "L-9D07B6EF", "L-4DDC4A99", "L-F1FE1B52"

ENDPOINT_TOTAL = "Number of instances across active endpoints"
PROCESSING_TOTAL = "Number of instances across all processing jobs"
"""SageMaker's quotas of the account and region, whatever the instance type."""

_ENDPOINTS, _PROCESSING = "L-7A3DF611", "L-F311B08F"

FLEETS = 2
"""The number of full-size fleets that run in parallel during an update or a replacement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A quota that a part of the fleet needs, with the lowest sufficient value, and its code if known."""

    service: str
    name: str
    least: float
    what: str
    code: str | None = None


def needs(
    instance: InstanceType,
    *,
    region: str,
    instances: int = 1,
    builds: int = 1,
    machine: str = "automatic",
    build_type: str | None = None,
) -> tuple[Need, ...]:
    """Return the quotas that a fleet on this instance type needs.

    The machine is one of MACHINES: "automatic" is the default choice of `ModelBuildProject`. Processing jobs
    run on `build_type`, by default the endpoint's, or the smallest other type with the same GPU.
    """
    endpoint = Need(
        service="sagemaker",
        name=endpoint_quota(instance.name),
        least=FLEETS * instances,
        what=f"an endpoint of up to {instances} {instance.name}, and as many that take over in an update",
    )
    total = replace(endpoint, name=ENDPOINT_TOTAL, code=_ENDPOINTS)
    return endpoint, total, *_build_needs(instance, region, builds, machine, build_type)


def _build_needs(
    instance: InstanceType, region: str, builds: int, machine: str, build_type: str | None
) -> tuple[Need, ...]:
    what = "a build" if builds == 1 else f"{builds} builds at a time"
    if machine == "none":
        return ()
    if instance.gpu is None:
        what = f"{what} on CodeBuild's {CPU_BUILD_MACHINE.compute_type}"
        return (_codebuild("Linux/Large", _LARGE, builds, what),)
    if machine == "automatic":
        chosen = automatic_machine(instance, region)
        if chosen is None:
            return ()
        machine = "on-demand" if chosen == "on demand" else "processing-job"
    # In a run of several builds, the first and the last step are separate small builds.
    steps = _codebuild("Linux/Small", _SMALL, 1, "the steps of a run before and after its builds")
    if machine == "on-demand":
        what = f"{what} on CodeBuild's {' or '.join(BUILD_MACHINES)}"
        return _codebuild("Linux GPU Small", _GPU_SMALL, builds, what), *([steps] if builds > 1 else [])
    name = build_type or processing_type(instance) or instance.name
    jobs = Need(
        service="sagemaker",
        name=processing_quota(name),
        least=builds,
        what=f"{what} in {'a job' if builds == 1 else 'jobs'} on {name}",
    )
    return (
        jobs,
        replace(jobs, name=PROCESSING_TOTAL, code=_PROCESSING, what=f"{jobs.what}; other jobs count as well"),
        _codebuild("Linux/Small", _SMALL, builds, f"{what}: a small build starts each job, and waits"),
    )


def quota_codes(*, gpu: bool, on_demand: bool, small: bool) -> list[str]:
    """Return the codes of the CodeBuild quotas that builds need, whatever their number.

    On demand are CodeBuild's machines, unlike Processing jobs and reserved ones. Small builds are the steps
    of a run, or the one that starts a job.
    """
    codes = [_SMALL] if small else []
    return [*codes, _GPU_SMALL if gpu else _LARGE] if on_demand else codes


def endpoint_quota(instance_type: str) -> str:
    """Return the name of SageMaker's quota for endpoints on an instance type."""
    return f"{instance_type} for endpoint usage"


def processing_quota(instance_type: str) -> str:
    """Return the name of SageMaker's quota for Processing jobs on an instance type."""
    return f"{instance_type} for processing job usage"


def _codebuild(environment: str, code: str, least: int, what: str) -> Need:
    name = f"Concurrently running builds for {environment} environment"
    return Need(service="codebuild", name=name, least=least, what=what, code=code)


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


@dataclass(frozen=True, kw_only=True)
class CheckQuotasOptions(opt.AccountOptions):
    """Options of `fleet check-quotas`."""

    instance_type: opt.Type = opt.option(opt.INSTANCE_TYPE, required=True)
    max_capacity: opt.Count = opt.option(
        "the maximum number of instances of the endpoint, as in cdk.json", default=DEFAULT_MAX_CAPACITY
    )
    parallel_builds: opt.Count = opt.option(
        "the maximum number of concurrent builds, as in cdk.json", default=1
    )
    machine: str = opt.option(
        "the machine that builds run on (default: the build job's choice for the GPU and the region)",
        choices=MACHINES,
        default=MACHINES[0],
    )
    build_instance_type: opt.Type | None = opt.option(
        "the instance type of Processing jobs, if it is not the endpoint's"
    )
    fleet: opt.Name | None = opt.option(
        "a deployed fleet, as in cdk.json: its own endpoints do not count as used by others"
    )


def run(options: CheckQuotasOptions) -> Quotas:
    """Run `fleet check-quotas --instance-type TYPE [--max-capacity N] [--parallel-builds N]`."""
    import boto3.session
    from botocore.exceptions import ClientError

    instance = find_instance_type(options.instance_type)
    build_type = options.build_instance_type
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
            instances=options.max_capacity,
            builds=options.parallel_builds,
            machine=options.machine,
            build_type=build_type,
        )
        progress(f"reading {len(wanted)} quotas in {region}")
        found = read(wanted, session.client("service-quotas"))
        try:
            used = in_use(session.client("sagemaker"), fleet=options.fleet)
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
