"""Attention that ONNX Runtime computes as one operator: found, equal for padded texts, or left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from small_onnx import network_of
from transformers import BertConfig, BertModel

from triton_models.builds.export.answers import run, session
from triton_models.builds.export.attention import simplify_attention
from triton_models.builds.export.fused import fuse
from triton_models.builds.export.half import to_fp16
from triton_models.builds.export.onnx import export_network
from triton_models.facts.releases import release
from triton_models.spec import DynamicDim, PyTorchNetwork, Tensor

pytest.importorskip("onnxruntime")

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TOKENS = DynamicDim(name="tokens", min=2, opt=8, max=16)
INPUTS = ("ids", "types", "mask")
BIASED, MASKED = release("25.09"), release("24.09")
EXPORTS: dict[str, bytes] = {}
"""The exports of this module's networks by name, because each takes seconds."""

MASK = np.array([[1] * 5 + [0] * 3, [1] * 8])
TEXTS = {"ids": np.arange(16).reshape(2, 8) % 50, "mask": MASK, "types": 1 - MASK}


class Encoder(torch.nn.Module):
    def __init__(self, *, causal: bool = False, pad: int | None = None) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.name = "causal" if causal else "encoder"
        self.name, self.pad = self.name if pad is None else f"{self.name} {pad}", pad
        config = BertConfig(vocab_size=50, max_position_embeddings=16, is_decoder=causal, **SIZES)
        self.bert = BertModel(config)

    def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self.pad is not None:
            types, mask = types * mask, ids.ne(self.pad)
        answer = self.bert(ids, attention_mask=mask, token_type_ids=types, use_cache=False)
        return answer.last_hidden_state


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., tuple[Path, PyTorchNetwork]]:
    def export(
        network: torch.nn.Module, *, tokens: DynamicDim = TOKENS, inputs: Sequence[str] = INPUTS
    ) -> tuple[Path, PyTorchNetwork]:
        model = PyTorchNetwork(
            name="net",
            network=lambda: network,
            inputs=[Tensor(name, "INT64", [tokens]) for name in inputs],
            outputs=["Y"],
            max_batch_size=8,
        )
        path = tmp_path / "net" / "1" / "model.onnx"
        path.parent.mkdir(parents=True)
        name = network.name + ", ".join(inputs) if isinstance(network, Encoder) else ""
        if not name or name not in EXPORTS:
            export_network(network, model, path)
            EXPORTS[name] = path.read_bytes()
        path.write_bytes(EXPORTS[name])
        return path, model

    return export


def operators(path: Path) -> Counter[str]:
    return Counter(node.op_type for node in onnx.load(path).graph.node)


def answer(path: Path) -> np.ndarray:
    return run(session(onnx.load(path)), TEXTS)["Y"]


@pytest.mark.parametrize("simple", [False, True])
@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("23.12", ["mask:mask"]),
        ("25.04", ["mask:mask"]),
        ("25.05", ["", "", "bias"]),
        ("26.05", ["", "", "bias"]),
    ],
)
def test_every_attention_is_one_operator_that_takes_the_mask_as_the_release_does(
    name, taken, simple, exported
):
    path, model = exported(Encoder())
    before = answer(path)
    assert not simple or simplify_attention(path, model) == 2
    assert fuse(path, model, release(name)) == 2
    found = operators(path)
    assert (found["Attention"], found["SkipLayerNormalization"], found["BiasGelu"], found["Softmax"]) == (
        2,
        4,
        2,
        0,
    )
    nodes = [node for node in onnx.load(path).graph.node if node.op_type == "Attention"]
    assert [node.input[3:5] for node in nodes] == [taken[:2]] * 2
    assert [len(node.input) for node in nodes] == [3 + len(taken)] * 2
    np.testing.assert_allclose(answer(path), before, rtol=0, atol=1e-5)


def test_equal_networks_are_fused_to_equal_bytes(exported):
    path, model = exported(Encoder())
    plain = path.read_bytes()
    fuse(path, model, BIASED)
    fused = path.read_bytes()
    path.write_bytes(plain)
    fuse(path, model, BIASED)
    assert path.read_bytes() == fused


def test_fused_attention_is_converted_to_fp16(exported):
    path, model = exported(Encoder())
    before = answer(path)
    fuse(path, model, BIASED)
    half = to_fp16(onnx.load(path))
    single = {weight.name for weight in half.graph.initializer if weight.data_type == onnx.TensorProto.FLOAT}
    (last,) = [node for node in half.graph.node if single & {*node.input}]
    assert last.op_type == "SkipLayerNormalization"
    assert last.output[0] in half.graph.node[-1].input
    np.testing.assert_allclose(run(session(half), TEXTS)["Y"], before, rtol=0, atol=1e-2)


def test_a_mask_that_is_not_that_of_the_request_alone_needs_a_release_that_takes_any_mask(exported):
    path, model = exported(Encoder(causal=True))
    before, answers = path.read_bytes(), answer(path)
    assert fuse(path, model, release("25.04")) == 0
    assert path.read_bytes() == before
    assert fuse(path, model, BIASED) == 2
    np.testing.assert_allclose(answer(path), answers, rtol=0, atol=1e-5)


