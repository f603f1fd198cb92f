"""The arguments of the verbs that make artifacts."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.cli.numbers import count, seconds

NAME_HELP = "a folder under model_builds/models/, or folder:form for another form of its network"


def build(parser: argparse.ArgumentParser) -> None:
    """`fleet build`."""
    from triton_models.facts.releases import DEFAULT_RELEASE

    parser.add_argument("names", nargs="+", metavar="NAME", help=NAME_HELP)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("build"), metavar="DIR", help="default: %(default)s"
    )
    hardware = parser.add_mutually_exclusive_group()
    hardware.add_argument(
        "--gpu", help="compile for this GPU, such as A10G; without it the build is portable"
    )
    hardware.add_argument(
        "--cpu",
        action="store_true",
        help="build for instances without a GPU: ONNX Runtime in the place of TensorRT",
    )
    parser.add_argument(
        "--release", default=DEFAULT_RELEASE, help="the Triton release to build for (default: %(default)s)"
    )
    parser.add_argument("--models", type=Path, metavar="DIR", help="the folder that holds the model builds")
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
    hardware.add_argument(
        "--instance-type",
        metavar="TYPE",
        help="check for this instance type, such as ml.g5.2xlarge: its GPU model and their number",
    )
    parser.add_argument(
        "--endpoint",
        choices=ENDPOINTS,
        help="check for a SageMaker endpoint of this kind, which loads with configuration auto-complete off; "
        "by default what `fleet build` made is checked for the multi-model endpoint that it is made for, and "
        "everything else as a Triton server of your own takes it, so that a repository that works passes",
    )


def verify(parser: argparse.ArgumentParser) -> None:
    """`fleet verify`."""
    parser.add_argument("roots", nargs="+", type=Path, metavar="ROOT", help="a model that `fleet build` made")
    parser.add_argument("--models", type=Path, metavar="DIR", help="the folder that holds the model builds")
    parser.add_argument(
        "--tritonserver",
        type=Path,
        metavar="PATH",
        help="the server (default: the one on PATH, else the one of NVIDIA's images)",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="add what the server prints to this file")


def merge(parser: argparse.ArgumentParser) -> None:
    """`fleet merge`."""
    parser.add_argument(
        "roots",
        nargs="+",
        type=Path,
        metavar="ROOT",
        help="one model as `fleet build --gpu` made it, or packed: a root for each GPU model",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="where to write")


def pack(parser: argparse.ArgumentParser) -> None:
    """`fleet pack`."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a built model or a Triton model directory"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="where to write")
    parser.add_argument(
        "--copies",
        type=count,
        default=0,
        metavar="N",
        help="pack each as N models called NAME-1, NAME-2, ..., to see many share an endpoint",
    )


def new(parser: argparse.ArgumentParser) -> None:
    """`fleet new`."""
    parser.add_argument("name", metavar="NAME", help="the new model's name")
    parser.add_argument("--like", required=True, metavar="FOLDER", help="the model build to begin from")
    parser.add_argument("--models", type=Path, metavar="DIR", help="the folder that holds the model builds")
