"""Checks of the network that the instances are attached to."""

from __future__ import annotations

import re
from collections.abc import Collection

from triton_models.base.checks import Check, Report

ACCOUNT_ID = Check(
    id="account-id",
    source="2026-11-21: https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-identifiers.html",
)
"""AWS accounts are given by their numbers."""

_ACCOUNT = re.compile(r"[0-9]{12}")


def account_id(report: Report, account: str | None) -> None:
    """Report problems with an account's id; None if it is not given, or known only at deployment."""
    if account is None or _ACCOUNT.fullmatch(account):
        return
    report(
        ACCOUNT_ID,
        f"the account is {account[:60]!a}",
        fix="use the 12 digits of the account, not its alias or name",
        why="policies with ARNs of any other account would allow nothing",
    )


NETWORK_ENDPOINT_TWICE = Check(
    id="network-endpoint-twice",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html",
)
NETWORK_MODELS_UNREACHABLE = Check(
    id="network-models-unreachable",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html",
)
NETWORK_ROUTE_TABLES = Check(
    id="network-route-tables",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html",
)
"""The instances reach every AWS service that they need, in exactly one way."""


def stated_once(report: Report, created: Collection[str], existing: Collection[str]) -> None:
    """Report problems with creating VPC endpoints that are said to exist."""
    for service in sorted(set(created) & set(existing)):
        report(
            NETWORK_ENDPOINT_TWICE,
            f"{service} is in both create_vpc_endpoints and existing_vpc_endpoints",
            fix=f"remove {service} from one of them",
            why="AWS refuses a second VPC endpoint with the same private name or route",
        )


def models_reachable(report: Report, reached: Collection[str], *, isolated: bool) -> None:
    """Report isolated subnets that cannot read models, where these services have VPC endpoints."""
    if not isolated or "s3" in reached:
        return
    report(
        NETWORK_MODELS_UNREACHABLE,
        "the isolated subnets cannot reach S3",
        fix="add VpcService.S3 to create_vpc_endpoints, or to existing_vpc_endpoints if there is one",
        why="the endpoint would be InService, but every model download would fail",
    )


def route_tables_known(report: Report, unknown: Collection[str]) -> None:
    """Report problems with creating a gateway endpoint for subnets whose route tables are not known."""
    if not unknown:
        return
    report(
        NETWORK_ROUTE_TABLES,
        f"the route tables of {', '.join(unknown)} are not known",
        fix="give Vpc.from_vpc_attributes the route table ids as well, or add VpcService.S3 to "
        "existing_vpc_endpoints if the VPC already has a gateway endpoint for S3",
        why="a gateway endpoint is a route in each route table",
    )


NETWORK_PRIVATE_SUBNETS = Check(
    id="network-private-subnets",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html",
)
"""The instances of an endpoint are attached to known private subnets."""


def some_subnets(report: Report, chosen: int, *, vpc_has_public: bool) -> None:
    """Report problems with attaching an endpoint to this many private subnets."""
    if chosen:
        return
    if vpc_has_public:
        what = "the VPC has only public subnets"
        fix = "add isolated subnets to the VPC (SubnetType.PRIVATE_ISOLATED), which need no NAT gateway"
    else:
        what = "the VPC lists no subnets"
        fix = (
            "give Vpc.from_vpc_attributes the private_subnet_ids or isolated_subnet_ids, with their "
            "route table ids; a look-up needs an account and a region"
        )
    report(
        NETWORK_PRIVATE_SUBNETS,
        what,
        fix=fix,
        why="SageMaker attaches each instance to a subnet, without a public address",
    )


def no_public_subnet(report: Report, public: list[str]) -> None:
    """Report problems with attaching an endpoint to these public subnets, given by their paths."""
    if not public:
        return
    report(
        NETWORK_PRIVATE_SUBNETS,
        f"{', '.join(public)} {'is a public subnet' if len(public) == 1 else 'are public subnets'}",
        fix="use vpc.private_subnets or vpc.isolated_subnets, or remove the subnets",
        why="instances have no public address, so an internet gateway does not help",
    )


NETWORK_ID = Check(
    id="network-id",
    source="2026-11-23: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html",
)
"""The ids of a network are those of a VPC, of subnets and of security groups."""

_KINDS = {"vpc": "VPC", "subnet": "subnet", "sg": "security group"}


def network_id(report: Report, given: str | None, *, kind: str) -> None:
    """Report problems with an id; None if it is known only at deployment."""
    if given is None or re.fullmatch(rf"{kind}-([0-9a-f]{{8}}|[0-9a-f]{{17}})", given):
        return
    report(
        NETWORK_ID,
        f"the {_KINDS[kind]} is {given[:80]!a}",
        fix=f"copy the id from the console of the VPC, such as {kind}-0123456789abcdef0",
        why="a name or an ARN stands in no permission or configuration of a network",
    )
