"""PyTorch networks that AOTInductor compiles: the declaration, the file, its target, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from pathlib import Path

import pytest
import torch

from tests.reported import refused, reported
from triton_models.artifact.networks import CompiledHead, NetworkTensor, Signature, read_compiled
from triton_models.artifact.pbtxt import read_config
from triton_models.artifact.plans import PORTABLE_VARIABLE
from triton_models.builds.build import build
from triton_models.builds.export import pytorch
from triton_models.builds.export.pytorch import compile_network
from triton_models.builds.job import Job
from triton_models.builds.tensorrt.compiler import Compiler
from triton_models.cli.main import main
from triton_models.declare.mistakes import find_mistakes
from triton_models.declare.reading import load_build
from triton_models.facts.instances import gpu
from triton_models.facts.releases import release
from triton_models.spec import AotInductor, DynamicDim, PyTorchNetwork, Tensor

ROWS = Tensor("INPUT__0", "FP32", [DynamicDim(name="rows", min=1, max=16), 3])
NETWORK = PyTorchNetwork(
    name="net",
    network=lambda: None,
    inputs=[ROWS],
    outputs=["OUTPUT__0"],
    max_batch_size=0,
    backend=AotInductor(),
)
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bring_models.md").read_text()
(RECIPE,) = (
    code for code in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL) if "AotInductor" in code
)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "risk"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(RECIPE)
    return folder.parent


def compiled(network: torch.nn.Module, folder: Path, *, device: str = "cpu", tf32: bool = False) -> None:
    compile_network(
        network,
        folder / "model.pt2",
        name="net",
        inputs=[ROWS],
        outputs=["OUTPUT__0"],
        device=device,
        tf32=tf32,
    )


class Branches(torch.nn.Module):
    """Goes two ways, depending on a number in a tensor."""

    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class Convolves(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.conv1d(x[:, None], torch.ones(1, 1, 3))


@pytest.mark.story
def test_the_recipe_of_a_compiled_network_is_served_and_answers_as_its_source(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PORTABLE_VARIABLE, "1")
    root = build("risk", release="26.04", output=tmp_path / "out", models=models)

    config = read_config(root / "risk" / "config.pbtxt")
    record = json.loads((root / "build.json").read_text())
    head = read_compiled(root / "risk" / "1" / "model.pt2")
    assert (config.platform, list(config.input[0].dims), list(config.output[0].dims)) == (
        "torch_aoti",
        [-1, 3],
        [-1, 2],
    )
    assert record["left_out"] == ["the GPU's machine code of risk"]
    assert head == CompiledHead(device="cpu", compute_capability="")
    assert (record["compared"]["risk"]["drawn"], record["compared"]["risk"]["precision"]) == (128, "fp32")
    assert main(["verify", str(root), "--models", str(models)]) == 0


def test_a_compiled_network_that_answers_otherwise_fails_the_build_with_the_row(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = Signature(
        inputs=[NetworkTensor(name="INPUT__0", data_type="TYPE_FP32", dims=["rows", 3])],
        outputs=[NetworkTensor(name="OUTPUT__0", data_type="TYPE_FP32", dims=["rows", 2])],
    )
    network = load_build("risk", models).models[0].network()
    wrong = [lambda x: network(x.clamp(min=-1e5))]
    monkeypatch.setattr(pytorch, "compile_network", lambda *_, **__: signature)
    monkeypatch.setattr(torch._inductor, "aoti_load_package", lambda path: wrong[0])
    problem = refused(build, "risk", release="26.04", output=tmp_path / "out", models=models)
    assert (problem.rule, problem.where) == ("source-differs", "model 'risk': risk/1/model.pt2")
    assert "for the drawn INPUT__0=[" in problem.what
    assert "serve it with LibTorch()" in problem.fix


def test_a_build_for_an_older_release_is_refused_before_it_compiles(models: Path, tmp_path: Path) -> None:
    with reported("aoti-release"):
        build("risk", release="25.12", output=tmp_path / "out", models=models)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"max_batch_size": 4}, "max_batch_size"),
        ({"outputs": ["Y__0"]}, "outputs"),
        ({"inputs": [dataclasses.replace(ROWS, name="X__0")]}, "inputs"),
        ({"inputs": [dataclasses.replace(ROWS, data_type="UINT16")]}, "inputs"),
    ],
)
def test_what_the_backend_cannot_serve_is_a_mistake(changes: dict[str, object], field: str) -> None:
    ((_, mistake),) = find_mistakes(dataclasses.replace(NETWORK, **changes))
    assert mistake.field == field


def test_a_network_that_cannot_be_exported_is_named_with_the_reason(tmp_path: Path) -> None:
    problem = refused(compiled, Branches(), tmp_path)
    assert (problem.rule, problem.where) == ("aoti-export", "the network of 'net'")
    assert "cannot be exported" in problem.what


def test_a_network_that_would_use_tf32_against_its_declaration_is_refused(tmp_path: Path) -> None:
    assert "aten.conv1d" in refused(compiled, Convolves(), tmp_path, device="cuda").what


@pytest.mark.parametrize(
    ("device", "compiler", "what"),
    [("cuda", "g++", "finds no GPU to compile for"), ("cpu", "clang++", "has no g++")],
)
def test_a_machine_that_cannot_compile_says_what_it_lacks(
    device: str, compiler: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: name if name == compiler else None)
    assert what in refused(compiled, torch.nn.Identity(), tmp_path, device=device).what


@pytest.fixture
def job(tmp_path: Path) -> Job:
    newest = release("26.04")
    compiler = Compiler(trtexec=Path("trtexec"), gpu=gpu("A10G"), release=newest)
    return Job(root=tmp_path, release=newest, source=tmp_path, compiler=compiler)


def test_a_build_on_a_gpu_records_which_gpus_run_the_machine_code(job: Job, tmp_path: Path) -> None:
    job.add_machine_code(
        tmp_path / "net" / "1" / "model.pt2", precision="fp32", hardware="same-compute-capability"
    )
    assert job.plans == {
        "net/1/model.pt2": {"gpu": "A10G", "precision": "fp32", "hardware": "sameComputeCapability"}
    }
    assert (job.precisions, job.left_out) == (["fp32"], [])
