"""Whole numbers of which nothing says more, such as lengths, are drawn as far as the source takes them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reported import refused
from triton_models.artifact.compared import Compared, compared_models
from triton_models.builds.build import build

DECLARED = """
from triton_models.spec import *

def network():
    import torch
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.table = torch.nn.Embedding(300, 4)
            self.last = torch.nn.Linear(4, 2)
            self.register_buffer("starts", torch.tensor([0, 290, 297]))
        def forward(self, x__0: torch.Tensor, {second}: torch.Tensor):
            n = {second}
{forward}
    return Net()

def examples():
    import numpy as np
    return {examples}

SIZE = DynamicDim(name="tokens", min=1, opt=16, max=64)
BUILD = ModelDefinition(
    name="net", description="made up", output="Y__0", examples=examples, reference=dict, tolerance=1e-4,
    models=[PyTorchNetwork(
        name="net", network=network, outputs=["Y__0"], backend={backend}, max_batch_size={batch},
        inputs=[Tensor("x__0", "{data_type}", [{size}]), Tensor("{second}", "INT64", [{counts}])],
    )],
)
"""
SCRIPT = 'LibTorch(export="script")'


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Compared]:
    """Build a network of two inputs, and return what its build compared."""

    def build_it(forward: str, backend: str = "LibTorch()", **fields: object) -> Compared:
        folder = tmp_path / "models" / "net"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        lines = "\n".join(f"            {line}" for line in forward.splitlines())
        usual = {"second": "lengths__1", "size": 20, "counts": 1, "data_type": "INT64", "batch": 8}
        usual |= {"examples": "[]", "backend": backend, "forward": lines}
        (folder / "build.py").write_text(DECLARED.format(**usual | fields))
        root = build("net", models=folder.parent, output=tmp_path / "out")
        return compared_models(json.loads((root / "build.json").read_text()))["net"]

    return build_it


TRIMMED = """size = max(int(n.max()), 1)
m = torch.arange(size)[None] < n
return (self.table(x__0[:, :size]) * m[..., None]).sum(1)"""
BRANCH = """y = self.table(x__0).sum(1)
return y * 2 if int(n.max()) > 13 - 2 else y"""
POWER = """power = torch.ones_like(n[:1, 0])
while int(power) < int(n.max()):
    power = power * 2
return self.table(x__0).sum(1) / power"""


@pytest.mark.parametrize("size", [20, "SIZE"], ids=["fixed", "open"])
@pytest.mark.parametrize(
    "forward",
    [TRIMMED, "return self.table(x__0[:, :int(n.max())]).sum(1)", BRANCH, POWER],
    ids=["trimmed", "sliced", "a branch", "a loop"],
)
def test_a_trace_that_would_lose_what_lengths_decide_is_refused(forward, size, made):
    problem = refused(made, forward, size=size)
    assert problem.rule == "torchscript-export"
    assert "hands values of inputs to Python" in problem.what
    assert 'LibTorch(export="script")' in (problem.fix or "")


@pytest.mark.parametrize("shown", [0, 1])
def test_an_example_of_0_or_1_makes_no_mask_of_a_count(shown, made):
    row = f'{{"x__0": np.ones((1, 20), np.int64), "lengths__1": np.array([[{shown}]])}}'
    assert refused(made, BRANCH, examples=f'[Example(name="one", inputs={row})]').rule == "torchscript-export"


@pytest.mark.parametrize("size", [20, "SIZE"], ids=["fixed", "open"])
def test_scripting_keeps_what_lengths_decide(size, made):
    assert made(TRIMMED, SCRIPT, size=size).drawn == 512


LAST = "return self.table(x__0).gather(1, (n - 1)[..., None].expand(-1, -1, 4)).squeeze(1)"
MEAN = "seen = self.table(x__0) * n[..., None]\nreturn seen.sum(1) / n.sum(1, keepdim=True).clamp(min=1)"


@pytest.mark.parametrize(
    ("forward", "options"),
    [
        (LAST, {"size": "SIZE"}),
        ("return self.table((x__0 + self.starts)).sum(1) * n", {"size": 3}),
        (MEAN, {"second": "valid__1", "counts": 20}),
        (
            "y = self.last(x__0) + self.table((n + 30).round())[:, 0, :2]\nreturn y",
            {"data_type": "FP32", "size": 4},
        ),
        (
            "y = self.table(x__0[:, 3].round().long())[:, :2] + self.last(x__0)\nreturn y + n",
            {"data_type": "FP32", "size": 4},
        ),
        (
            "return torch.repeat_interleave(x__0, n, dim=0)",
            {"data_type": "FP32", "size": "10, 4", "counts": 10, "batch": 0},
        ),
    ],
    ids=[
        "the last of open sizes",
        "offsets",
        "valid",
        "days before and after",
        "rounded category",
        "repeats",
    ],
)
def test_networks_that_are_right_pass_without_a_word(forward, options, made):
    assert made(forward, **options).drawn >= 128
