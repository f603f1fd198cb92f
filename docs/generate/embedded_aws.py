"""The page of the embedded AWS: its operations and resource types, and where moto differs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType

from moto.core.responses import BaseResponse
from moto.core.utils import camelcase_to_underscores, get_service_model

from benchmarks.moto_tests import reasons
from triton_aws.cloudformation.catalogue import TYPES
from triton_aws.moto_gaps.members import ADDED, MOTO, REPLACED
from triton_aws.moto_gaps.s3 import UNSUPPORTED

# The services that apps of this kind use, with moto's names for them where they differ.
_SERVICES: Mapping[str, str] = MappingProxyType(
    {
        "application-autoscaling": "applicationautoscaling",
        "budgets": "budgets",
        "cloudformation": "cloudformation",
        "cloudtrail": "cloudtrail",
        "cloudwatch": "cloudwatch",
        "codebuild": "codebuild",
        "ecr": "ecr",
        "events": "events",
        "iam": "iam",
        "kms": "kms",
        "lambda": "awslambda",
        "logs": "logs",
        "s3": "s3",
        "sagemaker": "sagemaker",
        "secretsmanager": "secretsmanager",
        "service-quotas": "servicequotas",
        "sns": "sns",
        "sqs": "sqs",
        "ssm": "ssm",
        "stepfunctions": "stepfunctions",
        "sts": "sts",
    }
)
_HEAD = f"""\
# What the embedded AWS covers

The [embedded AWS](../rehearsal/triton_aws/index.md) is an emulator for rehearsals and tests, not a copy
of AWS. It is moto {MOTO} with its gaps closed where apps of this kind need it, and refuses the rest at once:

- An operation that it lacks fails with `UnsupportedOperation`, and a crash with `InternalFailure`. Both name
  the operation and the reason, in the protocol of the service, with HTTP status 400: no SDK tries again.
- InvokeEndpoint and InvokeEndpointAsync are answered by `fleet rehearse`, with real Triton servers.

## Operations

*Ours* are added or changed where moto differs from AWS. *moto's* are those of
[moto's list](https://docs.getmoto.org/en/latest/docs/services/index.html): their answers have AWS's form, and
may be less exact. All others are refused, and so are services that moto lacks.
"""


def page() -> str:
    """The page."""
    return "\n".join((_HEAD, *_operations(), "", *_types(), "", *_tests(), ""))


def _operations() -> Iterator[str]:
    yield "| service | moto's | refused | ours |"
    yield "|---|---|---|---|"
    for service, module in _SERVICES.items():
        ours, moto, refused = _split(service, module)
        yield f"| {service} | {len(moto)} | {len(refused)} | {', '.join(ours)} |"


def _split(service: str, module: str) -> tuple[list[str], list[str], list[str]]:
    """Return the operations of a service that are ours, moto's, and refused."""
    model = get_service_model(service)
    changed = {
        name
        for target, names in (*REPLACED.items(), *ADDED.items())
        if target.startswith(f"moto.{module}.")
        for name in names
    }
    ours, moto, refused = [], [], []
    for operation in sorted(model.operation_names):
        name = camelcase_to_underscores(operation)
        if name in changed:
            ours.append(operation)
        elif name in _methods(module) if service != "s3" else not _unsupported_by_s3(operation):
            moto.append(operation)
        else:
            refused.append(operation)
    return ours, moto, refused


def _methods(module: str) -> set[str]:
    responses = import_module(f"moto.{module}.responses")
    classes = [
        kind for _, kind in inspect.getmembers(responses, inspect.isclass) if issubclass(kind, BaseResponse)
    ]
    return {name for kind in classes if kind is not BaseResponse for name in dir(kind)}


def _unsupported_by_s3(operation: str) -> bool:
    if operation in {"GetObjectRetention", "UpdateObjectEncryption"}:
        return True
    query = get_service_model("s3").operation_model(operation).http["requestUri"].partition("?")[2]
    return not UNSUPPORTED.isdisjoint(part.partition("=")[0] for part in query.split("&"))


def _types() -> Iterator[str]:
    yield "## Resource types of CloudFormation"
    yield ""
    yield "Stacks create these through the APIs of their services, and custom resources through functions:"
    yield ""
    yield from (f"- `{name}`" for name in sorted(TYPES))
    yield ""
    yield "A template with a resource of any other type, such as a nested stack, is refused at once."


def _tests() -> Iterator[str]:
    listed = reasons()
    yield "## moto's own tests"
    yield ""
    number = sum(map(len, listed.values()))
    yield f"{number} of moto's tests of these services pass against moto alone, and not here:"
    yield ""
    yield "| reason | tests |"
    yield "|---|---|"
    for reason, tests in sorted(listed.items()):
        names = ", ".join(f"`{test.partition('::')[2].partition('[')[0]}`" for test in tests)
        yield f"| {reason} | {names} |"
    yield ""
    yield "`python -m benchmarks.moto_tests` runs them again, and fails on one that is not listed."
