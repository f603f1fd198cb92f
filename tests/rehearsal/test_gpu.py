"""The modelled GPU: models share its memory, and the real server and the platform make room in it."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.rehearsal.aws_for_hosting import moto_aws
from tests.rehearsal.model_server import contract_of
from tests.rehearsal.served_models import onnx_model, write
from tests.rehearsal.test_hosting import Endpoint
from triton_models.base.errors import FleetError
from triton_rehearsal.hosting.budget import SERVER_GPU_BYTES, Budget, read_size
from triton_rehearsal.hosting.copies import Copies
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.triton.gpu import GpuMeter, ModelledGpu, OutOfMemoryError

KIB, GIB = 1 << 10, 1 << 30

TAKE_AND_WAIT = """
import sys
from pathlib import Path
from triton_rehearsal.triton.gpu import ModelledGpu
share = ModelledGpu(Path(sys.argv[1])).take(60)
with share.busy():
    pass
print("taken", flush=True)
sys.stdin.read()
"""


def weights(size):
    """Return the file of a network's external weights, which nothing reads."""
    return {"scaling/1/model.onnx.data": bytes(size)}


@pytest.fixture
def gpu(tmp_path):
    return ModelledGpu.create(tmp_path / "gpu", total=100)


def test_memory_is_taken_and_given_back(gpu):
    first = gpu.take(60)
    with pytest.raises(OutOfMemoryError) as error:
        gpu.take(50)
    assert (error.value.wanted, error.value.free, error.value.total) == (50, 40, 100)
    first.give_back()
    assert gpu.used() == 0
    gpu.take(100)


def test_memory_of_a_killed_process_is_free_again(gpu, tmp_path):
    command = [sys.executable, "-c", TAKE_AND_WAIT, str(tmp_path / "gpu")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        used = gpu.used()
        os.kill(process.pid, signal.SIGKILL)
    assert (used, gpu.used()) == (60, 0)
    assert gpu.busy_s() > 0


def test_busy_time_and_memory_are_percentages_of_all_gpus(gpu):
    meter = GpuMeter(gpu, count=2)
    share = gpu.take(25)
    with share.busy():
        pass
    share._seconds = 1e6
    with share.busy():
        pass
    assert meter.busy_percent() == 200
    assert meter.busy_percent() == 0
    assert meter.memory_percent() == 50


@pytest.mark.parametrize(
    ("backend", "file", "words"),
    [
        ("onnxruntime", "model.onnx", "Failed to allocate memory for requested buffer of size"),
        ("tensorrt", "model.onnx", "OutOfMemory (Requested size was"),
        ("pytorch", "model.pt", "CUDA out of memory. Tried to allocate"),
    ],
)
def test_a_model_without_memory_fails_as_its_backend_does_and_triton_answers_507(
    backend, file, words, tmp_path
):
    with contract_of(tmp_path, gpu_memory=10) as contract:
        root = write(onnx_model(2.0, backend=backend, file=file), tmp_path / "m")
        answer = contract.load(model_id="m", target_model="m", folder=str(root))
    assert answer.status == 507
    assert words in answer.text


def test_a_model_takes_the_memory_that_its_configuration_declares(tmp_path):
    declared = 'parameters { key: "gpu_memory_mb" value { string_value: "3" } }'
    with contract_of(tmp_path, gpu_memory=4 << 20) as contract:
        for name, ok in (("first", True), ("second", False)):
            root = write(onnx_model(2.0, backend="tensorrt", extra=declared), tmp_path / name)
            assert contract.load(model_id=name, target_model=name, folder=str(root)).ok == ok


def test_an_instance_on_the_cpu_takes_no_memory_of_the_gpu(tmp_path):
    with contract_of(tmp_path, gpu_memory=10) as contract:
        root = write(onnx_model(2.0, extra="instance_group [{kind: KIND_CPU}]"), tmp_path / "m")
        assert contract.load(model_id="m", target_model="m", folder=str(root)).ok


@pytest.fixture(scope="module")
def aws():
    with moto_aws() as aws:
        yield aws


def statistics(aws, endpoint, name, statistic, namespace="AWS/SageMaker"):
    cloudwatch = aws.client("cloudwatch")
    dimensions = [{"Name": "EndpointName", "Value": endpoint}, {"Name": "VariantName", "Value": "AllTraffic"}]
    points = cloudwatch.get_metric_statistics(
        Namespace=namespace,
        MetricName=name,
        Dimensions=dimensions,
        StartTime="2020-01-01",
        EndTime="2100-01-01",
        Period=86400 * 365,
        Statistics=[statistic],
    )["Datapoints"]
    return [point[statistic] for point in points]


@pytest.mark.story
def test_ten_models_share_the_memory_of_three_and_every_answer_is_right(aws, tmp_path):
    with Hosting(aws, directory=tmp_path / "hosting", gpu_memory=35 * KIB) as hosting:
        endpoint = Endpoint(aws, hosting)
        targets = [
            endpoint.upload(f"m{number}.tar.gz", {**onnx_model(float(number)), **weights(10 * KIB)})
            for number in range(10)
        ]
        numbers = [int(each) for each in np.random.default_rng(7).permutation(10)] + [1, 4, 1, 8]
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda number: endpoint.ask(targets[number]), numbers))
        assert answers == [[number, 2 * number, 3 * number] for number in numbers]
        assert len(endpoint.instance.loaded) == 3
        hosting.flush_metrics()
        loads, unloads = (
            sum(statistics(aws, endpoint.name, name, "SampleCount"))
            for name in ("ModelLoadingTime", "ModelUnloadingTime")
        )
        assert unloads >= 7
        assert loads - unloads == 3
        host = "/aws/sagemaker/Endpoints"
        assert statistics(aws, endpoint.name, "LoadedModelCount", "Maximum", host) == [3]
        (memory,) = statistics(aws, endpoint.name, "GPUMemoryUtilization", "Maximum", host)
        assert 80 < memory <= 100
        (busy,) = statistics(aws, endpoint.name, "GPUUtilization", "Maximum", host)
        assert 0 < busy <= 100


