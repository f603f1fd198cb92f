"""`fleet load` sends at planned moments, and reports what the server's own record says."""

from __future__ import annotations

import asyncio
import heapq
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.triton_models.load_server import Behavior, Recorded, serving
from triton_models.base.errors import FleetError
from triton_models.cli import main as cli
from triton_models.load.generator import Run
from triton_models.load.knee import find_knee
from triton_models.load.result import Loaded, loaded
from triton_models.load.schedule import Schedule, Traffic, read, scheduled
from triton_models.load.streams import read_scenario


def load(
    capsys: pytest.CaptureFixture[str], server: Recorded, *given: str, status: int = 0
) -> dict[str, Any]:
    asked = ["load", "m", "--triton", server.url, "--seed", "7", *given, "--json"]
    assert cli.main(asked) == status, capsys.readouterr()
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests take this machine's time: a generator that is late is no error of the code."""
    monkeypatch.setattr("triton_models.load.result.SLIP_S", 10.0)
    monkeypatch.setattr("triton_models.load.result.FULL", 10.0)


def p99(server: Recorded) -> float:
    answered = [seconds for _, seconds, status in server.record if status == "200"]
    return float(np.percentile(answered, 99, method="inverted_cdf"))


# The schedule


@pytest.mark.parametrize("burstiness", [0.0, 1.0, 3.0])
def test_a_schedule_has_its_rate_and_variation(burstiness: float) -> None:
    schedule = scheduled(Traffic(rates=(100.0,), seconds=200.0, burstiness=burstiness), ["m"], seed=1)
    gaps = np.diff(schedule.at)
    assert len(schedule.at) == pytest.approx(20_000, rel=0.08)
    assert gaps.std() / gaps.mean() == pytest.approx(burstiness, abs=0.1)
    assert (gaps >= 0).all()


@pytest.mark.parametrize(("rate", "seconds"), [(0.001, 1.0), (1e9, 1e6)])
def test_a_schedule_without_requests_or_with_too_many_is_refused(rate: float, seconds: float) -> None:
    with pytest.raises(FleetError, match="load-traffic"):
        scheduled(Traffic(rates=(rate,), seconds=seconds), ["m"], seed=1)


def test_a_schedule_is_that_of_its_seed() -> None:
    traffic = Traffic(rates=(50.0,), seconds=10.0, popularity=1.0, present_s=(5.0, 5.0))
    one, same, other = (scheduled(traffic, ["a", "b", "c"], seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.at, same.at)
    np.testing.assert_array_equal(one.model, same.model)
    assert len(one.at) != len(other.at) or (one.at != other.at).any()


def test_steps_follow_each_other() -> None:
    schedule = scheduled(Traffic(rates=(10.0, 40.0), seconds=100.0), ["m"], seed=1)
    first, second = np.histogram(schedule.at, [0, 100, 200])[0]
    assert (first, second) == (pytest.approx(1000, rel=0.15), pytest.approx(4000, rel=0.1))


def test_popular_models_are_asked_by_zipfs_law() -> None:
    schedule = scheduled(Traffic(rates=(1000.0,), seconds=60.0, popularity=1.0), ["a", "b", "c"], seed=1)
    shares = np.bincount(schedule.model) / len(schedule.at)
    np.testing.assert_allclose(shares, np.array([6, 3, 2]) / 11, atol=0.01)


def test_models_that_come_and_go_are_asked_only_while_they_are_there() -> None:
    names = [f"m{number}" for number in range(30)]
    traffic = Traffic(rates=(300.0,), seconds=1000.0, present_s=(50.0, 150.0))
    schedule = scheduled(traffic, names, seed=1)
    seconds = np.zeros((30, 1000), bool)
    seconds[schedule.model, schedule.at.astype(int)] = True
    assert 0.15 < seconds.mean() < 0.35
    assert (np.diff(schedule.at) >= 0).all()


def test_a_schedule_is_a_trace_that_can_be_read_again(tmp_path: Path) -> None:
    schedule = scheduled(Traffic(rates=(50.0,), seconds=10.0), ["a", "b"], seed=1)
    schedule.write(tmp_path / "trace.csv")
    again = read(tmp_path / "trace.csv", ["a", "b"])
    np.testing.assert_allclose(again.at, schedule.at, atol=1e-6)
    np.testing.assert_array_equal(again.model, schedule.model)


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ("seconds,model\n2,1\n1,1\n", "out of order"),
        ("seconds,model\n1,3\n", "not one of the 2 models"),
        ("seconds,model\n1,mm\n", "not one of the 2 models"),
        ("at,model\n1,1\n", "no column seconds: the first row has 'at', 'model'"),
        ("1,m\n2,n\n", "no column seconds and model: the first row has '1', 'm'"),
        ("seconds,model\nnan,1\n", "longer than a day"),
        ("seconds,model\n", "no requests"),
        ("seconds,model\n1\n", "no seconds and no model"),
        ("seconds,model\n1," + "1" * 5000, "not one of the 2 models"),
        ("seconds,model\n1," + "1" * 200_000, "field larger"),
        ("seconds,model\n1,\xff", "utf-8"),
        ("", "no requests"),
    ],
)
def test_a_damaged_trace_is_refused_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: str, what: str
) -> None:
    (tmp_path / "trace.csv").write_bytes(rows.encode("latin-1"))
    given = ["load", "m", "n", "--triton", "http://127.0.0.1:1", "--trace", str(tmp_path / "trace.csv")]
    assert cli.main(given) == 1
    said = capsys.readouterr().err
    assert what in said
    assert "[load-trace]" in said


