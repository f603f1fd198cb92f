"""The `fleet` command: its verbs import what they need when they run."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from triton_models.base.outcome import printable, show_problems
from triton_models.cli.parser import add_options, read_options

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

    from triton_models.base.outcome import Outcome

PROGRAM = "fleet"

# As in the AWS CLI, a profile takes precedence over credentials in the environment.
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")

EXIT_MISTAKE = 1
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


class Verb(NamedTuple):
    """The module of a verb in `triton_models`, or of another package, and what it does."""

    module: str
    help: str
    extra: str = ""
    options: str = ""  # the module of its options, if the other one imports much


VERBS: Mapping[str, Verb] = {
    "init": Verb("cli.starter.init", "Begin a repository of your own, or upgrade one."),
    "new": Verb("cli.starter.new", "Start a model build: a copy, from a file, or minimal."),
    "adopt": Verb("cli.starter.adopted", "Serve a Triton model directory as it is."),
    "build": Verb("builds.build", "Build models from their declarations.", extra="build"),
    "check": Verb("check.check", "Find what Triton or SageMaker would refuse."),
    "verify": Verb(
        "deliver.verify.verify", "Compare the answers of models with their source.", options="deliver.options"
    ),
    "compare": Verb(
        "triton_rehearsal.compare.command",
        "Measure size, cold start and latency of models.",
        extra="rehearse",
        options="triton_rehearsal.options",
    ),
    "pack": Verb("deliver.pack", "Pack models into immutable artifacts."),
    "publish": Verb("repository.publish", "Upload artifacts and make them current."),
    "rollout": Verb(
        "signals.rollout",
        "Show a model's candidate next to its current version, and promote it or take it back.",
    ),
    "history": Verb("repository.history", "List the published and the current artifacts."),
    "rollback": Verb("repository.rollback", "Make earlier artifacts current again."),
    "promote": Verb(
        "repository.promote", "Copy tested artifacts to another repository and make them current."
    ),
    "prune": Verb("repository.prune", "Delete artifacts that are no longer used."),
    "rehearse": Verb(
        "triton_rehearsal.rehearse.command",
        "Deploy, build, serve and verify on this machine.",
        extra="rehearse",
        options="triton_rehearsal.options",
    ),
    "report": Verb(
        "triton_report.command", "Describe what a change does to the deployed fleet.", extra="rehearse"
    ),
    "plan": Verb(
        "plan.command",
        "Find the cheapest fleet for models and requests, before there is one.",
        extra="plan",
        options="plan.options",
    ),
    "census": Verb(
        "deliver.census",
        "Measure the memory and the times of models on this machine's GPU, or on an endpoint.",
        extra="build",
        options="deliver.options",
    ),
    "invoke": Verb("client.invoke", "Ask a deployed model, and print its answer.", extra="client"),
    "load": Verb(
        "load.command",
        "Send requests at planned moments to an endpoint or a Triton server, and measure the answers.",
        extra="client",
        options="load.options",
    ),
    "top": Verb(
        "signals.top", "Show what each model does: requests, errors and times, as its clients report them."
    ),
    "why": Verb("signals.why", "Find out why a model does not load, or is slow.", options="signals.options"),
    "costs": Verb(
        "plan.costs",
        "Divide the price of an endpoint's instances among its models, by the time of their requests.",
    ),
    "check-endpoint": Verb("repository.check_endpoint", "Find models that an endpoint could not load."),
    "smoke": Verb(
        "triton_rehearsal.rehearse.smoke",
        "Send every declared example to a deployed fleet and compare the answers.",
        extra="rehearse",
        options="triton_rehearsal.options",
    ),
    "check-quotas": Verb("facts.quotas", "Find service quotas that are too low for a fleet."),
    "deliver": Verb("deliver.deliver", "Build, check, verify, pack and publish models one by one."),
    "diff": Verb("deliver.diff", "List the models that need a new build."),
    "summarize": Verb("deliver.results", "Summarize the results of many builds."),
}

SECTIONS: Mapping[str, Sequence[str]] = {
    "Begin": ("init",),
    "Make models": ("new", "adopt", "build", "check", "verify", "compare", "pack"),
    "Publish models": ("publish", "rollout", "history", "rollback", "promote", "prune"),
    "Try a change": ("rehearse", "report"),
    "Size a fleet": ("plan", "census"),
    "Call models": ("invoke", "load"),
    "Watch models": ("top", "why", "costs"),
    "Check an account": ("check-endpoint", "smoke", "check-quotas"),
    "Run in build jobs": ("deliver", "diff", "summarize"),
}
"""The verbs, as `fleet --help` lists them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit code: 0 for success, 1 for a mistake or a refusal, 2 for wrong usage, 130 if interrupted.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # as on the endpoint: `Release.server_variables`
    try:
        return _do(given)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe, so flushing the rest at exit must not raise again.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE


