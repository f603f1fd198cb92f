"""The start time of the `fleet` command."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.ratio import Ratio, measure


def ratios(*, short: bool) -> list[Ratio]:
    """`fleet --help` against a command line that imports what its verbs need at the top."""
    eager = """
import boto3, google.protobuf, tritonclient.http
from triton_models.cli.main import main
main(['--help'])
"""
    return [
        measure(
            "fleet --help",
            ours=("verbs import what they need", lambda: _run("-m", "triton_models", "--help")),
            theirs=("imports at the top", lambda: _run("-c", eager)),
            pairs=7,
            short=short,
        )
    ]


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
