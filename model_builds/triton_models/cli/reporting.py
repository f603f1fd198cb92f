"""The arguments of the verb that compares two revisions."""

from __future__ import annotations

import argparse
from pathlib import Path


def report(parser: argparse.ArgumentParser) -> None:
    """`fleet report`."""
    parser.add_argument(
        "--base", required=True, metavar="REF", help="the commit to compare with: origin/main"
    )
    parser.add_argument("--head", metavar="REF", help="the commit to report on (default: the working tree)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the Markdown there as well")
    parser.add_argument(
        "--repository", metavar="URL", help="ask this model repository for the sizes of what is published"
    )
