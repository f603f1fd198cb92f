"""The family of docs/tenants.md in a prefix of S3, on one instance that holds a part of its members."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest
import torch

from tests.rehearsal.stayed import ROOT, clone_with
from triton_models.deliver.results import Results
from triton_rehearsal.rehearse.predictions import Prediction
from triton_rehearsal.rehearse.rehearsal import Rehearsal

pytestmark = pytest.mark.story

PAGE = (ROOT / "docs" / "tenants.md").read_text()
BUILD = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0].replace(
    'os.environ.get("TENANTS", "members.csv")', '"s3://weights/tenants/"'
)
MEMBERS, MISFIT = 30, 17
# Less than the members need together, by about a third: Triton takes a second to unload a model.
GPU_MEMORY = "50KiB"


@dataclass(frozen=True)
class Rehearsed:
    """A rehearsal of the family: its builds, the answers of its members, and how many were evicted."""

    results: Results
    predictions: list[Prediction]
    evicted: float


def state_dict(seed: int, *, classes: int = 2) -> bytes:
    """Return the weights of a member."""
    torch.manual_seed(seed)
    layers = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, classes))
    written = io.BytesIO()
    torch.save(layers.state_dict(), written)
    return written.getvalue()


def upload(rehearsal: Rehearsal) -> None:
    """Upload the weights of every member; those of one are of another network."""
    s3 = rehearsal.aws.client("s3")
    s3.create_bucket(Bucket="weights")
    for number in range(MEMBERS):
        body = state_dict(number, classes=3 if number == MISFIT else 2)
        s3.put_object(Bucket="weights", Key=f"tenants/t{number}.pt", Body=body)


def evictions(rehearsal: Rehearsal) -> float:
    rehearsal.inventory()  # which writes all metrics
    metrics, now, day = rehearsal.aws.client("cloudwatch"), datetime.now(timezone.utc), timedelta(days=2)
    named = {"Namespace": "AWS/SageMaker", "MetricName": "ModelUnloadingTime"}
    window = {"StartTime": now - day, "EndTime": now + day, "Period": 3600, "Statistics": ["SampleCount"]}
    return sum(
        point["SampleCount"]
        for found in metrics.list_metrics(**named)["Metrics"]
        for point in metrics.get_metric_statistics(**named, **window, Dimensions=found["Dimensions"])[
            "Datapoints"
        ]
    )


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsed]:
    settings = {"models": ["tenants"], "weights_from": ["s3://weights/tenants/"]}
    project = clone_with(tmp_path_factory.mktemp("tenants") / "fleet", {}, **settings)
    folder = project / "model_builds" / "models" / "tenants"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(BUILD)
    said: list[str] = []
    with (
        Rehearsal(project=project, gpu_memory=GPU_MEMORY) as rehearsal,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in rehearsal.aws.exports().items():
            patch.setenv(name, value)
        upload(rehearsal)
        rehearsal.deploy(said.append)
        results = rehearsal.build(said.append)
        rehearsal.serve()
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(lambda model: list(rehearsal.predictions(model)), rehearsal.models)
            predictions = [each for made in answers for each in made]
        yield Rehearsed(results, predictions, evictions(rehearsal))


def test_every_member_equals_its_own_source_though_some_are_evicted_for_others(rehearsed: Rehearsed) -> None:
    assert [made for made in rehearsed.predictions if not made.passed] == []
    assert len({made.model for made in rehearsed.predictions}) == MEMBERS - 1
    assert len({made.output for made in rehearsed.predictions}) > MEMBERS / 2  # their own, not another's
    assert rehearsed.evicted > 0


def test_a_member_whose_weights_do_not_fit_fails_alone(rehearsed: Rehearsed) -> None:
    [failed] = rehearsed.results.failed

    assert failed.model == f"tenants:t{MISFIT}"
    assert [problem.rule for problem in failed.problems] == ["weights"]
