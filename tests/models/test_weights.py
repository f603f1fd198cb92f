import hashlib
import io
import itertools
import tarfile
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import boto3
import moto
import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from small_onnx import network_of

from tests.reported import refused
from tests.triton_models.hostile_archives import ONE_PER_RULE
from triton_models.artifact.archive import ZIPPED_WEIGHTS, unpack
from triton_models.base.errors import FleetError
from triton_models.builds.export import weights
from triton_models.builds.export.weights import described, fetch, load_weights
from triton_models.spec import HubWeights, LocalWeights, RandomWeights, RegistryWeights, S3Weights, weights_at


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
    problem = refused(load_weights, module or network(), at(path))
    assert (problem.rule, problem.where) == ("weights", f"the weights {str(path)!r}")
    return problem.what


@pytest.mark.parametrize("save", [torch.save, save_file])
def test_weights_in_a_file_are_loaded_and_named_by_their_digest(save, tmp_path):
    file = tmp_path / ("weights.pth" if save is torch.save else "weights.safetensors")
    save(network(7.0).state_dict(), file)
    module = network()
    load_weights(module, at(file))
    assert described(at(file)) == f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
    assert {parameter.min().item() for parameter in module.parameters()} == {7.0}


def test_the_side_file_of_an_onnx_file_in_s3_is_fetched_with_it(tmp_path, bucket):
    made = network_of("g () => (float[4096] Y) { Y = Identity(W) }")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4096, np.float32), "W"))
    file = tmp_path / "fraud.onnx"
    onnx.save_model(made, file, save_as_external_data=True, location="fraud.onnx.data")
    for name in ("fraud.onnx", "fraud.onnx.data"):
        bucket.upload_file(str(tmp_path / name), "models", f"2026/{name}")

    fetched = fetch(at("s3://models/2026/fraud.onnx"))

    assert fetched.with_name("fraud.onnx.data").read_bytes() == (tmp_path / "fraud.onnx.data").read_bytes()


def test_a_missing_s3_object_is_refused_with_amazons_reason(bucket):
    assert "404" in refusal("s3://models/nothing.pth")


def test_weights_of_another_network_are_refused_by_name_and_shape(saved):
    assert refusal(saved, network(extra=True)) == "weights of another network: head.weight is missing"
    assert "fc.weight is (2, 3), not (5, 3)" in refusal(saved, network(width=5))


@pytest.mark.parametrize(
    ("name", "write", "said"),
    [
        ("none.pth", lambda path: None, "No such file or directory"),
        ("weights.pth", lambda path: path.write_bytes(b"<html>404</html>"), "not a file of weights"),
        ("weights.safetensors", lambda path: path.write_bytes(b"<html>404</html>"), "not a file of weights"),
        ("network.pth", lambda path: torch.save(network(), path), "not a file of weights"),
        ("checkpoint.pth", lambda path: torch.save({"epoch": 3}, path), "it must contain tensors by name"),
    ],
    ids=["missing", "a page", "a page as safetensors", "a pickle, whose code would run", "numbers alone"],
)
def test_a_file_without_a_state_dict_is_refused(name, write, said, tmp_path):
    write(tmp_path / name)
    assert refusal(tmp_path / name).startswith(said)


def _wrapped(wrapper: str) -> object:
    state = network(7.0).state_dict()
    prefixes = {
        "ddp": "module.",
        "compiled": "_orig_mod.",
        "both": "module._orig_mod.",
        "lightning": "model.",
    }
    if wrapper == "inside":
        return {name.replace("fc.", "fc._orig_mod."): value for name, value in state.items()}
    if wrapper == "checkpoint":
        return {"epoch": 3, "state_dict": state, "optimizer_states": [{}]}
    named = {f"{prefixes[wrapper]}{name}": value for name, value in state.items()}
    return named | ({"loss.pos_weight": torch.ones(1)} if wrapper == "lightning" else {})


@pytest.mark.parametrize(
    ("wrapper", "save"),
    [
        *((each, torch.save) for each in ("ddp", "compiled", "both", "lightning", "inside", "checkpoint")),
        ("ddp", save_file),
        ("inside", save_file),
    ],
)
def test_weights_of_a_wrapper_are_refused_with_a_fix_that_works(wrapper, save, tmp_path):
    path = tmp_path / ("weights.safetensors" if save is save_file else "weights.pth")
    save(_wrapped(wrapper), path)
    problem = refused(load_weights, network(), at(path))
    assert "another network" not in problem.what
    code = problem.fix.partition(": ")[2]
    exec(code, {"torch": torch, "PATH": path})  # noqa: S102
    loaded = network()
    load_weights(loaded, at(path))
    assert torch.equal(loaded.fc.weight, network(7.0).fc.weight)


def test_a_file_without_weights_is_refused_by_the_missing_names(tmp_path):
    torch.save({}, tmp_path / "empty.pth")
    assert "fc.weight is missing" in refused(load_weights, network(), at(tmp_path / "empty.pth")).what


