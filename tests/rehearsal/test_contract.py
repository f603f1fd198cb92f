"""SageMaker's multi-model contract against the real server."""

import json

import numpy as np
import pytest

from tests.rehearsal.aws_for_hosting import ENVIRONMENT
from tests.rehearsal.served_models import FLOATS, model_that_waits, python_model, write
from triton_models.client import decode, encode
from triton_rehearsal.triton.contract import ALREADY_LOADED, MultiModelContract, NoAnswerError
from triton_rehearsal.triton.server import TritonServer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with TritonServer(ENVIRONMENT, tmp_path_factory.mktemp("contract") / "server") as server:
        yield server


@pytest.fixture(scope="module")
def contract(server):
    with MultiModelContract(server.socket) as contract:
        yield contract


@pytest.fixture
def identity(tmp_path):
    return str(write(python_model(), tmp_path / "model"))


def test_a_server_without_models_is_ready_and_nobody_at_the_address_is_not(contract, tmp_path):
    assert contract.ping()
    with MultiModelContract(tmp_path / "8080") as nothing:
        assert not nothing.ping()


def test_a_model_is_loaded_described_listed_invoked_and_unloaded(contract, identity):
    names = {"model_id": "one", "target_model": "one-0123.tar.gz"}
    assert contract.invoke(body=FLOATS, **names).status == 404
    assert contract.load(folder=f"{identity}/absent", **names).status == 400
    assert contract.load(folder=identity, **names).ok
    assert contract.load(folder=identity, **names).status == ALREADY_LOADED
    assert json.loads(contract.describe(**names).body) == {"modelName": "one", "modelUrl": identity}
    assert len(json.loads(contract.list().body)["models"]) == 1
    answer = contract.invoke(body=FLOATS, headers={"Content-Type": "application/json"}, **names)
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body)["outputs"][0]["data"] == [1.0, 2.0, 3.0]
    # Without the target model's name in a header, this takes 350 seconds.
    assert contract.unload(**names).ok
    assert contract.describe(**names).status == 404


def test_triton_names_a_model_after_the_target_model(contract, identity):
    names = {"model_id": "named", "target_model": "team/named-42.tar.gz"}
    contract.load(folder=identity, **names)
    assert json.loads(contract.invoke(body=FLOATS, **names).body)["model_name"] == "team/named-42.tar.gz"


def test_a_binary_request_has_a_binary_answer(contract, identity):
    names = {"model_id": "binary", "target_model": "binary.tar.gz"}
    assert contract.load(folder=identity, **names).ok
    sent = {"X": np.array([[1, 2, 3]], dtype=np.float32)}
    body, content_type = encode(sent, outputs=("Y",), content="binary")
    answer = contract.invoke(body=body, headers={"Content-Type": content_type}, **names)
    assert decode(answer.body, answer.headers["content-type"])["Y"].tolist() == [[1, 2, 3]]


def test_an_answer_that_takes_too_long_is_given_up_in_sagemakers_words(server, contract, gate, tmp_path):
    folder = write(model_that_waits(gate), tmp_path / "model")
    names = {"model_id": "slow", "target_model": "slow.tar.gz"}
    assert contract.load(folder=str(folder), **names).ok
    with (
        MultiModelContract(server.socket, invocation_limit_s=0.1) as hasty,
        pytest.raises(NoAnswerError, match="Your invocation timed out"),
    ):
        hasty.invoke(body=FLOATS, **names)
    gate.write_text("go on")
