"""A plan's simulation, next to real Triton servers in a rehearsed endpoint: who waits, and how long.

The models sleep while they are loaded and while they compute, each in its turn on the GPU of its instance, so
that this machine's CPUs do not decide. The simulation gets the times that the servers need besides.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.rehearsal.aws_for_hosting import ENVIRONMENT, MotoAws, moto_aws
from tests.rehearsal.served_models import FLOATS, python_model
from tests.rehearsal.test_instance_groups import LONG, Fleet
from triton_models.facts.containers import REQUEST_THREADS
from triton_models.plan.compiled import Models
from triton_models.plan.simulation import Endpoint, Simulation
from triton_rehearsal.hosting.metrics import Load, Unload
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

MODEL = """
import fcntl, sys, time
from pathlib import Path
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        place = Path(args["model_repository"])
        [top] = [each for each in place.parents if each.name == "models" and each.parent.name == "ml"]
        [backend] = top.parents[2].glob("**/backends/onnxruntime")
        sys.path.insert(0, str(backend))
        from gpu import OutOfMemoryError, take_for
        try:
            self.share = take_for(args, 0)
        except OutOfMemoryError:
            raise pb_utils.TritonModelException("CUDA out of memory")
        self.gpu = (top.parent / "gpu").open("a+")
        time.sleep({load_s})

    def execute(self, requests):
        answers = []
        for each in requests:
            fcntl.flock(self.gpu, fcntl.LOCK_EX)
            self.gpu.seek(0)
            now, until = time.time(), float(self.gpu.read() or 0)
            # The next request begins at once, however long the server takes to hand it over.
            until = (until if now - until < 0.01 else now) + {busy_s}
            self.gpu.truncate(0)
            self.gpu.write(str(until))
            self.gpu.flush()
            fcntl.flock(self.gpu, fcntl.LOCK_UN)
            time.sleep(max(0, until - time.time()))
            x = pb_utils.get_input_tensor_by_name(each, "X").as_numpy()
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]))
        return answers
