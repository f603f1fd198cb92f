"""Many models in one run, some of them broken: the others are published, and every result says why."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.triton_models.declared_models import CODE, declare
from tests.triton_models.publishing_aws import consistent_manifest, new_repository, objects, put, stored
from triton_models.artifact.pack.pack import pack
from triton_models.base.encoding import BINARY_TYPE
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.cli.main import main
from triton_models.declare.declaration import Example
from triton_models.declare.reading import load_build
from triton_models.deliver.deliver import DeliverOptions, deliver
from triton_models.deliver.results import ModelResult, Results
from triton_models.deliver.steps import example_request
from triton_models.deliver.worker import Worker
from triton_models.repository.manifest import Repository, request_name
from triton_models.repository.places import Place

PLENTY_S = 120.0
HANGS_S = 2.0
BROKEN = {
    "crashes": {"body": "os._exit(7)"},
    "exits": {"top": "sys.exit('not today')"},
    "hangs": {"body": "time.sleep(1000)"},
    "mistyped": {"top": "def ("},
    "raises": {"body": "raise RuntimeError('no such layer')"},
    "refused": {"body": "(job.root / 'refused' / '1' / 'model.py').unlink()"},
}
GOOD = ("good-1", "good-2", "good-3")


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def delivery(tmp_path: Path, models: Path, repository: str) -> DeliverOptions:
    return delivery_to(repository, tmp_path)


def delivery_to(repository: str, folder: Path) -> DeliverOptions:
    return DeliverOptions(
        names=(),
        repository=repository,
        models=folder / "models",
        verify=False,
        logs=folder / "logs",
        model_seconds=PLENTY_S,
    )


class Mixed:
    """One run of good and broken models, which the tests look at from all sides."""

    def __init__(self, folder: Path, s3: Any) -> None:
        models = folder / "models"
        for name in GOOD:
            declare(models, name)
        for name, given in BROKEN.items():
            declare(models, name, **given)
        declare(models, "taken")
        self.delivery = delivery_to(new_repository(s3), folder)
        taken = pack(build("taken", output=folder, models=models), output=folder)
        put(taken.name, b"something else", self.delivery.repository, s3)
        self.names = ["good-1", *BROKEN, "missing", "good-2", "taken", "good-3"]
        self.place = folder / "results.json"
        with pytest.MonkeyPatch.context() as monkeypatch:
            let_hang_shortly(monkeypatch)
            options, place = replace(self.delivery, names=self.names), Place(address=str(self.place))
            self.results = deliver(options, place=place, s3=s3)
        self.of = {result.model: result for result in self.results.results}


def let_hang_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill hanging steps soon, and give the others enough time on a busy machine."""
    real = Worker.do

    def do(self: Worker, *given: Any, name: str, seconds: float, **more: Any) -> Any:
        return real(self, *given, name=name, seconds=HANGS_S if name == "hangs" else seconds, **more)

    monkeypatch.setattr(Worker, "do", do)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory, s3: Any) -> Mixed:
    return Mixed(tmp_path_factory.mktemp("mixed"), s3)


def test_what_is_broken_keeps_nothing_else_from_being_published(mixed, s3):
    manifest = consistent_manifest(mixed.delivery.repository, s3)
    assert sorted(manifest.models) == list(GOOD)
    assert [result.model for result in mixed.results.results] == mixed.names
    assert mixed.results.counts() == {"published": 3, "unchanged": 0, "failed": 8}
    assert mixed.results.exit_code == 1
    for name in GOOD:
        result = mixed.of[name]
        assert (result.status, result.step, result.problems) == ("published", "publish", ())
        assert result.artifact == manifest.target_model(name)


def test_the_document_and_the_logs_say_what_the_run_returned(mixed):
    read = Results.from_json(mixed.place.read_bytes(), where="here")
    assert read.finished
    assert [replace(each, seconds=0) for each in read.results] == [
        replace(each, seconds=0) for each in mixed.results.results
    ]
    log = Path(mixed.of["raises"].log)
    assert log.parent == mixed.delivery.logs
    assert "RuntimeError: no such layer" in log.read_text()
    assert "job.root" not in log.read_text()  # that is another model's


