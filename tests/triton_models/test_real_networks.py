"""The networks of the tests are real: frameworks load them, and they answer."""

from __future__ import annotations

import io

import numpy as np
import onnxruntime
import pytest

from tests.triton_models.real_networks import onnx_file, onnx_network, script_archive
from triton_models.artifact.pbtxt import plain, tensor


@pytest.mark.parametrize("max_batch_size", [0, 4])
def test_an_onnx_network_answers_in_the_shapes_of_its_configuration(max_batch_size: int) -> None:
    batch = [3] if max_batch_size else []
    config = plain(
        name="net",
        backend="onnxruntime",
        max_batch_size=max_batch_size,
        inputs=[tensor("ids", "INT32", [-1])],
        outputs=[tensor("hidden", "FP32", [-1, 384]), tensor("best", "INT64", [5])],
    )

    session = onnxruntime.InferenceSession(onnx_network(config))
    hidden, best = session.run(None, {"ids": np.ones([*batch, 7], np.int32)})

    assert (hidden.dtype, hidden.shape[-1], hidden.ndim) == (np.float32, 384, len(batch) + 2)
    assert (best.dtype, list(best.shape)) == (np.int64, [*batch, 5])
    assert not hidden.any()
    assert not best.any()


@pytest.mark.parametrize("weights", [b"\0" * 100, b"\xff" * 100_000])
def test_an_onnx_network_contains_its_weights(weights: bytes) -> None:
    x, y = tensor("x", "FP32", [4]), tensor("y", "FP32", [4])
    config = plain(name="net", backend="onnxruntime", max_batch_size=4, inputs=[x], outputs=[y])

    network = onnx_network(config, weights)

    assert weights in network
    assert len(network) < len(weights) + 1000
    session = onnxruntime.InferenceSession(network)
    assert session.run(None, {"x": np.ones([2, 4], np.float32)})[0].shape == (2, 4)


def test_a_network_of_rows_answers() -> None:
    (y,) = onnxruntime.InferenceSession(onnx_file()).run(None, {"x": np.array([[-1, 0, 1, 2]], np.float32)})

    assert y.tolist() == [[0, 0, 1, 2]]


def test_pytorch_loads_a_script_archive() -> None:
    import torch

    network = torch.jit.load(io.BytesIO(script_archive()))

    assert network(torch.ones(2)).tolist() == [1, 1]
