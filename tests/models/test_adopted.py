"""`fleet adopt`: a Triton directory becomes a model of the fleet as it is, or is refused for a reason."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from small_onnx import network_of

from triton_models.builds.adopted import recorded_examples, recorded_reference
from triton_models.builds.build import build
from triton_models.cli.main import main
from triton_models.deliver.steps import check_built
from triton_models.spec import load_build
from triton_rehearsal.rehearse.predictions import predict

CONFIG = """\
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ {{ name: "{x}" data_type: TYPE_FP32 dims: [ 2 ] }} ]
output [ {{ name: "{y}" data_type: TYPE_FP32 dims: [ 2 ] }} ]
{more}
"""
ENSEMBLE = """\
platform: "ensemble"
max_batch_size: 8
input [ { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } ]
output [ { name: "Z" data_type: TYPE_FP32 dims: [ 2 ] } ]
ensemble_scheduling { step [
  { model_name: "first" model_version: -1
    input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } },
  { model_name: "second" model_version: -1
    input_map { key: "Y" value: "Y" } output_map { key: "Z" value: "Z" } }
] }
"""
GPU = "instance_group [ { count: 1 kind: KIND_GPU } ]"
SEQUENCE = """sequence_batching { control_input [ {
  name: "START" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] } ] }"""

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fleet(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run `fleet` with models in a folder that exists; returns the exit status, the output and the errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        status = main([str(each) for each in arguments])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


def network(x: str, y: str, *, also: str = "") -> bytes:
    """Return a network that negates its input, or adds another one."""
    other, answer = (f", float[rows, 1] {also}", f"Add({x}, {also})") if also else ("", f"Neg({x})")
    graph = f"g (float[rows, 2] {x}{other}) => (float[rows, 2] {y}) {{ {y} = {answer} }}"
    return network_of(graph).SerializeToString()


def directory(folder: Path, x: str = "X", y: str = "Y", *, more: str = "", also: str = "") -> Path:
    """Write the directory of an ONNX model, as Triton serves it."""
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(CONFIG.format(x=x, y=y, more=more))
    (folder / "1" / "model.onnx").write_bytes(network(x, y, also=also))
    return folder


def two_steps(folder: Path) -> Path:
    """Write an ensemble of two models, without the empty version folder that git does not keep."""
    directory(folder / "first", "X", "Y")
    directory(folder / "second", "Y", "Z")
    (folder / "both").mkdir()
    (folder / "both" / "config.pbtxt").write_text(ENSEMBLE)
    return folder


def recorded(path: Path, *answers: float) -> Path:
    """Write requests with ones, and an answer with a number for each."""
    lines = []
    for count, answer in enumerate(answers, start=1):
        ones, them = [[1.0, 1.0]] * count, [[answer, answer]] * count
        tensor = {"datatype": "FP32", "shape": [count, 2]}
        lines.append({"inputs": [{**tensor, "name": "X", "data": ones}]})
        lines[-1]["outputs"] = [{**tensor, "name": "Y", "data": them}]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def verify(fleet: Cli, models: Path, name: str) -> tuple[int, str, str]:
    return fleet("verify", build(name, models=models, output=models / "out"), "--models", models)


def test_a_model_directory_is_served_as_it_is(tmp_path: Path, fleet: Cli) -> None:
    source = directory(tmp_path / "source")
    assert fleet("adopt", source, "--name", "net", "--models", tmp_path)[0] == 0
    status, said, _ = verify(fleet, tmp_path, "net")
    assert (status, said) == (0, "net: fp32, loads; answered 1 generated example\n")
    served = tmp_path / "out" / "net" / "net"
    assert (served / "config.pbtxt").read_bytes() == (source / "config.pbtxt").read_bytes()


def test_a_model_directory_in_fp16_is_called_so(tmp_path: Path, fleet: Cli) -> None:
    source = directory(tmp_path / "source")
    made = onnx.load(source / "1" / "model.onnx")
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(4, np.float16), "w"))
    onnx.save(made, source / "1" / "model.onnx")
    assert fleet("adopt", source, "--name", "net", "--models", tmp_path)[0] == 0
    _, _, said = fleet("build", "net", "--models", tmp_path, "--output", tmp_path / "out")
    assert "net: fp16, not compared" in said
    assert fleet("check", tmp_path / "out" / "net")[1] == f"{tmp_path / 'out' / 'net'}: accepted, fp16\n"


BANNERS = {"24.05": "[TensorRT v100001] [b6]", "25.09": "[TensorRT v101303] [b9]"}
EXACT = """optimization { execution_accelerators { gpu_execution_accelerator [
  { name: "cuda" parameters { key: "use_tf32" value: "0" } } ] } }"""


@pytest.mark.parametrize(
    ("more", "release", "precisions"), [("", "25.09", ["tf32"]), (EXACT, "25.09", None), ("", "24.05", None)]
)
def test_an_onnx_directory_may_use_tf32_on_a_gpu_unless_it_says_otherwise(  # noqa: PLR0917  fixtures
    tmp_path: Path, fleet: Cli, machine: Any, more: str, release: str, precisions: list[str] | None
) -> None:
    machine(gpus=("NVIDIA A10G",), banner=BANNERS[release])
    source = directory(tmp_path / "source", more=more)
    requests = recorded(tmp_path / "requests.jsonl", -1.0)
    options = ("--name", "net", "--models", tmp_path, "--requests", requests)
    assert fleet("adopt", source, *options)[0] == 0
    root = build("net", models=tmp_path, output=tmp_path / "out", gpu="A10G", release=release)
    assert json.loads((root / "build.json").read_text()).get("precisions") == precisions
    assert load_build("net", tmp_path).allowed("tf32") > load_build("net", tmp_path).allowed("fp32")


def test_a_backend_that_only_the_image_has_is_said_not_to_be_here(tmp_path: Path, fleet: Cli) -> None:
    source = directory(tmp_path / "source")
    config = source / "config.pbtxt"
    config.write_text(config.read_text().replace('platform: "onnxruntime_onnx"', 'backend: "square"'))
    assert fleet("adopt", source, "--name", "net", "--models", tmp_path)[0] == 0
    status, said, _ = verify(fleet, tmp_path, "net")
    assert (status, "this server has no backend 'square'" in said, "in the same way" in said) == (
        1,
        True,
        False,
    )


def test_an_ensemble_is_adopted_with_its_steps_under_another_name(tmp_path: Path, fleet: Cli) -> None:
    source = two_steps(tmp_path / "repository")
    assert fleet("adopt", source, "--name", "twice", "--models", tmp_path)[0] == 0
    assert verify(fleet, tmp_path, "twice")[0] == 0
    root = tmp_path / "out" / "twice"
    assert sorted(each.name for each in root.iterdir() if each.is_dir()) == ["first", "second", "twice"]


SPACED = """\
{
  "context": {
    "tritonFleet": {
      "models": [
        "minilm"
      ]
    }
  }
}
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SPACED, SPACED.replace('"minilm"', '"minilm",\n        "net"')),
        ('{"context": {"tritonFleet": {"models": []}}}', '{"context": {"tritonFleet": {"models": ["net"]}}}'),
        (
            '{"context": {"tritonFleet": {"stages": {"a": {"models": ["a"]}}, "models": ["a"]}}}',
            '{"context": {"tritonFleet": {"stages": {"a": {"models": ["a"]}}, "models": ["a", "net"]}}}',
        ),
    ],
    ids=["a line per model", "no model", "a stage with its own list"],
)
def test_cdk_json_names_a_new_model_and_stays_as_it_is_otherwise(
    before: str, after: str, tmp_path: Path, fleet: Cli
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (tmp_path / "cdk.json").write_text(before)
    _, said, _ = fleet("new", "net", "--minimal", "--models", models)
    assert (tmp_path / "cdk.json").read_text() == after
    assert f"{tmp_path / 'cdk.json'} names it" in said


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"context": {"tritonFleet": {"models": ["*"]}}}', True),
        ('{"context": {}}', False),
        ('{"context": {"tritonFleet": {"models": [[]]}}}', False),
    ],
    ids=["every model", "no fleet", "a list in the list"],
)
def test_cdk_json_stays_if_it_has_the_model_or_no_list_of_models(
    text: str, named: bool, tmp_path: Path, fleet: Cli
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (tmp_path / "cdk.json").write_text(text)
    status, said, _ = fleet("adopt", directory(tmp_path / "source"), "--name", "net", "--models", models)
    assert (status, (tmp_path / "cdk.json").read_text(), "names it" in said) == (0, text, named)


@pytest.mark.parametrize(("served_by", "accepted"), [("25.09", False), ("26.04", True)])
def test_a_directory_is_adopted_for_the_release_in_cdk_json(
    served_by: str, accepted: bool, tmp_path: Path, fleet: Cli
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    settings = {"release": served_by, "models": []}
    (tmp_path / "cdk.json").write_text(json.dumps({"context": {"tritonFleet": settings}}))
    compiled = directory(tmp_path / "source", "INPUT__0", "OUTPUT__0")
    text = (compiled / "config.pbtxt").read_text().replace("onnxruntime_onnx", "torch_aoti")
    (compiled / "config.pbtxt").write_text(text.replace("max_batch_size: 8", "max_batch_size: 0"))
    (compiled / "1" / "model.onnx").rename(compiled / "1" / "model.pt2")
    status, _, problem = fleet("adopt", compiled, "--name", "net", "--models", models)
    assert (status == 0, "[new-field]" in problem) == (accepted, not accepted)


def test_only_the_models_own_name_is_replaced(tmp_path: Path, fleet: Cli) -> None:
    source = directory(tmp_path / "source")
    config = source / "config.pbtxt"
    config.write_text(
        'input [ {\nname: "X" data_type: TYPE_FP32 dims: [ 2 ] } ]\nname: "source"\n'
        + CONFIG.format(x="X", y="Y", more="").replace(
            'input [ { name: "X" data_type: TYPE_FP32 dims: [ 2 ] } ]\n', ""
        )
    )
    assert fleet("adopt", source, "--name", "net", "--models", tmp_path)[0] == 0
    assert verify(fleet, tmp_path, "net")[0] == 0


INJECTED = 'Y" + str(print("run")) + "'


@pytest.mark.parametrize("place", ["folder", "output"])
def test_names_of_a_directory_are_not_run(place: str, tmp_path: Path, fleet: Cli) -> None:
    source = directory(tmp_path / (INJECTED if place == "folder" else "source"))
    if place == "output":
        config = source / "config.pbtxt"
        config.write_text(config.read_text().replace('name: "Y"', f"name: '{INJECTED}'"))
    status, said, problem = fleet("adopt", source, "--name", "net", "--models", tmp_path)
    assert (status, "run" in said.split(), "[unprintable-name]" in problem) == (1, False, True)
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ({"1/notes.txt": "/etc/passwd"}, "a link that leads out of the model"),
        ({"a": ".", "b": "."}, "a link to its own folder"),
        ({"1/gone": "nowhere"}, "a link to nothing"),
    ],
    ids=["file", "loop", "nothing"],
)
def test_links_that_lead_out_or_never_end_are_refused(
    links: dict[str, str], said: str, tmp_path: Path, fleet: Cli
) -> None:
    source = directory(tmp_path / "source")
    for link, target in links.items():
        (source / link).symlink_to(target)
    status, _, problem = fleet("adopt", source, "--name", "net", "--models", tmp_path)
    assert (status, problem.count(said)) == (1, len(links))
    assert not (tmp_path / "net").exists()