@pytest.mark.parametrize(
    "titles", ["\ufeffseconds,model", "Seconds,MODEL", "seconds, model", "id,model ,seconds"]
)
def test_the_titles_of_a_trace_may_have_blanks_capitals_and_a_mark(tmp_path: Path, titles: str) -> None:
    row = "x,n,1" if titles.startswith("id") else "1, n"
    (tmp_path / "trace.csv").write_text(f"{titles}\n{row}\n\n", encoding="utf-8")
    assert read(tmp_path / "trace.csv", ["m", "n"]).model.tolist() == [1]


def test_a_trace_has_no_more_requests_than_its_reader_takes(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("seconds,model\n1,1\n2,1\n3,1\n")
    assert len(read(tmp_path / "trace.csv", ["m"], most=3).at) == 3
    with pytest.raises(FleetError, match="more than 2 requests"):
        read(tmp_path / "trace.csv", ["m"], most=2)


def test_the_traffic_of_a_scenario_is_sent_to_the_models_in_order(tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(
        "about: x\nmodels: 3\nfaults: [{at: 1, kill: 1}]\ntraffic:\n"
        "- {requests_per_second: 100, seconds: 10, first_model: 2}\n"
        "- {requests_per_second: 1, seconds: 5}\n"
    )
    schedule = read_scenario(tmp_path / "scenario.yaml", ["a", "b", "c"])
    assert len(schedule.at) == 1005
    assert (np.diff(schedule.at) >= 0).all()
    assert np.bincount(schedule.model)[1:].min() > 400


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("traffic: []", "it is {'traffic': []}"),
        ("{", "while parsing a flow node"),
        ("- 1", "it is [1]"),
        ("traffic: [{requests_per_second: 1, second: 5}]", "unknown field 'second'"),
        ("traffic: [{requests_per_second: fast, seconds: 5}]", "requests_per_second is 'fast'"),
        ("models: 5\ntraffic: [{requests_per_second: 9, seconds: 5}]", "5 models, and the run has 2"),
    ],
)
def test_a_scenario_without_traffic_for_the_models_is_refused(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "scenario.yaml").write_text(text)
    with pytest.raises(FleetError, match=r"\[scenario\]") as raised:
        read_scenario(tmp_path / "scenario.yaml", ["a", "b"])
    assert what in [each.what for each in raised.value.problems][-1]


# Honesty


