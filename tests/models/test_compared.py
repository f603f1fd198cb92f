"""The finished file of a network is compared with its source, on examples and on drawn inputs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_onnx import network_of

from tests.reported import refused
from triton_models.artifact.compared import compared_models
from triton_models.artifact.evidence import evidence_of, range_words
from triton_models.artifact.networks import NetworkTensor, onnx_signature
from triton_models.builds.build import build
from triton_models.builds.export import answers, compared
from triton_models.builds.export import onnx as export
from triton_models.builds.export.accepted import Accepted, accepted_by
from triton_models.builds.export.drawn import Drawn
from triton_models.declare.models import OnnxFile, PyTorchNetwork
from triton_models.declare.tensors import Between, DynamicDim, Tensor

OPSETS = '"": 18, "ai.onnx.ml": 3, "my.own": 1'
EXAMPLE = 'lambda: [Example(name="one", inputs={"X": np.array([[0.5, 1, -2, 3]], np.float32)})]'
TANH = "g (float[rows, 4] X) => (float[rows, 4] Y) { h = Identity(X) Y = Tanh(h) }"


@pytest.fixture
def built(declare_onnx: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Build the network of a graph, and return its directory."""

    def build_it(graph: str, fields: str = "max_batch_size=8", examples: str = EXAMPLE) -> Path:
        shutil.rmtree(tmp_path / "models" / "net", ignore_errors=True)
        network = network_of(graph, opsets=OPSETS)
        models = declare_onnx(network, fields, f"examples={examples}, reference=dict, tolerance=1e-4")
        return build("net", models=models, output=tmp_path / "out")

    return build_it


def record(root: Path) -> Any:
    return compared_models(json.loads((root / "build.json").read_text())).get("net")


def test_a_build_records_examples_rows_tolerance_and_precision(built):
    found = record(built(TANH))
    assert (found.examples, found.drawn, found.allowed, found.precision) == (1, 512, 1e-4, "fp32")


def test_a_network_in_fp64_is_called_so(built, served_by_torch):
    graph = "g (double[rows, 2] X) => (double[rows, 2] Y) <double[2] w = {1, 2}> { Y = Mul(X, w) }"
    example = 'lambda: [Example(name="one", inputs={"X": np.ones((1, 2))})]'
    root = built(graph, examples=example)
    assert record(root).precision == "fp64"
    assert evidence_of(json.loads((root / "build.json").read_text())).precision == "fp64"
    inputs = 'Tensor("INPUT__0", "FP64", [2])'
    forward = "self.double()\nreturn x @ self.table.weight[:2]"
    found = record(served_by_torch(forward, inputs=inputs, examples="[[0.5, 1]], np.float64"))
    assert found.precision == "fp64"


def test_an_example_that_a_tool_made_up_is_not_one_of_the_users(built):
    assert record(built(TANH, examples=EXAMPLE.replace("inputs=", "generated=True, inputs="))).examples == 0


@pytest.mark.parametrize("limit", [1e5, 1e8])
def test_a_rewrite_that_differs_for_large_inputs_alone_fails_the_build_with_the_row(
    limit, built, monkeypatch
):
    def spoil(path: Path) -> None:
        network = network_of(
            f"g (float[rows, 4] X) => (float[rows, 4] Y) <float low = {{-{limit}}}, float high = {{{limit}}}>"
            " { h = Clip(X, low, high) Y = Identity(h) }",
            opsets=OPSETS,
        )
        onnx.save(network, path)

    monkeypatch.setattr(export, "optimize_onnx", spoil)
    graph = (
        "g (float[rows, 4] X) => (float[rows, 4] Y) <float[4, 4] w = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}>"
        " { Y = MatMul(X, w) }"
    )
    problem = refused(built, graph, "max_batch_size=8, optimize=True")
    assert problem.rule == "source-differs"
    assert "Y differs by" in problem.what
    assert "for the drawn X=[" in problem.what


@pytest.mark.parametrize(
    "graph",
    [
        "g (int64[rows, tokens] X) => (float[rows, tokens, 2] Y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}>"
        " { Y = Gather(w, X) }",
        "g (float[rows, 3] X) => (float[rows, 3, 2] Y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}>"
        " { i = Cast<to: int = 7>(X) Y = Gather(w, i) }",
        "g (string[rows, 3] X) => (float[rows, 3] Y) { Y = ai.onnx.ml.LabelEncoder"
        '<keys_strings = ["a", "b"], values_floats = [1.0, 2.0]>(X) }',
        "g (float[rows, size] X) => (float[rows, parts, 16] Y) <int64[3] s = {0, -1, 16}>"
        " { Y = Reshape(X, s) }",
        "g (bool[rows, 4] X) => (bool[rows, 4] Y) { Y = Not(X) }",
        "g (int64[rows] X) => (float[rows, 2] Y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> { Y = Gather(w, X) }",
        "g (string[rows, 1] X) => (float[rows, 1, 2] Y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}>"
        " { i = Cast<to: int = 7>(X) Y = Gather(w, i) }",
        "g (int64[rows, 1] X) => (int64[rows, 1] Y) <int64 zero = {0}, int64 one = {1}, int64[1] all = {-1}>"
        " { most = ReduceMax<keepdims: int = 0>(X) r = Range(zero, most, one) Y = Identity(X) }",
    ],
    ids=[
        *("a table", "a table behind a cast", "strings", "sizes that must be a multiple", "booleans"),
        *("a table and one number for each row", "numbers in strings", "sizes"),
    ],
)
def test_what_a_source_accepts_is_learned_from_its_graph(graph, built):
    assert record(built(graph, examples="list")).drawn == 512


def test_words_reach_a_network_as_a_server_sends_them(tmp_path):
    graph = (
        "g (string[rows, 1] X) => (float[rows, 1] Y) { Y = ai.onnx.ml.LabelEncoder"
        '<keys_strings = ["red"], values_floats = [7.0]>(X) }'
    )
    session = answers.session(network_of(graph, opsets=OPSETS))
    answer = answers.answers_of(session, {"X": np.array([[b"red"], [b"blue"]], object)})
    assert answer["Y"][0, 0] == 7
    assert answer["Y"][1, 0] != 7


