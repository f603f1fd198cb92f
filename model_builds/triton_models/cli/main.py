"""The `fleet` command: its verbs import what they need when they run."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from triton_models.base.outcome import printable, show_problems
from triton_models.cli import account, models
from triton_models.cli.options import use_account

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from triton_models.base.outcome import Outcome

PROGRAM = "fleet"

EXIT_MISTAKE = 1
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


Verb: TypeAlias = Callable[[argparse.ArgumentParser], None]
"""A function that adds a verb's arguments, and the module with its `run`. Its docstring is the help."""


def _named(*verbs: Verb) -> dict[str, Verb]:
    return {verb.__name__.replace("_", "-"): verb for verb in verbs}


SECTIONS: Mapping[str, Mapping[str, Verb]] = {
    "Begin": _named(models.init),
    "Make models": _named(
        models.new, models.adopt, models.build, models.check, models.verify, models.compare, models.pack
    ),
    "Publish models": _named(
        account.publish, account.rollout, account.history, account.rollback, account.promote, account.prune
    ),
    "Try a change": _named(account.rehearse, account.report),
    "Size a fleet": _named(account.plan, models.census),
    "Call models": _named(account.invoke, account.load),
    "Watch models": _named(account.top, account.why, account.costs),
    "Check an account": _named(account.check_endpoint, account.smoke, account.check_quotas),
    "Run in build jobs": _named(models.deliver, models.diff, models.summarize),
}
"""The verbs, as `fleet --help` lists them."""

VERBS: Mapping[str, Verb] = {name: verb for verbs in SECTIONS.values() for name, verb in verbs.items()}


def verb_help(verb: Verb) -> str:
    """Return what a verb does, in a sentence."""
    return (verb.__doc__ or "").partition("\n")[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit code: 0 for success, 1 for a mistake or a refusal, 2 for wrong usage, 130 if interrupted.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    parser = _parser()
    _refuse_unknown_verb(parser, given)
    arguments = parser.parse_args(given)
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as on the endpoint: `Release.server_variables`
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
            outcome = _run(arguments)
    except FleetError as error:
        if arguments.json:
            _write_json({"error": [problem.as_dict() for problem in error.problems]})
        else:
            show_problems(error.problems)
        return EXIT_MISTAKE
    if arguments.json:
        _write_json(outcome.as_dict())
    else:
        for line in outcome.lines():
            sys.stdout.write(f"{printable(line)}\n")
        sys.stdout.flush()
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


def _write_json(document: object) -> None:
    import json

    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    sys.stdout.flush()


def _run(arguments: argparse.Namespace) -> Outcome:
    import importlib

    from triton_models.base.extras import explained

    try:
        outcome: Outcome = importlib.import_module(arguments.run).run(arguments)
    except ModuleNotFoundError as error:
        raise explained(error, where=f"`{PROGRAM} {arguments.verb}`", own=arguments.extra) from None
    return outcome


def _parser() -> argparse.ArgumentParser:
    parser = _Verbs(prog=PROGRAM, description="Thousands of Triton models behind one SageMaker GPU endpoint.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    for name, verb in VERBS.items():
        below = verbs.add_parser(name, description=verb_help(verb))
        below.set_defaults(extra="")
        verb(below)
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
            "\n".join(
                [
                    f"{title}:",
                    *(f"  {name:{width}}  {verb_help(verb)[:-1]}" for name, verb in verbs.items()),
                    "",
                ]
            )
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
