"""A shadow: a candidate gets copies of requests, besides the calls, and its answers are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pytest

from tests.triton_models.publishing_aws import record_of
from tests.triton_models.scripted_server import HANG, ROW, Request, Step, World, answer, error, reply
from triton_models.base.answers import same
from triton_models.client import InvocationError, shadows
from triton_models.client.shadows import AT_ONCE
from triton_models.repository.manifest import Manifest, Publication, Share
from triton_models.signals.counts import Counts, added
from triton_models.signals.report import Period, Report

CURRENT, CANDIDATE = "m-1111111111111111.tar.gz", "m-2222222222222222.tar.gz"


class Shadowed:
    """A client of a model with a shadow, whose candidate does what a test says."""

    def __init__(self, world: World, candidate: Step, *, parts: int = 10_000, tolerance: float = 0.0) -> None:
        now, self.world = datetime.now(timezone.utc), world
        current, other = (
            Publication(model="m", artifact=name, record=record_of(name)) for name in (CURRENT, CANDIDATE)
        )
        share = Share(how="shadow", parts=parts, tolerance=tolerance)
        manifest = Manifest().with_published([current], at=now, by="ann")
        body = manifest.with_candidate(other, share=share, at=now, by="ann").to_json().encode()
        read = reply(200, body, ETag='"1"', Content_Type="application/json")
        world.s3.otherwise = lambda request: reply(200, b"") if request.line.startswith("PUT") else read
        world.runtime.otherwise = lambda request: candidate if artifact(request) == CANDIDATE else answer(3.0)
        self.client: Any = world.client(signals="s3://bucket/signals/")

    def asked(self) -> Counter[str]:
        return Counter(artifact for _, artifact in self.world.asked())

    def counted(self) -> dict[str, Counts]:
        """Wait for the copies, and return what the client has written of each artifact."""
        shadows = getattr(self.client, "_client", self.client)._shadows
        for _ in range(AT_ONCE):
            assert shadows._free.acquire(timeout=30)
        self.client.close()
        written = [
            each.body for each in self.world.s3.requests if each.line.startswith("PUT") and minute(each.line)
        ]
        period = Period(start=0, seconds=60, process="")
        counts = added(Report.decoded(each, period).counts for each in written)
        return {artifact: each for (_, artifact), each in counts.items()}


def artifact(request: Request) -> str:
    return request.headers["x-amzn-sagemaker-target-model"]


def minute(line: str) -> bool:
    period = Period.of_name(line.split()[1].partition("?")[0].split("signals/")[1].partition("/")[2])
    return period is not None and period.seconds == 60


@pytest.mark.parametrize(("value", "differing"), [(3.0, 0), (3.4, 0), (3.6, 5)])
def test_copies_are_compared_within_the_tolerance(world: World, value: float, differing: int) -> None:
    one = Shadowed(world, answer(value), tolerance=0.5)
    for _ in range(5):
        assert one.client.infer(model="m", inputs=ROW)["Y"] == [3.0]
    counts = one.counted()
    assert one.asked() == {CURRENT: 5, CANDIDATE: 5}
    assert {name: each.requests for name, each in counts.items()} == {CURRENT: 5, CANDIDATE: 5}
    assert (counts[CANDIDATE].compared, counts[CANDIDATE].differing) == (5, differing)
    assert counts[CURRENT].compared == 0


def test_a_failure_of_a_shadow_is_an_error_of_the_candidate_alone(world: World) -> None:
    one = Shadowed(world, error(400, "ModelError", OriginalMessage="bad", OriginalStatusCode=400))
    one.client.infer(model="m", inputs=ROW)
    counts = one.counted()
    assert (counts[CANDIDATE].failed, counts[CANDIDATE].compared, counts[CURRENT].failed) == (1, 0, 0)


def test_a_shadow_that_hangs_holds_no_call_and_costs_a_bounded_number_of_copies(world: World) -> None:
    one = Shadowed(world, HANG)
    for _ in range(2 * AT_ONCE):
        assert one.client.infer(model="m", inputs=ROW)["Y"] == [3.0]
    world.runtime.wait_until_asked(3 * AT_ONCE)
    assert one.asked() == {CURRENT: 2 * AT_ONCE, CANDIDATE: AT_ONCE}
    world.runtime.let_go()


def test_a_copy_has_what_was_sent_although_the_caller_changes_its_array(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[Callable[[], None]] = []
    monkeypatch.setattr(shadows, "start", lambda call, _: later.append(call))
    one, array = Shadowed(world, answer(3.0)), np.ones((1, 100_000), dtype=np.float32)
    one.client.infer(model="m", inputs={"X": array})
    array[:] = 7.0
    later[0]()
    one.counted()
    assert one.asked() == {CURRENT: 1, CANDIDATE: 1}
    assert len({each.body for each in world.runtime.requests}) == 1


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.infer(
            model="m", inputs=ROW, parameters={"sequence_id": 1, "sequence_start": True}
        ),
        lambda client: client.invoke_target(target_model=CURRENT, inputs=ROW),
    ],
    ids=["a step of a sequence", "an artifact"],
)
def test_what_means_something_else_alone_is_not_copied(world: World, ask: Callable[[Any], object]) -> None:
    one = Shadowed(world, answer(3.0))
    ask(one.client)
    one.counted()
    assert one.asked() == {CURRENT: 1}


def test_a_call_that_fails_is_not_copied(world: World) -> None:
    one = Shadowed(world, answer(3.0))
    world.runtime.otherwise = error(400, "ModelError", OriginalMessage="bad", OriginalStatusCode=400)
    with pytest.raises(InvocationError):
        one.client.infer(model="m", inputs=ROW)
    one.counted()
    assert one.asked() == {CURRENT: 1}


def test_a_share_of_the_requests_is_copied(world: World) -> None:
    one = Shadowed(world, answer(3.0), parts=2_000)
    for number in range(60):
        one.client.infer(model="m", inputs=ROW, key=f"user {number}")
    one.counted()
    asked = one.asked()
    assert asked[CURRENT] == 60
    assert 3 <= asked[CANDIDATE] <= 24


def test_without_signals_nothing_is_copied(world: World) -> None:
    one = Shadowed(world, answer(3.0))
    world.client().infer(model="m", inputs=ROW)
    assert one.asked() == {CURRENT: 1}


NAN = np.array([1.0, np.nan])


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({"Y": np.array([1.0, np.nan])}, True),
        ({"Y": np.array([1.0, 2.0])}, False),
        ({"Y": np.array([1.0])}, False),
        ({"Z": NAN}, False),
        ({"Y": np.array([b"1", b"nan"], dtype=object)}, False),
    ],
)
def test_answers_are_the_same_with_equal_outputs_shapes_and_values(
    other: dict[str, Any], is_same: bool
) -> None:
    assert same({"Y": NAN}, other, tolerance=0.1) == is_same
