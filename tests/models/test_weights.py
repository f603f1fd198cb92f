import hashlib

import boto3
import moto
import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file

from triton_models.base.errors import FleetError
from triton_models.builds.export.weights import described, fetch, load_weights
from triton_models.spec import HubWeights, LocalWeights, PackageWeights, RandomWeights, weights_at


def network(value: float = 0.0, *, width: int = 2, extra: bool = False) -> torch.nn.Module:
    module = torch.nn.Sequential()
    module.add_module("fc", torch.nn.Linear(3, width))
    module.add_module("bn", torch.nn.BatchNorm1d(width))
    if extra:
        module.add_module("head", torch.nn.Linear(1, 1, bias=False))
    for parameter in module.parameters():
        torch.nn.init.constant_(parameter, value)
    return module


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "weights.pth"
    torch.save(network(7.0).state_dict(), path)
    return path


def at(path):
    return weights_at(str(path), otherwise=RandomWeights(seed=0))


def refusal(path, module=None) -> str:
    with pytest.raises(FleetError) as caught:
        load_weights(module or network(), at(path))
    (problem,) = caught.value.problems
    assert (problem.rule, problem.where) == ("weights", f"the weights {str(path)!r}")
    return problem.what


def test_weights_saved_by_torch_are_loaded_and_named_by_their_digest(saved):
    module = network()
    load_weights(module, at(saved))
    assert described(at(saved)) == f"sha256:{hashlib.sha256(saved.read_bytes()).hexdigest()}"
    assert {parameter.min().item() for parameter in module.parameters()} == {7.0}


def test_weights_in_a_safetensors_file_are_loaded(tmp_path):
    save_file(network(7.0).state_dict(), tmp_path / "weights.safetensors")
    module = network()
    load_weights(module, at(tmp_path / "weights.safetensors"))
    assert module.fc.weight.min().item() == 7.0


def test_weights_are_loaded_from_s3(saved, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with moto.mock_aws():
        s3 = boto3.client("s3")
        s3.create_bucket(Bucket="models")
        s3.upload_file(str(saved), "models", "resnet/weights.pth")
        module = network()
        load_weights(module, at("s3://models/resnet/weights.pth"))
    assert module.fc.weight.min().item() == 7.0


def test_the_side_file_of_an_onnx_file_in_s3_is_fetched_with_it(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    weight = onnx.numpy_helper.from_array(np.ones(4096, dtype=np.float32), "W")
    shape = onnx.helper.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, [4096])
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["W"], ["Y"])], "g", [], [shape], initializer=[weight]
    )
    file = tmp_path / "fraud.onnx"
    onnx.save_model(
        onnx.helper.make_model(graph), file, save_as_external_data=True, location="fraud.onnx.data"
    )
    with moto.mock_aws():
        s3 = boto3.client("s3")
        s3.create_bucket(Bucket="models")
        for name in ("fraud.onnx", "fraud.onnx.data"):
            s3.upload_file(str(tmp_path / name), "models", f"2026/{name}")
        fetched = fetch(at("s3://models/2026/fraud.onnx"))

    assert fetched.with_name("fraud.onnx.data").read_bytes() == (tmp_path / "fraud.onnx.data").read_bytes()


def test_a_missing_s3_object_is_refused_with_amazons_reason(monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with moto.mock_aws():
        boto3.client("s3").create_bucket(Bucket="models")
        assert "404" in refusal("s3://models/nothing.pth")


def test_weights_of_another_network_are_refused_by_name_and_shape(saved):
    assert refusal(saved, network(extra=True)) == "weights of another network: head.weight is missing"
    assert "fc.weight is (2, 3), not (5, 3)" in refusal(saved, network(width=5))


def test_only_the_first_differences_are_listed(tmp_path):
    torch.save({f"layer{number}": torch.zeros(1) for number in range(50)}, tmp_path / "weights.pt")
    assert refusal(tmp_path / "weights.pt").endswith(" and 54 more")


def test_a_missing_file_is_refused(tmp_path):
    assert refusal(tmp_path / "none.pth") == "No such file or directory"


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
def test_a_file_of_something_else_is_refused(name, tmp_path):
    (tmp_path / name).write_bytes(b"<html>404</html>")
    assert refusal(tmp_path / name).startswith("not a file of weights")


def test_a_whole_pickled_network_is_refused_because_loading_it_would_run_its_code(tmp_path):
    torch.save(network(), tmp_path / "network.pth")
    assert refusal(tmp_path / "network.pth").startswith("not a file of weights")


def test_a_file_of_numbers_without_tensors_is_refused(tmp_path):
    torch.save({"epoch": 3}, tmp_path / "checkpoint.pth")
    assert "tensors by name" in refusal(tmp_path / "checkpoint.pth")


def test_weights_of_the_hub_are_those_of_the_declared_commit(saved, monkeypatch):
    asked = []

    def answer(repository: str, file: str, *, revision: str) -> str:
        asked.append((repository, file, revision))
        return str(saved)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", answer)
    weights = HubWeights(id="owner/name", revision="a" * 40, file="weights.pth")
    module = network()
    load_weights(module, weights)
    assert asked == [("owner/name", "weights.pth", "a" * 40)]
    assert module.fc.weight.min().item() == 7.0
    assert described(weights) == f"owner/name@{'a' * 40}"


def test_a_hub_that_does_not_answer_is_the_users_to_know(monkeypatch):
    def refuse(*_: object, **__: object) -> str:
        raise ConnectionError("no route to huggingface.co\nand more")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(FleetError, match=r"the download failed: no route to huggingface.co \[weights\]"):
        fetch(HubWeights(id="owner/name", revision="b" * 40))


def test_a_package_that_is_not_installed_is_named_with_the_way_to_it():
    with pytest.raises(FleetError) as caught:
        fetch(PackageWeights(package="a_package_that_nobody_has"))
    assert caught.value.problems[0].fix == "run python -m triton_models.builds.locked build"


def test_a_folder_of_weights_has_one_digest_wherever_it_lies(tmp_path):
    for place in ("one", "other"):
        (tmp_path / place / "deep").mkdir(parents=True)
        (tmp_path / place / "deep" / "vocab.txt").write_text("a")
    one, other = (described(LocalWeights(path=str(tmp_path / place))) for place in ("one", "other"))
    assert one == other
    (tmp_path / "other" / "deep" / "vocab.txt").rename(tmp_path / "other" / "vocab.txt")
    assert described(LocalWeights(path=str(tmp_path / "other"))) != one
