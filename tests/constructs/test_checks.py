"""Every check, found by looking: it accepts what is right, reports what is wrong, and names its source.

The examples are in `check_cases`. A new check fails here until it has some there, right ones and wrong ones.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import triton_fleet
from tests.constructs.check_cases import CASES, Case, CheckFunction
from tests.text_snapshots import TextFile
from triton_fleet.arguments.checks import secret_arn
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem

ROOMS = Path(triton_fleet.__file__).parent
MODULES = {
    path.relative_to(ROOMS).as_posix(): import_module(f"triton_fleet.{path.parent.name}.{path.stem}")
    for path in sorted(ROOMS.glob("*/*checks.py"))
}
LONGEST_WHY = 15  # words
_TABLE = re.compile(r"triton_models(\.\w+)+")

every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_module = pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)


def functions_of(module: ModuleType) -> list[CheckFunction]:
    """The checks of a module: the public functions of its own that yield problems."""
    functions = [each for each in vars(module).values() if inspect.isfunction(each)]
    return [
        each
        for each in functions
        if each.__module__ == module.__name__
        and not each.__name__.startswith("_")
        and each.__annotations__.get("return") == "Iterator[Problem]"
    ]


def checks_of(module: ModuleType) -> list[Check]:
    """Return the checks of a module, which are constants or attributes of constants."""
    values = [getattr(each, "check", each) for each in vars(module).values()]
    return [each for each in values if isinstance(each, Check)]


FUNCTIONS = [each for module in MODULES.values() for each in functions_of(module)]


def cases_of(module: ModuleType) -> list[Case]:
    return [case for case in CASES if case.function in functions_of(module)]


def is_a_phrase(text: str) -> bool:
    return bool(text) and text == text.strip() and not text.endswith(".")


@every_case
def test_what_is_right_has_no_problem(case: Case) -> None:
    assert [arguments for arguments in case.good if case.problems(arguments)] == []


@every_case
def test_what_is_wrong_is_one_problem_of_that_check_at_that_place(case: Case) -> None:
    for arguments in case.bad:
        found = [(problem.rule, problem.where) for problem in case.problems(arguments)]
        assert (found, arguments) == ([(case.id, "here")], arguments)


@every_case
def test_a_problem_has_a_source_and_phrases_without_a_full_stop(case: Case) -> None:
    for arguments in case.bad:
        (problem,) = case.problems(arguments)
        assert problem.source
        assert all(map(is_a_phrase, (problem.what, problem.expected, problem.why or "none", problem.fix))), (
            problem
        )
        assert len(problem.why.split()) <= LONGEST_WHY, problem


def test_the_texts_are_as_they_were_reviewed(snapshot: SnapshotAssertion) -> None:
    texts = [
        f"{case.function.__name__}\n{problem}"
        for case in CASES
        for arguments in case.bad
        for problem in case.problems(arguments)
    ]

    assert "\n\n".join(texts) == snapshot(extension_class=TextFile)


@pytest.mark.parametrize(
    "function",
    [each for module in MODULES.values() for each in functions_of(module)],
    ids=lambda it: it.__name__,
)
def test_every_check_has_right_and_wrong_cases(function: CheckFunction) -> None:
    cases = [case for case in CASES if case.function is function]

    assert cases
    assert all(case.good and case.bad for case in cases)


@every_module
def test_every_check_of_a_module_finds_something(module: ModuleType) -> None:
    found = {case.id for case in CASES}

    assert {check.id for check in checks_of(module)} <= found


@every_module
def test_every_problem_that_a_module_can_report_is_reported(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: set[int] = set()
    report = Check.problem

    def noting_the_line(check: Check, **fields: Any) -> Problem:
        caller = sys._getframe(1)
        if caller.f_code.co_filename == module.__file__:
            reported.add(caller.f_lineno)
        return report(check, **fields)

    monkeypatch.setattr(Check, "problem", noting_the_line)
    for case in cases_of(module):
        for arguments in case.bad:
            case.problems(arguments)

    assert reported == set(_lines_of_problems(module))


def _lines_of_problems(module: ModuleType) -> Iterator[int]:
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "problem"
        ):
            yield node.lineno


@every_module
def test_every_source_is_a_link_with_its_day_or_a_table_or_the_arguments(module: ModuleType) -> None:
    for check in checks_of(module):
        table = _TABLE.search(check.source)
        assert (
            check.source == FROM_ARGUMENTS
            or re.match(r"20\d\d-\d\d-\d\d: https://", check.source)
            or (table is not None and resolve_name(table[0]))
        ), check


def test_what_may_be_the_secret_itself_is_not_shown() -> None:
    (problem,) = secret_arn("hf_abc", where="here")

    assert "hf_abc" not in str(problem)
