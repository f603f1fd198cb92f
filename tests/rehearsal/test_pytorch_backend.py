"""The stand-in for the pytorch backend serves and refuses the same models as the real one."""

from __future__ import annotations

import io
import json

import pytest
import torch

from tests.models.script_cases import FAILED, REFUSED, SERVED, TakesDictionary, TakesStrings, script
from tests.rehearsal.model_server import ModelServer, contract_of
from tests.rehearsal.served_models import config

pytestmark = pytest.mark.story

CPU = "instance_group [{count: 1 kind: KIND_CPU}]"


class Weighted(torch.nn.Module):
    """A network with two inputs that are not interchangeable, and two outputs."""

    def forward(self, large, small):
        return large * 10 + small, torch.full_like(large, float(large.shape[0]))


@pytest.fixture(scope="module")
def weighted() -> bytes:
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(Weighted()), buffer)
    return buffer.getvalue()


class Server(ModelServer):
    """A server of TorchScript networks."""

    def load(self, content, *, names=("large", "small"), outputs=("A__0", "B__1"), extra=CPU, **given):
        file = given.pop("file", "model.pt")
        kind = given.pop("kind", "TYPE_FP32")
        text = config(
            backend=given.pop("backend", "pytorch"),
            inputs=dict.fromkeys(names, "TYPE_FP32"),
            outputs=dict.fromkeys(outputs, kind),
            extra=extra,
        )
        return super().load({"net/config.pbtxt": text.encode(), f"net/1/{file}": content})

    def load_text(self, text, content):
        return super().load({"net/config.pbtxt": text.encode(), "net/1/model.pt": content})

    def invoke(self, name, tensors):
        inputs = [
            {"name": each, "shape": [len(rows), 1], "datatype": "FP32", "data": rows}
            for each, rows in tensors.items()
        ]
        return self.post(name, json.dumps({"inputs": inputs}).encode())

    def ask(self, name, tensors):
        answer = self.invoke(name, tensors)
        assert answer.ok, answer.text
        return {each["name"]: each["data"] for each in json.loads(answer.body)["outputs"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pytorch")
    with contract_of(folder) as contract:
        yield Server(contract, folder)


@pytest.mark.parametrize(
    ("names", "outputs"),
    [
        # The names are those of forward()'s arguments, so the configuration's order is ignored.
        ({"small": [2.0], "large": [1.0]}, ("A__0", "B__1")),
        # The numbers in the names give the order.
        ({"X__1": [2.0], "X__0": [1.0]}, ("B__1", "A__0")),
        # Only the configuration's order is known.
        ({"FIRST": [1.0], "SECOND": [2.0]}, ("A__0", "B__1")),
    ],
)
def test_tensors_are_reported_apart_as_the_backends_readme_says(names, outputs, server, weighted):
    name = server.serve(weighted, names=tuple(names), outputs=outputs)
    assert server.ask(name, names) == {"A__0": [12.0], "B__1": [1.0]}


def test_platform_file_name_and_threads_are_taken_from_the_configuration(server, weighted):
    threads = 'parameters {key: "INTRA_OP_THREAD_COUNT" value {string_value: "2"}}'
    extra = f'default_model_filename: "net.pt"\n{threads}\n{CPU}'
    name = server.serve(weighted, backend='platform: "pytorch_libtorch"', file="net.pt", extra=extra)
    assert server.ask(name, {"large": [1.0], "small": [2.0]})["A__0"] == [12.0]


@pytest.mark.parametrize(
    ("content", "given", "said"),
    [(b"", {"file": "other.pt"}, "unable to find"), (b"no archive", {}, "failed to load model")],
)
def test_a_file_that_is_not_there_or_no_torchscript_does_not_load(content, given, said, server):
    _, answer = server.load(content, **given)
    assert not answer.ok
    assert said in answer.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "TYPE_FP64"}, "configuration expects datatype TYPE_FP64 for output 'A__0'"),
        (
            {"outputs": ("A__0", "B__1", "C__2")},
            "refers to an output index which doesn't exist. This model has 2",
        ),
    ],
)
def test_an_output_that_the_network_has_not_is_an_error_of_the_request(given, said, server, weighted):
    name = server.serve(weighted, **given)
    answer = server.invoke(name, {"large": [1.0], "small": [2.0]})
    assert not answer.ok
    assert said in answer.text


def _given(server, case):
    return server.load_text(case.config(CPU), script(case.network))


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_the_backend_does_not_load_is_refused_in_its_words(case, server):
    _, answer = _given(server, case)
    assert not answer.ok
    assert case.refused.partition(" for model")[0] in answer.text  # SageMaker renames the model


def _ones(case):
    tensors = []
    for each in case.inputs:
        kind, data = ("BYTES", ["a"]) if "STRING" in each else ("FP32", [1.0] * 4)
        name, shape = each.partition(":")[0], [1, len(data)]
        tensors.append({"name": name, "shape": shape, "datatype": kind, "data": data})
    return json.dumps({"inputs": tensors}).encode()


@pytest.mark.parametrize("case", FAILED, ids=str)
def test_what_fails_every_request_loads_and_fails_in_the_backends_words(case, server):
    name, answer = _given(server, case)
    assert answer.ok, answer.text
    answer = server.post(name, _ones(case))
    assert not answer.ok
    assert case.failed in answer.text


def test_dictionaries_and_strings_are_served(server):
    [dictionary] = [case for case in SERVED if case.network is TakesDictionary]
    name, answer = _given(server, dictionary)
    assert answer.ok, answer.text
    [output] = json.loads(server.post(name, _ones(dictionary)).body)["outputs"]
    assert output["data"] == [11.0] * 4
    strings = next(case for case in SERVED if case.network is TakesStrings)
    name, answer = _given(server, strings)
    assert answer.ok, answer.text
    [output] = json.loads(server.post(name, _ones(strings)).body)["outputs"]
    assert output["data"] == ["a!"]
