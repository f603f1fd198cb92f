"""A real Triton server with a multi-model endpoint's settings, and requests to it with all outputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from triton_models.artifact.pbtxt import read_config, schema
from triton_models.client import decode, encode
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.server import TritonServer

ENDPOINT = {
    "SAGEMAKER_MULTI_MODEL": "true",
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
    "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
}


def tensors_of(model: Path) -> list[tuple[str, str, list[int]]]:
    """The name, data type and shape of each input and output that a model's configuration declares."""
    config, types = read_config(model / "config.pbtxt"), schema().DataType
    return [
        (each.name, types.Name(each.data_type), list(each.dims)) for each in (*config.input, *config.output)
    ]


@contextmanager
def serving(*roots: Path, folder: Path) -> Iterator[MultiModelContract]:
    """A server that has loaded the artifacts in some folders, each under its folder's name."""
    with TritonServer(ENDPOINT, folder / "server") as server, MultiModelContract(server.socket) as contract:
        for root in roots:
            answer = contract.load(model_id=root.name, target_model=root.name, folder=str(root))
            assert answer.ok, f"{answer.text}\n{server.log_tail()}"
        yield contract


def ask(contract: MultiModelContract, model: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """All outputs of a model."""
    body, content_type = encode(inputs, outputs=None, content="binary", where=f"a request for {model}")
    answer = contract.invoke(
        model_id=model, target_model=model, body=body, headers={"Content-Type": content_type}
    )
    assert answer.ok, answer.text
    return decode(answer.body, answer.headers["content-type"])
