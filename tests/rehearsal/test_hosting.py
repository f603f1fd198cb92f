"""InvokeEndpoint through an unmodified boto3, answered as SageMaker answers it."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest
from botocore.exceptions import ClientError

from aws_for_tests.deployed_functions import until
from tests.rehearsal.aws_for_hosting import moto_aws
from tests.rehearsal.served_models import FLOATS, ensemble, onnx_model, python_model, tarball
from tests.rehearsal.traces import traces
from tests.triton_models.publishing_aws import EARLIER, file_name, record_of
from triton_models.base.errors import FleetError
from triton_models.client import Client, encode
from triton_models.repository.manifest import Manifest, Publication
from triton_rehearsal.hosting.service import Hosting

# Models that do something when they are loaded. Their parameters are inserted into their source.
LOADING = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
{body}

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]) for x in inputs]
"""


def model_that_first(*lines):
    return python_model(LOADING.format(body="\n".join(f"        {line}" for line in lines)))


@pytest.fixture(scope="module")
def aws():
    with moto_aws() as aws:
        yield aws


class Endpoint:
    """An endpoint with its bucket and clients."""

    def __init__(self, aws, hosting, **config):
        self.aws = aws
        self.hosting = hosting
        self.bucket = aws.bucket()
        self.name = aws.endpoint(aws.endpoint_config(self.bucket, **config))
        self.runtime = aws.client("sagemaker-runtime", url=hosting.url)

    def upload(self, target, files):
        body = files if isinstance(files, bytes) else tarball(files)
        self.aws.upload(self.bucket, f"models/{target}", body)
        return target

    def invoke(self, target, body=FLOATS, **more):
        arguments = {"EndpointName": self.name, "TargetModel": target, "Body": body, **more}
        return self.runtime.invoke_endpoint(**{k: v for k, v in arguments.items() if v is not None})

    def ask(self, target, **more):
        return json.loads(self.invoke(target, **more)["Body"].read())["outputs"][0]["data"]

    @property
    def instance(self):
        return self.hosting.instances(self.name)[0]

    def copies(self):
        """Return the folders of models on the instance's disk."""
        return list((self.instance.server.directory / "opt" / "ml" / "models").iterdir())


@pytest.fixture(scope="module")
def hosting(aws):
    with Hosting(aws) as hosting:
        yield hosting


@pytest.fixture(scope="module")
def shared(aws, hosting):
    """An endpoint shared by tests that tolerate other models on it."""
    return Endpoint(aws, hosting)


@pytest.fixture
def own(aws, tmp_path):
    """An endpoint for one test, with hosting that notices changes at once."""
    with Hosting(aws, directory=tmp_path / "hosting", lookup_s=0.0) as hosting:
        yield Endpoint(aws, hosting)


def test_a_model_is_fetched_loaded_and_asked_and_not_loaded_again_if_its_object_changes(shared):
    target = shared.upload("scaling-1.tar.gz", onnx_model(2.0))
    answer = shared.invoke(target, ContentType="application/json")
    assert json.loads(answer["Body"].read())["outputs"][0]["data"] == [2, 4, 6]
    assert answer["ContentType"] == "application/json"
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    shared.upload(target, onnx_model(5.0))
    assert shared.ask(target) == [2, 4, 6]
    assert shared.ask(f"/{target}") == [5, 10, 15]  # as AWS's example sm-mme_with_torchserve names it


def test_our_client_asks_a_model_by_its_name(shared, monkeypatch):
    name = file_name("greeting", "1")
    wanted = [Publication(model="greeting", artifact=name, record=record_of(name))]
    manifest = Manifest().with_published(wanted, at=EARLIER, by="ann")
    shared.upload(name, ensemble(10.0))
    shared.upload("manifest.json", manifest.to_json().encode())
    for name, value in shared.aws.exports(runtime=shared.hosting.url).items():
        monkeypatch.setenv(name, value)
    client = Client(endpoint_name=shared.name, repository=f"s3://{shared.bucket}/models/")
    for content in ("binary", "json"):
        answer = client.infer(model="greeting", inputs={"TEXT": np.array([["abc"], ["é"]])}, content=content)
        np.testing.assert_array_equal(answer["Y"], np.array([[30], [10]], dtype=np.float32))