@pytest.mark.parametrize(
    ("more", "also", "drawn"), [(GPU, "", 1), (SEQUENCE, "START", 0)], ids=["for a GPU", "of sequences"]
)
def test_what_the_configuration_asks_for_is_served_here_and_sequences_get_no_drawn_examples(
    more: str, also: str, drawn: int, tmp_path: Path, fleet: Cli
) -> None:
    source = directory(tmp_path / "source", more=more, also=also)
    assert fleet("adopt", source, "--name", "net", "--models", tmp_path)[0] == 0
    assert len(load_build("net", tmp_path).examples()) == drawn
    assert verify(fleet, tmp_path, "net")[0] == 0


@pytest.mark.parametrize(
    ("answer", "status", "shown"), [(-2.0, 1, "model 'net', example 'recorded 2'")], ids=["not reproduced"]
)
def test_recorded_answers_are_the_reference(
    answer: float, status: int, shown: str, tmp_path: Path, fleet: Cli
) -> None:
    requests = recorded(tmp_path / "requests", -1.0, answer)
    source = directory(tmp_path / "source")
    assert fleet("adopt", source, "--name", "net", "--requests", requests, "--models", tmp_path)[0] == 0
    ended, said, _ = verify(fleet, tmp_path, "net")
    assert (ended, shown in said) == (status, True)


