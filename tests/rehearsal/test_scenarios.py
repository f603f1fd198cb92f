"""Scenarios: their files, their requests, and the shipped ones played against real servers."""

import json
import math
import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from stayed import run_fleet

from aws_for_tests.fixture import Hands, clock_is
from aws_for_tests.scaled_variant import scaled, track
from embedded_aws import EmbeddedAws
from tests.rehearsal.aws_for_hosting import moto_aws
from tests.rehearsal.deployed_endpoints import instances as instances_of
from triton_models.base.errors import FleetError
from triton_models.cli.main import main
from triton_models.client import AsyncClient
from triton_models.load.generator import Run
from triton_models.load.scenario import Stream
from triton_models.load.schedule import Schedule
from triton_rehearsal.hosting.metrics import Invocation, MetricsPublisher, Source, Unload
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.rehearse.command import scenario_announcement
from triton_rehearsal.scenario.play import WRONG, Faults, Observed, Stage, ask_again, play
from triton_rehearsal.scenario.reading import parse, read, shipped
from triton_rehearsal.scenario.result import ScenarioResult
from triton_rehearsal.scenario.scenario import Expected, Scenario, requests

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "rehearse.md").read_text().partition("\n## Limits")[0]
ONE = Stream(requests_per_second=1, seconds=9)
SHORT = ("cold-burst", "corrupt", "steady")


def parsed(text, folder=Path()):
    return parse(text, name="mine", where="mine.yaml", folder=folder)


def scenario(models=2, traffic=(ONE,), **expect):
    """Return a scenario that expects no model to recover, unless it says so."""
    expected = Expected.model_validate({"recovers": False, **expect})
    return Scenario(about="One fails.", models=models, traffic=list(traffic), expect=expected).named("x")


def mistakes(text, folder=Path()):
    with pytest.raises(FleetError) as error:
        parsed(text, folder)
    assert {problem.rule for problem in error.value.problems} <= {"scenario", "load-trace"}
    return {each.where: each.fix for each in error.value.problems}


def test_all_mistakes_of_a_file_are_found_at_once():
    found = mistakes(
        """
        about: Mistakes.
        models: 3
        gpu_memory: lots
        traffics: []
        traffic:
          - requests_per_second: -1
            seconds: 5
            last_model: 4
        faults:
          - at: 1
            kil: 1
          - at: 1
            kill: 2
        expect:
          loads: 5..3
          failing_models: [9]
        """
    )
    assert set(found) == {
        *("mine.yaml", "mine.yaml, traffic 1", "mine.yaml, faults 1", "mine.yaml, faults 2"),
        "mine.yaml, expect",
    }
    assert "did you mean traffic" in found["mine.yaml"]


VALID = """
about: x
models: 2
instances: {instances}
traffic: [{{requests_per_second: {rate}, seconds: {seconds}}}]
faults: [{{at: {at}, {fault}}}]
expect: {{loads: {loads}}}
"""
SMALL = {"instances": 1, "rate": 1, "seconds": 1, "at": 0, "loads": "1..2"}
FAULTS = ("kill: 1", "kill: 1, corrupt: 1", "s3_delay: 1", "")


@pytest.mark.parametrize(
    "given",
    [
        *({name: value} for name in SMALL for value in (".inf", ".nan", "9" * 400, "[1]", "2026-11-24")),
        {"instances": "1000000000"},
        {"instances": "1.5"},
        {"rate": "10000", "seconds": "86400"},
        *({"fault": fault} for fault in FAULTS[1:]),
    ],
    ids=str,
)
def test_numbers_without_bounds_and_faults_of_no_kind_or_two_are_mistakes(given):
    right = {**SMALL, "fault": FAULTS[0]}
    assert parsed(VALID.format(**right)).traffic
    assert mistakes(VALID.format(**{**right, **given}))


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "about: x\nmodels: 1", "a: b: c", "a: &a [1]\nabout: *a"),
        "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{f'*a{n}, ' * 9}]\n" for n in range(9)),
        "about: x\nmodels: " + "[" * 3000 + "]" * 3000,
        "about: x\nmodels: " + "9" * 5000,
        "about: 2026-13-45",
        "about: !!python/object:os.system x",
        "? [a]\n: b",
    ],
    ids=range(11),
)
def test_a_file_without_a_scenario_and_yaml_that_would_not_end_are_one_mistake(text):
    assert list(mistakes(text)) == ["mine.yaml"]


