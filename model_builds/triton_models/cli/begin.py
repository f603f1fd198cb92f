"""The arguments of `fleet init`."""

from __future__ import annotations

import argparse
from pathlib import Path


def init(parser: argparse.ArgumentParser) -> None:
    """`fleet init`."""
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
