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
"""An AWS account is named by its number."""

_ACCOUNT = re.compile(r"[0-9]{12}")


def account_id(account: str | None, *, where: str) -> Iterator[Problem]:
    """The problem with an account's id; None is one not known yet, or none at all."""
    if account is None or _ACCOUNT.fullmatch(account):
        return
    yield ACCOUNT_ID.problem(
        what=f"the account is {account[:60]!a}",
        where=where,
        expected="12 digits, such as 123456789012",
        why="ARNs are made with it: a policy that names no account there is allows nothing",
        fix="give the account's id, not its alias or its name",
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
"""Every AWS service that the instances need is reached in exactly one way."""


def stated_once(created: Collection[str], existing: Collection[str], *, where: str) -> Iterator[Problem]:
    """The problems with creating VPC endpoints that are said to exist."""
    for service in sorted(set(created) & set(existing)):
        yield NETWORK_ENDPOINT_TWICE.problem(
            what=f"the VPC endpoint for {service} is both to be created and said to exist",
            where=where,
            expected="each service in one of the two",
            why="AWS refuses a second endpoint: its private name, or its route, is taken",
            fix=f"leave {service} out of create_vpc_endpoints or out of existing_vpc_endpoints",
        )


def models_reachable(reached: Collection[str], *, isolated: bool, where: str) -> Iterator[Problem]:
    """The problem with reading models from isolated subnets when only these services have VPC endpoints."""
    if not isolated or "s3" in reached:
        return
    yield NETWORK_MODELS_UNREACHABLE.problem(
        what="isolated subnets have no way to S3",
        where=where,
        expected="a gateway endpoint for S3, created here or there already",
        why="instances could download no model: the endpoint reports InService and every invocation fails",
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
        why="a gateway endpoint is a route in each of them",
        fix="give Vpc.from_vpc_attributes the route table ids too, or add VpcService.S3 to "
        "existing_vpc_endpoints if the VPC has its gateway endpoint",
    )


NETWORK_PRIVATE_SUBNETS = Check(
    id="network-private-subnets",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html",
)
"""The instances of an endpoint are attached to private subnets, and those are known."""


def some_subnets(chosen: int, *, vpc_has_public: bool, where: str) -> Iterator[Problem]:
    """The problem with attaching an endpoint to this many private subnets.

    Args:
        chosen: How many subnets were found or given.
        vpc_has_public: Whether the VPC has public ones, so that it is not an import that names none at all.
        where: What the problem is reported for.
    """
    if chosen:
        return
    if vpc_has_public:
        what = "the VPC has public subnets only"
        fix = "add isolated subnets to the VPC (SubnetType.PRIVATE_ISOLATED): they need no NAT gateway"
    else:
        what = "the VPC names no subnets"
        fix = (
            "give Vpc.from_vpc_attributes the private_subnet_ids or isolated_subnet_ids, with their "
            "route table ids; a look-up finds them only with an account and a region"
        )
    yield NETWORK_PRIVATE_SUBNETS.problem(
        what=what,
        where=where,
        expected="one private subnet or more",
        why="SageMaker attaches each instance to a subnet, and gives it no public address there",
        fix=fix,
    )


def no_public_subnet(public: list[str], *, where: str) -> Iterator[Problem]:
    """The problem with attaching an endpoint to these public subnets, given by their paths."""
    if not public:
        return
    yield NETWORK_PRIVATE_SUBNETS.problem(
        what=f"public subnets were chosen: {', '.join(public)}",
        where=where,
        expected="private subnets only",
        why="an instance gets no public address, so an internet gateway does not help",
        fix="give vpc.private_subnets or vpc.isolated_subnets, or leave the subnets out",
    )
