from __future__ import annotations

import re

import botocore.session
import pytest

from tests.reported import reported
from triton_models.facts.instances import INSTANCE_TYPES, gpu, instance_type


def test_every_instance_type_is_one_that_sagemaker_hosts() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")

    assert set(INSTANCE_TYPES) <= set(model.shape_for("ProductionVariantInstanceType").enum)


def test_no_instance_type_has_a_processor_that_cannot_run_the_image() -> None:
    # EC2 marks Graviton with a g behind the generation: c7g, m6gd, g5g. Triton's image is for x86-64.
    assert [name for name in INSTANCE_TYPES if re.match(r"ml\.[a-z]+\d+[a-z]*g", name)] == []


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
