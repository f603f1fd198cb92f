"""Reads templates as CloudFormation does."""

from __future__ import annotations

import json
from typing import Any

import yaml
from moto.cloudformation.exceptions import ValidationError

Template = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """YAML with the short forms of intrinsic functions, where a date is a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _short_form(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> Template:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = node.value.split(".", 1) if name == "GetAtt" else node.value
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    return {name if name in {"Ref", "Condition"} else f"Fn::{name}": value}


_Loader.add_multi_constructor("!", _short_form)


def read(body: str) -> Template:
    """Return a template written in JSON or YAML.

    Raises:
        ValidationError: It is neither, or not an object.
    """
    kind = "JSON" if body.lstrip().startswith("{") else "YAML"
    try:
        try:
            template = json.loads(body)
        except json.JSONDecodeError:
            template = yaml.load(body, Loader=_Loader)  # noqa: S506 (a safe loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ValidationError(message=f"Template format error: {kind} not well-formed.{place}") from error
    if not isinstance(template, dict):
        raise ValidationError(message="Template format error: unsupported structure.")
    return template