def test_without_examples_a_rehearsal_asks_for_requests_and_adopting_with_them_is_the_fix(
    tmp_path: Path, fleet: Cli
) -> None:
    source, options = tmp_path / "source", ("--name", "net", "--models", tmp_path / "models")
    (source / "1").mkdir(parents=True)
    (tmp_path / "models").mkdir()
    (source / "1" / "model.py").write_text("class TritonPythonModel:\n    def execute(self, requests): ...\n")
    tensor = "data_type: TYPE_STRING dims: [ 1 ]"
    (source / "config.pbtxt").write_text(
        f'backend: "python" input [ {{ name: "X" {tensor} }} ] output [ {{ name: "Y" {tensor} }} ]'
    )
    status, said, _ = fleet("adopt", source, *options)
    assert (status, "Next: write examples, because none can be drawn" in said) == (0, True)
    client: Any = None
    (unasked,) = predict(load_build("net", tmp_path / "models"), client)
    (problem,) = unasked.no_request
    assert (unasked.passed, problem.what) == (False, "net has no examples, so it got no request")
    assert "`fleet adopt DIR --requests FILE`" in problem.fix
    shutil.rmtree(tmp_path / "models" / "net")
    texts = [{"name": name, "datatype": "BYTES", "shape": [1], "data": ["a"]} for name in ("X", "Y")]
    requests = tmp_path / "requests"
    requests.write_text(json.dumps({"inputs": texts[:1], "outputs": texts[1:]}))
    assert fleet("adopt", source, *options, "--requests", requests)[0] == 0
    assert len(load_build("net", tmp_path / "models").examples()) == 1


