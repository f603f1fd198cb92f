"""Figures of others' endpoints, with sources: the embedded AWS must agree within bounds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from aws_for_tests.fixture import aws_fixture
from aws_for_tests.scaled_variant import IMAGE, scaled, served, track
from embedded_aws import EmbeddedAws, clock
from embedded_aws.autoscaling.policies import tracked_capacity
from embedded_aws.moto_gaps.capacity import ARRIVALS
from test_variant_scaling import Time, instances

aws = aws_fixture()
# A minute takes half a second, so that a busy machine shifts an arrival by less than a minute.
paced = aws_fixture(speed=120.0)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A figure on public record.

    Attributes:
        source: The repository with a commit or blob, and the place there.
        figures: The figures.
        bounds: The bounds within which the embedded AWS must agree.
    """

    source: str
    figures: Any
    bounds: tuple[float, float]


_NOTEBOOK = "kshitizgupta21/triton-mme-gtc23 bf2aef49b7 mme.ipynb"
_README = "mikegc-aws/strands-decider-triton 08f8c414e1 README.md"
RECORDS: Mapping[str, Seen] = {
    # The polls began some time after the change had.
    "the counts of an endpoint that changes from 2 to 4 instances, polled every 60 s, release 22.12": Seen(
        source=f"{_NOTEBOOK} [62]", figures=(2, 2, 2, 3, 3, 3, 3, 3, 4), bounds=(-1.0, 2.5)
    ),
    "seconds from the second to the fourth of 4 instances, polled every second, an image for CPUs": Seen(
        source="RamVegiraju/SageMaker-Deployment b5cd1f0458 XGBoost-Abalone.ipynb [29]",
        figures=48,
        bounds=(30, 90),
    ),
    "minutes to the first instance, ml.g6.xlarge, an image of 20.6 GB on release 25.04": Seen(
        source=f"{_README}, Measured on the live endpoint", figures=12, bounds=(11.0, 13.0)
    ),
    "the capacity after three minutes of 14 requests a second, target 250 per minute, from 1": Seen(
        source=f"{_README}, Verification and measurement", figures=3, bounds=(3, 4)
    ),
    "the capacity after 250 seconds of one caller without a pause, target 10, from 1, at most 4": Seen(
        source="RamVegiraju/SageMaker-Deployment b5cd1f0458 XGBoost-Abalone.ipynb [29], f11f1bf478 [23]",
        figures=4,
        bounds=(4, 4),
    ),
    "minutes above the floor after the load has stopped, ScaleInCooldown 600": Seen(
        source=f"{_README}, Verification and measurement", figures=(25, 30), bounds=(15, 30)
    ),
}


def seen(words: str) -> Seen:
    [found] = [each for name, each in RECORDS.items() if words in name]
    return found


def test_the_instances_of_a_scale_out_come_one_by_one_at_the_times_on_record(paced: EmbeddedAws) -> None:
    record = seen("2 to 4 instances")
    sagemaker = served(paced, instances=2, release="22.12")
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="e",
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 4}],
    )

    started = clock.current().time()
    minutes: dict[int, float] = {}
    while 4 not in minutes:
        minutes.setdefault(instances(paced), (clock.current().time() - started) / 60)

    least, most = record.bounds
    for count in (3, 4):
        polled = record.figures.index(count) + 1
        assert polled + least <= minutes[count] <= polled + most


def test_new_instances_with_a_small_image_come_within_the_seconds_on_record() -> None:
    arrivals = next(each for each in ARRIVALS if re.search(each.image, f"{IMAGE}-cpu"))
    second, _, fourth = arrivals.times(3)
    least, most = seen("for CPUs").bounds
    assert least <= fourth - second <= most


def test_the_first_new_instance_of_a_large_image_comes_after_the_minutes_on_record() -> None:
    arrivals = next(each for each in ARRIVALS if re.search(each.image, IMAGE))
    least, most = seen("20.6 GB").bounds
    assert least <= arrivals.first_s / 60 <= most


@pytest.mark.parametrize(
    ("words", "target", "value", "most"), [("14 requests", 250, 840, 4), ("without a pause", 10, 1000, 4)]
)
def test_target_tracking_jumps_to_the_capacity_on_record_at_once(
    aws: EmbeddedAws, words: str, target: float, value: float, most: int
) -> None:
    record, time = seen(words), Time(aws)
    track(scaled(aws, most=most), target=target)

    counts = time.passes(3, InvocationsPerInstance=value)

    least, largest = record.bounds
    assert counts[:2] == [1, 1]
    assert least <= counts[2] <= largest
    wanted = tracked_capacity({"TargetValue": target}, value=value, capacity=1)
    assert wanted == math.ceil(value / target)


def test_a_variant_stays_above_its_floor_for_the_minutes_on_record_after_the_load(aws: EmbeddedAws) -> None:
    time = Time(aws)
    track(scaled(aws), target=250, ScaleInCooldown=600)
    time.passes(3, InvocationsPerInstance=840)

    counts = time.passes(40, InvocationsPerInstance=0)

    least, most = seen("above the floor").bounds
    assert least <= counts.index(1) + 1 <= most
