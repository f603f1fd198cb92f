"""Whatever is combined gives a template that the services accept, or one error of ours that says why not.

`make fuzz` tries thousands of combinations, and lints each template as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fleet_strategies as some
import pytest
from aws_cdk.assertions import Template
from botocore_model import violations
from cfnlint.api import ManualArgs, lint
from declared import declare, of_placement, with_serving, with_values
from fleet_strategies import World, realised
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from triton_fleet import (
    AlarmTopic,
    BuildRuns,
    DeploymentBuild,
    Endpoint,
    EndpointAlarms,
    EndpointAlias,
    EndpointDashboard,
    EndpointNetwork,
    EndpointScaling,
    EndpointWarmUp,
    FleetError,
    GreenFleetAlarms,
    ModelBuildProject,
    ModelRepository,
    MultiModelEndpoint,
    RollbackAlarms,
    Serving,
    SingleModelEndpoint,
    endpoint_name_for,
)

pytestmark = pytest.mark.story

FUZZ = os.environ.get("FLEET_FUZZ") == "1"
EXAMPLES = int(os.environ.get("FLEET_FUZZ_EXAMPLES", "700")) if FUZZ else 40
"""For each of the searches below."""

Given = Mapping[str, Any]
search = settings(
    max_examples=EXAMPLES,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # an example as it was found says enough
    derandomize=not FUZZ,
    suppress_health_check=list(HealthCheck),
)
maybe_network = st.none() | some.network


def _template_or_error(declare: Callable[[World], object]) -> str:
    """Return the template or the error; anything else fails."""
    world = World()
    try:
        declare(world)
        template = Template.from_stack(world.stack).to_json()
    except FleetError as error:
        parts = [(each.what, each.where, each.fix) for each in error.problems]
        assert all(all(problem) for problem in parts), parts
        return "refused"
    assert violations(template) == []
    if FUZZ:
        found = lint(json.dumps(template), config=ManualArgs(regions=["us-east-1"]))
        assert [str(match) for match in found] == []
    return "accepted"


def _watched(
    world: World, endpoint: Endpoint, scaling: Given | None, alarms: Given, dashboard: Given
) -> None:
    """Declare the parts that any endpoint can have."""
    stack = world.stack
    scaled = None
    if scaling is not None:
        scaled = EndpointScaling(stack, "Scaling", endpoint=endpoint, **realised(scaling, world))
    alarmed = EndpointAlarms(stack, "Alarms", endpoint=endpoint, **realised(alarms, world))
    EndpointDashboard(
        stack, "Dashboard", endpoint=endpoint, alarms=alarmed, scaling=scaled, **realised(dashboard, world)
    )
    endpoint.grant_invoke(some.ROLE.make(world))


def _network(world: World, given: Given | None) -> dict[str, Any]:
    return (
        {}
        if given is None
        else {"network": EndpointNetwork(world.stack, "Network", **realised(given, world))}
    )


@search
@given(
    repository=some.repository,
    endpoint=some.multi_model,
    network=maybe_network,
    around=some.around_an_endpoint,
    watched=some.watched,
)
def test_any_multi_model_endpoint_is_a_good_template_or_our_error(
    repository: Given, endpoint: Given, network: Given | None, around: Given, watched: Given
) -> None:
    def declare(world: World) -> None:
        models = ModelRepository(world.stack, "Repository", **realised(repository, world))
        served = MultiModelEndpoint(
            world.stack,
            "Endpoint",
            repository=models,
            **with_values(_network(world, network) | realised(endpoint, world)),
        )
        if watched["warm_up"] is not None:
            EndpointWarmUp(world.stack, "WarmUp", endpoint=served, **realised(watched["warm_up"], world))
        if watched["new_fleet"] is not None:
            GreenFleetAlarms(world.stack, "New", endpoint=served, **realised(watched["new_fleet"], world))
        _watched(world, served, **around)

    _template_or_error(declare)


@search
@given(endpoint=some.single_model, network=maybe_network, around=some.around_an_endpoint)
def test_any_single_model_endpoint_is_a_good_template_or_our_error(
    endpoint: Given, network: Given | None, around: Given
) -> None:
    def declare(world: World) -> None:
        served = SingleModelEndpoint(
            world.stack,
            "Endpoint",
            repository=ModelRepository(world.stack, "Repository"),
            **of_placement(_network(world, network) | realised(endpoint, world)),
        )
        _watched(world, served, **around)

    _template_or_error(declare)


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source folder of model builds."""
    return declare(tmp_path_factory.mktemp("model_builds"), "minilm")


@search
@given(given=some.beside_an_endpoint)
def test_anything_beside_an_endpoint_is_a_good_template_or_our_error(builds: Path, given: Given) -> None:
    def declare(world: World) -> None:
        stack = world.stack
        part = {name: each if each is None else realised(each, world) for name, each in given.items()}
        models = ModelRepository(stack, "Repository")
        made = ModelBuildProject(
            stack, "Builds", repository=models, **with_serving({"source": builds, **part["builds"]})
        )
        started = made if part["runs"] is None else BuildRuns(stack, "Runs", builds=made, **part["runs"])
        if part["deployment_build"] is not None:
            DeploymentBuild(stack, "DeploymentBuild", builds=started, **part["deployment_build"])
        RollbackAlarms(stack, "Rollback", **part["rollback"])
        AlarmTopic(stack, "Topic", **part["topic"])
        fleet, types = part["fleet"]["fleet"], part["types"]
        served = MultiModelEndpoint(
            stack,
            "Endpoint",
            repository=models,
            endpoint_name=endpoint_name_for(fleet, *types),
            serving=Serving(instance_type=types[0]),
        )
        alias = EndpointAlias(stack, "Alias", endpoint=served, fleet=fleet)
        elsewhere = MultiModelEndpoint.from_endpoint_name(stack, "Imported", **part["imported"])
        role = some.ROLE.make(world)
        alias.grant_invoke(role)
        for each in (served, elsewhere):
            each.grant_invoke(role, **part["patterns"])

    _template_or_error(declare)


def test_the_combinations_are_not_all_refused() -> None:
    """The search would prove little if hardly a combination came through."""
    outcomes = []

    @settings(max_examples=40, derandomize=True, database=None)
    @given(endpoint=some.multi_model)
    def tried(endpoint: Given) -> None:
        def declare(world: World) -> None:
            models = ModelRepository(world.stack, "Repository")
            MultiModelEndpoint(
                world.stack, "Endpoint", repository=models, **with_values(realised(endpoint, world))
            )

        outcomes.append(_template_or_error(declare))

    tried()
    assert outcomes.count("accepted") >= 4
    assert outcomes.count("refused") >= 4
