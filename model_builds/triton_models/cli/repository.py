"""The arguments of the verbs that read or change a model repository."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def publish(parser: argparse.ArgumentParser) -> None:
    """`fleet publish`."""
    parser.add_argument(
        "artifacts", nargs="+", type=Path, metavar="ARTIFACT", help="a .tar.gz that `fleet pack` wrote"
    )
    parser.add_argument(
        "--portable",
        action="store_true",
        help="accept artifacts built without a GPU, for a rehearsal (also: FLEET_PORTABLE=1)",
    )
    _add_target(parser, "the target whose names move: sm86-trt10.13.3 (default: all that they run on)")
    add_repository(parser)


def releases(parser: argparse.ArgumentParser) -> None:
    """`fleet releases`."""
    parser.add_argument("models", nargs="*", metavar="NAME", help="only these models")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="read every artifact, and compare its SHA-256",
    )
    add_repository(parser)


def rollback(parser: argparse.ArgumentParser) -> None:
    """`fleet rollback`."""
    parser.add_argument("model", metavar="NAME", help="the model")
    parser.add_argument(
        "--to", metavar="ARTIFACT", help="its file name or digest (default: the one before the current one)"
    )
    _add_target(parser, "the target on which: sm86-trt10.13.3 (default: every one that has an earlier one)")
    add_repository(parser)


def prune(parser: argparse.ArgumentParser) -> None:
    """`fleet prune`."""
    parser.add_argument(
        "--keep", type=int, required=True, metavar="N", help="how many of each model's newest artifacts stay"
    )
    parser.add_argument(
        "--older-than",
        type=int,
        default=7,
        metavar="DAYS",
        help="delete only what has not been current for so long (default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    parser.add_argument("--resume", action="store_true", help="finish what an interrupted run left")
    add_repository(parser)


def preflight(parser: argparse.ArgumentParser) -> None:
    """`fleet preflight`."""
    parser.add_argument("models", nargs="*", metavar="NAME", help="only these models")
    parser.add_argument("--endpoint", metavar="NAME", help="a deployed endpoint, which is asked what it is")
    parser.add_argument("--instance-type", metavar="TYPE", help="what the endpoint runs on: ml.g5.2xlarge")
    parser.add_argument("--release", help="the Triton release that it serves with: 25.09")
    add_repository(parser)


def _add_target(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--target", metavar="TARGET", help=text)


def add_repository(parser: argparse.ArgumentParser) -> None:
    """The --repository that every verb here takes."""
    parser.add_argument(
        "--repository",
        default=os.environ.get("FLEET_REPOSITORY"),
        metavar="URL",
        help="the model repository, s3://bucket/prefix/ (default: the environment variable FLEET_REPOSITORY)",
    )
