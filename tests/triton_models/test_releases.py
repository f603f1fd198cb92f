from __future__ import annotations

import botocore.session
import pytest

from tests.reported import reported
from triton_models.facts.host_amis import HOST_AMIS, PATTERN
from triton_models.facts.releases import IMAGE_ACCOUNTS, RELEASES, image_account, release


def test_every_host_ami_is_one_that_sagemaker_knows() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    known = set(model.shape_for("ProductionVariantInferenceAmiVersion").enum)

    assert {each.inference_ami for each in RELEASES.values()} <= known
    assert set(HOST_AMIS) <= {name for name in known if PATTERN.fullmatch(name)}


def test_every_region_of_a_release_has_an_account() -> None:
    assert all(set(each.regions) <= set(IMAGE_ACCOUNTS) for each in RELEASES.values())


@pytest.mark.parametrize(
    ("region", "name", "rule", "fix"),
    [
        ("us-east-9", "25.09", "release-not-in-region", "us-east-1"),
        ("cn-north-1", "25.09", "release-not-in-region", "25.04"),
        ("us-east-1", "24.10", "release-not-on-sagemaker", ""),
    ],
)
def test_a_release_that_a_region_lacks_is_answered_with_what_it_has(
    region: str, name: str, rule: str, fix: str
) -> None:
    with reported(rule) as problems:
        image_account(region=region, release=release(name))
    assert fix in problems[0].fix


@pytest.mark.parametrize(
    ("name", "tensorrt", "cuda", "onnxruntime"),
    [
        ("25.07", "10.11.0.33", "12.9.1", "1.22.0"),
        ("25.11", "10.13.3.9", "13.0.2", "1.23.2"),
        ("26.10", "11.1.0.106", "13.3", "1.28.0"),
    ],
)
def test_a_release_that_the_table_lacks_is_assumed_to_be_like_the_one_before(
    name: str, tensorrt: str, cuda: str, onnxruntime: str
) -> None:
    found = release(name)

    assert (found.name, found.is_listed, found.on_sagemaker) == (name, False, False)
    assert (found.tensorrt, found.cuda, found.onnxruntime) == (tensorrt, cuda, onnxruntime)


@pytest.mark.parametrize("given", ["25.9", "25.09-py3", "25.90", "99.01"])
def test_an_unknown_release_is_answered_with_a_close_one_or_the_default(given: str) -> None:
    with reported("unknown-release") as problems:
        release(given)

    assert given in problems[0].what
    assert "25.09" in problems[0].fix
