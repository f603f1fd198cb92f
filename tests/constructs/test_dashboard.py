from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import CfnParameter, Duration, Stack
from synthesised import Resources

from triton_fleet import (
    EndpointAlarms,
    EndpointDashboard,
    EndpointScaling,
    FleetError,
    ModelRepository,
    MultiModelEndpoint,
    Serving,
    SingleModelEndpoint,
    Thresholds,
    TritonServer,
    Variant,
)
from triton_fleet.operations.scaling.target import ScalingTarget
from triton_fleet.operations.scaling.tracking import CpuUtilization, GpuMemoryUtilization

Widgets = list[dict[str, Any]]
Shown = Callable[..., Widgets]


@pytest.fixture
def widgets(stack: Stack, endpoint: MultiModelEndpoint, resources: Resources) -> Shown:
    """Declares a dashboard of the endpoint; gives its widgets."""

    def of_dashboard(**arguments: Any) -> Widgets:
        EndpointDashboard(stack, "Dashboard", endpoint=endpoint, **arguments)
        return _widgets(resources)

    return of_dashboard


def _widgets(resources: Resources) -> Widgets:
    """The only dashboard's widgets as CloudWatch reads them."""
    (dashboard,) = resources("AWS::CloudWatch::Dashboard")
    parts = dashboard["DashboardBody"]["Fn::Join"][1]
    body = json.loads("".join(part if isinstance(part, str) else "x" for part in parts))
    return list(body["widgets"])


def _titles(widgets: Widgets) -> list[str]:
    """The charts' titles, and the headings of the sections without what is said below them."""
    return [
        each["properties"].get("title") or each["properties"]["markdown"].partition("\n")[0]
        for each in widgets
    ]


def _lines(widgets: Widgets, title: str) -> dict[str, float]:
    (widget,) = (each for each in widgets if each["properties"].get("title") == title)
    annotations = widget["properties"].get("annotations", {"horizontal": []})["horizontal"]
    return {each["label"]: each["value"] for each in annotations}


def test_thresholds_of_alarms_are_lines_in_their_charts(
    stack: Stack, endpoint: MultiModelEndpoint, widgets: Shown
) -> None:
    thresholds = Thresholds(latency_p99=Duration.millis(321), disk_percent=77, gpu_memory_percent=88)
    alarms = EndpointAlarms(stack, "Alarms", endpoint=endpoint, thresholds=thresholds)
    shown = widgets(alarms=alarms)

    assert list(_lines(shown, "Model latency").values()) == [321]
    assert list(_lines(shown, "Disk").values()) == [77]
    assert list(_lines(shown, "GPU memory").values()) == [88]
    assert list(_lines(shown, "Failed requests, %").values()) == [1, 5]


@pytest.mark.parametrize(
    ("target", "lines"),
    [
        (CpuUtilization(percent=50), ("CPU utilization, summed per instance", 400)),
        (GpuMemoryUtilization(percent=80), ("GPU memory utilization, summed per instance", 80)),
    ],
)
def test_whatever_scaling_follows_has_a_chart_with_its_target(
    target: ScalingTarget,
    lines: tuple[str, float],
    stack: Stack,
    endpoint: MultiModelEndpoint,
    widgets: Shown,
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, targets=[target])
    title, value = lines

    assert _lines(widgets(scaling=scaling), title) == {"scaling target": value}


def test_a_price_of_ones_own_is_taken_in_its_place(widgets: Shown) -> None:
    assert "instances * 1.25" in _hourly(widgets(hourly_price_usd=1.25))


def test_without_any_price_cost_is_in_instances(stack: Stack, resources: Resources) -> None:
    repository = ModelRepository(stack, "Unpriced")
    unpriced = MultiModelEndpoint(
        stack,
        "Cpu",
        repository=repository,
        endpoint_name="cpu",
        serving=Serving(instance_type="ml.c7i.2xlarge"),
    )
    dashboard = EndpointDashboard(stack, "Dashboard", endpoint=unpriced)

    assert dashboard.cost is None
    assert "Billed instances" in _titles(_widgets(resources))


def test_what_is_known_only_at_the_deployment_gives_no_month(
    stack: Stack, endpoint: MultiModelEndpoint
) -> None:
    price = CfnParameter(stack, "Price", type="Number").value_as_number

    assert EndpointDashboard(stack, "Dashboard", endpoint=endpoint, hourly_price_usd=price).cost is None


