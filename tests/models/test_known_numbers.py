"""The build draws the numbers that a network compares, such as ids, and traces on numbers that it takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_onnx import network_of

from tests.reported import refused
from triton_models.artifact.compared import Compared, compared_models
from triton_models.builds.build import build
from triton_models.builds.export import compared
from triton_models.builds.export.accepted import accepted_by, accepted_by_module

IDS = (104729001, 250000017, 912345678)

DECLARED = """
from triton_models.spec import *

KNOWN = {ids}

def network():
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.table = torch.nn.Embedding(100, 2)
            self.register_buffer("ids", torch.tensor(KNOWN))
            self.register_buffer("floats", torch.tensor(KNOWN).float())
            self.places = dict(zip(KNOWN, range(3)))
            keys = torch.full((1009,), -1)
            keys[self.ids % 1009] = self.ids
            self.register_buffer("keys", keys)
        def forward(self, x: torch.Tensor):
{forward}
    return Net()

def examples():
    import numpy as np
    return {examples}

BUILD = ModelDefinition(
    name="net", description="made up", output="Y__0", examples=examples, reference=dict,
    tolerance={tolerance},
    models=[PyTorchNetwork(
        name="net", network=network, outputs=["Y__0"], inputs=[Tensor("X__0", "{data_type}", [3])],
        backend={backend}, max_batch_size=8, {fields}
    )],
)
"""


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Compared]:
    """Build a network with a forward(), and return what its build compared."""

    def build_it(
        forward: str,
        backend: str = "LibTorch()",
        data_type: str = "INT64",
        *,
        shown: str = "",
        fields: str = "",
        ids: tuple[int, ...] = IDS,
    ) -> Compared:
        folder = tmp_path / "models" / "net"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        lines = "\n".join(f"            {line}" for line in forward.splitlines())
        examples = f'[Example(name="one", inputs={{"X__0": np.array({shown})}})]' if shown else "[]"
        text = DECLARED.format(
            ids=ids,
            forward=lines,
            examples=examples,
            backend=backend,
            data_type=data_type,
            fields=fields,
            tolerance='{"fp32": 1e-4, "fp16": 1e-2}' if "Onnx" in backend else "1e-4",
        )
        (folder / "build.py").write_text(text)
        root = build("net", models=folder.parent, output=tmp_path / "out")
        return compared_models(json.loads((root / "build.json").read_text()))["net"]

    return build_it


def numbers_in(what: str) -> list[int]:
    """Return the ids in a message, which shows six digits."""
    return [number for number in IDS if f"{number:g}" in what]


@pytest.mark.parametrize(
    ("condition", "data_type"),
    [
        ("torch.isin(x, self.ids).any()", "INT64"),
        ("(x == 250000017).any()", "INT32"),
        ("any(bool((x == known).any()) for known in KNOWN)", "INT64"),
        ("int(x[0, 0]) in KNOWN", "FP32"),
        ("x[0, 0].item() // 100 - 202400 == 12", "INT64"),
        ("x.tolist()[0][0] == 250000017", "INT64"),
        ("(x == 250000017).nonzero().numel()", "INT64"),
    ],
    ids=["isin", "constant", "global", "floats", "arithmetic in Python", "a list", "a size"],
)
def test_a_branch_in_python_on_ids_is_refused_because_a_trace_loses_it(condition, data_type, made):
    forward = f"y = x.float() * 0\nreturn y + 1 if bool({condition}) else y"
    problem = refused(made, forward, data_type=data_type)
    assert problem.rule == "torchscript-export"
    assert "build.py:" in problem.what
    assert "hands values of inputs to Python" in problem.what


@pytest.mark.parametrize(
    "check",
    [
        "assert (x >= 0).all()",
        "if (x < 0).any():\n    raise ValueError('below 0')",
        "if (\n    (x < 0).any()\n    or (x > 9).any()\n):\n    no = 'digit'\n    raise ValueError(no)",
    ],
    ids=["an assertion", "a refusal", "over several lines"],
)
def test_a_trace_may_lose_checks_of_values(check, made):
    between = 'inputs_between={"X__0": Between(0, 9, why="digits")}'
    assert made(f"{check}\nreturn x.float() * 2", fields=between).drawn == 512


@pytest.mark.parametrize(
    ("forward", "data_type"),
    [
        ("return (x.float().unsqueeze(-1) == self.ids.float()).float()", "INT64"),
        ("return (x.float().unsqueeze(-1) == self.floats).float()", "INT64"),
        ("return (x.unsqueeze(-1) == self.floats).float()", "FP32"),
    ],
    ids=["cast in the network", "cast before", "sent as floats"],
)
def test_ids_that_fp16_cannot_tell_apart_stay_in_fp32(forward, data_type, made):
    fields = 'inputs_between={"X__0": Between(0, 60000, why="ids")}'
    ids = (30001, 40009, 50017)  # FP16 has every 16th and 32nd number
    assert made(forward, "OnnxRuntime()", data_type, fields=fields, ids=ids).precision == "fp32"


def test_a_source_that_takes_only_its_ids_is_compared_on_them_without_a_word(made):
    forward = "assert torch.isin(x, self.ids).all()\nreturn torch.isin(x, self.ids).float()"
    assert made(forward).drawn == 512
    assert made(forward, shown=f"[{list(IDS)}]").examples == 1


def test_a_dictionary_of_ids_needs_an_example_and_a_script(made):
    read = "float(self.places[int(x[row, place])])"
    forward = f"""y = torch.zeros(x.shape)
for row in range(x.shape[0]):
    for place in range(x.shape[1]):
        y[row, place] = {read}
