"""BERT on TensorRT: the post's profile, trained weights, and copies to load and unload."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import gpu_machine
import numpy as np
import pytest
import torch
from one_server import ask, serving
from shared_builds import BuiltModel

from tests.triton_models.model_folders import untar
from triton_models.artifact.pbtxt import read_config
from triton_models.builds.build import build
from triton_models.check.check import check_path
from triton_models.check.target import target
from triton_models.cli.main import main
from triton_models.spec import ModelDefinition, load_build, models_folder
from triton_rehearsal.triton.contract import MultiModelContract

NAME = "bert_tensorrt"


def make_copies(root: Path, *, count: int, folder: Path) -> list[Path]:
    """Run the command of the declaration's docstring that makes copies, and unpack them."""
    text = (models_folder() / NAME / "build.py").read_text().partition('"""\n')[0]
    command = next(line for line in text.splitlines() if "--copies" in line).split()
    command[2], command[4], command[6] = str(root), str(count), str(folder / "dist")
    assert main(command[1:]) == 0
    copies = []
    for archive in sorted((folder / "dist").iterdir()):
        copies.append(folder / archive.name.rpartition("-")[0])
        untar(archive, copies[-1])
    return copies


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained BERT as save_pretrained writes it: the architecture's, with few and small layers."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("weights")
    small = BertConfig(num_hidden_layers=1, hidden_size=24, num_attention_heads=2, intermediate_size=8)
    BertModel(small).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def gpu_build(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact root of a GPU build of the trained weights, in build/, by a stand-in for trtexec."""
    folder = tmp_path_factory.mktemp("gpu")
    gpu_machine.install(folder / "bin", log=folder / "trtexec.log")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder / "bin"), prepend=os.pathsep)
        patch.setenv("BERT_WEIGHTS", str(trained))
        return build(NAME, output=folder / "build", gpu="A10G")


@pytest.fixture(scope="module")
def declared() -> ModelDefinition:
    """The declaration, whose network is made once."""
    return load_build(NAME)


@pytest.fixture(scope="module")
def served(built_model: BuiltModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MultiModelContract]:
    """A server that has loaded two copies of the portable build."""
    folder = tmp_path_factory.mktemp("copies")
    with serving(*make_copies(built_model(NAME), count=2, folder=folder), folder=folder) as contract:
        yield contract


@pytest.mark.story
def test_a_gpu_build_compiles_the_trained_weights_with_the_profile_of_the_post(gpu_build):
    assert (gpu_build.parents[1] / "trtexec.log").read_text().split()[2:] == [
        "--skipInference",
        "--fp16",
        "--minShapes=attn_mask:1x128,token_ids:1x128",
        "--optShapes=attn_mask:16x128,token_ids:16x128",
        "--maxShapes=attn_mask:128x128,token_ids:128x128",
    ]
    about = json.loads((gpu_build / "build.json").read_text())
    assert (about["gpu"], about["tensorrt"]) == ("A10G", "10.13.3.9")
    assert about["sources"]["weights"].startswith("sha256:")
    assert list(read_config(gpu_build / NAME / "config.pbtxt").output[1].dims) == [24]
    assert check_path(gpu_build, target=target(release="25.09", gpu="A10G", endpoint=None)) == []


@pytest.mark.story
def test_a_build_without_a_gpu_is_served_by_onnx_runtime(trained, monkeypatch, tmp_path):
    monkeypatch.setenv("BERT_WEIGHTS", str(trained))
    root = build(NAME, output=tmp_path / "build", cpu=True)
    assert read_config(root / NAME / "config.pbtxt").backend == "onnxruntime"
    assert check_path(root) == []
    declared = load_build(NAME)
    inputs = declared.examples()[1].inputs
    with serving(root, folder=tmp_path) as contract:
        answers = ask(contract, NAME, inputs)
    _equal(answers, declared.reference(inputs))


@pytest.mark.story
def test_fp16_is_outside_of_the_tolerance_for_fp32_and_within_its_own(declared):
    network = deepcopy(declared.models[0].network()).eval().half()
    inputs = declared.examples()[1].inputs
    with torch.inference_mode():
        answers = network(torch.from_numpy(inputs["token_ids"]), torch.from_numpy(inputs["attn_mask"]))
    exact = declared.reference(inputs)
    off = abs(answers[0].float().numpy() - exact["output"]).max()
    assert declared.allowed("fp32") < off < declared.allowed("fp16")


@pytest.mark.story
def test_copies_of_a_gpu_build_are_artifacts_under_names_of_their_own(gpu_build, tmp_path):
    copies = make_copies(gpu_build, count=5, folder=tmp_path)
    assert [copy.name for copy in copies] == [f"{NAME}-{number}" for number in range(1, 6)]
    for copy in copies:
        about = json.loads((copy / "build.json").read_text())
        assert (about["model"], about["gpu"]) == (copy.name, "A10G")
        assert (copy / copy.name / "1" / "model.plan").read_bytes() == (
            gpu_build / NAME / "1" / "model.plan"
        ).read_bytes()


def test_two_copies_on_one_server_answer_both_outputs_as_transformers_does(declared, served):
    for example in declared.examples():
        expected = declared.reference(example.inputs)
        for copy in (f"{NAME}-1", f"{NAME}-2"):
            _equal(ask(served, copy, example.inputs), expected)


def test_what_is_masked_has_no_influence_on_the_other_tokens_and_what_is_not_has(declared, served):
    example, _ = declared.examples()
    length = int(example.inputs["attn_mask"].sum())
    answer = ask(served, f"{NAME}-1", example.inputs)
    for position, moved in ((length, False), (length - 2, True)):
        ids = example.inputs["token_ids"].copy()
        ids[0, position] += 5
        other = ask(served, f"{NAME}-1", {**example.inputs, "token_ids": ids})
        difference = np.abs(answer["output"][0, 1] - other["output"][0, 1]).max()
        assert (difference > 1e-3) == moved, position


def _equal(answers: dict[str, Any], expected: dict[str, Any]) -> None:
    assert answers.keys() == expected.keys() == {"output", "pooled_output"}
    for name, value in expected.items():
        np.testing.assert_allclose(answers[name], value, rtol=0, atol=1e-4, err_msg=name)