def test_triton_reads_a_binary_content_type_in_its_own_spelling_alone(shared):
    target = shared.upload("spelled-1.tar.gz", onnx_model(2.0))
    body, kind = encode({"X": np.ones((1, 1), np.float32)}, outputs=None, content="binary")
    assert shared.invoke(target, body, ContentType=kind)["ContentType"].startswith(kind.partition("=")[0])
    for spelled in (kind.title(), kind.replace(";", "; ")):
        with pytest.raises(shared.runtime.exceptions.ModelError) as error:
            shared.invoke(target, body, ContentType=spelled)
        assert error.value.response["OriginalStatusCode"] == 400


@pytest.mark.parametrize(
    ("target", "more", "said"),
    [
        ("x.tar.gz", {"EndpointName": "nope"}, "Endpoint nope of account 123456789012 not found"),
        ("x.tar.gz", {"TargetVariant": "B"}, "Variant B not found"),
        (None, {}, r"Request [0-9a-f-]{36} is missing a target model header\."),
        ("m" * 1025, {}, "with 1025 characters"),
        ("x.tar.gz", {"TargetContainerHostname": "h"}, "Remove the header"),
    ],
    ids=["endpoint", "variant", "no target model", "too long", "hostname"],
)
def test_an_address_that_is_unknown_is_a_validation_error_in_sagemakers_words(shared, target, more, said):
    with pytest.raises(shared.runtime.exceptions.ValidationError, match=said):
        shared.invoke(target, **more)


def test_a_target_model_that_is_not_in_the_repository_is_a_validation_error_with_bucket_and_key(shared):
    with pytest.raises(shared.runtime.exceptions.ValidationError) as error:
        shared.invoke("absent-1.tar.gz")
    assert error.value.response["Error"]["Message"] == (
        f"Failed to download model data(bucket: {shared.bucket}, key: models/absent-1.tar.gz). Please ensure "
        "that there is an object located at the URL and that the role passed to CreateModel has permissions "
        "to download the model."
    )
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_a_request_that_the_model_refuses_is_a_model_error_with_the_containers_answer(shared):
    target = shared.upload("refuses-1.tar.gz", onnx_model(2.0))
    with pytest.raises(shared.runtime.exceptions.ModelError, match="Received client error") as error:
        shared.invoke(target, FLOATS.replace(b'"X"', b'"Q"'))
    response = error.value.response
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert response["OriginalStatusCode"] == 400
    assert "unexpected inference input 'Q'" in response["OriginalMessage"]
    assert response["LogStreamArn"].endswith(f"log-group:/aws/sagemaker/Endpoints/{shared.name}")


def test_the_figures_of_a_model_count_each_request_once_and_say_why_the_last_one_failed(own):
    target = own.upload("counted.tar.gz", onnx_model(2.0))
    for body in (FLOATS, FLOATS, FLOATS.replace(b'"X"', b'"Q"')):
        with suppress(own.runtime.exceptions.ModelError):
            own.invoke(target, body)
    for _ in range(2):
        with pytest.raises(ClientError):
            own.invoke("missing.tar.gz")
    counted, missing = (own.hosting.figures[own.name, name] for name in (target, "missing.tar.gz"))

    assert (counted.cold, counted.warm, counted.failed, counted.loads, counted.unloads) == (1, 2, 1, 1, 0)
    assert "unexpected inference input 'Q'" in counted.error
    assert "{" not in counted.error
    assert len(counted.seconds) == 2
    assert 0 < counted.seconds[1] < counted.seconds[0]
    assert (missing.requests, missing.failed, missing.cold_percent) == (2, 2, None)
    assert "Failed to download model data" in missing.error


@pytest.mark.story
def test_a_failed_load_leaves_no_copy_so_that_a_fixed_object_is_loaded(shared):
    before = shared.copies()
    target = shared.upload("fixed-1.tar.gz", model_that_first("raise ValueError('no luck')"))
    with pytest.raises(shared.runtime.exceptions.ModelError, match="no luck"):
        shared.invoke(target)
    assert shared.copies() == before
    shared.upload(target, onnx_model(2.0))
    assert shared.ask(target) == [2, 4, 6]


