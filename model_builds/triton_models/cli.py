"""The `fleet` command: a table of verbs, each naming the function that does it, imported only when used."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from triton_models.errors import FleetError
    from triton_models.outcome import Outcome

PROGRAM = "fleet"
DISTRIBUTION = "triton-fleet"

EXIT_MISTAKE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def _add_build(parser: argparse.ArgumentParser) -> None:
    from triton_models.releases import DEFAULT_RELEASE

    parser.add_argument("names", nargs="+", metavar="NAME", help="a folder under model_builds/models/")
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


def _add_check(parser: argparse.ArgumentParser) -> None:
    from triton_models.target import ENDPOINTS

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
    parser.add_argument(
        "--gpu", help="check for this GPU, such as A10G (default: the one it was built for, if any)"
    )
    parser.add_argument(
        "--endpoint",
        choices=ENDPOINTS,
        help="check for a SageMaker endpoint of this kind, which loads with configuration auto-complete off; "
        "by default what `fleet build` made is checked for the multi-model endpoint that it is made for, and "
        "everything else as a Triton server of your own takes it, so that a repository that works passes",
    )


def _add_pack(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="PATH", help="a built model or a Triton model directory"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="where to write")


def _add_publish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "artifacts", nargs="+", type=Path, metavar="ARTIFACT", help="a .tar.gz that `fleet pack` wrote"
    )
    parser.add_argument(
        "--portable",
        action="store_true",
        help="accept artifacts built without a GPU, for a rehearsal (also: FLEET_PORTABLE=1)",
    )
    _add_repository(parser)


def _add_releases(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", metavar="NAME", help="only these models")
    _add_repository(parser)


def _add_rollback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="NAME", help="the model")
    parser.add_argument(
        "--to", metavar="ARTIFACT", help="its file name or digest (default: the one before the current one)"
    )
    _add_repository(parser)


def _add_prune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep", type=int, required=True, metavar="N", help="how many of each model's newest artifacts stay"
    )
    parser.add_argument(
        "--older-than",
        type=int,
        default=7,
        metavar="DAYS",
        help="delete only what has not been current for so long (default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    parser.add_argument("--resume", action="store_true", help="finish what an interrupted run left")
    _add_repository(parser)


def _add_preflight(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", metavar="NAME", help="only these models")
    parser.add_argument("--endpoint", metavar="NAME", help="a deployed endpoint, which is asked what it is")
    parser.add_argument("--instance-type", metavar="TYPE", help="what the endpoint runs on: ml.g5.2xlarge")
    parser.add_argument("--release", help="the Triton release that it serves with: 25.09")
    _add_repository(parser)


def _add_quotas(parser: argparse.ArgumentParser) -> None:
    from triton_models.quotas import MACHINES

    parser.add_argument(
        "--instance-type", required=True, metavar="TYPE", help="what the endpoint runs on: ml.g5.2xlarge"
    )
    parser.add_argument(
        "--region", help="where it is deployed (default: the region of the AWS configuration)"
    )
    parser.add_argument(
        "--instances", type=int, default=1, metavar="N", help="the most it scales to (default: %(default)s)"
    )
    parser.add_argument(
        "--machine",
        choices=MACHINES,
        default=MACHINES[0],
        help="what builds run on (default: what the build job chooses for the GPU and the region)",
    )
    parser.add_argument(
        "--build-instance-type", metavar="TYPE", help="of Processing jobs, where it is not the endpoint's"
    )


def _add_repository(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repository",
        default=os.environ.get("FLEET_REPOSITORY"),
        metavar="URL",
        help="the model repository, s3://bucket/prefix/ (default: the environment variable FLEET_REPOSITORY)",
    )


def _add_rehearse(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stay", action="store_true", help="keep everything running until Ctrl-C")
    parser.add_argument("--port", type=int, default=0, help="of the embedded AWS (default: a free one)")
    parser.add_argument(
        "--models", nargs="+", metavar="NAME", help="these models (default: those that the stack builds)"
    )


class Verb(NamedTuple):
    """A verb: what `--help` says about it, its arguments, and the "module:function" that does it."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    does: str