@pytest.mark.parametrize("order", [INPUTS, ("mask", "ids", "types"), ("types", "mask", "ids")])
def test_the_mask_is_that_of_the_network_whatever_its_inputs_are_called_and_where(order, exported):
    class Ordered(Encoder):
        def forward(self, *given: torch.Tensor) -> torch.Tensor:
            return super().forward(*(given[order.index(name)] for name in INPUTS))

    names = [f"{name}_of_text" if name != "mask" else "seen" for name in order]
    tokens = DynamicDim(name="tokens", min=1, max=16)
    path, model = exported(Ordered(), tokens=tokens, inputs=names)
    before = onnx.load(path)
    assert fuse(path, model, MASKED) == 2
    (attention, *_) = (node for node in onnx.load(path).graph.node if node.op_type == "Attention")
    assert attention.input[3] == "seen:mask"
    texts = {"ids": TEXTS["ids"] * (TEXTS["ids"] % 3 > 0), "types": 0 * MASK, "mask": MASK}
    for mask in (MASK, MASK[:, ::-1] | (MASK == 0), np.ones_like(MASK)):
        request = {name: {**texts, "mask": mask}[key] for name, key in zip(names, order, strict=True)}
        two = (run(session(each), request)["Y"] for each in (onnx.load(path), before))
        np.testing.assert_allclose(*two, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("pad", "count"), [(0, 2), (1, 0)])
def test_tokens_are_the_mask_only_where_the_padding_is_zero(pad, count, exported):
    path, model = exported(Encoder(pad=pad))
    assert fuse(path, model, MASKED) == count


def test_a_network_without_attention_stays_as_exported(exported):
    class Scores(torch.nn.Module):
        def forward(self, ids: torch.Tensor, types: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return torch.softmax((ids + types + mask).float(), dim=1)

    path, model = exported(Scores())
    before = path.read_bytes()
    assert fuse(path, model, BIASED) == 0
    assert path.read_bytes() == before


def test_an_attention_for_tensorrt_has_the_plain_pattern_and_equal_answers(exported):
    path, model = exported(Encoder())
    guarded, before = operators(path), answer(path)
    assert simplify_attention(path, model) == 2
    plain = operators(path)
    assert (guarded["IsNaN"], plain["IsNaN"]) == (2, 0)
    # Less for each of the two: the guard, Shape, Slices, Concats, Reshapes, a Transpose and a scale.
    assert guarded.total() - plain.total() == 2 * 12
    np.testing.assert_allclose(answer(path), before, rtol=0, atol=1e-5)


def test_a_text_without_a_token_has_a_finite_answer(exported):
    path, model = exported(Encoder())
    simplify_attention(path, model)
    texts = {**TEXTS, "mask": np.zeros_like(MASK)}
    assert np.isfinite(run(session(onnx.load(path)), texts)["Y"]).all()
    fuse(path, model, BIASED)
    assert np.isfinite(run(session(onnx.load(path)), texts)["Y"]).all()
    half = to_fp16(onnx.load(path))
    assert np.isfinite(run(session(half), texts)["Y"]).all()


GUARDED = (
    "g (float[rows, 4, 4] X, bool[rows, 4] M) => (float[rows, 4, 4] Y)"
    " <float zero = {0}, float least = {-1}, int64[1] one = {1}, bool[4, 4] early = {EARLY}>"
    " { m = Unsqueeze(M, one) seen = And(m, early) mask = Where(seen, zero, least) x = MatMul(X, X)"
    " scores = Add(x, mask) p = Softmax<axis: int = -1>(scores)"
    " n = IsNaN(p) a = Where(n, zero, p) Y = MatMul(a, X) }"
)
ALL, CAUSAL = ", ".join("1" * 16), "1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1"


def guarded(folder: Path, early: str) -> tuple[Path, PyTorchNetwork]:
    """Return attention over 4 tokens whose masks are -inf, with a guard for rows that see no token."""
    network = network_of(GUARDED.replace("EARLY", early), opsets='"": 18')
    least = next(each for each in network.graph.initializer if each.name == "least")
    least.CopyFrom(onnx.numpy_helper.from_array(np.array([-np.inf], np.float32), "least"))
    path = folder / "net" / "1" / "model.onnx"
    path.parent.mkdir(parents=True)
    onnx.save(network, path)
    inputs = [Tensor("X", "FP32", [4, 4]), Tensor("M", "BOOL", [4])]
    return path, PyTorchNetwork(name="net", network=dict, inputs=inputs, outputs=["Y"], max_batch_size=8)


def test_a_mask_of_infinity_becomes_a_finite_one_without_a_guard(tmp_path):
    path, model = guarded(tmp_path, ALL)
    masks = {"X": np.ones((2, 4, 4), np.float32), "M": np.array([[1, 0, 1, 0], [0, 0, 0, 1]], bool)}
    before = run(session(onnx.load(path)), masks)["Y"]
    assert (operators(path)["IsNaN"], simplify_attention(path, model), operators(path)["IsNaN"]) == (1, 1, 0)
    np.testing.assert_array_equal(run(session(onnx.load(path)), masks)["Y"], before)
    np.testing.assert_array_equal(run(session(onnx.load(path)), {**masks, "M": masks["M"] & False})["Y"], 1)


def test_a_guard_that_decides_answers_stays(tmp_path):
    path, model = guarded(tmp_path, CAUSAL)
    before = path.read_bytes()
    assert (
        simplify_attention(path, model) == 0
    )  # the first of a text that is padded on the left sees no token
    assert path.read_bytes() == before
