from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from triton_models.base import options as opt
from triton_models.cli.main import VERBS, options_class
from triton_models.cli.parser import add_options, read_options
from triton_models.signals.top import TopOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example(opt.RepositoryOptions):
    paths: Sequence[opt.AnyPath] = opt.argument("files", nargs="+")
    output: opt.Folder = opt.option("where to", "-o", "--output", required=True)
    wait: opt.Duration | None = opt.option("how long", "--for", within=opt.EITHER)
    now: bool = opt.flag("at once", within=opt.EITHER)
    input: Sequence[str] = opt.option("an input", action="append", default=())


def parse(*given: str, options: type[Any] = Example) -> Any:
    parser = argparse.ArgumentParser()
    add_options(parser, options)
    return read_options(options, parser.parse_args(given))


def test_options_have_the_types_and_the_defaults_of_their_class() -> None:
    assert parse("a", "b", "-o", "c") == Example(paths=[Path("a"), Path("b")], output=Path("c"), input=[])

    full = parse("a", "--output", "c", "--for", "5m", "--input", "1", "--input", "2", "--region", "eu-west-1")
    assert (full.wait, full.now, full.input, full.region) == (300.0, False, ["1", "2"], "eu-west-1")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a"], "the following arguments are required: -o/--output"),
        (["a", "-o", "c", "--for", "soon"], "argument --for: 'soon': expected a time"),
        (["a", "-o", "c", "--for", "5m", "--now"], "argument --now: not allowed with argument --for"),
    ],
)
def test_wrong_options_are_refused(
    given: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(*given)

    assert message in capsys.readouterr().err


def test_the_repository_of_the_environment_is_read_with_the_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FLEET_REPOSITORY", "s3://bucket/models/")

    assert parse("a", "-o", "c").repository == "s3://bucket/models/"
    assert parse("a", "-o", "c", "--repository", "s3://other/").repository == "s3://other/"
    assert Example(paths=(), output=Path()).repository is None


def test_an_appended_value_is_not_kept_for_the_next_command() -> None:
    parse("a", "-o", "c", "--input", "1")

    assert not parse("a", "-o", "c").input


def test_the_help_lists_own_options_before_inherited_ones_unless_they_are_declared_again() -> None:
    def order(options: type[Any]) -> list[str]:
        parser = argparse.ArgumentParser(add_help=False)
        add_options(parser, options)
        return [action.dest for action in parser._actions]

    assert order(Example)[-4:] == ["input", "profile", "region", "repository"]
    assert order(TopOptions)[:5] == ["signals", "alias", "endpoint", "profile", "region"]


@pytest.mark.parametrize("verb", VERBS)
def test_the_options_of_a_verb_cannot_change_and_are_given_by_name(verb: str) -> None:
    options = options_class(verb)

    assert options.__dataclass_params__.frozen
    assert all(field.kw_only for field in dataclasses.fields(options))
