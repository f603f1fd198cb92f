"""Malformed requests are refused with the right status, and the others are served."""

import json
import os
import random
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import urllib3

from tests.rehearsal.aws_for_hosting import moto_aws
from tests.rehearsal.served_models import FLOATS, onnx_model, python_model
from tests.rehearsal.test_hosting import Endpoint
from triton_models.client import encode
from triton_rehearsal.hosting.service import Hosting

LIMIT_S = 60.0
LONG = int(os.environ.get("FLEET_SCALE", "0")) > 0
BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="


@pytest.fixture(scope="module")
def endpoint():
    with moto_aws() as aws, Hosting(aws) as hosting:
        endpoint = Endpoint(aws, hosting)
        endpoint.upload("good.tar.gz", onnx_model(2.0))
        endpoint.upload("python.tar.gz", python_model())
        yield endpoint


@contextmanager
def others_served(endpoint):
    """Ask a model all the time. Every answer must be right."""
    ended, wrong = threading.Event(), []

    def ask():
        while not ended.is_set():
            answer = endpoint.ask("good.tar.gz")
            if answer != [2, 4, 6]:
                wrong.append(answer)

    endpoint.ask("good.tar.gz")
    other = threading.Thread(target=ask)
    other.start()
    try:
        yield
    finally:
        ended.set()
        other.join()
    assert wrong == []


TARGETS = ("good.tar.gz", "python.tar.gz")


def malformed(chance):
    """Return requests that are spoiled at random: target, content type, body and the answer's status."""

    def text(length=12):
        return "".join(chance.choices("abcxyz0189_-.", k=length))

    def noise():
        return chance.randbytes(chance.randrange(1, 400))

    def of_tensor(**changes):
        body = json.loads(FLOATS)
        body["inputs"][0].update(changes)
        return body

    target = chance.choice(TARGETS)
    for wrong in ("", f"{text()}.tar.gz", text(chance.randrange(1025, 9000))):
        yield wrong, "application/json", FLOATS, 400
    for body in (
        of_tensor(shape=[chance.randrange(2, 9), 3]),
        of_tensor(shape=[1, -chance.randrange(1, 99)]),
        of_tensor(datatype=chance.choice(["INT8", "BYTES", "FP99", ""])),
        of_tensor(data=[text(), None, {}]),
        of_tensor(name=text()),
        {**of_tensor(), "inputs": []},
        {**of_tensor(), "outputs": [{"name": text()}]},
    ):
        yield target, "application/json", json.dumps(body).encode(), 424
    for body in (FLOATS[: chance.randrange(1, len(FLOATS) - 1)], b"{" + noise()):
        yield target, "application/json", body, 424
    for size in (len(FLOATS) + chance.randrange(1, 1 << 40), chance.choice(["", "-1", "a", "1.5"])):
        yield target, f"{BINARY}{size}", FLOATS, 424
    right, kind = encode({"X": np.ones((1, 9), np.float32)}, outputs=None, content="binary")
    for body in (right[: -chance.randrange(1, 36)], right + noise()):
        yield target, kind, body, 424


def test_malformed_requests_are_refused_with_their_status_while_others_are_served(endpoint):
    chance = random.Random(1)  # noqa: S311  no secret
    url = f"{endpoint.hosting.url}/endpoints/{endpoint.name}/invocations"
    unexpected = []
    with others_served(endpoint):
        endpoint.ask("python.tar.gz")
        for _ in range(63 if LONG else 6):
            for target, kind, body, status in malformed(chance):
                headers = {"X-Amzn-SageMaker-Target-Model": target, "Content-Type": kind}
                answer = urllib3.request("POST", url, body=body, timeout=LIMIT_S, headers=headers)
                if answer.status != status or (status == 424 and answer.json()["OriginalStatusCode"] != 400):
                    unexpected.append((answer.status, answer.data, headers, body[:200]))
    assert unexpected == []
    assert endpoint.ask("python.tar.gz") == [1, 2, 3]


@pytest.mark.story
def test_other_models_survive_a_request_that_ends_the_process_of_a_python_model(endpoint):
    poisoned = endpoint.upload("poisoned.tar.gz", python_model())
    assert endpoint.ask(poisoned) == [1, 2, 3]
    tensor = {"name": "X", "shape": [1, 2**62 + 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}
    header = json.dumps({"inputs": [tensor]}).encode()
    with others_served(endpoint), pytest.raises(endpoint.runtime.exceptions.ModelError):
        endpoint.invoke(poisoned, header + bytes(8), ContentType=f"{BINARY}{len(header)}")
    assert endpoint.ask("python.tar.gz") == [1, 2, 3]
    assert endpoint.ask("good.tar.gz") == [2, 4, 6]
    with pytest.raises(endpoint.runtime.exceptions.ModelError, match="is not healthy"):
        endpoint.ask(poisoned)  # until it is unloaded
