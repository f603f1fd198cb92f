"""The modelled GPU: models share its memory, and the real server and the platform make room in it."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import treelite
import xgboost

from tests.rehearsal.aws_for_hosting import ENVIRONMENT
from tests.rehearsal.model_server import contract_of
from tests.rehearsal.served_models import onnx_model, write
from triton_models.base.errors import FleetError
from triton_models.check.check import check_path
from triton_models.check.target import target
from triton_models.facts.gpu_memory import BACKENDS, SERVER_MIB, SERVER_POOL_MIB
from triton_models.facts.instances import GPUS
from triton_models.facts.releases import RELEASES
from triton_rehearsal.hosting.budget import Budget, read_size
from triton_rehearsal.triton.container import ADDITIONAL_ARGUMENTS
from triton_rehearsal.triton.contract import MultiModelContract, NoAnswerError
from triton_rehearsal.triton.gpu import GpuMeter, ModelledGpu, OutOfMemoryError
from triton_rehearsal.triton.machine import Machine
from triton_rehearsal.triton.server import TritonServer

MIB, GIB = 1 << 20, 1 << 30

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


@pytest.fixture
def gpu(tmp_path):
    return ModelledGpu.create(tmp_path / "gpu", total=100)


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


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A server on a GPU with ten bytes."""
    with contract_of(tmp_path_factory.mktemp("full"), gpu_memory=10) as contract:
        yield contract


def load(contract, files, folder, name="m"):
    root = write(files, folder / name)
    return contract.load(
        model_id=f"{folder.name}-{name}", target_model=f"{folder.name}-{name}", folder=str(root)
    )


@pytest.mark.parametrize(
    ("backend", "file", "words"),
    [
        ("onnxruntime", "model.onnx", "Failed to allocate memory for requested buffer of size"),
        ("tensorrt", "model.onnx", "OutOfMemory (Requested size was"),
        ("pytorch", "model.pt", "CUDA out of memory. Tried to allocate"),
    ],
)
def test_a_model_without_memory_fails_as_its_backend_does_and_one_on_the_cpu_loads(
    backend, file, words, full, tmp_path
):
    files = onnx_model(2.0, backend=backend, file=file)
    answer = load(full, files, tmp_path)
    assert answer.status == 507
    assert words in answer.text
    if backend == "onnxruntime":
        on_cpu = onnx_model(2.0, extra="instance_group [{kind: KIND_CPU}]")
        assert load(full, on_cpu, tmp_path, "on-cpu").ok


def test_a_plan_on_a_full_gpu_is_not_evicted_for_if_the_server_completes_its_configuration(tmp_path):
    environment = {name: value for name, value in ENVIRONMENT.items() if name != ADDITIONAL_ARGUMENTS}
    with (
        TritonServer(environment, tmp_path / "server", gpu_memory=10) as server,
        MultiModelContract(server.socket) as contract,
    ):
        assert load(contract, onnx_model(2.0, backend="tensorrt"), tmp_path).status == 400


def whole_gpu(folder, total_mib, **given):
    """Return a GPU on which the server and the libraries of backends take memory too."""
    terms = {
        name: {"first": each.first * MIB, "model": each.model * MIB, "row": each.row * MIB}
        for name, each in BACKENDS.items()
    }
    reserved = (SERVER_MIB + SERVER_POOL_MIB) * MIB
    return ModelledGpu.create(folder, total=total_mib * MIB, reserved=reserved, backends=terms, **given)


