from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from aws_cdk import CfnParameter, Environment, Stack
from aws_cdk import aws_ecr as ecr
from aws_cdk.assertions import Template

from tests.reported import problems_of, reported
from triton_fleet.parts.images.image import CustomImage, TritonImage, image_labels
from triton_models.base.errors import FleetError
from triton_models.facts.releases import RELEASES, release

LABEL = "com.amazonaws.sagemaker.capabilities.multi-models"
REGISTRY = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"
DIGEST = f"sha256:{'0f' * 32}"


@pytest.fixture
def registry(stack: Stack) -> ecr.Repository:
    return ecr.Repository(stack, "Images")


def _rules(image: CustomImage, *, region: str | None = None, multi_model: bool = True) -> list[str]:
    found = problems_of(image._check, region=region, multi_model=multi_model)
    return [problem.rule for problem in found]


def test_a_stack_with_a_region_names_the_account(stack_in: Callable[[str], Stack]) -> None:
    stack = stack_in("eu-south-1")
    image = TritonImage.of(stack, release=release("25.09"))

    assert image.uri.startswith("692866216735.dkr.ecr.eu-south-1.")
    assert image.uri.endswith("/sagemaker-tritonserver:25.09-py3")
    assert "Mappings" not in Template.from_stack(stack).to_json()


def test_a_stack_without_a_region_maps_exactly_the_regions_that_have_the_image(stack: Stack) -> None:
    image = TritonImage.of(stack, release=release("25.09"))
    (accounts,) = Template.from_stack(stack).find_mappings("*").values()

    assert set(accounts) == set(RELEASES["25.09"].regions)
    assert accounts["af-south-1"] == {"account": "626614931356"}
    assert stack.resolve(image.account) == {
        "Fn::FindInMap": ["TritonImage2509", {"Ref": "AWS::Region"}, "account"]
    }


def test_releases_do_not_share_a_mapping_for_their_regions_differ(stack: Stack) -> None:
    for name in ("24.09", "25.09", "25.09"):
        TritonImage.of(stack, release=release(name))

    assert len(Template.from_stack(stack).find_mappings("*")) == 2


@pytest.mark.parametrize(("version", "end"), [({"tag": "v7"}, ":v7"), ({"digest": DIGEST}, f"@{DIGEST}")])
def test_an_own_image_is_pulled_by_what_names_it(
    stack: Stack, registry: ecr.Repository, version: dict[str, str], end: str
) -> None:
    own = CustomImage(repository=registry, has_multi_model_label=True, **version)  # type: ignore[arg-type]
    image = own._resolved()

    assert _rules(own) == []
    assert str(stack.resolve(image.uri)["Fn::Join"][1][-1]).endswith(end)
    assert image.pull_statements()[1].resources == [registry.repository_arn]


def test_a_version_from_a_parameter_is_not_judged(stack: Stack, registry: ecr.Repository) -> None:
    tag = CfnParameter(stack, "Tag").value_as_string

    assert _rules(CustomImage(repository=registry, tag=tag, has_multi_model_label=True)) == []


def test_an_image_lies_in_the_region_of_its_endpoint(stack: Stack) -> None:
    elsewhere = Stack(stack, "Elsewhere", env=Environment(region="us-east-1"))
    own = CustomImage(repository=ecr.Repository(elsewhere, "Images"), tag="v7", has_multi_model_label=True)

    assert _rules(own, region="eu-west-1") == ["own-image-region"]
    assert _rules(own, region="us-east-1") == []
    assert _rules(own, region=stack.region) == []


def test_many_models_need_the_label_and_one_does_not(registry: ecr.Repository) -> None:
    own = CustomImage(repository=registry, tag="v7")

    assert _rules(own) == ["own-image-label"]
    assert _rules(own, multi_model=False) == []


