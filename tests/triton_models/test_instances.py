from __future__ import annotations

import re

import botocore.session
import pytest

from triton_models.base.errors import FleetError
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, GPUS, INSTANCE_TYPES, gpu, instance_type


def test_the_default_instance_type_has_one_a10g_and_is_documented_for_multi_model() -> None:
    default = instance_type(DEFAULT_INSTANCE_TYPE)

    assert default.gpu == gpu("A10G")
    assert (default.gpu_count, default.vcpus, default.memory_gib, default.nvme_gb) == (1, 8, 32, 450)
    assert default.multi_model_documented


def test_every_instance_type_is_one_that_sagemaker_hosts() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")

    assert set(INSTANCE_TYPES) <= set(model.shape_for("ProductionVariantInstanceType").enum)


def test_no_instance_type_has_a_processor_that_cannot_run_the_image() -> None:
    # EC2 marks Graviton with a g behind the generation: c7g, m6gd, g5g. Triton's image is for x86-64.
    assert [name for name in INSTANCE_TYPES if re.match(r"ml\.[a-z]+\d+[a-z]*g", name)] == []


def test_what_is_documented_for_multi_model_has_at_most_one_gpu() -> None:
    assert all(known.gpu_count <= 1 for known in INSTANCE_TYPES.values() if known.multi_model_documented)


def test_the_documented_gpu_types_are_the_ones_on_the_aws_page() -> None:
    documented = {
        known.name for known in INSTANCE_TYPES.values() if known.multi_model_documented and known.gpu
    }

    sizes = ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")
    assert documented == {f"ml.{family}.{size}" for family in ("g4dn", "g5") for size in sizes} | {
        "ml.p3.2xlarge"
    }


def test_two_gpu_models_share_a_compute_capability() -> None:
    assert GPUS["L4"].compute_capability == GPUS["L40S"].compute_capability
    assert GPUS["L4"] != GPUS["L40S"]


def test_an_unknown_instance_type_is_answered_with_close_ones() -> None:
    with pytest.raises(FleetError) as caught:
        instance_type("g5.2xlarge")

    (problem,) = caught.value.problems
    assert "'g5.2xlarge'" in problem.what
    assert "ml.g5.2xlarge" in problem.fix


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("ml.inf2.xlarge", "use ml.g5.2xlarge"),
        ("ml.g5.3xlarge", "did you mean ml.g5."),
        ("ml.r7i.xlarg", "ml.r7i.xl"),
    ],
)
def test_only_types_of_the_same_kind_are_suggested(given: str, fix: str) -> None:
    with pytest.raises(FleetError) as caught:
        instance_type(given)

    assert fix in caught.value.problems[0].fix


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("a10", "did you mean A10G?"),
        ("A100", "did you mean A100-40GB or A100-80GB?"),
        ("V200", "use that of the endpoint's instance type, one of V100, T4"),
    ],
)
def test_an_unknown_gpu_is_answered_with_a_close_one(given: str, fix: str) -> None:
    with pytest.raises(FleetError) as caught:
        gpu(given)

    assert caught.value.problems[0].fix.startswith(fix)


@pytest.mark.parametrize(
    ("name", "vcpus", "memory_gib"),
    [
        ("ml.m5.24xlarge", 96, 384),
        ("ml.c5.9xlarge", 36, 72),
        ("ml.c7i.large", 2, 4),
        ("ml.r7i.48xlarge", 192, 1536),
    ],
)
def test_cpu_types_have_the_sizes_that_ec2_says(name: str, vcpus: int, memory_gib: float) -> None:
    found = instance_type(name)

    assert (found.gpu, found.vcpus, found.memory_gib, found.nvme_gb) == (None, vcpus, memory_gib, 0)
    assert found.multi_model_documented
