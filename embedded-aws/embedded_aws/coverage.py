"""What the embedded AWS covers, as a page: `python -m embedded_aws.coverage`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module

from moto.core.responses import BaseResponse
from moto.core.utils import camelcase_to_underscores, get_service_model

from embedded_aws.cloudformation import stacks  # noqa: F401 -- which adds operations
from embedded_aws.cloudformation.catalogue import TYPES
from embedded_aws.moto_gaps import close_gaps
from embedded_aws.moto_gaps.patch import MOTO, patched
from embedded_aws.moto_gaps.s3 import UNSUPPORTED

_SERVICES = (
    *("application-autoscaling", "budgets", "cloudformation", "cloudtrail", "cloudwatch", "codebuild", "ecr"),
    *("events", "iam", "kms", "lambda", "logs", "s3", "sagemaker", "secretsmanager", "service-quotas", "sns"),
    *("sqs", "ssm", "stepfunctions", "sts"),
)
_OF_MOTO = {"lambda": "awslambda"}
_HEAD = f"""\
# What the embedded AWS covers

The embedded AWS is an emulator for tests, not a copy of AWS. It is moto {MOTO} with its gaps closed where
stacks with functions, builds and endpoints need it, and refuses the rest at once: an operation that it lacks
fails with `UnsupportedOperation`, and a crash with `InternalFailure`. Both name the operation and the reason,
in the protocol of the service, with HTTP status 400: no SDK tries again.

## Operations

*Ours* are added or changed where moto differs from AWS. *moto's* are those of
[moto's list](https://docs.getmoto.org/en/latest/docs/services/index.html): their answers have AWS's form, and
may be less exact. All others are refused, and so are services that moto lacks.
"""


def page() -> str:
    close_gaps()
    return "\n".join((_HEAD, *_operations(), "", *_types(), ""))


def _operations() -> Iterator[str]:
    yield "| service | moto's | refused | ours |"
    yield "|---|---|---|---|"
    for service in _SERVICES:
        ours, moto, refused = _split(service, _OF_MOTO.get(service, service.replace("-", "")))
        yield f"| {service} | {len(moto)} | {len(refused)} | {', '.join(ours)} |"


def _split(service: str, module: str) -> tuple[list[str], list[str], list[str]]:
    model = get_service_model(service)
    changed = {name for target, name in patched if target.startswith(f"moto.{module}.")}
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


if __name__ == "__main__":
    sys.stdout.write(page())
