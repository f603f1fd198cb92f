"""T5 in the Python backend: what a real Triton server answers, against transformers' generate()."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput, InferResult

from rehearsal.triton.contract import Answer, MultiModelContract
from rehearsal.triton.runtime import ENVIRONMENT
from rehearsal.triton.server import TritonServer
from triton_models.check import check_path
from triton_models.config import read_config, write_config
from triton_models.errors import FleetError
from triton_models.export.weights import described
from triton_models.job import BuildJob
from triton_models.releases import release
from triton_models.slim_environment import add_environment, make_environment
from triton_models.spec import HubWeights, ModelBuild, load_build

NAME = "t5_translation"
END = 1
# Equally many tokens, so that the server may join them in one batch.
SENTENCES = [
    f"translate English to German: {text}"
    for text in (
        "The old house is small",
        "The small house is old",
        "is The house small old",
        "house old small is The",
    )
]
ENDPOINT = {
    "SAGEMAKER_MULTI_MODEL": "true",
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
    "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
}
BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="


@pytest.fixture(scope="module")
def declaration() -> ModelBuild:
    return load_build(NAME)


@pytest.fixture(scope="module")
def code(declaration: ModelBuild) -> ModuleType:
    """The module of the declaration."""
    return sys.modules[declaration.examples.__module__]


@pytest.fixture(scope="module")
def served(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MultiModelContract]:
    folder = tmp_path_factory.mktemp("triton")
    shutil.copytree(built / NAME, folder / NAME)
    with TritonServer(ENDPOINT, folder / "server") as server, MultiModelContract(server.url) as contract:
        answer = contract.load(model_id=NAME, target_model=NAME, folder=str(folder / NAME))
        assert answer.ok, f"{answer.text}\n{server.log_tail()}"
        yield contract


def ask(served: MultiModelContract, inputs: dict[str, Any]) -> Answer:
    sent = [
        InferInput(name, list(tensor.shape), "INT32").set_data_from_numpy(tensor)
        for name, tensor in inputs.items()
    ]
    body, size = InferenceServerClient.generate_request_body(sent, outputs=[InferRequestedOutput("output")])
    return served.invoke(
        model_id=NAME, target_model=NAME, body=body, headers={"Content-Type": f"{BINARY}{size}"}
    )


def output(answer: Answer) -> np.ndarray[Any, Any]:
    assert answer.ok, answer.text
    header = int(answer.headers["content-type"].removeprefix(BINARY))
    result = InferResult.from_response_body(answer.body, header_length=header).as_numpy("output")
    assert result is not None
    return result


def test_examples_differ_in_what_is_written_and_in_where_it_ends(declaration):
    answers = [row for each in declaration.examples() for row in declaration.reference(each.inputs)["output"]]
    assert len({str(row.tolist()) for row in answers}) == len(answers)
    ends = {row.tolist().index(END) if END in row else None for row in answers}
    assert len(ends) > 2
    assert None in ends


def test_a_request_is_answered_up_to_the_end_of_its_longest_row(declaration, code, served):
    inputs = code.request(["translate English to German: The house is small."])
    (answer,) = output(ask(served, inputs))
    np.testing.assert_array_equal([answer], declaration.reference(inputs)["output"])
    assert answer[-1] == END
    assert len(answer) < code.MAX_NEW_TOKENS


def test_requests_that_come_at_once_are_answered_as_if_each_came_alone(declaration, code, served):
    requests = {text: code.request([text]) for text in SENTENCES}
    alone = {text: declaration.reference(inputs)["output"] for text, inputs in requests.items()}
    assert len({inputs["input_ids"].shape for inputs in requests.values()}) == 1
    assert len({str(answer) for answer in alone.values()}) > 2
    texts = SENTENCES * 8
    with ThreadPoolExecutor(len(texts)) as callers:
        answers = list(callers.map(lambda text: output(ask(served, requests[text])), texts))
    for text, answer in zip(texts, answers, strict=True):
        np.testing.assert_array_equal(answer, alone[text])


def test_what_the_mask_hides_has_no_effect(code, served):
    inputs = code.request(["translate English to German: The house is small."])
    hidden = {name: np.pad(tensor, ((0, 0), (0, 9))) for name, tensor in inputs.items()}
    hidden["input_ids"][0, -9:] = 7
    np.testing.assert_array_equal(output(ask(served, hidden)), output(ask(served, inputs)))


@pytest.mark.parametrize(
    ("ids", "mask", "complaint"),
    [
        ([[4, 86]], [[1, 1]], "tokens are 0 to 85"),
        ([[4, -1]], [[1, 1]], "goes from -1 to 4"),
        ([[4] * 513], [[1] * 513], "has 513 tokens: it can have 1 to 512"),
        ([[4, 5]], [[1]], "they must be equal"),
    ],
)
def test_a_bad_request_is_told_why_and_the_next_is_answered(ids, mask, complaint, code, served):
    bad = {"input_ids": np.array(ids, dtype=np.int32), "attention_mask": np.array(mask, dtype=np.int32)}
    assert complaint in ask(served, bad).text
    assert ask(served, code.request(["Das Haus"])).ok


def test_unloading_frees_the_memory_that_loading_took(built, tmp_path):
    shutil.copytree(built / NAME, tmp_path / NAME)
    regions = lambda: {path.name for path in Path("/dev/shm").iterdir()}  # noqa: E731, S108
    with (
        TritonServer(ENDPOINT, tmp_path / "server") as server,
        MultiModelContract(server.url) as contract,
    ):
        ours = lambda: {name for name in regions() if name.startswith(server.mark)}  # noqa: E731
        before = ours()
        assert contract.load(model_id=NAME, target_model=NAME, folder=str(tmp_path / NAME)).ok
        assert len(ours()) > len(before)
        assert contract.unload(model_id=NAME, target_model=NAME).ok
        assert ours() == before


def test_the_portable_build_brings_no_environment(built):
    config = read_config(built / NAME / NAME / "config.pbtxt")
    assert "EXECUTION_ENV_PATH" not in config.parameters
    assert {path.name for path in (built / NAME / NAME).iterdir()} == {"1", "config.pbtxt"}


@pytest.mark.parametrize(
    ("name", "wheels"),
    [
        ("24.09", ["numpy==1.26.4", "onnxruntime==1.23.2"]),
        ("25.04", ["numpy==2.2.6", "onnxruntime==1.23.2"]),
        ("25.09", ["numpy==2.2.6", "onnxruntime==1.31.1"]),
    ],
)
def test_the_wheels_fit_the_releases_python_and_cuda(name, wheels, code, tmp_path):
    job = BuildJob(root=tmp_path, release=release(name), source=tmp_path, cpu=True)
    assert code.wheels(job) == wheels


def test_t5_small_is_named_by_a_commit_as_the_folders_own_page_says(code, monkeypatch):
    (address,) = (line.strip() for line in code.__doc__.splitlines() if "hf://" in line)
    monkeypatch.setenv("T5_WEIGHTS", address)
    weights = load_build(NAME).weights
    assert isinstance(weights, HubWeights)
    assert described(weights) == "google-t5/t5-small@df1b051c49625cf57a3d0d8d3863ed4d13564fe4"


def test_weights_in_a_folder_are_served_with_their_tokenizer(declaration, code, tmp_path, monkeypatch):
    code.source().save_pretrained(tmp_path / "t5")
    code.tokenizer().save_pretrained(tmp_path / "t5")
    monkeypatch.setenv("T5_WEIGHTS", str(tmp_path / "t5"))
    saved = load_build(NAME)
    assert described(saved.weights).startswith("sha256:")
    ours, theirs = declaration.examples()[0].inputs, saved.examples()[0].inputs
    np.testing.assert_array_equal(theirs["input_ids"], ours["input_ids"])
    expected = declaration.reference(ours)["output"]  # a trained T5 may write more than the small one
    np.testing.assert_array_equal(saved.reference(theirs)["output"][:, : expected.shape[1]], expected)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only index that pip has."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def put_wheel(shelf: Path, name: str, tag: str, files: dict[str, str]) -> None:
    info = f"{name}-1.0.dist-info"
    described = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    everything = {**files, **described}
    with zipfile.ZipFile(shelf / f"{name}-1.0-{tag}.whl", "w") as wheel:
        for path, text in everything.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in (*everything, f"{info}/RECORD")))


def test_wheels_are_those_of_the_releases_python(shelf, tmp_path):
    for python in ("311", "312"):
        tag = f"cp{python}-cp{python}-manylinux_2_28_x86_64"
        put_wheel(shelf, "greeting", tag, {"greeting.py": f"FOR = {python}\n"})
    make_environment(tmp_path / "environment", wheels=["greeting==1.0"], python="3.12")
    packages = tmp_path / "environment/lib/python3.12/site-packages"
    assert (packages / "greeting.py").read_text() == "FOR = 312\n"
    names = {path.name for path in (tmp_path / "environment").rglob("*")}
    assert not names & {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json", "__pycache__"}
    assert "home = /usr/bin\n" in (tmp_path / "environment/pyvenv.cfg").read_text()


def test_a_wheel_for_another_platform_is_refused_with_pips_words(shelf, tmp_path):
    put_wheel(shelf, "greeting", "cp312-cp312-macosx_11_0_arm64", {"greeting.py": ""})
    with pytest.raises(FleetError) as caught:
        make_environment(tmp_path / "environment", wheels=["greeting==1.0"], python="3.12")
    (problem,) = caught.value.problems
    assert problem.rule == "environment-wheels"
    assert "No matching distribution found for greeting==1.0" in problem.what


def test_the_server_runs_a_model_in_its_environment_and_the_check_accepts_it(built, shelf, tmp_path):
    """The wheel says where onnxruntime and NumPy are, as links: real wheels need a network."""
    python = f"3.{sys.version_info.minor}"
    home, packages = triton_python()
    put_wheel(shelf, "borrowed", "py3-none-any", {"borrowed.pth": packages, "onnxruntime.py": SPY})
    shutil.copytree(built / NAME, tmp_path / NAME)
    model = tmp_path / NAME / NAME
    make_environment(model / "environment", wheels=["borrowed==1.0"], python=python, home=home)
    (model / "environment/bin/python3").chmod(0o644)  # as an artifact unpacks
    name_environment(model)
    assert check_path(tmp_path / NAME) == []
    with (
        TritonServer(ENDPOINT, tmp_path / "server") as server,
        MultiModelContract(server.url) as contract,
    ):
        answer = contract.load(model_id=NAME, target_model=NAME, folder=str(tmp_path / NAME))
    assert "imported from the environment" in answer.text


SPY = "raise ImportError('imported from the environment')\n"


def triton_python() -> tuple[str, str]:
    """Where the Triton server's interpreter is, and its packages."""
    code = "import sys, sysconfig; print(sys.base_prefix); print(sysconfig.get_path('purelib'))"
    command = [str(ENVIRONMENT / "bin" / "python"), "-I", "-c", code]
    prefix, packages = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return f"{prefix}/bin", f"{packages}\n"


def name_environment(model: Path) -> None:
    config = read_config(model / "config.pbtxt")
    config.parameters["EXECUTION_ENV_PATH"].string_value = "$$TRITON_MODEL_DIRECTORY/environment"
    write_config(config, model / "config.pbtxt")


def test_a_build_for_a_release_names_the_environment_and_its_wheels(shelf, built, tmp_path):
    put_wheel(shelf, "greeting", "py3-none-any", {"greeting.py": ""})
    shutil.copytree(built / NAME / NAME, tmp_path / NAME)
    job = BuildJob(root=tmp_path, release=release("25.09"), source=tmp_path, cpu=True)
    add_environment(job, tmp_path / NAME, wheels=["greeting==1.0"])
    parameters = read_config(tmp_path / NAME / "config.pbtxt").parameters
    assert parameters["EXECUTION_ENV_PATH"].string_value == "$$TRITON_MODEL_DIRECTORY/environment"
    assert (tmp_path / NAME / "environment/lib/python3.12/site-packages/greeting.py").is_file()
    assert job.sources == {"wheel:greeting": "1.0"}
