"""Networks of transformers: weights of a folder or the hub, seeded ones, and those that do not fit."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
import torch
import transformers

from tests.reported import refused
from triton_models.base.errors import FleetError
from triton_models.builds.export.pretrained import load_pretrained
from triton_models.builds.export.weights import fetch
from triton_models.spec import HubWeights, LocalWeights, RandomWeights

SMALL = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 9}


def one_layer() -> transformers.BertConfig:
    return transformers.BertConfig(num_hidden_layers=1, **SMALL)


def saved(folder: Path, *, pooler: bool = True) -> LocalWeights:
    torch.manual_seed(3)
    transformers.BertModel(
        transformers.BertConfig(num_hidden_layers=2, **SMALL), add_pooling_layer=pooler
    ).save_pretrained(folder)
    return LocalWeights(path=str(folder))


def refusal(weights: LocalWeights) -> str:
    problem = refused(load_pretrained, transformers.BertModel, weights, untrained=one_layer())
    assert problem.rule == "weights"
    assert weights.path in problem.where
    return problem.what


def equal(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    state = other.state_dict()
    return all(torch.equal(value, state[name]) for name, value in one.state_dict().items())


def test_trained_weights_bring_their_own_configuration(tmp_path):
    weights = saved(tmp_path)
    network = load_pretrained(transformers.BertModel, weights, untrained=one_layer())
    assert equal(network, transformers.BertModel.from_pretrained(tmp_path))
    assert len(network.encoder.layer) == 2
    assert not network.training


@pytest.mark.parametrize("top", [".", "checkpoint-500"])
def test_a_fine_tuned_checkpoint_is_loaded_from_the_archive_of_a_training_job(top, tmp_path):
    saved(tmp_path / "folder")
    with tarfile.open(tmp_path / "model.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "folder", arcname=top)
    network = load_pretrained(transformers.BertModel, LocalWeights(path=str(tmp_path / "model.tar.gz")))
    assert equal(network, transformers.BertModel.from_pretrained(tmp_path / "folder"))


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_checkpoint_that_lacks_a_file_is_refused(name, tmp_path):
    weights = saved(tmp_path)
    (tmp_path / name).unlink()
    assert name in refusal(weights)


def test_a_seed_needs_a_configuration():
    with pytest.raises(FleetError, match="no configuration"):
        load_pretrained(transformers.BertModel, RandomWeights(seed=1))


def test_weights_saved_in_half_precision_are_loaded_in_fp32(tmp_path):
    transformers.BertModel(one_layer()).half().save_pretrained(tmp_path)
    network = load_pretrained(transformers.BertModel, LocalWeights(path=str(tmp_path)), untrained=one_layer())
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}


def test_a_seed_gives_the_same_weights_every_time_and_leaves_other_random_numbers_alone():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    one, same, other = (
        load_pretrained(transformers.BertModel, RandomWeights(seed=seed), untrained=one_layer())
        for seed in (1, 1, 2)
    )
    assert torch.rand(1) == expected
    assert equal(one, same)
    assert not equal(one, other)


def test_parameters_that_the_weights_lack_are_refused_rather_than_made_up(tmp_path):
    assert refusal(saved(tmp_path, pooler=False)) == "the weights lack pooler.dense.bias, pooler.dense.weight"


def test_parameters_that_weights_may_lack_are_the_same_every_time(tmp_path):
    weights = saved(tmp_path, pooler=False)
    one = load_pretrained(transformers.BertModel, weights, untrained=one_layer(), may_lack=["pooler."])
    torch.manual_seed(4)
    same = load_pretrained(transformers.BertModel, weights, untrained=one_layer(), may_lack=["pooler."])
    assert equal(one, same)


def test_weights_of_another_architecture_are_refused_though_their_names_fit(tmp_path):
    transformers.RobertaModel(transformers.RobertaConfig(num_hidden_layers=1, **SMALL)).save_pretrained(
        tmp_path
    )
    assert refusal(LocalWeights(path=str(tmp_path))) == "weights of the architecture 'roberta', not 'bert'"


def test_weights_that_do_not_fit_their_configuration_are_refused(tmp_path):
    weights = saved(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"intermediate_size": 8', '"intermediate_size": 16'))
    assert "mismatch" in refusal(weights)


def test_a_whole_repository_of_the_hub_comes_without_the_weights_for_other_frameworks(tmp_path, monkeypatch):
    asked = {}

    def answer(repository: str, **options: object) -> str:
        asked.update(options, repository=repository)
        return str(saved(tmp_path).path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", answer)
    weights = HubWeights(id="owner/name", revision="c" * 40)
    network = load_pretrained(transformers.BertModel, weights, untrained=one_layer())
    assert equal(network, transformers.BertModel.from_pretrained(fetch(weights)))
    assert (asked["repository"], asked["revision"]) == ("owner/name", "c" * 40)
    assert {"*.h5", "*.msgpack", "onnx/*"} <= set(asked["ignore_patterns"])
