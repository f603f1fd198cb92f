"""T5 in the Python backend: what a real Triton server answers, against transformers' generate()."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from one_server import serving
from shared_builds import BuiltModel
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput, InferResult

from triton_models.base.errors import FleetError
from triton_models.builds.export.weights import described
from triton_models.builds.job import Job
from triton_models.facts.releases import release
from triton_models.spec import ModelDefinition, load_build
from triton_rehearsal.triton.contract import Answer, MultiModelContract

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
BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="


@pytest.fixture(scope="module")
def declaration() -> ModelDefinition:
    return load_build(NAME)


@pytest.fixture(scope="module")
def code(declaration: ModelDefinition) -> ModuleType:
    """The module of the declaration."""
    return sys.modules[declaration.examples.__module__]


@pytest.fixture(scope="module")
def served(built_model: BuiltModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MultiModelContract]:
    folder = tmp_path_factory.mktemp("triton")
    shutil.copytree(built_model(NAME), folder / NAME)
    with serving(folder / NAME, folder=folder) as contract:
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
def test_a_bad_request_is_reported_why_and_the_next_is_answered(ids, mask, complaint, code, served):
    bad = {"input_ids": np.array(ids, dtype=np.int32), "attention_mask": np.array(mask, dtype=np.int32)}
    assert complaint in ask(served, bad).text
    assert ask(served, code.request(["Das Haus"])).ok


@pytest.mark.parametrize("name", ["23.12", "24.01"])
def test_a_gpu_build_for_an_image_without_cudnn_9_is_refused(name, code, tmp_path):
    compiler = SimpleNamespace(gpu=object())
    with pytest.raises(FleetError, match="need cuDNN 9"):
        code.wheels(Job(root=tmp_path, release=release(name), source=tmp_path, compiler=compiler))


@pytest.mark.story
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
