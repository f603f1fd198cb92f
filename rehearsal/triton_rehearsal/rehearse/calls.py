"""Calls of a running rehearsal, ready to paste into another terminal."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from triton_models.base.encoding import encode
from triton_models.base.errors import FleetError

if TYPE_CHECKING:
    from triton_models.spec import ModelDefinition
    from triton_rehearsal.rehearse.predictions import Prediction

# Triton has no JSON form for it.
_NOT_IN_JSON = "float16"
_COMMAND = "aws sagemaker-runtime invoke-endpoint \\\n  {options} \\\n  /dev/stdout"
_PYTHON = """\
import boto3

runtime = boto3.client("sagemaker-runtime")
response = runtime.invoke_endpoint(
    EndpointName="{endpoint}",
    TargetModel="{artifact}",
    ContentType="{content_type}",
    Body=open("{body}", "rb"),
)
print(response["Body"].read().decode())"""


def example_calls(
    models: Sequence[ModelDefinition], predictions: Sequence[Prediction], *, endpoint: str, folder: Path
) -> Mapping[str, str]:
    """Return a call of the first served model with its first example, for the AWS command line and boto3.

    The request is written to a file in the folder, because that of an image has thousands of numbers.

    Returns:
        The programs, by the name of what they use; empty if no served model has an example in JSON.
    """
    served = {made.model: made.artifact for made in predictions if made.artifact}
    for model in models:
        request = _request(model) if model.name in served else None
        if request is None:
            continue
        body, content_type = request
        path = folder / f"{model.name}.json"
        path.write_bytes(body)
        options = {
            "--endpoint-name": endpoint,
            "--target-model": served[model.name],
            "--content-type": content_type,
            "--body": f"fileb://{path}",
        }
        command = " \\\n  ".join(f"{name} {shlex.quote(value)}" for name, value in options.items())
        return {
            "the AWS command line": _COMMAND.format(options=command),
            "boto3": _PYTHON.format(
                endpoint=endpoint, artifact=served[model.name], content_type=content_type, body=path
            ),
        }
    return {}


def _request(model: ModelDefinition) -> tuple[bytes, str] | None:
    """Return the body and the content type of a model's first example; None if JSON cannot hold it.

    Sequences are left out, because each of their requests needs its own parameters.
    """
    example = next((each for each in model.examples() if not each.sequence), None)
    if example is None or any(each.dtype == _NOT_IN_JSON for each in example.inputs.values()):
        return None
    try:
        return encode(example.inputs, outputs=None, content="json")
    except (FleetError, UnicodeDecodeError):  # a type without JSON form, or bytes such as those of an image
        return None