def record(path: Path, *pairs: tuple[str, str]) -> Path:
    """Write a request and an answer of one row for each pair of JSON values, in another order of members."""
    line = '{{"outputs": [{{"data": {answer}, "shape": [1, 2], "datatype": "FP32", "name": "Y"}}], '
    line += '"inputs": [{{"shape": [1, 2], "name": "X", "datatype": "FP32", "data": {request}}}]}}\n'
    path.write_text("".join(line.format(request=request, answer=answer) for request, answer in pairs))
    return path


@pytest.mark.parametrize(
    "pairs",
    [
        [("[NaN, 2]", "[NaN, -2]")],
        [("[1, 2]", "[-1, -2]"), ("[NaN, 2]", "[NaN, -2]")],
        [("[Infinity, -Infinity]", "[-Infinity, Infinity]")],
        [("[1e999, 2]", "[-1e999, -2]")],
        [("[0.0, 1]", "[-0.0, -1]"), ("[-0.0, 1]", "[0.0, -1]")],
        [("[1e-45, 2]", "[-1e-45, -2]")],
    ],
)
def test_recorded_requests_have_their_recorded_answers_whatever_their_values(
    pairs: list[tuple[str, str]], tmp_path: Path, fleet: Cli
) -> None:
    requests, source = record(tmp_path / "requests", *pairs), directory(tmp_path / "source")
    assert fleet("adopt", source, "--name", "net", "--requests", requests, "--models", tmp_path)[0] == 0
    ended, said, _ = verify(fleet, tmp_path, "net")
    assert (ended, said.count("largest difference 0.0e+00 in Y")) == (0, 1), said


def test_of_requests_that_differ_in_the_sign_of_zero_each_has_its_own_answer(tmp_path: Path) -> None:
    path = record(tmp_path / "requests", ("[0.0, 1]", "[5, 5]"), ("[-0.0, 1]", "[6, 6]"))
    answers = [recorded_reference(path)(each.inputs)["Y"][0, 0] for each in recorded_examples(path)()]
    assert answers == [5.0, 6.0]


@pytest.mark.parametrize(
    ("request_", "answer", "said"),
    [
        ("[null, 2]", "[1, 2]", "line 1 is not a recorded request: 'X' has null among its values"),
        ("[1, 2]", "[1, null]", "line 1 is not a recorded request: 'Y' has null among its values"),
        ("[[null, 2]]", "[1, 2]", "line 1 is not a recorded request: 'X' has null among its values"),
        ("[NaN, 2]", "[NaN, NaN]", "line 1 is not a recorded request: every value of its answer is NaN"),
    ],
)
def test_a_recorded_value_that_proves_nothing_is_refused(
    request_: str, answer: str, said: str, tmp_path: Path, fleet: Cli
) -> None:
    requests, source = record(tmp_path / "requests", (request_, answer)), directory(tmp_path / "source")
    options = ("--name", "net", "--requests", requests, "--models", tmp_path)
    status, _, problem = fleet("adopt", source, *options)
    assert (status, said in problem, "[recorded-request]" in problem) == (1, True, True), problem