return y"""
    shown = f"[{list(IDS)}]"
    assert "write a request that it answers in examples()" in (refused(made, forward).fix or "")
    assert 'LibTorch(export="script")' in (refused(made, forward, shown=shown).fix or "")
    assert made(forward, 'LibTorch(export="script")', shown=shown).drawn == 512


@pytest.mark.parametrize(
    ("forward", "onnx"),
    [
        ("return torch.isin(x, self.ids)", False),
        ("return self.table(torch.searchsorted(self.ids, x))", False),
        ("return (x.unsqueeze(-1) == self.ids).float()", True),
        ("return self.table(torch.bucketize(x, self.ids))", True),
        ("return self.table((x * 2654435761) % 100)", True),
        ("hit = self.keys[x % 1009] == x\nreturn torch.where(hit, x % 1009, -1)", True),
    ],
    ids=["isin", "searchsorted", "one-hot", "buckets", "hash", "hash table"],
)
def test_networks_on_ids_that_are_right_pass(forward, onnx, made):
    for backend in ("LibTorch()", "OnnxRuntime()") if onnx else ("LibTorch()",):
        assert made(forward, backend).drawn == 512


FROM_1 = "y = self.table(x - 1)"
NEVER_0 = "if bool((x == 0).any()): raise ValueError('0 never comes')\nreturn self.table(x)"
BETWEEN = 'inputs_between={"X__0": Between(1, 99, why="0 never comes")}'


@pytest.mark.parametrize(
    ("forward", "options"),
    [
        ("return self.table(x - 1)", {}),
        ("if bool((x < 1).any()):\n    raise ValueError('ids start at 1')\nreturn self.table(x)", {}),
        ("return self.table(x - 104729000)", {}),
        ("assert bool(((1990 <= x) & (x <= 2030)).all())\nreturn self.table(x - 1990)", {}),
        ("assert bool((x.sum(1) == 77).all())\nreturn self.table(x)", {"shown": "[[70, 5, 2]]"}),
        (NEVER_0, {"fields": BETWEEN}),
        (NEVER_0, {"fields": BETWEEN, "shown": "[[70, 5, 2]]"}),
    ],
    ids=["from 1", "raises below 1", "from an offset", "years", "by an example", "by a range", "by both"],
)
def test_a_network_that_refuses_zeros_is_traced_on_numbers_that_it_takes(forward, options, made):
    assert made(forward, **options).drawn == 512


def test_a_network_that_refuses_all_that_is_made_up_is_traced_on_an_example(made):
    forward = "assert bool((x.sum(1) == 77).all()), 'rows add up to 77'\nreturn self.table(x)"
    problem = refused(made, forward)
    assert problem.rule == "torchscript-export"
    assert "it refuses the inputs that the build makes up: rows add up to 77" in problem.what
    assert "write a request that it answers in examples()" in (problem.fix or "")


def test_a_mistake_in_forward_is_no_question_of_inputs(made):
    assert "has no attribute 'nothing'" in refused(made, "return self.nothing(x)").what


@pytest.mark.parametrize(
    "operators",
    [
        "{ Y = ai.onnx.ml.LabelEncoder<keys_int64s = [104729001, 250000017, 912345678], "
        "values_int64s = [1, 2, 3]>(X) }",
        "<int64[3] ids = {104729001, 250000017, 912345678}, int64[1] last = {-1}> "
        "{ x = Unsqueeze(X, last) e = Equal(x, ids) i = Cast<to: int = 7>(e) "
        "Y = ReduceSum<keepdims: int = 0>(i, last) }",
        "<int64[3] ids = {104729001, 250000017, 912345678}, int64 count = {3}> "
        "{ slot = Mod(X, count) key = Gather(ids, slot) e = Equal(key, X) Y = Cast<to: int = 7>(e) }",
        "{ Y = ai.onnx.ml.LabelEncoder<keys_tensor = int64[3] {104729001, 250000017, 912345678}, "
        "values_tensor = int64[3] {1, 2, 3}>(X) }",
    ],
    ids=["LabelEncoder", "Equal", "a table of keys", "keys in a tensor"],
)
def test_ids_of_an_onnx_file_and_their_neighbors_are_drawn(operators, declare_onnx, tmp_path, monkeypatch):
    rows: list[np.ndarray] = []
    add = compared.Comparison._add

    def watch(self: Any, request: Any, answers: Any) -> None:
        rows.append(request["X"].ravel())
        add(self, request, answers)

    monkeypatch.setattr(compared.Comparison, "_add", watch)
    graph = f"g (int64[rows, 1] X) => (int64[rows, 1] Y) {operators}"
    network = network_of(graph, opsets='"": 18, "ai.onnx.ml": 4')
    build("net", models=declare_onnx(network, "max_batch_size=8", MORE), output=tmp_path / "out")
    drawn = set(np.concatenate(rows).tolist())
    assert {number + step for number in IDS for step in (-1, 0, 1)} <= drawn


MORE = "examples=list, reference=dict, tolerance=1e-4"


def test_a_mask_that_is_compared_stays_a_mask():
    graph = (
        "g (int64[rows, 4] X) => (bool[rows, 4] Y) <int64 zero = {0}, int64 one = {1}> "
        "{ a = Equal(X, zero) b = Greater(X, one) Y = Or(a, b) }"
    )
    assert accepted_by(network_of(graph, opsets='"": 18'))["X"].constants == ()
    accepted, _ = accepted_by_module(torch.nn.Identity(), {"x": torch.zeros(2, 4, dtype=torch.int64)})
    assert accepted["x"].constants == ()
