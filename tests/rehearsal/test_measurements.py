"""Measurements of `fleet compare`: ranks, ratios, the table, and wrong answers."""

from __future__ import annotations

import threading

import pytest

from triton_rehearsal.compare.measurement import (
    ColdStart,
    Comparison,
    Measurement,
    interleaved,
    measure,
    rotated,
    throughputs,
)
from triton_rehearsal.hosting.model_figures import percentile


def measured(name: str, *, cold: tuple[float, ...] = (2.0,), latency: float = 0.010, **given) -> Measurement:
    starts = tuple(ColdStart(total_s=each, unpack_s=each / 4, load_s=each / 2) for each in cold)
    return Measurement(
        name=name,
        backends=("onnxruntime",),
        size=102_000_000,
        cold=starts,
        latencies_s=(latency,) * 4,
        throughput=50.0,
        **given,
    )


def comparison(*models: Measurement) -> Comparison:
    return Comparison(where="a machine", notes=("a note",), requests=4, concurrency=2, models=models)


@pytest.mark.parametrize(("share", "expected"), [(50, 5), (95, 10), (99, 10), (1, 1), (100, 10)])
def test_a_percentile_is_a_value_that_was_measured(share, expected):
    assert percentile([7, 3, 10, 1, 9, 2, 8, 4, 6, 5], share) == expected


def test_models_take_turns_and_another_one_begins_each_round():
    asked = []
    taken = interleaved({name: lambda name=name: asked.append(name) for name in "abc"}, rounds=4)
    assert "".join(asked) == "abcbcacababc"
    assert {name: len(times) for name, times in taken.items()} == {"a": 4, "b": 4, "c": 4}
    assert rotated(["only"], 3) == ["only"]


def test_throughput_is_of_as_many_callers_at_once_as_asked_for():
    waiting, counts = threading.Barrier(3, timeout=30), []

    def ask():
        waiting.wait()  # holds back all callers until the third arrives
        counts.append(1)

    rates = throughputs({"a": ask}, concurrency=3, requests=6)
    assert rates["a"] > 0
    assert len(counts) == 12  # four blocks, each with at least one request per caller


def test_an_error_of_a_caller_is_not_swallowed():
    def ask():
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  it has no message
        throughputs({"a": ask}, concurrency=2, requests=2)


def test_every_model_gets_its_own_numbers():
    slow = threading.Event()
    models = [measured("a"), measured("b")]
    done = measure(models, {"a": lambda: None, "b": lambda: slow.wait(0.01)}, requests=3, concurrency=1)
    assert [each.name for each in done] == ["a", "b"]
    assert [len(each.latencies_s) for each in done] == [3, 3]
    assert min(done[1].latencies_s) >= 0.01 > min(done[0].latencies_s)
    assert done[0].throughput > done[1].throughput


def test_ratios_are_to_the_first_model():
    document = comparison(measured("a"), measured("b", cold=(1.0,), latency=0.020)).as_dict()
    assert [(each["cold_start_ratio"], each["p50_ratio"]) for each in document["models"]] == [
        (1.0, 1.0),
        (0.5, 2.0),
    ]


def test_a_cold_start_is_the_median_and_each_of_its_parts_too():
    document = measured("a", cold=(4.0, 1.0, 2.0)).as_dict()
    assert document["cold_start_ms"] == 2000
    assert (document["unpack_ms"], document["load_ms"]) == (500, 1000)
    assert document["cold_starts_ms"] == [4000, 1000, 2000]


def test_parts_that_only_the_platform_knows_are_left_open(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    seen = measured("a")
    platform = Measurement(
        name="b", backends=("tensorrt",), size=1, cold=(ColdStart(total_s=1.0),), latencies_s=(0.1,)
    )
    assert platform.as_dict()["load_ms"] is None
    row = next(line for line in comparison(seen, platform).lines() if line.startswith("b "))
    assert row.split()[5:7] == ["-", "-"]


def test_the_table_says_what_it_is_of_and_what_it_does_not_say(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    lines = list(comparison(measured("a"), measured("longer:name")).lines())
    assert lines[0] == "served by a machine"
    header, first, second = lines[2:5]
    shown = [" ".join(line.split()) for line in (header, first)]
    assert shown[0] == "model runs in MB cold x unpack load 1st p50 x p95 p99 req/s"
    assert shown[1] == "a onnxruntime 102.0 2000 1.00 500 1000 10.0 10.0 1.00 10.0 10.0 50.0"
    assert len({len(line) for line in (header, first, second)}) == 1
    assert "4 requests in sequence" in lines[6]
    assert lines[7] == "a note"


def test_a_model_that_answers_otherwise_than_its_source_is_named_and_fails_the_comparison():
    wrong = measured("b", difference=0.5, allowed=0.1)
    outcome = comparison(measured("a", difference=0.1, allowed=0.1), wrong)
    assert outcome.exit_code == 1
    assert list(outcome.lines())[-1] == "b is wrong: 0.5 from its source, 0.1 allowed"


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_fits_the_width_and_keeps_what_matters(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    models = (measured("resnet50:onnx_tuned"), measured("resnet50:torchscript"))
    header, *rows = list(comparison(*models).lines())[2:5]
    assert [len(line) for line in (header, *rows) if len(line) > width] == []
    assert {"model", "cold", "p50", "req/s"} <= set(header.split())
    assert ("unpack" in header) is (width > 80)
