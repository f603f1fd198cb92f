"""Measurements of `fleet compare`: ranks, ratios, the table, and wrong answers."""

from __future__ import annotations

import pytest

from triton_rehearsal.compare.measurement import ColdStart, Comparison, Measurement, interleaved, rotated


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


def test_models_take_turns_and_another_one_begins_each_round():
    asked = []
    taken = interleaved({name: lambda name=name: asked.append(name) for name in "abc"}, rounds=4)
    assert "".join(asked) == "abcbcacababc"
    assert {name: len(times) for name, times in taken.items()} == {"a": 4, "b": 4, "c": 4}
    assert rotated(["only"], 3) == ["only"]


def test_a_cold_start_is_the_median_and_ratios_are_to_the_first_model():
    second = measured("b", cold=(4.0, 1.0, 0.5), latency=0.020)
    first, second = comparison(measured("a"), second).as_dict()["models"]
    assert (first["cold_start_ratio"], first["p50_ratio"]) == (1.0, 1.0)
    assert (second["cold_start_ratio"], second["p50_ratio"]) == (0.5, 2.0)
    assert (second["cold_start_ms"], second["unpack_ms"], second["load_ms"]) == (1000, 250, 500)
    assert second["cold_starts_ms"] == [4000, 1000, 500]


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


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_fits_the_width_and_keeps_what_matters(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    models = (measured("resnet50:onnx_tuned"), measured("resnet50:torchscript"))
    header, *rows = list(comparison(*models).lines())[2:5]
    assert [len(line) for line in (header, *rows) if len(line) > width] == []
    assert {"model", "cold", "p50", "req/s"} <= set(header.split())
    assert ("unpack" in header) is (width > 80)
