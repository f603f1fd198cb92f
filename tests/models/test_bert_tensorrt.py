"""BERT on TensorRT: the post's profile, trained weights, and copies to load and unload."""

from __future__ import annotations

import json
import os
from copy import deepcopy
from pathlib import Path

import gpu_machine
import pytest
import torch

from triton_models.artifact.pbtxt import read_config
from triton_models.builds.build import build
from triton_models.check.check import check_path
from triton_models.check.target import target
from triton_models.spec import ModelDefinition, load_build

NAME = "bert_tensorrt"


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


@pytest.mark.story
def test_a_gpu_build_compiles_the_trained_weights_with_the_profile_of_the_post_and_a_small_one(gpu_build):
    assert (gpu_build.parents[1] / "trtexec.log").read_text().split()[2:] == [
        "--skipInference",
        "--fp16",
        "--profile=0",
        "--minShapes=attn_mask:1x128,token_ids:1x128",
        "--optShapes=attn_mask:16x128,token_ids:16x128",
        "--maxShapes=attn_mask:128x128,token_ids:128x128",
        "--profile=1",
        "--minShapes=attn_mask:1x128,token_ids:1x128",
        "--optShapes=attn_mask:1x128,token_ids:1x128",
        "--maxShapes=attn_mask:4x128,token_ids:4x128",
    ]
    about = json.loads((gpu_build / "build.json").read_text())
    assert (about["gpu"], about["tensorrt"]) == ("A10G", "10.13.3.9")
    assert about["sources"]["weights"].startswith("sha256:")
    assert list(read_config(gpu_build / NAME / "config.pbtxt").output[1].dims) == [24]
    assert check_path(gpu_build, target=target(release="25.09", gpu="A10G", endpoint=None)) == []


@pytest.mark.story
def test_fp16_is_outside_of_the_tolerance_for_fp32_and_within_its_own(declared):
    network = deepcopy(declared.models[0].network()).eval().half()
    inputs = declared.examples()[1].inputs
    with torch.inference_mode():
        answers = network(torch.from_numpy(inputs["token_ids"]), torch.from_numpy(inputs["attn_mask"]))
    exact = declared.reference(inputs)
    off = abs(answers[0].float().numpy() - exact["output"]).max()
    assert declared.allowed("fp32") < off < declared.allowed("fp16")