@pytest.mark.parametrize(
    ("model", "step", "rule", "what"),
    [
        ("crashes", "build", "crashed", "its process ended unexpectedly with the exit code 7"),
        ("exits", "read", "bad-declaration", "SystemExit: not today"),
        ("hangs", "build", "timed-out", "it was killed after the time limit of 2 seconds"),
        ("mistyped", "read", "bad-declaration", "build.py of model 'mistyped' cannot be read: SyntaxError"),
        ("raises", "build", "build-failed", "building 'raises' failed: RuntimeError: no such layer"),
        ("missing", "read", "unknown-model", "unknown model 'missing'"),
        ("taken", "publish", "artifact-changed", "an object of that name has other content"),
        ("refused", "check", "model-file-missing", "model.py"),
    ],
)
def test_a_broken_model_is_reported_with_the_step_and_the_reason(model, step, rule, what, mixed):
    result = mixed.of[model]
    assert (result.status, result.step) == ("failed", step)
    assert [problem.rule for problem in result.problems] == [rule]
    assert what in result.problems[0].what
    assert result.problems[0].fix


def test_each_model_leaves_the_disk_as_soon_as_it_is_published_or_has_failed(
    delivery, models, s3, tmp_path, monkeypatch
):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr("triton_models.deliver.deliver._folder", lambda _: contextlib.nullcontext(work))
    declare(models, "good")
    declare(models, "crashes", body="os._exit(1)")
    deliver(replace(delivery, names=["good", "crashes"]), s3=s3)
    assert list(work.iterdir()) == []


def test_what_is_built_is_kept_where_it_is_asked_for(delivery, models, s3, tmp_path):
    declare(models, "good")
    results = deliver(replace(delivery, names=["good"], output=tmp_path / "kept"), s3=s3)
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"good", results.results[0].artifact}


SPOILS = """
import signal
import torch

torch.nn.Linear.forward = lambda self, x: x
torch.set_default_dtype(torch.float64)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
os.environ["SPOILT"] = "yes"
os.chdir("/")
"""
NOTES = """
import signal
import torch

layer = torch.nn.Linear(1, 1, bias=False)
state = layer(torch.zeros(1)).dtype, layer.forward.__name__
job.sources["state"] = f"{state} {signal.getsignal(signal.SIGUSR1)} {os.getcwd()} {os.environ.get('SPOILT')}"
"""


@pytest.mark.story
@pytest.mark.parametrize("end", ["", "raise RuntimeError"], ids=["is published", "fails"])
def test_what_a_model_patches_does_not_reach_the_next_one(end, delivery, models, s3):
    declare(models, "spoils", body=SPOILS + end)
    declare(models, "good", body=NOTES)
    alone = deliver(replace(delivery, names=["good"]), s3=s3).results[0]
    spoils, good = deliver(replace(delivery, names=["spoils", "good"]), s3=s3).results
    assert (spoils.status, good.status) == ("failed" if end else "published", "unchanged")
    assert good.artifact == alone.artifact


def test_what_is_published_already_is_unchanged(delivery, models, s3):
    declare(models, "same")
    first = deliver(replace(delivery, names=["same"]), s3=s3)
    second = deliver(replace(delivery, names=["same"]), s3=s3)
    assert [each.results[0].status for each in (first, second)] == ["published", "unchanged"]
    assert second.exit_code == 0
    assert Path(second.results[0].log).read_text().count("build ...") == 1  # the log is the last run's


@pytest.mark.parametrize(("shadow", "expected"), [("False", ("share", 0.0)), ("True", ("shadow", 0.001))])
def test_a_new_version_of_a_declaration_with_a_trial_is_a_candidate_and_the_first_one_is_current(
    delivery, models, s3, shadow, expected
):
    for code in (CODE, CODE + "# again"):
        path = declare(models, "tried", code=code)
        text = path.read_text().replace("import Example,", "import Trial, Example,")
        path.write_text(text.replace("0.001,", f"0.001, trial=Trial(share=0.1, shadow={shadow}),"))
        (result,) = deliver(replace(delivery, names=["tried"]), s3=s3).results
        assert result.status == "published"
    record = consistent_manifest(delivery.repository, s3).models["tried"]
    assert len(record.artifacts) == 2
    assert record.candidate.artifact == result.artifact not in record.current.values()
    assert (record.candidate.how, record.candidate.tolerance, record.candidate.share) == (*expected, 1000)


