"""The arguments of the verbs that make models."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.cli.options import (
    NAME_HELP,
    add_account,
    add_instance_type,
    add_models,
    add_output,
    add_repository,
    add_target,
    count,
    seconds,
)


def new(parser: argparse.ArgumentParser) -> None:
    """`fleet new`."""
    parser.add_argument("name", metavar="NAME", help="the new model's name")
    parser.add_argument("--like", required=True, metavar="FOLDER", help="the model build to copy")
    add_models(parser)


def build(parser: argparse.ArgumentParser) -> None:
    """`fleet build`."""
    parser.add_argument("names", nargs="+", metavar="NAME", help=NAME_HELP)
    add_output(parser, default=Path("build"))
    add_target(parser)
    add_models(parser)
    parser.add_argument(
        "--timing-cache",
        metavar="PLACE",
        help="keep TensorRT's measured times in this folder or under s3://bucket/prefix/, for faster builds "
        "(default: the environment variable FLEET_TIMING_CACHE)",
    )
    parser.add_argument(
        "--compile-timeout",
        type=seconds,
        metavar="SECONDS",
        help="end a compilation of a plan that takes longer (default: an hour)",
    )
    add_account(parser)


def check(parser: argparse.ArgumentParser) -> None:
    """`fleet check`."""
    from triton_models.check.target import ENDPOINTS

    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="a built model, a Triton model directory, a model repository or a .tar.gz",
    )
    parser.add_argument(
        "--release",
        help="check for this Triton release, such as 25.09 (default: the one it was built for, if any)",
    )
    hardware = parser.add_mutually_exclusive_group()
    hardware.add_argument(
        "--gpu", help="check for this GPU, such as A10G (default: the one it was built for, if any)"
    )
    add_instance_type(hardware)
    parser.add_argument(
        "--endpoint-kind",
        choices=ENDPOINTS,
        help="check for a SageMaker endpoint of this kind, which loads models with configuration "
        "auto-complete off (default: multi-model for what `fleet build` made; a Triton server of your own "
        "for everything else)",
    )


def verify(parser: argparse.ArgumentParser) -> None:
    """`fleet verify`."""
    parser.add_argument("roots", nargs="+", type=Path, metavar="ROOT", help="a model that `fleet build` made")
    add_models(parser)
    parser.add_argument(
        "--tritonserver",
        type=Path,
        metavar="PATH",
        help="the server (default: the one on PATH, otherwise the one of NVIDIA's images)",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="append what the server prints to this file")
    add_account(parser)


def compare(parser: argparse.ArgumentParser) -> None:
    """`fleet compare`."""
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"{NAME_HELP}; a folder stands for all of its forms"
    )
    parser.add_argument(
        "--requests", type=count, default=50, metavar="N", help="requests per model (default: %(default)s)"
    )
    parser.add_argument(
        "--concurrency", type=count, default=4, metavar="N", help="callers at once (default: %(default)s)"
    )
    parser.add_argument(
        "--cold-starts",
        type=count,
        default=3,
        metavar="N",
        help="cold starts per model (default: %(default)s)",
    )
    parser.add_argument(
        "--endpoint",
        metavar="NAME",
        help="measure a deployed endpoint, which serves what --repository holds (default: models built now, "
        "by the rehearsal's server on this machine)",
    )
    add_models(parser)
    add_repository(parser)


def merge(parser: argparse.ArgumentParser) -> None:
    """`fleet merge`."""
    parser.add_argument(
        "roots",
        nargs="+",
        type=Path,
        metavar="ROOT",
        help="one model as `fleet build --gpu` made it, or packed: a root per GPU model",
    )
    add_output(parser)


def pack(parser: argparse.ArgumentParser) -> None:
    """`fleet pack`."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a built model or a Triton model directory"
    )
    add_output(parser)
    parser.add_argument(
        "--copies",
        type=count,
        default=0,
        metavar="N",
        help="pack each as N models called NAME-1, NAME-2, ..., to see many share an endpoint",
    )
