"""The `fleet` command: a table of verbs, whose modules are imported only when used."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from triton_models.base.outcome import printable, show_problems
from triton_models.cli import account, begin, jobs, models, repository, review
from triton_models.cli.options import use_account

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from triton_models.base.errors import FleetError
    from triton_models.base.outcome import Outcome

PROGRAM = "fleet"

EXIT_MISTAKE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class Verb(NamedTuple):
    """A verb: its help, its arguments, and the module whose `run` executes it.

    The name of a module of this package omits the package.
    """

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    module: str


SECTIONS: Mapping[str, Mapping[str, Verb]] = {
    "Begin": {"init": Verb("begin a repository of your own, or upgrade one", begin.init, "starter.init")},
    "Make models": {
        "new": Verb("start a model build: a copy, from a file, or minimal", models.new, "starter.new"),
        "adopt": Verb("serve a Triton model directory as it is", models.adopt, "starter.adopted"),
        "build": Verb("build models from their declarations", models.build, "builds.build"),
        "check": Verb("find what Triton or SageMaker would refuse", models.check, "check.check"),
        "verify": Verb("compare the answers of models with their source", models.verify, "verify.verify"),
        "compare": Verb(
            "measure size, cold start and latency of models",
            models.compare,
            "triton_rehearsal.compare.command",
        ),
        "pack": Verb("pack models into immutable artifacts", models.pack, "deliver.pack"),
    },
    "Publish models": {
        "publish": Verb("upload artifacts and make them current", repository.publish, "repository.publish"),
        "history": Verb(
            "list the published and the current artifacts", repository.history, "repository.history"
        ),
        "rollback": Verb(
            "make a model's earlier artifact current again", repository.rollback, "repository.rollback"
        ),
        "promote": Verb(
            "copy tested artifacts to another repository and make them current",
            repository.promote,
            "repository.promote",
        ),
        "prune": Verb("delete artifacts that are no longer used", repository.prune, "repository.prune"),
    },
    "Try a change": {
        "rehearse": Verb(
            "deploy, build, serve and verify on this machine",
            review.rehearse,
            "triton_rehearsal.rehearse.command",
        ),
        "report": Verb(
            "describe what a change does to the deployed fleet", review.report, "triton_report.command"
        ),
    },
    "Check an account or a GPU": {
        "check-endpoint": Verb(
            "find models that an endpoint could not load", account.check_endpoint, "repository.check_endpoint"
        ),
        "smoke": Verb(
            "send every declared example to a deployed fleet and compare the answers",
            review.smoke,
            "triton_rehearsal.rehearse.smoke",
        ),
        "check-quotas": Verb(
            "find service quotas that are too low for a fleet", account.check_quotas, "facts.quotas"
        ),
    },
    "Run in build jobs": {
        "deliver": Verb(
            "build, check, verify, pack and publish models one by one", jobs.deliver, "deliver.deliver"
        ),
        "diff": Verb("list the models that need a new build", jobs.diff, "deliver.diff"),
        "summarize": Verb("summarize the results of many builds", jobs.summarize, "deliver.summary"),
    },
}
"""The verbs, as `fleet --help` lists them."""

VERBS: Mapping[str, Verb] = {name: verb for verbs in SECTIONS.values() for name, verb in verbs.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments; None for those of the process.

    Returns:
        The exit code: 0 for success, 1 for a mistake or a refusal, 2 for wrong usage, 130 if interrupted.
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
        # The reader has closed the pipe, so flushing the rest at exit must not raise again.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE


def _do(arguments: argparse.Namespace) -> int:
    from triton_models.base.errors import FleetError

    use_account(arguments)
    try:
        with _files_explained(arguments.verb):
            outcome = _run(arguments.verb, arguments)
    except FleetError as error:
        _show_error(error, as_json=arguments.json)
        return EXIT_MISTAKE
    _show(outcome, as_json=arguments.json)
    return outcome.exit_code


@contextlib.contextmanager
def _files_explained(verb: str) -> Iterator[None]:
    """Report a file that the system does not read or write, such as one of a name that is too long."""
    from triton_models.base.errors import FleetError

    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        raise FleetError.of(
            what=f"{error.strerror or error}",
            where=f"`{PROGRAM} {verb}`" if error.filename is None else f"{os.fsdecode(error.filename)}",
            fix="check the path, its permissions and the space on its disk",
            rule="file",
        ) from error


def _show(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        _write_json(outcome.as_dict())
    else:
        for line in outcome.lines():
            sys.stdout.write(f"{printable(line)}\n")
    sys.stdout.flush()


def _show_error(error: FleetError, *, as_json: bool) -> None:
    if as_json:
        _write_json({"error": [problem.as_dict() for problem in error.problems]})
        sys.stdout.flush()
    else:
        show_problems(error.problems)


def _write_json(document: object) -> None:
    import json

    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _run(verb: str, arguments: argparse.Namespace) -> Outcome:
    """Import the module of a verb, and run it."""
    from triton_models.base.extras import explained

    name = VERBS[verb].module
    module, own = f"triton_models.{name}", "build" if verb == "build" else ""
    if name.startswith("triton_"):
        module, own = name, "rehearse"
    try:
        outcome: Outcome = importlib.import_module(module).run(arguments)
    except ModuleNotFoundError as error:
        raise explained(error, where=f"`{PROGRAM} {verb}`", own=own) from None
    return outcome


def _parser() -> argparse.ArgumentParser:
    parser = _Verbs(prog=PROGRAM, description="Thousands of Triton models behind one SageMaker GPU endpoint.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    for name, verb in VERBS.items():
        below = verbs.add_parser(name, help=verb.help, description=f"{verb.help[0].upper()}{verb.help[1:]}.")
        verb.add_arguments(below)
        below.add_argument(
            "--json", action="store_true", help="print the result, or the errors, as one JSON document"
        )
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser whose errors, which quote what was given, have no control characters."""

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        super()._print_message(printable(message), file)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse all arguments: an error about one has the usage of its verb, which argparse does not show."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if action.nargs is None and arg_strings == ["--"]:
            return self._get_value(action, "--")  # of `--name=--`; before Python 3.12.5 it becomes a list
        return super()._get_values(action, arg_strings)


class _Verbs(_Parser):
    """A parser that lists the verbs in sections, which argparse cannot do."""

    def format_help(self) -> str:
        width = max(map(len, VERBS))
        sections = "\n".join(
            "\n".join([f"{title}:", *(f"  {name:{width}}  {verb.help}" for name, verb in verbs.items()), ""])
            for title, verbs in SECTIONS.items()
        )
        return (
            f"{self.format_usage()}\n{self.description}\n\n{sections}\n"
            f"  {'--version':{width}}  print the version and exit\n"
            f"\n`{PROGRAM} VERB --help` lists the options of a verb.\n"
        )


class _Version(argparse.Action):
    """Prints the version, which is looked up only on request, because that takes longer than --help."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        from triton_models.base.extras import DISTRIBUTION

        try:
            version = metadata.version(DISTRIBUTION)
        except metadata.PackageNotFoundError:
            version = "(from source, not installed)"
        sys.stdout.write(f"{PROGRAM} {version}\n")
        parser.exit()


def _refuse_unknown_verb(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    """Exit with a suggestion; argparse would only list the verbs."""
    if given and not given[0].startswith("-") and given[0] not in VERBS:
        from triton_models.base.suggest import did_you_mean

        hint = did_you_mean(given[0], VERBS, otherwise=f"there are {', '.join(VERBS)}")
        parser.error(f"unknown verb {given[0]!r}: {hint}")
