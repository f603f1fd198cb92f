"""Whatever is combined gives a template that the services accept, or one error of ours that says why not.

`make fuzz` tries thousands of combinations, and lints each template as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from aws_cdk import App, Duration, Stack
from aws_cdk.assertions import Template
from botocore_model import violations
from cfnlint.api import ManualArgs, lint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triton_fleet import (
    AllAtOnce,
    Canary,
    CpuUtilization,
    EndpointAlarms,
    EndpointDashboard,
    EndpointScaling,
    FleetError,
    GpuMemoryUtilization,
    GpuUtilization,
    InvocationsPerGpu,
    InvocationsPerInstance,
    Linear,
    ModelLatency,
    ModelRepository,
    MultiModelEndpoint,
    Portion,
    Rolling,
    Routing,
    TritonServer,
)
from triton_models.instances import INSTANCE_TYPES
from triton_models.releases import RELEASES

FUZZ = os.environ.get("FLEET_FUZZ") == "1"
EXAMPLES = int(os.environ.get("FLEET_FUZZ_EXAMPLES", "2000")) if FUZZ else 40

portions = st.builds(Portion.percent, st.integers(1, 100)) | st.builds(Portion.instances, st.integers(1, 20))
waits = st.integers(0, 3600).map(Duration.seconds)
deployments = st.one_of(
    st.none(),
    st.builds(AllAtOnce, wait=waits, termination_wait=waits),
    st.builds(Canary, size=portions, wait=waits),
    st.builds(Linear, step=portions, wait=waits),
    st.builds(Rolling, batch=portions, wait=waits),
)
percents = st.floats(0.5, 150, allow_nan=False)
targets = st.one_of(
    st.builds(InvocationsPerGpu, per_minute=st.floats(0.5, 1e6)),
    st.builds(InvocationsPerInstance, per_minute=st.floats(0.5, 1e6)),
    st.builds(GpuUtilization, percent=percents),
    st.builds(GpuMemoryUtilization, percent=percents),
    st.builds(CpuUtilization, percent=percents),
    st.builds(ModelLatency, milliseconds=st.floats(0.5, 1e5)),
)
names = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,8}(-[a-z0-9]{1,8}){0,2}", fullmatch=True)
# Mostly what fits, so that the search gets past the first refusal.
types = st.sampled_from(["ml.g5.2xlarge", "ml.g4dn.xlarge", "ml.m5.xlarge"]) | st.sampled_from(
    sorted(INSTANCE_TYPES)
)
releases = st.just("25.09") | st.sampled_from(sorted(RELEASES))
servers = st.builds(
    TritonServer,
    ping_mode=st.sampled_from(["live", "ready"]),
    log_verbose=st.booleans(),
    shared_memory_bytes=st.integers(2**20, 2**30),
    auto_complete_config=st.booleans(),
    extra_arguments=st.lists(st.sampled_from(["--a=b", "--c", "with space", "x" * 600]), max_size=3).map(
        tuple
    ),
)
endpoints = st.fixed_dictionaries(
    {
        "instance_type": types,
        "release": releases,
        "endpoint_name": names,
        "initial_instance_count": st.integers(1, 10),
    },
    optional={
        "server": servers,
        "keep_models_cached": st.booleans(),
        "network_isolation": st.booleans(),
        "ssm_access": st.booleans(),
        "routing": st.sampled_from(Routing),
        "volume_size_gb": st.integers(1, 512),
        "instance_pools": st.lists(types, max_size=5),
        "environment": st.dictionaries(
            st.sampled_from(["A", "B_C", "SAGEMAKER_X"]), st.text("ab=", max_size=5)
        ),
        "deployment": deployments,
        "rollback_alarms": st.lists(names, max_size=12),
    },
)
scalings = st.none() | st.fixed_dictionaries(
    {
        "min_capacity": st.integers(0, 12),
        "max_capacity": st.integers(0, 12),
        "targets": st.lists(targets, max_size=3),
    }
)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=not FUZZ, suppress_health_check=list(HealthCheck))
@given(endpoint=endpoints, scaling=scalings)
def test_any_combination_is_a_good_template_or_our_error(
    endpoint: Mapping[str, Any], scaling: Mapping[str, Any] | None
) -> None:
    stack = Stack(App(), "Fleet")
    try:
        served = MultiModelEndpoint(
            stack, "Endpoint", repository=ModelRepository(stack, "Repository"), **endpoint
        )
        scaled = EndpointScaling(stack, "Scaling", endpoint=served, **scaling) if scaling else None
        alarms = EndpointAlarms(stack, "Alarms", endpoint=served, scaling=scaled)
        EndpointDashboard(stack, "Dashboard", endpoint=served, alarms=alarms, scaling=scaled)
        template = Template.from_stack(stack).to_json()
    except FleetError as error:
        template = {"Resources": {}}
        unexplained = [problem for problem in error.problems if not (problem.where and problem.fix)]
    else:
        unexplained = []
    assert unexplained == []
    assert violations(template) == []
    if FUZZ and template["Resources"]:
        found = lint(json.dumps(template), config=ManualArgs(regions=["us-east-1"]))
        assert [str(match) for match in found] == []


def test_the_combinations_are_not_all_refused() -> None:
    """The search would prove little if hardly a combination came through."""
    outcomes = []

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(endpoint=endpoints)
    def tried(endpoint: Mapping[str, Any]) -> None:
        stack = Stack(App(), "Fleet")
        repository = ModelRepository(stack, "Repository")
        try:
            MultiModelEndpoint(stack, "Endpoint", repository=repository, **endpoint)
            outcomes.append("accepted")
        except FleetError:
            outcomes.append("refused")

    tried()
    assert outcomes.count("accepted") >= 4
    assert outcomes.count("refused") >= 4
