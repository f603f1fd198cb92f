"""Models of a zoo that cannot be served: each has one error with its name, and the others are published."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import transformers
from onnx.external_data_helper import convert_model_to_external_data

from tests.models.test_adopted import directory, network, recorded
from tests.rehearsal import zoo
from tests.triton_models.publishing_aws import (
    ENVIRONMENT,
    client,
    consistent_manifest,
    new_repository,
    small_aws,
)
from triton_models.cli.main import main
from triton_models.deliver.deliver import Delivery, deliver
from triton_models.deliver.results import ModelResult
from triton_rehearsal.triton import command

pytestmark = pytest.mark.story

BUILD = """
from pathlib import Path
from triton_models.builds.adopted import adopted, drawn_examples
from triton_models.builds.export.pretrained import load_pretrained
from triton_models.spec import *

HERE = Path(__file__).parent
WEIGHTS = {weights}

def network():
    from transformers import BertModel
    return load_pretrained(BertModel, WEIGHTS)

BUILD = ModelDefinition(
    name={name!r}, description="a model that cannot be served", weights=WEIGHTS, {model}
    output="Y",
)
"""
OF_DIRECTORY = "write=adopted(WEIGHTS, name={name!r}), examples=drawn_examples(WEIGHTS),"
OF_FOREST = "models=[Forest(name={name!r}, max_batch_size=8)], examples=list,"
OF_ONNX = "models=[OnnxFile(name={name!r}, max_batch_size=8)], examples=list,"
OF_NETWORK = """models=[PyTorchNetwork(
    name={name!r}, network=network, inputs=[Tensor("ids", "INT64", [4])], outputs=["Y"], max_batch_size=8,
)], examples=list,"""


def declare(models: Path, name: str, *, weights: str, model: str) -> Path:
    folder = models / name
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(BUILD.format(name=name, weights=weights, model=model.format(name=name)))
    return folder


def local(file: str) -> str:
    return f'LocalWeights(path=str(HERE / "{file}"))'


def two_models_in_an_archive(models: Path, name: str) -> None:
    folder = declare(models, name, weights=local("models.tar.gz"), model=OF_DIRECTORY)
    for each in ("one", "other"):
        directory(folder / "source" / each)
    with tarfile.open(folder / "models.tar.gz", "w:gz") as archive:
        archive.add(folder / "source", arcname=".")
    shutil.rmtree(folder / "source")


def a_forest_of_an_unknown_version(models: Path, name: str) -> None:
    folder = declare(models, name, weights=local("forest.json"), model=OF_FOREST)
    (folder / "forest.json").write_text('{"version": [99, 0, 0], "learner": {"new": 1}}')


def an_onnx_file_without_its_side_file(models: Path, name: str) -> None:
    folder = declare(models, name, weights=local("net.onnx"), model=OF_ONNX)
    made = onnx.load_from_string(network("X", "Y"))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4096, np.float32), "unused"))
    convert_model_to_external_data(made, location="net.onnx.data", size_threshold=0)
    onnx.save(made, folder / "net.onnx")
    (folder / "net.onnx.data").unlink()


def a_checkpoint_without_its_configuration(models: Path, name: str) -> None:
    folder = declare(models, name, weights=local("checkpoint"), model=OF_NETWORK)
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 20}
    network = transformers.BertModel(transformers.BertConfig(num_hidden_layers=1, **sizes))
    network.save_pretrained(folder / "checkpoint")
    (folder / "checkpoint" / "config.json").unlink()


def recorded_answers_of_another_model(models: Path, name: str) -> None:
    source = directory(models.parent / name)
    requests = recorded(models.parent / f"{name}.jsonl", -2.0)
    adopt = ["adopt", str(source), "--requests", str(requests), "--models", str(models)]
    assert main(adopt) == 0


def a_prefix_that_has_changed(models: Path, name: str) -> None:
    weights = f'S3Weights(url="s3://weights/net/", digest="{"0" * 16}")'
    declare(models, name, weights=weights, model=OF_DIRECTORY)


BAD: dict[Callable[[Path, str], None], tuple[str, str]] = {
    two_models_in_an_archive: ("build", "adopted-directory"),
    a_forest_of_an_unknown_version: ("build", "forest-file"),
    an_onnx_file_without_its_side_file: ("build", "weights"),
    a_checkpoint_without_its_configuration: ("build", "weights"),
    recorded_answers_of_another_model: ("verify", "outside-tolerance"),
    a_prefix_that_has_changed: ("build", "weights-changed"),
}
GOOD = ["xgboost_file_0", "caller_0", "python_0"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModelResult]]:
    """The results of one delivery of all of them, with a real Triton server."""
    folder = tmp_path_factory.mktemp("zoo")
    models = folder / "models"
    for write in BAD:
        write(models, write.__name__)
    for name in GOOD:
        zoo.write(models, name.rpartition("_")[0], name, 0)
    with pytest.MonkeyPatch.context() as monkeypatch, small_aws() as url:
        monkeypatch.setenv("PATH", f"{command.install(folder / 'bin')}:{os.environ['PATH']}")
        for variable, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": url}.items():
            monkeypatch.setenv(variable, value)
        s3 = client(url)
        s3.create_bucket(Bucket="weights")
        s3.put_object(Bucket="weights", Key="net/config.pbtxt", Body=b"")
        delivery = Delivery(repository=new_repository(s3), models=models, logs=folder / "logs")
        delivered = deliver([*(each.__name__ for each in BAD), *GOOD], delivery, s3=s3)
        assert sorted(consistent_manifest(delivery.repository, s3).models) == sorted(GOOD)
        yield {result.model: result for result in delivered.results}


@pytest.mark.parametrize("write", BAD, ids=lambda write: write.__name__)
def test_a_model_that_cannot_be_served_has_one_error_with_its_name(
    write: Callable[[Path, str], None], results: dict[str, ModelResult]
) -> None:
    step, rule = BAD[write]
    result = results[write.__name__]
    assert (result.status, result.step) == ("failed", step)
    (problem,) = result.problems
    assert problem.rule == rule
    assert f"model {write.__name__!r}" in problem.where


def test_the_others_are_published(results: dict[str, ModelResult]) -> None:
    assert {name: results[name].status for name in GOOD} == dict.fromkeys(GOOD, "published")
