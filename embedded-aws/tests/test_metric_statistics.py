"""Statistics of samples, as CloudWatch's user guide defines them."""

from __future__ import annotations

from collections import Counter

import pytest

from embedded_aws.cloudwatch.series import MetricKey, MetricStore, Samples, StatisticSet
from embedded_aws.cloudwatch.statistics import is_statistic, statistic

HUNDRED = Samples(values=Counter([float(value) for value in range(1, 101)]))
KEY = MetricKey(namespace="Test", name="Latency")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SampleCount", 100),
        ("Sum", 5050),
        ("Average", 50.5),
        ("Maximum", 100),
        ("p99", 99),
        ("p99.9", 100),
        ("tm90", 45.5),
        ("TM(2%:98%)", 50.5),
        ("TM(10:20)", 15.5),
        ("IQM", 50.5),
        ("wm98", pytest.approx(50.47)),
        ("WM(10%:90%)", pytest.approx(50.4)),
        ("tc90", 90),
        ("TC(80:500)", 20),
        ("ts90", 4095),
        ("TS(80%:)", 1810),
        ("PR(:30)", 30),
        ("PR(10:20)", 10),
    ],
)
def test_a_statistic_of_the_numbers_from_1_to_100(name: str, expected: float) -> None:
    assert is_statistic(name)
    assert statistic(HUNDRED, name) == expected


@pytest.mark.parametrize("name", ["average", "p", "p101", "P99", "tm", "TM(:)", "PR(10%:20%)", "p99.", ""])
def test_other_names_are_no_statistics(name: str) -> None:
    assert not is_statistic(name)


def test_a_summary_counts_in_the_simple_statistics() -> None:
    summary = StatisticSet(count=2, total=30, least=10, most=20)
    samples = Samples(values=Counter([1.0]), sets=[summary])

    names = ("SampleCount", "Sum", "Average", "Minimum", "Maximum")
    assert [statistic(samples, name) for name in names] == [3, 31, 31 / 3, 1, 20]
    assert statistic(samples, "p50") is None


def test_periods_begin_at_the_start_and_end_before_the_end() -> None:
    store = MetricStore()
    for second in (100, 159, 160, 220):
        store.put(KEY, second=second, samples=Samples(values=Counter([1.0])))

    periods = store.periods(KEY, start=100, end=220, period=60)
    assert {time: statistic(samples, "Sum") for time, samples in periods.items()} == {100: 2, 160: 1}


def test_a_unit_selects_the_samples_that_have_it() -> None:
    store = MetricStore()
    store.put(KEY, second=0, samples=Samples(values=Counter([1.0]), unit="Seconds"))
    store.put(KEY, second=0, samples=Samples(values=Counter([1000.0]), unit="Milliseconds"))

    [samples] = store.periods(KEY, start=0, end=60, period=60, unit="Seconds").values()
    assert (statistic(samples, "Sum"), samples.unit) == (1.0, "Seconds")
    [samples] = store.periods(KEY, start=0, end=60, period=60).values()
    assert statistic(samples, "SampleCount") == 2


def test_samples_older_than_three_hours_are_kept_by_the_minute_with_their_sum_and_extremes() -> None:
    store, old = MetricStore(), range(600)
    for second in old:
        values = Counter(second + number / 100 for number in range(100))
        store.put(KEY, second=second, samples=Samples(values=values))
    total = sum(
        statistic(each, "Sum") or 0 for each in store.periods(KEY, start=0, end=600, period=1).values()
    )

    store.put(KEY, second=600 + 3 * 3600, samples=Samples(values=Counter([1.0])))

    kept = store.periods(KEY, start=0, end=600, period=1)
    assert list(kept) == [*range(0, 600, 60)]
    assert all(len(samples.values) <= 500 for samples in kept.values())
    assert sum(statistic(each, "Sum") or 0 for each in kept.values()) == pytest.approx(total)
    assert [statistic(kept[60], name) for name in ("SampleCount", "Minimum", "Maximum")] == [6000, 60, 119.99]
    assert store.latest(KEY) == 600 + 3 * 3600