def test_columns_whose_encoders_refuse_each_others_words_get_words_of_the_examples(built):
    graph = (
        "g (string[rows, 2] X) => (float[rows, 1, 2] Y) <int64[1] zero = {0}, int64[1] one = {1}>"
        " { a = Gather<axis: int = 1>(X, zero) b = Gather<axis: int = 1>(X, one)"
        ' p = ai.onnx.ml.OneHotEncoder<cats_strings = ["red", "blue"], zeros: int = 0>(a)'
        ' q = ai.onnx.ml.OneHotEncoder<cats_strings = ["small", "large"], zeros: int = 0>(b) Y = Add(p, q) }'
    )
    words = '[[b"red", b"small"], [b"blue", b"large"]]'
    rows = f'lambda: [Example(name="two", inputs={{"X": np.array({words}, object)}})]'
    assert record(built(graph, examples=rows)).drawn == 512
    problem = refused(built, graph, examples=rows.replace("red", "small"))
    assert "refuses the example X=[b'small', b'small', b'blue', b'large']" in problem.what


@pytest.mark.parametrize(
    ("scores", "places", "others", "ties"),
    [
        ([0.7, 0.3, 0.3], [4, 1, 2], [4, 2, 1], True),
        ([0.7, 0.3, 0.2], [4, 1, 2], [4, 2, 1], False),
        ([1.0, 0.0], [4, 1], [4, 3], True),
        ([0.7, 0.3], [4, 1], [4, 3], False),
    ],
    ids=["tied", "ranked", "saturated", "another place"],
)
def test_rankings_differ_only_where_their_scores_do(scores, places, others, ties):
    exact = {"scores": np.array([scores], np.float32), "places": np.array([places])}
    other = {**exact, "places": np.array([others])}
    assert compared._only_ties(exact["places"], other["places"], exact, other) == ties
    assert not compared._only_ties(exact["places"], other["places"], exact, {"places": other["places"]})


def test_an_example_has_the_shape_of_a_request_although_the_network_takes_one_size_fewer(built):
    graph = (
        "g (float[rows, 2] X, float[rows] N) => (float[rows, 2] Y) <int64[1] axis = {1}>"
        " { n = Unsqueeze(N, axis) Y = Mul(X, n) }"
    )
    inputs = '{"X": np.ones((1, 2), np.float32), "N": np.ones((1, 1), np.float32)}'
    assert record(built(graph, examples=f'lambda: [Example(name="one", inputs={inputs})]')).examples == 1


def test_an_example_that_the_network_refuses_fails_the_build_unless_a_tool_made_it_up(built, capsys):
    graph = "g (int64[rows, 1] X) => (float[rows, 1, 1] Y) <float[3, 1] w = {1, 2, 3}> { Y = Gather(w, X) }"
    example = 'lambda: [Example(name="one", inputs={"X": np.array([[5]])})]'
    assert "refuses the example X=[5]" in refused(built, graph, examples=example).what
    assert record(built(graph, examples=example.replace("inputs=", "generated=True, inputs="))).examples == 0
    assert "note: net refuses an example that a tool made up" in capsys.readouterr().err


UNKNOWN_TABLE = (
    "g (int64[rows, 1] X, float[rows, 2] W) => (float[rows, 1] Y) <int64 seven = {7}>"
    " { i = Add(X, seven) Y = GatherElements<axis: int = 1>(W, i) }"
)


def test_inputs_that_the_source_refuses_are_asked_for_and_the_answer_helps(built):
    problem = refused(built, UNKNOWN_TABLE, examples="list")
    assert problem.rule == "drawn-inputs"
    assert 'inputs_between={"X": Between(' in problem.fix
    declared = 'max_batch_size=8, inputs_between={"X": Between(-7, -6, why="the places of two columns")}'
    found = record(built(UNKNOWN_TABLE, declared, examples="list"))
    assert (found.ranges["X"].low, found.ranges["X"].why) == (-7, "the places of two columns")


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (
            "g (float[rows, 4] X) => (float[rows, 4] Y) { noise = RandomNormalLike(X) Y = Add(X, noise) }",
            "its answers are random, or depend on earlier requests",
        ),
        (
            "g (float[rows, 4] X) => (float[rows, 4] Y) "
            '{ Y = com.microsoft.EPContext<embed_mode: int = 1, ep_cache_context: string = "">(X) }',
            "cannot load it here",
        ),
    ],
    ids=["random answers", "a part compiled for a device"],
)
def test_a_network_that_cannot_be_compared_is_built_without_a_record_and_says_so(graph, said, built, capsys):
    assert record(built(graph)) is None
    assert f"note: net is not compared with its source: {said}" in capsys.readouterr().err.replace(
        "ONNX Runtime ", ""
    )


def test_rows_that_the_source_refuses_now_and_then_are_left_out(served_by_torch):
    forward = "if bool((x == 0).all()):\n    raise ValueError('zeros alone')\nreturn x * 2"
    found = record(served_by_torch(forward))
    assert 400 < found.drawn < 512


def test_missing_values_that_the_source_knows_to_refuse_them_do_not_come(served_by_torch):
    forward = "if bool(torch.isnan(x).any()):\n    raise ValueError('NaN')\nreturn x * 2"
    assert record(served_by_torch(forward)).drawn == 512


def test_checks_between_values_of_declared_ranges_are_named_with_a_fix_that_works(served_by_torch):
    check = "if bool((x[:, 0] > x[:, 1]).any()):\n    raise ValueError('starts after its end')\n"
    fields = 'max_batch_size=8, inputs_between={"INPUT__0": Between(0, 1, why="hours")}'
    problem = refused(served_by_torch, f"{check}return x * 2", fields=fields)
    assert problem.rule == "drawn-inputs"
    assert "check them where they are sent" in problem.fix
    assert record(served_by_torch("return x * 2", fields=fields)).drawn == 512


