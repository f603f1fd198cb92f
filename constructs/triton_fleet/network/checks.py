"""Checks of the network that the instances are attached to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from triton_models.base.checks import Check
from triton_models.base.errors import Problem

ACCOUNT_ID = Check(
    id="account-id",
    source="2026-11-21: https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-identifiers.html",
)
"""AWS accounts are given by their numbers."""

_ACCOUNT = re.compile(r"[0-9]{12}")


def account_id(account: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with an account's id; None if it is not given, or known only at deployment."""
    if account is None or _ACCOUNT.fullmatch(account):
        return
    yield ACCOUNT_ID.problem(
        what=f"the account is {account[:60]!a}",
        where=where,
        expected="12 digits, such as 123456789012",
        why="policies with ARNs of any other account would allow nothing",
        fix="use the account's id, not its alias or name",
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


def stated_once(created: Collection[str], existing: Collection[str], *, where: str) -> Iterator[Problem]:
    """The problems with creating VPC endpoints that are said to exist."""
    for service in sorted(set(created) & set(existing)):
        yield NETWORK_ENDPOINT_TWICE.problem(
            what=f"{service} is in both create_vpc_endpoints and existing_vpc_endpoints",
            where=where,
            expected="each service in one of them",
            why="AWS refuses a second VPC endpoint with the same private name or route",
            fix=f"remove {service} from one of them",
        )


def models_reachable(reached: Collection[str], *, isolated: bool, where: str) -> Iterator[Problem]:
    """The problem with reading models from isolated subnets when only these services have VPC endpoints."""
    if not isolated or "s3" in reached:
        return
    yield NETWORK_MODELS_UNREACHABLE.problem(
        what="the isolated subnets cannot reach S3",
        where=where,
        expected="a gateway endpoint for S3, new or existing",
        why="the endpoint would be InService, but every model download would fail",
        fix="add VpcService.S3 to create_vpc_endpoints, or to existing_vpc_endpoints if there is one",
    )


def route_tables_known(unknown: Collection[str], *, where: str) -> Iterator[Problem]:
    """The problem with creating a gateway endpoint for subnets whose route tables are not known."""
    if not unknown:
        return
    yield NETWORK_ROUTE_TABLES.problem(
        what=f"the route tables of {', '.join(unknown)} are not known",
        where=where,
        expected="a route table id for each subnet",
        why="a gateway endpoint is a route in each route table",
        fix="give Vpc.from_vpc_attributes the route table ids as well, or add VpcService.S3 to "
        "existing_vpc_endpoints if the VPC already has a gateway endpoint for S3",
    )


NETWORK_PRIVATE_SUBNETS = Check(
    id="network-private-subnets",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html",
)
"""The instances of an endpoint are attached to known private subnets."""


def some_subnets(chosen: int, *, vpc_has_public: bool, where: str) -> Iterator[Problem]:
    """The problem with attaching an endpoint to this many private subnets.

    Args:
        chosen: The number of subnets that were found or given.
        vpc_has_public: True if the VPC has public subnets; an import may name none at all.
        where: The place that the problem names.
    """
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
    yield NETWORK_PRIVATE_SUBNETS.problem(
        what=what,
        where=where,
        expected="at least one private subnet",
        why="SageMaker attaches each instance to a subnet, without a public address",
        fix=fix,
    )


def no_public_subnet(public: list[str], *, where: str) -> Iterator[Problem]:
    """The problem with attaching an endpoint to these public subnets, given by their paths."""
    if not public:
        return
    yield NETWORK_PRIVATE_SUBNETS.problem(
        what=f"{', '.join(public)} {'is a public subnet' if len(public) == 1 else 'are public subnets'}",
        where=where,
        expected="only private subnets",
        why="instances have no public address, so an internet gateway does not help",
        fix="use vpc.private_subnets or vpc.isolated_subnets, or remove the subnets",
    )


NETWORK_ID = Check(
    id="network-id",
    source="2026-11-23: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html",
)
"""The ids of a network are those of a VPC, of subnets and of security groups."""

_KINDS = {"vpc": "VPC", "subnet": "subnet", "sg": "security group"}


def network_id(given: str | None, *, kind: str, where: str) -> Iterator[Problem]:
    """The problem with an id; None if it is known only at deployment.

    Args:
        given: The id.
        kind: Its first part: vpc, subnet or sg.
        where: The place that the problem names.
    """
    if given is None or re.fullmatch(rf"{kind}-([0-9a-f]{{8}}|[0-9a-f]{{17}})", given):
        return
    yield NETWORK_ID.problem(
        what=f"the {_KINDS[kind]} is {given[:80]!a}",
        where=where,
        expected=f"the id of a {_KINDS[kind]}, such as {kind}-0123456789abcdef0",
        why="a name or an ARN stands in no permission or configuration of a network",
        fix="copy the id from the console of the VPC",
    )
