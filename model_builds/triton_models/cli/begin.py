"""The arguments of `fleet init`."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.base.outcome import Outcome


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
    parser.set_defaults(run=_init)


def _init(arguments: argparse.Namespace) -> Outcome:
    from triton_models.cli.starter.init import run

    return run(arguments)