def _do(given: Sequence[str]) -> int:
    from triton_models.base.errors import FleetError

    as_json = "--json" in given
    try:
        arguments = _parse(given)
        as_json = arguments.json
        use_account(profile=getattr(arguments, "profile", None), region=getattr(arguments, "region", None))
        with _files_explained(arguments.verb):
            outcome = _run(arguments)
    except FleetError as error:
        if as_json:
            _write_json({"error": [problem.as_dict() for problem in error.problems]})
        else:
            show_problems(error.problems)
        return EXIT_MISTAKE
    if as_json:
        _write_json(outcome.as_dict())
    else:
        for line in outcome.lines():
            sys.stdout.write(f"{printable(line)}\n")
        sys.stdout.flush()
    return outcome.exit_code


def use_account(*, profile: str | None, region: str | None) -> None:
    """Make this process and its children use `--profile` and `--region`.

    boto3 reads only AWS_DEFAULT_REGION. The CDK and other SDKs read AWS_REGION, so it applies here as well.
    """
    if profile:
        for key in _KEYS:
            os.environ.pop(key, None)
        os.environ["AWS_PROFILE"] = profile
    if region:
        os.environ["AWS_DEFAULT_REGION"] = os.environ["AWS_REGION"] = region
    elif "AWS_REGION" in os.environ:
        os.environ.setdefault("AWS_DEFAULT_REGION", os.environ["AWS_REGION"])


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


def options_class(name: str) -> type[Any]:
    """Import the class of a verb's options, such as `CheckQuotasOptions`."""
    module = _import(VERBS[name].options or VERBS[name].module)
    options: type[Any] = getattr(module, f"{name.title().replace('-', '')}Options")
    return options


def _import(module: str) -> Any:
    return importlib.import_module(module if module.startswith("triton_") else f"triton_models.{module}")


def _run(arguments: argparse.Namespace) -> Outcome:
    with _extra_named(arguments.verb):
        options = read_options(options_class(arguments.verb), arguments)
        outcome: Outcome = _import(VERBS[arguments.verb].module).run(options)
    return outcome


@contextlib.contextmanager
def _extra_named(name: str) -> Iterator[None]:
    """Report a missing module with the extra that installs it."""
    from triton_models.base.extras import explained

    try:
        yield
    except ModuleNotFoundError as error:
        raise explained(error, where=f"`{PROGRAM} {name}`", own=VERBS[name].extra) from None


def _parse(given: Sequence[str]) -> argparse.Namespace:
    parser = _Verbs(prog=PROGRAM, description="Thousands of Triton models behind one SageMaker GPU endpoint.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument("verb", metavar="VERB", nargs=argparse.PARSER)
    name, *rest = parser.parse_args(given).verb
    if name not in VERBS:
        from triton_models.base.suggest import did_you_mean

        hint = did_you_mean(name, VERBS, otherwise=f"there are {', '.join(VERBS)}")
        parser.error(f"unknown verb {name!r}: {hint}")
    below = _Parser(prog=f"{PROGRAM} {name}", description=VERBS[name].help)
    below.set_defaults(verb=name)
    with _extra_named(name):
        add_options(below, options_class(name))
    below.add_argument(
        "--json", action="store_true", help="print the result, or the errors, as one JSON document"
    )
    return below.parse_args(rest)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors, which quote what was given, have no control characters."""

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        super()._print_message(printable(message), file)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if action.nargs is None and arg_strings == ["--"]:
            return self._get_value(action, "--")  # of `--name=--`; before Python 3.12.5 it becomes a list
        return super()._get_values(action, arg_strings)


class _Verbs(_Parser):
    """A parser that lists the verbs in sections, which argparse cannot do."""

    def format_help(self) -> str:
        width = max(map(len, VERBS))
        sections = "\n".join(
            "\n".join([f"{title}:", *(f"  {name:{width}}  {VERBS[name].help[:-1]}" for name in names), ""])
            for title, names in SECTIONS.items()
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
