"""Signals: what clients count of each model, write besides their calls, and `fleet top` and `costs` read."""

from __future__ import annotations

import functools
import gzip
import json
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.triton_models.own_clock import OwnClock
from tests.triton_models.publishing_aws import (
    EARLIER,
    client,
    endpoint,
    file_name,
    own_endpoints,
    record_of,
    write_manifest,
)
from tests.triton_models.scripted_server import ROW, World, error
from triton_models.artifact.profile import Range
from triton_models.check.estimate import estimated
from triton_models.cli import main as cli
from triton_models.client import InvocationError
from triton_models.plan.costs import divided
from triton_models.repository.manifest import Manifest, Publication, Repository
from triton_models.repository.objects import Store
from triton_models.signals import recorder as recorders
from triton_models.signals import top as tops
from triton_models.signals.counts import OTHERS, Counts, added, bucket, middle
from triton_models.signals.recorder import Recorder
from triton_models.signals.report import Period, Report
from triton_models.signals.stored import Signals, read

START = datetime(2026, 11, 1, 13, tzinfo=timezone.utc).timestamp()


class Now:
    """A clock of the day that stands still."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def store(s3: Any, repository: str) -> Store:
    return Store(Repository.parse(repository), s3)


@pytest.fixture
def process(store: Store, now: Now) -> Iterator[Callable[[], Recorder]]:
    """Processes that count."""
    begun: list[Recorder] = []

    def begin() -> Recorder:
        begun.append(Recorder(store, now=now))
        return begun[-1]

    yield begin
    for each in begun:
        each.close()


def ask(
    recorder: Recorder,
    model: str = "m",
    *,
    endpoint: str = "e",
    times: int = 1,
    error: str = "",
    seconds: float = 0.1,
) -> None:
    for _ in range(times):
        recorder.record(
            endpoint=endpoint,
            artifact=(model, f"{model}-1.tar.gz"),
            seconds=seconds,
            error=error,
            waited_s=None,
        )


def hour(store: Store, *, hours: float = 1) -> Signals:
    return read(store, "e", since=START, until=START + hours * 3600)


def requests(signals: Signals) -> Mapping[str, int]:
    return {model: each.requests for (model, _), each in signals.counts.items()}


def names(store: Store) -> list[str]:
    listed = store.s3.list_objects_v2(Bucket=store.repository.bucket)
    return [each["Key"].removeprefix(store.repository.prefix) for each in listed.get("Contents", [])]


def test_a_minute_is_written_when_it_is_over(store: Store, now: Now, process: Callable[[], Recorder]) -> None:
    recorder = process()
    ask(recorder, times=3)
    recorder.write()
    assert names(store) == []
    now.at += 60
    recorder.write()
    assert requests(hour(store)) == {"m": 3}


def test_the_minutes_and_the_hour_of_many_processes_are_counted_once(
    store: Store, now: Now, process: Callable[[], Recorder]
) -> None:
    all_of_them, asked = [process() for _ in range(20)], 0
    for minute in range(130):
        now.at = START + 60 * minute
        for number, each in enumerate(all_of_them):
            if (minute + number) % 9 == 0:
                ask(each, f"m{number % 3}", times=1 + number)
                asked += 1 + number
            each.write()
    for each in all_of_them:
        each.close()
    three = hour(store, hours=3)
    assert sum(requests(three).values()) == asked
    assert (three.lost, three.missing, three.ended, three.processes) == (0, 0, 0, 20)
    apart = [
        read(store, "e", since=START + 3600 * each, until=START + 3600 * (each + 1)) for each in range(3)
    ]
    assert sum(sum(requests(each).values()) for each in apart) == asked


@pytest.mark.story
def test_five_thousand_models_of_twenty_processes_are_counted_once_although_some_end_at_any_step(
    store: Store, now: Now, process: Callable[[], Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Recorder._put
    for number in range(20):
        recorder, now.at = process(), START
        for minute in range(3):
            for model in range(5_000):
                ask(recorder, f"m{model}")
            now.at = START + 60 * (minute + 1)
            with monkeypatch.context() as broken:
                if (number, minute) in {(3, 2), (4, 2)}:  # it ends before its last minute is there, or after
                    ends = {3: lambda *_: False, 4: lambda *given: put(*given) and False}[number]
                    broken.setattr(Recorder, "_put", ends)
                recorder.write()
        if number in {3, 4}:
            monkeypatch.setattr(recorder, "_pending", recorder._pending.__class__())
            monkeypatch.setattr(recorder, "_written", {})
    signals = hour(store)
    assert set(requests(signals).values()) == {20 * 3 - 1}
    assert len(signals.counts) == 5_000
    assert signals.processes == 20
    assert signals.ended == 20  # none has written what it counts now


def test_a_part_of_an_hour_is_read_by_its_minutes(
    store: Store, now: Now, process: Callable[[], Recorder]
) -> None:
    recorder = process()
    for _ in range(70):
        ask(recorder)
        now.at += 60
        recorder.write()
    assert requests(read(store, "e", since=START + 600, until=START + 1200)) == {"m": 10}


def test_what_s3_does_not_take_is_written_with_the_next_minute(
    store: Store, now: Now, process: Callable[[], Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = process()
    ask(recorder)
    now.at += 60
    with monkeypatch.context() as down:
        down.setattr(Recorder, "_put", lambda *_: False)
        recorder.write()
    ask(recorder, times=2)
    now.at += 60
    recorder.write()
    signals = hour(store)
    assert (requests(signals), signals.lost) == ({"m": 3}, 0)


def test_a_lost_answer_of_s3_does_not_count_twice(
    store: Store, now: Now, process: Callable[[], Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, put = process(), Recorder._put
    ask(recorder)
    now.at += 60
    with monkeypatch.context() as lossy:
        lossy.setattr(Recorder, "_put", lambda *given: put(*given) and False)
        recorder.write()
    recorder.write()
    assert requests(hour(store)) == {"m": 1}


@pytest.mark.parametrize(("minutes", "missing", "lost"), [(8, 3, 0), (63, 0, 0), (60 * 8, 0, 240)])
def test_a_minute_that_is_dropped_is_missing_until_its_hour_is_there(
    store: Store, now: Now, minutes: int, missing: int, lost: int
) -> None:
    recorder = Recorder(store, now=now)
    with pytest.MonkeyPatch.context() as down:
        down.setattr(recorders, "MOST_PENDING", 5)
        down.setattr(Recorder, "_put", lambda *_: False)
        for _ in range(minutes):
            ask(recorder, times=2)
            now.at += 60
            recorder.write()
        down.undo()
        down.setattr(recorders, "MOST_PENDING", 5)
        recorder.close() if lost else recorder.write()
    signals = hour(store, hours=9)
    assert (signals.missing, signals.lost) == (missing, lost)
    assert requests(signals)["m"] + 2 * missing + lost == 2 * minutes
    assert any("could not be written" in each for each in signals.doubts()) == bool(lost)


def test_a_process_that_ends_at_once_loses_its_last_minute_and_that_is_reported(
    store: Store, now: Now, process: Callable[[], Recorder]
) -> None:
    killed, quiet, closed = process(), process(), process()
    for each in (killed, quiet, closed):
        ask(each)
    now.at += 60
    ask(killed)
    for each in (killed, quiet, closed):
        each.write()
    closed.close()
    now.at += 60
    quiet.write()
    signals = hour(store)
    assert requests(signals) == {"m": 3}
    assert signals.ended == 1


def test_a_minute_whose_object_is_deleted_is_missed(
    store: Store, now: Now, process: Callable[[], Recorder]
) -> None:
    recorder = process()
    for _ in range(4):
        ask(recorder)
        now.at += 60
        recorder.write()
    store.s3.delete_object(**store.at(sorted(names(store))[1]))
    signals = hour(store)
    assert (requests(signals), signals.missing) == ({"m": 3}, 1)


def test_a_closed_process_has_written_all(store: Store, now: Now, process: Callable[[], Recorder]) -> None:
    recorder = process()
    ask(recorder, times=5)
    recorder.close()
    signals = hour(store)
    assert (requests(signals), signals.ended) == ({"m": 5}, 0)


def test_what_comes_after_the_end_is_counted_as_well(
    store: Store, now: Now, process: Callable[[], Recorder]
) -> None:
    recorder = process()
    for _ in range(2):
        ask(recorder)
        recorder.close()
    assert requests(hour(store)) == {"m": 2}


S3_PUT_USD, S3_GB_MONTH_USD = 5e-6, 0.023  # S3 Standard in us-east-1


@pytest.mark.parametrize("processes", [1, 20])
def test_a_month_of_signals_costs_less_than_twenty_dollars(processes: int) -> None:
    popularity = np.arange(1, 5001.0) ** -1.1
    asked = np.random.default_rng(1).choice(5000, 6000 // processes, p=popularity / popularity.sum())
    counts: dict[tuple[str, str], Counts] = {}
    for model in asked.tolist():
        one = counts.setdefault((f"model{model}", f"model{model}-0123456789abcdef.tar.gz"), Counts())
        one.count(seconds=0.01 + 1e-6 * model, error="", waited_s=None)
    minute = len(Report(period=Period(start=0, seconds=60, process="0" * 16), counts=counts).encoded())
    minutes, hours = 43_800 * processes, 730 * processes
    # An hour has at most as many bytes as its minutes.
    usd = (minutes + hours) * S3_PUT_USD + 2 * minutes * minute / 1e9 * S3_GB_MONTH_USD
    assert usd < 20


def test_a_fork_counts_for_itself(store: Store, now: Now, process: Callable[[], Recorder]) -> None:
    recorder = process()
    ask(recorder)
    child = os.fork()
    if not child:
        ask(recorder, times=2)
        recorder.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    recorder.close()
    signals = hour(store)
    assert (requests(signals), signals.processes) == ({"m": 3}, 2)


def test_threads_count_together(store: Store, now: Now, process: Callable[[], Recorder]) -> None:
    recorder = process()
    threads = [threading.Thread(target=ask, args=(recorder,), kwargs={"times": 2000}) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    recorder.close()
    assert requests(hour(store)) == {"m": 16_000}


def test_more_models_than_are_counted_apart_are_counted_together(
    store: Store, now: Now, process: Callable[[], Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorders, "MOST_MODELS", 2)
    recorder = process()
    for model in ("a", "b", "c", "d", "a"):
        ask(recorder, model)
    recorder.close()
    assert requests(hour(store)) == {"a": 2, "b": 1, OTHERS: 2}


def test_a_clock_that_is_fast_is_reported(store: Store, process: Callable[[], Recorder], now: Now) -> None:
    now.at = datetime.now(timezone.utc).timestamp() + 3600
    recorder = process()
    ask(recorder)
    recorder.close()
    signals = read(store, "e", since=now.at - 7200, until=now.at + 60)
    assert requests(signals) == {"m": 1}
    assert list(signals.fast.values()) == [pytest.approx(3630, abs=40)]


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", None, {}, {"format": 2}, {"models": 1}, {"models": [["m", "a", 1, 0, 0, 0, {}, []]]}],
    ids=str,
)
def test_a_damaged_object_is_one_problem_and_the_others_count(
    store: Store, now: Now, process: Callable[[], Recorder], content: Any
) -> None:
    for _ in range(2):
        recorder = process()
        ask(recorder)
        now.at += 60
        recorder.write()
    [first, *_] = names(store)
    whole = store.s3.get_object(**store.at(first))["Body"].read()
    if content is None:
        content = whole[: len(whole) // 2]
    if isinstance(content, dict):
        usual = {"format": 1, "number": 0, "idle": False, "lost": 0, "models": []}
        content = gzip.compress(json.dumps({**usual, **content} if content else {}).encode())
    store.s3.put_object(**store.at(first), Body=content)
    signals = hour(store)
    assert requests(signals) == {"m": 1}
    assert [each.rule for each in signals.damaged] == ["signals-object"]


@given(some.lists(some.floats(1e-6, 1e5), min_size=1, max_size=200), some.floats(0.01, 1))
def test_a_percentile_is_right_within_its_bucket(times: list[float], share: float) -> None:
    counts = Counts()
    for each in times:
        counts.count(seconds=each, error="", waited_s=None)
    exact = sorted(times)[math.ceil(share * len(times)) - 1]
    assert counts.percentile(share) == pytest.approx(exact, rel=0.033)


@given(some.floats(1e-6, 1e6))
def test_the_middle_of_a_bucket_is_in_it(seconds: float) -> None:
    assert bucket(middle(bucket(seconds))) == bucket(seconds)


def test_counts_add_up_in_any_order() -> None:
    chance, parts, together = np.random.default_rng(1), list[Mapping[Any, Counts]](), Counts()
    for _ in range(50):
        seconds, error = chance.exponential(0.1), str(chance.choice(["", "", "throttled", "deadline"]))
        one = Counts()
        for each in (one, together):
            each.count(seconds=seconds, error=error, waited_s=None)
        parts.append({("m", "a"): Counts.of_list(json.loads(json.dumps(one.as_list())))})
    chance.shuffle(parts)
    sum_ = added(parts)["m", "a"]
    assert sum_.as_list()[:1] + sum_.as_list()[2:] == together.as_list()[:1] + together.as_list()[2:]
    assert sum_.seconds == pytest.approx(together.seconds, abs=1e-4)


def test_both_clients_count_answers_errors_and_waits(
    world: World, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(store)
    monkeypatch.setattr("triton_models.client.core.Recorder", lambda _: recorder)
    one = world.client(signals="s3://bucket/signals/")
    one.infer(model="m", inputs=ROW)
    world.runtime.steps = [error(429, "ModelNotReadyException")]
    one.infer(model="m", inputs=ROW)
    world.runtime.steps = [error(403, "AccessDeniedException")]
    with pytest.raises(InvocationError):
        one.infer(model="m", inputs=ROW)
    with pytest.raises(InvocationError):
        one.infer(model="unknown", inputs=ROW)
    recorder.close()
    at = datetime.now(timezone.utc).timestamp()
    counts = read(store, "e", since=at - 300, until=at + 120).counts
    of_m = counts["m", "m-1111111111111111.tar.gz"]
    assert (of_m.requests, of_m.waited, of_m.errors) == (3, 1, {"invoke": 1})
    assert of_m.waited_s > 0
    assert counts["unknown", ""].failed == 1


def test_the_dollars_of_models_and_idle_time_add_up_to_the_bill() -> None:
    chance = np.random.default_rng(3)
    for _ in range(100):
        counts = {str(each): Counts(requests=1, seconds=chance.exponential(1e4)) for each in range(200)}
        bill, capacity_s = float(chance.uniform(1, 1e4)), float(chance.uniform(1, 1e7))
        rows, idle = divided(counts, bill=bill, capacity_s=capacity_s)
        assert sum(each.usd for each in rows) + idle == pytest.approx(bill)
        assert idle >= 0


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    cli.main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_the_top_shows_the_models_of_the_last_minutes(
    store: Store, environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = Now()
    now.at = datetime.now(timezone.utc).timestamp() - 120
    recorder = Recorder(store, now=now)
    ask(recorder, "often", times=50, seconds=0.02)
    ask(recorder, "slow", times=5, seconds=2.0)
    ask(recorder, "broken", times=2, error="endpoint-failed")
    recorder.close()
    arguments = ("top", "--signals", store.url, "--endpoint", "e")
    assert [each["name"] for each in said(capsys, *arguments)["models"]] == ["often", "slow", "broken"]
    by_p99 = said(capsys, *arguments, "--sort", "p99")["models"]
    assert [each["name"] for each in by_p99] == ["slow", "often", "broken"]
    assert by_p99[0]["p99_s"] == pytest.approx(2.0, rel=0.033)
    assert by_p99[2]["errors"] == {"endpoint-failed": 2}
    assert cli.main([*arguments, "--most", "1"]) == 0
    shown = capsys.readouterr().out
    assert "57 requests to 3 models, of 1 processes" in shown
    assert "2 more models" in shown


def test_the_top_of_an_endpoint_without_signals_is_one_error(
    store: Store, environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(capsys, "top", "--signals", store.url, "--endpoint", "another")
    assert [each["rule"] for each in found["error"]] == ["no-signals"]


class Minutes(OwnClock):
    """Does something at each wait, and is interrupted at the third."""

    def __init__(self, do: Callable[[], object]) -> None:
        super().__init__()
        self.do = do

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        if len(self.waited) == 3:
            raise KeyboardInterrupt
        self.do()


def test_the_live_top_reads_again_every_15_seconds_until_it_is_interrupted(
    store: Store, environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder(store, now=lambda: datetime.now(timezone.utc).timestamp() - 120)

    def one_more() -> None:
        ask(recorder)
        recorder.close()

    one_more()
    clock = Minutes(one_more)
    environment.setattr(tops, "follow", functools.partial(tops.follow, clock=clock))
    environment.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["top", "--signals", store.url, "--endpoint", "e", "--live"]) == 130
    pages = capsys.readouterr().out.split("\x1b[H\x1b[2J")[1:]
    assert [each.partition(" requests")[0].rpartition(" ")[2] for each in pages] == ["1", "2", "3"]
    assert clock.waited == [15, 15, 15]


def alias(aws: str, of: str) -> str:
    name = f"/{of}/endpoint"
    client(aws, "ssm").put_parameter(Name=name, Value=of, Type="String")
    return name


def test_an_alias_names_the_endpoint_of_the_top_and_of_the_costs(
    aws: str, store: Store, hosted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder(store, now=lambda: datetime.now(timezone.utc).timestamp() - 120)
    ask(recorder, endpoint=hosted)
    recorder.close()
    arguments = ("--signals", store.url, "--alias", alias(aws, hosted))
    assert said(capsys, "top", *arguments)["endpoint"] == hosted
    assert said(capsys, "costs", *arguments)["endpoint"] == hosted
    found = said(capsys, "top", "--signals", store.url, "--alias", "/absent")
    assert [each["rule"] for each in found["error"]] == ["alias"]


def test_a_log_that_names_no_requests_says_why_and_one_that_is_absent_is_one_error(
    aws: str, store: Store, environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder, name = Recorder(store, now=lambda: datetime.now(timezone.utc).timestamp() - 120), "quiet"
    ask(recorder, endpoint=name)
    recorder.close()
    arguments = ["top", "--signals", store.url, "--endpoint", name, "--log"]
    assert [each["rule"] for each in said(capsys, *arguments)["error"]] == ["endpoint-log"]
    client(aws, "logs").create_log_group(logGroupName=f"/aws/sagemaker/Endpoints/{name}")
    assert cli.main(arguments) == 0
    shown = capsys.readouterr().out
    assert "in log" in shown
    assert "Triton writes them unless log_info is false" in shown


@pytest.fixture
def hosted(aws: str, store: Store, environment: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """An endpoint of two instances, for commands in a folder of their own."""
    environment.chdir(tmp_path)
    name = store.repository.bucket  # no other test has it
    with own_endpoints(aws) as sagemaker:
        endpoint(sagemaker, store.url, name=name, image="i", instance_type="ml.g4dn.xlarge", count=2)
        yield name


def test_the_price_of_a_month_is_divided_among_tenants(
    store: Store, hosted: str, capsys: pytest.CaptureFixture[str], now: Now
) -> None:
    recorder = Recorder(store, now=now)
    for model, times in (("a", 30), ("b", 10), ("c", 10)):
        ask(recorder, model, endpoint=hosted, times=times, seconds=600)
    recorder.close()
    Path("tenants.csv").write_text("model,tenant\na,Orders\nb,Search\nc,Search\n")
    arguments = ["costs", "--signals", store.url, "--endpoint", hosted, "--month", "2026-11"]
    found = said(capsys, *arguments, "--tenants", "tenants.csv", "--bill", "2000")
    of_price = said(capsys, *arguments)
    assert cli.main(arguments) == 0
    costs = {each["name"]: each["usd"] for each in found["costs"]}
    assert costs["Orders"] == pytest.approx(1.5 * costs["Search"])
    assert sum(costs.values()) + found["idle_usd"] == pytest.approx(2000)
    assert of_price["usd"] == pytest.approx(2 * 0.7364 * of_price["seconds"] / 3600)
    assert "(idle)" in capsys.readouterr().out


def test_the_bill_can_be_divided_by_gpu_seconds_of_profiles(
    store: Store, hosted: str, capsys: pytest.CaptureFixture[str], now: Now
) -> None:
    busy, manifest = {"a": 0.25, "b": 0.5}, Manifest()
    for model, seconds in busy.items():
        profile = replace(
            estimated(model, size=1e6, backend="onnxruntime", rows=8),
            busy_s=Range.measured(seconds, "a census"),
        )
        name = file_name(model, "1")
        wanted = Publication(model=model, artifact=name, record=record_of(name, profile=profile))
        manifest = manifest.with_published([wanted], at=EARLIER, by="ann")
    write_manifest(store.url, json.loads(manifest.to_json()), store.s3)
    recorder = Recorder(store, now=now)
    for model, errors in (("a", 0), ("b", 10)):
        for number in range(30):
            error = "deadline" if number < errors else ""
            artifact = (model, file_name(model, "1"))
            recorder.record(endpoint=hosted, artifact=artifact, seconds=9.0, error=error, waited_s=None)
    recorder.close()
    given = ["--signals", store.url, "--endpoint", hosted, "--month", "2026-11", "--repository", store.url]
    found = said(capsys, "costs", *given, "--gpu-seconds")
    assert {each["name"]: each["seconds"] for each in found["costs"]} == {"a": 7.5, "b": 10.0}
    assert "a census (2)" in found["measure"]
    ask(recorder, "c", endpoint=hosted)
    recorder.close()
    (error,) = said(capsys, "costs", *given, "--gpu-seconds")["error"]
    assert (error["rule"], "c-1.tar.gz" in error["what"]) == ("costs", True)


@pytest.mark.parametrize("given", [["--month", "2999-01"], ["--tenants", "tenants.csv"]])
def test_a_month_to_come_or_a_file_without_tenants_is_one_error(
    given: list[str], store: Store, hosted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("tenants.csv").write_text("name,owner\n")
    found = said(capsys, "costs", "--signals", store.url, "--endpoint", hosted, *given)
    assert [each["rule"] for each in found["error"]] == ["costs"]


def test_a_month_that_is_none_is_refused() -> None:
    with pytest.raises(SystemExit):
        cli.main(["costs", "--signals", "s3://b/s/", "--endpoint", "e", "--month", "November"])