# nvidia-smi on multi-model endpoints of ml.g4dn.2xlarge (T4, 15,109 MiB) and ml.p3.2xlarge (V100, 16,160)
# that loaded one model again and again, in the history of aws-samples/sagemaker-mme-gpu-benchmarking, by blob
# and cell. A loop ended when one more model of average size would have passed 90 %. The backend; MiB of each
# copy, of its weights and of the GPU; copies loaded; percent used then.
SERIES = {
    "ResNet-50, TorchScript: 9c4dae247f [26]": ("pytorch", 271, 97, 15109, 46, 88.77),
    "ResNet-50, plan: 9c4dae247f [52]": ("tensorrt", 559, 49, 15109, 23, 88.72),
    "BERT-base, TorchScript: 6bd92b0b8f [29]": ("pytorch", 485, 418, 15109, 26, 88.18),
    "BERT-base, plan: 6bd92b0b8f [56]": ("tensorrt", 311, 209, 15109, 42, 89.65),
    "ViT-large, TorchScript: 1f097903f1 [26]": ("pytorch", 1205, 1161, 15109, 10, 85.96),
    "ViT-large, TorchScript: 8e29310e25 [26]": ("pytorch", 1205, 1161, 16160, 11, 89.06),
    "ViT-large, plan: 8e29310e25 [52]": ("tensorrt", 1432, 580, 16160, 9, 83.91),
    "RoBERTa-large, TorchScript: ca921448d0 [29]": ("pytorch", 1391, 1356, 16160, 9, 83.06),
    "RoBERTa-large, plan: ca921448d0 [56]": ("tensorrt", 1488, 678, 16160, 9, 87.03),
}


@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)
def test_as_many_models_fit_as_on_a_real_gpu_give_or_take_one(series, tmp_path):
    backend, each, _, total, seen, percent = series
    gpu, shares = whole_gpu(tmp_path / "gpu", total), []
    while not shares or gpu.used() * (1 + 1 / len(shares)) < 0.9 * gpu.total:
        shares.append(gpu.take(each * MIB, backend=backend))
        if len(shares) == seen:
            assert 100 * gpu.used() / gpu.total == pytest.approx(percent, abs=3)
    assert abs(len(shares) - seen) <= 1


@pytest.mark.parametrize(
    "series", [each for name, each in SERIES.items() if "ResNet" not in name and each[0] == "pytorch"]
)
def test_the_memory_of_a_transformer_follows_from_its_weights_within_a_tenth(series, tmp_path):
    backend, each, of_weights, total, _, _ = series
    gpu = whole_gpu(tmp_path / "gpu", total)
    before = gpu.used() + BACKENDS[backend].first * MIB
    share = gpu.take(of_weights * MIB, backend=backend, measured=False)
    assert (gpu.used() - before) / MIB == pytest.approx(each, rel=0.1)
    share.give_back()


def test_as_many_models_fit_on_an_a10g_as_on_a_real_one_within_a_tenth_and_more_evict(tmp_path):
    # kshitizgupta21/triton-mme-gtc23, mme.ipynb of 17cf517e8a [61] and [62]: an ml.g5.xlarge holds 270 copies
    # of bergum/xtremedistil-emotion (12.8 million weights, 49 MiB) in TorchScript; 299 in turn, no error.
    gpu, loaded, most = whole_gpu(tmp_path / "gpu", GPUS["A10G"].memory_mib), [], 0
    for _ in range(299):
        while True:
            try:
                loaded.append(gpu.take(49 * MIB, backend="pytorch", measured=False))
                break
            except OutOfMemoryError:
                loaded.pop(0).give_back()
        most = max(most, len(loaded))
    assert most == pytest.approx(270, rel=0.1)
    assert most < 299


def test_the_libraries_of_a_backend_stay_after_its_last_model(tmp_path):
    gpu = whole_gpu(tmp_path / "gpu", 15360)
    idle = gpu.used()
    gpu.take(MIB, backend="tensorrt").give_back()
    assert (gpu.used() - idle) // MIB == BACKENDS["tensorrt"].first
    gpu.take(MIB, backend="tensorrt").give_back()
    assert (gpu.used() - idle) // MIB == BACKENDS["tensorrt"].first