STREAM = "{requests_per_second: 1, seconds: 9"
WRONG_FILES = {
    f"models: 9\ntraffic: [{STREAM}, first_model: 5, last_model: 3}}]": "last_model 5 or more",
    f"models: x\ntraffic: [{STREAM}}}]": "models is 'x'",
    f"models: 9\nseed: a\ntraffic: [{STREAM}}}]": "seed is 'a'",
    f"models: 9\ntraffic: [{STREAM}, first_model: -1}}]": "first_model is -1",
    "models: 9\ntraffic: 7": "traffic is 7",
    f"models: 9\ntrafic: 1\ntraffic: [{STREAM}}}]": "unknown field 'trafic'",
    f"models: 9\nfleet: &a {{}}\nexpect: *a\ntraffic: [{STREAM}}}]": "there is an alias",
    f"models: 9\ntraffic: [{STREAM}, last_model: 10}}]": "a number up to 9, as in `models`, not 10",
}


@pytest.mark.parametrize("text", WRONG_FILES)
def test_plans_loads_and_rehearsals_refuse_a_scenario_in_the_same_words(tmp_path, capsys, text):
    path = tmp_path / "mine.yaml"
    path.write_text(f"about: x\n{text}\n")
    commands = (
        ["plan", "--models", "10x200MB", "--scenario", str(path)],
        ["load", "m", "--triton", "http://127.0.0.1:1", "--scenario", str(path)],
    )
    said = []
    for command in commands:
        assert main([*command, "--json"]) == 1
        said.append(json.loads(capsys.readouterr().out)["error"])
    with pytest.raises(FleetError) as error:
        read(str(path))
    said.append([each.as_dict() for each in error.value.problems])
    assert said[0] == said[1] == said[2]
    [problem] = said[0]
    assert WRONG_FILES[text] in f"{problem['what']} {problem['fix']}"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(sorted(set(re.findall(r"`([a-z0-9_]+)`(?=[^|]*\|)", PAGE))))
FIELDS = st.dictionaries(NAMES, VALUES, max_size=3)


@given(st.dictionaries(NAMES, VALUES | FIELDS | st.lists(FIELDS, max_size=2), max_size=4))
def test_whatever_the_fields_hold_is_a_scenario_or_a_mistake(fields):
    text = yaml.safe_dump({"about": "x", "models": 2, **fields})
    with suppress(FleetError):
        parsed(text, Path("/none"))


def test_what_is_not_a_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "long.yaml").write_text("#" * (1 << 21))
    for name in ("pipe.yaml", "long.yaml", ".", "none.yaml"):
        with pytest.raises(FleetError, match="scenario"):
            read(str(tmp_path / name))


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ("0.5,1\n0.2,1", "line 3"),
        ("0,7", "mine.yaml"),
        *((row, "line 2") for row in ("0,0", "soon,1", "1", "inf,1", "nan,1", "-1,1", "1e9,1")),
        ("0," + "1" * 200_000, "line 2"),
    ],
)
def test_a_trace_is_in_order_and_of_known_models(tmp_path, rows, wrong):
    (tmp_path / "trace.csv").write_text(f"seconds,model\n{rows}\n")
    [where] = mistakes("about: x\nmodels: 2\ntrace: trace.csv", tmp_path)
    assert where.endswith(wrong)


def test_a_trace_is_played_as_it_is_and_another_file_is_not_quoted(tmp_path):
    (tmp_path / "trace.csv").write_text("seconds,model\n0,2\n0.5,1\n")
    found = requests(parsed("about: x\nmodels: 2\ntrace: trace.csv", tmp_path))
    assert (found.at.tolist(), found.model.tolist()) == ([0, 0.5], [1, 0])
    (tmp_path / "secret").write_text("hidden:x:0:0\nsecret,sauce\n")
    with pytest.raises(FleetError) as error:
        parsed("about: x\nmodels: 2\ntrace: secret", tmp_path)
    assert "hidden" not in str(error.value)
    assert "sauce" not in str(error.value)


def test_requests_have_the_rate_the_popularity_and_the_times_of_their_stream():
    stream = Stream(
        requests_per_second=100, seconds=50, start=10, first_model=3, last_model=6, popularity=1.0
    )
    found = requests(scenario(6, [stream]))
    counts = Counter(found.model.tolist())
    assert 4700 < len(found.at) < 5300
    assert 10 <= found.at[0] <= found.at[-1] < 60
    assert set(counts) == {2, 3, 4, 5}
    assert 1.7 < counts[2] / counts[3] < 2.3
    assert requests(scenario(6, [stream])).at.tolist() == found.at.tolist()


