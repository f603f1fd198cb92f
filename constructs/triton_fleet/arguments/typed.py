"""Arguments of a wrong type, reported before anything is created from them, in one error for all of a call.

The annotations say what is right, so nothing is written down twice. Types come first and values second: of a
string no one can say whether it is too large. Mistakes of both kinds are therefore two errors, one after the
other; all mistakes of a kind come together.

Why not the checkers that jsii brings along: typeguard 2.13.3, which it pins, lets 5 be a `str | None`, True
an int, "gpu" a `Sequence[str]`, {1: 2} a `Mapping[str, str]`, and anything an interface of the CDK (tried on
2026-11-21); cattrs turns values into others. A second version of either cannot be asked of a user.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

from constructs import Construct
from typing_extensions import Unpack

from triton_fleet.arguments.match import fits, mismatches
from triton_fleet.arguments.words import advice, described, with_kind
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem, raise_if_any

ARGUMENT_TYPE = Check(id="argument-type", source=FROM_ARGUMENTS)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Class = TypeVar("Class", bound=type)
Hints = Callable[[], Mapping[str, Any]]


def typed(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Refuse arguments of a function or method whose type is not the annotated one.

    A token is of the type that it stands for. Numbers are finite, True and False are not numbers, and an
    integer will do for a float. A string is not a list of strings. Defaults are not looked at, nor is an
    argument without an annotation; a misspelled argument remains Python's own TypeError.

    Args:
        function: The function to guard; its signature and its docstring do not change.
    """
    return _guarded(function, lambda: get_type_hints(function))


def typed_fields(cls: Class) -> Class:
    """The same for the fields of a dataclass.

    Args:
        cls: The dataclass; write the decorator above `@dataclass`.
    """
    cls.__init__ = _guarded(cls.__init__, lambda: get_type_hints(cls))  # type: ignore[misc]
    return cls


def type_problems(name: str, value: object, wanted: Any, *, of: str) -> Iterator[Problem]:
    """Yield the problems with the type of a value; of a collection, with each element.

    Args:
        name: The argument's name.
        value: The given value.
        wanted: The annotation.
        of: The function or class of the argument.
    """
    for place, given, expected in mismatches(name, value, wanted):
        yield ARGUMENT_TYPE.problem(
            what=f"{place} is {with_kind(given)}",
            where=f"{place} of {of}",
            expected=described(expected),
            why="a value of another type fails here or at deployment",
            fix=advice(given, expected),
        )


def _guarded(function: Callable[Parameters, Result], hints: Hints) -> Callable[Parameters, Result]:
    signature = inspect.signature(function)
    # When it is first called: then every module that an annotation names is there.
    resolved = cache(lambda: _with_options(hints()))

    @wraps(function)
    def guarded(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # misspelled or missing: Python's own error names the function
        annotations = resolved()
        problems = [
            problem
            for name, value in _each(signature, given)
            if (wanted := annotations.get(name)) is not None and not fits(value, wanted)
            for problem in type_problems(name, value, wanted, of=_place(function.__qualname__, given))
        ]
        raise_if_any(problems)
        return function(*args, **kwargs)

    return guarded


def _with_options(hints: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations, with those of the options that `**` gathers."""
    gathered = (get_args(each)[0] for each in hints.values() if get_origin(each) is Unpack)
    return {**hints, **{name: hint for each in gathered for name, hint in get_type_hints(each).items()}}


def _each(signature: inspect.Signature, given: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Every argument; those that a star gathers one by one."""
    for name, value in given.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((name, each) for each in value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        else:
            yield name, value


def _place(qualname: str, given: Mapping[str, Any]) -> str:
    """Return the owner of the arguments: the path of a construct if it has one, otherwise the name."""
    this, scope, construct_id = (given.get(name) for name in ("self", "scope", "construct_id"))
    owner, _, method = qualname.rpartition(".")
    if isinstance(scope, Construct) and isinstance(construct_id, str):
        return f"{scope.node.path}/{construct_id}".lstrip("/")
    if method == "__init__":
        return owner
    if isinstance(this, Construct):
        return f"{method}, {this.node.path}"
    return qualname
