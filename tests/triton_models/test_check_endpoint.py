"""`fleet check-endpoint` finds the models that an endpoint could not load."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from tests.reported import reported
from tests.triton_models.publishing_aws import endpoint, file_name, own_endpoints, write_manifest
from triton_models.base.errors import FleetError
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.repository import check_endpoint as check_endpoint_module
from triton_models.repository.check_endpoint import FITS, CheckEndpointOptions, check_endpoint
from triton_models.repository.endpoints import Endpoint, deployed, planned
from triton_models.repository.manifest import ArtifactRecord, Manifest, Publication

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
FOR_A10G = {"gpu": "A10G", "release": "25.09", "tensorrt": "10.13.3.9"}
WITHOUT_PLAN = {"gpu": None, "release": "25.09", "tensorrt": None}
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:25.09-py3"


def _manifest(**models: Any) -> Manifest:
    wanted = [Publication(model=name, artifact=f"{name}-1", record=record) for name, record in models.items()]
    return Manifest().with_published(wanted, at=NOON, by="ann")


def _record(build: dict[str, Any], **fields: Any) -> ArtifactRecord:
    return ArtifactRecord(size=1, sha256="00", build=build, **fields)


G5, OLD_G5 = (planned(instance_type="ml.g5.2xlarge", release=name) for name in ("25.09", "25.04"))
G6 = planned(instance_type="ml.g6.2xlarge", release="25.09")
CPU = planned(instance_type="ml.c5.xlarge", release="25.09")


@pytest.mark.parametrize(
    "record", [_record(FOR_A10G), _record(WITHOUT_PLAN), _record({}), _record({"gpu": "A10G"})]
)
def test_what_was_built_for_the_endpoint_or_needs_no_plan_passes(record: ArtifactRecord) -> None:
    assert check_endpoint(_manifest(m=record), G5).models == ("m",)


@pytest.mark.parametrize(
    ("record", "endpoint", "what"),
    [
        (_record(FOR_A10G), G6, "a plan for A10G, and ml.g6.2xlarge has L4"),
        (_record(FOR_A10G), CPU, "a plan for A10G, and ml.c5.xlarge has no GPU"),
        (_record(FOR_A10G), OLD_G5, "a plan of TensorRT 10.13.3.9, and release 25.04 has TensorRT 10.9.0.34"),
        (
            _record({}, plans=("8.6.1.6",)),
            G5,
            "a plan of TensorRT 8.6.1.6, and release 25.09 has TensorRT 10.13.3.9",
        ),
        (
            _record(WITHOUT_PLAN, portable=True),
            G5,
            "it is portable, and lacks parts for an endpoint, such as a plan",
        ),
    ],
)
def test_what_the_endpoint_would_refuse_is_reported(
    record: ArtifactRecord, endpoint: Endpoint, what: str
) -> None:
    with pytest.raises(FleetError) as caught:
        check_endpoint(_manifest(m=record), endpoint)

    (problem,) = caught.value.problems
    assert (problem.what, problem.rule) == (what, FITS.id)
    assert "m-1" in problem.where


def test_every_asked_model_is_compared_with_every_pool_of_an_endpoint() -> None:
    pools = tuple(INSTANCE_TYPES[name] for name in ("ml.g5.2xlarge", "ml.g6.2xlarge"))
    both = Endpoint(instance_types=pools, release=None, where="endpoint x")
    manifest = _manifest(a=_record(FOR_A10G), b=_record(WITHOUT_PLAN), c=_record(FOR_A10G))

    with reported(FITS.id, FITS.id) as problems:
        check_endpoint(manifest, both)

    assert [problem.where[:1] for problem in problems] == ["a", "c"]
    assert problems[0].what == "a plan for A10G, and ml.g6.2xlarge has L4"
    assert check_endpoint(manifest, G6, models=["b"]).models == ("b",)


def test_a_model_that_nothing_is_known_about_is_named_and_passes() -> None:
    fit = check_endpoint(_manifest(a=_record({}), b=_record(WITHOUT_PLAN)), G6)

    assert fit.unrecorded == ("a",)
    assert list(fit.lines())[1] == "without a build record, so not compared: a"


@pytest.fixture(scope="module")
def sagemaker(aws: str) -> Iterator[Any]:
    with own_endpoints(aws) as made:
        yield made


def deploy(sagemaker: Any, name: str, *, image: str = IMAGE) -> str:
    endpoint(sagemaker, "s3://bucket/models/", name=name, image=image, instance_type="ml.p3.2xlarge")
    return name


def test_a_deployed_endpoint_says_itself_what_it_is(sagemaker: Any) -> None:
    endpoint = deployed(deploy(sagemaker, "fleet"), sagemaker)

    assert [instance.name for instance in endpoint.instance_types] == ["ml.p3.2xlarge"]
    assert endpoint.release is not None
    assert endpoint.release.name == "25.09"
    assert endpoint.where == "endpoint fleet (ml.p3.2xlarge, release 25.09)"


@pytest.fixture
def repository(environment: pytest.MonkeyPatch, repository: str, s3: Any) -> str:
    name = file_name("minilm", "1")
    sha256 = ("1" * 16).ljust(64, "0")
    record = {"size": 1, "sha256": sha256, "build": FOR_A10G, "plans": [], "portable": False}
    model = {"current": {"any": name}, "history": [], "artifacts": {name: record}}
    write_manifest(repository, {"version": 2, "models": {"minilm": model}}, s3)
    return repository


def test_the_command_takes_an_endpoint_that_is_deployed_or_planned(repository: str, sagemaker: Any) -> None:
    planned = CheckEndpointOptions(repository=repository, instance_type="ml.g5.2xlarge", release="25.09")

    assert list(check_endpoint_module.run(planned).lines()) == [
        "ml.g5.2xlarge with release 25.09: 1 model, each built for this target or without a plan"
    ]
    with pytest.raises(FleetError, match=r"ml\.p3\.2xlarge has V100"):
        check_endpoint_module.run(
            CheckEndpointOptions(repository=repository, endpoint=deploy(sagemaker, "deployed"))
        )
    for half in ({"release": "25.09"}, {"endpoint": "fleet", "release": "25.09"}):
        with pytest.raises(FleetError, match="check-endpoint"):
            check_endpoint_module.run(CheckEndpointOptions(repository=repository, **half))


def test_a_plan_of_another_gpu_of_the_same_compute_capability_is_named() -> None:
    record = _record({"gpu": "L4", "release": "25.09", "tensorrt": "10.13.3.9"}, plans=("10.13.3.9",))
    fit = check_endpoint(_manifest(m=record), planned(instance_type="ml.g6e.xlarge", release="25.09"))

    assert fit.other_gpus == ("m",)
    assert "TensorRT warns" in list(fit.lines())[-1]
