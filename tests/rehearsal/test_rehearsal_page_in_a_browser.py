"""The page of the default fleet in a real Chromium, from a file without a network and from its server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from synthesised_stacks import deploy_fleet

from embedded_aws import EmbeddedAws
from tests.stacks.fleet_app import fleet_app
from triton_models.load.scenario import Stream
from triton_rehearsal.page import document, report, server
from triton_rehearsal.page.server import PageServer
from triton_rehearsal.scenario.result import Condition, Figures, ScenarioResult
from triton_rehearsal.scenario.scenario import Scenario

CHROMIUM = next((found for name in ("chromium", "google-chrome") if (found := shutil.which(name))), None)
MINUTES = 10
LIMIT_S = 60

pytestmark = [pytest.mark.story, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    """An embedded AWS with the default fleet, which has more requests than it is to have, and an alarm."""
    with EmbeddedAws() as aws:
        deploy_fleet(aws, fleet_app(models=""))
        [row] = aws.client("sagemaker").list_endpoints()["Endpoints"]
        dimensions = [
            {"Name": "EndpointName", "Value": row["EndpointName"]},
            {"Name": "VariantName", "Value": "AllTraffic"},
        ]
        for minute in range(MINUTES):
            moment = aws.clock.now() - timedelta(minutes=minute + 1)
            for name in ("Invocations", "InvocationsPerInstance", "ModelLatency"):
                datum: Any = {
                    "MetricName": name,
                    "Dimensions": dimensions,
                    "Timestamp": moment,
                    "Value": 6000.0,
                }
                aws.client("cloudwatch").put_metric_data(Namespace="AWS/SageMaker", MetricData=[datum])
        alarm = f"{row['EndpointName']}-ticket-Disk"
        aws.evaluate()
        aws.client("cloudwatch").set_alarm_state(AlarmName=alarm, StateValue="ALARM", StateReason="test")
        yield aws


@pytest.fixture(scope="module")
def read(aws: EmbeddedAws) -> dict[str, Any]:
    """The document of the page."""
    return document.read(aws, None)


class Browser:
    """A Chromium without a network, which shows a page."""

    def __init__(self, profile: Path) -> None:
        self._options = [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--enable-logging=stderr", f"--user-data-dir={profile}", "--window-size=1440,1000",
        ]  # fmt: skip

    def show(self, address: str) -> tuple[str, list[str]]:
        """Return a page's elements after its script, and the messages in its console."""
        run = subprocess.run(
            [*self._options, "--dump-dom", address],
            capture_output=True, text=True, check=True, timeout=LIMIT_S,
        )  # fmt: skip
        return run.stdout, [line for line in run.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def drawn(read: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """The report as Chromium shows it, and its console."""
    folder = tmp_path_factory.mktemp("report")
    report.write(read, folder / "report.html")
    return Browser(folder / "profile").show((folder / "report.html").as_uri())


def widgets(dom: str) -> list[tuple[str, str]]:
    """Return the type and the elements of each widget on a page."""
    return re.findall(r'<section class="widget[^>]* data-type="(\w+)"[^>]*>(.*?)</section>', dom, re.DOTALL)


def test_every_widget_of_the_deployed_dashboard_but_queries_of_logs_is_drawn_in_its_order(
    aws: EmbeddedAws, drawn: tuple[str, list[str]]
) -> None:
    cloudwatch = aws.client("cloudwatch")
    [entry] = cloudwatch.list_dashboards()["DashboardEntries"]
    body = json.loads(cloudwatch.get_dashboard(DashboardName=entry["DashboardName"])["DashboardBody"])
    deployed = sorted(body["widgets"], key=lambda widget: (widget["y"], widget["x"]))

    assert [kind for kind, _ in widgets(drawn[0])] == [
        widget["type"] for widget in deployed if widget["type"] != "log"
    ]


def test_no_metric_fails_and_those_with_data_are_lines_with_values(
    read: dict[str, Any], drawn: tuple[str, list[str]]
) -> None:
    [dashboard] = read["dashboards"]
    pairs = list(zip(dashboard["widgets"], (inside for _, inside in widgets(drawn[0])), strict=True))
    metrics = [(widget, inside) for widget, inside in pairs if widget["type"] == "metric"]
    known = [
        "<polyline" in inside
        for widget, inside in metrics
        if any(each["points"] for each in widget["series"])
    ]

    assert [widget for widget, _ in metrics if "error" in widget] == []
    assert known == [True] * len(known)
    assert len(known) >= 5
    assert drawn[1] == []  # messages in the console
    assert all(
        "No data" in inside for widget, inside in metrics if not any(w["points"] for w in widget["series"])
    )


def test_alarms_have_their_states_in_words_and_their_runbooks(
    read: dict[str, Any], drawn: tuple[str, list[str]]
) -> None:
    rows = re.findall(r'<details id="alarm-\d+"[^>]*>(.*?)</details>', drawn[0], re.DOTALL)

    assert len(rows) == len(read["alarms"])
    in_alarm = sum(alarm["state"] == "ALARM" for alarm in read["alarms"])
    assert sum("In alarm" in row for row in rows) == in_alarm > 0
    assert all('class="runbook"' in row for row in rows)


def test_of_many_loaded_models_three_are_shown_and_of_the_table_those_that_fail(
    read: dict[str, Any], tmp_path: Path
) -> None:
    names = [f"m{number}-{number:016x}.tar.gz" for number in range(109)]
    instance = {"id": "i-1", "endpoint": "e", "variant": "A", "started": None, "models": names}
    figures = {
        "endpoint": "e", "requests": 4, "failed": 0, "error": "", "p50_ms": 1.5, "p99_ms": 1234.5,
        "cold_percent": 25.0, "loads": 1, "unloads": 0, "longest_load_ms": 7.0, "gpu_mib": None,
    }  # fmt: skip
    models = [{**figures, "target": name} for name in names]
    models[0] |= {"failed": 3, "error": "unexpected input <Q>"}
    models[0] |= {"precision": "fp16", "proof": "equal", "answers": "equal on 3 of your examples"}
    report.write(
        {**read, "instances": [instance], "models": models, "counts_as": 60}, tmp_path / "report.html"
    )
    dom, console = Browser(tmp_path / "profile").show((tmp_path / "report.html").as_uri())
    shown = dom.partition('<div class="columns">')[0]
    text = re.sub(r"<[^>]+>", " ", shown)

    assert (shown.count("<li title="), "106 more" in text, "Show all 109 models" in text) == (3, True, True)
    assert text.split("GPU memory, MiB")[1].split()[:11] == [
        "m0", "000000", "4", "3", "1.5", "1,235", "25", "%", "1", "0", "7",
    ]  # fmt: skip
    assert "Last failure: unexpected input &lt;Q&gt;" in text
    assert "fp16, equal on 3 of your examples" in text
    assert "60 times in CloudWatch" in text
    assert console == []


def test_the_live_page_is_the_same_and_its_console_stays_empty(aws: EmbeddedAws, tmp_path: Path) -> None:
    with PageServer(lambda: document.read(aws, None)) as page:
        dom, console = Browser(tmp_path / "profile").show(page.url)

    assert len(widgets(dom)) > 20
    assert console == []


def test_a_live_page_asks_for_newer_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FRESH_S", 0.0)
    documents = ({"now": 60.0 * number, "speed": None, "endpoints": [], "instances": [], "dashboards": [],
                  "alarms": [], "timeline": []} for number in range(1000))  # fmt: skip
    with PageServer(lambda: next(documents)) as page:
        browser = Browser(tmp_path / "profile")
        browser._options.append("--virtual-time-budget=20000")
        dom, console = browser.show(page.url)

    [minute] = re.findall(r"00:(\d\d):00 UTC", dom)
    assert int(minute) > 0
    assert console == []


def test_a_scenario_comes_first_with_its_story_and_verdict(read: dict[str, Any], tmp_path: Path) -> None:
    figures = Figures(
        model="all", requests=12, answered=9, p50_s=0.5, p99_s=7.84, cold_percent=25.0, loads=3, evictions=2
    )
    played = ScenarioResult(
        scenario=Scenario(
            about="It rains.", models=1, traffic=[Stream(requests_per_second=1, seconds=1)]
        ).named("storm"),
        conditions=[Condition(name="p99", expected="at most 5 s", seen="7.84 s", holds=False)],
        figures=figures,
        models=[replace(figures, model="model-1.tar.gz")],
        instances=[(0.0, 1), (15.0, 2)],
    )
    report.write({**read, "scenario": played.as_dict()}, tmp_path / "report.html")
    dom, console = Browser(tmp_path / "profile").show((tmp_path / "report.html").as_uri())

    text = re.sub(r"<[^>]+>", " ", dom.partition("<h2>Instances</h2>")[0].partition("<body>")[2])
    assert re.search(r"Scenario storm\s+FAILED\s+It rains\.", text)
    assert "2 after 15 minutes" in text
    assert text.split("evictions")[1].split()[:9] == ["all", "12", "9", "0.5", "7.84", "25", "%", "3", "2"]
    assert console == []
