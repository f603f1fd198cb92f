from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import Stack
from synthesised import Resources

from triton_fleet import EndpointAlarms, EndpointDashboard, EndpointScaling, MultiModelEndpoint, Thresholds

Widgets = list[dict[str, Any]]


@pytest.fixture
def widgets(stack: Stack, endpoint: MultiModelEndpoint, resources: Resources) -> Callable[[], Widgets]:
    """The dashboard's widgets as CloudWatch reads them."""

    def of_dashboard() -> Widgets:
        (dashboard,) = resources("AWS::CloudWatch::Dashboard")
        parts = dashboard["DashboardBody"]["Fn::Join"][1]
        body = json.loads("".join(part if isinstance(part, str) else "x" for part in parts))
        return list(body["widgets"])

    return of_dashboard


def _titles(widgets: Widgets) -> list[str]:
    return [each["properties"].get("title") or each["properties"]["markdown"] for each in widgets]


def _lines(widgets: Widgets, title: str) -> dict[str, float]:
    (widget,) = (each for each in widgets if each["properties"].get("title") == title)
    annotations = widget["properties"].get("annotations", {"horizontal": []})["horizontal"]
    return {each["label"]: each["value"] for each in annotations}


def _metrics(widgets: Widgets, title: str) -> set[str]:
    (widget,) = (each for each in widgets if each["properties"].get("title") == title)
    return {row[1] for row in widget["properties"]["metrics"] if isinstance(row[0], str)}


def test_the_questions_come_in_the_order_in_which_they_are_asked(
    stack: Stack, endpoint: MultiModelEndpoint, widgets: Callable[[], Widgets]
) -> None:
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint)
    questions = [title for title in _titles(widgets()) if title.startswith("## ")]

    assert questions == [
        "## Is it serving?",
        "## Is it fast?",
        "## Is the cache working?",
        "## Is it full?",
        "## Is it scaling?",
    ]


def test_the_cache_is_loaded_models_and_hits_first_and_then_the_four_times(
    stack: Stack, endpoint: MultiModelEndpoint, widgets: Callable[[], Widgets]
) -> None:
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint)
    shown = widgets()
    titles = _titles(shown)
    section = titles[titles.index("## Is the cache working?") + 1 : titles.index("## Is it full?")]

    assert [_metrics(shown, title) for title in section] == [
        {"LoadedModelCount"},
        {"ModelCacheHit"},
        {"ModelUnloadingTime"},
        {"ModelLoadingWaitTime"},
        {"ModelDownloadingTime"},
        {"ModelLoadingTime"},
        {"ModelUnloadingTime"},
    ]


def test_every_row_fills_the_page_and_none_overlaps(
    stack: Stack, endpoint: MultiModelEndpoint, widgets: Callable[[], Widgets]
) -> None:
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint)
    rows: dict[int, int] = {}
    for each in widgets():
        rows[each["y"]] = rows.get(each["y"], 0) + each["width"]

    assert set(rows.values()) == {24}


def test_thresholds_of_alarms_are_lines_in_their_charts(
    stack: Stack, endpoint: MultiModelEndpoint, widgets: Callable[[], Widgets]
) -> None:
    thresholds = Thresholds(latency_p99_ms=321, disk_percent=77, gpu_memory_percent=88)
    alarms = EndpointAlarms(stack, "Alarms", endpoint=endpoint, thresholds=thresholds)
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint, alarms=alarms)
    shown = widgets()

    assert list(_lines(shown, "Model latency").values()) == [321]
    assert list(_lines(shown, "Disk").values()) == [77]
    assert list(_lines(shown, "GPU memory").values()) == [88]
    assert list(_lines(shown, "Failed requests, % of all").values()) == [1, 5]


def test_states_of_the_alarms_come_first(
    stack: Stack, endpoint: MultiModelEndpoint, widgets: Callable[[], Widgets]
) -> None:
    alarms = EndpointAlarms(stack, "Alarms", endpoint=endpoint)
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint, alarms=alarms)
    first = widgets()[0]

    assert first["type"] == "alarm"
    assert len(first["properties"]["alarms"]) == 1 + len(alarms.alarms)


def test_limits_and_targets_of_scaling_are_lines(
    stack: Stack, endpoint: MultiModelEndpoint, widgets: Callable[[], Widgets]
) -> None:
    scaling = EndpointScaling(stack, "Scaling", endpoint=endpoint, min_capacity=2, max_capacity=9)
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint, scaling=scaling)
    shown = widgets()

    assert _lines(shown, "Instances") == {"smallest capacity": 2, "largest capacity": 9}
    assert _lines(shown, "Requests a minute an instance") == {"scaling target": 600}
    assert _lines(shown, "GPU, all of an instance added up") == {"scaling target": 60}


def test_it_works_without_alarms_and_scaling_and_draws_no_lines(
    stack: Stack, endpoint: MultiModelEndpoint, widgets: Callable[[], Widgets]
) -> None:
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint)
    charts = [each for each in widgets() if each["type"] == "metric"]

    assert len(charts) > 10
    assert all("annotations" not in each["properties"] for each in charts)


def test_it_has_the_endpoints_name(stack: Stack, endpoint: MultiModelEndpoint, resources: Resources) -> None:
    EndpointDashboard(stack, "Dashboard", endpoint=endpoint)

    assert resources("AWS::CloudWatch::Dashboard")[0]["DashboardName"] == "fleet"