def test_a_publication_notes_its_inputs_and_has_a_request_that_warms_the_model_up(delivery, models, s3):
    declare(models, "good")
    deliver(replace(delivery, names=["good"]), s3=s3)

    ((_, record),) = consistent_manifest(delivery.repository, s3).models["good"].artifacts.items()
    assert sorted(record.inputs) == ["declaration", "hardware", "packages", "release", "tools"]
    document = json.loads(stored(request_name(record.request), delivery.repository, s3))
    body = base64.b64decode(document["body"])
    size = int(document["content_type"].removeprefix(BINARY_TYPE))
    assert [(each["name"], each["shape"]) for each in json.loads(body[:size])["inputs"]] == [("X", [1])]
    assert np.frombuffer(body[size:], np.float32).tolist() == [1.5]


def test_a_repository_that_cannot_be_read_is_reported_before_anything_is_made(delivery, models, s3, tmp_path):
    declare(models, "good", body="open('/never', 'w')")
    place = Place(address=str(tmp_path / "results.json"))
    with pytest.raises(FleetError, match="the bucket does not exist"):
        deliver(replace(delivery, names=["good"], repository="s3://nowhere/models/"), place=place, s3=s3)
    (result,) = Results.from_json(place.read(), where="here").results
    assert (result.status, result.step) == ("failed", "wait")
    assert result.reason == "the bucket does not exist"


def rules(result: ModelResult) -> list[str]:
    return [problem.rule for problem in result.problems]


def test_what_a_run_cannot_do_without_is_reported_before_anything_is_made(
    delivery, models, s3, monkeypatch, tmp_path
):
    declare(models, "good")
    (tmp_path / "file").touch()
    with pytest.raises(FleetError, match="unwritable"):
        deliver(replace(delivery, names=["good"], logs=tmp_path / "file" / "logs"), s3=s3)
    place = Place(address=str(tmp_path / "file" / "results.json"))
    with pytest.raises(FleetError, match=r"Not a directory|File exists"):
        deliver(replace(delivery, names=["good"]), place=place, s3=s3)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("triton_models.deliver.verify.server.INSTALLED", tmp_path / "none")
    with pytest.raises(FleetError, match="tritonserver not found"):
        deliver(replace(delivery, names=["good"], verify=True), s3=s3)
    assert objects(delivery.repository, s3) == set()


def test_the_command_line_takes_it_all(environment, delivery, models, capsys):
    declare(models, "good")
    declare(models, "bad", body="1 / 0")
    where = Repository.parse(delivery.repository)
    results = f"s3://{where.bucket}/runs/1/results.json"
    given = ["deliver", "bad", "good", "--repository", delivery.repository, "--models", str(models)]
    given += ["--logs", str(delivery.logs), "--results", results, "--unverified", "--json"]
    assert main(given) == 1
    out, error = capsys.readouterr()
    assert json.loads(out)["counts"] == {"published": 1, "unchanged": 0, "failed": 1}
    assert "bad: failed in build: building 'bad' failed: ZeroDivisionError" in error
    assert "good: published as good-" in error
    assert Results.from_json(Place(address=results).read(), where="here").counts()["failed"] == 1


class Hanging:
    """A run, in a process of its own, that has published a model and hangs in the next one, or in more."""

    def __init__(self, delivery: DeliverOptions, models: Path, folder: Path, *more: str) -> None:
        declare(models, "good")
        pipe = folder / "pipe"
        os.mkfifo(pipe)
        says = f"open({str(pipe)!r}, 'w').write(str(os.getpid()))"
        declare(models, "hangs", body=f"{says}\ntime.sleep(1000)")
        for name in more:
            declare(models, name, body="time.sleep(1000)")
        declare(models, "later")
        names = ["good", "hangs", *more, "later"]
        self.place = folder / "results.json"
        given = ["--repository", delivery.repository, "--models", models, "--logs", delivery.logs]
        given += ["--results", self.place, "--unverified"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "triton_models", "deliver", *names, *map(str, given)],
            stderr=subprocess.PIPE,
            text=True,
        )
        worker = int(pipe.read_text())  # waits until it writes
        assert self.process.stderr is not None
        awaited = {"good: published", *(f"{name}: build" for name in more)}
        while awaited:
            line = self.process.stderr.readline()
            awaited = {begin for begin in awaited if not line.startswith(begin)}
        self.worker = os.pidfd_open(worker)

    def end(self, number: signal.Signals) -> int:
        """Send the signal; the exit code, once the process that hangs is gone too."""
        self.process.send_signal(number)
        status = self.process.wait(PLENTY_S)
        assert select.select([self.worker], [], [], PLENTY_S)[0]
        os.close(self.worker)
        return status

    def document(self) -> Results:
        return Results.from_json(self.place.read_bytes(), where="here")


