"""The instances of an endpoint are attached to private subnets, and those are known."""

from __future__ import annotations

from triton_models.base.errors import Problem

RULE = "network-private-subnets"
# Read on 2026-11-21.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/host-vpc.html"


def some_subnets(chosen: int, *, vpc_has_public: bool, where: str) -> Problem | None:
    """The problem with attaching an endpoint to this many private subnets.

    Args:
        chosen: How many subnets were found or given.
        vpc_has_public: Whether the VPC has public ones, so that it is not an import that names none at all.
        where: What the problem is reported for.
    """
    if chosen:
        return None
    if vpc_has_public:
        what = "the VPC has public subnets only"
        fix = "add isolated subnets to the VPC (SubnetType.PRIVATE_ISOLATED): they need no NAT gateway"
    else:
        what = "the VPC names no subnets"
        fix = (
            "give Vpc.from_vpc_attributes the private_subnet_ids or isolated_subnet_ids, with their "
            "route table ids; a look-up finds them only with an account and a region"
        )
    return Problem(
        what=what,
        where=where,
        expected="one private subnet or more",
        why="SageMaker attaches each instance to a subnet, and gives it no public address there",
        fix=fix,
        rule=RULE,
    )


def no_public_subnet(public: list[str], *, where: str) -> Problem | None:
    """The problem with attaching an endpoint to these public subnets, given by their paths."""
    if not public:
        return None
    return Problem(
        what=f"public subnets were chosen: {', '.join(public)}",
        where=where,
        expected="private subnets only",
        why="an instance gets no public address, so a route to an internet gateway leads it nowhere",
        fix="give vpc.private_subnets or vpc.isolated_subnets, or leave the subnets out",
        rule=RULE,
    )
