"""The client finds a model by its name, waits for it, and passes tensors in and out."""

import json
import threading
import time

import boto3
import numpy as np
import pytest

from tests.rehearsal.aws_for_hosting import moto_aws
from tests.triton_models.own_clock import OwnClock
from triton_models.artifact.layout import digest_of_artifact
from triton_models.base.errors import FleetError
from triton_models.client import BINARY_TYPE, Client, InvocationError
from triton_models.client.alias import alias_name
from triton_models.facts.limits import PAYLOAD_LIMIT
from triton_rehearsal.hosting.runtime_api import ApiError, Gateway, Reply


@pytest.fixture(scope="module")
def aws():
    with moto_aws() as aws:
        yield aws


@pytest.fixture(scope="module")
def session():
    """One session for all: it reads the API models once."""
    return boto3.Session()


class Runtime:
    """A SageMaker runtime with the given answers, in order."""

    def __init__(self):
        self.requests = []
        self.answers = []
        self.gateway = Gateway(self.answer)
        self.gateway.start()

    async def answer(self, request):
        self.requests.append((request.endpoint, request.headers, request.body))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def tensors(**arrays):
    """A response of the server with these outputs, in JSON."""
    outputs = [
        {"name": name, "datatype": "FP32", "shape": list(array.shape), "data": array.ravel().tolist()}
        for name, array in arrays.items()
    ]
    return Reply(
        status=200,
        body=json.dumps({"model_name": "m", "outputs": outputs}).encode(),
        headers={"Content-Type": "application/json"},
    )


@pytest.fixture
def runtime():
    runtime = Runtime()
    yield runtime
    runtime.gateway.close()


@pytest.fixture
def repository(aws):
    bucket = aws.bucket()
    write_manifest(aws, bucket, minilm="minilm-0123456789abcdef.tar.gz")
    return bucket


def write_manifest(aws, bucket, build=None, **models):
    records = {
        name: {
            "current": {"any": artifact},
            "history": [],
            "artifacts": {artifact: recorded(artifact, **build or {})},
        }
        for name, artifact in models.items()
    }
    document = {"version": 2, "models": records}
    aws.upload(bucket, "models/manifest.json", json.dumps(document).encode())


def recorded(artifact, **build):
    sha256 = digest_of_artifact(artifact).ljust(64, "0")
    return {"size": 1, "sha256": sha256, "build": build, "plans": [], "portable": False}


@pytest.fixture
def configured(aws, runtime, monkeypatch):
    """An environment in which every SDK reaches the small AWS and the runtime."""
    address = f"http://localhost:{runtime.gateway.port}"
    for name, value in aws.exports(runtime=address).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def clock():
    return OwnClock()


@pytest.fixture
def client(configured, session, repository, clock):
    return Client(
        endpoint_name="fleet", repository=f"s3://{repository}/models/", session=session, clock=clock
    )


