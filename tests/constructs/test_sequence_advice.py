from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack, Token
from aws_cdk.assertions import Annotations, Match
from declared import Build, declare, with_values

from triton_fleet import (
    DeploymentBuild,
    EndpointScaling,
    InstancePool,
    ModelRepository,
    MultiModelEndpoint,
    SingleModelEndpoint,
    Variant,
)

DIALOGUE, FORM, PLAIN = (
    f"{name}-0123456789abcdef.tar.gz" for name in ("dialogue", "dialogue_small", "minilm")
)


@pytest.fixture
def builds(build: Build, source: Path) -> Build:
    """Makes a build job of `minilm`, and of `dialogue` with its sequences."""
    declare(source, "dialogue")
    (source / "models/dialogue/config.pbtxt").write_text("sequence_batching { direct { } }")
    return lambda *models: build(models=models or None)


@pytest.fixture
def serve(stack: Stack, repository: ModelRepository) -> Callable[..., MultiModelEndpoint]:
    return lambda **given: MultiModelEndpoint(stack, "Endpoint", repository=repository, **with_values(given))


@pytest.fixture
def serve_one(stack: Stack, repository: ModelRepository) -> Callable[..., SingleModelEndpoint]:
    return lambda *variants: SingleModelEndpoint(stack, "Endpoint", repository=repository, variants=variants)


def warned(stack: Stack) -> list[str]:
    """The constructs that are warned about `dialogue`, and no other model."""
    says = Match.string_like_regexp("Sequence batching in dialogue, ")
    found = Annotations.from_stack(stack).find_warning("*", says)
    return sorted(each.id.removeprefix("/Fleet/") for each in found)


POOLS = {"instance_pools": ["ml.g5.xlarge"], "allow_unlisted_instance_pools": True}
LATER = Token.as_number({"Ref": "Count"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"initial_instance_count": 2}, ["Endpoint"]),
        ({"initial_instance_count": 1}, []),
        ({"initial_instance_count": LATER}, ["Endpoint"]),
        ({"initial_instance_count": 2, **POOLS}, ["Endpoint"]),
        ({"initial_instance_count": 1, **POOLS}, []),
    ],
)
def test_several_instances_without_scaling_are_warned_about(
    given: dict[str, Any], expected: list[str], stack: Stack, builds: Any, serve: Any
) -> None:
    serve(**given)  # which models there are is known when the app is synthesised
    builds()

    assert warned(stack) == expected


@pytest.mark.parametrize(("max_capacity", "expected"), [(2, ["Scaling"]), (1, [])])
def test_scaling_to_several_instances_is_warned_about(
    max_capacity: int, expected: list[str], stack: Stack, builds: Any, serve: Any
) -> None:
    builds()
    EndpointScaling(stack, "Scaling", endpoint=serve(), max_capacity=max_capacity)

    assert warned(stack) == expected


@pytest.mark.parametrize(
    ("variants", "expected"),
    [
        ([Variant(artifact=DIALOGUE, initial_instance_count=2)], ["Endpoint"]),
        ([Variant(artifact=FORM, initial_instance_count=2)], ["Endpoint"]),
        ([Variant(artifact=DIALOGUE)], []),
        ([Variant(artifact=PLAIN, initial_instance_count=2)], []),
        ([Variant(artifact=DIALOGUE, name="Old"), Variant(artifact=DIALOGUE, name="New")], ["Endpoint"]),
        (
            [
                Variant(
                    artifact=PLAIN,
                    initial_instance_count=2,
                    instance_pools=[InstancePool(instance_type="ml.g5.xlarge", artifact=DIALOGUE)],
                )
            ],
            ["Endpoint"],
        ),
    ],
    ids=["several", "of a form", "one", "another model", "one of each variant", "in a pool"],
)
def test_an_endpoint_of_one_model_is_warned_about_for_that_model(
    variants: list[Variant], expected: list[str], stack: Stack, builds: Any, serve_one: Any
) -> None:
    builds()
    serve_one(*variants)

    assert warned(stack) == expected


@pytest.mark.parametrize(("model", "expected"), [("dialogue", ["Endpoint"]), ("minilm", [])])
def test_the_artifact_of_a_deployments_build_is_of_the_model_that_it_was_asked_for(
    model: str, expected: list[str], stack: Stack, builds: Any, serve_one: Any
) -> None:
    artifact = DeploymentBuild(stack, "Build", builds=builds()).artifact(model)
    serve_one(Variant(artifact=artifact, initial_instance_count=2))

    assert warned(stack) == expected