@pytest.fixture
def hands():
    hands = Hands(requests=60, after=20.0)
    with clock_is(hands):
        yield hands


SOURCE = Source(endpoint="e", variant="AllTraffic", config="c")
ARITHMETIC = [
    tuple(map(int, row))
    for row in re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, flags=re.MULTILINE)
]


@pytest.mark.parametrize(("rate", "target", "most", "instances"), ARITHMETIC)
def test_instances_come_for_the_rate_of_requests_whatever_the_speed(hands, rate, target, most, instances):
    assert instances == min(most, math.ceil(rate * 60 / target))
    stream = Stream(requests_per_second=rate, seconds=12)
    arriving = requests(scenario(1, [stream]).model_copy(update={"speed": hands.requests}))
    counts, began = [1], hands.seconds
    with EmbeddedAws() as embedded, clock_is(hands):
        track(scaled(embedded, most=most), target=target)
        publisher = MetricsPublisher(embedded.client("cloudwatch"), usage=list)
        for minute, requests_of_minute in groupby(arriving.at.tolist(), key=int):
            for at in requests_of_minute:
                hands.seconds = began + 60 * at
                event = Invocation(status=200, instances=counts[-1], model_s=0, overhead_s=0, cache_hit=True)
                publisher.add(SOURCE, event)
            hands.seconds = began + 60 * (minute + 1)
            publisher.flush()
            embedded.evaluate()
            counts.append(instances_of(embedded, "e"))
        publisher.close()
    assert counts[:3] == [1, 1, 1]
    assert counts[5:] == [instances] * (len(counts) - 5)