def test_a_wrapped_network_is_named_for_weights_without_the_wrapper(saved):
    problem = refused(load_weights, torch.nn.DataParallel(network()), at(saved))
    assert "the network's names begin with 'module.'" in problem.what
    code = problem.fix.partition("with it: ")[2]
    exec(code, {"torch": torch, "PATH": saved})  # noqa: S102
    load_weights(torch.nn.DataParallel(network()), at(saved))


def test_a_whole_module_is_no_state_dict(tmp_path):
    torch.save(network(), tmp_path / "weights.pth")
    problem = refused(load_weights, network(), at(tmp_path / "weights.pth"))
    assert "torch.save(network.state_dict(), PATH)" in problem.fix


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


def test_a_folder_of_weights_has_one_digest_wherever_it_lies(tmp_path):
    for place in ("one", "other"):
        (tmp_path / place / "deep").mkdir(parents=True)
        (tmp_path / place / "deep" / "vocab.txt").write_text("a")
    one, other = (described(LocalWeights(path=str(tmp_path / place))) for place in ("one", "other"))
    assert one == other
    (tmp_path / "other" / "deep" / "vocab.txt").rename(tmp_path / "other" / "vocab.txt")
    assert described(LocalWeights(path=str(tmp_path / "other"))) != one


# Prefixes, archives and registries


@pytest.fixture
def bucket(monkeypatch):
    """A bucket with a checkpoint of three objects under a prefix; returns its client."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with moto.mock_aws():
        s3 = boto3.client("s3")
        s3.create_bucket(Bucket="models")
        for name in ("config.json", "deep/vocab.txt", "model.safetensors", "folder/"):
            s3.put_object(Bucket="models", Key=f"bert-7/{name}", Body=name.encode())
        s3.put_object(Bucket="models", Key="bert-70/config.json", Body=b"of another checkpoint")
        yield s3


def found_in(folder: Path) -> dict[str, str]:
    return {
        each.relative_to(folder).as_posix(): each.read_text() for each in folder.rglob("*") if each.is_file()
    }


def test_all_objects_under_a_prefix_are_a_folder(bucket):
    names = ("config.json", "deep/vocab.txt", "model.safetensors")
    assert found_in(fetch(at("s3://models/bert-7/"))) == {name: name for name in names}


def test_one_file_of_a_prefix_is_found_by_its_name(bucket):
    assert fetch(S3Weights(url="s3://models/bert-7/", file="deep/vocab.txt")).read_text() == "deep/vocab.txt"
    problem = refused(fetch, S3Weights(url="s3://models/bert-7/", file="deep/vocap.txt"))
    assert problem.fix == "did you mean deep/vocab.txt?"


def test_a_prefix_has_the_declared_digest_until_an_object_changes(bucket):
    wrong = refused(fetch, S3Weights(url="s3://models/bert-7/", digest="0" * 16))
    digest = wrong.what.split()[5].rstrip(",")
    assert wrong.rule == "weights-changed"
    assert wrong.fix.startswith(f'if they are right, write digest="{digest}"')
    pinned = S3Weights(url="s3://models/bert-7/", digest=digest)

    bucket.put_object(Bucket="models", Key="bert-7/config.json", Body=b"another")
    assert refused(fetch, pinned).rule == "weights-changed"
    bucket.put_object(Bucket="models", Key="bert-7/config.json", Body=b"config.json")
    assert fetch(pinned).is_dir()


def test_a_prefix_that_changes_while_it_is_read_is_refused(bucket, monkeypatch):
    def download(client, bucket_name, key, path):
        Path(path).write_bytes(b"")
        client.put_object(Bucket="models", Key="bert-70/late.bin", Body=b"late")

    client = boto3.client("s3")
    monkeypatch.setattr(boto3, "Session", lambda: SimpleNamespace(client=lambda service: client))
    monkeypatch.setattr(client, "download_file", lambda *given: download(client, *given))
    problem = refused(fetch, S3Weights(url="s3://models/bert-70/"))
    assert (problem.rule, problem.what) == ("weights-changed", "the objects changed while they were read")


def test_the_default_session_which_keeps_its_first_credentials_is_not_used(bucket, monkeypatch):
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", SimpleNamespace())
    assert fetch(at("s3://models/bert-7/")).is_dir()


@pytest.mark.parametrize("key", ["a/../../escape"])
def test_a_key_that_leads_out_of_the_folder_is_refused(key, bucket):
    bucket.put_object(Bucket="models", Key=f"odd/{key}", Body=b"")
    assert "leads out of the folder" in refused(fetch, at("s3://models/odd/")).what


def packed(files: dict[str, str], end: str) -> bytes:
    content = io.BytesIO()
    if end == ".zip":
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as opened:
            for name, text in files.items():
                opened.writestr(name, text)
        return content.getvalue()
    with tarfile.open(fileobj=content, mode="w" if end == ".tar" else "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return content.getvalue()


def zipped(*entries) -> bytes:
    """A zip archive of names, texts and fields of their headers."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as opened:
        for name, text, fields in entries:
            info = zipfile.ZipInfo(name)
            for field, value in fields.items():
                setattr(info, field, value)
            opened.writestr(info, text)
    return content.getvalue()


