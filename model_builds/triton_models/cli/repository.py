"""The arguments of the verbs that read or change a model repository."""

from __future__ import annotations

import argparse
from pathlib import Path

from triton_models.base.outcome import Outcome
from triton_models.cli.options import add_account, add_portable, add_repository


def publish(parser: argparse.ArgumentParser) -> None:
    """Upload artifacts and make them current."""
    parser.add_argument(
        "artifacts", nargs="+", type=Path, metavar="ARTIFACT", help="a .tar.gz that `fleet pack` wrote"
    )
    add_portable(parser)
    _add_target(
        parser,
        "make them current for this target only, such as sm86-trt10.13.3 (default: all that they run on)",
    )
    add_repository(parser)
    parser.set_defaults(run=_publish)


def _publish(arguments: argparse.Namespace) -> Outcome:
    from triton_models.repository.publish import run

    return run(arguments)


def history(parser: argparse.ArgumentParser) -> None:
    """List the published and the current artifacts."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these models")
    parser.add_argument("--verify", action="store_true", help="read every artifact and compare its SHA-256")
    add_repository(parser)
    parser.set_defaults(run=_history)


def _history(arguments: argparse.Namespace) -> Outcome:
    from triton_models.repository.history import run

    return run(arguments)


def rollback(parser: argparse.ArgumentParser) -> None:
    """Make a model's earlier artifact current again."""
    parser.add_argument("model", metavar="NAME", help="the model")
    parser.add_argument(
        "--to",
        metavar="ARTIFACT",
        help="the file name or digest of the artifact (default: the one before the current one)",
    )
    _add_target(
        parser, "only for this target, such as sm86-trt10.13.3 (default: all that have an earlier artifact)"
    )
    add_repository(parser)
    parser.set_defaults(run=_rollback)


def _rollback(arguments: argparse.Namespace) -> Outcome:
    from triton_models.repository.rollback import run

    return run(arguments)


def promote(parser: argparse.ArgumentParser) -> None:
    """Copy tested artifacts to another repository and make them current."""
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("names", nargs="*", default=[], metavar="NAME", help="the models")
    chosen.add_argument("--all", action="store_true", help="promote every model")
    chosen.add_argument(
        "--only",
        type=Path,
        metavar="FILE",
        help="promote exactly the artifacts that were tested: FILE is of `fleet smoke --tested FILE`",
    )
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="URL",
        help="the repository in which they were tested, s3://bucket/prefix/",
    )
    parser.add_argument(
        "--to", required=True, metavar="URL", help="the repository that gets them, s3://bucket/prefix/"
    )
    add_portable(parser)
    _add_target(parser, "only the artifacts for this target, such as sm86-trt10.13.3 (default: for all)")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be copied")
    group = add_account(parser)
    group.add_argument(
        "--from-profile", metavar="NAME", help="the AWS profile for the source (default: --profile)"
    )
    group.add_argument(
        "--from-region", metavar="REGION", help="the AWS region of the source (default: --region)"
    )
    parser.set_defaults(run=_promote)


def _promote(arguments: argparse.Namespace) -> Outcome:
    from triton_models.repository.promote import run

    return run(arguments)


def prune(parser: argparse.ArgumentParser) -> None:
    """Delete artifacts that are no longer used."""
    parser.add_argument(
        "--keep", type=int, required=True, metavar="N", help="keep the newest N artifacts of each model"
    )
    parser.add_argument(
        "--older-than",
        type=int,
        default=7,
        metavar="DAYS",
        help="delete only artifacts that have not been current for this long (default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only list what would be deleted")
    parser.add_argument("--resume", action="store_true", help="finish an interrupted run")
    add_repository(parser)
    parser.set_defaults(run=_prune)


def _prune(arguments: argparse.Namespace) -> Outcome:
    from triton_models.repository.prune import run

    return run(arguments)


def _add_target(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--target", metavar="TARGET", help=text)