@pytest.mark.story
def test_a_build_service_that_ends_a_run_gets_its_results(environment, delivery, models, tmp_path):
    run = Hanging(delivery, models, tmp_path)
    assert run.end(signal.SIGTERM) == 130
    assert [(each.model, each.status, rules(each)) for each in run.document().results] == [
        ("good", "published", []),
        ("hangs", "failed", ["interrupted"]),
        ("later", "failed", ["not-reached"]),
    ]


@pytest.mark.story
def test_a_rehearsal_that_is_interrupted_ends_both_builds(environment, delivery, models, tmp_path):
    environment.setenv("FLEET_PORTABLE", "1")
    run = Hanging(delivery, models, tmp_path, "hangs-too")
    assert run.end(signal.SIGTERM) == 130
    assert [(each.model, each.status, rules(each)) for each in run.document().results] == [
        ("good", "published", []),
        ("hangs", "failed", ["interrupted"]),
        ("hangs-too", "failed", ["interrupted"]),
        ("later", "failed", ["not-reached"]),
    ]


@pytest.mark.story
def test_a_rehearsal_builds_two_models_at_once(environment, delivery, models, s3, tmp_path):
    environment.setenv("FLEET_PORTABLE", "1")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    declare(models, "left", body=f"open({str(pipe)!r}, 'w').close()")  # waits until it is read
    declare(models, "right", body=f"open({str(pipe)!r}).close()")
    results = deliver(replace(delivery, names=["left", "right"], portable=True), s3=s3).results
    assert [result.status for result in results] == ["published", "published"]


def test_a_run_that_is_killed_leaves_no_process_and_a_document_that_is_true(
    environment, delivery, models, tmp_path, s3
):
    run = Hanging(delivery, models, tmp_path)
    assert run.end(signal.SIGKILL) == -signal.SIGKILL
    document = run.document()
    assert not document.finished
    assert {"hangs", "later"} <= {result.model for result in document.failed}
    assert list(consistent_manifest(delivery.repository, s3).models) == ["good"]


def test_in_codebuild_the_log_is_the_builds_own(environment, delivery, models, s3, capfd):
    declare(models, "loud", body="print('exporting'); 1 / 0")
    environment.setenv("CODEBUILD_BUILD_ID", "models:5d0f")
    environment.setenv("CODEBUILD_LOG_PATH", "5d0f")
    environment.setenv("FLEET_LOG_GROUP", "Builds")
    (result,) = deliver(replace(delivery, names=["loud"]), s3=s3).results
    assert result.log == "CloudWatch Logs Builds, stream 5d0f"
    out, error = capfd.readouterr()
    assert out == ""
    assert error.index("loud: build") < error.index("exporting") < error.index("loud: failed in build")
    assert not delivery.logs.exists()


def test_the_request_is_the_smallest_example_if_there_is_one(models):
    build = load_build(declare(models, "good").parent.name, models)

    def size(*sizes: int) -> int:
        chosen = [Example(name=str(each), inputs={"X": np.zeros(each, np.int8)}) for each in sizes]
        return len(example_request(replace(build, examples=lambda: chosen)) or b"")

    assert size(900, 20, 400) == size(20) > size() == 0
    sequence = [Example(name="s", inputs={"X": np.zeros((1, 4), np.float32)}, sequence=True)]
    document = json.loads(example_request(replace(build, examples=lambda: sequence)) or b"")
    assert b'"sequence_start": true' in base64.b64decode(document["body"])
