"""`fleet plan`: profiles, traffic, the search, and its answers."""

from __future__ import annotations

import json
import lzma
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.rehearsal.served_models import tarball
from triton_models.artifact.layout import Layout, read_layout
from triton_models.artifact.profile import (
    LEAST,
    LIKELY,
    MIB,
    MOST,
    Profile,
    Range,
    profile_document,
    read_profile,
)
from triton_models.base.errors import FleetError
from triton_models.check.estimate import alike, estimated, of_folder, of_layout
from triton_models.check.fits import Fits
from triton_models.cli import main as cli
from triton_models.facts.gpu_memory import BACKENDS
from triton_models.facts.instances import GPUS, instance_type
from triton_models.load.schedule import Schedule
from triton_models.plan.compiled import BUCKETS, Models
from triton_models.plan.offer import Offer, offers
from triton_models.plan.planning import Assumed, Fleet, Limits, Planner, percentiles
from triton_models.plan.simulation import Endpoint, Simulation
from triton_models.plan.traffic import Recorded, Steady, read_counts, waiting_by_mean_rates


def busy(models: Sequence[Profile], seconds: float) -> Sequence[Profile]:
    """Return models whose requests keep a GPU busy for so long."""
    return [replace(each, busy_s=Range.measured(seconds, "given")) for each in models]


def offer(name: str, *, gib: float | None = None, usd: float | None = None) -> Offer:
    """Return an instance type, with other memory or another price."""
    [found] = offers([name], backends=["pytorch"], usd_per_hour=usd)
    return found if gib is None else replace(found, room=replace(found.room, memory=gib * 2**30))


# What took memory on real endpoints: model, MiB of weights, rows of the largest batch, and MiB of each copy.
ON_RECORD = [
    ("pytorch", 97, 1, 269),
    ("pytorch", 418, 1, 483),
    ("pytorch", 1161, 1, 1205),
    ("pytorch", 1356, 1, 1391),
    ("tensorrt", 49, 128, 559),
    ("tensorrt", 209, 32, 311),
    ("tensorrt", 580, 128, 1432),
]


@pytest.mark.parametrize(("backend", "weights", "rows", "each"), ON_RECORD)
def test_the_range_of_an_estimate_has_what_was_seen_on_a_real_endpoint(
    backend: str, weights: int, rows: int, each: int
) -> None:
    memory = estimated("m", size=weights * MIB, backend=backend, rows=rows).memory.values
    assert memory[LEAST] <= each * MIB <= memory[MOST]
    assert memory[LEAST] <= memory[LIKELY] <= memory[MOST]


@pytest.mark.parametrize(
    ("of", "room_mib", "models"),
    [
        # 90 % of a T4 with 15,109 MiB, less what the server and the libraries took.
        (("pytorch", 97, 1), 0.8877 * 15109 - 941, 46),
        (("tensorrt", 49, 128), 0.90 * 15109 - 533, 23),
        (("pytorch", 418, 1), 0.90 * 15109 - 710, 26),
        (("tensorrt", 209, 32), 0.90 * 15109 - 453, 42),
        # All of an A10G.
        (("pytorch", 44.4, 1), GPUS["A10G"].memory_mib - 165 - BACKENDS["pytorch"].first, 270),
    ],
)
def test_as_many_models_fit_as_on_a_real_endpoint_within_the_range(
    of: tuple[str, float, int], room_mib: float, models: int
) -> None:
    backend, weights, rows = of
    memory = estimated("m", size=weights * MIB, backend=backend, rows=rows).memory.values
    assert room_mib // (memory[MOST] / MIB) <= models <= room_mib // (memory[LEAST] / MIB)


@pytest.mark.parametrize(
    ("size", "backend", "seconds"),
    [(46.6, "pytorch", 0.80), (499, "pytorch", 7.24), (29.2, "tensorrt", 1.27)],
)
def test_a_load_takes_as_long_as_on_a_real_endpoint(size: float, backend: str, seconds: float) -> None:
    found = estimated("m", size=size * 1e6, backend=backend)
    likely = found.fetch_s.values[LIKELY] + found.load_s.values[LIKELY]
    assert likely == pytest.approx(seconds, rel=0.06)


DECLARED = 'parameters {key: "gpu_memory_mb" value {string_value: "300"}}'


@pytest.mark.parametrize(("kind", "seconds"), [("KIND_GPU", 67.0), ("KIND_CPU", 0.0)])
def test_a_network_that_onnx_runtime_compiles_at_its_load_takes_that_long(kind, seconds, tmp_path) -> None:
    group = f"instance_group {{ kind: {kind} }}"
    engine = "optimization { execution_accelerators { gpu_execution_accelerator { name: 'tensorrt' } } }"
    loads = []
    for name, more in (("plain", group), ("compiled", group + engine)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.pbtxt").write_text(f'backend: "onnxruntime" {more}')
        [found] = [each for each in of_folder(tmp_path) if each.name == name]
        loads.append(found.load_s.values[LIKELY])

    assert loads[1] - loads[0] == seconds


def test_a_folder_has_a_model_for_each_directory_whatever_it_consists_of(tmp_path: Path) -> None:
    for place, text in (
        ("net/config.pbtxt", 'backend: "tensorrt"\nmax_batch_size: 16'),
        (
            "declared/config.pbtxt",
            'backend: "python"\nparameters {key: "gpu_memory_mb" value {string_value: "300"}}',
        ),
        ("twice/config.pbtxt", 'backend: "pytorch"\ninstance_group {count: 2 kind: KIND_GPU}'),
        ("hosted/config.pbtxt", 'backend: "onnxruntime"\ninstance_group {count: 2 kind: KIND_CPU}'),
        ("other/config.pbtxt", f'backend: "mine"\n{DECLARED}'),
        ("both/steps/config.pbtxt", 'platform: "ensemble"'),
        ("both/inner/config.pbtxt", 'platform: "onnxruntime_onnx"'),
    ):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).write_text(text)
    for place in ("net/1/model.plan", "both/inner/1/model.onnx"):
        (tmp_path / place).parent.mkdir()
        (tmp_path / place).write_bytes(bytes(10 * MIB))
    models = of_folder(tmp_path)
    found = {each.name: each.memory.values[LIKELY] / MIB for each in models}
    assert found["net"] == pytest.approx(10 + 16 * 4, abs=0.01)
    assert found["declared"] == 300
    assert found["twice"] == pytest.approx(2 * 40, abs=0.01)
    assert found["hosted"] == 0
    assert found["other"] == 300
    assert found["both"] == pytest.approx(10 + 60 + 6, abs=0.01)  # a file of zeros
    assert {each.name: set(each.backends) - {""} for each in models} == {
        "net": {"tensorrt"},
        "declared": {"python"},
        "twice": {"pytorch"},
        "hosted": set(),
        "other": set(),
        "both": {"onnxruntime"},
    }