def test_a_stall_is_seen_by_all_who_would_have_come_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A closed loop would have one request per connection in this second."""
    with serving(Behavior(stalls=((0.5, 1.5),), busy_s=0.01), tmp_path) as server:
        found = load(capsys, server, "--rate", "200/s", "--for", "2.5s")
    # The server's times lack those of the way, which are long on a busy machine.
    late = found["generator"]["slip_p99"]
    assert 0.98 * p99(server) <= found["warm"]["p99"] <= p99(server) + late + 0.5
    assert found["warm"]["p90"] > 0.5
    assert found["errors"] == {}


def test_times_count_from_the_intended_moments() -> None:
    at, number = np.arange(1000.0), np.arange(1000)
    schedule = Schedule(at=at, model=np.zeros(1000, np.int32), models=("m",))
    run = Run(
        schedule=schedule,
        sent=at + 0.004,
        done=at + 0.004 + number / 1000,
        kind=np.zeros(1000, np.int32),
        kinds=(),
        cpu=np.zeros(1),
    )
    warm = loaded(run, target="simulated", seed=None).warm
    assert warm is not None
    assert (warm.p50, warm.p99, warm.largest) == pytest.approx((0.503, 0.993, 1.003))


def test_errors_are_counted_by_their_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    behavior = Behavior(fails=((0.5, 1.0),), drops=((1.0, 1.5),), stalls=((2.0, 60.0),))
    with serving(behavior, tmp_path) as server:
        found = load(capsys, server, "--rate", "100/s", "--for", "2.5s", "--deadline", "1")
    sent = {status: sum(each[2] == status for each in server.record) for status in ("200", "503", "0")}
    assert found["first"]["count"] + found["warm"]["count"] == sent["200"]
    assert found["errors"]["status 503"] == sent["503"] > 10
    assert found["errors"]["no-answer"] == sent["0"] > 10
    assert found["errors"]["deadline"] > 10


def test_requests_before_a_first_answer_are_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Behavior(load_s=0.5), tmp_path) as server:
        found = load(capsys, server, "--rate", "100/s", "--for", "2s")
    assert 10 < found["first"]["count"] < found["requests"]
    assert found["first"]["largest"] > 0.45
    assert found["first"]["count"] + found["warm"]["count"] == found["requests"]
    assert [each["model"] for each in found["models"]] == ["m"]


def test_a_generator_that_is_the_limit_gives_no_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triton_models.load.result.SLIP_S", 0.0)
    with serving(Behavior(), tmp_path) as server:
        found = load(capsys, server, "--rate", "50/s", "--for", "1s", status=1)
    assert "late" in found["generator"]["limit"]
    assert (found["warm"], found["first"], found["models"][0]["warm"]) == (None, None, None)


# The knee


def simulated(schedule: Schedule, *, servers: int, busy_s: float) -> Run:
    """What happens at a server that answers so many requests at a time, in the order of their arrival."""
    free = [0.0] * servers
    done = []
    for at in schedule.at.tolist():
        begins = max(at, heapq.heappop(free))
        heapq.heappush(free, begins + busy_s)
        done.append(begins + busy_s)
    kind, cpu = np.zeros(len(done), np.int32), np.zeros(1)
    return Run(schedule=schedule, sent=schedule.at, done=np.array(done), kind=kind, kinds=(), cpu=cpu)


@pytest.mark.parametrize("burstiness", [0.0, 1.0])
@pytest.mark.parametrize(("servers", "busy_s"), [(1, 0.02), (8, 0.04), (50, 0.1)])
@pytest.mark.parametrize("seed", range(5))
def test_the_knee_is_the_capacity_of_the_server(
    servers: int, busy_s: float, burstiness: float, seed: int
) -> None:
    capacity = servers / busy_s

    async def measure(rate: float) -> Loaded:
        traffic = Traffic(rates=(rate,), seconds=60.0, burstiness=burstiness)
        run = simulated(scheduled(traffic, ["m"], seed=seed), servers=servers, busy_s=busy_s)
        return loaded(run, target="simulated", seed=seed)

    found, _, limit = asyncio.run(find_knee(measure, start=capacity / 5, seconds=60.0, p99_s=None))
    assert limit == ""
    assert found == pytest.approx(capacity, rel=0.05)


def test_the_search_ends_at_the_rate_that_a_server_sustains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Behavior(at_once=4, busy_s=0.05), tmp_path) as server:
        found = load(capsys, server, "--find-knee", "--rate=60/s", "--for=0.4s", "--burstiness=0", "--gpus=2")
    assert 0 < found["rate"] < 1.5 * 4 / 0.05
    assert found["per_gpu_per_minute"] == pytest.approx(found["rate"] * 30)
    assert found["invocations_per_gpu_per_minute"] == int(found["rate"] * 30 / (1 + 0.2 * 12))


def test_a_limit_of_the_time_moves_the_knee(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Behavior(busy_s=0.05), tmp_path) as server:
        given = ["--find-knee", "--rate=20/s", "--for=1s", "--p99=30ms"]
        found = load(capsys, server, *given, status=1)
    assert found["rate"] is None
    assert "too few requests" in found["limit"]


def test_a_knee_that_the_generator_cannot_reach_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triton_models.load.result.SLIP_S", 0.0)
    with serving(Behavior(), tmp_path) as server:
        found = load(capsys, server, "--find-knee", "--rate=20/s", "--for=1s", status=1)
    assert "at 20.0/s the generator was the limit" in found["limit"]


def test_the_files_say_what_was_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    with serving(Behavior(), tmp_path) as server:
        found = load(capsys, server, "--rate", "50/s", "--for", "1s", "--output", str(out))
        again = load(capsys, server, "--trace", str(out / "trace.csv"))
    assert json.loads((out / "result.json").read_text()) == {**found, "files": str(out)}
    assert len((out / "requests.csv").read_text().splitlines()) == found["requests"] + 1
    assert again["requests"] == found["requests"]
    page = (out / "report.html").read_text()
    assert "<script" not in page
    assert page.count("<svg") == page.count("</svg>") == 2
    assert f"{found['warm']['count']:,}" in page


def test_a_page_shows_a_stall_and_the_errors_after_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Behavior(stalls=((0.2, 0.6),), fails=((1.0, 1.5),)), tmp_path) as server:
        load(capsys, server, "--rate", "100/s", "--for", "2s", "--output", str(tmp_path / "out"))
    page = (tmp_path / "out" / "report.html").read_text()
    assert re.findall(r"</b> ([a-z0-9]+)</span>", page) == [
        "sent",
        "answered",
        "errors",
        "p50",
        "p99",
        "largest",
    ]
    assert re.search(r"<td>status 503</td><td>\d+</td>", page)
    assert max(map(float, re.findall(r">([0-9.]+) ms</text>", page))) >= 400


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (["m", "--triton", "here"], "is no URL"),
        (["m", "--triton", "http://127.0.0.1:1", "--input", "X"], "[invoke-input]"),
        (["--triton", "http://127.0.0.1:1"], "no models are named"),
        (["m", "--triton", "http://127.0.0.1:1"], "no answer"),
        (["m", "--triton", "http://127.0.0.1:1", "--trace", "t.csv"], "--rate, --for asks for others"),
        (["m", "--triton", "http://127.0.0.1:1", "--find-knee", "--rate=1/s,2/s"], "several rates"),
    ],
)
def test_a_server_that_cannot_be_asked_is_an_error(
    capsys: pytest.CaptureFixture[str], given: list[str], what: str
) -> None:
    assert cli.main(["load", "--rate", "50/s", "--for", "1s", *given]) == 1
    assert what in capsys.readouterr().err


def test_inputs_that_the_model_does_not_have_are_never_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Behavior(), tmp_path) as server:
        asked = ["load", "m", "--triton", server.url, "--rate=9/s", "--for=1s", "--input"]
        assert cli.main([*asked, "Z=1"]) == 1
        assert "the model has no input 'Z'" in capsys.readouterr().err
        assert server.record == []
        assert cli.main([*asked, "X=[[1, 2, 3, 4]]"]) == 0
        assert cli.main([*asked, "X=7"]) == 0  # in the smallest shape, as for `fleet invoke`


def test_an_unknown_model_is_an_error_before_anything_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(Behavior(), tmp_path) as server:
        assert cli.main(["load", "other", "--triton", server.url, "--rate", "9/s", "--for", "1s"]) == 1
        assert "'other' is not found" in capsys.readouterr().err
    assert server.record == []


@pytest.mark.parametrize(
    "given", [["--rate", "fast"], ["--for", "long"], ["--present", "5m"], ["--burstiness", "-1"]]
)
def test_a_value_that_is_no_number_is_wrong_usage(
    given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["load", "m", "--triton", "http://h", *given])
    assert "expected" in capsys.readouterr().err
