"""Whatever is combined gives a template that the services accept, or one error of ours that says why not.

`make fuzz` tries thousands of combinations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Template
from declared import declare
from fleet_strategies import NAMES, ROLE, TYPES, Strategy, World, arguments, mostly, realised
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from synthesised import refusals

from triton_fleet import (
    AlarmTopic,
    AutomaticBuilds,
    BuildRuns,
    DeploymentBuild,
    Endpoint,
    EndpointAlarms,
    EndpointAlias,
    EndpointDashboard,
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
from triton_fleet.parts.arguments.late import late_problems

pytestmark = pytest.mark.story

FUZZ = os.environ.get("FLEET_FUZZ") == "1"
EXAMPLES = int(os.environ.get("FLEET_FUZZ_EXAMPLES", "700")) if FUZZ else 25
"""For each of the searches below."""

Given = Mapping[Any, Any]
"""The arguments of each part, by its class; None if there is no such part."""
search = settings(
    max_examples=EXAMPLES,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # an example as it was found says enough
    derandomize=not FUZZ,
    suppress_health_check=list(HealthCheck),
)


def _parts(*required: type, optional: tuple[type, ...] = ()) -> Strategy:
    return st.fixed_dictionaries(
        {
            **{each: arguments(each, one_in=8) for each in required},
            **{each: st.none() | arguments(each, one_in=8) for each in optional},
        }
    )


AROUND = (EndpointScaling, EndpointAlarms, EndpointDashboard)


def _template_or_error(declare: Callable[[World], object]) -> str:
    """Return the template or the error; anything else fails."""
    world = World()
    try:
        declare(world)
        Template.from_stack(world.stack)
    except (FleetError, RuntimeError) as error:  # the CDK's own error has the late problems as text
        problems = error.problems if isinstance(error, FleetError) else tuple(late_problems(world.stack))
        assert problems
        parts = [(each.what, each.where, each.fix) for each in problems]
        assert all(all(problem) for problem in parts), parts
        return "refused"
    assert refusals(world.stack) == []
    return "accepted"


def _make(world: World, part: Any, given: Given, **more: Any) -> Any:
    """Declare a part, unless it is left out."""
    return (
        None
        if given[part] is None
        else part(world.stack, part.__name__, **more, **realised(given[part], world))
    )


def _watch(world: World, endpoint: Endpoint, given: Given) -> None:
    """Declare the parts that any endpoint can have."""
    scaling = _make(world, EndpointScaling, given, endpoint=endpoint)
    alarms = _make(world, EndpointAlarms, given, endpoint=endpoint)
    _make(world, EndpointDashboard, given, endpoint=endpoint, alarms=alarms, scaling=scaling)
    endpoint.grant_invoke(ROLE.make(world))


@search
@given(_parts(ModelRepository, MultiModelEndpoint, optional=(*AROUND, EndpointWarmUp, GreenFleetAlarms)))
def test_any_multi_model_endpoint_is_a_good_template_or_our_error(given: Given) -> None:
    def declare(world: World) -> None:
        models = _make(world, ModelRepository, given)
        endpoint = _make(world, MultiModelEndpoint, given, repository=models)
        _make(world, EndpointWarmUp, given, endpoint=endpoint)
        _make(world, GreenFleetAlarms, given, endpoint=endpoint)
        _watch(world, endpoint, given)

    _template_or_error(declare)


@search
@given(_parts(SingleModelEndpoint, optional=AROUND))
def test_any_single_model_endpoint_is_a_good_template_or_our_error(given: Given) -> None:
    def declare(world: World) -> None:
        models = ModelRepository(world.stack, "Repository")
        _watch(world, _make(world, SingleModelEndpoint, given, repository=models), given)

    _template_or_error(declare)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source folder of model builds."""
    return declare(tmp_path_factory.mktemp("model_builds"), "minilm")


@search
@given(
    given=_parts(
        RollbackAlarms, ModelBuildProject, AlarmTopic, optional=(BuildRuns, DeploymentBuild, AutomaticBuilds)
    ),
    fleet=NAMES,
    types=mostly(["ml.g5.2xlarge"], ["ml.g5.2xlarge", "ml.m5.xlarge"])
    | st.lists(TYPES, min_size=1, max_size=1),
)
def test_anything_beside_an_endpoint_is_a_good_template_or_our_error(
    source: Path, given: Given, fleet: str, types: list[str]
) -> None:
    def declare(world: World) -> None:
        stack = world.stack
        models = ModelRepository(stack, "Repository")
        builds = _make(world, ModelBuildProject, given, repository=models, source=source)
        runs = _make(world, BuildRuns, given, builds=builds)
        _make(world, DeploymentBuild, given, builds=runs or builds)
        if runs is not None:
            _make(world, AutomaticBuilds, given, runs=runs)
        _make(world, RollbackAlarms, given)
        _make(world, AlarmTopic, given)
        served = MultiModelEndpoint(
            stack,
            "Endpoint",
            repository=models,
            endpoint_name=endpoint_name_for(fleet, *types),
            serving=Serving(instance_type=types[0]),
        )
        role = ROLE.make(world)
        EndpointAlias(stack, "Alias", endpoint=served, fleet=fleet).grant_invoke(role)
        elsewhere = MultiModelEndpoint.from_endpoint_name(stack, "Imported", "search")
        for each in (served, elsewhere):
            each.grant_invoke(role, target_models=["minilm-*"])

    _template_or_error(declare)


def test_the_combinations_are_not_all_refused() -> None:
    """The search would prove little if hardly a combination came through."""
    outcomes = []

    @settings(max_examples=40, derandomize=True, database=None)
    @given(_parts(MultiModelEndpoint))
    def tried(given: Given) -> None:
        def declare(world: World) -> None:
            models = ModelRepository(world.stack, "Repository")
            _make(world, MultiModelEndpoint, given, repository=models)

        outcomes.append(_template_or_error(declare))

    tried()
    assert outcomes.count("accepted") >= 4
    assert outcomes.count("refused") >= 4