@pytest.mark.parametrize("text", ['backend: "mine"', DECLARED.replace("300", "lots")])
def test_a_model_of_which_nothing_is_known_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.pbtxt").write_text(text)
    with pytest.raises(FleetError) as raised:
        of_folder(tmp_path)
    assert [each.rule for each in raised.value.problems] == ["plan-models"]


PYTHON = """
backend: "python"
max_batch_size: 8
input {name: "X" data_type: TYPE_FP32 dims: [256, 1024]}
output {name: "Y" data_type: TYPE_FP32 dims: [1]}
instance_group {kind: KIND_CPU}
"""


def model_folder(folder: Path, config: str, *, mib: int = 0) -> Path:
    (folder / "m" / "1").mkdir(parents=True)
    (folder / "m" / "config.pbtxt").write_text(config)
    (folder / "m" / "1" / "model.bin").write_bytes(bytes(mib * MIB))
    return folder


@pytest.mark.parametrize(
    ("config", "type_", "expected"),
    [
        # 10 MiB of weights, and 3, 4 or 25 for each of 16 rows, in 21,535 MiB.
        ('backend: "tensorrt" max_batch_size: 16', "ml.g5.xlarge", ("memory", [52, 291, 371])),
        # Two batches of a little more than 8 MiB, in 64; without a batcher, of the 6 MB of a request.
        (f"{PYTHON} dynamic_batching {{}}", "ml.g5.xlarge", ("shared", [3, 3, 3])),
        (PYTHON, "ml.g5.xlarge", ("shared", [5, 5, 5])),
        # A process takes at most 500 MiB of 28 GiB.
        (f'backend: "python" {DECLARED}', "ml.g5.2xlarge", ("shared", [57, 64, 64])),
    ],
)
def test_the_limit_of_a_type_is_what_is_used_up_first(
    tmp_path: Path, config: str, type_: str, expected: tuple[str, list[int]]
) -> None:
    profile = of_layout(read_layout(model_folder(tmp_path, config, mib=10)))
    room = offers([type_], backends=profile.backends)[0].room
    found = Fits(type=instance_type(type_), room=room, profiles=[profile]).as_dict()["models"]
    assert (found[profile.name]["limit"], found[profile.name]["copies"]) == expected


def test_what_runs_on_the_cpu_takes_the_hosts_memory(tmp_path: Path) -> None:
    config = 'backend: "onnxruntime" instance_group { kind: KIND_CPU }'
    found = of_layout(read_layout(model_folder(tmp_path, config, mib=600)))
    assert found.memory.values == (0, 0, 0)
    assert found.host.values[LEAST] >= 600 * MIB


def test_a_check_says_how_many_fit_and_refuses_what_does_not_fit_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = model_folder(tmp_path / "small", 'backend: "mine" ' + DECLARED)
    large = model_folder(tmp_path / "large", 'backend: "mine" ' + DECLARED.replace("300", "30000"))
    adds = ["--image-adds", "mine", "--fits", "ml.g5.xlarge"]
    assert cli.main(["check", str(small), *adds]) == 0
    assert "holds 73 such models; the limit is GPU memory" in capsys.readouterr().out
    assert cli.main(["check", str(small), str(large), *adds, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [each["rule"] for each in found["paths"][str(large)]] == ["no-room"]
    assert found["paths"][str(small)] == []
    assert found["fits"]["together"]["share"] > 1


@pytest.mark.parametrize(
    ("hot", "problems"),
    [
        (["first"], []),
        (
            ["first", "second"],
            [
                "the hot models need about 24,000 MiB of GPU memory (first 12,000, second 12,000), and "
                "third, the largest other model, 300"
            ],
        ),
        (["fourth"], ["'fourth' is not one of these models"]),
    ],
)
def test_a_check_says_whether_hot_models_fit_and_what_they_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], hot: list[str], problems: list[str]
) -> None:
    sizes = {"first": "12000", "second": "12000", "third": "300"}
    paths = [
        model_folder(tmp_path / name, 'backend: "mine" ' + DECLARED.replace("300", size))
        for name, size in sizes.items()
    ]
    adds = ["--image-adds", "mine", "--fits", "ml.g5.xlarge", "--hot", *hot, "--json"]
    if hot == ["first"]:
        paths.pop(1)

    assert cli.main(["check", *map(str, paths), *adds]) == bool(problems)
    assert [each["what"] for each in json.loads(capsys.readouterr().out)["paths"]["--hot"]] == problems


def test_a_plan_counts_what_is_used_up_first() -> None:
    [plain] = alike(1, size=50e6, backend="pytorch")
    python = replace(plain, shared=Range.measured(2 * MIB, ""))
    traffic = Steady(rate=20, seconds=2000, models=80, popularity=0.5)
    one = offer("ml.g5.xlarge")
    for each, most in ((plain, 0), (python, 80 - 32)):
        found = Planner([each] * 80, traffic, Limits()).simulate(Fleet(offer=one, least=1, most=1))
        assert (found.unloads > 0) == (most > 0)


