"""The models of this repository: what their builds hold, and what a real Triton server answers with them."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from buildable import buildable_names, every_model
from one_server import ask, serving
from shared_builds import BuiltModel

from triton_models.artifact.pbtxt import read_config
from triton_models.check.check import check_path
from triton_models.deliver.verify.verify import expected_answers
from triton_models.spec import load_build
from triton_rehearsal.triton.contract import MultiModelContract


@pytest.fixture(scope="module")
def all_built(built_model: BuiltModel) -> dict[str, Path]:
    """The artifact root of every model that can be built here."""
    return {name: built_model(name) for name in buildable_names()}


@pytest.fixture(scope="module")
def served(
    all_built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MultiModelContract]:
    """A real server that has loaded every model that can be built here."""
    folder = tmp_path_factory.mktemp("triton")
    for name, root in all_built.items():  # Python writes bytecode next to a model.py
        shutil.copytree(root, folder / "models" / name, copy_function=os.link)
    with serving(*(folder / "models" / name for name in all_built), folder=folder) as contract:
        yield contract


def infer(served: MultiModelContract, model: str, inputs, output: str) -> np.ndarray:
    return ask(served, model, inputs)[output]


@pytest.mark.parametrize("name", every_model())
def test_a_build_is_accepted_by_the_check(name, built_model):
    assert check_path(built_model(name)) == []


@pytest.mark.parametrize("name", every_model())
def test_the_server_answers_every_example_as_the_source_framework_does(name, served, built_model):
    build = load_build(name)
    expected = expected_answers(built_model(name), build)
    for example, source in expected.answers:
        answer = infer(served, name, example.inputs, build.output)
        assert answer.shape == source[build.output].shape, example.name
        np.testing.assert_allclose(
            answer, source[build.output], rtol=0, atol=expected.allowed, err_msg=example.name
        )


@pytest.mark.story
@pytest.mark.parametrize("name", every_model())
def test_different_inputs_get_answers_that_differ_by_far_more_than_the_tolerance(name):
    build = load_build(name)
    rows = [row for each in build.examples() for row in build.reference(each.inputs)[build.output]]
    closest = min(np.abs(one - other).max() for i, one in enumerate(rows) for other in rows[:i])
    assert closest > 100 * build.allowed()


def test_another_process_without_a_network_builds_the_same_bytes(all_built, wheels, tmp_path):
    code = (
        "import socket, sys\n"
        "def refuse(*_, **__): raise AssertionError('the build used the network')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from triton_models.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    only_index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_CONFIG_FILE": os.devnull}
    run = subprocess.run(
        [sys.executable, "-c", code, "build", *buildable_names(), "-o", str(tmp_path), "--json"],
        env={**environment, **only_index, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert len(json.loads(run.stdout)["built"]) == len(buildable_names())
    said = {line.partition(": ")[0] for line in run.stderr.splitlines()}
    assert said - {"note", "warning"} == {*buildable_names()}, run.stderr
    assert {path.name for path in tmp_path.iterdir()} == all_built.keys()
    for name, root in all_built.items():
        files = {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
        built = tmp_path / name
        assert files == {path.relative_to(built) for path in built.rglob("*") if path.is_file()}
        assert [each for each in files if (root / each).read_bytes() != (built / each).read_bytes()] == []


def test_the_encoders_plan_takes_every_shape_that_the_tokenizer_can_make(built_model):
    models = {model.name: model for model in load_build("minilm").models}
    (tokens,) = models["minilm_encoder"].inputs[0].dims
    parameters = read_config(built_model("minilm") / "minilm_tokenizer/config.pbtxt").parameters
    padding, limit = (int(parameters[name].string_value) for name in ("padding", "max_tokens"))
    assert (tokens.min, tokens.max) == (padding, limit)
    assert limit % padding == 0


def test_texts_beyond_the_limit_are_cut_where_sentence_transformers_cuts_them(served):
    build = load_build("minilm")
    words = ["river", "stone", "cloud", "paper", "green"] * 80  # one token each, and two more for the frame
    for count in (253, 254, 255, 400):
        inputs = {"TEXT": np.array([[" ".join(words[:count]).encode()]], dtype=np.object_)}
        expected = build.reference(inputs)["EMBEDDING"]
        np.testing.assert_allclose(infer(served, "minilm", inputs, "EMBEDDING"), expected, rtol=0, atol=1e-4)


def test_a_full_batch_of_texts_is_answered_in_order(served):
    texts = [[f"text number {number} {'and more ' * number}".encode()] for number in range(32)]
    together = infer(served, "minilm", {"TEXT": np.array(texts, dtype=np.object_)}, "EMBEDDING")
    for number in (0, 15, 31):
        alone = infer(served, "minilm", {"TEXT": np.array([texts[number]], dtype=np.object_)}, "EMBEDDING")
        np.testing.assert_allclose(together[number], alone[0], rtol=0, atol=1e-5)


def test_a_text_that_is_not_utf8_is_the_callers_error_and_harms_nobody_else(served):
    inputs = {"TEXT": np.array([[b"\xff\xfe"]], dtype=np.object_)}
    with pytest.raises(AssertionError, match="TEXT is not UTF-8"):
        infer(served, "minilm", inputs, "EMBEDDING")
    inputs = {"TEXT": np.array([[b"fine"]], dtype=np.object_)}
    assert infer(served, "minilm", inputs, "EMBEDDING").shape == (1, 384)


def test_resnet50_has_the_parameters_of_torchvisions():
    network = load_build("resnet50").models[0].network()
    state = network.state_dict()
    assert len(state) == 320
    assert sum(parameter.numel() for parameter in network.parameters()) == 25_557_032
    assert state["layer3.5.conv2.weight"].shape == (256, 256, 3, 3)
    assert state["layer2.0.downsample.1.running_mean"].shape == (512,)
