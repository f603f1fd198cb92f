"""Every rule, found by looking: it lets pass what is right, tells what is wrong, and names its source.

The examples are in `rule_cases`. A new rule fails here until it has some there, right ones and wrong ones.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain
from types import ModuleType

import pytest

from tests.constructs.rule_cases import CASES, WARNINGS, Arguments, Case, Rule
from triton_fleet import rules
from triton_fleet.rules.build_machine import another_way
from triton_fleet.rules.scaling_numbers import is_number
from triton_models.base.errors import Problem

NOT_RULES = {is_number, another_way}  # answer a question, for a rule and for others

MODULES = {
    each.name: import_module(f"{rules.__name__}.{each.name}") for each in pkgutil.iter_modules(rules.__path__)
}
EVERY_CASE = (*CASES, *WARNINGS)
_TABLE = re.compile(r"triton_models(\.\w+)+")
_NO_SOURCE = re.compile(r"^No source: \w.*\.$", re.MULTILINE)


def _name(rule: Rule) -> str:
    return f"{rule.__module__.rpartition('.')[2]}.{rule.__name__}"


def _rules_of(module: ModuleType) -> list[Rule]:
    functions = [each for each in vars(module).values() if inspect.isfunction(each)]
    own = [each for each in functions if each.__module__ == module.__name__]
    return [each for each in own if not each.__name__.startswith("_") and each not in NOT_RULES]


def _cases_of(module: ModuleType) -> list[Case]:
    return [case for case in EVERY_CASE if case.rule in _rules_of(module)]


def _texts(values: Iterable[str | Iterable[str]]) -> list[str]:
    return list(chain.from_iterable([each] if isinstance(each, str) else each for each in values))


def _ids_of(module: ModuleType) -> set[str]:
    return set(_texts(value for name, value in vars(module).items() if name.endswith(("RULE", "RULES"))))


def _ids_passed_on_by(module: ModuleType) -> set[str]:
    """The ids of the rules that a module calls, and whose problems it makes its own."""
    called = {each.__module__ for each in vars(module).values() if inspect.isfunction(each)}
    return set().union(*(_ids_of(each) for each in MODULES.values() if each.__name__ in called))


def _sources_of(module: ModuleType) -> list[str]:
    """What a module's constants name as its sources, or else its first lines if they name a table."""
    named = _texts(value for name, value in vars(module).items() if name.startswith("SOURCE"))
    introduction = module.__doc__ or ""
    return named or ([introduction] if _TABLE.search(introduction) else [])


def _told(rule: Rule, arguments: Arguments) -> list[Problem | str]:
    """All that a rule says; a warning is not told where, for it is shown at the construct."""
    place = {"where": "here"} if "where" in inspect.signature(rule).parameters else {}
    told = rule(**arguments, **place)
    if told is None or isinstance(told, (Problem, str)):
        return [] if told is None else [told]
    return [each for each in told if each is not None]


def _problem(rule: Rule, arguments: Arguments) -> Problem:
    (problem,) = _told(rule, arguments)
    assert isinstance(problem, Problem)
    return problem


def _is_a_phrase(text: str) -> bool:
    return bool(text) and text == text.strip() and not text.endswith(".")


every_module = pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
every_good = pytest.mark.parametrize(
    ("rule", "arguments"),
    [pytest.param(case.rule, good, id=_name(case.rule)) for case in EVERY_CASE for good in case.good],
)
every_bad = pytest.mark.parametrize(
    ("rule", "rule_id", "arguments"),
    [pytest.param(case.rule, case.breaks, bad, id=_name(case.rule)) for case in CASES for bad in case.bad],
)


@every_good
def test_what_is_right_breaks_no_rule(rule: Rule, arguments: Arguments) -> None:
    assert _told(rule, arguments) == []


@every_bad
def test_what_is_wrong_is_one_problem_of_that_rule_at_that_place(
    rule: Rule, rule_id: str, arguments: Arguments
) -> None:
    problem = _problem(rule, arguments)

    assert (problem.rule, problem.where) == (rule_id, "here")


@every_bad
def test_a_problem_tells_what_was_given_what_is_expected_why_and_what_to_do(
    rule: Rule, rule_id: str, arguments: Arguments
) -> None:
    problem = _problem(rule, arguments)

    assert _is_a_phrase(problem.what)
    assert _is_a_phrase(problem.expected)
    assert _is_a_phrase(problem.why)
    assert _is_a_phrase(problem.fix)


@pytest.mark.parametrize("case", WARNINGS, ids=lambda case: _name(case.rule))
def test_a_warning_is_reported_in_whole_sentences(case: Case) -> None:
    for arguments in case.bad:
        (text,) = _told(case.rule, arguments)
        assert isinstance(text, str)
        assert text.endswith(".")


@pytest.mark.parametrize(
    "rule", [rule for module in MODULES.values() for rule in _rules_of(module)], ids=_name
)
def test_every_rule_has_right_and_wrong_cases(rule: Rule) -> None:
    cases = [case for case in EVERY_CASE if case.rule is rule]

    assert cases
    assert all(case.good and case.bad for case in cases)


@every_module
def test_every_id_that_a_module_declares_is_met_and_none_besides(module: ModuleType) -> None:
    met = {case.breaks for case in _cases_of(module)}

    assert _ids_of(module)
    assert _ids_of(module) <= met <= _ids_of(module) | _ids_passed_on_by(module)


@every_module
def test_every_problem_that_a_module_can_tell_is_reported(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_at: set[int] = set()

    def noting_the_line(**fields: str) -> Problem:
        told_at.add(sys._getframe(1).f_lineno)
        return Problem(**fields)

    monkeypatch.setattr(module, "Problem", noting_the_line, raising=False)
    for case in _cases_of(module):
        for arguments in case.bad:
            _told(case.rule, arguments)

    assert told_at == set(_lines_of_problems(module))


def _lines_of_problems(module: ModuleType) -> Iterator[int]:
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
            yield node.lineno


@every_module
def test_every_module_names_the_source_of_its_fact_or_says_that_there_is_none(module: ModuleType) -> None:
    sources = _sources_of(module)

    assert bool(sources) is not bool(_NO_SOURCE.search(module.__doc__ or ""))
    for source in sources:
        table = _TABLE.search(source)
        assert source.startswith("https://") or (table is not None and pkgutil.resolve_name(table[0]))
