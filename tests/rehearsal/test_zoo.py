"""A model of each of 21 kinds in one rehearsal: built by the state machine and served with eviction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.rehearsal import zoo
from tests.rehearsal.stayed import Stayed, clone_with, staying

pytestmark = pytest.mark.story

# Less than the models need together, and more than the largest of them.
GPU_MEMORY = "28KiB"


@pytest.fixture(scope="module")
def stayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stayed]:
    """A rehearsal of a project with these models, which builds them with a state machine."""
    project = clone_with(
        tmp_path_factory.mktemp("zoo") / "fleet", {}, models=list(zoo.KINDS), parallel_builds=2
    )
    for kind in zoo.KINDS:
        zoo.write(project / "model_builds" / "models", kind, kind, 0)
    with staying(project, tmp_path_factory.mktemp("rehearsal"), f"--gpu-memory={GPU_MEMORY}") as found:
        yield found


def test_every_model_of_every_kind_is_served_and_equals_its_framework(stayed: Stayed) -> None:
    wrong = [made for made in stayed.document["predictions"] if not made["passed"]]
    assert (wrong, stayed.document["passed"]) == ([], True)
    assert {made["model"] for made in stayed.document["predictions"]} == set(zoo.KINDS)


def test_every_model_was_built_by_the_state_machine(stayed: Stayed) -> None:
    executions = stayed.ask("""
import boto3, json
states = boto3.client("stepfunctions")
[machine] = states.list_state_machines()["stateMachines"]
found = states.list_executions(stateMachineArn=machine["stateMachineArn"])["executions"]
print(json.dumps([each["status"] for each in found]))
""")
    assert executions == ["SUCCEEDED"]
    results = Counter(each["status"] for each in stayed.document["results"])
    assert results == {"published": len(zoo.KINDS)}


def test_models_were_evicted_for_others(stayed: Stayed) -> None:
    unloaded = stayed.ask("""
import boto3, datetime, json
metrics = boto3.client("cloudwatch")
now = datetime.datetime.now(datetime.timezone.utc)
day = datetime.timedelta(days=1)
named = {"Namespace": "AWS/SageMaker", "MetricName": "ModelUnloadingTime"}
window = {"StartTime": now - day, "EndTime": now + day, "Period": 3600, "Statistics": ["SampleCount"]}
points = [
    each
    for found in metrics.list_metrics(**named)["Metrics"]
    for each in metrics.get_metric_statistics(**named, **window, Dimensions=found["Dimensions"])["Datapoints"]
]
print(json.dumps(sum(each["SampleCount"] for each in points)))
""")
    assert unloaded > 0
