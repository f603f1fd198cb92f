"""The arguments of the verbs that serve models on this machine."""

from __future__ import annotations

import argparse


def rehearse(parser: argparse.ArgumentParser) -> None:
    """`fleet rehearse`."""
    parser.add_argument("--stay", action="store_true", help="keep everything running until Ctrl-C")
    parser.add_argument("--port", type=int, default=0, help="of the embedded AWS (default: a free one)")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--models",
        nargs="+",
        metavar="NAME",
        help="these models, or folder:form (default: those that the stack builds)",
    )
    chosen.add_argument("--all", action="store_true", help="every model under model_builds/models/")