"""
MEMORY = 'parameters {{key: "gpu_memory_mb" value {{string_value: "{}"}}}}'
MIB = 1 << 20
ONCE = Config(retries={"total_max_attempts": 1}, max_pool_connections=100)
SIZE = 100  # MiB
THREADS = {**ENVIRONMENT, "SAGEMAKER_TRITON_THREAD_COUNT": str(REQUEST_THREADS)}
"""As this project's endpoints. With Triton's 8 threads, requests wait in those that load a model."""

REFUSAL_S = 0.35, 0.5  # until the server has refused a model of these: mostly, and at most


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Requests to models.

    Attributes:
        room: The models of one size that an instance holds.
        sizes: The sizes of the models, in turn.
        tenants: The number of models of which one is asked at a time.
        lost: The moment at which the first instance is lost.
        added: The moment at which another one begins to serve.
    """

    models: int
    room: float
    instances: int = 1
    rate: float
    seconds: float = 20.0
    popularity: float = 1.0
    load_s: float = 1.0
    busy_s: float = 0.01
    burstiness: float = 1.0
    sizes: Sequence[int] = (1,)
    tenants: int = 0
    lost: float | None = None
    added: float | None = None

    def slower(self, times: float) -> Scenario:
        """Return it with as many requests, in which all but the work of the server takes longer."""
        return replace(
            self,
            rate=self.rate / times,
            seconds=self.seconds * times,
            load_s=self.load_s * times,
            busy_s=self.busy_s * times,
            lost=self.lost and self.lost * times,
            added=self.added and self.added * times,
        )

    def requests(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return moments and models."""
        chance, count = np.random.default_rng(5), int(self.rate * self.seconds)
        shape = 1 / self.burstiness**2
        gaps = chance.gamma(shape, 1 / shape, count)
        at = self.seconds * np.cumsum(gaps) / gaps.sum()
        if self.tenants:
            turn = self.seconds / self.models
            return at, ((at // turn).astype(int) + chance.integers(0, self.tenants, count)) % self.models
        weights = np.arange(1, self.models + 1.0) ** -self.popularity
        return at, chance.choice(self.models, count, p=weights / weights.sum())


SCENARIOS = {
    "all fit": Scenario(models=4, room=8, rate=15),
    "few are asked often": Scenario(models=8, room=6, rate=10, popularity=2.5, load_s=0.5, seconds=30),
    "thrash": Scenario(models=5, room=4, rate=1.0, popularity=0.3, load_s=0.5, busy_s=0.1, seconds=60),
    "two instances": Scenario(models=8, room=5, rate=20, load_s=0.5, instances=2),
    "three full instances": Scenario(
        models=12, room=3, rate=8, load_s=0.5, instances=3, popularity=2.0, seconds=30
    ),
    "tenants come and go": Scenario(models=6, room=3, rate=10, tenants=2, seconds=36, load_s=0.8),
    "bursts": Scenario(models=5, room=6, rate=12, burstiness=3.0),
    "a busy GPU": Scenario(models=3, room=6, rate=12, busy_s=0.05),
    "one model is asked for most": Scenario(
        models=3, room=6, rate=25, busy_s=0.02, popularity=3.0, instances=2
    ),
    "models of two sizes": Scenario(
        models=8, room=11, rate=6, sizes=(1, 3), popularity=2.0, load_s=0.5, seconds=30
    ),
    "an instance is lost": Scenario(models=6, room=8, rate=15, instances=2, lost=10.0),
    "an instance is added": Scenario(
        models=6, room=5, rate=8, popularity=2.0, added=10.0, seconds=25, load_s=0.5
    ),
}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a rehearsed endpoint did: the share that waits, the time of each request, and of what was done.

    Attributes:
        load_s: The mean time of the loads of each model.
    """

    waiting: float
    took: np.ndarray[Any, Any]
    load_s: np.ndarray[Any, Any]
    unload_s: float


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAws]:
    with moto_aws() as aws:
        yield aws


