"""The arguments of the verbs that show a change before it is deployed."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.base.outcome import Outcome
from triton_models.cli.options import NAME_HELP, add_models, add_repository


def rehearse(parser: argparse.ArgumentParser) -> None:
    """Deploy, build, serve and verify on this machine."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "names",
        nargs="*",
        default=[],
        metavar="NAME",
        help=f"{NAME_HELP} (default: the models that the stack builds)",
    )
    chosen.add_argument("--all", action="store_true", help="rehearse every model under model_builds/models/")
    chosen.add_argument(
        "--scenario",
        metavar="FILE",
        help="play traffic and faults on small models: a YAML file, or an included scenario such as thrash",
    )
    parser.add_argument(
        "--stage", metavar="NAME", help="a stage in cdk.json (default: the first one, if there are stages)"
    )
    parser.add_argument(
        "--gpu-memory",
        metavar="SIZE",
        help="the memory for models of each GPU, such as 500MiB, to see models evicted (default: that of the "
        "deployed instance type)",
    )
    parser.add_argument(
        "--stay", action="store_true", help="keep everything running until Ctrl-C, and serve a page about it"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="write that page to FILE, an .html that needs no network"
    )
    parser.add_argument("--port", type=int, default=0, help="the embedded AWS's port (default: a free one)")
    parser.set_defaults(run=_rehearse, extra="rehearse")


def _rehearse(arguments: argparse.Namespace) -> Outcome:
    from triton_rehearsal.rehearse.command import run

    return run(arguments)


def smoke(parser: argparse.ArgumentParser) -> None:
    """Send every declared example to a deployed fleet and compare the answers."""
    parser.add_argument(
        "names", nargs="*", default=[], metavar="NAME", help=f"{NAME_HELP} (default: all that are published)"
    )
    parser.add_argument(
        "--alias",
        required=True,
        metavar="NAME",
        help="the fleet's alias, such as /triton-fleet/TritonFleet/endpoint: the output EndpointAlias",
    )
    parser.add_argument(
        "--tested",
        type=Path,
        metavar="FILE",
        help="write the names and digests of the artifacts that answered, for `fleet promote --only FILE`",
    )
    add_models(parser)
    add_repository(parser)
    parser.set_defaults(run=_smoke, extra="rehearse")


def _smoke(arguments: argparse.Namespace) -> Outcome:
    from triton_rehearsal.rehearse.smoke import run

    return run(arguments)


def report(parser: argparse.ArgumentParser) -> None:
    """Describe what a change does to the deployed fleet."""
    parser.add_argument(
        "--base", required=True, metavar="REF", help="the commit to compare with, such as origin/main"
    )
    parser.add_argument(
        "--install-base",
        action="store_true",
        help="synthesize the base with the version of triton-fleet that it requires, which is installed",
    )
    parser.add_argument("--head", metavar="REF", help="the commit to report on (default: the working tree)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the report to this file")
    add_repository(parser)
    parser.set_defaults(run=_report, extra="rehearse")


def _report(arguments: argparse.Namespace) -> Outcome:
    from triton_report.command import run

    return run(arguments)
