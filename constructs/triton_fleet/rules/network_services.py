"""Every AWS service that the instances need is reached in exactly one way."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from triton_models.base.errors import Problem

RULES = ("network-endpoint-twice", "network-models-unreachable", "network-route-tables")
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html"


def stated_once(created: Collection[str], existing: Collection[str], *, where: str) -> Iterator[Problem]:
    """The problems with creating VPC endpoints that are said to exist."""
    for service in sorted(set(created) & set(existing)):
        yield Problem(
            what=f"the VPC endpoint for {service} is both to be created and said to exist",
            where=where,
            expected="each service in one of the two",
            why="a second endpoint for a service is refused: its private name, or its route, is taken",
            fix=f"leave {service} out of create_vpc_endpoints or out of existing_vpc_endpoints",
            rule="network-endpoint-twice",
        )


def models_reachable(reached: Collection[str], *, isolated: bool, where: str) -> Problem | None:
    """The problem with reading models from isolated subnets when only these services have VPC endpoints."""
    if not isolated or "s3" in reached:
        return None
    return Problem(
        what="isolated subnets have no way to S3",
        where=where,
        expected="a gateway endpoint for S3, created here or there already",
        why="instances could download no model: the endpoint reports InService and every invocation fails",
        fix="add VpcService.S3 to create_vpc_endpoints, or to existing_vpc_endpoints if there is one",
        rule="network-models-unreachable",
    )


def route_tables_known(unknown: Collection[str], *, where: str) -> Problem | None:
    """The problem with creating a gateway endpoint for subnets whose route tables are not known."""
    if not unknown:
        return None
    return Problem(
        what=f"the route tables of {', '.join(unknown)} are not known",
        where=where,
        expected="a route table id for each subnet",
        why="a gateway endpoint is a route in each of them",
        fix="give Vpc.from_vpc_attributes the route table ids too, or add VpcService.S3 to "
        "existing_vpc_endpoints if the VPC has its gateway endpoint",
        rule="network-route-tables",
    )
