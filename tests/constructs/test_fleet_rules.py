from __future__ import annotations

import pytest

from triton_fleet.rules.build_gpu import build_gpu, build_region
from triton_fleet.rules.capacity import capacity
from triton_fleet.rules.gpu_generation import gpu_generation
from triton_fleet.rules.image_published import image_published, image_region
from triton_fleet.rules.multi_model_gpu import multi_model_gpu
from triton_fleet.rules.plan_portability import PlanTarget, plan_portability
from triton_fleet.rules.scaling_target import scaling_target
from triton_models.facts.build_machines.on_demand import BUILD_MACHINES
from triton_models.facts.instances import GPUS, INSTANCE_TYPES
from triton_models.facts.releases import RELEASES


@pytest.mark.parametrize("name", [each.name for each in INSTANCE_TYPES.values() if each.gpu_count <= 1])
def test_a_type_with_one_gpu_or_none_serves_many_models(name: str) -> None:
    assert multi_model_gpu(INSTANCE_TYPES[name], where="here") is None


@pytest.mark.parametrize("name", [each.name for each in INSTANCE_TYPES.values() if each.gpu_count > 1])
def test_a_type_with_several_does_not(name: str) -> None:
    problem = multi_model_gpu(INSTANCE_TYPES[name], where="here")

    assert problem is not None
    assert problem.rule == "multi-model-one-gpu"
    assert "ml.g5.2xlarge" in problem.expected


def test_the_way_out_of_several_gpus_stays_in_the_family_if_aws_lists_it() -> None:
    several = multi_model_gpu(INSTANCE_TYPES["ml.g4dn.12xlarge"], where="here")
    unlisted = multi_model_gpu(INSTANCE_TYPES["ml.g6.12xlarge"], where="here")

    assert several is not None
    assert unlisted is not None
    assert "ml.g4dn.2xlarge" in several.fix
    assert "ml.g5.2xlarge" in unlisted.fix


@pytest.mark.parametrize(
    ("gpu", "release", "fits"),
    [("V100", "24.09", True), ("V100", "25.04", False), ("T4", "25.09", True), ("A10G", "26.05", True)],
)
def test_a_gpu_must_be_young_enough_for_the_release(gpu: str, release: str, fits: bool) -> None:
    assert (gpu_generation(GPUS[gpu], RELEASES[release], where="here") is None) is fits


def test_the_last_release_for_an_old_gpu_is_named() -> None:
    problem = gpu_generation(GPUS["V100"], RELEASES["25.09"], where="here")

    assert problem is not None
    assert "release 24.09" in problem.fix


def test_an_image_is_published_or_not() -> None:
    assert image_published(RELEASES["25.09"], where="here") is None
    problem = image_published(RELEASES["24.12"], where="here")
    assert problem is not None
    assert problem.rule == "release-not-on-sagemaker"


def test_an_image_is_in_a_region_or_not() -> None:
    assert image_region(RELEASES["25.09"], "eu-west-1", where="here") is None
    assert image_region(RELEASES["25.09"], None, where="here") is None
    problem = image_region(RELEASES["25.09"], "cn-north-1", where="here")
    assert problem is not None
    assert "25.04" in problem.fix


def test_a_release_that_is_nowhere_is_reported_once() -> None:
    assert image_region(RELEASES["24.12"], "eu-west-1", where="here") is None


def test_a_gpu_is_for_rent_by_the_minute_or_not() -> None:
    assert build_gpu(INSTANCE_TYPES["ml.g5.xlarge"], None, where="here") is None
    assert build_gpu(INSTANCE_TYPES["ml.g4dn.xlarge"], None, where="here") is not None


def test_a_gpu_is_for_rent_in_a_region_or_not() -> None:
    instance = INSTANCE_TYPES["ml.g5.xlarge"]

    assert build_region(instance, "us-west-2", where="here") is None
    assert build_region(instance, "us-east-2", where="here") is not None
    assert build_region(instance, None, where="here") is None


def test_every_build_machine_is_found_by_its_own_gpu() -> None:
    assert all(name == machine.gpu.name for name, machine in BUILD_MACHINES.items())


def _target(gpu: str, release: str) -> PlanTarget:
    return PlanTarget(gpu=GPUS[gpu], release=RELEASES[release], path="Fleet/Somewhere")


@pytest.mark.parametrize(
    ("build", "endpoint", "fits"),
    [
        (("A10G", "25.09"), ("A10G", "25.09"), True),
        (("A10G", "23.12"), ("A10G", "24.01"), True),  # the same TensorRT
        (("A10G", "24.09"), ("A10G", "25.09"), False),
        (("L4", "25.09"), ("L40S", "25.09"), False),  # the same compute capability
    ],
)
def test_a_plan_loads_on_its_own_gpu_model_and_tensorrt(
    build: tuple[str, str], endpoint: tuple[str, str], fits: bool
) -> None:
    problem = plan_portability(build=_target(*build), endpoint=_target(*endpoint), where="here")

    assert (problem is None) is fits


@pytest.mark.parametrize(
    ("minimum", "maximum", "fits"),
    [(1, 1, True), (1, 4, True), (None, 4, True), (3, None, True), (0, 4, False), (5, 4, False)],
)
def test_a_capacity_is_a_range_from_one_up(minimum: int | None, maximum: int | None, fits: bool) -> None:
    assert (capacity(minimum, maximum, where="here") is None) is fits


@pytest.mark.parametrize(
    ("value", "limit", "fits"),
    [
        (60, 100, True),
        (100, 100, True),
        (101, 100, False),
        (0, None, False),
        (-1, None, False),
        (None, 1, True),
    ],
)
def test_a_target_can_be_reached(value: float | None, limit: float | None, fits: bool) -> None:
    assert (scaling_target(value, limit=limit, where="here") is None) is fits
