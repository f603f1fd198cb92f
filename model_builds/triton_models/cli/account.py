"""The arguments of the verbs that check an AWS account or a GPU."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.cli.options import (
    NAME_HELP,
    add_account,
    add_instance_type,
    add_models,
    add_repository,
    count,
)


def check_endpoint(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `fleet check-endpoint`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these models")
    parser.add_argument(
        "--endpoint", metavar="NAME", help="a deployed endpoint; its instance type and release are looked up"
    )
    add_instance_type(parser)
    parser.add_argument("--release", help="the endpoint's Triton release, such as 25.09")
    add_repository(parser)


def check_quotas(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `fleet check-quotas`."""
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


def probe(parser: argparse.ArgumentParser) -> None:
    """`fleet probe gpu` and `fleet probe account`."""
    places = parser.add_subparsers(dest="place", metavar="PLACE", required=True)
    _gpu(_place(places, "gpu", "probe this machine's GPU, inside the image of a release"))
    _account(_place(places, "account", "probe an AWS account with temporary resources"))


def _place(
    places: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    """Add the parser of one place, with the options of all places."""
    parser = places.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
    parser.add_argument(
        "--only", nargs="+", metavar="ID", help="run only these probes; the id of a probe, or of a belief"
    )
    parser.add_argument(
        "--transcript",
        type=Path,
        metavar="FILE",
        help="write the transcript to this file (default: probe-*.json)",
    )
    # `fleet probe` has this option as well, and sets its default.
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print the result as one JSON document"
    )
    return parser


def _gpu(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"{NAME_HELP}; built and verified (default: all)"
    )
    parser.add_argument("--release", help="the release that this image should have (default: any)")
    parser.add_argument("--gpu", help="the GPU that this machine should have, such as A10G (default: any)")
    add_models(parser)


def _account(parser: argparse.ArgumentParser) -> None:
    from triton_models.facts.releases import DEFAULT_RELEASE

    parser.epilog = (
        "Before it starts, it lists the resources, the duration and the cost, and asks for confirmation. "
        "Without --only and --all it runs the cheap probes: under 15 minutes and 2 USD. It always removes "
        "what it created. After a crash, use --clean, which reads its journal in "
        "~/.local/state/triton-fleet. The page about probes, which `make docs` builds, "
        "has the permissions that they need."
    )
    parser.add_argument(
        "--release", default=DEFAULT_RELEASE, help="the Triton release (default: %(default)s)"
    )
    parser.add_argument(
        "--instance-type",
        default="ml.g5.2xlarge",
        metavar="TYPE",
        help="the instance type of the endpoint and of the Processing job (default: %(default)s)",
    )
    parser.add_argument(
        "--all", action="store_true", help="run every probe, which takes less than an hour and 10 USD"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--resume", action="store_true", help="continue the account's latest interrupted run"
    )
    instead.add_argument(
        "--clean", action="store_true", help="remove what earlier runs left in the account, without probing"
    )
    add_account(parser)
