"""The arguments of the verbs that a build job runs, for many models."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.base.outcome import Outcome
from triton_models.cli.options import (
    NAME_HELP,
    add_account,
    add_models,
    add_portable,
    add_repository,
    add_target,
    count,
    seconds,
)

_MODEL_SECONDS = 3600.0


def deliver(parser: argparse.ArgumentParser) -> None:
    """Build, check, verify, pack and publish models one by one."""
    parser.add_argument("names", nargs="+", metavar="NAME", help=NAME_HELP)
    add_target(parser)
    add_models(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="the folder to write to (default: a temporary one, removed after publishing)",
    )
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="write the result of each model to this file, or s3://bucket/key, even if interrupted",
    )
    parser.add_argument(
        "--model-timeout",
        type=seconds,
        default=_MODEL_SECONDS,
        metavar="SECONDS",
        help="give up on a model after this time, and continue with the next one (default: %(default)g)",
    )
    parser.add_argument(
        "--logs",
        type=Path,
        default=Path("build") / ".logs",
        metavar="DIR",
        help="write a log per model; in CodeBuild and Processing jobs, the job's log contains all of them "
        "(default: %(default)s)",
    )
    add_portable(parser)
    parser.add_argument(
        "--unverified",
        action="store_true",
        help="publish without verifying, on a machine without a Triton server",
    )
    add_repository(parser)
    parser.set_defaults(run=_deliver)


def _deliver(arguments: argparse.Namespace) -> Outcome:
    from triton_models.deliver.deliver import run

    return run(arguments)


def diff(parser: argparse.ArgumentParser) -> None:
    """List the models that need a new build."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("names", nargs="*", default=[], metavar="NAME", help=NAME_HELP)
    which.add_argument(
        "--all", action="store_true", help="every folder under model_builds/models/, without its other forms"
    )
    add_target(parser)
    add_models(parser)
    parser.add_argument(
        "--items",
        metavar="FILE",
        help='write the models to build to this file, or s3://bucket/key: [{"models": "minilm resnet50"}, '
        "...]",
    )
    parser.add_argument(
        "--models-per-build",
        type=count,
        default=1,
        metavar="N",
        help="the maximum number of models per item of --items (default: %(default)s)",
    )
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="write broken models to this file, or s3://bucket/key, for `fleet summarize`, and exit with 0",
    )
    add_repository(parser)
    parser.set_defaults(run=_diff)


def _diff(arguments: argparse.Namespace) -> Outcome:
    from triton_models.deliver.diff import run

    return run(arguments)


def summarize(parser: argparse.ArgumentParser) -> None:
    """Summarize the results of many builds."""
    parser.add_argument(
        "place",
        metavar="URL",
        help="a folder, or s3://bucket/prefix/, with the files that `fleet deliver --results` wrote",
    )
    parser.add_argument(
        "--items",
        metavar="FILE",
        help="the file that `fleet diff --items` wrote: a model in it without a result has failed",
    )
    parser.add_argument(
        "--summary", metavar="FILE", help="also write the summary to this file, or s3://bucket/key"
    )
    add_account(parser)
    parser.set_defaults(run=_summarize)


def _summarize(arguments: argparse.Namespace) -> Outcome:
    from triton_models.deliver.results import run

    return run(arguments)
