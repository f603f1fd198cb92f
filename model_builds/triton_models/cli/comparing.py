"""The arguments of `fleet compare`."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.cli.making import NAME_HELP
from triton_models.cli.numbers import count
from triton_models.cli.repository import add_repository


def compare(parser: argparse.ArgumentParser) -> None:
    """`fleet compare`."""
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"{NAME_HELP}; a folder stands for all of its forms"
    )
    parser.add_argument(
        "--requests", type=count, default=50, metavar="N", help="of each model (default: %(default)s)"
    )
    parser.add_argument(
        "--concurrency", type=count, default=4, metavar="N", help="callers at once (default: %(default)s)"
    )
    parser.add_argument(
        "--cold-starts", type=count, default=3, metavar="N", help="of each model (default: %(default)s)"
    )
    parser.add_argument(
        "--endpoint",
        metavar="NAME",
        help="measure a deployed endpoint, which serves what --repository holds (default: models built now, "
        "by the rehearsal's server on this machine)",
    )
    parser.add_argument("--models", type=Path, metavar="DIR", help="the folder that holds the model builds")
    add_repository(parser)
