"""Malformed requests and hostile artifacts are refused with the right status, and the others are served."""

import json
import os
import random
import socket
import threading
from contextlib import contextmanager

import numpy as np
import pytest

from tests.rehearsal.aws_for_hosting import moto_aws
from tests.rehearsal.served_models import FLOATS, onnx_model, python_model
from tests.rehearsal.test_hosting import Endpoint
from tests.triton_models.hostile_archives import ONE_PER_RULE
from triton_models.client import encode
from triton_rehearsal.hosting.service import Hosting

LIMIT_S = 20.0
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


class Raw:
    """A request of bytes, and a random way to spoil it."""

    def __init__(self, endpoint, chance):
        self.endpoint, self.chance = endpoint, chance
        self.method, self.path = "POST", f"/endpoints/{endpoint.name}/invocations"
        self.headers = {
            "Host": endpoint.hosting.url.removeprefix("http://"),
            "X-Amzn-SageMaker-Target-Model": chance.choice(["good.tar.gz", "python.tar.gz"]),
            "Content-Type": "application/json",
        }
        self.body = FLOATS

    def text(self, length=12):
        return "".join(self.chance.choices("abcxyz0189_-.", k=length))

    def noise(self):
        return self.chance.randbytes(self.chance.randrange(1, 400))

    def status(self):
        """Send it, and return the status of the answer, and of the model's own if it is a model error."""
        headers = {"Content-Length": str(len(self.body)), **self.headers, "Connection": "close"}
        lines = [f"{self.method} {self.path} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
        host, _, port = self.endpoint.hosting.url.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + self.body)
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        status, body = int(answer.split(maxsplit=2)[1]), answer.partition(b"\r\n\r\n")[2]
        return status, json.loads(body).get("OriginalStatusCode") if status == 424 else None

    def of_json(self, change):
        body = json.loads(FLOATS)
        change(body)
        self.body = json.dumps(body).encode()

    def of_binary(self, size, body):
        self.headers["Content-Type"] = f"{BINARY}{size}"
        self.body = body


def header(name, value):
    return lambda raw: raw.headers.update({name: value(raw)})


def path(of):
    return lambda raw: setattr(raw, "path", of(raw))


def method(of):
    return lambda raw: setattr(raw, "method", of(raw))


def body(of):
    return lambda raw: setattr(raw, "body", of(raw))


def tensor(**of):
    """Change fields of the request's only input."""
    return lambda raw: raw.of_json(
        lambda body: body["inputs"][0].update({name: value(raw) for name, value in of.items()})
    )


def binary(change):
    """Send a binary request with another end."""

    def spoil(raw):
        raw.body, raw.headers["Content-Type"] = encode(
            {"X": np.ones((1, 9), np.float32)}, outputs=None, content="binary"
        )
        raw.body = change(raw)

    return spoil


TARGET = "X-Amzn-SageMaker-Target-Model"
MALFORMED = {
    "no target": (lambda raw: raw.headers.pop(TARGET), 400),
    "absent target": (header(TARGET, lambda raw: f"{raw.text()}.tar.gz"), 400),
    "long target": (header(TARGET, lambda raw: raw.text(raw.chance.randrange(1025, 9000))), 400),
    "absent endpoint": (path(lambda raw: f"/endpoints/{raw.text()}/invocations"), 400),
    "length": (header("Content-Length", lambda raw: raw.chance.choice(["-1", "1e3", "0x10", ""])), 400),
    "chunks": (header("Transfer-Encoding", lambda _: "chunked"), 400),
    "page": (header("Origin", lambda raw: f"https://{raw.text()}.example"), 403),
    "path": (path(lambda raw: f"/{raw.text()}"), 404),
    "method": (method(lambda raw: raw.chance.choice(["PATCH", "TRACE", "OPTIONS"])), 501),
    "cut JSON": (body(lambda raw: FLOATS[: raw.chance.randrange(1, len(FLOATS) - 1)]), 424),
    "noise": (body(lambda raw: b"{" + raw.noise()), 424),
    "shape": (tensor(shape=lambda raw: [raw.chance.randrange(2, 9), 3]), 424),
    "negative shape": (tensor(shape=lambda raw: [1, -raw.chance.randrange(1, 99)]), 424),
    "type": (tensor(datatype=lambda raw: raw.chance.choice(["INT8", "BYTES", "FP99", ""])), 424),
    "data": (tensor(data=lambda raw: [raw.text(), None, {}]), 424),
    "another input": (tensor(name=lambda raw: raw.text()), 424),
    "no input": (lambda raw: raw.of_json(lambda body: body.update(inputs=[])), 424),
    "another output": (
        lambda raw: raw.of_json(lambda body: body.update(outputs=[{"name": raw.text()}])),
        424,
    ),
    "long binary header": (
        lambda raw: raw.of_binary(len(FLOATS) + raw.chance.randrange(1, 1 << 40), FLOATS),
        424,
    ),
    "binary header of noise": (
        lambda raw: raw.of_binary(raw.chance.choice(["", "-1", "a", "1.5"]), FLOATS),
        424,
    ),
    "short binary": (binary(lambda raw: raw.body[: -raw.chance.randrange(1, 36)]), 424),
    "long binary": (binary(lambda raw: raw.body + raw.noise()), 424),
}


def test_malformed_requests_are_refused_with_their_status_while_others_are_served(endpoint):
    chance = random.Random(1)  # noqa: S311  no secret
    unexpected = []
    with others_served(endpoint):
        endpoint.ask("python.tar.gz")
        for _ in range(1_000 if LONG else 100):
            name, (spoil, status) = chance.choice(list(MALFORMED.items()))
            raw = Raw(endpoint, chance)
            spoil(raw)
            if (found := raw.status()) != (status, 400 if status == 424 else None):
                unexpected.append((name, found, raw.headers, raw.body[:200]))
    assert unexpected == []
    assert endpoint.ask("python.tar.gz") == [1, 2, 3]


@pytest.mark.story
def test_hostile_archives_are_refused_while_others_are_served(endpoint):
    accepted = []
    with others_served(endpoint):
        for number, hostile in enumerate(ONE_PER_RULE):
            target = endpoint.upload(f"hostile-{number}.tar.gz", hostile.content)
            with pytest.raises(endpoint.runtime.exceptions.ValidationError, match=hostile.rule):
                accepted.append((str(hostile), endpoint.invoke(target)))
    assert accepted == []


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
