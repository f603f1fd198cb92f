"""What the APIs would say of a request, and what a deployment makes of synthesised properties."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

from triton_fleet.parts.arguments.service_model import check_request
from triton_models.base.checks import Report

_PSEUDO = {
    "AWS::AccountId": "123456789012",
    "AWS::Region": "us-east-1",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}


def refused(service: str, operation: str, request: Mapping[str, Any]) -> list[str]:
    """Return what the API of a service would refuse in a request."""
    model = botocore.session.Session().get_service_model(service)
    shape = model.operation_model(operation).input_shape
    assert shape is not None
    report = Report(operation)
    check_request(report, service, shape.name, request, place=operation)
    validated = ParamValidator().validate(request, shape)
    wrong = [validated.generate_report()] if validated.has_errors() else []
    return [*(f"{each.where}: {each.what}" for each in report.problems), *wrong]


def resolved(value: Any, template: Mapping[str, Any]) -> Any:
    """A value with its intrinsic functions worked out, and likely values where a deployment decides."""
    if isinstance(value, list):
        return [resolved(each, template) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, argument),) = value.items()
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](argument, template)
    return {name: resolved(each, template) for name, each in value.items()}


def _ref(argument: Any, template: Mapping[str, Any]) -> Any:
    kind = template["Resources"].get(argument, {}).get("Type")
    if kind == "AWS::SNS::Topic":
        return f"arn:aws:sns:us-east-1:{_PSEUDO['AWS::AccountId']}:{argument}"
    return _PSEUDO.get(argument, argument)


def _join(argument: Any, template: Mapping[str, Any]) -> Any:
    parts = resolved(argument[1], template)
    return argument[0].join(each if isinstance(each, str) else "part" for each in parts)


def _sub(argument: Any, _: Mapping[str, Any]) -> Any:
    return re.sub(r"\$\{(.+?)\}", lambda match: _PSEUDO[match[1]], argument)


def _find_in_map(argument: Any, template: Mapping[str, Any]) -> Any:
    table, first, second = resolved(argument, template)
    return template["Mappings"][table][first][second]


def _attribute(argument: Any, template: Mapping[str, Any]) -> Any:
    logical_id, attribute = argument
    if attribute != "Arn":
        return logical_id
    _, service, kind = template["Resources"][logical_id]["Type"].lower().split("::")
    return f"arn:aws:{service}::{_PSEUDO['AWS::AccountId']}:{kind}/{logical_id}"


_FUNCTIONS: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "Ref": _ref,
    "Fn::GetAtt": _attribute,
    "Fn::Join": _join,
    "Fn::Sub": _sub,
    "Fn::FindInMap": _find_in_map,
}
