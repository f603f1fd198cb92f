"""Make the parser of a verb from the class of its options, and the options from what was parsed."""

from __future__ import annotations

import argparse
import os
from dataclasses import MISSING, fields
from inspect import get_annotations
from typing import Any, TypeVar, get_args, get_type_hints

from triton_models.base.options import Value

T = TypeVar("T")


def add_options(parser: argparse.ArgumentParser, options: type[Any]) -> None:
    """Add the fields of a class of options to a parser: its own, then those that it inherits."""
    types = get_type_hints(options, include_extras=True)
    declared = {field.name: field for field in fields(options) if field.metadata}
    groups: dict[Any, argparse._ActionsContainer] = {None: parser}
    for name in dict.fromkeys(name for name in (*get_annotations(options), *declared) if name in declared):
        field, keywords = declared[name], dict(declared[name].metadata)
        within, names = keywords.pop("within"), keywords.pop("names", None)
        if within not in groups:
            groups[within] = (
                parser.add_argument_group(within)
                if isinstance(within, str)
                else parser.add_mutually_exclusive_group(required=within.required)
            )
        value = _value(types[name])
        if value is not None:
            keywords = {"type": value.parse, "metavar": value.metavar, **keywords}
        if names is not None:
            names = names or (f"--{name.replace('_', '-')}",)
            keywords |= {"dest": name, "required": field.default is MISSING}
        if field.default is not MISSING and (names or within):
            keywords["default"] = [] if field.default == () else field.default
        if (variable := keywords.pop("environment", None)) is not None:
            keywords["default"] = os.environ.get(variable)
        groups[within].add_argument(*(names or (name,)), **keywords)


def _value(hint: Any) -> Value | None:
    """Return how values of a type are written, such as those of `Sequence[Duration] | None`."""
    if isinstance(hint, Value):
        return hint
    return next((value for part in get_args(hint) if (value := _value(part)) is not None), None)


def read_options(options: type[T], arguments: argparse.Namespace) -> T:
    """Return the options among parsed arguments."""
    return options(**{field.name: getattr(arguments, field.name) for field in fields(options)})  # type: ignore[arg-type]
