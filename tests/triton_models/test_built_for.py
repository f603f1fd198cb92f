"""The GPU that an artifact was built for, and those that it also runs on."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from triton_models.artifact.targets import plan_gpu, plan_runs_on
from triton_models.base.errors import FleetError
from triton_models.facts.instances import GPUS
from triton_models.repository.check_endpoint import check_endpoint
from triton_models.repository.history import built_for
from triton_models.repository.manifest import ArtifactRecord, Manifest, Publication
from triton_models.repository.serving import serving_with

RECORD = ArtifactRecord(
    size=1,
    sha256="00",
    build={"gpu": "L4", "release": "25.09", "tensorrt": "10.13.3.9"},
    plans=("10.13.3.9",),
)
NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
MANIFEST = Manifest().with_published(
    [Publication(model="m", artifact="m-1", record=RECORD)], at=NOON, by="ann"
)


@pytest.mark.parametrize(
    ("instance_type", "expected"),
    [("ml.g4dn.xlarge", "ml.g4dn.xlarge has T4"), ("ml.c5.xlarge", "ml.c5.xlarge has no GPU")],
)
def test_a_gpu_without_a_plan_is_refused(instance_type: str, expected: str) -> None:
    check_endpoint(MANIFEST, serving_with(instance_type="ml.g6.2xlarge", release="25.09"))
    with pytest.raises(FleetError) as caught:
        check_endpoint(MANIFEST, serving_with(instance_type=instance_type, release="25.09"))
    (problem,) = caught.value.problems
    assert problem.what == f"a plan for L4, and {expected}"


def test_a_plan_of_another_gpu_of_the_same_compute_capability_is_named() -> None:
    fit = check_endpoint(MANIFEST, serving_with(instance_type="ml.g6e.xlarge", release="25.09"))

    assert fit.other_gpus == ("m",)
    assert "TensorRT warns" in list(fit.lines())[-1]


@pytest.mark.parametrize(
    ("level", "runs_on"),
    [
        (None, set()),
        ("sameComputeCapability", {"L40S"}),
        ("ampere+", {"L40S", "A10G", "A100-40GB", "H100", "B200"}),
    ],
)
def test_a_build_may_choose_other_gpus_for_a_plan(level: str | None, runs_on: set[str]) -> None:
    record = {"gpu": "L4", "plans": {"m/1/model.plan": {"gpu": "L4", "hardware": level}}}

    gpus = ("L40S", "A10G", "A100-40GB", "H100", "B200", "T4")
    assert {each for each in gpus if plan_runs_on(record, "m/1/model.plan", GPUS[each])} == runs_on


def test_a_list_of_what_was_published_names_the_gpu() -> None:
    assert built_for(RECORD) == "L4, release 25.09, TensorRT 10.13.3.9"


@pytest.mark.parametrize("plans", [None, [], {}, {"p": 3}, {"p": {}}])
def test_a_plan_that_nothing_is_recorded_about_is_of_the_only_gpu(plans: Any) -> None:
    assert plan_gpu({"gpu": "L4", "plans": plans}, "p") == "L4"
    assert plan_gpu({"gpu": 7, "plans": plans}, "p") is None


def test_a_plan_is_of_the_gpu_that_is_recorded_with_it() -> None:
    assert plan_gpu({"gpu": "L4", "plans": {"p": {"gpu": "L40S"}}}, "p") == "L40S"