def test_rare_events_leave_no_minute_of_a_fast_clock_without_its_share(hands):
    sent = Counter()

    class Recording:
        """A CloudWatch that counts evictions by minute."""

        def put_metric_data(self, MetricData, **_):  # noqa: N803
            for datum in MetricData:
                if datum["MetricName"] == "ModelUnloadingTime":
                    sent[datum["Timestamp"].timestamp() // 60] += sum(datum["Counts"])

    publisher = MetricsPublisher(Recording(), usage=list)
    for _ in range(10):  # an eviction in 2.4 seconds
        publisher.add(SOURCE, Unload(target="m", seconds=1.0))
        hands.seconds += 60 * 2.4
    publisher.close()
    assert sent.total() == 600 * 2  # with two sets of dimensions
    per_minute = [count for _, count in sorted(sent.items())]
    assert all(20 * 2 <= count <= 30 * 2 for count in per_minute[1:-1])


def observed(**changes):
    """Return what happened to two models, of which the second one was never loaded."""
    count = 101
    happened = Observed(
        run=Run(
            schedule=Schedule.of([*((0.0, 1) for _ in range(100)), (0.0, 2)], ("model-1", "model-2")),
            sent=np.zeros(count),
            done=np.array([*(number / 100 for number in range(1, 101)), 9.0]),
            kind=np.array([*(0 for _ in range(100)), 1]),
            kinds=("x", WRONG),
            cpu=np.zeros(1),
        ),
        loads=Counter({"model-1.tar.gz": 3}),
        unloads=Counter({"model-1.tar.gz": 2}),
        warm=Counter({"model-1.tar.gz": 75}),
        cold=Counter({"model-1.tar.gz": 25}),
        replaced=0,
        instances=[(0.0, 1), (15.0, 2)],
        instances_at_end=2,
        alarms={},
    )
    return replace(happened, **changes)


def test_a_result_has_the_figures_of_all_models_and_of_each_whatever_is_expected():
    result = ScenarioResult.of(scenario(), observed())
    assert next(iter(result.lines())) == "x FAILED: 1 of 2 conditions. One fails."
    found = result.as_dict()
    names = ("requests", "answered", "p50_s", "p99_s", "cold_percent", "loads", "evictions")
    assert [found["figures"][name] for name in names] == [101, 100, 0.5, 0.99, 25.0, 3, 2]
    assert [[each[name] for name in names] for each in found["models"]] == [
        [100, 100, 0.5, 0.99, 25.0, 3, 2],
        [1, 0, None, None, 0.0, 0, 0],
    ]
    assert [(each["minutes"], each["count"]) for each in found["instances"]] == [(0.0, 1), (15.0, 2)]
    assert found["speed"] == 60


def test_a_wrong_answer_is_an_answer_and_fails_the_scenario():
    run = observed().run
    wrong = np.where(np.arange(len(run.kind)) == 3, 2, run.kind)
    result = ScenarioResult.of(scenario(answered_percent=99), observed(run=replace(run, kind=wrong)))
    assert [(each.name, each.holds) for each in result.conditions] == [
        ("answered", True),
        ("wrong answers", False),
    ]
    assert result.figures.answered == 100


@pytest.mark.parametrize(
    ("expected", "happened", "seen", "holds"),
    [
        ({"alarms": ["Disk"]}, {"alarms": {"Disk": 2}}, "fired 2 times", True),
        ({"alarms": ["Disk"]}, {"alarms": {"Disk": 0}}, "did not fire", False),
        ({"no_alarms": ["Disk"]}, {"alarms": {"Disk": 1}}, "fired once", False),
        ({"no_alarms": ["Dusk"]}, {"alarms": {"Disk": 0}}, "did you mean Disk?", False),
        ({"loads": "4..9"}, {}, "3", False),
        ({"recovers": True}, {"last": {1: "", 2: WRONG}}, "1", False),
    ],
)
def test_a_condition_says_what_was_seen_and_holds_if_it_is_expected(expected, happened, seen, holds):
    last = ScenarioResult.of(scenario(**expected), observed(**happened)).conditions[-1]
    assert (last.seen, last.holds) == (seen, holds)


def test_the_time_of_asking_every_model_once_more_is_announced():
    said = scenario_announcement(scenario(300, recovers=True))
    assert "300 models are asked once more: up to about 600 s" in said
    assert "once more" not in scenario_announcement(scenario(300))


def test_every_shipped_scenario_has_a_story_and_those_on_the_page_are_there():
    assert len(shipped()) >= 12
    assert all(read(name).about.endswith(".") for name in shipped())
    listed = re.findall(r"^\| `([a-z0-9-]+)` \| [A-Z0-9]", PAGE, flags=re.MULTILINE)
    assert set(listed) <= set(shipped())
    [example] = re.findall(r"^```yaml\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert parsed(example).faults


@pytest.fixture(scope="module")
def aws():
    with moto_aws() as aws:
        yield aws


def played(aws, monkeypatch, name):
    story, faults = read(name), Faults()
    bucket = aws.bucket()
    endpoint = aws.endpoint(aws.endpoint_config(bucket, instances=story.instances))
    with Hosting(
        aws,
        gpu_memory=story.gpu_memory,
        disk=story.disk,
        on_s3_client=faults.attach,
        before_start=faults.admit_instance,
    ) as hosting:
        for variable, value in aws.exports(runtime=hosting.url).items():
            monkeypatch.setenv(variable, value)
        stage = Stage(
            hosting=hosting,
            endpoint=endpoint,
            client=AsyncClient(endpoint_name=endpoint, repository=f"s3://{bucket}/models/", attempts=5),
            s3=aws.client("s3"),
            bucket=bucket,
            prefix="models/",
            cloudwatch=aws.client("cloudwatch"),
            faults=faults,
        )
        happened = replace(play(story, stage), last=ask_again(story, stage))
        return ScenarioResult.of(story, happened)


def on_the_whole_fleet(name):
    """True if a scenario needs the alarms or the scaling of the deployed stacks."""
    story = read(name)
    return bool(story.fleet or story.expect.alarms or story.expect.no_alarms)


@pytest.mark.story
@pytest.mark.parametrize("name", [name for name in shipped() if on_the_whole_fleet(name)])
def test_a_shipped_scenario_holds_with_the_alarms_and_the_scaling_of_the_fleet(tmp_path, name):
    process = run_fleet("--scenario", name, "--json", temporary=tmp_path)
    output, said = process.communicate()
    assert process.returncode == 0, f"{output}\n{said}"
    assert json.loads(output)["passed"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        name if name in SHORT else pytest.param(name, marks=pytest.mark.story)
        for name in shipped()
        if not on_the_whole_fleet(name)
    ],
)
def test_a_shipped_scenario_holds(aws, monkeypatch, name):
    assert [each for each in played(aws, monkeypatch, name).conditions if not each.holds] == []