def test_rows_that_the_source_answers_with_nan_prove_nothing(built, capsys):
    drawn = record(built("g (float[rows, 4] X) => (float[rows, 4] Y) { Y = Log(X) }")).drawn
    assert 0 < drawn < 512
    assert (
        f"note: the source of net answers NaN or infinity to {512 - drawn} of 512 " in capsys.readouterr().err
    )


BATCHES = {
    "rows of another number": "g (float[rows, 4] X) => (float[found, 4] Y) <bool[1] first = {1}>"
    " { Y = Compress<axis: int = 0>(X, first) }",
    "a constant of one row": "g (float[rows, 4] X) => (float[rows, 6] Y) <float[1, 2] more = {1, 2}>"
    " { Y = Concat<axis: int = 1>(X, more) }",
    "a mean of all rows": "g (float[rows, 4] X) => (float[rows, 4] Y) <int64[1] axis = {0}>"
    " { mean = ReduceMean(X, axis) Y = Sub(X, mean) }",
}


@pytest.mark.parametrize("graph", BATCHES.values(), ids=BATCHES)
def test_a_network_that_does_not_batch_is_refused_and_served_without_a_batch(graph, built):
    problem = refused(built, graph)
    assert problem.rule == "network-batch"
    assert "max_batch_size" in problem.fix
    built(graph, "max_batch_size=0")


@pytest.mark.parametrize(
    ("between", "said"),
    [
        ('{"X": Between(0, 1, why="")}', "has no reason"),
        ('{"X": Between(1, 0, why="pixels")}', "holds no range"),
        ('{"X": Between(0, 2, why="counts", never_empty=True)}', "is no mask"),
        ('{"X": Between(0, float("inf"), why="pixels")}', "is not finite"),
        ('{"Z": Between(0, 1, why="pixels")}', "has no input 'Z'"),
        ('{"X": Between(0, 1, why="pixels")}', "an example has 'X' from -2 to 3, and only 0 to 1"),
    ],
)
def test_a_range_must_be_complete_and_hold_the_examples(between, said, built):
    assert said in refused(built, TANH, f"max_batch_size=8, inputs_between={between}").what


def test_a_range_of_strings_is_refused(built):
    graph = "g (string[rows, 1] X) => (string[rows, 1] Y) { Y = Identity(X) }"
    words = 'lambda: [Example(name="one", inputs={"X": np.array([[b"red"]], object)})]'
    fields = 'max_batch_size=8, inputs_between={"X": Between(0, 1, why="pixels")}'
    assert "an example has strings for 'X'" in refused(built, graph, fields, examples=words).what


def drawn_of(graph: str, tmp_path: Path, batch: int = 8, *, asked: bool = False) -> list[Any]:
    onnx.save(network := network_of(graph, opsets=OPSETS), tmp_path / "net.onnx")
    model = OnnxFile(name="net", max_batch_size=batch)
    inputs = onnx_signature(tmp_path / "net.onnx").inputs
    drawing = Drawn(model=model, inputs=inputs, accepted=accepted_by(network))
    chosen = next(drawing.choices((lambda _: {}) if asked else None))
    return list(chosen.requests())


SCALED = (
    "g (float[rows, 4] X) => (float[rows, 4] Y) <float[4] mean = {45000, 9, 9, 9},"
    " float[4] std = {15000, 1, 1, 1}>"
    " { a = Sub(X, mean) b = Div(a, std) Y = Tanh(b) }"
)


def test_rows_reach_from_zero_to_billions_and_to_what_scalers_expect(tmp_path):
    features = SCALED.replace("Y = Tanh(b)", "Y = ai.onnx.ml.Normalizer(b)")
    rows = np.concatenate([each["X"] for each in drawn_of(features, tmp_path)])
    assert len(rows) == 512
    assert {len(each["X"]) for each in drawn_of(features, tmp_path)} >= {1, 2, 3, 8}
    assert (rows == 0).all(axis=1).any()
    assert (rows < 0).any()
    assert np.abs(rows).max() > 1e8
    usual = np.abs(rows[:, 0] - 45000) < 45000
    assert usual.sum() > 100


@pytest.mark.parametrize("span", [None, Between(-3, 3, why="scaled"), Between(0, 1, why="shares")])
def test_rows_are_small_and_nearly_constant_in_every_range(span, tmp_path):
    onnx.save(network := network_of(TANH, opsets=OPSETS), tmp_path / "net.onnx")
    ranges = {"X": span} if span else {}
    drawing = Drawn(
        model=OnnxFile(name="net", max_batch_size=8, inputs_between=ranges),
        inputs=onnx_signature(tmp_path / "net.onnx").inputs,
        accepted=accepted_by(network),
    )
    rows = np.concatenate([request["X"] for request in drawing.requests()])
    largest = np.abs(rows).max(axis=1)
    for least, most in ((1e-7, 1e-5), (1e-5, 1e-3), (1e-3, 1e-1)):
        assert ((least < largest) & (largest < most)).sum() > 4
    noise = rows.std(axis=1) / np.maximum(np.abs(rows.mean(axis=1)), 1e-9)
    assert ((noise > 1e-4) & (noise < 3e-3)).sum() > 20
    assert span is None or (span.low <= rows.min() and rows.max() <= span.high)


def test_rows_of_a_range_without_zero_are_not_small(tmp_path):
    onnx.save(network_of(TANH, opsets=OPSETS), tmp_path / "net.onnx")
    model = OnnxFile(name="net", max_batch_size=8, inputs_between={"X": Between(5, 9, why="ids")})
    requests = Drawn(model=model, inputs=onnx_signature(tmp_path / "net.onnx").inputs).requests()
    assert min(request["X"].min() for request in requests) == 5


def test_missing_values_come_only_where_an_operator_knows_them(tmp_path):
    for first in ("h = Identity(X)", "h = Log(X)", "h = ReduceMax<axes = [1]>(X)"):
        knows = f"g (float[rows, 4] X) => (bool[rows, n] Y) {{ {first} Y = IsNaN(h) }}"
        assert any(np.isnan(each["X"]).any() for each in drawn_of(knows, tmp_path))
    assert not any(np.isnan(each["X"]).any() for each in drawn_of(TANH, tmp_path))


