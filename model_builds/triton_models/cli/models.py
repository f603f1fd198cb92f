"""The arguments of the verbs that make models, on this machine and in a build job."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.cli.options import (
    NAME_HELP,
    add_account,
    add_count,
    add_instance_type,
    add_models,
    add_output,
    add_portable,
    add_repository,
    add_target,
    count,
    seconds,
)

_MODEL_SECONDS = 3600.0


def init(parser: argparse.ArgumentParser) -> None:
    """Begin a repository of your own, or upgrade one."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="the repository's folder: new or empty")
    parser.add_argument(
        "--name", metavar="NAME", help="the fleet's name, the prefix of its stacks (default: the folder's)"
    )
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help="the models to begin with (default: minilm)"
    )
    parser.add_argument(
        "--upgrade",
        action="store_true",
        help="show what this version would write differently into a repository that `fleet init` wrote",
    )
    parser.add_argument(
        "--write", action="store_true", help="with --upgrade: write the files that you have not edited"
    )
    parser.set_defaults(run="triton_models.cli.starter.init")


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
    parser.set_defaults(run="triton_models.cli.starter.new")


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
    parser.set_defaults(run="triton_models.cli.starter.adopted")


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
    parser.set_defaults(run="triton_models.builds.build", extra="build")


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
    parser.add_argument(
        "--fits",
        metavar="TYPE",
        help="say how many of them an instance of this type, such as ml.g5.xlarge, holds at a time",
    )
    parser.add_argument(
        "--hot",
        nargs="+",
        default=[],
        metavar="MODEL",
        help="with --fits: check that these models fit together, next to the largest other one",
    )
    _add_served_by(parser)
    parser.set_defaults(run="triton_models.check.check")


def verify(parser: argparse.ArgumentParser) -> None:
    """Compare the answers of models with their source."""
    parser.add_argument(
        "roots", nargs="+", type=Path, metavar="ROOT", help="a model that `fleet build` wrote"
    )
    add_models(parser)
    _add_server(parser)
    add_account(parser)
    parser.set_defaults(run="triton_models.deliver.verify.verify")


def _add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tritonserver",
        type=Path,
        metavar="PATH",
        help="the server (default: the one on PATH, otherwise that of NVIDIA's images)",
    )
    parser.add_argument("--log", type=Path, metavar="FILE", help="append the server's output to this file")


def census(parser: argparse.ArgumentParser) -> None:
    """Measure the memory and the times of models on this machine's GPU, or on an endpoint."""
    parser.add_argument(
        "roots",
        nargs="*",
        type=Path,
        metavar="ROOT",
        help="a model that `fleet build` wrote; with --endpoint, the name of a published one (default: all)",
    )
    parser.add_argument(
        "--endpoint", metavar="NAME", help="load published models on this endpoint of one instance instead"
    )
    add_count(parser, "--cycles", "loads of each model, at least 2; ten or more find what leaks", default=3)
    parser.add_argument(
        "--here", action="store_true", help="measure the host's memory and times, on a machine without a GPU"
    )
    add_models(parser)
    _add_server(parser)
    add_repository(parser)
    parser.set_defaults(run="triton_models.deliver.census", extra="build")


def compare(parser: argparse.ArgumentParser) -> None:
    """Measure size, cold start and latency of models."""
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"{NAME_HELP}; a folder means all of its forms"
    )
    add_count(parser, "--requests", "requests per model", default=50)
    add_count(parser, "--concurrency", "concurrent callers", default=4)
    add_count(parser, "--cold-starts", "cold starts per model", default=3)
    where = parser.add_mutually_exclusive_group()
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write what an endpoint or a GPU took, as JSON for the docs",
    )
    where.add_argument(
        "--endpoint",
        metavar="NAME",
        help="measure a deployed endpoint, which serves the artifacts in --repository (default: build the "
        "models, and measure them on this machine)",
    )
    where.add_argument(
        "--gpu",
        metavar="GPU",
        help="print the least time that each network's arithmetic and bytes need on a GPU; in the Triton "
        "image on a machine with that GPU, also build and measure the models there",
    )
    add_models(parser)
    add_repository(parser)
    parser.set_defaults(run="triton_rehearsal.compare.command", extra="rehearse")


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
    parser.set_defaults(run="triton_models.deliver.pack")


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
    parser.set_defaults(run="triton_models.deliver.deliver")


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
    add_count(parser, "--models-per-build", "the maximum number of models per item of --items", default=1)
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="write broken models to this file, or s3://bucket/key, for `fleet summarize`, and exit with 0",
    )
    add_repository(parser)
    parser.set_defaults(run="triton_models.deliver.diff")


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
    parser.set_defaults(run="triton_models.deliver.results")


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
