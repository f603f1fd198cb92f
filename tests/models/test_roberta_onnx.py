"""RoBERTa on ONNX Runtime: answers equal to transformers'."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import transformers
from one_server import ask, serving
from shared_builds import BuiltModel

from triton_models.spec import ModelDefinition, load_build
from triton_rehearsal.triton.contract import MultiModelContract

NAME = "roberta_onnx"
OUTPUTS = {"last_hidden_state", "1550"}


@pytest.fixture(scope="module")
def served(built_model: BuiltModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MultiModelContract]:
    """A server that has loaded it."""
    with serving(built_model(NAME), folder=tmp_path_factory.mktemp("roberta")) as contract:
        yield contract


@pytest.fixture(scope="module")
def declared() -> ModelDefinition:
    """The declaration, whose network is made once."""
    return load_build(NAME)


def test_both_outputs_are_those_of_transformers(declared, served):
    for example in declared.examples():
        expected = declared.reference(example.inputs)
        answers = ask(served, NAME, example.inputs)
        assert answers.keys() == expected.keys() == OUTPUTS
        for name, value in expected.items():
            np.testing.assert_allclose(answers[name], value, rtol=0, atol=1e-4, err_msg=name)


def test_requests_that_arrive_together_are_each_answered_as_if_alone(declared, served):
    batch = declared.examples()[1].inputs
    rows = [{name: tensor[i : i + 1] for name, tensor in batch.items()} for i in (0, 1, 0, 1, 1)]
    alone = [ask(served, NAME, row)["1550"] for row in rows]
    with ThreadPoolExecutor(len(rows)) as pool:
        together = list(pool.map(lambda row: ask(served, NAME, row)["1550"], rows))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-4)


def test_the_hubs_weights_which_lack_the_pooled_output_are_taken_and_give_the_same_network_each_time(
    tmp_path, monkeypatch
):
    config = transformers.RobertaConfig(
        num_hidden_layers=1, hidden_size=16, num_attention_heads=2, intermediate_size=8
    )
    transformers.RobertaForMaskedLM(config).save_pretrained(tmp_path)  # as the hub's roberta-base was saved
    monkeypatch.setenv("ROBERTA_WEIGHTS", str(tmp_path))
    one, same = (load_build(NAME).models[0].network().state_dict() for _ in range(2))
    assert one["roberta.pooler.dense.weight"].shape == (16, 16)
    for name, value in one.items():
        assert torch.equal(value, same[name]), name