def test_a_flag_is_no_mask_and_bits_are_few_or_many(tmp_path):
    flags = "g (bool[rows, 1] A, bool[rows, 1] B) => (bool[rows, 1] Y) { Y = And(A, B) }"
    rows = [pair for each in drawn_of(flags, tmp_path) for pair in zip(each["A"], each["B"], strict=True)]
    counts = [sum(1 for pair in rows if (pair[0].item(), pair[1].item()) == of) for of in BITS]
    assert min(counts) > 20
    features = "g (bool[rows, 50] A) => (bool[rows, 50] Y) { Y = Not(A) }"
    ones = [int(row.sum()) for each in drawn_of(features, tmp_path) for row in each["A"]]
    assert {1, 2, 3} <= {*ones}
    assert sum(1 for count in ones if count in {1, 2, 3}) > 30


def test_a_mask_of_tokens_with_a_last_size_of_1_is_no_flag(tmp_path):
    graph = "g (bool[rows, tokens, 1] mask) => (bool[rows, tokens, 1] Y) { Y = Not(mask) }"
    rows = [row for each in drawn_of(graph, tmp_path) for row in each["mask"] if row.size > 1]
    assert not drawn_of(graph, tmp_path)[-1]["mask"].any()
    assert all(row.any() for row in rows[:-1])


def test_a_costly_source_may_refuse_each_mask_without_a_token():
    masks = [NetworkTensor(name=f"mask_{n}", data_type="TYPE_INT64", dims=["rows", 4]) for n in range(5)]

    def source(request: Any) -> dict[str, np.ndarray]:
        if not all(value.any(1).all() for value in request.values()):
            msg = "no token"
            raise ValueError(msg)
        return {"Y": np.ones((len(request["mask_0"]), 1), np.float32)}

    drawing = Drawn(model=OnnxFile(name="net", max_batch_size=8), inputs=masks, operations=1e12)
    comparison = compared.Comparison(source=source, drawing=drawing).prepare()
    assert comparison.rows >= comparison.drawing.rows


BITS = [(False, False), (False, True), (True, False), (True, True)]


def test_masks_end_in_zeros_and_the_last_one_alone_hides_its_row_whole(tmp_path):
    masked = "g (int64[rows, tokens] mask) => (float[rows, tokens] Y) { Y = Cast<to: int = 1>(mask) }"
    rows = [row for each in drawn_of(masked, tmp_path) for row in each["mask"]]
    assert all(row[0] == 1 and (np.diff(row) <= 0).all() for row in rows[:-1])
    assert not rows[-1].any()
    assert len({len(row) for row in rows}) > 1
    assert any(row[-1] == 0 for row in rows)


@pytest.mark.parametrize("first", ["Log(X)", "Sqrt(X)", "Asinh(X)", "Softplus(X)"])
def test_rows_of_features_are_large_whatever_reads_them_first(first, tmp_path):
    graph = f"g (float[rows, 4] X) => (float[rows, 4] Y) {{ Y = {first} }}"
    rows = np.concatenate([each["X"] for each in drawn_of(graph, tmp_path)])
    for least in (5e4, 1e5, 1e8):
        assert (rows > least).all(axis=1).any(), f"no row is positive and above {least:g}"


def test_sequences_of_features_are_large_and_images_are_not(tmp_path):
    sequences = "g (float[rows, 5, 4] X) => (float[rows, 5, 4] Y) { Y = Tanh(X) }"
    images = "g (float[rows, 3, 4, 4] X) => (float[rows, 3, 4, 4] Y) { Y = Tanh(X) }"
    assert max(np.abs(each["X"]).max() for each in drawn_of(sequences, tmp_path)) > 1e8
    assert max(np.abs(each["X"]).max() for each in drawn_of(images, tmp_path)) < 1e5


@pytest.mark.parametrize(
    ("then", "large"),
    [
        ("f = Cast<to: int = 1>(X) Y = Log(f)", True),
        ("a = Abs(X) s = Neg(a) f = Cast<to: int = 1>(s) Y = Tanh(f)", True),
        ("zero = Constant<value_int: int = 0>() b = Equal(X, zero) Y = Cast<to: int = 1>(b)", True),
        ("Y = Gather(w, X)", False),
    ],
    ids=["amounts", "amounts behind other operators", "a question", "places in a table"],
)
def test_whole_numbers_of_which_nothing_says_more_are_large(then, large, tmp_path):
    result = "float[rows, n, 2] Y" if "Gather" in then else "float[rows, n] Y"
    graph = f"g (int64[rows, n] X) => ({result}) <float[3, 2] w = {{1, 2, 3, 4, 5, 6}}> {{ {then} }}"
    rows = [each["X"] for each in drawn_of(graph, tmp_path, asked=large)]
    assert (max(row.max() for row in rows) > 1e8) == large
    of_these_weeks = [row for row in rows if row.min() > 1.99e12]
    assert (len(of_these_weeks) > 0) == large


LONG = [
    Tensor(name, "INT64", [DynamicDim(name="tokens", min=1, opt=16, max=500)]) for name in ("ids", "mask")
]


def requests_of(tensors: list[Tensor], batch: int = 32, **fields: Any) -> list[Any]:
    model = PyTorchNetwork(name="net", network=dict, inputs=tensors, outputs=["Y"], max_batch_size=batch)
    inputs = [
        NetworkTensor(name=each.name, data_type=f"TYPE_{each.data_type}", dims=["batch", "tokens"])
        for each in tensors
    ]
    accepted = {"ids": Accepted(table=100), "mask": Accepted(mask=True)}
    return list(Drawn(model=model, inputs=inputs, accepted=accepted, **fields).requests())


