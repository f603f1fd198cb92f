"""Several instances of an endpoint: how many run, which one answers, and what happens when one fails."""

import os
import random
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from aws_for_tests.deployed_functions import until
from tests.rehearsal.aws_for_hosting import moto_aws
from tests.rehearsal.served_models import model_that_waits, onnx_model, python_model
from tests.rehearsal.test_hosting import Endpoint, model_that_first
from tests.rehearsal.traces import traces
from triton_models.base.errors import FleetError
from triton_models.client import Client
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.plan.policy import MANY
from triton_rehearsal.hosting.budget import SERVER_BYTES, require_room
from triton_rehearsal.hosting.instance_group import choose
from triton_rehearsal.hosting.metrics import Download, Ended, Load, Started, Unload
from triton_rehearsal.hosting.service import Hosting

LONG = int(os.environ.get("FLEET_SCALE", "0")) > 0


@dataclass(frozen=True)
class Routed:
    """An instance with a number of models, and the requests in progress for those of them that matter."""

    model_count: int
    requests: tuple[tuple[str, int], ...] = ()

    def requests_of(self, target):
        return dict(self.requests).get(target)


@pytest.mark.parametrize(
    ("chosen", "others"),
    [
        (Routed(1, (("other", 9),)), [Routed(2), Routed(3)]),
        (Routed(5, (("m", MANY - 1),)), [Routed(0), Routed(0)]),
        (Routed(5, (("m", 1),)), [Routed(1, (("m", 2),)), Routed(0)]),
        (Routed(3), [Routed(1, (("m", MANY),)), Routed(4)]),
        (Routed(1, (("m", MANY + 1),)), [Routed(1, (("m", MANY + 2),))]),
    ],
    ids=["fewest models", "has it", "least busy with it", "another if busy", "least busy of all"],
)
def test_a_request_goes_where_sagemaker_sends_it(chosen, others):
    for place in range(len(others) + 1):
        assert choose([*others[:place], chosen, *others[place:]], "m") is chosen


def test_more_instances_than_fit_into_memory_are_refused_with_the_number_that_does():
    require_room(3, available=3 * SERVER_BYTES)
    with pytest.raises(FleetError, match="at most 3 more") as error:
        require_room(4, available=4 * SERVER_BYTES - 1)
    assert [problem.rule for problem in error.value.problems] == ["too-many-instances"]


@pytest.fixture(scope="module")
def aws():
    with moto_aws() as aws:
        yield aws


class Fleet(Endpoint):
    """An endpoint with several instances."""

    def resize(self, count):
        wanted = {"VariantName": "AllTraffic", "DesiredInstanceCount": count}
        sagemaker = self.aws.client("sagemaker")
        sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=self.name, DesiredWeightsAndCapacities=[wanted]
        )

    @property
    def instances(self):
        return self.hosting.instances(self.name)

    def loaded(self):
        return sorted(instance.loaded for instance in self.instances)

    def events(self, *kinds):
        return [moment.event for moment in self.hosting.timeline if isinstance(moment.event, kinds)]


@contextmanager
def fleet(aws, directory, *, instances=2, caching="Enabled", **settings):
    with Hosting(aws, directory=directory, lookup_s=0.0, **settings) as hosting:
        yield Fleet(aws, hosting, instances=instances, caching=caching)


@pytest.fixture
def two(aws, tmp_path):
    with fleet(aws, tmp_path / "hosting") as found:
        yield found


def test_models_are_spread_over_the_instances_and_stay_there_and_the_timeline_has_all_events(two):
    two.hosting.start(two.name)
    for name in ("a", "b"):
        two.upload(f"{name}.tar.gz", onnx_model(2.0))

    for _ in range(5):
        assert (two.ask("a.tar.gz"), two.ask("b.tar.gz")) == ([2, 4, 6], [2, 4, 6])
    assert two.loaded() == [["a.tar.gz"], ["b.tar.gz"]]

    two.resize(1)
    until(lambda: len(two.instances) == 1)
    until(lambda: two.events(Ended))
    kinds = Counter(type(event) for event in two.events(Started, Download, Load, Ended))
    assert kinds == {Started: 2, Download: 2, Load: 2, Ended: 1}
    assert {moment.endpoint for moment in two.hosting.timeline} == {two.name}


@pytest.mark.story
def test_instances_start_and_drain_as_the_count_changes(two, gate):
    slow = two.upload("slow.tar.gz", model_that_waits(gate))
    two.ask(two.upload("m.tar.gz", onnx_model(2.0)))  # to the first instance, so that the slow one is newer
    two.resize(3)
    until(lambda: len(two.instances) == 3)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(two.ask, slow)
        with gate.open("w"):  # opens when the model has the request
            two.resize(1)
            two.ask("m.tar.gz")
            [left] = two.instances
            assert not waiting.done()
        assert waiting.result() == [1, 2, 3]
    until(lambda: len(two.events(Ended)) == 2)
    assert left.loaded == ["m.tar.gz"]


