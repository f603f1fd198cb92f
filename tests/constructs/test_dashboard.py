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
    Variant,
)
from triton_fleet.operations.scaling.target import ScalingTarget
from triton_fleet.operations.scaling.tracking import CpuUtilization, GpuMemoryUtilization
from triton_fleet.parts.metrics.server_log import (
    FAILED_LOADS,
    LOADS_AND_UNLOADS,
    MOST_LOADED,
    SLOWEST_UNLOADS,
)
from triton_models.facts.prices import PRICES

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


def _metrics(widgets: Widgets, title: str) -> set[str]:
    (widget,) = (each for each in widgets if each["properties"].get("title") == title)
    return {row[1] for row in widget["properties"]["metrics"] if isinstance(row[0], str)}


def test_the_questions_come_in_the_order_in_which_they_are_asked(widgets: Shown) -> None:
    questions = [title for title in _titles(widgets()) if title.startswith("## ")]

    assert questions == [
        "## Is it serving?",
        "## Is it fast?",
        "## Is the cache working?",
        "## Is it full?",
        "## Is it scaling?",
        "## What does it cost?",
    ]


def test_loaded_models_and_cache_hits_are_the_first_numbers_of_all(widgets: Shown) -> None:
    shown = widgets()
    first = [_metrics(shown, title) for title in _titles(shown)[:4]]

    assert first == [{"LoadedModelCount"}, {"ModelCacheHit"}, {"Invocations"}, {"Invocation5XXErrors"}]


def test_the_cache_is_loaded_models_and_hits_first_and_then_the_four_times(widgets: Shown) -> None:
    shown = widgets()
    titles = _titles(shown)
    section = titles[titles.index("## Is the cache working?") + 1 : titles.index("## Is it full?")]

    assert [_metrics(shown, title) for title in section[:7]] == [
        {"LoadedModelCount"},
        {"ModelCacheHit"},
        {"ModelLoadingTime", "ModelUnloadingTime"},
        {"ModelLoadingWaitTime"},
        {"ModelDownloadingTime"},
        {"ModelLoadingTime"},
        {"ModelUnloadingTime"},
    ]


def test_every_row_fills_the_page_and_none_overlaps(widgets: Shown) -> None:
    rows: dict[int, int] = {}
    for each in widgets():
        rows[each["y"]] = rows.get(each["y"], 0) + each["width"]

    assert set(rows.values()) == {24}


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


def test_states_of_the_alarms_come_first(stack: Stack, endpoint: MultiModelEndpoint, widgets: Shown) -> None:
    alarms = EndpointAlarms(stack, "Alarms", endpoint=endpoint)
    first = widgets(alarms=alarms)[0]

    assert first["type"] == "alarm"
    assert len(first["properties"]["alarms"]) == 1 + len(alarms.alarms)


def test_limits_and_targets_of_scaling_are_lines(
    stack: Stack, endpoint: MultiModelEndpoint, widgets: Shown
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=2, max_capacity=9)
    shown = widgets(scaling=scaling)

    assert _lines(shown, "Instances") == {"minimum capacity": 2, "maximum capacity": 9}
    assert _lines(shown, "Requests per minute per instance") == {"scaling target": 600}
    assert _lines(shown, "GPU utilization, summed per instance") == {"scaling target": 60}


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


def test_the_log_is_asked_for_loads_unloads_and_failures(widgets: Shown) -> None:
    queries = [each["properties"] for each in widgets() if each["type"] == "log"]

    assert [each["title"] for each in queries] == [
        "Loads and unloads in Triton's log",
        "Failed loads, with the reason",
        "Models loaded most often",
        "Slowest to unload",
    ]
    assert {each["query"].partition("\n")[0] for each in queries} == {
        "SOURCE '/aws/sagemaker/Endpoints/fleet'" + " | " + query[0]
        for query in (LOADS_AND_UNLOADS, FAILED_LOADS, MOST_LOADED, SLOWEST_UNLOADS)
    }


def test_cost_is_in_dollars_by_the_known_price(endpoint: MultiModelEndpoint, widgets: Shown) -> None:
    shown = widgets()
    assert f"instances * {PRICES[endpoint.variant().instance.name].usd_per_hour:g}" in _hourly(shown)
    assert "Cost per 1,000 requests (USD)" in _titles(shown)
    assert "Billed instances" not in _titles(shown)


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


def test_the_month_is_written_out_with_what_each_model_costs(
    stack: Stack, endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=1, max_capacity=3)
    dashboard = EndpointDashboard(stack, "Dashboard", endpoint=endpoint, scaling=scaling, models=40)

    assert dashboard.cost is not None
    (text,) = (each["properties"]["markdown"] for each in _widgets(resources) if " per month: " in str(each))
    assert text.splitlines()[-3:] == [f"* {line}" for line in dashboard.cost.lines()]
    assert "1 to 3 x" in text
    assert "each of 40 models" in text


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


def test_it_works_without_alarms_and_scaling_and_draws_no_lines(widgets: Shown) -> None:
    charts = [each for each in widgets() if each["type"] == "metric"]

    assert len(charts) > 10
    assert all("annotations" not in each["properties"] for each in charts)


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