@pytest.mark.parametrize("operations", [0.0, 3e9], ids=["cheap", "costly"])
def test_the_largest_size_the_usual_one_with_padding_and_the_largest_batch_are_drawn(operations):
    masks = [each["mask"] for each in requests_of(LONG, operations=operations)]
    assert any(mask.shape == (1, 500) and mask.all() for mask in masks)
    assert any(mask.shape[1] == 16 and not mask.all() and mask.any() for mask in masks)
    assert any(mask.shape[0] == 32 for mask in masks)
    assert sum(len(mask) for mask in masks) == (1 + 3 + 1 + 1 + 32 + 1 if operations else 512)


def test_declared_sizes_of_every_remainder_and_magnitude_are_drawn():
    sizes = {request["ids"].shape[1] for request in requests_of(LONG)}
    assert {size % 11 for size in sizes} == set(range(11))
    assert all(any(low <= size < 2 * low for size in sizes) for low in (1, 2, 4, 8, 16, 32, 64, 128, 250))


@pytest.mark.parametrize(("dims", "largest"), [([None], 16000), ([None, None], 576), ([3, None, None], 576)])
def test_sizes_that_nothing_declares_take_no_gigabytes(dims, largest):
    inputs = [NetworkTensor(name="X", data_type="TYPE_FP32", dims=["rows", *dims])]
    drawing = Drawn(model=OnnxFile(name="net", max_batch_size=8), inputs=inputs)
    assert max(max(sizes) for sizes in drawing.possible_sizes()) == largest


def test_sizes_that_take_too_long_are_halved_and_the_record_says_so():
    model = PyTorchNetwork(name="net", network=dict, inputs=LONG, outputs=["Y"], max_batch_size=8)
    inputs = [
        NetworkTensor(name=each.name, data_type="TYPE_INT64", dims=["batch", "tokens"]) for each in LONG
    ]
    drawing = Drawn(model=model, inputs=inputs, operations=1e10)
    assert drawing.limits == "tokens up to 125 of 500"
    assert max(each["ids"].shape[1] for each in drawing.requests()) == 125
    assert not replace(drawing, operations=1e6).limits


def test_a_network_whose_rows_take_minutes_gets_few_of_them():
    inputs = [NetworkTensor(name="X", data_type="TYPE_FP32", dims=["rows", 4])]
    drawing = Drawn(model=OnnxFile(name="net", max_batch_size=8), inputs=inputs, operations=6e12)
    assert [len(request["X"]) for request in drawing.requests()] == [1, 2, 1, 1, 1]


def test_requests_that_are_kept_take_a_bounded_memory():
    image = [3, 1080, 1920]
    inputs = [NetworkTensor(name="X", data_type="TYPE_UINT8", dims=["rows", *image])]
    drawing = Drawn(model=OnnxFile(name="net", max_batch_size=8), inputs=inputs)
    assert sum(request["X"].nbytes for request in drawing.requests()) < 200e6


@pytest.mark.parametrize("batch", [1, 2, 8])
def test_a_costly_network_gets_all_kinds_of_values(batch, tmp_path):
    onnx.save(network := network_of(TANH, opsets=OPSETS), tmp_path / "net.onnx")
    inputs = onnx_signature(tmp_path / "net.onnx").inputs
    model = OnnxFile(name="net", max_batch_size=batch)
    drawing = Drawn(model=model, inputs=inputs, accepted=accepted_by(network), operations=3e11)
    rows = np.concatenate([each["X"] for each in drawing.requests()])
    assert len(rows) < 32
    assert [(np.abs(rows).max(axis=1) > each).any() for each in (1e5, 1e8)] == [True, True]
    assert (rows == 0).all(axis=1).any()
    assert (rows < 0).all(axis=1).any()


def test_equal_networks_get_equal_rows(tmp_path):
    one, two = (drawn_of(SCALED, tmp_path) for _ in range(2))
    assert all(np.array_equal(a["X"], b["X"]) for a, b in zip(one, two, strict=True))


NETWORK = """
from triton_models.spec import *

def network():
    import torch
    class Net(torch.nn.Module):
        def forward(self, x):
            return x * 2
    return Net()

def examples():
    import numpy as np
    return [Example(name="one", inputs={"x": np.array([[0.5, 1]], np.float32)})]

BUILD = ModelDefinition(
    name="net", description="made up", output="Y", examples=examples, reference=dict, tolerance=1e-4,
    models=[PyTorchNetwork(name="net", network=network, outputs=["Y"], max_batch_size=8)],
)
"""


def test_the_file_of_a_pytorch_network_is_compared_with_the_module_and_not_with_itself(tmp_path, monkeypatch):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(NETWORK)
    assert record(build("net", models=tmp_path / "models", output=tmp_path / "out")).drawn == 512
    export_network = export.export_network

    def spoil(network: Any, model: Any, path: Path, **given: Any) -> None:
        export_network(network, model, path, **given)
        wrong = onnx.load(path)
        wrong.graph.node.insert(0, onnx.helper.make_node("Relu", ["x"], ["positive"]))
        for node in wrong.graph.node[1:]:
            node.input[:] = ["positive" if name == "x" else name for name in node.input]
        onnx.save(wrong, path)

    monkeypatch.setattr(export, "export_network", spoil)
    problem = refused(build, "net", models=tmp_path / "models", output=tmp_path / "out")
    assert problem.rule == "source-differs"
    assert "for the drawn x=[" in problem.what


def torch_network(
    forward: str,
    backend: str,
    *,
    fields: str = "",
    inputs: str = "",
    name: str = "INPUT__0",
    examples: str = "[[0.5, 1]], np.float32",
    layers: str = "",
) -> str:
    """Return a declaration of a network with one input that a backend of PyTorch serves."""
    inputs = inputs or f'Tensor("{name}", "FP32", [2])'
    lines = "\n".join(f"            {line}" for line in forward.splitlines())
    return f"""
from triton_models.spec import *

def network():
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(1000, 2)
            self.calls = 0
            {layers}
        def forward(self, x: torch.Tensor) -> torch.Tensor:
{lines}
    return Net()

def examples():
    import numpy as np
    return [Example(name="one", inputs={{"{name}": np.array({examples})}})]

BUILD = ModelDefinition(
    name="net", description="made up", output="OUTPUT__0", examples=examples, reference=dict, tolerance=1e-4,
    models=[PyTorchNetwork(name="net", network=network, outputs=["OUTPUT__0"], inputs=[{inputs}],
        backend={backend}, {fields or "max_batch_size=8"})],
)
"""


