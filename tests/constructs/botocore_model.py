"""Holds synthesised CloudFormation properties against the service's own API model, which botocore carries.

CloudFormation calls the API with these properties, so what the API would refuse is a deployment that fails.
botocore's own validator knows types and required members; enumerations, patterns and lengths are checked
here as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ServiceModel, Shape

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
# Patterns are Java's. Python reads all but character classes and surrogates, which only free text has.
_JAVA_ONLY = re.compile(r"\\[pu]")


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
    for logical_id, resource in template["Resources"].items():
        call = CALLS.get(resource["Type"])
        if call is not None:
            properties = {
                name: value
                for name, value in _resolved(resource["Properties"], template).items()
                if name not in call.left_out
            }
            shape = _service(call.service).operation_model(call.operation).input_shape
            assert shape is not None
            found += _check(shape, {**call.added, **properties}, logical_id)
    return found


def refused(service: str, operation: str, request: Mapping[str, Any]) -> list[str]:
    """Yield the parts of a request that the API of a service would refuse."""
    shape = _service(service).operation_model(operation).input_shape
    assert shape is not None
    return list(_check(shape, request, operation))


def bounds(service: str, shape: str) -> tuple[int, int]:
    """Return the least and the most of a number, or of the length of a list or a string."""
    metadata = _service(service).shape_for(shape).metadata
    return metadata.get("min", 0), metadata["max"]


def resolved(value: Any, template: Mapping[str, Any]) -> Any:
    """A value of a template as a deployment might make it."""
    return _resolved(value, template)


@cache
def _service(name: str) -> ServiceModel:
    """A service's model, which is megabytes of JSON to read."""
    return botocore.session.Session().get_service_model(name)


def _resolved(value: Any, template: Mapping[str, Any]) -> Any:
    """A value with its intrinsic functions worked out, and likely values where a deployment decides."""
    if isinstance(value, list):
        return [_resolved(each, template) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((name, argument),) = value.items()
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](argument, template)
    return {name: _resolved(each, template) for name, each in value.items()}


def _ref(argument: Any, template: Mapping[str, Any]) -> Any:
    kind = template["Resources"].get(argument, {}).get("Type")
    if kind in _PHYSICAL:
        return _PHYSICAL[kind]
    if kind == "AWS::SNS::Topic":
        return f"arn:aws:sns:us-east-1:{_PSEUDO['AWS::AccountId']}:{argument}"
    return _PSEUDO.get(argument, argument)


def _join(argument: Any, template: Mapping[str, Any]) -> Any:
    parts = _resolved(argument[1], template)
    return argument[0].join(
        each if isinstance(each, str) else "part" for each in parts
    )  # of another function


def _sub(argument: Any, _: Mapping[str, Any]) -> Any:
    return re.sub(r"\$\{(.+?)\}", lambda match: _PSEUDO[match[1]], argument)


def _find_in_map(argument: Any, template: Mapping[str, Any]) -> Any:
    table, first, second = _resolved(argument, template)
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


def _check(shape: Shape, value: Any, path: str) -> Iterator[str]:
    checks = {"structure": _structure, "list": _list, "map": _map, "string": _string}
    check = checks.get(shape.type_name, _scalar)
    yield from check(shape, value, path)


def _structure(shape: Any, value: Any, path: str) -> Iterator[str]:
    # CloudFormation's names begin with a capital, some services' do not; BuildSpec is buildspec.
    members = {name.casefold(): name for name in shape.members}
    given = {members.get(name.casefold(), name): each for name, each in value.items()}
    for name in shape.required_members:
        if name not in given:
            yield f"{path}: {name} is missing"
    for name, each in given.items():
        if name in shape.members:
            yield from _check(shape.members[name], each, f"{path}.{name}")
        else:
            yield f"{path}: there is no {name}"


def _list(shape: Any, value: Any, path: str) -> Iterator[str]:
    yield from _bounds(shape, len(value), f"the length of {path}")
    for index, each in enumerate(value):
        yield from _check(shape.member, each, f"{path}[{index}]")


def _map(shape: Any, value: Any, path: str) -> Iterator[str]:
    for key, each in value.items():
        yield from _check(shape.key, key, f"a key of {path}")
        yield from _check(shape.value, each, f"{path}[{key}]")


def _string(shape: Any, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{path}: {value!r} is no string"
        return
    if shape.enum and value not in shape.enum:
        yield f"{path}: {value!r} is not one of {', '.join(shape.enum)}"
    yield from _bounds(shape, len(value), f"the length of {path}")
    pattern = shape.metadata.get("pattern", "")
    if pattern and not _JAVA_ONLY.search(pattern) and re.fullmatch(pattern.strip("^$"), value) is None:
        yield f"{path}: {value!r} does not match {pattern}"


def _scalar(shape: Any, value: Any, path: str) -> Iterator[str]:
    accepted: Any = {"boolean": bool, "integer": int, "long": int}.get(shape.type_name, (int, float))
    if not isinstance(value, accepted) or (isinstance(value, bool) and shape.type_name != "boolean"):
        yield f"{path}: {value!r} is no {shape.type_name}"
        return
    yield from _bounds(shape, value, path)


def _bounds(shape: Shape, number: float, what: str) -> Iterator[str]:
    lowest, highest = shape.metadata.get("min"), shape.metadata.get("max")
    if lowest is not None and number < lowest:
        yield f"{what} is {number}, below {lowest}"
    if highest is not None and number > highest:
        yield f"{what} is {number}, above {highest}"