VERBS = {
    "build": Verb("build models from their declarations", _add_build, "triton_models.build:run"),
    "check": Verb("find what Triton or SageMaker would refuse", _add_check, "triton_models.check:run"),
    "pack": Verb("pack models into immutable artifacts", _add_pack, "triton_models.pack:run"),
    "publish": Verb("upload artifacts and make them current", _add_publish, "triton_models.publish:run"),
    "releases": Verb("show what was published", _add_releases, "triton_models.publishing.published:run"),
    "rollback": Verb(
        "make a model's earlier artifact current", _add_rollback, "triton_models.publishing.rollback:run"
    ),
    "prune": Verb(
        "delete artifacts that nothing uses any more", _add_prune, "triton_models.publishing.prune:run"
    ),
    "preflight": Verb(
        "find what an endpoint could not load", _add_preflight, "triton_models.publishing.preflight:run"
    ),
    "quotas": Verb(
        "find service quotas that are too low for a fleet", _add_quotas, "triton_models.quotas:run"
    ),
    "rehearse": Verb("deploy, build, serve and verify on this machine", _add_rehearse, "rehearsal.story:run"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments; the process's if None.

    Returns:
        The exit code: 0 done, 1 a mistake or a refusal, 2 wrong usage, 130 interrupted.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    parser = _parser()
    _refuse_unknown_verb(parser, given)
    arguments = parser.parse_args(given)
    try:
        return _do(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; what Python still holds for it must not raise again at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE


def _do(arguments: argparse.Namespace) -> int:
    from triton_models.errors import FleetError

    try:
        outcome = _function(arguments.verb)(arguments)
    except FleetError as error:
        _show_error(error, as_json=arguments.json)
        return EXIT_MISTAKE
    _show(outcome, as_json=arguments.json)
    return outcome.exit_code


def _show(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        _write_json(outcome.as_dict())
    else:
        for line in outcome.lines():
            sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _show_error(error: FleetError, *, as_json: bool) -> None:
    if as_json:
        _write_json({"error": [problem.as_dict() for problem in error.problems]})
        sys.stdout.flush()
    else:
        for problem in error.problems:
            sys.stderr.write(f"error: {problem}\n")


def _write_json(document: object) -> None:
    import json

    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _function(verb: str) -> Callable[[argparse.Namespace], Outcome]:
    """The function that does a verb.

    Raises:
        FleetError: A package that it needs is not installed.
    """
    from triton_models.errors import FleetError

    module, _, name = VERBS[verb].does.partition(":")
    try:
        function: Callable[[argparse.Namespace], Outcome] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "triton_models":
            raise
        raise FleetError.of(
            what=f"the package {missing!r} is not installed",
            where=f"`{PROGRAM} {verb}`",
            expected="a checkout of Triton Fleet with the packages that this command needs",
            fix="run `make setup` in the checkout, then .venv/bin/fleet",
        ) from None
    return function


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Thousands of Triton models behind one SageMaker GPU endpoint."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in VERBS.items():
        below = verbs.add_parser(name, help=verb.help, description=f"{verb.help[0].upper()}{verb.help[1:]}.")
        verb.add_arguments(below)
        below.add_argument(
            "--json", action="store_true", help="print the result, or the errors, as one JSON document"
        )
    return parser


class _Version(argparse.Action):
    """Prints the version. Finding it out takes longer than all of --help, so it waits until asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        try:
            version = metadata.version(DISTRIBUTION)
        except metadata.PackageNotFoundError:
            version = "(from source, not installed)"
        sys.stdout.write(f"{PROGRAM} {version}\n")
        parser.exit()


def _refuse_unknown_verb(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    """Exit with a suggestion where argparse would only list the verbs."""
    if given and not given[0].startswith("-") and given[0] not in VERBS:
        from triton_models.suggest import did_you_mean

        hint = did_you_mean(given[0], VERBS, otherwise=f"there are {', '.join(VERBS)}")
        parser.error(f"unknown verb {given[0]!r}: {hint}")
