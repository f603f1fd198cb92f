"""`fleet quotas`: whether the account's service quotas let the endpoint start and its models be built.

In a new account the quotas of GPU instances are 0, and a deployment finds that out after minutes. Raising one
takes AWS from minutes to days.

The codes of SageMaker's quotas differ for every instance type and are in no document, so a quota is found by
its name. Sources, read 2026-11-21:

* https://docs.aws.amazon.com/general/latest/gr/sagemaker.md
* https://docs.aws.amazon.com/codebuild/latest/userguide/limits.html
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from triton_models.build_machines.automatic import Automatic, automatic_machine
from triton_models.build_machines.on_demand import BUILD_MACHINES
from triton_models.build_machines.processing import processing_type
from triton_models.errors import FleetError, Problem, raise_if_any
from triton_models.instances import InstanceType
from triton_models.instances import instance_type as find_instance_type
from triton_models.outcome import progress

MACHINES = ("automatic", "on-demand", "processing-job", "none")

_AS_MACHINE: Mapping[Automatic | None, str] = MappingProxyType(
    {"on demand": "on-demand", "processing job": "processing-job", None: "none"}
)
_RULE = "service-quotas"
_SMALL_GPU = "Concurrently running builds for Linux GPU Small environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A quota that something of the fleet runs into.

    Attributes:
        service: The service's code in Service Quotas.
        name: The quota's name there.
        least: The value that is needed.
        what: What needs it.
        code: Its code where it is documented; None where the name has to be looked up.
    """

    service: str
    name: str
    least: float
    what: str
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota with the account's value.

    Attributes:
        need: What it is needed for.
        code: Its code in Service Quotas.
        value: The account's value in the region.
        adjustable: Whether AWS raises it on request.
    """

    need: Need
    code: str
    value: float
    adjustable: bool

    @property
    def enough(self) -> bool:
        """Whether the value is what is needed."""
        return self.value >= self.need.least

    def as_dict(self) -> dict[str, Any]:
        """All of it."""
        return {
            "service": self.need.service,
            "name": self.need.name,
            "code": self.code,
            "value": self.value,
            "needed": self.need.least,
            "enough": self.enough,
            "for": self.need.what,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The outcome of `fleet quotas`.

    Attributes:
        region: Where.
        quotas: Each quota that was read.
    """

    region: str
    quotas: tuple[Quota, ...]

    @property
    def exit_code(self) -> int:
        """0 if every quota is enough."""
        return 0 if all(quota.enough for quota in self.quotas) else 1

    def as_dict(self) -> dict[str, Any]:
        """All of it, with the command for each quota that is too low."""
        return {
            "region": self.region,
            "quotas": [
                quota.as_dict() | ({} if quota.enough else {"request": self.request(quota)})
                for quota in self.quotas
            ],
        }

    def lines(self) -> Iterator[str]:
        """A line for each, and below one that is too low how to ask for more."""
        for quota in self.quotas:
            verdict = "ok " if quota.enough else "low"
            need = quota.need
            has = f"{quota.value:g} of {need.least:g} needed"
            yield f"{verdict}  {has}  {need.name} ({need.service} {quota.code})"
            if not quota.enough:
                yield f"     for {need.what}"
                yield f"     {self.request(quota)}"

    def request(self, quota: Quota) -> str:
        """How to get a higher value."""
        if not quota.adjustable:
            return "AWS raises it only through AWS Support: open a case"
        return (
            f"aws service-quotas request-service-quota-increase --region {self.region} "
            f"--service-code {quota.need.service} --quota-code {quota.code} "
            f"--desired-value {quota.need.least:g}"
        )


def needs(
    instance: InstanceType,
    *,
    region: str,
    instances: int = 1,
    builds: int = 1,
    machine: str = "automatic",
    build_type: str | None = None,
) -> tuple[Need, ...]:
    """The quotas that a fleet on this instance type runs into.

    Args:
        instance: The endpoint's instance type.
        region: Where it is deployed.
        instances: The most that it scales to.
        builds: The most builds at a time.
        machine: What builds run on, one of MACHINES. "automatic" is what `ModelBuilds` chooses unasked.
        build_type: The instance type of Processing jobs; the endpoint's by default.
    """
    endpoint = Need(
        service="sagemaker",
        name=f"{instance.name} for endpoint usage",
        least=instances,
        what=f"an endpoint of {instances} {instance.name}, and twice that while a blue/green deployment runs",
    )
    if machine == "automatic":
        machine = _automatic(instance, region)
    if machine == "on-demand":
        what = f"{_builds(builds)} on CodeBuild's {' or '.join(BUILD_MACHINES)}"
        small = Need(service="codebuild", name=_SMALL_GPU, least=builds, what=what, code="L-F1FE1B52")
        return endpoint, small
    if machine == "processing-job":
        name = build_type or processing_type(instance) or instance.name
        job = f"{name} for processing job usage"
        what = f"{_builds(builds)} in {'a job' if builds == 1 else 'jobs'} on {name}"
        return endpoint, Need(service="sagemaker", name=job, least=builds, what=what)
    return (endpoint,)