def test_what_describes_the_image_outweighs_what_is_said_about_it(
    registry: ecr.Repository, tmp_path: Path
) -> None:
    dockerfile = tmp_path / "Dockerfile"
    own = CustomImage(repository=registry, tag="v7", described_by=dockerfile, has_multi_model_label=True)

    for label, rules in {"": ["own-image-label"], "True": ["own-image-label"], "true": []}.items():
        dockerfile.write_text(f"FROM triton\nLABEL {LABEL}={label}\n" if label else "FROM triton\n")
        assert _rules(own) == rules


@pytest.mark.parametrize("end", ["/mirror/triton:25.09-py3", f"/triton@{DIGEST}"])
def test_an_image_is_named_by_its_address(stack: Stack, end: str) -> None:
    own = CustomImage.from_uri(stack, "Own", f"{REGISTRY}{end}")

    assert str(stack.resolve(own._resolved().uri)).endswith(end.rpartition("/")[2] + "']]}")


@pytest.mark.parametrize("uri", ["triton:25.09-py3", f"{REGISTRY}/triton", f"{REGISTRY}/triton@sha256:12"])
def test_an_address_that_is_no_image_of_a_registry_is_refused(stack: Stack, uri: str) -> None:
    with reported("own-image-version"):
        CustomImage.from_uri(stack, "Own", uri)


@pytest.mark.parametrize(
    "text",
    [
        f"FROM triton\nLABEL {LABEL}=true\n",
        f'from triton\nlabel {LABEL}="true" team=search\n',
        f"FROM triton\nLABEL team=search \\\n  # why\n      {LABEL}=true\n",
        f"FROM triton\r\nLABEL {LABEL} true\r\n",
        f"FROM triton AS base\nLABEL {LABEL}=true\nFROM python AS tools\nFROM --platform=linux/amd64 Base\n",
    ],
)
def test_the_label_is_found_in_a_dockerfile(text: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_bytes(text.encode())

    assert image_labels(tmp_path / "Dockerfile")[LABEL] == "true"


@pytest.mark.parametrize(
    "text",
    [
        f"FROM triton\n# LABEL {LABEL}=true\n",
        f"FROM triton AS build\nLABEL {LABEL}=true\nFROM triton\n",
        f"FROM triton\nRUN echo LABEL {LABEL}=true\n",
    ],
)
def test_a_label_of_another_stage_or_in_a_comment_does_not_count(text: str, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(text)

    assert LABEL not in image_labels(tmp_path / "Dockerfile")


@pytest.mark.parametrize(
    ("described", "labels"),
    [
        ([{"Id": "sha256:1", "Config": {"Labels": {LABEL: "true"}}}], {LABEL: "true"}),
        ({"architecture": "amd64", "config": {"Labels": {LABEL: "true"}}}, {LABEL: "true"}),
        ([{"Config": {"Labels": None}}], {}),
    ],
)
def test_the_labels_are_read_from_what_tools_print(
    described: object, labels: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "image.json").write_text(json.dumps(described))

    assert image_labels(tmp_path / "image.json") == labels


def test_the_label_is_found_in_an_oci_layout(tmp_path: Path) -> None:
    blobs = tmp_path / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    (tmp_path / "index.json").write_text(json.dumps({"manifests": [{"digest": "sha256:list"}]}))
    (blobs / "list").write_text(json.dumps({"manifests": [{"digest": "sha256:manifest"}]}))
    (blobs / "manifest").write_text(json.dumps({"config": {"digest": "sha256:config"}, "layers": []}))
    (blobs / "config").write_text(json.dumps({"config": {"Labels": {LABEL: "true"}}}))

    assert image_labels(tmp_path) == {LABEL: "true"}


@pytest.mark.parametrize("text", ["", "print('hello')", "{not json", "[]", '{"config": null}', "{}"])
def test_what_describes_no_image_is_refused(text: str, registry: ecr.Repository, tmp_path: Path) -> None:
    described = tmp_path / "image"
    described.write_text(text)

    for path in (described, tmp_path / "missing"):
        with pytest.raises(FleetError, match="docker inspect"):
            image_labels(path)
    own = CustomImage(repository=registry, tag="v7", described_by=described)
    assert _rules(own) == ["image-description"]
