"""Checks depend on the target: the release, the GPU and the endpoint, as far as they are known."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
from pathlib import Path

import pytest

from tests.triton_models import check_case
from tests.triton_models.model_folders import PYTHON_CODE, tar, write, write_ensemble, write_plain
from tests.triton_models.real_networks import onnx_file, script_archive
from tests.triton_models.spoils import added, edited, having, streaming, without, written
from triton_models.artifact.networks import read_plan_header
from triton_models.artifact.pbtxt import plain, tensor, write_config
from triton_models.check.check import check_path
from triton_models.check.target import PLAIN, CheckTarget, target
from triton_models.cli.main import main


def plan(tensorrt: str) -> bytes:
    return struct.pack("<II", 0x74727466, 0) + bytes(16) + bytes(map(int, tensorrt.split("."))) + b"engine"


def write_plan(root: Path, *, tensorrt: str, record: dict[str, object] | None = None) -> Path:
    config = plain(
        name="bert",
        backend="tensorrt",
        max_batch_size=8,
        inputs=[tensor("ids", "INT32", [-1])],
        outputs=[tensor("hidden", "FP32", [-1, 384])],
    )
    write_config(config, root / "bert" / "config.pbtxt")
    write(root / "bert" / "1" / "model.plan", plan(tensorrt))
    if record is not None:
        write(root / "build.json", json.dumps(record).encode())
    return root


def rules(path: Path, wanted: CheckTarget) -> set[str]:
    return {problem.rule for problem in check_path(path, target=wanted)}


def run(path: Path, **options: object) -> set[str]:
    return {problem.rule for problem in check_case.run(path, **options).problems[str(path)]}


@pytest.mark.parametrize(
    "beginning", [b"", plan("10.13.3.9")[:27], b"onnx" + plan("10.13.3.9")[4:], b"ftrt\x01" + bytes(40)]
)
def test_what_is_no_plan_has_no_header(beginning: bytes) -> None:
    assert read_plan_header(beginning) is None


@pytest.mark.parametrize(
    ("own", "loads"), [("10.4.0.26", True), ("10.4.1.0", False), ("10.5.0.0", False), ("8.4.0.0", False)]
)
def test_versions_are_compared_as_far_as_both_state_them(own: str, loads: bool) -> None:
    header = read_plan_header(plan(own))

    assert header is not None
    assert header.loads_in("10.4.0") is loads


def test_a_plan_for_each_compute_capability_is_checked_too(tmp_path: Path) -> None:
    root = write_plan(tmp_path / "bert", tensorrt="10.13.3.9")
    added("bert", "cc_model_filenames { key: '7.5' value: 't4.plan' }")(root)
    write(root / "bert" / "1" / "t4.plan", plan("10.9.0.34"))

    (problem,) = check_path(root, target=target(release="25.09"))

    assert problem.where == str(root / "bert" / "1" / "t4.plan")


SAGEMAKER_ONLY = {
    "two plain models": lambda root: write_plain(root, name="other"),
    "a folder next to it": written("shared/labels.txt", b"cat"),
    "a streaming model": streaming("resnet50"),
    "no inputs, which the backend knows": edited("resnet50", lambda it: it.ClearField("input")),
    "no configuration, which the backend makes": without("resnet50/config.pbtxt"),
}


@pytest.mark.parametrize("change", SAGEMAKER_ONLY.values(), ids=SAGEMAKER_ONLY.keys())
def test_what_only_sagemaker_minds_passes_as_a_plain_repository(change, tmp_path: Path) -> None:
    root = write_plain(tmp_path / "repository")
    change(root)

    assert run(root) == set()
    assert run(root, endpoint_kind="multi-model") != set()


def test_an_endpoint_may_complete_configurations(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "repository")
    edited("resnet50", lambda it: it.ClearField("input"))(root)

    assert run(root, endpoint_kind="multi-model") == {"tensors-missing"}
    assert run(root, endpoint_kind="multi-model", auto_complete=True) == set()
    (root / "resnet50/config.pbtxt").unlink()
    assert run(root, endpoint_kind="multi-model", auto_complete=True) == set()


@pytest.mark.parametrize(
    ("path", "content", "found"),
    [
        ("net/1/model.onnx", onnx_file(), set()),
        *((f"net/1/{file}", b"x", set()) for file in ("model.plan", "model.xml")),
        ("net/1/model.py", PYTHON_CODE, set()),
        ("net.identity/1/weights.bin", b"x", set()),
        ("net/1/model.pt", script_archive(), {"config-missing"}),
        ("net/1/weights.bin", b"x", {"backend-missing"}),
    ],
)
def test_a_backend_that_its_file_or_name_tells_may_do_without_a_configuration(
    path: str, content: bytes, found: set[str], tmp_path: Path
) -> None:
    write(tmp_path / path, content)

    assert run(tmp_path / path.partition("/")[0]) == found


@pytest.mark.parametrize(
    ("code", "found"), [("", {"tensor-type"}), ("def auto_complete_config(c): ...", set())]
)
def test_a_python_model_completes_what_it_says_it_completes(
    code: str, found: set[str], tmp_path: Path
) -> None:
    root = tmp_path / "repository"
    config = plain(
        name="net", backend="python", max_batch_size=0, inputs=[tensor("x", "FP32", [1])], outputs=[]
    )
    config.input[0].ClearField("data_type")
    write_config(config, root / "net" / "config.pbtxt")
    write(root / "net" / "1" / "model.py", PYTHON_CODE + code.encode())

    assert run(root) == found
    assert run(tar(root, tmp_path / "net.tar.gz")) == found


def test_an_ensemble_finds_its_models_beside_it(tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "repository")
    write(root / "minilm_encoder" / "1" / "model.plan", b"plan")

    assert run(root / "minilm") == set()
    shutil.rmtree(root / "minilm_pooling")
    assert run(root / "minilm") == {"step-model"}


def test_a_plain_server_follows_links_wherever_they_lead(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "repository")
    (tmp_path / "store").mkdir()
    (root / "resnet50/1/model.onnx").rename(tmp_path / "store" / "weights")
    (root / "resnet50/1/model.onnx").symlink_to(tmp_path / "store" / "weights")
    (root / "resnet50" / "broken").symlink_to("nowhere")
    (root / "resnet50" / "circle").symlink_to(".")

    assert run(root) == set()
    assert run(root, endpoint_kind="multi-model") == {"unpackable"}


def test_the_command_line_names_the_target_of_which_an_instance_type_says_the_gpu_and_how_many(
    tmp_path: Path, capsys
) -> None:
    root = write_plan(tmp_path / "bert", tensorrt="10.13.3.9", record={"release": "25.09", "gpu": "A10G"})
    added("bert", "instance_group { gpus: 1 }")(root)

    assert main(["check", str(root), "--release", "25.04", "--gpu", "A10G"]) == 1
    assert "plan-version" in capsys.readouterr().out
    assert main(["check", str(root), "--instance-type", "ml.g5.12xlarge"]) == 0
    assert main(["check", str(root), "--instance-type", "ml.g4dn.xlarge"]) == 1
    assert {"instance-gpu", "plan-gpu"} <= set(re.findall(r"\[([a-z-]+)\]", capsys.readouterr().out))


def test_a_plain_repository_may_name_models_as_it_likes_and_a_build_is_for_an_endpoint(
    tmp_path: Path,
) -> None:
    root = write_plain(tmp_path / "resnet50")
    (root / "resnet50" / os.fsdecode(b"\xff")).mkdir()
    assert run(root) == set()
    assert run(root, endpoint_kind="multi-model") == {"unpackable"}

    (root / "resnet50" / os.fsdecode(b"\xff")).rmdir()
    having("resnet50", name="net")(root)
    (problem,) = check_path(root, target=PLAIN)
    assert "--endpoint-kind multi-model" in problem.fix
    assert run(root, endpoint_kind="multi-model") == set()

    write_plain(root, name="other")
    write(root / "build.json", b"{}")
    assert run(root) == {"several-models"}
