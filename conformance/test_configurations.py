"""Beliefs about CreateModel and CreateEndpointConfig, which cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from conformance.account import CPU_TYPE, Account, refusal
from conformance.beliefs import account
from conformance.records import Asked
from triton_models.facts.host_amis import family
from triton_models.facts.instances import INSTANCE_TYPES

pytestmark = account(cheap=True, minutes=0.1, creates="a bucket, a role, a model, configurations")

AMIS = ("al2-ami-sagemaker-inference-gpu-3-1", "al2023-ami-sagemaker-inference-gpu-4-1")
FAMILIES = ("g4dn", "g5")

Refused = Callable[..., str]


def listed_types() -> Iterator[str]:
    """Yield the types with one GPU that AWS lists, and one type per family without a GPU."""
    listed = [each for each in INSTANCE_TYPES.values() if each.multi_model_documented]
    yield from (each.name for each in listed if each.gpu and family(each) in FAMILIES)
    yield from {family(each): each.name for each in listed if not each.gpu}.values()


@pytest.fixture(scope="module")
def refused(aws: Account) -> Refused:
    """A function that creates a multi-model configuration, and returns the code of the refusal, or ""."""
    numbers = count()
    aws.put("manifest.json", b"{}")
    model = aws.model("configured")

    def create(*changes: dict[str, Any], **more: Any) -> str:
        variants = [{**aws.variant(model), **change} for change in changes or ({},)]
        for each in variants:
            if "InstancePools" in each:
                del each["InstanceType"]
        if shadow := more.pop("shadow", None):
            more["ShadowProductionVariants"] = [aws.variant(model, VariantName=shadow)]
        return refusal(lambda: aws.configuration(f"number-{next(numbers)}", *variants, **more))

    assert create() == "", "a plain configuration must be accepted"
    return create


def test_a_prefix_without_an_object_is_accepted(aws: Account, ask: Asked) -> None:
    assert ask(lambda: refusal(lambda: aws.model("empty", prefix="empty/"))) == ""


@pytest.mark.parametrize("name", list(listed_types()))
def test_a_listed_type_is_accepted(refused: Refused, ask: Asked, name: str) -> None:
    assert ask(lambda: refused({"InstanceType": name})) == ""


@pytest.mark.parametrize("name", ["ml.g6.xlarge", "ml.g6e.xlarge"])
def test_a_type_that_aws_does_not_list_is_accepted(refused: Refused, ask: Asked, name: str) -> None:
    assert ask(lambda: refused({"InstanceType": name})) == ""


def test_features_of_single_model_endpoints_are_refused(aws: Account, refused: Refused, ask: Asked) -> None:
    capture = {
        "EnableCapture": True,
        "InitialSamplingPercentage": 1,
        "DestinationS3Uri": f"s3://{aws.bucket}/captured",
        "CaptureOptions": [{"CaptureMode": "Input"}],
    }
    names = ("ml.g5.xlarge", "ml.g5.2xlarge")
    pools = [{"InstanceType": name, "Priority": number} for number, name in enumerate(names, 1)]
    assert ask(lambda: refused(DataCaptureConfig=capture), "data capture")
    assert ask(lambda: refused(shadow="Other"), "a shadow variant")
    assert ask(lambda: refused({}, {"VariantName": "Other"}), "two variants")
    assert ask(lambda: refused({"InstancePools": pools}), "instance pools")


def test_a_volume_is_refused_on_a_type_with_a_disk(refused: Refused, ask: Asked) -> None:
    assert ask(lambda: refused({"VolumeSizeInGB": 100}))


def test_features_that_aws_leaves_open_are_accepted(refused: Refused, ask: Asked) -> None:
    routing = {"RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}}
    metrics = {"EnableEnhancedMetrics": True, "EnableDetailedObservability": True}
    assert ask(lambda: refused(routing), "least outstanding requests") == ""
    assert ask(lambda: refused(MetricsConfig=metrics), "detailed observability") == ""


@pytest.mark.parametrize("ami", AMIS)
@pytest.mark.parametrize("kind", FAMILIES)
def test_an_ami_fits_a_family(refused: Refused, ask: Asked, ami: str, kind: str) -> None:
    change = {"InstanceType": f"ml.{kind}.2xlarge", "InferenceAmiVersion": ami}
    assert ask(lambda: refused(change)) == ""


def test_an_ami_for_gpus_is_refused_without_one(refused: Refused, ask: Asked) -> None:
    assert ask(lambda: refused({"InstanceType": CPU_TYPE, "InferenceAmiVersion": AMIS[-1]}))
