"""Arguments of a wrong type, all in one error, before anything is created from them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, wraps
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import typeguard
from constructs import Construct

from triton_fleet.parts.arguments.checks import NUMBER_RANGE
from triton_fleet.parts.arguments.tokens import deferred
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report

ARGUMENT_TYPE = Check(id="argument-type", source=FROM_ARGUMENTS)

Class = TypeVar("Class", bound=type)


def typed(cls: Class) -> Class:
    """Let a class refuse arguments whose type is not the annotated one, and infinity and NaN.

    Defaults are not looked at, and a misspelled argument remains Python's own TypeError. typeguard, which
    jsii brings along, accepts True as a number. Write the decorator above `@dataclass`.
    """
    create = cls.__init__  # type: ignore[misc]
    signature = inspect.signature(create)
    # When it is first called: then every module that an annotation names is there.
    hints = cache(lambda: get_type_hints(cls if is_dataclass(cls) else create))

    @wraps(create)
    def checked(*args: Any, **given: Any) -> None:
        try:
            arguments = signature.bind(*args, **given).arguments
        except TypeError:
            create(*args, **given)  # misspelled or missing: Python's own error names the class
            return
        report = Report(_path(arguments) or cls.__name__)
        for name, value in arguments.items():
            if isinstance(value, float) and not math.isfinite(value):
                report.at(name)(NUMBER_RANGE, f"{name} is {value}", fix="give a finite number")
            elif name in hints():
                for mistake in _mistakes(name, value, hints()[name]):
                    report.at(name)(ARGUMENT_TYPE, f"{name} is {value!r:.80}", fix=mistake)
        report.raise_if_any()
        create(*args, **given)

    cls.__init__ = checked  # type: ignore[misc]
    return cls


def _mistakes(name: str, value: object, hint: Any) -> Iterator[str]:
    hints = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    of = next((get_args(each) for each in hints if get_origin(each) is Sequence), ())
    if of and isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from _mistakes(f"{name}[{number}]", each, of[0])
        return
    kinds = [_told(each, value) for each in hints]
    if isinstance(value, str) and str not in kinds and any(get_origin(each) is Sequence for each in kinds):
        yield f"write [{value!r:.80}]"
        return
    try:
        typeguard.check_type(name, value, Union[tuple(kinds)])  # noqa: UP007 -- of 2021, which does not know int | None
    except TypeError as error:
        if not (isinstance(value, float) and deferred(value)):  # the CDK's token for a number is a float
            yield str(error)


def _told(kind: Any, value: object) -> Any:
    """Return a kind that typeguard looks into: it accepts any mapping, and anything as an interface."""
    if get_origin(kind) is Mapping:
        return dict[get_args(kind)] if isinstance(value, dict) else Mapping  # type: ignore[misc]
    if getattr(kind, "_is_protocol", False) and not _implements(value, kind):
        return type(kind.__name__, (), {"__module__": kind.__module__})  # which no value is of
    return kind


def _implements(value: object, interface: Any) -> bool:
    """Return whether a value has an interface of the CDK; of some objects only the CDK knows."""
    known = (each for cls in type(value).__mro__ for each in getattr(cls, "__jsii_ifaces__", ()))
    return hasattr(value, "_delegates") or any(interface in each.__mro__ for each in known)


def _path(arguments: Mapping[str, Any]) -> str:
    scope, construct_id = arguments.get("scope"), arguments.get("construct_id")
    if isinstance(scope, Construct) and isinstance(construct_id, str):
        return f"{scope.node.path}/{construct_id}".lstrip("/")
    return ""