def test_each_backend_takes_the_memory_of_its_libraries_once() -> None:
    rooms = {
        names: offers(["ml.g5.xlarge"], backends=names)[0].room.memory / MIB
        for names in ((), ("pytorch",), ("pytorch", "tensorrt", "fil"))
    }
    first = {name: each.first for name, each in BACKENDS.items()}
    assert rooms[()] - rooms["pytorch",] == first["pytorch"]
    assert rooms[()] - rooms["pytorch", "tensorrt", "fil"] == first["pytorch"] + first["tensorrt"]


def test_random_requests_have_their_rate_and_popularity_and_are_the_same_each_time() -> None:
    traffic = Steady(rate=100, seconds=3600, models=50, popularity=1.2)
    at = np.concatenate([each for each, _ in traffic.parts()])
    model = np.concatenate([each for _, each in traffic.parts()])
    assert len(at) == 360_000
    assert at[-1] == pytest.approx(3600, rel=0.01)
    assert (np.diff(at) >= 0).all()
    np.testing.assert_allclose(np.bincount(model) / at[-1], traffic.rates(), rtol=0.15)
    np.testing.assert_array_equal(at, np.concatenate([each for each, _ in traffic.parts()]))


def test_waits_by_mean_rates_are_those_of_a_simulation_with_steady_requests_and_quick_loads() -> None:
    models = [
        replace(
            each,
            load_s=Range.measured(1e-4, ""),
            fetch_s=Range.measured(0, ""),
            busy_s=Range.measured(1e-6, ""),
        )
        for each in alike(200, size=100e6, backend="pytorch")
    ]
    traffic = Steady(rate=20, seconds=20_000, models=200, popularity=0.9)
    one = offer("ml.g5.xlarge", gib=5)
    fleet = Fleet(offer=one, least=1, most=1)
    seen = Planner(models, traffic, Limits()).simulate(fleet, Assumed(unload_s=0.0)).waiting
    memory = [each.memory.values[LIKELY] for each in models]
    assert waiting_by_mean_rates(traffic.rates(), memory, one.room.memory) == pytest.approx(seen, abs=0.015)


