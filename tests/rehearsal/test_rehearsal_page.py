"""The document of the page about a rehearsal, the file that it is written to, and the server's rules."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from embedded_aws import EmbeddedAws
from triton_models.base.errors import FleetError
from triton_rehearsal.page import alarms, document, report
from triton_rehearsal.page.server import PageServer

NAMESPACE = "Shop"
SALES = [NAMESPACE, "Sales", "City", "Bonn"]


def metric_widget(*rows: list[Any], **properties: Any) -> dict[str, Any]:
    return {
        "type": "metric",
        "properties": {"metrics": list(rows), "period": 60, "stat": "Sum", **properties},
    }


def text_widget(markdown: str) -> dict[str, Any]:
    return {"type": "text", "properties": {"markdown": markdown}}


def read_dashboard(aws: EmbeddedAws, body: Any) -> dict[str, Any]:
    """Deploy a dashboard, and return it as the document has it."""
    aws.client("cloudwatch").put_dashboard(DashboardName="shop", DashboardBody=json.dumps(body))
    [dashboard] = document.read(aws, None)["dashboards"]
    return dict(dashboard)


def read_widgets(aws: EmbeddedAws, *widgets: Mapping[str, Any]) -> list[dict[str, Any]]:
    placed = [{"x": 0, "y": row, **widget} for row, widget in enumerate(widgets)]
    return list(read_dashboard(aws, {"widgets": placed})["widgets"])


def sell(aws: EmbeddedAws, city: str, *values: float, ago: timedelta = timedelta(minutes=5)) -> None:
    datum = {
        "MetricName": "Sales",
        "Dimensions": [{"Name": "City", "Value": city}],
        "Timestamp": aws.clock.now() - ago,
        "Values": list(values),
    }
    aws.client("cloudwatch").put_metric_data(Namespace=NAMESPACE, MetricData=[datum])


def values(widget: Mapping[str, Any]) -> dict[str, list[float]]:
    return {line["label"]: [value for _, value in line["points"]] for line in widget["series"]}


def test_a_widget_has_the_data_of_its_rows_of_those_that_repeat_the_row_above_and_of_its_math(
    aws: EmbeddedAws,
) -> None:
    sell(aws, "Bonn", 2.0, 3.0)
    sell(aws, "Köln", 7.0)
    widget, math = read_widgets(
        aws,
        metric_widget(
            [*SALES, {"label": "sum"}],
            [".", ".", ".", "Köln", {"label": "other city"}],
            ["...", "Bonn", {"label": "largest", "stat": "Maximum", "yAxis": "right"}],
        ),
        metric_widget(
            [{"expression": "sales * 10", "label": "tenfold"}], [*SALES, {"id": "sales", "visible": False}]
        ),
    )

    assert values(widget) == {"sum": [5.0], "other city": [7.0], "largest": [3.0]}
    assert [line["axis"] for line in widget["series"]] == ["left", "left", "right"]
    assert values(math) == {"tenfold": [50.0]}


def test_a_bad_widget_fails_alone_and_says_so_in_its_place(aws: EmbeddedAws) -> None:
    sell(aws, "Bonn", 2.0)
    bad, unknown, empty, good = read_widgets(
        aws,
        metric_widget([{"expression": "sales +* 10"}], title="bad"),
        {"type": "explorer", "properties": {}},
        {"type": "metric", "properties": {"annotations": {"alarms": ["arn"]}}},
        metric_widget([*SALES, {"label": "sum"}]),
    )

    assert all(each["error"] for each in (bad, unknown, empty))
    assert bad["title"] == "bad"
    assert "error" not in good
    assert values(good) == {"sum": [2.0]}


@pytest.mark.parametrize(
    "body",
    [
        {"start": "yesterday"},
        [],
        {"widgets": [1, None, "x"]},
        {"start": "2026-11-24T08:00:00Z", "end": "2026-11-23T08:00:00Z", "widgets": [metric_widget(SALES)]},
    ],
    ids=str,
)
def test_whatever_a_dashboard_holds_is_shown_or_an_error_in_its_place(aws: EmbeddedAws, body: Any) -> None:
    widgets = read_dashboard(aws, body)["widgets"]

    assert widgets
    assert all(each["error"] for each in widgets)


def test_a_document_is_json_without_infinity() -> None:
    found = json.loads(
        report.in_json({"a": [1.5, float("inf"), {"b": float("nan")}], "c": "x"}), parse_constant=pytest.fail
    )

    assert found == {"a": [1.5, None, {"b": None}], "c": "x"}


def test_markdown_becomes_html_without_html_or_scripts_in_it_and_queries_of_logs_are_counted(
    aws: EmbeddedAws,
) -> None:
    text = "# Sales\n[shop](https://shop.example)<script>x()</script>\n[a](javascript:x())"
    query = {"type": "log", "properties": {"query": "fields @message"}}
    dashboard = read_dashboard(aws, {"widgets": [text_widget(text), query]})
    [widget] = dashboard["widgets"]

    assert dashboard["queries"] == 1
    assert "<h1>Sales</h1>" in widget["html"]
    assert 'href="https://shop.example"' in widget["html"]
    assert "<script" not in widget["html"]
    assert 'href="javascript' not in widget["html"]


@pytest.mark.parametrize(
    ("times", "hours"),
    [
        ({"start": "-P2DT30M"}, 48.5),
        ({"start": "-P1W"}, 168.0),
        ({"start": "2026-11-23T08:00:00.000Z", "end": "2026-11-23T09:30:00.000Z"}, 1.5),
        ({}, 3.0),
    ],
    ids=str,
)
def test_a_dashboard_shows_the_time_that_its_body_names(
    aws: EmbeddedAws, times: dict[str, str], hours: float
) -> None:
    dashboard = read_dashboard(aws, {"widgets": [text_widget("x")], **times})

    assert (dashboard["end"] - dashboard["start"]) / 3600 == hours


@pytest.mark.parametrize(
    ("given", "condition"),
    [
        (
            {"MetricName": "DiskUtilization", "DatapointsToAlarm": 3, "Period": 60},
            "DiskUtilization > 1 % in 3 of 5 minutes",
        ),
        ({"MetricName": "ModelLatency", "Period": 300}, "ModelLatency > 1 µs in 5 of 5 periods of 5 minutes"),
        (
            {"Metrics": [{"Label": "p99, ms", "MetricStat": {"Period": 60}}], "DatapointsToAlarm": 2},
            "p99 > 1 ms in 2 of 5 minutes",
        ),
        (
            {"Metrics": [{"Label": "late, I think", "Expression": "1"}], "DatapointsToAlarm": 2},
            "late, I think > 1 in 2 of 5 minutes",
        ),
    ],
)
def test_a_condition_has_the_unit_and_the_number_of_periods_that_must_breach(
    given: dict[str, Any], condition: str
) -> None:
    alarm = {"ComparisonOperator": "GreaterThanThreshold", "Threshold": 1.0, "EvaluationPeriods": 5}

    assert alarms.condition({**alarm, **given}) == condition


def put_alarm(aws: EmbeddedAws) -> None:
    aws.client("cloudwatch").put_metric_alarm(
        AlarmName="few-sales",
        AlarmDescription="Call **the shop**.",
        Namespace=NAMESPACE,
        MetricName="Sales",
        Dimensions=[{"Name": "City", "Value": "Bonn"}],
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=3,
        ComparisonOperator="LessThanThreshold",
    )


def deploy_bucket(aws: EmbeddedAws) -> None:
    template = {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket"}}}
    aws.client("cloudformation").create_stack(StackName="shop", TemplateBody=json.dumps(template))


def test_an_alarm_has_its_state_condition_and_runbook_and_the_timeline_has_the_newest_event_first(
    aws: EmbeddedAws,
) -> None:
    deploy_bucket(aws)
    put_alarm(aws)
    sell(aws, "Bonn", 2.0)
    aws.evaluate(at=aws.clock.now() - timedelta(minutes=3))
    found = document.read(aws, None)
    [alarm], timeline = found["alarms"], found["timeline"]

    assert (alarm["state"], alarm["condition"]) == ("ALARM", "Sales < 3 in 1 minute")
    assert "<strong>the shop</strong>" in alarm["runbook"]
    assert "2.0" in alarm["reason"]
    assert {(each["kind"], each["subject"]) for each in timeline} == {
        ("alarm", "few-sales"),
        ("deployment", "shop"),
    }
    assert [each["at"] for each in timeline] == sorted((each["at"] for each in timeline), reverse=True)


def test_deployments_have_the_time_of_the_clock() -> None:
    """CloudFormation records in the wall clock's time."""
    with EmbeddedAws(speed=100_000) as aws:
        deploy_bucket(aws)
        before = aws.clock.time()
        while aws.clock.time() < before + 10_000:
            pass
        found = document.read(aws, None)

    ages = [found["now"] - each["at"] for each in found["timeline"] if each["kind"] == "deployment"]
    assert min(ages) >= 10_000