@pytest.fixture
def served_by_torch(tmp_path: Path) -> Callable[..., Path]:
    """Build a network for a backend of PyTorch, and return its directory."""

    def build_it(forward: str, backend: str = "LibTorch()", **given: str) -> Path:
        folder = tmp_path / "models" / "net"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "build.py").write_text(torch_network(forward, backend, **given))
        return build("net", models=folder.parent, output=tmp_path / "out")

    return build_it


def test_a_torchscript_file_is_compared_with_its_module_and_recorded(served_by_torch):
    found = record(served_by_torch("return x * 2"))
    assert (found.examples, found.drawn, found.allowed, found.precision) == (1, 512, 1e-4, "fp32")


@pytest.mark.parametrize(
    "branch",
    ["x.sum() < 0", "x.abs().max() > 100_000", "bool((x == 0).all())"],
    ids=["negative", "large", "zeros"],
)
def test_a_trace_that_loses_a_branch_on_values_is_refused_and_scripting_keeps_it(branch, served_by_torch):
    forward = f"if {branch}:\n    return x * 3 + 1\nreturn x * 2"
    problem = refused(served_by_torch, forward)
    assert (problem.rule, problem.where) == ("torchscript-export", "model 'net': the network of 'net'")
    assert f"hands values of inputs to Python, in `if {branch}:`" in problem.what
    assert problem.fix.endswith('export it with LibTorch(export="script")')
    hidden = forward.replace("if ", "if not torch.jit.is_tracing() and ")
    problem = refused(served_by_torch, hidden)
    assert (problem.rule, problem.where) == ("source-differs", "model 'net': net/1/model.pt")
    assert "OUTPUT__0 differs by" in problem.what
    assert "for the drawn INPUT__0=[" in problem.what
    assert problem.fix.startswith('export it with LibTorch(export="script")')
    scripted = 'LibTorch(export="script")'
    inputs = 'Tensor("INPUT__0", "FP32", [DynamicDim(name="rows", min=1, max=8), 2])'
    assert refused(served_by_torch, hidden, inputs=inputs, fields="max_batch_size=0").rule == "source-differs"
    assert record(served_by_torch(forward, scripted, inputs=inputs, fields="max_batch_size=0")).drawn == 128


@pytest.mark.parametrize(
    ("data_type", "forward", "branch"),
    [
        ("FP32", "y = self.table(x[:, 0].long())", "x[:, 1].max() > 100_000"),
        ("INT64", "y = self.table(x[:, 0]) * x[:, 1:].float()", "x[:, 1].max() > 100_000"),
        ("INT64", "y = x.float()", "x.max() > 100_000"),
    ],
    ids=["next to a category", "whole next to a category", "counts"],
)
def test_amounts_are_large_beside_categories_and_where_examples_look_like_masks(
    data_type, forward, branch, served_by_torch
):
    forward += f"\nif not torch.jit.is_tracing() and {branch}:\n    y = y + 1\nreturn y"
    inputs = f'Tensor("INPUT__0", "{data_type}", [2])'
    examples = {"examples": f"[[1, 1]], np.{'float32' if data_type == 'FP32' else 'int64'}"}
    problem = refused(served_by_torch, forward, inputs=inputs, **examples)
    assert problem.rule == "source-differs"
    assert record(served_by_torch(forward.partition("\n")[0] + "\nreturn y", inputs=inputs, **examples))


def test_scripting_keeps_a_branch_on_each_row(served_by_torch):
    forward = """y = x * 2
for row in range(x.shape[0]):
    if bool(x[row].sum() < 0):
        y[row] = x[row] * 3
return y"""
    assert refused(served_by_torch, forward).rule in {"source-differs", "torchscript-export"}
    assert record(served_by_torch(forward, 'LibTorch(export="script")')).drawn == 512


@pytest.mark.parametrize("backend", ['LibTorch(export="trace")', "OnnxRuntime()"])
def test_an_encoder_that_clears_masked_tokens_is_refused_with_its_option(backend, served_by_torch):
    forward = "return self.encoder(self.table(x), src_key_padding_mask=x == 0)[..., 0]"
    tokens = 'Tensor("INPUT__0", "INT64", [DynamicDim(name="tokens", max=16)])'
    given = {"inputs": tokens, "examples": "[[1, 2, 3, 0], [4, 5, 0, 0]], np.int64"}
    encoder = "nn.TransformerEncoder(nn.TransformerEncoderLayer(2, 2, 4, batch_first=True), 1OPTION)"
    layers = f"nn = torch.nn; torch.manual_seed(0); self.encoder = {encoder}"
    problem = refused(served_by_torch, forward, backend, layers=layers.replace("OPTION", ""), **given)
    option = "enable_nested_tensor=False"
    assert f"if it masks tokens, create nn.TransformerEncoder with {option}; otherwise" in problem.fix
    changed = layers.replace("OPTION", f", {option}")
    assert record(served_by_torch(forward, backend, layers=changed, **given)).drawn > 256


DETECTOR = """s = torch.sigmoid(x @ self.scores - 4.6)
_, places = s.topk(20)
return self.boxes[places]MORE"""


def test_boxes_whose_scores_nearly_tie_may_change_places_and_others_may_not(served_by_torch):
    layers = "torch.manual_seed(0); self.register_buffer('scores', 0.1 * torch.rand(2, 4000)); "
    layers += "self.register_buffer('boxes', 100 * torch.rand(4000, 4))"
    given = {
        "layers": layers,
        "fields": "max_batch_size=8, inputs_between={'INPUT__0': Between(0, 1, why='p')}",
    }
    assert record(served_by_torch(DETECTOR.replace("MORE", ""), "OnnxRuntime()", **given)).drawn == 512
    wrong = DETECTOR.replace("MORE", " + 2 * torch.compiler.is_exporting()")
    assert refused(served_by_torch, wrong, "OnnxRuntime()", **given).rule == "source-differs"


