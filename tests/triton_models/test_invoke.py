"""`fleet invoke` asks a model with values, files or an example, and prints a readable answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.triton_models.scripted_server import Request, Step, World, error, manifest, reply
from triton_models.cli import main as cli
from triton_models.client.batches import Answer

pytestmark = pytest.mark.parametrize("world", ["threads"], indirect=True)

ARTIFACT = "m-1111111111111111.tar.gz"
BUILD = {
    "request": {"X": "FP32 [-1, 2]", "TEXT": "STRING [-1, 1] (optional)"},
    "answer": {"Y": "FP32 [-1, 2]", "SAID": "STRING [-1, 1]"},
    "max_batch_size": 4,
}
DECLARATION = """
import numpy as np
from triton_models.spec import Example, ModelDefinition, PythonModel, Tensor

BUILD = ModelDefinition(
    name="m", description="d", output="Y",
    examples=lambda: [
        Example(name="one", inputs={"X": np.full((1, 2), 5, np.float32)}),
        Example(name="two", inputs={"X": np.full((1, 2), 7, np.float32)}),
    ],
    models=[PythonModel(
        name="m", code="model.py", max_batch_size=4,
        inputs=[Tensor("X", "FP32", [2])], outputs=[Tensor("Y", "FP32", [2])],
    )],
)
"""


@pytest.fixture
def asked(world: World) -> World:
    world.s3.otherwise, world.runtime.otherwise = manifest(build=BUILD, m=ARTIFACT), echo
    return world


def echo(request: Request) -> Step:
    """Answer with the first input in binary, and the second or a default as text."""
    header, at = json.JSONDecoder().raw_decode(request.body.decode("latin-1"))
    inputs = {each["name"]: each for each in header["inputs"]}
    data = {}
    for name, each in inputs.items():
        size = each["parameters"]["binary_data_size"]
        data[name] = request.body[at : at + size]
        at += size
    said = data.get("TEXT", b"....nothing")[4:].decode()
    x = np.frombuffer(data["X"], np.float32)
    outputs = [
        {"name": "Y", "datatype": "FP32", "shape": inputs["X"]["shape"], "data": x.tolist()},
        {"name": "SAID", "datatype": "BYTES", "shape": [1, 1], "data": [said]},
    ]
    return reply(200, json.dumps({"outputs": outputs}).encode(), Content_Type="application/json")


def invoke(*given: str) -> int:
    return cli.main(["invoke", "m", "--endpoint", "e", "--repository", "s3://bucket/models/", *given])


def answered(capsys: pytest.CaptureFixture[str], *given: str) -> dict[str, Any]:
    assert invoke(*given, "--json") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (document["artifact"], document["endpoint"]) == (ARTIFACT, "e")
    return {name: each["data"] for name, each in document["outputs"].items()}


def test_values_are_json_texts_or_files(
    asked: World, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.array([[3, 4]]))
    (tmp_path / "x.json").write_text("[[5, 6]]")
    (tmp_path / "image.jpg").write_bytes(b"jpeg")
    assert answered(capsys, "--input", "X=[[1, 2]]")["Y"] == [[1.0, 2.0]]
    assert answered(capsys, "--input", f"X=@{tmp_path}/x.npy")["Y"] == [[3.0, 4.0]]
    assert answered(capsys, "--input", f"X=@{tmp_path}/x.json")["Y"] == [[5.0, 6.0]]
    assert answered(capsys, "--input", "X=7")["Y"] == [[7.0, 7.0]]
    assert answered(capsys, "--input", "X=7", "--input", "TEXT=how are you?")["SAID"] == [["how are you?"]]
    assert answered(capsys, "--input", "X=7", "--input", 'TEXT=[["a"]]')["SAID"] == [["a"]]
    assert answered(capsys, "--input", "X=7", "--input", f"TEXT=@{tmp_path}/image.jpg")["SAID"] == [["jpeg"]]


def test_an_example_is_the_declared_one(
    asked: World, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "build.py").write_text(DECLARATION)
    (tmp_path / "m" / "model.py").write_text("")
    models = ["--models", str(tmp_path)]
    assert answered(capsys, *models)["Y"] == [[5.0, 5.0]]
    assert answered(capsys, *models, "--example", "two")["Y"] == [[7.0, 7.0]]
    assert invoke(*models, "--example", "tow") == 1
    assert "did you mean two?" in capsys.readouterr().err


def test_an_answer_is_readable_and_saved(
    asked: World, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert invoke("--input", "X=7", "--save", str(tmp_path / "answer.npz")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{ARTIFACT} of e answered in ")
    assert lines[1:] == [
        "Y  FP32 [1, 2]",
        "  [[7., 7.]]",
        "SAID  BYTES [1, 1]",
        "  [['nothing']]",
        f"saved to {tmp_path}/answer.npz",
    ]
    saved: Answer = dict(np.load(tmp_path / "answer.npz"))
    np.testing.assert_array_equal(saved["Y"], [[7, 7]])
    assert saved["SAID"].tolist() == [[b"nothing"]]


def test_only_the_outputs_that_are_named_are_asked_for(asked: World) -> None:
    assert invoke("--input", "X=7", "--output", "Y") == 0
    (request,) = asked.runtime.requests
    header, _ = json.JSONDecoder().raw_decode(request.body.decode("latin-1"))
    assert header["outputs"] == [{"name": "Y", "parameters": {"binary_data": True}}]


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        (["--input", "X"], "invoke-input"),
        (["--input", "X=1", "--input", "X=2"], "invoke-input"),
        (["--input", "X=[1,"], "invoke-input"),
        (["--input", "X=@/none"], "invoke-input"),
        (["--input", "Z=1"], "client-input"),
        (["--input", "X=[[1, 2, 3]]"], "client-input"),
        (["--input", "X=1", "--output", "Z"], "client-output"),
    ],
)
def test_a_mistake_is_told_before_anything_is_sent(
    asked: World, capsys: pytest.CaptureFixture[str], given: list[str], rule: str
) -> None:
    assert invoke(*given) == 1
    assert f"[{rule}]" in capsys.readouterr().err
    assert asked.runtime.requests == []


def test_a_model_that_fails_is_an_error(asked: World, capsys: pytest.CaptureFixture[str]) -> None:
    asked.runtime.otherwise = error(424, "ModelError", OriginalStatusCode=400, OriginalMessage="bad")
    assert invoke("--input", "X=7") == 1
    assert "bad [invoke]" in capsys.readouterr().err
