"""Python models get and return complete tensors under NumPy 2, although the server was built for NumPy 1."""

import json
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.rehearsal.model_server import contract_of
from tests.rehearsal.served_models import python_model, write
from triton_models.client import decode, encode
from triton_rehearsal.triton.runtime import find_runtime

# Reports its inputs and returns them transposed, so that the outputs are not contiguous.
REVERSE = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse(list(self.answer(r))) for r in requests]

    def answer(self, request):
        facts = {{}}
        for kind in {kinds}:
            x = pb_utils.get_input_tensor_by_name(request, kind).as_numpy()
            facts[kind] = [list(x.shape), bool(x.flags.c_contiguous), bool(x.flags.writeable)]
            yield pb_utils.Tensor(kind + "_REVERSED", x[:, ::-1])
        yield pb_utils.Tensor("FACTS", np.array([json.dumps([np.__version__, facts])], dtype=object))
"""

TENSORS = {
    "BOOL": np.array([[True, False]]),
    "INT8": np.array([[-1, 127]], dtype=np.int8),
    "UINT8": np.array([[1, 255]], dtype=np.uint8),
    "INT16": np.array([[-1, 2**15 - 1]], dtype=np.int16),
    "INT32": np.array([[-1, 2**31 - 1], [3, 4]], dtype=np.int32),
    "INT64": np.array([[-1, 2**63 - 1, 5]], dtype=np.int64),
    "FP16": np.array([[0.5, -2.0]], dtype=np.float16),
    "FP32": np.arange(20_000, dtype=np.float32).reshape(4, -1),
    "FP64": np.array([[1e300, -1e-300]]),
    "STRING": np.array([[b"", "é".encode()], [b"a" * 5000, b"\x00"]], dtype=object),
}


@pytest.fixture
def environment(tmp_path):
    """The server's environment, with the NumPy of these tests instead of its own."""
    venv.create(tmp_path / "venv", symlinks=True)
    packages = next((tmp_path / "venv").glob("lib/python*/site-packages"))
    server = find_runtime().server.parents[3]
    ours = Path(np.__file__).parents[1]
    for path in (*server.glob("*pytriton*"), *ours.glob("numpy*")):
        (packages / path.name).symlink_to(path)
    return tmp_path / "venv"


def test_tensors_of_every_data_type_pass_through_whole_and_apart(environment, tmp_path):
    def tensors(kind, names):
        return f"{kind} [{', '.join(names)}]\n"

    inputs = [f'{{name: "{kind}" data_type: TYPE_{kind} dims: [-1, -1]}}' for kind in TENSORS]
    outputs = [each.replace('" data', '_REVERSED" data') for each in inputs]
    facts = '{name: "FACTS" data_type: TYPE_STRING dims: [1]}'
    config = f'backend: "python"\n{tensors("input", inputs)}{tensors("output", [*outputs, facts])}'
    files = python_model(REVERSE.format(kinds=list(TENSORS)))
    folder = write({**files, "identity/config.pbtxt": config.encode()}, tmp_path / "model")
    names = {"model_id": "m", "target_model": "m"}

    with contract_of(tmp_path, triton=environment) as contract:

        def ask(given):
            body, kind = encode(given, outputs=None, content="binary")
            answer = contract.invoke(body=body, headers={"Content-Type": kind}, **names)
            assert answer.ok, answer.text
            return decode(answer.body, answer.headers["content-type"])

        def exchange(number):
            of_number = {**TENSORS, "INT8": np.full((1, 1 + number % 50), number % 100, dtype=np.int8)}
            return np.array_equal(ask(of_number)["INT8_REVERSED"], of_number["INT8"])

        loaded = contract.load(folder=str(folder), **names)
        assert loaded.ok, loaded.text
        answer = ask(TENSORS)
        for kind, tensor in TENSORS.items():
            np.testing.assert_array_equal(answer[f"{kind}_REVERSED"], tensor[:, ::-1])
        version, found = json.loads(answer["FACTS"][0])
        assert int(version.split(".")[0]) >= 2
        assert found == {kind: [list(tensor.shape), True, True] for kind, tensor in TENSORS.items()}
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(exchange, range(100)))
