"""Python models get and return complete tensors under NumPy 2, although the server was built for NumPy 1."""

import json
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.rehearsal.model_server import contract_of
from tests.rehearsal.served_models import config, python_model, write
from triton_models.client import decode, encode
from triton_rehearsal.triton.runtime import find_runtime

# Reports its input and returns it transposed, so that the output is not contiguous.
REVERSE = """
import json
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for r in requests:
            x = pb_utils.get_input_tensor_by_name(r, "X").as_numpy()
            facts = [np.__version__, list(x.shape), bool(x.flags.c_contiguous), bool(x.flags.writeable)]
            said = np.array([[json.dumps(facts)]], dtype=object)
            outputs = [pb_utils.Tensor("Y", x[:, ::-1]), pb_utils.Tensor("FACTS", said)]
            answers.append(pb_utils.InferenceResponse(outputs))
        return answers
"""

TENSORS = {
    "BOOL": np.array([[True, False]]),
    "UINT8": np.array([[1, 255]], dtype=np.uint8),
    "INT16": np.array([[-1, 2**15 - 1]], dtype=np.int16),
    "INT32": np.array([[-1, 2**31 - 1], [3, 4]], dtype=np.int32),
    "INT64": np.array([[-1, 2**63 - 1, 5]], dtype=np.int64),
    "FP16": np.array([[0.5, -2.0]], dtype=np.float16),
    "FP32": np.arange(100_000, dtype=np.float32).reshape(4, -1),
    "FP64": np.array([[1e300, -1e-300]]),
    "STRING": np.array([[b"", "é".encode()], [b"a" * 5000, b"\x00"]], dtype=object),
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The server's environment, with the NumPy of these tests instead of its own."""
    folder = tmp_path_factory.mktemp("numpy2")
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    server = find_runtime().server.parents[3]
    ours = Path(np.__file__).parents[1]
    for path in (*server.glob("*pytriton*"), *ours.glob("numpy*")):
        (packages / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def contract(environment, tmp_path_factory):
    with contract_of(tmp_path_factory.mktemp("numpy2-server"), triton=environment) as contract:
        yield contract


def load(contract, folder, datatype):
    files = python_model(REVERSE)
    outputs = {"Y": f"TYPE_{datatype}", "FACTS": "TYPE_STRING"}
    text = config(backend="python", inputs={"X": f"TYPE_{datatype}"}, outputs=outputs)
    write({**files, "identity/config.pbtxt": text.encode()}, folder)
    answer = contract.load(model_id=datatype, target_model=datatype, folder=str(folder))
    assert answer.ok, answer.text


def ask(contract, datatype, tensor):
    body, kind = encode({"X": tensor}, outputs=None, content="binary")
    headers = {"Content-Type": kind}
    answer = contract.invoke(model_id=datatype, target_model=datatype, body=body, headers=headers)
    assert answer.ok, answer.text
    return decode(answer.body, answer.headers["content-type"])


@pytest.mark.parametrize("datatype", TENSORS)
def test_a_tensor_of_every_data_type_passes_through_whole(contract, tmp_path, datatype):
    load(contract, tmp_path, datatype)
    tensor = TENSORS[datatype]
    answer = ask(contract, datatype, tensor)
    np.testing.assert_array_equal(answer["Y"], tensor[:, ::-1])
    version, shape, contiguous, writeable = json.loads(answer["FACTS"][0, 0])
    assert int(version.split(".")[0]) >= 2
    assert shape == list(tensor.shape)
    assert contiguous
    assert writeable


def test_many_requests_at_once_keep_their_tensors_apart(contract, tmp_path):
    load(contract, tmp_path, "INT8")

    def exchange(number):
        tensor = np.full((1, 1 + number % 50), number % 100, dtype=np.int8)
        return np.array_equal(ask(contract, "INT8", tensor)["Y"], tensor)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(exchange, range(300)))