def without_ensemble(source: Path) -> None:
    shutil.rmtree(two_steps(source) / "both")


def spoilt(spoil: Callable[[Path], object]) -> Callable[[Path], None]:
    """Return what writes a directory that an endpoint cannot serve."""

    def write(source: Path) -> None:
        spoil(directory(source))

    return write


def compiled_at_load(source: Path) -> None:
    engine = 'gpu_execution_accelerator { name: "tensorrt" }'
    directory(source, more=f"optimization {{ execution_accelerators {{ {engine} }} }}")


def decoupled(source: Path) -> None:
    directory(source, more="model_transaction_policy { decoupled: true }")


@pytest.mark.parametrize(
    ("write", "rule"),
    [
        (without_ensemble, "adopted-directory"),
        (spoilt(lambda source: (source / "config.pbtxt").unlink()), "adopted-directory"),
        (spoilt(lambda source: (source / "1/model.onnx").rename(source / "1/model.plan")), "adopted-plan"),
        (decoupled, "decoupled"),
        (compiled_at_load, "engine-at-load"),
        (spoilt(lambda source: (source / "1/model.onnx").unlink()), "model-file-missing"),
    ],
    ids=["two models", "no configuration", "a plan", "decoupled", "an engine", "no file"],
)
def test_what_an_endpoint_cannot_serve_is_refused_and_leaves_nothing(
    write: Callable[[Path], None], rule: str, tmp_path: Path, fleet: Cli
) -> None:
    source = tmp_path / "source"
    write(source)
    (tmp_path / "models").mkdir()
    status, _, said = fleet("adopt", source, "--name", "net", "--models", tmp_path / "models")
    assert (status, f"[{rule}]" in said, list((tmp_path / "models").iterdir())) == (1, True, [])
    assert str(source) in said


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[" * 100_000,
        '{"inputs": [{"name": "X", "datatype": "FP32", "shape": [3], "data": [1]}], "outputs": []}',
    ],
)
def test_a_line_that_is_no_recorded_request_is_refused(line: str, tmp_path: Path, fleet: Cli) -> None:
    (tmp_path / "requests").write_text(f"\n{line}\n")
    source = directory(tmp_path / "source")
    options = ("--name", "net", "--requests", tmp_path / "requests", "--models", tmp_path)
    status, _, said = fleet("adopt", source, *options)
    assert (status, "line 2" in said, "[recorded-request]" in said) == (1, True, True)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--requests", "nothing"], "recorded-request"),
        (["--requests", os.devnull], "recorded-request"),
        (["--name", ""], "model-name"),
        (["--name", "taken"], "model-taken"),
    ],
)
def test_wrong_options_are_refused(options: list[str], rule: str, tmp_path: Path, fleet: Cli) -> None:
    (tmp_path / "taken").mkdir()
    given = [*options, *([] if "--name" in options else ["--name", "net"])]
    status, _, said = fleet("adopt", directory(tmp_path / "source"), *given, "--models", tmp_path)
    assert (status, f"[{rule}]" in said, "fleet new" in said) == (1, True, False)


def test_a_directory_that_holds_the_model_builds_is_refused(tmp_path: Path, fleet: Cli) -> None:
    source = directory(tmp_path / "source")
    (source / "models").mkdir()
    status, _, said = fleet("adopt", source, "--name", "net", "--models", source / "models")
    assert (status, "[adopted-directory]" in said, list((source / "models").iterdir())) == (1, True, [])


def test_weights_that_a_request_may_replace_are_inputs(tmp_path: Path, fleet: Cli) -> None:
    source = directory(tmp_path / "source", also="BIAS")
    path = source / "1" / "model.onnx"
    made: Any = onnx.load(str(path))
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 1), np.float32), "BIAS"))
    onnx.save(made, path)
    bias = 'input [ { name: "BIAS" data_type: TYPE_FP32 dims: [ 1 ] optional: true } ]\n'
    config = source / "config.pbtxt"
    batched = config.read_text()
    config.write_text(batched + bias)
    status, _, said = fleet("adopt", source, "--name", "net", "--models", tmp_path)
    assert (status, "optional" in said) == (1, True)  # the backend takes none with batches
    unbatched = batched.replace("max_batch_size: 8", "max_batch_size: 0").replace("[ 2 ]", "[ -1, 2 ]")
    config.write_text(unbatched + bias.replace("[ 1 ]", "[ -1, 1 ]"))
    assert fleet("adopt", source, "--name", "net", "--models", tmp_path)[0] == 0
    assert verify(fleet, tmp_path, "net")[0] == 0


