"""The real Python backend refuses what `fleet check` refuses in a model's parameters, in the same words."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.triton_models.model_folders import Edit, write
from tests.triton_models.plain_server import COMPILER, PlainServer
from triton_models.artifact.pbtxt import as_json, plain, read_config, tensor, write_config
from triton_models.check.backend_rules.python import environment_of, refusals
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler, for a backend without weights")

CODE = b"class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[PlainServer]:
    with PlainServer(tmp_path_factory.mktemp("python"), auto_complete=False) as server:
        yield server


def _model(server: PlainServer, parameters: dict[str, str]) -> str:
    name = f"m{next(numbers)}"
    inputs, outputs = [tensor("x", "FP32", [1])], [tensor("y", "FP32", [1])]
    directory = server.repository / name
    made = plain(
        name=name, backend="python", max_batch_size=0, inputs=inputs, outputs=outputs, kind="KIND_CPU"
    )
    write_config(made, directory / "config.pbtxt")
    write(directory / "1/model.py", CODE)
    with Edit(directory) as config:
        for key, value in parameters.items():
            config.parameters[key].string_value = value
    return name


@pytest.mark.parametrize(
    "parameters",
    [
        {"EXECUTION_ENV_PATH": "environment.tar.gz"},
        {"EXECUTION_ENV_PATH": "./environment"},
        {"EXECUTION_ENV_PATH": "$TRITON_MODEL_DIRECTORY/environment"},
        {"EXECUTION_ENV_PATH": "$$TRITON_MODEL_DIRECTORYenvironment"},
        {"EXECUTION_ENV_PATH": "/opt/no/environment"},
        {"FORCE_CPU_ONLY_INPUT_TENSORS": "Yes"},
    ],
    ids=str,
)
def test_what_is_refused_does_not_load(parameters, server):
    name = _model(server, parameters)
    loaded, message = server.load(name)
    directory = server.repository / name
    assert not loaded
    config = as_json(read_config(directory / "config.pbtxt"))
    path = environment_of(config, str(directory))
    words = [refusal.message for refusal in refusals(config) if "canonical" not in refusal.message]
    assert (words or [f"Failed to get the canonical path for {path}."])[0] in message
    # On a server of one's own, an absolute path may exist.
    assert check_path(directory, target=PLAIN) or parameters["EXECUTION_ENV_PATH"].startswith("/")


@pytest.mark.parametrize(
    "parameters",
    [{"EXECUTION_ENV_PATH": ""}, {"FORCE_CPU_ONLY_INPUT_TENSORS": "no"}, {"shm-default-byte-size": "many"}],
    ids=str,
)
def test_what_is_accepted_loads(parameters, server):
    name = _model(server, parameters)
    assert server.load(name) == (True, "")
    assert check_path(server.repository / name, target=PLAIN) == []
