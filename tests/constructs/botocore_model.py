"""Holds synthesised CloudFormation properties, with what a deployment makes of them, against the APIs.

Botocore's own validator knows types and required members; ranges, lengths and patterns are those of the
constructs' own check, and enumerations are checked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from triton_fleet.parts.arguments.service_model import check_request
from triton_models.base.checks import Report

_PSEUDO = {
    "AWS::AccountId": "123456789012",
    "AWS::Region": "us-east-1",
    "AWS::Partition": "aws",
    "AWS::URLSuffix": "amazonaws.com",
}
# What a resource is called once it is there, where its logical id would be too long for that.
_PHYSICAL = {
    "AWS::EC2::Subnet": "subnet-0123456789abcdef0",
    "AWS::EC2::SecurityGroup": "sg-0123456789abcdef0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The API call behind a resource type.

    Attributes:
        service: botocore's name of the service.
        operation: The operation that CloudFormation calls.
        added: Members that CloudFormation fills in.
        left_out: Properties that belong to another call or to CloudFormation itself.
    """

    service: str
    operation: str
    added: Mapping[str, Any]
    left_out: frozenset[str] = frozenset()


_TARGET = {
    "ServiceNamespace": "sagemaker",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    "ResourceId": "endpoint/Fleet/variant/AllTraffic",
}
CALLS: Mapping[str, Call] = {
    "AWS::SageMaker::Model": Call(service="sagemaker", operation="CreateModel", added={"ModelName": "model"}),
    "AWS::SageMaker::EndpointConfig": Call(
        service="sagemaker", operation="CreateEndpointConfig", added={"EndpointConfigName": "config"}
    ),
    "AWS::SageMaker::Endpoint": Call(
        service="sagemaker",
        operation="CreateEndpoint",
        added={},
        left_out=frozenset(  # of UpdateEndpoint
            {"RetainAllVariantProperties", "ExcludeRetainedVariantProperties"}
        ),
    ),
    "AWS::ApplicationAutoScaling::ScalableTarget": Call(
        service="application-autoscaling", operation="RegisterScalableTarget", added={}
    ),
    "AWS::ApplicationAutoScaling::ScalingPolicy": Call(
        service="application-autoscaling",
        operation="PutScalingPolicy",
        added=_TARGET,
        left_out=frozenset({"ScalingTargetId"}),
    ),
    "AWS::CodeBuild::Project": Call(
        service="codebuild", operation="CreateProject", added={"name": "project"}
    ),
}


def violations(template: Mapping[str, Any]) -> list[str]:
    """Return the properties that services would refuse in a template's resources of the types in `CALLS`."""
    found: list[str] = []
    for resource in template["Resources"].values():
        call = CALLS.get(resource["Type"])
        if call is not None:
            properties = {
                name: value
                for name, value in resolved(resource["Properties"], template).items()
                if name not in call.left_out
            }
            found += refused(call.service, call.operation, {**call.added, **properties})
    return found


def refused(service: str, operation: str, request: Mapping[str, Any]) -> list[str]:
    """Return what the API of a service would refuse in a request."""
    shape = _service(service).operation_model(operation).input_shape
    assert shape is not None
    report = Report(operation)
    check_request(report, service, shape.name, request, place=operation)
    unlisted: list[str] = []
    validated = ParamValidator().validate(_as_called(shape, request, unlisted), shape)
    wrong = [validated.generate_report()] if validated.has_errors() else []
    return [*(f"{each.where}: {each.what}" for each in report.problems), *unlisted, *wrong]


def _as_called(shape: Any, value: Any, unlisted: list[str]) -> Any:
    """Return a request with the names of the API; notes values that are not in an enumeration."""
    if isinstance(value, dict):
        # CloudFormation's names begin with a capital, some services' do not; BuildSpec is buildspec.
        members = getattr(shape, "members", {})
        names = {name.casefold(): name for name in members}
        given = {names.get(name.casefold(), name): each for name, each in value.items()}
        of = {name: members.get(name, getattr(shape, "value", None)) for name in given}
        return {name: _as_called(of[name], each, unlisted) for name, each in given.items()}
    if isinstance(value, list):
        return [_as_called(getattr(shape, "member", None), each, unlisted) for each in value]
    if getattr(shape, "enum", None) and value not in shape.enum:
        unlisted.append(f"{value!r} is not one of {', '.join(shape.enum)}")
    return value


@cache
def _service(name: str) -> ServiceModel:
    """A service's model, which is megabytes of JSON to read."""
    return botocore.session.Session().get_service_model(name)


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
    if kind in _PHYSICAL:
        return _PHYSICAL[kind]
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
