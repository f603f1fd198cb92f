"""The arguments of the verbs that make and publish many models."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.cli.making import NAME_HELP
from triton_models.cli.numbers import count, seconds
from triton_models.cli.repository import add_repository

_MODEL_SECONDS = 3600.0


def deliver(parser: argparse.ArgumentParser) -> None:
    """`fleet deliver`."""
    parser.add_argument("names", nargs="+", metavar="NAME", help=NAME_HELP)
    _add_target(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="keep what is built and packed there (default: it is removed once it is published)",
    )
    parser.add_argument(
        "--verdicts",
        metavar="FILE",
        help="write what became of each model there: a file, or s3://bucket/key; also when interrupted",
    )
    parser.add_argument(
        "--model-timeout",
        type=seconds,
        default=_MODEL_SECONDS,
        metavar="SECONDS",
        help="a model that takes longer has failed, and the next one begins (default: %(default)g)",
    )
    parser.add_argument(
        "--logs",
        type=Path,
        default=Path("build") / ".logs",
        metavar="DIR",
        help="gets a log for each model; in CodeBuild and Processing jobs the job's own log has all "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--portable",
        action="store_true",
        help="accept artifacts built without a GPU, for a rehearsal (also: FLEET_PORTABLE=1)",
    )
    parser.add_argument(
        "--unverified",
        action="store_true",
        help="publish without asking a Triton server, where there is none",
    )
    add_repository(parser)


def changed(parser: argparse.ArgumentParser) -> None:
    """`fleet changed`."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("names", nargs="*", default=[], metavar="NAME", help=NAME_HELP)
    which.add_argument(
        "--all", action="store_true", help="every folder under model_builds/models/; forms only by name"
    )
    _add_target(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help='write there what to build, as [{"models": "minilm resnet50"}, ...]: a file, or s3://bucket/key',
    )
    parser.add_argument(
        "--models-per-build",
        type=count,
        default=1,
        metavar="N",
        help="the most models in one item of --output (default: %(default)s)",
    )
    parser.add_argument(
        "--verdicts",
        metavar="FILE",
        help="write there what is broken, for `fleet verdicts`, and end with 0: a file, or s3://bucket/key",
    )
    add_repository(parser)


def verdicts(parser: argparse.ArgumentParser) -> None:
    """`fleet verdicts`."""
    parser.add_argument(
        "place",
        metavar="URL",
        help="a folder, or s3://bucket/prefix/, of documents that `fleet deliver --verdicts` wrote",
    )
    parser.add_argument(
        "--items",
        metavar="FILE",
        help="what `fleet changed -o` wrote: a model of it without a verdict has failed",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="write the summary there as well: a file, or s3://bucket/key"
    )


def _add_target(parser: argparse.ArgumentParser) -> None:
    """What models are built for, and where their declarations are."""
    from triton_models.facts.releases import DEFAULT_RELEASE

    hardware = parser.add_mutually_exclusive_group()
    hardware.add_argument("--gpu", help="for this GPU, such as A10G; without it builds are portable")
    hardware.add_argument("--cpu", action="store_true", help="for instances without a GPU")
    parser.add_argument(
        "--release", default=DEFAULT_RELEASE, help="for this Triton release (default: %(default)s)"
    )
    parser.add_argument("--models", type=Path, metavar="DIR", help="the folder that holds the model builds")
