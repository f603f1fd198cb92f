"""The forms of ResNet-50: one network in three backends, tuned and not, each answering as PyTorch does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from one_server import ask, serving

from triton_models.artifact.pbtxt import read_config
from triton_models.builds.build import build
from triton_models.deliver.verify.verify import expected_answers
from triton_models.spec import load_build
from triton_rehearsal.triton.contract import MultiModelContract

pytestmark = pytest.mark.story

FORMS = ["resnet50:untuned", "resnet50:torchscript", "resnet50:tensorrt"]


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The artifact root of each form, portable."""
    output = tmp_path_factory.mktemp("forms")
    return {name: build(name, output=output) for name in FORMS}


@pytest.fixture(scope="module")
def served(roots: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[MultiModelContract]:
    """A server that has loaded them."""
    with serving(*roots.values(), folder=tmp_path_factory.mktemp("server")) as contract:
        yield contract


def config_of(root: Path):
    return read_config(root / root.name / "config.pbtxt")


@pytest.mark.parametrize("name", FORMS)
def test_a_form_answers_every_example_as_pytorch_does(name, served, roots):
    declared = load_build(name)
    expected = expected_answers(roots[name], declared)
    for example, source in expected.answers:
        answer = ask(served, declared.name, example.inputs)[declared.output]
        np.testing.assert_allclose(
            answer, source[declared.output], rtol=0, atol=expected.allowed, err_msg=example.name
        )


def test_the_plan_takes_1_to_32_images_in_fp16_in_two_instances(machine, tmp_path):
    log = machine(gpus=("NVIDIA A10G",))
    root = build("resnet50:tensorrt", output=tmp_path / "plan", gpu="A10G")
    compiled = log.read_text()
    assert "INPUT:1x3x224x224" in compiled
    assert compiled.count("INPUT:32x3x224x224") == 1
    assert config_of(root).instance_group[0].count == 2
    assert "--fp16" in compiled
    assert (root / "resnet50_tensorrt" / "1" / "model.plan").is_file()
    assert [sample.batch_size for sample in config_of(root).model_warmup] == [1, 5]
