"""Attention that ONNX Runtime computes as one operator: found, equal for padded texts, or left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from transformers import BertConfig, BertModel

from triton_models.builds.export.compared import run, session
from triton_models.builds.export.fused import fuse
from triton_models.builds.export.half import to_fp16
from triton_models.builds.export.onnx import export_network
from triton_models.spec import DynamicDim, PyTorchNetwork, Tensor

pytest.importorskip("onnxruntime")

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TOKENS = DynamicDim(name="tokens", min=2, opt=8, max=16)
MASK = np.array([[1] * 5 + [0] * 3, [1] * 8])
TEXTS = {"ids": np.arange(16).reshape(2, 8) % 50, "mask": MASK, "types": 1 - MASK}


class Encoder(torch.nn.Module):
    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        config = BertConfig(vocab_size=50, max_position_embeddings=16, is_decoder=causal, **SIZES)
        self.bert = BertModel(config)

    def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        answer = self.bert(ids, attention_mask=mask, token_type_ids=types, use_cache=False)
        return answer.last_hidden_state


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[torch.nn.Module], tuple[Path, PyTorchNetwork]]:
    def export(network: torch.nn.Module) -> tuple[Path, PyTorchNetwork]:
        model = PyTorchNetwork(
            name="net",
            network=lambda: network,
            inputs=[Tensor(name, "INT64", [TOKENS]) for name in ("ids", "types", "mask")],
            outputs=["Y"],
            max_batch_size=8,
        )
        path = tmp_path / "net" / "1" / "model.onnx"
        path.parent.mkdir(parents=True)
        export_network(network, model, path)
        return path, model

    return export


def operators(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def answer(path: Path) -> np.ndarray:
    return run(session(onnx.load(path)), TEXTS)["Y"]


def test_every_attention_is_one_operator_that_takes_the_mask_of_the_request(exported):
    path, model = exported(Encoder())
    before = answer(path)
    assert fuse(path, model) == 2
    found = operators(path)
    assert (found["Attention"], found["SkipLayerNormalization"], found["BiasGelu"], found["Softmax"]) == (
        2,
        4,
        2,
        0,
    )
    taken = [node.input[3:] for node in onnx.load(path).graph.node if node.op_type == "Attention"]
    assert taken == [["mask:mask"]] * 2
    np.testing.assert_allclose(answer(path), before, rtol=0, atol=1e-5)


def test_equal_networks_are_fused_to_equal_bytes(exported):
    path, model = exported(Encoder())
    plain = path.read_bytes()
    fuse(path, model)
    fused = path.read_bytes()
    path.write_bytes(plain)
    fuse(path, model)
    assert path.read_bytes() == fused


def test_fused_attention_is_converted_to_fp16(exported):
    path, model = exported(Encoder())
    before = answer(path)
    fuse(path, model)
    half = to_fp16(onnx.load(path))
    assert {each.data_type for each in half.graph.initializer} <= {
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.INT64,
    }
    np.testing.assert_allclose(run(session(half), TEXTS)["Y"], before, rtol=0, atol=1e-2)


def test_an_attention_whose_mask_is_not_that_of_the_request_alone_stays_as_exported(exported):
    path, model = exported(Encoder(causal=True))
    before = path.read_bytes()
    assert fuse(path, model) == 0
    assert path.read_bytes() == before


def test_a_network_without_attention_stays_as_exported(exported):
    class Scores(torch.nn.Module):
        def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.softmax((ids + types + mask).float(), dim=1)

    path, model = exported(Scores())
    before = path.read_bytes()
    assert fuse(path, model) == 0
    assert path.read_bytes() == before
