"""The rules about plain models against the real server: both refuse the same, and accept the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from onnx import TensorProto, helper

from tests.triton_models.broken_models import PLAIN
from tests.triton_models.check_case import Spoil
from tests.triton_models.model_folders import write, write_plain
from tests.triton_models.test_check import VALID
from triton_models.check.check import check_path
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.server import TritonServer

pytestmark = pytest.mark.story

# Triton loads these and then does the wrong thing, so there is no refusal to see.
SILENT = {
    "two plain models",
    "a folder next to it",
    "no outputs",
    "two inputs of one name",
    "a streaming model",
    "a build record that is no object",
    "a warm-up of more than a batch",  # the stand-in for ONNX Runtime takes every batch
}

# These need what this machine lacks: weights for a second version, a GPU, a backend of the user's own.
NOT_HERE = {
    "several versions",
    "a model that is a folder",
    "a plan for each compute capability",
    "a backend of an image of the user's own",
    "a backend of the user's own in a library of another name",
    "an agent of an image of the user's own, which brings the files",
    "a backend of the user's own",
    "what tools leave behind",  # packing leaves it out; the server would see it
    "a reshape around a variable size",
    "an empty reshape of one element",
    "sequences",
    "groups on chosen GPUs",
}

# What shows with real weights, or by the way a multi-model endpoint loads. The other rules are tried without
# either, and so much faster, in test_check_agreement.py.
SHOWN_HERE = {
    "backend-missing",
    "config-missing",
    "config-syntax",
    "lfs-pointer",
    "max-batch-size",
    "model-file-missing",
    "no-model",
    "tensor-dims",
    "tensor-name",
    "tensor-type",
    "tensors-missing",
    "too-deep",
    "version-missing",
    "warm-up",
}

REFUSED = {
    name: broken
    for rule, cases in PLAIN.items()
    if rule in SHOWN_HERE
    for name, broken in cases.items()
    if name not in SILENT
}
ACCEPTED = {name: change for name, change in VALID.items() if name not in NOT_HERE}
LOADS = count()


@pytest.fixture(scope="module")
def contract(tmp_path_factory) -> Iterator[MultiModelContract]:
    environment = {
        "SAGEMAKER_TRITON_PING_MODE": "live",
        "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
    }
    folder = tmp_path_factory.mktemp("check") / "server"
    with TritonServer(environment, folder) as server, MultiModelContract(server.socket) as contract:
        yield contract


@pytest.fixture(scope="module")
def weights() -> bytes:
    """The first thousand numbers of an image."""
    slicing = [
        helper.make_tensor(name, TensorProto.INT64, [1], [value])
        for name, value in {"start": 0, "end": 1000, "axis": 1}.items()
    ]
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["image"], ["flat"]),
            helper.make_node("Slice", ["flat", "start", "end", "axis"], ["scores"]),
        ],
        "first",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 224, 224])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 1000])],
        slicing,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def _load(contract: MultiModelContract, root: Path) -> bool:
    number = next(LOADS)
    # Nothing is unloaded: each unload takes the server two seconds, and all of them together fit.
    return contract.load(model_id=f"id{number}", target_model=f"model{number}.tar.gz", folder=str(root)).ok


@pytest.mark.parametrize("broken", REFUSED.values(), ids=REFUSED.keys())
def test_what_check_refuses_the_server_refuses(
    broken: Spoil, contract, weights: bytes, tmp_path: Path
) -> None:
    root = write_plain(tmp_path / "resnet50")
    write(root / "resnet50" / "1" / "model.onnx", weights)
    broken(root)

    assert check_path(root)
    assert not _load(contract, root)


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_check_accepts_the_server_loads(change: Spoil, contract, weights: bytes, tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    write(root / "resnet50" / "1" / "model.onnx", weights)
    change(root)

    assert check_path(root) == []
    assert _load(contract, root)