def eventually(condition):
    """Return when something that happens in the background is done."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        threading.Event().wait(0.01)


OLD, NEW = "minilm-3333333333333333.tar.gz", "minilm-4444444444444444.tar.gz"
ROW = {"X": np.array([[1.0, 2.0]], dtype=np.float32)}


def test_a_name_becomes_the_artifact_that_the_manifest_names(client, runtime):
    runtime.answers = [tensors(Y=np.array([[3.0]], dtype=np.float32))]
    answer = client.infer(model="minilm", inputs=ROW)
    np.testing.assert_array_equal(answer["Y"], np.array([[3.0]], dtype=np.float32))
    endpoint, headers, _ = runtime.requests[0]
    assert endpoint == "fleet"
    assert headers["x-amzn-sagemaker-target-model"] == "minilm-0123456789abcdef.tar.gz"
    assert headers["content-type"].startswith(BINARY_TYPE)


@pytest.mark.parametrize("asked", [{"model": "minilm"}, {"target_model": "minilm-1.tar.gz"}])
def test_parameters_of_a_request_reach_the_server(asked, client, runtime):
    runtime.answers = [tensors(Y=np.array([[3.0]], dtype=np.float32))]
    ask = client.infer if "model" in asked else client.invoke_target
    ask(**asked, inputs=ROW, content="json", parameters={"priority": 1})
    _, _, body = runtime.requests[0]
    assert json.loads(body)["parameters"] == {"priority": 1}


def test_an_unknown_name_is_an_error_that_suggests_a_close_one(client, runtime):
    with pytest.raises(FleetError, match="unknown model 'minilmm'") as error:
        client.infer(model="minilmm", inputs=ROW)
    assert "did you mean minilm?" in str(error.value)
    assert runtime.requests == []


def test_a_new_name_is_found_at_once_and_a_moved_one_when_the_manifest_is_read_again(client, aws, repository):
    assert client.target_model("minilm") == "minilm-0123456789abcdef.tar.gz"
    write_manifest(
        aws, repository, minilm="minilm-1111111111111111.tar.gz", other="other-2222222222222222.tar.gz"
    )
    assert client.target_model("minilm") == "minilm-0123456789abcdef.tar.gz"
    assert client.target_model("other") == "other-2222222222222222.tar.gz"
    assert client.target_model("minilm") == "minilm-1111111111111111.tar.gz"


def test_a_manifest_that_has_not_changed_is_not_sent_again(client, aws, repository):
    answers = []
    client._names._store.s3.meta.events.register(
        "after-call.s3.GetObject", lambda http_response, **_: answers.append(http_response.status_code)
    )
    client.target_model("minilm")
    with pytest.raises(FleetError, match="unknown-model"):
        client.target_model("other")
    write_manifest(aws, repository, minilm="minilm-1111111111111111.tar.gz")
    with pytest.raises(FleetError, match="unknown-model"):
        client.target_model("another")
    assert client.target_model("minilm") == "minilm-1111111111111111.tar.gz"
    assert answers == [200, 304, 200]


def test_a_manifest_that_is_old_is_read_again_in_the_background(client, clock, aws, repository):
    assert client.target_model("minilm") == "minilm-0123456789abcdef.tar.gz"
    write_manifest(aws, repository, minilm="minilm-1111111111111111.tar.gz")
    clock.tick(31.0)
    eventually(lambda: client.target_model("minilm") == "minilm-1111111111111111.tar.gz")


def test_a_manifest_that_cannot_be_read_any_more_is_no_reason_to_stop(client, clock, aws, repository):
    assert client.target_model("minilm") == "minilm-0123456789abcdef.tar.gz"
    aws.upload(repository, "models/manifest.json", b"half a manif")
    clock.tick(31.0)
    assert client.target_model("minilm") == "minilm-0123456789abcdef.tar.gz"
    with pytest.raises(FleetError, match="not a manifest"):
        client.target_model("a new one")


@pytest.mark.parametrize(
    ("build", "listed"),
    [({"request": {"ids": "INT32 [-1, 4]", "mask": "BOOL [4]"}}, True), ({"request": 5}, False), ({}, False)],
)
def test_a_model_that_refuses_the_inputs_is_reported_with_those_that_it_has(  # noqa: PLR0917  fixtures
    build, listed, client, runtime, aws, repository
):
    write_manifest(aws, repository, build, minilm=OLD)
    runtime.answers = [
        ApiError(424, "ModelError", "no", OriginalStatusCode=400, OriginalMessage="unexpected input")
    ]
    with pytest.raises(InvocationError) as raised:
        client.infer(model="minilm", inputs=ROW)
    assert ("ids INT32 [-1, 4], mask BOOL [4]" in raised.value.problems[0].fix) == listed


def test_a_request_beyond_the_limit_is_refused_before_it_is_sent(client, runtime):
    rows = {"X": np.zeros((1, PAYLOAD_LIMIT // 4), dtype=np.float32)}
    with pytest.raises(FleetError, match=f"at most {PAYLOAD_LIMIT} bytes"):
        client.invoke_target(target_model="m.tar.gz", inputs=rows)
    assert runtime.requests == []


@pytest.fixture
def alias(aws):
    """A fleet's alias, and how to move it."""
    name = alias_name(aws.bucket())

    def move(endpoint):
        aws.client("ssm").put_parameter(Name=name, Value=endpoint, Type="String", Overwrite=True)

    move("old")
    return name, move


@pytest.fixture
def following(configured, session, repository, alias, clock):
    """A client that follows the alias, and reads it again only when it has to."""
    return Client(alias=alias[0], repository=f"s3://{repository}/models/", session=session, clock=clock)


def answer():
    return tensors(Y=np.array([[3.0]], dtype=np.float32))


def gone(endpoint):
    return ApiError(400, "ValidationError", f"Endpoint {endpoint} of account 123456789012 not found.")


def asked(runtime):
    return [endpoint for endpoint, _, _ in runtime.requests]


def test_an_endpoint_that_is_gone_without_a_follower_is_reported(following, runtime):
    runtime.answers = [gone("old")]
    with pytest.raises(FleetError, match="Endpoint old of account 123456789012 not found"):
        following.infer(model="minilm", inputs=ROW)
    assert asked(runtime) == ["old"]


def test_a_refusal_that_is_not_about_the_endpoint_is_not_sent_to_another(following, runtime, alias):
    runtime.answers = [ApiError(400, "ValidationError", "Failed to download model data")]
    assert following.endpoint_name == "old"
    alias[1]("new")
    with pytest.raises(FleetError, match="Failed to download"):
        following.infer(model="minilm", inputs=ROW)
    assert asked(runtime) == ["old"]