def test_a_killed_instance_is_replaced_without_a_request(two, caplog):
    two.hosting.start(two.name)
    first, second = two.instances

    os.kill(first.server.pid, signal.SIGKILL)

    until(lambda: len(two.instances) == 2 and first not in two.instances)
    assert second in two.instances
    assert [event.reason for event in two.events(Ended)] == ["its server ended"]
    assert f"instance {first.id} is replaced" in caplog.text
    assert "Started Sagemaker HTTPService" in caplog.text


def test_a_request_that_its_instance_does_not_survive_is_a_model_error_and_may_be_repeated(
    aws, two, tmp_path, monkeypatch
):
    once = tmp_path / "once"
    dies_once = f"""
        import os, pathlib
        once = pathlib.Path({str(once)!r})
        if not once.exists():
            once.touch()
            os.kill(os.getppid(), 9)
        inputs ="""
    source = python_model()["identity/1/model.py"].replace(b"        inputs =", dies_once.encode())
    target = two.upload("dies.tar.gz", {**python_model(), "identity/1/model.py": source})

    with pytest.raises(two.runtime.exceptions.ModelError, match=r"Received server error \(0\)") as error:
        two.invoke(target)
    assert f"could not get a response from the {two.name} endpoint" in error.value.response["OriginalMessage"]
    assert asker(aws, two, monkeypatch)(target) == 1


@pytest.mark.story
def test_an_instance_that_is_killed_while_it_loads_a_model_is_replaced(aws, gate, tmp_path):
    with fleet(aws, tmp_path / "hosting", instances=1) as one:
        target = one.upload("slow.tar.gz", model_that_first(f"open({str(gate)!r}).read()"))
        other = one.upload("other.tar.gz", onnx_model(2.0))
        [first] = one.instances
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(one.invoke, target)
            with gate.open("w"):  # opens when the model waits
                os.kill(first.server.pid, signal.SIGKILL)
            assert isinstance(waiting.exception(), one.runtime.exceptions.ModelError)
        assert one.ask(other) == [2, 4, 6]
        assert first not in one.instances


@pytest.mark.story
def test_no_request_is_wrong_or_lost_while_models_push_each_other_out(aws, tmp_path, monkeypatch):
    models, requests, fit = (200, 100_000, 85) if LONG else (12, 120, 4)
    size = 1 << 20
    chance = random.Random(1)  # noqa: S311  no secret
    with fleet(aws, tmp_path, gpu_memory=fit * (size + 4096)) as two:
        body = {"scaling/1/model.onnx.data": bytes(size)}
        targets = {
            two.upload(f"m{n}.tar.gz", {**onnx_model(float(n), backend="tensorrt"), **body}): n
            for n in range(1, models + 1)
        }
        names, weights = list(targets), [rank**-1.5 for rank in range(1, models + 1)]
        answers = asker(aws, two, monkeypatch)
        outcomes = Counter()

        def ask(target):
            outcomes[answers(target) == targets[target]] += 1

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(ask, chance.choices(names, weights, k=requests)))
        assert outcomes == {True: requests}
        assert len(two.events(Unload)) >= max(1, requests // 500)
        assert not two.events(Ended)


def asker(aws, endpoint, monkeypatch):
    """The factor by which a target model of an endpoint scales.

    The client repeats the requests for which Triton does not find a model that it has just loaded.
    """
    for name, value in aws.exports(runtime=endpoint.hosting.url).items():
        monkeypatch.setenv(name, value)
    client = Client(endpoint_name=endpoint.name, repository=f"s3://{endpoint.bucket}/models/", attempts=5)

    def ask(target):
        inputs = {"X": np.array([[1, 2, 3]], dtype=np.float32)}
        [[first, *others]] = client.invoke_target(target_model=target, inputs=inputs)["Y"].tolist()
        assert others == [2 * first, 3 * first]
        return first

    return ask


@pytest.mark.story
def test_loads_and_unloads_leave_nothing(aws, tmp_path):
    cycles = 1_000 if LONG else 5
    with fleet(aws, tmp_path, instances=1, caching="Disabled") as one:
        target = one.upload("m.tar.gz", python_model())
        [instance] = one.instances

        def state():
            pid = instance.server.pid
            held = len(traces(instance.server.mark, pid, instance.server.directory))
            return held, len(list(Path(f"/proc/{pid}/fd").iterdir())), threading.active_count()

        for _ in range(3):
            one.ask(target)
        before, memory = state(), memory_of(instance)
        for _ in range(cycles):
            one.ask(target)
        # A connection or a thread may be there or not; what each cycle leaves is as many as cycles.
        until(lambda: all(now < then + cycles for now, then in zip(state(), before, strict=True)))
        assert memory_of(instance) - memory < 64 << 20


def memory_of(instance):
    """The resident memory of an instance, in bytes."""
    return instance.usage().memory_percent / 100 * INSTANCE_TYPES["ml.g4dn.xlarge"].memory_gib * 2**30