def _builds(count: int) -> str:
    return "a build" if count == 1 else f"{count} builds at a time"


def read(wanted: Sequence[Need], client: Any) -> tuple[Quota, ...]:
    """The account's values.

    Args:
        wanted: The quotas.
        client: A client of Service Quotas, in the region.

    Raises:
        FleetError: Service Quotas has no quota of a name; all such are told.
        botocore.exceptions.ClientError: It must not be read.
    """
    listed: dict[tuple[str, str], Mapping[str, Any]] = {}
    for service in dict.fromkeys(need.service for need in wanted if need.code is None):
        names = {need.name for need in wanted if need.service == service}
        listed |= {(service, name): quota for name, quota in _by_name(service, names, client).items()}
    missing = [need for need in wanted if need.code is None and (need.service, need.name) not in listed]
    if missing:
        raise FleetError(problem for need in missing for problem in _unknown(need).problems)
    return tuple(_applied(need, listed.get((need.service, need.name)), client) for need in wanted)


def run(arguments: argparse.Namespace) -> Quotas:
    """`fleet quotas --instance-type TYPE [--region REGION] [--instances N] [--parallel-builds N]`."""
    import boto3.session

    instance = find_instance_type(arguments.instance_type)
    raise_if_any(
        [
            *_no_count("--instances", arguments.instances, meaning="max_capacity of the endpoint"),
            *_no_count("--parallel-builds", arguments.parallel_builds, meaning="parallel_builds of cdk.json"),
        ]
    )
    build_type = arguments.build_instance_type
    if build_type:
        find_instance_type(build_type)
    with _aws_errors():
        session = boto3.session.Session(region_name=arguments.region)
        region = session.region_name or _no_region()
        wanted = needs(
            instance,
            region=region,
            instances=arguments.instances,
            builds=arguments.parallel_builds,
            machine=arguments.machine,
            build_type=build_type,
        )
        progress(f"reading {len(wanted)} quotas in {region}")
        return Quotas(region=region, quotas=read(wanted, session.client("service-quotas")))


def _automatic(instance: InstanceType, region: str) -> str:
    """What builds run on unasked, as the construct chooses it."""
    if instance.gpu is None:
        return "none"  # CodeBuild's machines without a GPU are there in every account
    return _AS_MACHINE[automatic_machine(instance, region)]


def _by_name(service: str, names: set[str], client: Any) -> dict[str, Mapping[str, Any]]:
    """The quotas of these names. SageMaker has thousands, so it is left off when all are found."""
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
    """The quota with the account's own value, or with AWS's default where it never got one."""
    code = need.code or (default or {})["QuotaCode"]
    try:
        quota = client.get_service_quota(ServiceCode=need.service, QuotaCode=code)["Quota"]
    except client.exceptions.NoSuchResourceException:
        asked = {"ServiceCode": need.service, "QuotaCode": code}
        quota = default or client.get_aws_default_service_quota(**asked)["Quota"]
    return Quota(need=need, code=code, value=quota["Value"], adjustable=quota.get("Adjustable", True))


def _unknown(need: Need) -> FleetError:
    return FleetError.of(
        what=f"Service Quotas has no quota {need.name!r}",
        where=f"the quotas of {need.service}",
        expected="a quota of that name in the region",
        why="the instance type is not offered there for that, or the quota was renamed",
        fix="name another --region or instance type, or look for the quota in the Service Quotas console",
        rule=_RULE,
    )


def _no_count(option: str, given: int, *, meaning: str) -> Iterator[Problem]:
    if given < 1:
        yield Problem(
            what=f"{option} is {given}",
            where="the command line",
            expected=f"1 or more: {meaning}",
            why="a quota is enough or not for a number of them",
            fix=f"give {meaning}",
            rule=_RULE,
        )


def _no_region() -> str:
    raise FleetError.of(
        what="no region is given",
        where="the command line",
        expected="--region, or a region in the AWS configuration",
        why="every region has quotas of its own",
        fix="--region us-east-1",
        rule=_RULE,
    )


@contextlib.contextmanager
def _aws_errors() -> Iterator[None]:
    """What AWS and its SDK raise, as a FleetError about Service Quotas."""
    import botocore.exceptions as aws

    try:
        yield
    except aws.ClientError as error:
        told = error.response.get("Error", {})
        raise FleetError.of(
            what=f"Service Quotas refused {error.operation_name}: {told.get('Code')}",
            where="Service Quotas",
            expected="leave to read quotas: servicequotas:Get* and servicequotas:List*",
            why=str(told.get("Message", "")),
            fix="use a role that may read quotas, such as one with ServiceQuotasReadOnlyAccess",
            rule=_RULE,
        ) from None
    except aws.BotoCoreError as error:
        raise FleetError.of(
            what="Service Quotas cannot be asked",
            where="Service Quotas",
            expected="credentials, and a region that there is",
            why=str(error),
            fix="sign in (`aws sso login`), or check --region and the AWS_* environment variables",
            rule=_RULE,
        ) from None