def test_an_old_alias_is_read_again_before_its_endpoint_goes(following, clock, runtime, alias):
    runtime.answers = [answer(), answer()]
    following.infer(model="minilm", inputs=ROW)
    alias[1]("new")
    clock.tick(31.0)
    eventually(lambda: following.endpoint_name == "new")
    following.infer(model="minilm", inputs=ROW)
    assert asked(runtime)[-1] == "new"


def write_targets(aws, bucket, **current):
    """The model minilm with an artifact for each target; a dash is written as two underscores."""
    model = {
        "current": {each.replace("__", "-").replace("_", "."): name for each, name in current.items()},
        "history": [],
        "artifacts": {name: recorded(name, gpu="A10G", tensorrt="10.13.3.9") for name in current.values()},
    }
    document = {"version": 2, "models": {"minilm": model}}
    aws.upload(bucket, "models/manifest.json", json.dumps(document).encode())


def named(endpoint, target):
    return json.dumps({"endpoint": endpoint, "target": target})


def targets_of(runtime):
    return [(name, headers["x-amzn-sagemaker-target-model"]) for name, headers, _ in runtime.requests]


def test_a_request_that_finds_its_endpoint_gone_goes_to_the_next_with_the_artifact_for_it(
    following, runtime, alias, aws, repository
):
    write_targets(aws, repository, sm86__trt10_13_3=OLD, sm86__trt10_16_1=NEW)
    alias[1](named("old", "sm86-trt10.13.3"))
    runtime.answers = [answer(), gone("old"), answer(), answer()]
    following.infer(model="minilm", inputs=ROW)
    alias[1](named("new", "sm86-trt10.16.1"))
    following.infer(model="minilm", inputs=ROW)
    following.infer(model="minilm", inputs=ROW)
    assert targets_of(runtime) == [("old", OLD), ("old", OLD), ("new", NEW), ("new", NEW)]
    assert len({body for _, _, body in runtime.requests}) == 1


def test_an_artifact_for_a_target_that_the_alias_moves_to_is_looked_up_at_once(
    following, runtime, alias, aws, repository
):
    write_targets(aws, repository, sm86__trt10_13_3=OLD)
    alias[1](named("old", "sm86-trt10.13.3"))
    runtime.answers = [answer(), answer()]
    following.infer(model="minilm", inputs=ROW)
    write_targets(aws, repository, sm86__trt10_13_3=OLD, sm75__trt10_13_3=NEW)
    alias[1](named("new", "sm75-trt10.13.3"))
    following._clock.tick(31.0)
    eventually(lambda: following.endpoint_name == "new")
    following.infer(model="minilm", inputs=ROW)
    assert targets_of(runtime)[-1] == ("new", NEW)


def test_an_endpoint_without_an_alias_has_its_target_given(configured, session, aws, repository):
    write_targets(aws, repository, sm86__trt10_13_3=OLD, sm86__trt10_16_1=NEW)
    given = {"endpoint_name": "fleet", "repository": f"s3://{repository}/models/", "session": session}
    assert Client(**given, target="sm86-trt10.16.1").target_model("minilm") == NEW
    with pytest.raises(FleetError, match="ambiguous-target"):
        Client(**given).target_model("minilm")


def test_without_a_target_a_client_keeps_what_a_name_stood_for_while_it_was_clear(client, aws, repository):
    write_targets(aws, repository, sm86__trt10_13_3=OLD)
    assert client.target_model("minilm") == OLD
    write_targets(aws, repository, sm86__trt10_13_3=OLD, sm86__trt10_16_1=NEW)
    with pytest.raises(FleetError, match="unknown-model"):
        client.target_model("other")  # which reads the manifest again
    assert client.target_model("minilm") == OLD


def test_half_an_alias_is_the_deployers_mistake(following, alias):
    alias[1]('{"endpoint": "new"}')
    with pytest.raises(FleetError, match="is not the value of an alias"):
        following.target_model("minilm")


def test_an_alias_that_is_not_there_is_the_callers_mistake(configured, session, repository):
    client = Client(alias="/no/such", repository=f"s3://{repository}/models/", session=session)
    with pytest.raises(FleetError, match="the parameter /no/such"):
        client.infer(model="minilm", inputs=ROW)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "neither"),
        ({"endpoint_name": "e", "alias": "/a"}, "both endpoint_name and alias"),
        ({"alias": "/a", "target": "any"}, "both an alias and a target"),
    ],
)
def test_a_client_has_either_an_endpoint_or_an_alias(given, what):
    with pytest.raises(FleetError, match=what):
        Client(repository="s3://bucket/models/", **given)