def _hourly(shown: Widgets) -> list[str]:
    (hourly,) = (each for each in shown if each["properties"].get("title") == "Cost per hour (USD)")
    return [row[0]["expression"] for row in hourly["properties"]["metrics"] if "expression" in row[0]]


def test_a_price_and_a_number_of_models_that_are_none_are_refused_together(
    stack: Stack, endpoint: MultiModelEndpoint
) -> None:
    with pytest.raises(FleetError) as refused:
        EndpointDashboard(stack, "Dashboard", endpoint=endpoint, hourly_price_usd=0, models=-1)

    assert [problem.what for problem in refused.value.problems] == ["the price is 0", "models is -1"]


def test_alarms_and_scaling_of_another_endpoint_are_refused_together(
    stack: Stack, endpoint: MultiModelEndpoint
) -> None:
    second = MultiModelEndpoint(stack, "Second", repository=endpoint.repository, endpoint_name="second")

    with pytest.raises(FleetError) as caught:
        EndpointDashboard(
            stack,
            "Dashboard",
            endpoint=endpoint,
            alarms=EndpointAlarms(stack, "Alarms", endpoint=second),
            scaling=EndpointScaling(stack, "Scaling", endpoint=second),
        )

    assert [problem.where.split()[0] for problem in caught.value.problems] == ["alarms", "scaling"]


@pytest.fixture
def single(stack: Stack, repository: ModelRepository) -> SingleModelEndpoint:
    """An endpoint without cache and GPU, with two variants."""
    variants = [
        Variant(name=name, artifact="m-0123.tar.gz", instance_type="ml.c7i.xlarge", initial_instance_count=2)
        for name in ("Blue", "Green")
    ]
    return SingleModelEndpoint(
        stack, "Single", repository=repository, variants=variants, endpoint_name="single"
    )


def test_what_an_endpoint_has_not_is_left_out(
    stack: Stack, single: SingleModelEndpoint, resources: Resources
) -> None:
    alarms = EndpointAlarms(stack, "Alarms", endpoint=single)
    EndpointDashboard(stack, "Dashboard", endpoint=single, alarms=alarms)
    shown = _widgets(resources)
    charted = {
        row[1]
        for each in shown
        if each["type"] == "metric"
        for row in each["properties"]["metrics"]
        if isinstance(row[0], str)
    }

    assert set(alarms.alarms) == {"ServerErrors", "ModelErrors", "Latency", "Silent", "NoCapacity"}
    assert not any("GPU" in each["AlarmDescription"] for each in resources("AWS::CloudWatch::Alarm"))
    assert "## Is the cache working?" not in _titles(shown)
    assert {"CPU utilization, summed per instance", "Host"} <= set(_titles(shown))
    assert not charted & {"GPUUtilization", "GPUMemoryUtilization", "ModelCacheHit", "LoadedModelCount"}


def test_without_information_in_the_log_only_tables_that_it_fills_are_left_out(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    quiet = MultiModelEndpoint(
        stack, "Quiet", repository=repository, endpoint_name="quiet", server=TritonServer(log_info=False)
    )
    EndpointDashboard(stack, "Dashboard", endpoint=quiet)
    shown = _widgets(resources)

    assert [_titles([each]) for each in shown if each["type"] == "log"] == [["Failed loads, with the reason"]]
    assert "Loads and evictions per minute" in _titles(shown)
    assert "top of the table" not in json.dumps(shown)


def test_each_variant_has_alarms_and_a_dashboard_of_its_own(
    stack: Stack, single: SingleModelEndpoint, resources: Resources
) -> None:
    for variant in ("Blue", "Green"):
        alarms = EndpointAlarms(stack, f"{variant}Alarms", endpoint=single, variant=variant)
        EndpointDashboard(stack, f"{variant}Board", endpoint=single, variant=variant, alarms=alarms)
    names = [each["AlarmName"] for each in resources("AWS::CloudWatch::Alarm")]

    assert len(names) == len(set(names)) == 10
    assert {each["DashboardName"] for each in resources("AWS::CloudWatch::Dashboard")} == {
        "single",
        "single-Green",
    }
