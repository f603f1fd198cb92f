"""The arguments of the verbs that make models."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.base.outcome import Outcome
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
    """Start a model build: a copy, from a file, or minimal."""
    parser.add_argument("name", metavar="NAME", help="the new model's name")
    begin = parser.add_mutually_exclusive_group(required=True)
    begin.add_argument(
        "--like", metavar="FOLDER", help="copy this model build, or a model of `fleet init`, with new names"
    )
    begin.add_argument(
        "--onnx", type=Path, metavar="FILE", help="serve this ONNX file, with its names, types and shapes"
    )
    begin.add_argument("--forest", type=Path, metavar="FILE", help="serve this forest of XGBoost or LightGBM")
    begin.add_argument(
        "--minimal", action="store_true", help="declare a small PyTorch network in 20 lines, to edit"
    )
    add_models(parser)
    parser.set_defaults(run=_new)


def _new(arguments: argparse.Namespace) -> Outcome:
    from triton_models.cli.starter.new import run

    return run(arguments)


def adopt(parser: argparse.ArgumentParser) -> None:
    """Serve a Triton model directory as it is."""
    parser.add_argument(
        "source",
        metavar="DIR",
        help="a model directory, a folder of those of an ensemble, or an archive; also s3://bucket/prefix/",
    )
    parser.add_argument("--name", metavar="NAME", help="the new model's name (default: the directory's)")
    parser.add_argument(
        "--requests",
        type=Path,
        metavar="FILE",
        help="recorded requests with their answers, which every build must reproduce: JSON lines with inputs "
        "and outputs",
    )
    _add_served_by(parser)
    add_models(parser)
    parser.set_defaults(run=_adopt)


def _adopt(arguments: argparse.Namespace) -> Outcome:
    from triton_models.cli.starter.adopted import run

    return run(arguments)


def build(parser: argparse.ArgumentParser) -> None:
    """Build models from their declarations."""
    parser.add_argument("names", nargs="+", metavar="NAME", help=NAME_HELP)
    add_output(parser, default=Path("build"))
    add_target(parser)
    add_models(parser)
    parser.add_argument(
        "--timing-cache",
        metavar="PLACE",
        help="keep TensorRT's measurements in this folder or under s3://bucket/prefix/, for faster builds "
        "(default: the environment variable FLEET_TIMING_CACHE)",
    )
    parser.add_argument(
        "--compile-timeout",
        type=seconds,
        metavar="SECONDS",
        help="stop compiling a plan after this time (default: an hour)",
    )
    add_account(parser)
    parser.set_defaults(run=_build, extra="build")


def _build(arguments: argparse.Namespace) -> Outcome:
    from triton_models.builds.build import run

    return run(arguments)


def check(parser: argparse.ArgumentParser) -> None:
    """Find what Triton or SageMaker would refuse."""
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
        help="check for this Triton release, such as 25.09 (default: the release of the build, if any)",
    )
    hardware = parser.add_mutually_exclusive_group()
    hardware.add_argument(
        "--gpu", help="check for this GPU, such as A10G (default: the GPU of the build, if any)"
    )
    add_instance_type(hardware)
    parser.add_argument(
        "--endpoint-kind",
        choices=ENDPOINTS,
        help="check for a SageMaker endpoint of this kind (default: multi-model for the output of "
        "`fleet build`, otherwise a Triton server of your own, which completes configurations)",
    )
    _add_served_by(parser)
    parser.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> Outcome:
    from triton_models.check.check import run

    return run(arguments)


def verify(parser: argparse.ArgumentParser) -> None:
    """Compare the answers of models with their source."""
    parser.add_argument(
        "roots", nargs="+", type=Path, metavar="ROOT", help="a model that `fleet build` wrote"
    )
    add_models(parser)
    parser.add_argument(
        "--tritonserver",
        type=Path,
        metavar="PATH",
        help="the server (default: the one on PATH, otherwise that of NVIDIA's images)",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="append the server's output to this file")
    add_account(parser)
    parser.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace) -> Outcome:
    from triton_models.deliver.verify.verify import run

    return run(arguments)


def compare(parser: argparse.ArgumentParser) -> None:
    """Measure size, cold start and latency of models."""
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"{NAME_HELP}; a folder means all of its forms"
    )
    parser.add_argument(
        "--requests", type=count, default=50, metavar="N", help="requests per model (default: %(default)s)"
    )
    parser.add_argument(
        "--concurrency", type=count, default=4, metavar="N", help="concurrent callers (default: %(default)s)"
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
        help="measure a deployed endpoint, which serves the artifacts in --repository (default: build the "
        "models, and measure them on this machine)",
    )
    add_models(parser)
    add_repository(parser)
    parser.set_defaults(run=_compare, extra="rehearse")


def _compare(arguments: argparse.Namespace) -> Outcome:
    from triton_rehearsal.compare.command import run

    return run(arguments)


def pack(parser: argparse.ArgumentParser) -> None:
    """Pack models into immutable artifacts."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a built model or a Triton model directory"
    )
    add_output(parser)
    parser.add_argument(
        "--copies",
        type=count,
        default=0,
        metavar="N",
        help="pack each model N times, as NAME-1, NAME-2, ..., to try many models on one endpoint",
    )
    parser.set_defaults(run=_pack)


def _pack(arguments: argparse.Namespace) -> Outcome:
    from triton_models.deliver.pack import run

    return run(arguments)


def _add_served_by(parser: argparse.ArgumentParser) -> None:
    """Add the arguments about a server that completes configurations or has more than NVIDIA's image."""
    parser.add_argument(
        "--auto-complete",
        action="store_true",
        help="the endpoint completes configurations too: TritonServer(auto_complete_config=True)",
    )
    parser.add_argument(
        "--image-adds",
        action="append",
        default=[],
        metavar="NAME",
        help="a Python module, backend or repository agent that the server has besides those of NVIDIA's "
        "image; may be repeated",
    )