@pytest.mark.parametrize(
    ("target", "content"),
    [
        ("text-1.tar.gz", b"not a tarball"),
        ("climbs-1.tar.gz", tarball({"m/config.pbtxt": b"", "../../outside": b"x"})),
    ],
)
def test_an_object_that_is_no_proper_artifact_is_refused_once_and_leaves_nothing(shared, target, content):
    before = shared.copies()
    shared.upload(target, content)
    with pytest.raises(shared.runtime.exceptions.ValidationError, match=r"valid tar\.gz archive") as error:
        shared.invoke(target)
    assert error.value.response["ResponseMetadata"]["RetryAttempts"] == 0
    assert shared.copies() == before


def test_first_requests_that_come_together_load_a_model_once(shared, tmp_path):
    loads = tmp_path / "loads"
    target = shared.upload("together-1.tar.gz", model_that_first(f"open({str(loads)!r}, 'a').write('x')"))
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: shared.ask(target), range(8)))
    assert answers == [[1, 2, 3]] * 8
    assert loads.read_text() == "x"


@pytest.mark.story
def test_a_model_is_served_while_another_one_is_being_loaded(own, gate):
    slow = own.upload("slow-1.tar.gz", model_that_first(f"open({str(gate)!r}).read()"))
    other = own.upload("other-1.tar.gz", onnx_model(2.0))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(own.ask, slow)
        with gate.open("w"):  # opens while the slow model is loading; closing it lets the load continue
            assert own.ask(other) == [2, 4, 6]
            assert not waiting.done()
        assert waiting.result() == [1, 2, 3]


def test_a_load_that_takes_longer_than_a_request_waits_goes_on(aws, gate, tmp_path):
    loads = tmp_path / "loads"
    lines = f"open({str(loads)!r}, 'a').write('x')", f"open({str(gate)!r}).read()"
    with Hosting(aws, directory=tmp_path / "hosting", load_wait_s=0.05) as hosting:
        impatient = Endpoint(aws, hosting)
        target = impatient.upload("slow-1.tar.gz", model_that_first(*lines))
        with pytest.raises(impatient.runtime.exceptions.ModelNotReadyException) as error:
            impatient.invoke(target)
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 429
        gate.write_text("go on")
        until(lambda: target in impatient.instance.loaded)
        assert impatient.ask(target) == [1, 2, 3]
    assert loads.read_text() == "x"


def test_without_caching_a_model_leaves_memory_and_disk_and_after_close_nothing_stays(aws, tmp_path):
    with Hosting(aws, directory=tmp_path / "hosting") as hosting:
        endpoint = Endpoint(aws, hosting, caching="Disabled")
        assert endpoint.ask(endpoint.upload("once-1.tar.gz", python_model())) == [1, 2, 3]
        assert endpoint.instance.loaded == []
        assert endpoint.copies() == []
        huge = endpoint.upload("huge-1.tar.gz", model_that_first("raise MemoryError('too large')"))
        with pytest.raises(endpoint.runtime.exceptions.ModelError) as error:
            endpoint.invoke(huge)
        assert error.value.response["OriginalStatusCode"] == 507
        server = endpoint.instance.server
        assert traces(server.mark, server.pid, server.directory)
    assert not traces(server.mark, server.pid, server.directory)
    assert not list((tmp_path / "hosting").iterdir())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(hosting.url.rpartition(":")[2])))


def test_an_unknown_or_asynchronous_endpoint_is_refused_by_name(aws, hosting):
    with pytest.raises(FleetError, match="Endpoint nope of account 123456789012 not found"):
        hosting.start("nope")
    output = {"OutputConfig": {"S3OutputPath": "s3://answers/"}}
    name = aws.endpoint(aws.endpoint_config(aws.bucket(), AsyncInferenceConfig=output))
    with pytest.raises(FleetError, match=f"Endpoint {name} is asynchronous"):
        hosting.start(name)
    runtime = aws.client("sagemaker-runtime", url=hosting.url)
    with pytest.raises(runtime.exceptions.ValidationError, match=f"Endpoint {name} is asynchronous"):
        runtime.invoke_endpoint(EndpointName=name, TargetModel="x.tar.gz", Body=FLOATS)
