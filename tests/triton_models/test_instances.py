from __future__ import annotations

import re

import botocore.session
import pytest

from tests.reported import reported
from triton_models.facts.instances import INSTANCE_TYPES, gpu, instance_type


def test_every_instance_type_is_one_that_sagemaker_hosts() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")

    assert set(INSTANCE_TYPES) <= set(model.shape_for("ProductionVariantInstanceType").enum)


def test_multi_model_endpoints_accept_every_type_without_a_gpu() -> None:
    assert all(known.multi_model_documented for known in INSTANCE_TYPES.values() if not known.gpu)


def test_no_instance_type_has_a_processor_that_cannot_run_the_image() -> None:
    # EC2 marks Graviton with a g behind the generation: c7g, m6gd, g5g. Triton's image is for x86-64.
    assert [name for name in INSTANCE_TYPES if re.match(r"ml\.[a-z]+\d+[a-z]*g", name)] == []


def test_the_documented_gpu_types_are_the_ones_on_the_aws_page() -> None:
    documented = {
        known.name for known in INSTANCE_TYPES.values() if known.multi_model_documented and known.gpu
    }

    sizes = ("xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge")
    assert documented == {f"ml.{family}.{size}" for family in ("g4dn", "g5") for size in sizes} | {
        "ml.p3.2xlarge"
    }


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("g5.2xlarge", "ml.g5.2xlarge"),
        ("ml.inf2.xlarge", "use ml.g5.2xlarge"),
        ("ml.g5.3xlarge", "did you mean ml.g5."),
        ("ml.r7i.xlarg", "ml.r7i.xl"),
    ],
)
def test_only_types_of_the_same_kind_are_suggested(given: str, fix: str) -> None:
    with reported("unknown-instance-type") as problems:
        instance_type(given)

    assert fix in problems[0].fix
    assert repr(given) in problems[0].what


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("a10", "did you mean A10G?"),
        ("A100", "did you mean A100-40GB or A100-80GB?"),
        ("V200", "use that of the endpoint's instance type, one of V100, T4"),
    ],
)
def test_an_unknown_gpu_is_answered_with_a_close_one(given: str, fix: str) -> None:
    with reported("unknown-gpu") as problems:
        gpu(given)

    assert problems[0].fix.startswith(fix)


@pytest.mark.parametrize(
    ("name", "gpus", "vcpus", "memory_gib", "nvme_gb"),
    [
        ("ml.m5.24xlarge", 0, 96, 384, 0),
        ("ml.c7i.large", 0, 2, 4, 0),
        ("ml.r7i.48xlarge", 0, 192, 1536, 0),
        ("ml.g4dn.16xlarge", 1, 64, 256, 900),
        ("ml.g6.12xlarge", 4, 48, 192, 3760),
        ("ml.g6e.48xlarge", 8, 192, 1536, 7600),
    ],
)
def test_types_have_the_sizes_that_ec2_says(
    name: str, gpus: int, vcpus: int, memory_gib: float, nvme_gb: int
) -> None:
    found = instance_type(name)

    assert (found.gpu_count, found.vcpus, found.memory_gib) == (gpus, vcpus, memory_gib)
    assert (found.nvme_gb, found.gpu is None) == (nvme_gb, not gpus)