FOREST = """
backend: "fil"
max_batch_size: 8
input { name: "input__0" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "output__0" data_type: TYPE_FP32 dims: [ %d ] }
parameters { key: "model_type" value: { string_value: "treelite_checkpoint" } }
parameters { key: "predict_proba" value: { string_value: "%s" } }
parameters { key: "output_class" value: { string_value: "%s" } }
parameters { key: "threshold" value: { string_value: "0.5" } }
%s
"""


def forest_in(folder, objective, extra="", classes=1, **given):
    """Write a model directory by hand, with a forest as Treelite converts it."""
    rng = np.random.default_rng(0)
    rows, target = rng.normal(size=(60, 4)), np.repeat(range(3), (40, 15, 5)) % max(classes, 2)
    options = {"objective": objective, "max_depth": 2, "nthread": 1, **given}
    trained = xgboost.train(options, xgboost.DMatrix(rows, target), 2)
    (folder / "forest" / "1").mkdir(parents=True)
    text = "true" if classes > 1 else "false"
    (folder / "forest" / "config.pbtxt").write_text(FOREST % (classes, text, text, extra))
    treelite.frontend.from_xgboost(trained).serialize(folder / "forest" / "1" / "checkpoint.tl")
    return folder


def test_the_second_forest_of_40_mib_does_not_fit_into_a_pool_of_64(tmp_path):
    declared = 'parameters { key: "gpu_memory_mb" value { string_value: "40" } }'
    roots = [forest_in(tmp_path / name, "reg:squarederror", declared) for name in "ab"]
    with contract_of(tmp_path, gpu_memory=16 * GIB, whole_gpu=True) as contract:
        first, second = (
            contract.load(model_id=root.name, target_model=root.name, folder=str(root)) for root in roots
        )
    assert (first.status, second.status) == (200, 507), first.text + second.text
    assert "CNMEM_STATUS_OUT_OF_MEMORY" in second.text


def test_a_forest_that_the_gpu_importer_refuses_ends_the_server_unless_it_is_on_the_cpu(tmp_path):
    machine = Machine(gpu=GPUS["T4"], release=RELEASES["25.09"])
    served = target(release="25.09", gpu="T4", endpoint="multi-model")
    on_gpu, on_cpu = (
        forest_in(tmp_path / name, "multi:softprob", extra, classes=3, num_class=3)
        for name, extra in (("gpu", ""), ("cpu", "instance_group [ { kind: KIND_CPU } ]"))
    )
    assert [each.rule for each in check_path(on_gpu, target=served)] == ["fil-gpu"]
    assert list(check_path(on_cpu, target=served)) == []
    with (
        TritonServer(ENVIRONMENT, tmp_path / "server", machine=machine, gpu_memory=GIB) as server,
        MultiModelContract(server.socket) as contract,
    ):
        assert contract.load(model_id="cpu", target_model="cpu", folder=str(on_cpu)).ok
        with pytest.raises(NoAnswerError):
            contract.load(model_id="gpu", target_model="gpu", folder=str(on_gpu))
        assert server.wait_for_end(20)


def test_an_instance_has_the_memory_and_the_disk_of_its_type():
    assert Budget.of("ml.g4dn.12xlarge") == Budget(
        gpu=15360 * MIB, whole_gpu=True, gpu_count=4, memory=192 * GIB, disk=900 * 10**9
    )
    assert Budget.of("ml.c5.xlarge").gpu is None
    assert Budget.of(None) == Budget()


def test_a_budget_is_a_number_and_a_unit_that_the_instance_type_has():
    assert read_size("1.5GiB", where="--gpu-memory") == 3 << 29
    assert read_size("123", where="--gpu-memory") == 123
    for text in ("", "0GiB", "-1", "5 GB", "1e9", "²GiB"):
        with pytest.raises(FleetError, match="impossible-budget"):
            read_size(text, where="--gpu-memory")
    for instance_type, size in (("ml.g4dn.xlarge", 16 * GIB), ("ml.c5.xlarge", GIB)):
        with pytest.raises(FleetError, match="impossible-budget"):
            Budget.of(instance_type, gpu_memory=size)
