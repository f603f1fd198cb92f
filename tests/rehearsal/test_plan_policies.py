"""A plan decides as the embedded AWS and a rehearsal do."""

from __future__ import annotations

import json
import time
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from aws_for_tests.fixture import Hands, clock_is
from aws_for_tests.scaled_variant import scaled, track
from embedded_aws import EmbeddedAws
from embedded_aws.moto_gaps.capacity import ARRIVALS
from tests.rehearsal.deployed_endpoints import instances as instances_of
from triton_models.cli import main as cli
from triton_models.plan.compiled import Models
from triton_models.plan.offer import STARTS_S
from triton_models.plan.policy import MANY
from triton_models.plan.simulation import Endpoint, Simulation, Tracking
from triton_rehearsal.hosting.metrics import Invocation, MetricsPublisher, Source

MINUTES = 70


def random_minutes(seed: int) -> np.ndarray[Any, Any]:
    """Return the moments of requests that rise and fall."""
    chance = np.random.default_rng(seed)
    rates = np.repeat(chance.uniform(20, 400, 5), [8, 20, 8, 18, 16]) * chance.uniform(0.9, 1.1, MINUTES)
    return np.concatenate(
        [np.sort(60 * (minute + chance.random(int(rate)))) for minute, rate in enumerate(rates)]
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_scales_as_the_alarms_of_the_embedded_aws_do(seed: int) -> None:
    at, hands, counts = random_minutes(seed), Hands(), list[int]()
    began = hands.seconds
    with EmbeddedAws() as embedded, clock_is(hands):
        track(scaled(embedded, most=6), target=80, ScaleOutCooldown=120, ScaleInCooldown=180)
        source = Source(endpoint="e", variant="AllTraffic", config="c")
        publisher = MetricsPublisher(embedded.client("cloudwatch"), usage=list)
        instances = 1
        for minute, moments in groupby(at.tolist(), key=lambda each: int(each // 60)):
            for each in moments:
                hands.seconds = began + each
                publisher.add(
                    source,
                    Invocation(status=200, instances=instances, model_s=0, overhead_s=0, cache_hit=True),
                )
            hands.seconds = began + 60 * (minute + 1)
            publisher.flush()
            embedded.evaluate()
            instances = instances_of(embedded, "e")
            counts.append(instances)
        publisher.close()
    tracking = Tracking(requests=80, out_cooldown_s=120, in_cooldown_s=180)
    simulation = one_pinned_model(instances=1, most=6, first_s=0, last_s=0, tracking=tracking)
    simulation.send(at, np.zeros(len(at), np.int32))
    simulation.finish(60.0 * (MINUTES + 1))
    # An instance serves from the minute after the alarm on.
    assert [each.instances for each in simulation.minutes[1:]] == counts
    assert max(counts) > min(counts)


def one_pinned_model(**settings: Any) -> Simulation:
    """Return the simulation of an endpoint with one model, which is always loaded."""
    one = np.ones(1)
    return Simulation(
        Endpoint(
            gpus=1,
            memory=1,
            disk=1,
            overhead_s=0,
            first_load_s=0,
            unload_s=0,
            loads_at_once=1,
            go_s=0,
            replace_s=0,
            **settings,
        ),
        Models(memory=one, disk=one, fetch_s=one, load_s=one, busy_s=one * 1e-3, pinned=one > 0),
    )


@pytest.mark.parametrize(("callers", "wait"), [(MANY - 1, False), (3 * MANY, True)])
def test_callers_of_a_pinned_model_wait_on_an_added_instance_only_if_they_are_many(
    callers: int, wait: bool
) -> None:
    simulation = one_pinned_model(instances=1, most=2, first_s=0, last_s=0)
    simulation.add(10.0, 1)
    at = np.repeat(np.arange(9.0, 20.0, 0.5), callers)
    simulation.send(at, np.zeros(len(at), np.int32))

    assert bool(simulation.arrays.found["waited"].sum()) is wait


# The instances of a public endpoint with an image of 2022, minute by minute after its count was set to four.
TWO_TO_FOUR = [2, 2, 2, 3, 3, 3, 3, 3, 4]


def test_two_instances_become_four_as_on_a_public_record_within_two_minutes() -> None:
    [older] = [each for each in ARRIVALS if "tritonserver" in each.image]
    simulation = one_pinned_model(instances=2, most=4, first_s=older.first_s, last_s=older.last_s)
    simulation.add(0.0, 2)
    simulation.finish(11 * 60.0)
    counts = [each.instances for each in simulation.minutes]
    for count in (3, 4):
        assert abs(counts.index(count) - TWO_TO_FOUR.index(count)) <= 2
    assert 4 * 60 <= older.first_s <= older.last_s <= 10 * 60


def test_instances_of_a_plan_come_as_late_as_those_of_a_rehearsal() -> None:
    newest = ARRIVALS[-1]
    assert (newest.first_s, newest.last_s) == STARTS_S


LINE = 'I1127 04:00:00.000000 9 sagemaker_server.cc:196] "Invoking SageMaker TargetModel: {}"'
PLAN = ["plan", "--from-logs", "e", "--types", "ml.g5.xlarge", "--json"]


def test_the_requests_of_a_plan_come_from_the_log_of_an_endpoint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group, now = "/aws/sagemaker/Endpoints/e", int(time.time() * 1000)
    messages = [LINE.format(f"model-{number % 3}-0123456789abcdef.tar.gz") for number in range(600)]
    messages[7] = "I1127 another line"
    with EmbeddedAws() as embedded:
        for name, value in embedded.exports().items():
            monkeypatch.setenv(name, value)
        logs = embedded.client("logs")
        logs.create_log_group(logGroupName=group)
        logs.create_log_stream(logGroupName=group, logStreamName="v/i-1")
        events = [
            {"timestamp": now - 600_000 + 1000 * number, "message": message}
            for number, message in enumerate(messages)
        ]
        logs.put_log_events(logGroupName=group, logStreamName="v/i-1", logEvents=events)
        assert cli.main([*PLAN, "--models", "3x50MB"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["traffic"].startswith("599 requests to 3 models")
        assert found["best"]["loads"] == 3
        for models, days in (("2x50MB", "7"), ("3x50MB", "0.000001")):
            assert cli.main([*PLAN, "--models", models, "--days", days]) == 1
            assert json.loads(capsys.readouterr().out)["error"][0]["rule"] == "plan-logs"
        logs.delete_log_group(logGroupName=group)
        assert cli.main([*PLAN, "--models", "3x50MB"]) == 1
        assert "ResourceNotFound" in capsys.readouterr().out