@pytest.mark.parametrize(("opset", "relative"), [(11, 0.02), (17, 1e-6)])
def test_low_scores_that_are_ranked_have_all_their_digits_where_onnx_can_say_it(opset, relative):
    outputs = "float[rows, 4] S, int64[rows, 1] I"
    graph = f"g (float[rows, 4] X) => ({outputs}) {{ S = Sigmoid(X) I = ArgMax<axis: int = 1>(S) }}"
    x = np.array([[-12.5, -4.6, 0.1, 9]], np.float32)
    scores = answers.run_file(network_of(graph, opsets=f'"": {opset}'))({"X": x})["S"]
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-x.astype(np.float64))), rtol=relative)


def test_a_large_number_gives_a_small_one_beside_it_no_allowance(served_by_torch):
    price = "torch.exp(x.sum(1, keepdim=True) + 9)"
    wrong = "p = torch.sigmoid(x[:, :1])\nq = 1 - p if torch.compiler.is_exporting() else p"
    forward = f"{wrong}\nreturn torch.cat([{price}, q], 1)"
    fields = "max_batch_size=8, inputs_between={'INPUT__0': Between(-1, 1, why='scaled')}"
    problem = refused(served_by_torch, forward, "OnnxRuntime()", fields=fields)
    assert "OUTPUT__0 differs by 0.24 for the example" in problem.what


def test_the_least_size_is_asked_for_where_a_network_refuses_small_ones(served_by_torch):
    forward = "return torch.nn.functional.max_pool2d(x, (4, 1)).amax((2, 3))"
    given = {"fields": "max_batch_size=8, inputs_between={'INPUT__0': Between(0, 1, why='p')}"}
    given["examples"] = "np.full((1, 1, 8, 2), 0.5).tolist(), np.float32"
    tensor = 'Tensor("INPUT__0", "FP32", [1, DynamicDim(name="height", LEAST max=96), 2])'
    problem = refused(served_by_torch, forward, "OnnxRuntime()", inputs=tensor.replace("LEAST", ""), **given)
    assert problem.fix.startswith("declare the least size of 'height', as DynamicDim(min=...); ")
    larger = tensor.replace("LEAST", "min=4,")
    assert record(served_by_torch(forward, "OnnxRuntime()", inputs=larger, **given)).drawn


def test_missing_values_come_to_a_module_that_knows_them(served_by_torch):
    forward = "if bool(torch.isnan(x).any()):\n    return torch.zeros_like(x)\nreturn x * 2"
    assert "nan" in refused(served_by_torch, forward).what


def test_a_range_keeps_drawn_values_from_what_a_torchscript_file_refuses(served_by_torch):
    between = 'max_batch_size=8, inputs_between={"INPUT__0": Between(0, 1, why="pixels")}'
    found = record(served_by_torch("if x.sum() < 0:\n    raise ValueError\nreturn x * 2", fields=between))
    assert (found.ranges["INPUT__0"].high, found.ranges["INPUT__0"].why) == (1, "pixels")


IDS = 'Tensor("IDS__0", "INT64", [DynamicDim(name="tokens", min=1, max=64)])'


def test_a_module_is_called_with_all_entries_of_its_table_and_several_lengths(served_by_torch):
    forward = "assert int(x.max()) < 1000\ny = self.table(x)\nknown = torch.jit.is_tracing()"
    forward += "\nreturn y * 2 if not known and bool((x == 999).any()) else y"
    problem = refused(served_by_torch, forward, inputs=IDS, fields="max_batch_size=4")
    assert problem.rule == "source-differs"
    assert "for the drawn IDS__0=[" in problem.what


def test_whole_numbers_that_a_module_refuses_are_asked_for_and_the_answer_helps(served_by_torch):
    forward = "if bool((x == 0).all(1).any()):\n    raise ValueError('all zeros')\nreturn self.table(x + 0)"
    problem = refused(served_by_torch, forward, inputs='Tensor("IDS__0", "INT64", [3])')
    assert problem.rule == "drawn-inputs"
    assert "all zeros" in problem.what
    assert 'inputs_between={"IDS__0": Between(' in problem.fix
    between = 'max_batch_size=8, inputs_between={"IDS__0": Between(5, 9, why="ids of users")}'
    assert (
        record(served_by_torch(forward, inputs='Tensor("IDS__0", "INT64", [3])', fields=between)).drawn == 512
    )


def test_a_module_whose_rows_depend_on_each_other_is_refused_and_served_without_a_batch(served_by_torch):
    forward = "return x - x.mean(0, keepdim=True)"
    problem = refused(served_by_torch, forward)
    assert problem.rule == "network-batch"
    assert "depends on the other rows" in problem.what
    assert "max_batch_size=0" in problem.fix
    inputs = 'Tensor("INPUT__0", "FP32", [DynamicDim(name="rows", min=1, max=8), 2])'
    assert record(served_by_torch(forward, inputs=inputs, fields="max_batch_size=0")).drawn == 128


def test_a_module_with_random_answers_is_built_without_a_record(served_by_torch, capsys):
    assert record(served_by_torch("return x + torch.rand_like(x)")) is None
    assert "its answers are random, or depend on earlier requests" in capsys.readouterr().err


def test_a_module_that_loops_forever_for_drawn_values_is_stopped(served_by_torch, monkeypatch):
    monkeypatch.setattr(answers, "_LONGEST_S", 0.5)
    forward = "while not torch.jit.is_tracing() and bool((x < 0).any()):\n    x = x * 1\nreturn x * 2"
    problem = refused(served_by_torch, forward)
    assert problem.rule == "drawn-inputs"
    assert "it has not answered after 0.5 s" in problem.what