def test_a_model_larger_than_the_gpu_is_a_model_error_with_the_backends_words(aws, tmp_path):
    with Hosting(aws, directory=tmp_path / "hosting", gpu_memory=KIB) as hosting:
        endpoint = Endpoint(aws, hosting)
        target = endpoint.upload("huge.tar.gz", {**onnx_model(2.0), **weights(KIB)})
        with pytest.raises(endpoint.runtime.exceptions.ModelError) as error:
            endpoint.invoke(target)
    assert error.value.response["OriginalStatusCode"] == 507
    assert "requested buffer of size" in error.value.response["OriginalMessage"]


def test_copies_that_are_not_loaded_are_removed_from_a_full_disk_least_recently_used_first():
    copies = Copies(30)
    for name in ("a", "b", "c"):
        copies.add(name, 10)
    copies.use("a")
    assert not copies.full
    copies.add("d", 10)
    assert copies.full
    assert copies.unused({"b", "d"}) == "c"
    copies.forget("c")
    assert not copies.full


@pytest.mark.story
def test_a_full_disk_keeps_what_is_loaded_and_fetches_the_rest_again(aws, tmp_path, monkeypatch):
    small = Budget(gpu=25 * KIB, gpu_count=1, disk=40 * KIB)
    monkeypatch.setattr(Budget, "of", lambda *_, **__: small)
    with Hosting(aws, directory=tmp_path / "hosting") as hosting:
        endpoint = Endpoint(aws, hosting)
        model = [{**onnx_model(float(number)), **weights(10 * KIB)} for number in range(6)]
        targets = [endpoint.upload(f"m{number}.tar.gz", files) for number, files in enumerate(model)]
        for number in (0, 1, 2, 3, 4, 5, 0):
            assert endpoint.ask(targets[number]) == [number, 2 * number, 3 * number]
            assert len(endpoint.copies()) <= 3
        large = endpoint.upload("large.tar.gz", {**onnx_model(1.0), **weights(50 * KIB)})
        with pytest.raises(endpoint.runtime.exceptions.ValidationError, match="No space left on device"):
            endpoint.invoke(large)
        assert endpoint.ask(targets[0]) == [0, 0, 0]


def test_an_instance_has_the_memory_and_the_disk_of_its_type():
    assert Budget.of("ml.g4dn.12xlarge") == Budget(
        gpu=16 * GIB - SERVER_GPU_BYTES, gpu_count=4, memory=192 * GIB, disk=900 * 10**9
    )
    assert Budget.of("ml.c5.xlarge").gpu is None
    assert Budget.of(None) == Budget()


@pytest.mark.parametrize(("text", "size"), [("500MiB", 500 << 20), ("1.5GiB", 3 << 29), ("123", 123)])
def test_a_size_is_a_number_and_a_unit(text, size):
    assert read_size(text, where="--gpu-memory") == size


@pytest.mark.parametrize("text", ["", "0", "0GiB", "-1", "5 GB", "much", "1e9", "²GiB"])
def test_what_is_not_a_size_is_refused(text):
    with pytest.raises(FleetError) as error:
        read_size(text, where="--gpu-memory")
    assert [each.rule for each in error.value.problems] == ["impossible-budget"]


@pytest.mark.parametrize(("instance_type", "size"), [("ml.g4dn.xlarge", 16 * GIB), ("ml.c5.xlarge", GIB)])
def test_more_memory_than_the_instance_type_has_is_refused(instance_type, size):
    with pytest.raises(FleetError) as error:
        Budget.of(instance_type, gpu_memory=size)
    assert [each.rule for each in error.value.problems] == ["impossible-budget"]