# The file


def test_no_text_of_a_document_ends_its_element_and_the_page_loads_nothing_from_elsewhere() -> None:
    found = {"model": "</script><script>x()"}
    page = report.html_page(json.dumps(found), live=False)
    [held] = re.findall(r'<script id="document"[^>]*>(.*?)</script>', page, re.DOTALL)

    assert json.loads(held) == found
    assert re.findall(r'(?:src|href)="(?!data:,")[^"]*"|url\(|@import', page) == []
    assert "default-src 'none'" in page


@pytest.mark.parametrize("name", ["report.png", "missing/report.html"])
def test_a_report_that_cannot_be_written_is_refused_before_the_rehearsal(tmp_path: Path, name: str) -> None:
    with pytest.raises(FleetError) as refused:
        report.check_target(tmp_path / name)

    assert [problem.where for problem in refused.value.problems] == ["--report"]


# The server


@pytest.fixture(scope="module")
def page() -> Iterator[PageServer]:
    with PageServer(lambda: {"endpoints": []}) as server:
        yield server


def ask(page: PageServer, path: str, **headers: str) -> tuple[int, str]:
    address = urlsplit(page.url)
    connection = HTTPConnection(str(address.hostname), address.port, timeout=10)
    connection.request(
        "GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_printed_address_alone_opens_the_page_and_its_document_on_this_machine(page: PageServer) -> None:
    assert page.server.server_address[0] == "127.0.0.1"
    path = urlsplit(page.url).path
    status, text = ask(page, path, Sec_Fetch_Site="none")
    polled = ask(page, f"{path}document.json", Sec_Fetch_Site="same-origin", Origin=page.url[: -len(path)])

    assert (status, 'data-live="true"' in text) == (200, True)
    assert (polled[0], json.loads(polled[1])) == (200, {"endpoints": []})
    for other in ("/", "/document.json", path[:-2] + "/", f"{path}x"):
        assert ask(page, other)[0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"},
        {"Host": "localhost"},
        {"Origin": "http://attacker.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
def test_requests_for_other_hosts_and_from_other_sites_are_refused(
    page: PageServer, headers: Mapping[str, str]
) -> None:
    path = urlsplit(page.url).path

    assert ask(page, f"{path}document.json", **headers)[0] == 403


def test_a_document_that_cannot_be_read_is_an_answer() -> None:
    def read() -> dict[str, Any]:
        msg = "gone"
        raise LookupError(msg)

    with PageServer(read) as page:
        status, text = ask(page, urlsplit(page.url).path)

    assert (status, "gone" in text) == (500, True)


def test_connections_beyond_the_limit_are_closed_and_places_are_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("triton_rehearsal.page.server._Server.most", 2)
    with PageServer(dict) as page, ExitStack() as opened:
        address = ("127.0.0.1", page.server.server_address[1])
        first, second, third = (
            opened.enter_context(socket.create_connection(address, timeout=30)) for _ in range(3)
        )
        assert third.recv(1) == b""
        for each in (first, second):
            each.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert each.recv(10) == b"HTTP/1.0 4"
