"""The arguments of the verbs that check an AWS account."""

from __future__ import annotations

import argparse

from triton_models.base.outcome import Outcome
from triton_models.cli.options import add_account, add_instance_type, add_repository, count


def check_endpoint(parser: argparse.ArgumentParser) -> None:
    """Find models that an endpoint could not load."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these models")
    parser.add_argument(
        "--endpoint", metavar="NAME", help="a deployed endpoint; its instance type and release are looked up"
    )
    add_instance_type(parser)
    parser.add_argument("--release", help="the endpoint's Triton release, such as 25.09")
    add_repository(parser)
    parser.set_defaults(run=_check_endpoint)


def _check_endpoint(arguments: argparse.Namespace) -> Outcome:
    from triton_models.repository.check_endpoint import run

    return run(arguments)


def check_quotas(parser: argparse.ArgumentParser) -> None:
    """Find service quotas that are too low for a fleet."""
    from triton_models.facts.quota_needs import DEFAULT_MAX_CAPACITY, MACHINES

    add_instance_type(parser, required=True)
    parser.add_argument(
        "--max-capacity",
        type=count,
        default=DEFAULT_MAX_CAPACITY,
        metavar="N",
        help="the maximum number of instances of the endpoint, as in cdk.json (default: %(default)s)",
    )
    parser.add_argument(
        "--parallel-builds",
        type=count,
        default=1,
        metavar="N",
        help="the maximum number of concurrent builds, as in cdk.json (default: %(default)s)",
    )
    parser.add_argument(
        "--machine",
        choices=MACHINES,
        default=MACHINES[0],
        help="the machine that builds run on (default: the build job's choice for the GPU and the region)",
    )
    parser.add_argument(
        "--build-instance-type",
        metavar="TYPE",
        help="the instance type of Processing jobs, if it is not the endpoint's",
    )
    parser.add_argument(
        "--fleet",
        metavar="NAME",
        help="a deployed fleet, as in cdk.json: its own endpoints do not count as used by others",
    )
    add_account(parser)
    parser.set_defaults(run=_check_quotas)


def _check_quotas(arguments: argparse.Namespace) -> Outcome:
    from triton_models.facts.quotas import run

    return run(arguments)