def rehearsed(scenario: Scenario, aws: MotoAws, directory: Path) -> Seen:
    at, asked = scenario.requests()
    memory = int(scenario.room * SIZE + SIZE // 2) * MIB
    with Hosting(aws, directory=directory, lookup_s=0.0, gpu_memory=memory) as hosting:
        one = Fleet(aws, hosting, instances=scenario.instances, environment=THREADS)
        source = MODEL.format(load_s=scenario.load_s, busy_s=scenario.busy_s)
        sizes = [scenario.sizes[number % len(scenario.sizes)] for number in range(scenario.models)]
        targets = [
            one.upload(f"m{number}.tar.gz", python_model(source, extra=MEMORY.format(size * SIZE)))
            for number, size in enumerate(sizes)
        ]
        one.hosting.start(one.name)
        asking = aws.client("sagemaker-runtime", url=one.hosting.url, config=ONCE)
        took = np.full(len(at), np.nan)
        began = time.perf_counter() + 0.5

        def ask(number: int) -> None:
            while True:
                try:
                    target = targets[asked[number]]
                    asking.invoke_endpoint(EndpointName=one.name, TargetModel=target, Body=FLOATS)
                    break
                except ClientError:  # its instance is lost
                    time.sleep(0.1)
            took[number] = time.perf_counter() - began - at[number]

        def later(moment: float | None, do: Callable[[], object]) -> None:
            if moment is not None:
                threads.submit(lambda: (time.sleep(began + moment - time.perf_counter()), do()))

        with ThreadPoolExecutor(100) as threads:
            later(scenario.lost, lambda: os.kill(one.instances[0].server.pid, signal.SIGKILL))
            later(scenario.added, lambda: one.resize(scenario.instances + 1))
            waiting = []
            for number, moment in enumerate(at.tolist()):
                time.sleep(max(0.0, began + moment - time.perf_counter()))
                waiting.append(threads.submit(ask, number))
            for each in waiting:
                each.result()
        figures = [one.hosting.figures[one.name, target] for target in targets]
        loads, unloads = one.events(Load), [each.seconds for each in one.events(Unload)]
        usual = float(np.median([each.seconds for each in loads]))
        of_each = [[each.seconds for each in loads if each.target == target] for target in targets]
    return Seen(
        waiting=sum(each.cold for each in figures) / sum(each.requests for each in figures),
        took=took,
        load_s=np.array([np.mean(each or [usual]) for each in of_each]),
        unload_s=float(np.median(unloads or [0.0])),
    )


def simulated(
    scenario: Scenario, seen: Seen, *, seed: int | None = None
) -> tuple[float, np.ndarray[Any, Any]]:
    """Return the share that waits, and the times; with a seed, of moments that vary as on a machine."""
    (at, asked), chance = scenario.requests(), np.random.default_rng(seed)
    load_s, refusal_s = seen.load_s, REFUSAL_S[0]
    if seed is not None:
        at = np.sort(at + chance.uniform(0, 0.03, len(at)))
        load_s, refusal_s = load_s * chance.normal(1, 0.05, len(load_s)), chance.uniform(*REFUSAL_S)
    one, overhead_s = np.ones(scenario.models), float(np.percentile(seen.took, 10)) - scenario.busy_s
    models = Models(
        memory=np.resize(np.array(scenario.sizes, float), scenario.models),
        disk=one,
        fetch_s=0.01 * one,
        load_s=load_s,
        busy_s=scenario.busy_s * one,
        pinned=one > 1,
    )
    endpoint = Endpoint(
        instances=scenario.instances,
        most=scenario.instances + 1,
        gpus=1,
        memory=scenario.room + 0.5,
        disk=1e9,
        overhead_s=overhead_s,
        first_load_s=0.0,
        unload_s=seen.unload_s,
        loads_at_once=REQUEST_THREADS,
        refused_after=refusal_s / float(np.median(load_s)),
        first_s=0.3,
        last_s=0.3,
        replace_s=0.3,
    )
    simulation = Simulation(endpoint, models, logged=2 * len(at))
    if scenario.lost is not None:
        simulation.lose(scenario.lost, 0)
    if scenario.added is not None:
        simulation.add(scenario.added, 1)
    simulation.send(at, asked.astype(np.int32))
    simulation.finish(at[-1] + 300)
    log = simulation.arrays.log[: simulation.arrays.number.answered]
    asked_, waited = simulation.counts().tolist()
    log = log[~np.isnan(log[:, 1])]
    return waited / asked_, log[:, 1] - log[:, 0] + overhead_s


OFTEN = ("all fit", "tenants come and go")
"""Those that run without FLEET_SCALE=1, which takes twenty minutes, and that other work hardly changes."""


@pytest.mark.parametrize("name", [each for each in SCENARIOS if LONG or each in OFTEN])
def test_as_many_requests_wait_as_in_a_rehearsal(name: str, aws: MotoAws, tmp_path: Path) -> None:
    scenario = SCENARIOS[name].slower(3 if LONG else 1)
    seen = rehearsed(scenario, aws, tmp_path / "hosting")
    waiting, times = simulated(scenario, seen)
    assert len(times) == len(seen.took)
    if not LONG:  # a request is up to 0.02 of them, and a machine with other work is late
        assert waiting == pytest.approx(seen.waiting, abs=0.06)
        return
    # A tenth of a second decides which model is evicted, and whether a load holds an answer.
    near = [(waiting, times), *(simulated(scenario, seen, seed=seed) for seed in range(20))]
    shares, p99 = [each for each, _ in near], [float(np.percentile(each, 99)) for _, each in near]
    assert min(shares) - 0.02 <= seen.waiting <= max(shares) + 0.02
    means = [each.mean() for _, each in near]
    assert 0.7 * min(means) <= seen.took.mean() <= 1.3 * max(means)
    assert 0.9 * min(p99) <= np.percentile(seen.took, 99) <= 1.1 * max(p99)