@pytest.mark.parametrize("end", [".tar.gz", ".tgz", ".tar", ".zip"])
@pytest.mark.parametrize("top", ["", "model/"])
def test_the_output_of_a_training_job_is_unpacked(end, top, tmp_path):
    path = tmp_path / f"model{end}"
    path.write_bytes(packed({f"{top}xgboost-model": "trees", f"{top}code/inference.py": ""}, end))
    assert fetch(at(path)).joinpath("xgboost-model").read_text() == "trees"
    assert fetch(LocalWeights(path=str(path), file="xgboost-model")).read_text() == "trees"


@pytest.mark.parametrize(
    ("end", "content", "rule"),
    [
        (".tar.gz", b"<html>404</html>", "archive-damaged"),
        (".zip", packed({"../escape": "x"}, ".zip"), "archive-name"),
        (".zip", packed({"a": "x", "a/b": "y"}, ".zip"), "archive-clash"),
        (".zip", zipped(("a", "x" * 99, {})).replace(b"x" * 99, b"y" * 99), "archive-damaged"),
        (".zip", zipped(("a", "x", {}), ("./a", "y", {})), "archive-clash"),
        (".zip", zipped(("a", "/etc/passwd", {"external_attr": 0o120777 << 16})), "archive-link"),
        (".zip", zipped(("a", "", {"external_attr": 0o010644 << 16})), "archive-kind"),
        (".zip", zipped(("a", "x", {"compress_type": zipfile.ZIP_LZMA})), "archive-kind"),
        (".zip", zipped(("a/", "x", {})), "archive-kind"),
    ],
    ids=itertools.count(),
)
def test_an_archive_that_cannot_be_unpacked_is_refused(end, content, rule, tmp_path):
    assert refused_archive(content, end, tmp_path) == [rule]


@pytest.mark.parametrize("hostile", ONE_PER_RULE, ids=str)
def test_weights_are_unpacked_as_strictly_as_artifacts(hostile, tmp_path):
    assert refused_archive(hostile.content, ".tar.gz", tmp_path) == [hostile.rule]


@pytest.mark.parametrize(
    ("end", "limit"),
    [
        (".tar", {"unpacked_bytes": 99_999}),
        (".tar.gz", {"ratio": 20, "ratio_from_bytes": 0}),
        (".zip", {"members": 2}),
    ],
)
def test_the_limit_that_an_archive_exceeds_is_named_with_what_to_do(end, limit, tmp_path, monkeypatch):
    for form in ("WEIGHTS", "ZIPPED_WEIGHTS"):
        monkeypatch.setattr(weights, form, replace(getattr(weights, form), **limit))
    content = packed(dict.fromkeys("abc", "x" * 50000), end)
    (tmp_path / f"model{end}").write_bytes(content)
    problem = refused(fetch, at(tmp_path / f"model{end}"))
    assert problem.rule == "archive-limit"
    assert str(next(iter(limit.values()))) in problem.what
    assert "declare the unpacked folder" in problem.fix


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_damaged_zip_is_read_or_refused_and_writes_nothing_outside(tmp_path, changes):
    content = bytearray(packed({"model/net.pt": "x" * 40, "b": "y"}, ".zip"))
    for at_byte, value in changes:
        content[at_byte % len(content)] = value
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    with suppress(FleetError):
        unpack(io.BytesIO(content), folder / "to", where="here", limits=ZIPPED_WEIGHTS)
    assert {each.name for each in folder.iterdir()} <= {"to"}


def refused_archive(content, end, tmp_path):
    """Return the rules by which an archive of weights is refused, and check that it has written nothing."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / f"model{end}").write_bytes(content)
    with pytest.raises(FleetError) as caught:
        fetch(at(inside / f"model{end}"))
    assert [each.name for each in tmp_path.iterdir()] == ["inside"]
    assert [each.name for each in inside.iterdir()] == [f"model{end}"]
    return list(dict.fromkeys(problem.rule for problem in caught.value.problems))


@pytest.mark.parametrize(
    ("fetching", "said"),
    [
        (lambda folder: folder / "nothing", "which does not exist"),
        (lambda folder: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_a_registry_that_fails_is_refused_with_the_id(fetching, said):
    problem = refused(fetch, RegistryWeights(id=f"models:/{said}", fetch=fetching))
    assert (problem.where, said in problem.what) == (f"the weights 'models:/{said}'", True)


def test_several_files_of_the_hub_are_fetched_by_their_patterns(monkeypatch, tmp_path):
    asked = {}

    def answer(repository: str, **given: object) -> str:
        asked.update(given)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", answer)
    fetch(HubWeights(id="owner/name", revision="c" * 40, files=["*.json", "*.safetensors"]))
    assert asked == {
        "revision": "c" * 40,
        "allow_patterns": ["*.json", "*.safetensors"],
        "ignore_patterns": None,
    }


def test_an_address_of_the_hub_may_name_a_file():
    weights = weights_at(f"hf://owner/name@{'d' * 40}/onnx/model.onnx", otherwise=RandomWeights(seed=0))
    assert weights == HubWeights(id="owner/name", revision="d" * 40, file="onnx/model.onnx")