IMPORTING = """\
import cv2

class TritonPythonModel:
    def execute(self, requests): ...
"""
COMPLETING = """\
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "X", "data_type": "TYPE_FP32", "dims": [2]})
        config.add_output({"name": "Y", "data_type": "TYPE_FP32", "dims": [2]})
        config.set_max_batch_size(8)
        return config

    def execute(self, requests):
        found = [pb_utils.get_input_tensor_by_name(each, "X").as_numpy() for each in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", -each)]) for each in found]
"""


def python_model(folder: Path, code: str, config: str) -> Path:
    """Write the directory of a Python model."""
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(config)
    (folder / "1" / "model.py").write_text(code)
    return folder


def test_a_module_of_a_custom_image_is_accepted_from_adoption_to_publication(
    tmp_path: Path, fleet: Cli
) -> None:
    config = CONFIG.format(x="X", y="Y", more="").replace('platform: "onnxruntime_onnx"', 'backend: "python"')
    source = python_model(tmp_path / "source", IMPORTING, config)
    given = ("adopt", source, "--name", "net", "--models", tmp_path)
    status, _, problem = fleet(*given)
    assert (status, "[python-import]" in problem, "--image-adds of `fleet adopt`" in problem) == (
        1,
        True,
        True,
    )
    status, said, _ = fleet(*given, "--image-adds", "cv2", "--image-adds", "torch")
    assert (status, "It needs an image with cv2, torch: name it in `image` in cdk.json." in said) == (0, True)
    assert load_build("net", tmp_path).custom_image_adds == ["cv2", "torch"]
    check_built(build("net", models=tmp_path, output=tmp_path / "out"))


@pytest.mark.parametrize("config", ['backend: "python"', ""], ids=["a backend alone", "an empty file"])
def test_a_completed_configuration_is_accepted_from_adoption_to_publication(
    config: str, tmp_path: Path, fleet: Cli
) -> None:
    models = tmp_path / "models"
    models.mkdir()
    (tmp_path / "cdk.json").write_text(SPACED)
    source = python_model(tmp_path / "source", COMPLETING, config)
    requests = recorded(tmp_path / "requests", -1.0)
    given = ("adopt", source, "--name", "net", "--requests", requests, "--models", models)
    status, _, problem = fleet(*given)
    assert (status, "[tensors-missing]" in problem) == (1, True)
    assert "TritonServer(auto_complete_config=True) and pass --auto-complete to `fleet adopt`" in problem
    status, said, _ = fleet(*given, "--auto-complete")
    assert (status, "MultiModelEndpoint(server=TritonServer(auto_complete_config=True))" in said) == (0, True)
    assert (tmp_path / "cdk.json").read_text() == SPACED  # its fleet completes nothing
    assert load_build("net", models).output == "Y"
    root = build("net", models=models, output=tmp_path / "out")
    check_built(root)
    strict = shutil.copytree(root, tmp_path / "strict")
    record = json.loads((root / "build.json").read_text())
    assert record.pop("auto_complete") is True
    (strict / "build.json").write_text(json.dumps(record))
    status, said, _ = fleet("verify", strict, root, "--models", models)
    assert (status, said.count("largest difference 0.0e+00 in Y"), said.count("[not-served]")) == (1, 1, 1)


def test_a_completed_configuration_without_inputs_gets_no_drawn_examples(tmp_path: Path, fleet: Cli) -> None:
    source = python_model(tmp_path / "source", COMPLETING, 'backend: "python"')
    given = ("adopt", source, "--name", "net", "--auto-complete", "--models", tmp_path)
    status, said, _ = fleet(*given)
    assert (status, "Next: name the output and write" in said) == (0, True)
    assert load_build("net", tmp_path).examples() == []
    assert verify(fleet, tmp_path, "net")[0] == 0