def test_a_file_that_takes_too_long_is_said_to(monkeypatch):
    monkeypatch.setattr(answers, "_LONGEST_S", 0.5)
    body = "b (int64 i, bool c, float[rows] x) => (bool d, float[rows] y) { d = Identity(c) y = Tanh(x) }"
    values = "g (float[rows] X) => (float[rows] Y) <int64 n = {2000000000}, bool go = {1}>"
    run = answers.run_file(network_of(f"{values} {{ Y = Loop (n, go, X) <body = {body}> }}"))
    with pytest.raises(TimeoutError, match=r"after 0\.5 s"):
        run({"X": np.ones(1, np.float32)})


def test_a_source_moves_in_fp64_and_by_each_rounding_although_one_of_them_fails():
    import torch

    class Nearly(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.one, self.two = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x: Any) -> Any:
            for convolution in (self.one, self.two):
                x = torch.nn.functional.instance_norm(convolution(x))
            return x

    source = answers.ModuleRun(network=Nearly().eval(), names=["X"], outputs=["Y"])
    blank = {"X": np.zeros((1, 1, 8, 8), np.float32)}
    exact = source(blank)["Y"]
    assert source.rounded(blank, draw=0, exact=np.zeros(0))["Y"].dtype == np.float64
    drawing = Drawn(model=OnnxFile(name="net", max_batch_size=8), inputs=[])
    comparison = compared.Comparison(source=source, drawing=drawing)
    enough = np.ones((1, exact.size))
    few, all_ = (comparison._movement(blank, "Y", exact, 1, enough=most * enough) for most in (1e-9, 1.0))
    assert 1e-9 < few.max() <= all_.max()
    assert all_.max() > 1e-6


def test_a_network_without_a_batch_gets_rows_of_every_kind(tmp_path):
    plain = "g (float[4] X) => (float[4] Y) { Y = Tanh(X) }"
    rows = [each["X"] for each in drawn_of(plain, tmp_path, batch=0)]
    assert any((row == 0).all() for row in rows)
    assert any((row < 0).all() for row in rows)
    assert any((row == np.round(row)).all() and row.max() > 1 for row in rows)


def test_single_rows_are_of_every_kind(tmp_path):
    rows = [each["X"] for each in drawn_of(TANH, tmp_path) if len(each["X"]) == 1]
    assert any((row == 0).all() for row in rows)
    assert any((row < 0).all() for row in rows)


ATTENTION = """
from triton_models.spec import *

def network():
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.table = torch.nn.Embedding(100, 16)
            self.last = torch.nn.Linear(16, 2)
        def forward(self, ids, NAME):
            h = self.table(ids)[:, None]
            hides = NAME.bool()[:, None, None, :]
            a = torch.nn.functional.scaled_dot_product_attention(h, h * 2, h * 3, attn_mask=hides)
            return self.last(a[:, 0, 0])
    return Net()

def examples():
    import numpy as np
    return [Example(name="one", inputs={"ids": np.array([[1, 9, 4]]), "NAME": np.array([[1, 1, EXAMPLE]])})]

TOKENS = DynamicDim(name="tokens", min=1, opt=8, max=16)
BUILD = ModelDefinition(
    name="net", description="made up", output="Y", examples=examples, reference=dict, tolerance=1e-4,
    models=[PyTorchNetwork(
        name="net", network=network, inputs=[Tensor(name, "INT64", [TOKENS]) for name in ("ids", "NAME")],
        outputs=["Y"], max_batch_size=8, PROMISE
    )],
)
"""


@pytest.mark.parametrize("name", ["mask", "seen"])
def test_a_mask_without_a_token_that_differs_is_promised_never_to_come(name, tmp_path):
    folder = tmp_path / "models" / "net"
    folder.mkdir(parents=True)

    def built_with(promise: str) -> Path:
        text = ATTENTION.replace("NAME", name).replace("EXAMPLE", "0").replace("PROMISE", promise)
        (folder / "build.py").write_text(text)
        return build("net", models=tmp_path / "models", output=tmp_path / "out")

    problem = refused(built_with, "")
    assert problem.rule == "source-differs"
    assert f"only where no value of '{name}' is above 0" in problem.what
    promise = problem.fix.partition("promise it: ")[2].partition(";")[0]
    assert promise == f'inputs_between={{"{name}": Between(0, 1, why="...", never_empty=True)}}'
    span = record(built_with(promise)).ranges[name]
    assert (span.low, span.high, span.never_empty) == (0, 1, True)
    assert range_words(name, span) == f"{name} between 0 and 1, never empty (...)"
    without = 'inputs_between={"ids": Between(0, 99, why="a table")}'
    assert refused(built_with, without).rule == "source-differs"


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("hides", [False, True])
def test_a_mask_says_what_counts_or_what_does_not_as_the_source_shows(hides, fails):
    def source(request: Any) -> Any:
        empty = (request["mask"] == hides).all(axis=1)
        if fails and empty.any():
            msg = "nothing counts"
            raise ValueError(msg)
        return {"Y": np.where(empty, np.nan, 1.0)}

    tensor = NetworkTensor(name="mask", data_type="TYPE_BOOL", dims=["rows", 6])
    drawing = next(Drawn(model=OnnxFile(name="net", max_batch_size=8), inputs=[tensor]).choices(source))
    rows = [row for request in drawing.requests() for row in request["mask"]]
    assert all((row != hides).any() for row in rows[:-1])
    assert any((row == hides).any() for row in rows[:-1])
    assert (rows[-1] == hides).all() != hides
    assert not drawing.empty_masks({"mask": np.full((1, 6), not hides)})


def test_an_example_with_an_empty_mask_breaks_the_promise(built):
    example = 'lambda: [Example(name="one", inputs={"mask": np.array([[0, 0]])})]'
    graph = "g (int64[rows, n] mask) => (float[rows, n] Y) { Y = Cast<to: int = 1>(mask) }"
    never = 'max_batch_size=8, inputs_between={"mask": Between(0, 1, why="texts", never_empty=True)}'
    assert "without a value above 0" in refused(built, graph, never, example).what
    built(graph, never.replace(", never_empty=True", ""), example)
