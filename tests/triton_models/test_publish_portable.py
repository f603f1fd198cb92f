"""A build without a GPU is for rehearsals, and does not get into a repository that GPUs serve."""

from __future__ import annotations

import struct
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.reported import reported
from tests.triton_models.model_folders import Edit, write, write_ensemble
from tests.triton_models.publishing_aws import consistent_manifest, objects
from tests.triton_models.real_networks import write_onnx
from triton_models.artifact.layout import read_layout
from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.artifact.plans import is_portable
from triton_models.repository import publish as publish_module
from triton_models.repository.publish import PublishOptions, publish

PLAN = struct.pack("<II16x4B", 0x74727466, 0, 10, 13, 3, 9)


@pytest.fixture
def portable(tmp_path: Path) -> Artifact:
    return pack(write_ensemble(tmp_path / "minilm"), output=tmp_path / "out")


def for_gpu(folder: Path, *, plan: bytes = PLAN) -> Path:
    root = write_ensemble(folder / "minilm", gpu="A10G")
    write(root / "minilm_encoder" / "1" / "model.plan", plan)
    return root


def for_cpu(folder: Path) -> Path:
    """As a build for CPUs leaves it: ONNX Runtime in the place of TensorRT."""
    root = write_ensemble(folder / "minilm")
    with Edit(root / "minilm_encoder") as config:
        config.backend = "onnxruntime"
    return root


def test_one_is_refused_unless_a_rehearsal_says_that_it_is_one(
    portable: Artifact, repository: str, s3: Any
) -> None:
    with reported("portable-artifact") as problems:
        publish([portable], repository=repository, s3=s3)

    (problem,) = problems
    assert portable.name in problem.what
    assert "FLEET_PORTABLE" in problem.fix
    assert objects(repository, s3) == set()
    publish([portable], repository=repository, s3=s3, portable=True)
    assert consistent_manifest(repository, s3).models["minilm"].artifacts[portable.name].portable


@pytest.mark.parametrize(("flag", "variable"), [(True, "0"), (False, "1"), (False, "0"), (False, "")])
def test_the_flag_and_the_variable_mean_the_same_and_without_either_the_command_refuses(
    environment: pytest.MonkeyPatch, portable: Artifact, repository: str, flag: bool, variable: str
) -> None:
    environment.setenv("FLEET_PORTABLE", variable)
    options = PublishOptions(artifacts=[portable.path], portable=flag, repository=repository)

    with nullcontext() if flag or variable == "1" else reported("portable-artifact"):
        publish_module.run(options)


@pytest.mark.parametrize(("build", "plans"), [(for_gpu, ("10.13.3.9",)), (for_cpu, ())])
def test_builds_for_a_gpu_and_for_cpus_are_not_portable_and_versions_of_plans_are_recorded(
    tmp_path: Path, repository: str, s3: Any, build: Any, plans: tuple[str, ...]
) -> None:
    artifact = pack(build(tmp_path), output=tmp_path / "out")

    publish([artifact], repository=repository, s3=s3)

    record = consistent_manifest(repository, s3).models["minilm"].artifacts[artifact.name]
    assert (record.portable, record.plans) == (False, plans)


def test_a_network_kept_beside_its_plan_is_not_portable(tmp_path: Path) -> None:
    root = for_gpu(tmp_path)
    write_onnx(root / "minilm_encoder")

    assert not is_portable(read_layout(root))


def test_the_platform_tells_tensorrt_as_the_backend_does(tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")
    with Edit(root / "minilm_encoder") as config:
        config.backend, config.platform = "", "tensorrt_plan"

    assert is_portable(read_layout(root))
