from __future__ import annotations

from collections.abc import Callable

from aws_cdk import Stack
from aws_cdk.assertions import Template

from triton_fleet.image import TritonImage
from triton_models.releases import RELEASES, release


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


def test_the_address_ends_as_the_partition_wants(stack: Stack) -> None:
    uri = stack.resolve(TritonImage.of(stack, release=release("25.04")).uri)

    assert {"Ref": "AWS::URLSuffix"} in uri["Fn::Join"][1]


def test_pulling_is_granted_for_the_one_repository(stack: Stack) -> None:
    login, pull = TritonImage.of(stack, release=release("25.09")).pull_statements()

    assert login.actions == ["ecr:GetAuthorizationToken"]
    (resource,) = stack.resolve(pull.resources)
    assert resource["Fn::Join"][1][-1] == ":repository/sagemaker-tritonserver"
