"""The resources of a construct, held against the API models of the services that create them.

CloudFormation passes these properties on to the services, so what their models exclude fails a deployment
part-way through. botocore carries the models. Enumerations are left out: they are as old as the installed
botocore, and a newer instance type is no mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from aws_cdk import CfnResource, Stack
from constructs import IConstruct

from triton_fleet.parts.arguments.checks import NUMBER_RANGE
from triton_fleet.parts.arguments.late import LateProblems
from triton_models.base.checks import Check, Report

SERVICE_MODEL = Check(
    id="service-model",
    source="the API models of botocore: https://github.com/boto/botocore/tree/develop/botocore/data",
)

_Shapes = Mapping[str, Mapping[str, Any]]

_CALLS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "AWS::SageMaker::Model": ("sagemaker", "CreateModelInput"),
        "AWS::SageMaker::EndpointConfig": ("sagemaker", "CreateEndpointConfigInput"),
        "AWS::SageMaker::Endpoint": ("sagemaker", "CreateEndpointInput"),
        "AWS::ApplicationAutoScaling::ScalableTarget": (
            "application-autoscaling",
            "RegisterScalableTargetRequest",
        ),
        "AWS::ApplicationAutoScaling::ScalingPolicy": ("application-autoscaling", "PutScalingPolicyRequest"),
        "AWS::CodeBuild::Project": ("codebuild", "CreateProjectInput"),
    }
)
"""The service and the shape of its request by type of resource."""

# Patterns are Java's. Python reads all but character classes and surrogates, which only free text has.
_JAVA_ONLY = re.compile(r"\\[pu]")
_SHOWN = 80


def hold_against_services(construct: IConstruct) -> None:
    """Let the synthesis fail on resources below a construct that their services would refuse."""
    LateProblems(construct, lambda report: check_resources(report, construct))


def check_resources(report: Report, construct: IConstruct) -> None:
    """Check the resources below a construct."""
    for each in construct.node.find_all():
        if isinstance(each, CfnResource) and each.cfn_resource_type in _CALLS:
            service, shape = _CALLS[each.cfn_resource_type]
            properties = each._render_properties(Stack.of(each).resolve(each._cfn_properties))
            check_request(report, service, shape, properties, place=each.node.path)


def check_request(report: Report, service: str, shape: str, request: Any, *, place: str) -> None:
    """Report what a service's model excludes in a request."""
    shapes = _shapes(service)
    for path, name, value in _values(shapes, shapes[shape], request, ""):
        found = Report(f"{path} of {place}")
        _check(found, shapes[name], value, path)
        report.add(found.problems)


@cache
def _shapes(service: str) -> _Shapes:
    from botocore.loaders import Loader  # takes longer to import than to read a model with

    return MappingProxyType(Loader().load_service_model(service, "service-2")["shapes"])


def _values(
    shapes: _Shapes, shape: Mapping[str, Any], value: Any, path: str
) -> Iterator[tuple[str, str, Any]]:
    """Yield path, shape and value of each part of a request."""
    if isinstance(value, Mapping) != (shape["type"] in {"structure", "map"}):
        return  # CloudFormation lists the tags of a scalable target, which are a map in its service's API
    if shape["type"] == "structure":
        # CloudFormation's names begin with a capital, some services' do not; BuildSpec is buildspec.
        members = {name.casefold(): member["shape"] for name, member in shape["members"].items()}
        parts = [
            (f"{path}{'.' if path else ''}{name}", members.get(name.casefold()), each)
            for name, each in value.items()
        ]
    elif shape["type"] == "map":
        parts = [(f"{path}[{name}]", shape["value"]["shape"], each) for name, each in value.items()]
        parts += [(f"a name in {path}", shape["key"]["shape"], name) for name in value]
    elif shape["type"] == "list":
        parts = [(f"{path}[{index}]", shape["member"]["shape"], each) for index, each in enumerate(value)]
    else:
        return
    for place, name, each in parts:
        if name is not None and not _is_intrinsic(each):
            yield place, name, each
            yield from _values(shapes, shapes[name], each, place)


def _is_intrinsic(value: Any) -> bool:
    return isinstance(value, dict) and any(name == "Ref" or name.startswith("Fn::") for name in value)


def _check(report: Report, shape: Mapping[str, Any], value: Any, path: str) -> None:
    name = path.rpartition(".")[2]
    least, most = shape.get("min"), shape.get("max")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if _outside(value, least, most):
            report(NUMBER_RANGE, f"{name} is {value:.10g}", fix=f"give {_range(least, most)}")
    elif isinstance(value, (list, dict)):
        if _outside(len(value), least, most):
            report(SERVICE_MODEL, f"{name} has {len(value)} entries", fix=f"give {_range(least, most)}")
    elif isinstance(value, str):
        pattern = shape.get("pattern", "")
        if _outside(len(value), least, most):
            what = f"{name} is {value[:_SHOWN]!a}, with {len(value)} characters"
            report(SERVICE_MODEL, what, fix=f"give {_range(least, most)} characters")
        elif pattern and not _JAVA_ONLY.search(pattern) and not re.fullmatch(pattern.strip("^$"), value):
            report(SERVICE_MODEL, f"{name} is {value[:_SHOWN]!a}", fix=f"write it as in {pattern}")


def _outside(number: float, least: float | None, most: float | None) -> bool:
    return (least is not None and number < least) or (most is not None and number > most)


def _range(least: float | None, most: float | None) -> str:
    if most is None or most >= 2**31 - 1:
        return f"{least:g} or more"
    return f"{least or 0:g} to {most:.10g}"