def test_tenants_that_come_and_go_wait_much_less_than_their_mean_rates_say() -> None:
    # Each of 40 models is asked for an hour of forty, twice a second.
    at = np.arange(0, 40 * 3600, 0.5)
    schedule = Schedule(at=at, model=(at // 3600).astype(np.int32), models=tuple(map(str, range(40))))
    models, traffic = alike(40, size=100e6, backend="pytorch"), Recorded(schedule=schedule)
    one = offer("ml.g5.xlarge", gib=1)
    found = Planner(models, traffic, Limits()).simulate(Fleet(offer=one, least=1, most=1))
    by_mean = waiting_by_mean_rates(
        traffic.rates(), [each.memory.values[LIKELY] for each in models], one.room.memory
    )
    assert found.waiting < 0.002
    assert by_mean > 0.5


def test_requests_per_minute_come_within_their_minutes(tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text("model,owner,1_minute,2_minute\na,x,3,0\nb,x,1,200\n")
    schedule = read_counts(tmp_path / "counts.csv", ["m", "n", "o"], seed=1)
    minutes = (schedule.at // 60).astype(int)
    found = [
        [int(((schedule.model == model) & (minutes == each)).sum()) for each in (0, 1)] for model in (0, 1)
    ]
    assert found == [[3, 0], [1, 200]]
    assert (np.diff(schedule.at) >= 0).all()


TOO_MANY = (f"a,{10**30}\n", f"a,{10**15}\n")


@pytest.mark.parametrize(
    "rows", ["", *TOO_MANY, "a," + "1" * 200_000, "a,x\n", "a,-1\n", "a,0\n", "a\n", "a,1\nb,1\nc,1\n"]
)
def test_damaged_counts_are_refused(tmp_path: Path, rows: str) -> None:
    (tmp_path / "counts.csv").write_text(f"model,1\n{rows}")
    with pytest.raises(FleetError) as raised:
        read_counts(tmp_path / "counts.csv", ["m", "n"], seed=1)
    assert [each.rule for each in raised.value.problems] == ["plan-requests"]


def one_instance(models: Models, **settings: Any) -> Simulation:
    """Return the simulation of an endpoint with one instance."""
    endpoint = Endpoint(
        instances=1,
        most=1,
        gpus=1,
        disk=len(models.memory),
        overhead_s=0,
        first_load_s=0,
        loads_at_once=1,
        first_s=1,
        last_s=1,
        replace_s=1,
        **settings,
    )
    return Simulation(endpoint, models, logged=100_000)


def waiting_for_one_of(room: int, schedule: Schedule) -> float:
    """Return the share of requests that wait if so many of the models fit, and loads take no time."""
    one = np.ones(len(schedule.models))
    models = Models(memory=one, disk=one, fetch_s=0 * one, load_s=1e-9 * one, busy_s=0 * one, pinned=one > 1)
    simulation = one_instance(models, memory=room, unload_s=0)
    simulation.send(schedule.at, schedule.model)
    return simulation.loads / len(schedule.at)


def test_the_least_recently_used_model_goes_on_every_request() -> None:
    chance = np.random.default_rng(3)
    asked = np.minimum(chance.zipf(1.2, 60_000), 400).astype(np.int32) - 1
    room, misses, kept = 40, 0, OrderedDict[int, None]()
    for model in asked.tolist():
        misses += model not in kept
        kept[model] = None
        kept.move_to_end(model)
        if len(kept) > room:
            kept.popitem(last=False)
    schedule = Schedule(at=np.arange(len(asked), dtype=float), model=asked, models=("m",) * 400)
    assert waiting_for_one_of(room, schedule) == misses / len(asked)


# Invocations of 1,350 functions in 1,440 minutes, at most five in each: a sample of Azure Functions 2019 by
# vhive-serverless/invitro, data/traces/1350_inv.csv. Data of Azure/AzurePublicDataset, CC-BY 4.0.
# The cap is not stated with the figures below: of none and 1 to 5, it is the one with which they agree.
AZURE = Path(__file__).with_name("azure_functions_2019.csv.xz")


def test_a_public_trace_waits_as_it_does_for_others_and_not_as_its_mean_rates_say(tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_bytes(lzma.decompress(AZURE.read_bytes()))
    schedule = read_counts(tmp_path / "counts.csv", ["m"] * 1350, seed=1)
    for room, waiting, by_mean in ((135, 0.525, 0.484), (540, 0.012, 0.041)):
        assert waiting_for_one_of(room, schedule) == pytest.approx(waiting, abs=0.005)
        rates = Recorded(schedule=schedule).rates()
        assert waiting_by_mean_rates(rates, np.ones(1350), room) == pytest.approx(by_mean, abs=0.005)


def test_percentiles_are_right_within_their_buckets() -> None:
    counts = np.zeros(BUCKETS, np.int64)
    counts[20 * 64] = 99  # from 1 s on
    counts[21 * 64] = 1
    half, last = percentiles(counts, (0.5, 1.0))
    assert half == pytest.approx(1.0, rel=0.016)
    assert last == pytest.approx(2.0, rel=0.016)


SMALL = [
    (rate, size, popularity, waiting)
    for rate in (5.0, 40.0)
    for size in (200e6, 900e6)
    for popularity, waiting in ((0.5, 0.002), (1.0, 0.02), (1.5, 0.05))
]


@pytest.mark.parametrize(("rate", "size", "popularity", "waiting"), SMALL)
def test_the_cheapest_fleet_is_that_of_an_exhaustive_search(
    rate: float, size: float, popularity: float, waiting: float
) -> None:
    models = busy(alike(30, size=size, backend="pytorch"), 0.02)
    traffic = Steady(rate=rate, seconds=40_000 / rate, models=30, popularity=popularity)
    types = [offer("ml.g4dn.xlarge", gib=5), offer("ml.g5.xlarge", gib=9), offer("ml.g5.2xlarge", gib=14)]
    limits = Limits(waiting=waiting)
    best = Planner(models, traffic, limits).plan(types).best
    each = Planner(models, traffic, limits)
    all_of_them = [
        each.simulate(Fleet(offer=type_, least=count, most=count))
        for type_ in types
        for count in range(1, 13)
    ]
    meeting = [found for found in all_of_them if found.meets(limits)]
    cheapest = min(meeting, key=lambda found: found.usd_per_month)
    assert best is not None
    assert best.usd_per_month == pytest.approx(cheapest.usd_per_month)


def test_traffic_with_a_peak_is_cheaper_with_scaling() -> None:
    quiet, peak = np.arange(0, 6 * 3600, 0.5), np.arange(6 * 3600, 8 * 3600, 0.02)
    at = np.concatenate([quiet, peak, np.arange(8 * 3600, 24 * 3600, 0.5)])
    schedule = Schedule(at=at, model=np.zeros(len(at), np.int32), models=("m",))
    models = busy(alike(1, size=100e6, backend="pytorch"), 0.04)
    best = (
        Planner(models, Recorded(schedule=schedule), Limits(waiting=0.05)).plan([offer("ml.g5.xlarge")]).best
    )
    assert best is not None
    assert best.fleet.tracking is not None
    assert best.fleet.least < best.most_instances


def test_the_minute_in_which_the_warm_up_ends_has_all_of_its_requests() -> None:
    traffic = Steady(rate=5, seconds=4000, models=10, popularity=1.0)
    planner = Planner(alike(10, size=100e6, backend="pytorch"), traffic, Limits())
    found = planner.simulate(Fleet(offer=offer("ml.g5.xlarge"), least=1, most=1))
    assert sum(each.asked for each in found.minutes) == traffic.count
    assert all(240 < each.asked < 360 for each in found.minutes[:-1])


def test_pinned_models_do_not_wait_and_leave_less_room() -> None:
    models = alike(40, size=500e6, backend="pytorch")
    planner = Planner(models, Steady(rate=5, seconds=4000, models=40, popularity=1.0), Limits())
    fleet = Fleet(offer=offer("ml.g5.xlarge", gib=10), least=1, most=1)
    free, pinned = planner.simulate(fleet), planner.simulate(replace(fleet, pinned=8))
    assert free.waited_by_model is not None
    assert pinned.waited_by_model is not None
    assert free.waited_by_model[:8].sum() > 0
    assert pinned.waited_by_model[:8].sum() == 0
    assert pinned.waited_by_model[8:].sum() > free.waited_by_model[8:].sum()


@pytest.mark.parametrize("stalls", [False, True])
def test_since_25_12_an_unload_delays_the_requests_for_all_models_of_its_instance(stalls: bool) -> None:
    one, at = np.ones(3), np.arange(0, 100, 0.01)
    asked = np.zeros(len(at), np.int32)
    asked[500::1000] = [1, 2] * 5  # every ten seconds another one, for which there is no room
    models = Models(
        memory=one, disk=one, fetch_s=0 * one, load_s=0.1 * one, busy_s=1e-3 * one, pinned=one > 1
    )
    simulation = one_instance(models, memory=2, unload_s=2, stalls=stalls)
    simulation.send(at, asked)
    since, done = simulation.arrays.log[: len(at)].T
    assert simulation.unloads == 9
    late = int((done - since > 0.2).sum())
    assert (late > 9 * 150) if stalls else (late <= 9 + 10)


NUMBERS = ["plan", "--models", "20x200MB", "--requests", "5/s", "--for", "10m", "--types", "ml.g5.xlarge"]


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> Mapping[str, Any]:
    cli.main([*NUMBERS, "--json", *arguments])
    found: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_numbers_alone_are_enough_and_the_answer_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(NUMBERS) == 0
    said = capsys.readouterr().out
    assert "1 x ml.g5.xlarge" in said.splitlines()[4]
    assert '"instance_type": "ml.g5.xlarge"' in said
    found = planned(capsys)
    assert found["settings"] == {"instance_type": "ml.g5.xlarge", "min_capacity": 1, "max_capacity": 1}
    assert found["best"]["usd_per_month"] == pytest.approx(1.408 * 730)
    assert set(found["doubts"]) >= {"gpu-memory-of-models", "routing-to-loaded", "cold-start-figures"}


def test_the_settings_are_written_where_they_belong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cdk.json"
    file.write_text('{"app": "x", "context": {"tritonFleet": {"name": "Mine", "min_capacity": 7}}}')
    assert cli.main([*NUMBERS, "--write", str(file)]) == 0
    context = json.loads(file.read_text())["context"]["tritonFleet"]
    assert context == {"name": "Mine", "min_capacity": 1, "max_capacity": 1, "instance_type": "ml.g5.xlarge"}
    file.write_text("{}")
    assert cli.main([*NUMBERS, "--write", str(file)]) == 1
    assert "plan-write" in capsys.readouterr().err


def test_pinned_models_with_names_are_written_as_hot_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("seldom", "often"):
        model_folder(tmp_path / "models" / name, 'backend: "onnxruntime"', mib=10)
    (tmp_path / "trace.csv").write_text("seconds,model\n" + "1,often\n" * 9 + "2,seldom\n")
    file = tmp_path / "cdk.json"
    file.write_text('{"context": {"tritonFleet": {}}}')
    given = ["--models", str(tmp_path / "models"), "--trace", str(tmp_path / "trace.csv"), "--waiting", "1"]
    types = ["--types", "ml.g5.xlarge", "--pin", "1", "--write", str(file)]

    assert cli.main(["plan", *given, *types]) == 0
    assert json.loads(file.read_text())["context"]["tritonFleet"]["hot"] == ["often"]
    assert '"hot": ["often"]' in capsys.readouterr().out
    assert cli.main([*NUMBERS, "--pin", "4"]) == 0
    assert '"hot": the names of the 4 most popular models' in capsys.readouterr().out


TENANTS = """
traffic:
  - {requests_per_second: 2, seconds: 3600}
  - {requests_per_second: 20, seconds: 600, start: 1200, last_model: 5}
"""


def test_a_page_shows_all_fleets_and_the_cheapest_one_over_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tenants.yaml").write_text(TENANTS)
    given = ["--models", "60\u00d7400MB", "--scenario", str(tmp_path / "tenants.yaml"), "--waiting", "5%"]
    types = ["--types", "ml.g5.xlarge", "ml.g4dn.xlarge", "--report", str(tmp_path / "plan.html")]
    assert cli.main(["plan", *given, *types, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["traffic"].startswith("19,200 requests to 60 models")
    page = (tmp_path / "plan.html").read_text()
    best = found["best"]
    assert f"{best['min_capacity']} x {best['instance_type']}: {best['usd_per_month']:,.0f} USD" in page
    for title in (
        "Requests that wait for a load, by the cost of a month",
        "Requests per second",
        "Instances",
    ):
        assert f'aria-label="{title}"' in page
    assert "routing-to-loaded: any instance" in page
    assert page.count("<circle") > 2
    assert "default-src 'none'" in page


def test_a_page_about_limits_that_no_fleet_meets_says_so(tmp_path: Path) -> None:
    assert cli.main([*NUMBERS, "--p99", "1ms", "--report", str(tmp_path / "plan.html")]) == 1
    assert "no fleet meets the limits" in (tmp_path / "plan.html").read_text()


def test_two_models_on_one_endpoint_cost_half_of_two_endpoints() -> None:
    def cost(count: int) -> float:
        models = alike(count, size=300e6, backend="tensorrt")
        traffic = Steady(rate=5, seconds=2000, models=count, popularity=0)
        best = Planner(models, traffic, Limits()).plan([offer("ml.g4dn.4xlarge")]).best
        assert best is not None
        return best.usd_per_month

    assert cost(2) == cost(1)
    assert 12 * (2 * cost(1) - cost(2)) == pytest.approx(13_184, abs=1)  # in a year, of blog post 004 of AWS


def test_limits_that_no_fleet_meets_name_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*NUMBERS, "--p99", "1ms"]) == 1
    said = capsys.readouterr().out
    assert "No fleet of these types meets the limits" in said
    assert "The nearest is" in said
    assert "p99 is" in said


def test_what_is_given_is_not_doubted_and_a_fleet_that_cannot_keep_up_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Five GPUs are busy with one model: it needs copies on all instances.
    given = ["--models", "1x1MB", "--requests", "100/s", "--busy", "40ms", "--for", "40m"]
    assert cli.main(["plan", *given, "--types", "ml.g5.xlarge"]) == 0
    said = capsys.readouterr().out
    assert "GPU time of a request" not in said
    [line] = [each for each in said.splitlines() if "never another" in each]
    assert "cannot keep up" in line


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["--models", "1x90GB"], "plan"),
        (["--models", "0x1MB"], "plan-models"),
        (["--models", "none"], "plan-models"),
        (["--models", "2x1MB", "--backend", "lisp"], "plan-models"),
        (["--types", "ml.c5.xlarge"], "no-room"),
        (["--types", "ml.g5.xlarg"], "unknown-instance-type"),
        (["--types", "ml.p5.4xlarge"], "plan-types"),
        (["--region", "eu-west-1"], "plan-types"),
        (["--types", "ml.g5.4xlarge", "--region", "us-east-1"], "plan-types"),
        (["--types", "ml.g5.xlarge", "ml.g5.2xlarge", "--price", "2"], "plan-types"),
        (["--pin", "21"], "plan-arguments"),
        (["--report", "no-such-folder/plan.html"], "plan-arguments"),
        (["--pin", "100%", "--types", "ml.g5.xlarge", "--models", "400x200MB"], "plan"),
        (["--models", "1.2.3x5MB"], "plan-models"),
        (["--models", "2x1.2.3MB"], "plan-models"),
        (["--models", ",x5MB"], "plan-models"),
        (["--requests", "1/s,2/s"], "plan-requests"),
    ],
)
def test_bad_input_is_one_error(
    arguments: Sequence[str], rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = planned(capsys, *arguments)
    assert [each["rule"] for each in found["error"]] == [rule]


@pytest.mark.parametrize("option", ["--waiting=5", "--waiting=101%", "--pin=-1", "--pin=x"])
def test_a_share_is_at_most_all(option: str) -> None:
    with pytest.raises(SystemExit):
        cli.main([*NUMBERS, option])


def test_a_trace_of_a_plan_may_have_a_week(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.csv").write_text(f"seconds,model\n1,1\n{6 * 86_400},2\n")
    given = ["--models", "2x50MB", "--trace", str(tmp_path / "trace.csv"), "--waiting", "100%"]
    assert cli.main(["plan", *given, "--types", "ml.g5.xlarge"]) == 0
    assert "2 requests to 2 models in 144.0 h" in capsys.readouterr().out


@pytest.mark.story
def test_the_page_has_the_answer_to_its_first_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "plan.md").read_text()
    command = re.findall(r"```console\n(.*)\n", page)[0]
    monkeypatch.setenv("COLUMNS", "100")
    assert cli.main(command.split()[1:]) == 0
    said = capsys.readouterr().out.splitlines()
    shown = [
        line for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL) for line in block.splitlines()
    ]
    assert [line for line in shown if line not in said] == []


def test_models_are_asked_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEET_REPOSITORY", raising=False)
    assert cli.main(["plan", "--requests", "1/s"]) == 1
    assert "[plan-models]" in capsys.readouterr().err


def test_requests_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--models", "2x1MB"]) == 1
    assert "[plan-requests]" in capsys.readouterr().err


@pytest.mark.parametrize("rows", ["2,1\n1,1", "-1,1", "1,one\n2,two\n3,three"])
def test_a_trace_out_of_order_or_with_unknown_models_is_refused(
    tmp_path: Path, rows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.csv").write_text(f"seconds,model\n{rows}\n")
    assert cli.main(["plan", "--models", "2x1MB", "--trace", str(tmp_path / "trace.csv")]) == 1
    assert "[load-trace]" in capsys.readouterr().err


def python_folder(folder: Path, code: str, *, kind: str = "KIND_GPU", files: Mapping[str, int] = {}) -> Path:
    """Write a Python model with eight instances, and files of so many bytes."""
    place = model_folder(folder, f'backend: "python" instance_group {{ count: 8 kind: {kind} }}') / "m"
    (place / "1" / "model.bin").unlink()
    (place / "1" / "model.py").write_text("import numpy\nimport triton_python_backend_utils\n" + code)
    for name, size in files.items():
        (place / "1" / name).write_bytes(bytes(size))
    return place


FROM_HUB = """
import torch
class TritonPythonModel:
    def initialize(self, args):
        self.model = torch.hub.load("pytorch/vision", "resnet50")
    def execute(self, requests): ...
"""
FROM_OWN = """
import os
import torch
class TritonPythonModel:
    def initialize(self, args):
        folder = os.path.join(args["model_repository"], args["model_version"])
        self.model = self.load(os.path.join(folder, "weights.pt")).to("cuda")
    def load(self, path):
        with open(path, "rb") as file:
            return torch.jit.load(file)
"""
FROM_PARAMETER = """
import json
class TritonPythonModel:
    def initialize(self, args):
        from transformers import AutoModel
        name = json.loads(args["model_config"])["parameters"]["model_name"]["string_value"]
        self.model = AutoModel.from_pretrained(name)
"""
ADAPTER = """
from peft import PeftModel
from transformers import AutoModel
class TritonPythonModel:
    def initialize(self, args):
        base = AutoModel.from_pretrained("some/base")
        self.model = PeftModel.from_pretrained(base, args["model_repository"] + "/1")
"""
IMPORTED = 'import importlib\nframework = importlib.import_module("tensorflow")'
STARTED = 'import subprocess\nsubprocess.Popen(["python", "-m", "vllm"])'
ON_RUNTIME = """
import onnxruntime
session = onnxruntime.InferenceSession("/opt/model.onnx", providers=["CUDAExecutionProvider"])
"""
ELSEWHERE = FROM_OWN.replace("torch.jit.load(file)", 'torch.jit.load("/opt/models/large.pt")')
DEVICE = 'import torch\nnetwork = torch.nn.Linear(1, 1).to("cuda" if torch.cuda.is_available() else "cpu")'


@pytest.mark.parametrize(
    ("code", "kind", "files"),
    [
        (FROM_HUB, "KIND_GPU", {}),
        (FROM_HUB, "KIND_AUTO", {}),
        (FROM_HUB, "KIND_GPU", {"head.pt": 9_000_000}),
        (FROM_OWN, "KIND_GPU", {"weights.pt": 9_000}),
        (FROM_PARAMETER, "KIND_GPU", {}),
        (ELSEWHERE, "KIND_GPU", {"weights.pt": 9_000_000}),
        (f"{FROM_OWN}\nimport subprocess\nsubprocess.run(['serve'])", "KIND_GPU", {"weights.pt": 9_000_000}),
        ("import torch\ntorch.zeros(9).cuda()", "KIND_GPU", {"environment.tar.gz": 9_000_000}),
        (ADAPTER, "KIND_GPU", {"adapter_model.safetensors": 9_000_000, "adapter_config.json": 9}),
        (IMPORTED, "KIND_GPU", {}),
        (STARTED, "KIND_GPU", {}),
        (ON_RUNTIME, "KIND_GPU", {}),
        ("from mycompany import Engine", "KIND_GPU", {}),
        (DEVICE, "KIND_CPU", {}),
    ],
)
def test_what_a_python_model_allocates_besides_its_files_is_unknown(
    tmp_path: Path, code: str, kind: str, files: Mapping[str, int]
) -> None:
    place = python_folder(tmp_path, code, kind=kind, files=files)
    assert of_layout(read_layout(place)).memory.is_unknown


@pytest.mark.parametrize(
    ("code", "kind", "files", "mib"),
    [
        ("from PIL import Image", "KIND_CPU", {}, 0),
        ("from PIL import Image", "KIND_GPU", {}, 8 * 20),
        (FROM_HUB, "KIND_CPU", {}, 0),
        (FROM_OWN, "KIND_GPU", {"weights.pt": 10 * MIB}, 8 * 30),
        ("from transformers import AutoTokenizer", "KIND_GPU", {}, 8 * 20),
        (DEVICE + '\n"model_instance_kind"', "KIND_CPU", {}, 0),
    ],
)
def test_the_memory_of_a_python_model_is_estimated_where_its_files_show_it(
    tmp_path: Path, code: str, kind: str, files: Mapping[str, int], mib: float
) -> None:
    memory = of_layout(read_layout(python_folder(tmp_path, code, kind=kind, files=files))).memory
    assert not memory.is_unknown
    assert memory.values[LIKELY] / MIB == pytest.approx(mib, abs=0.1)


def test_an_unknown_memory_is_refused_until_the_configuration_says_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = python_folder(tmp_path, FROM_HUB)
    fits = ["check", str(place), "--image-adds", "torch", "--fits", "ml.g5.xlarge", "--json"]
    plan = [*PLAN_OF, "--models", str(tmp_path), "--json"]
    assert cli.main(fits) == 1
    found = json.loads(capsys.readouterr().out)
    [problem] = found["paths"][str(place)]
    assert (problem["rule"], found["fits"]["models"]["m"]["copies"]) == ("unknown-memory", None)
    assert "fleet census" in problem["fix"]
    assert "gpu_memory_mb" in problem["fix"]
    assert cli.main(plan) == 1
    [problem] = json.loads(capsys.readouterr().out)["error"]
    assert (problem["rule"], problem["where"]) == ("unknown-memory", "model 'm'")

    with (place / "config.pbtxt").open("a") as config:
        config.write(DECLARED.replace("300", "1800"))
    assert cli.main(fits) == 0
    assert json.loads(capsys.readouterr().out)["fits"]["models"]["m"]["copies"] == [1, 1, 1]
    assert cli.main(plan) == 0


PLAN_OF = ["plan", "--requests", "1/s", "--for", "10m", "--types", "ml.g5.xlarge"]


def test_a_profile_with_an_unknown_memory_stays_unknown_in_the_manifest(tmp_path: Path) -> None:
    profile = of_layout(read_layout(python_folder(tmp_path, FROM_HUB)))
    assert read_profile(profile.name, profile_document(profile)).memory.is_unknown
    assert Range.total([profile.memory, Range.measured(1.0, "a census")]).is_unknown


def test_archives_in_folders_are_models_of_their_own(tmp_path: Path) -> None:
    for tenant in "ab":
        (tmp_path / tenant).mkdir()
        packed = tmp_path / tenant / "model.tar.gz"
        config = f'backend: "mine" {DECLARED}'.encode()
        packed.write_bytes(tarball({"m/config.pbtxt": config, "m/1/x": b"1"}))
    assert [each.name for each in of_folder(tmp_path)] == ["a/model", "b/model"]


@pytest.mark.parametrize(
    ("models", "limit", "fewer"),
    [
        # One GPU would be busy 108 % of the time, and has room for 39 of the models.
        ("10x500MB --requests 24/s --busy 45ms --types ml.g6.xlarge", "GPU time", "its GPUs never rest"),
        ("10x500MB --requests 1/s --busy 45ms --types ml.g6.xlarge", None, None),
        # One GPU is busy 10 % of the time, and has room for 32 of the models, which are equally popular.
        ("60x500MB --requests 5/s --busy 20ms --types ml.g5.xlarge", "GPU memory", "of the requests wait"),
        # Two GPUs are busy 40 % of the time, and answers wait for each other.
        ("9x20MB --requests 40/s --busy 20ms --p99 60ms --types ml.g5.xlarge", "GPU time", "p99 is "),
    ],
)
def test_the_limit_of_a_plan_is_why_one_instance_fewer_is_not_enough(
    models: str, limit: str | None, fewer: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["plan", "--for", "30m", "--models", *models.split()]
    assert cli.main(arguments) == 0
    said = capsys.readouterr().out
    if limit is None:
        assert "Nothing limits: one instance is the minimum." in said
    else:
        assert f"The limit is {limit}: with one instance fewer, " in said
        assert fewer in said.partition("The limit is")[2].splitlines()[0]
    assert cli.main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["limit"] == limit


def test_the_names_of_a_trace_are_models_of_a_size_in_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.csv").write_text("\ufeffSeconds, Model\n1,b\n2,7\n3,b\n", encoding="utf-8")
    trace = ["--trace", str(tmp_path / "trace.csv"), "--types", "ml.g5.xlarge", "--waiting", "100%"]
    assert cli.main(["plan", "--models", "2x50MB", *trace]) == 0
    assert "3 requests to 2 models" in capsys.readouterr().out
    assert cli.main(["plan", "--models", "1x50MB", *trace]) == 1
    assert "--models lacks 1 of the 2 models that were asked: 7" in capsys.readouterr().err


COUNTS = {
    "model,1,2\na,3,0\nb,1,2\n": [[3, 0], [1, 2]],
    "model,1,2\na, 3 ,0.0\nb,1.0,2\n\n": [[3, 0], [1, 2]],
    "\ufeff1_minute, 2_minute\n3,\n1,2\n": [[3, 0], [1, 2]],
    "model,0,1\na,3,0\n,1,2\n": [[3, 0], [1, 2]],
}


@pytest.mark.parametrize("text", COUNTS)
def test_counts_may_have_blanks_fractions_of_nothing_and_empty_cells(tmp_path: Path, text: str) -> None:
    (tmp_path / "counts.csv").write_text(text, encoding="utf-8")
    schedule = read_counts(tmp_path / "counts.csv", ["m", "n"], seed=1)
    minutes = (schedule.at // 60).astype(int)
    assert [
        [int(((schedule.model == model) & (minutes == each)).sum()) for each in (0, 1)] for model in (0, 1)
    ] == COUNTS[text]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a,3,3\nb,1,2\n", ["the first row has no titles of minutes in sequence, but 'a', '3', '3'"]),
        ("3,3\n1,2\n", ["the first row has no titles of minutes in sequence, but '3', '3'"]),
        ("model,1,3\na,1,2\n", ["the first row has no titles of minutes in sequence, but 'model', '1', '3'"]),
        ("model;1;2\na;1;2\n", ["the first row has no titles of minutes in sequence, but 'model;1;2'"]),
        ("", ["the first row has no titles of minutes in sequence, but nothing"]),
        (
            "model,1,2\na,x,1.5\nb,-1,2\nc,1\n",
            [
                "the minute '1' has 'x'",
                "the minute '2' has '1.5'",
                "the minute '1' has '-1'",
                "the row ends before the minute '2'",
            ],
        ),
        ("model,1\na,nan\n", ["the minute '1' has 'nan'"]),
    ],
)
def test_each_mistake_of_counts_is_a_line_of_its_own(tmp_path: Path, text: str, what: list[str]) -> None:
    (tmp_path / "counts.csv").write_text(text)
    with pytest.raises(FleetError) as raised:
        read_counts(tmp_path / "counts.csv", ["m", "n", "o"], seed=1)
    assert [each.what for each in raised.value.problems] == what
    assert {each.rule for each in raised.value.problems} == {"plan-requests"}


def onnx_folder(folder: Path, *, networks: Any = None, width: str = "fp32", channels: int = 64) -> Layout:
    """Write a convolution of 64 channels and 256 by 256 places, and what a build records of it."""
    nodes = [
        helper.make_node("Conv", ["X", "w"], ["h"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["h"], ["i"]),
        helper.make_node("GlobalAveragePool", ["i"], ["Y"]),
    ]
    weights = [numpy_helper.from_array(np.zeros((channels, 3, 3, 3), np.float32), "w")]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size, *places])
        for name, size, places in (("X", 3, [256, 256]), ("Y", channels, [1, 1]))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    place = model_folder(folder, 'backend: "onnxruntime" max_batch_size: 32')
    (place / "m" / "1" / "model.bin").unlink()
    onnx.save(helper.make_model(graph), place / "m" / "1" / "model.onnx")
    if networks is not None:
        (place / "build.json").write_text(json.dumps({"networks": {"m": networks}, "precisions": [width]}))
    return read_layout(place)


ROW = 64 * 256 * 256  # numbers of the convolution, which the Relu overwrites
RECORDED = [
    {"batch": batch, "live": batch * ROW, "convolutional": convolutional}
    for convolutional in (True, False)
    for batch in (1, 8)
]


@pytest.mark.parametrize(
    ("networks", "width", "mib"),
    [
        (None, "fp32", 32 * 16 * 1.7),  # by the file
        (RECORDED[:2], "fp32", 32 * 16 * 1.7),
        (RECORDED[:1], "fp32", 32 * 16 * 1.7),
        (RECORDED[:2], "fp16", 32 * 8 * 1.7),
        (RECORDED[2:], "fp32", 32 * 16 * 3.0),
        ("the shape of 'x' cannot be derived", "fp32", 32 * 16 * 1.7),
        ([{"batch": 1}], "fp32", 32 * 16 * 1.7),
    ],
)
def test_an_onnx_model_takes_the_values_of_its_largest_batch(
    tmp_path: Path, networks: Any, width: str, mib: float
) -> None:
    found = of_layout(onnx_folder(tmp_path, networks=networks, width=width)).memory
    assert found.values[LIKELY] / MIB == pytest.approx(mib + 20, rel=0.01)
    assert "the values of its graph with 32 rows" in found.source


def test_a_network_has_the_width_of_its_own_precision_not_of_another_in_its_build(tmp_path: Path) -> None:
    onnx_folder(tmp_path, networks=RECORDED[:2], width="fp16")
    (file,) = tmp_path.rglob("build.json")
    record = json.loads(file.read_text())
    compared = {"examples": 1, "drawn": 4, "allowed": 1e-3, "precision": "fp32"}
    file.write_text(json.dumps({**record, "compared": {"m": compared}}))
    found = of_layout(read_layout(file.parent)).memory
    assert found.values[LIKELY] / MIB == pytest.approx(32 * 16 * 1.7 + 20, rel=0.01)


def test_an_onnx_model_whose_values_are_unknown_has_a_wide_range_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "config.pbtxt").write_text('backend: "onnxruntime" max_batch_size: 32')
    (tmp_path / "m" / "1" / "model.onnx").write_bytes(b"not a network")
    found = of_layout(read_layout(tmp_path)).memory
    assert found.values[MOST] > 10 * found.values[LIKELY] > 10 * found.values[LEAST]
    assert "estimated widely" in found.source
