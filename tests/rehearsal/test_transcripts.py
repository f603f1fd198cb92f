"""The transcripts in docs/transcripts/: the rehearsal's answers agree with them, and they name no one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal.replays import account_disagreements, disagreements
from triton_models.base.errors import FleetError
from triton_models.ledger import BELIEFS
from triton_models.probe.scrub import scrub
from triton_models.probe.transcript import Observation, Transcript, read_transcripts
from triton_models.probe.verdict import true

FOLDER = Path(__file__).parents[2] / "docs" / "transcripts"
RELEASE = {"release": "25.09"}
LOG = '[E] [TRT] While parsing node number 0 [Odd -> "y"]:\n[E] [TRT] In function checkFallbackPluginImporter'
REFUSED = (
    "version 1 is at UNAVAILABLE state: Internal: unable to create TensorRT engine: "
    "IRuntime::deserializeCudaEngine: Error Code 6: API Usage Error (The engine plan file is not compatible "
    "with this version of TensorRT, expecting library version 10.13.3.9 got 10.13.3.255, please rebuild.)"
)

# By observation: a question, an answer that the rehearsal gives, and one that it does not give.
RECORDED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "variables-of-image": (
        RELEASE,
        {
            "NVIDIA_TRITON_SERVER_VERSION": "25.09",
            "PYTHONPATH": "/opt/tritonserver/backends/dali/wheel/dali:",
            "TRT_VERSION": "10.13.3.9+cuda13.0",
        },
        {"NVIDIA_TRITON_SERVER_VERSION": "25.09", "PYTHONPATH": None, "TRT_VERSION": "10.13.3.9"},
    ),
    "python-of-image": (RELEASE, {"python": "3.12"}, {"python": "3.13"}),
    "cuda-of-image": (RELEASE, {"cuda": "13.0.1.012"}, {"cuda": "13.0.2"}),
    "tensorrt-of-image": (RELEASE, {"tensorrt": "10.13.3.9"}, {"tensorrt": "10.13.3.8"}),
    "onnxruntime-of-image": (RELEASE, {"version": "1.23.0"}, {"version": "1.22.0"}),
    "dali-of-image": (RELEASE, {"version": "1.51.2"}, {"version": "1.52.0"}),
    "backends-of-image": (
        RELEASE,
        {
            "backends": [
                *("dali", "fil", "identity", "onnxruntime"),
                *("openvino", "python", "pytorch", "tensorrt"),
            ]
        },
        {"backends": ["python"]},
    ),
    "gpus": ({}, {"gpus": [["Tesla T4", "7.5", 15360]]}, {"gpus": [["Tesla T4", "8.6", 15360]]}),
    "cuda-on-driver": ({"driver": "580.82.07", "cuda": "13.0.1"}, {"starts": True}, {"starts": False}),
    "trtexec-options": (
        {"tensorrt": "11.0", "options": ["--onnx", "--fp16"]},
        {"unknown": ["--fp16"]},
        {"unknown": []},
    ),
    "unknown-operator": ({"log": LOG}, {"operators": ["Odd"]}, {"operators": ["Even"]}),
    "plan-of-another-version": (
        {"own": "10.13.3.9", "plan": "10.13.3.255"},
        {"error": REFUSED},
        {"error": "Version tag does not match"},
    ),
}


def transcript(*observations: Observation) -> Transcript:
    return Transcript(
        kind="gpu",
        date="2027-01-02",
        release="25.09",
        place="A10G",
        tool="0.1.0",
        verdicts=(true("gpu-memory", "bucket of 123456789012"),),
        observations=observations,
    )


# The records


def test_the_rehearsal_answers_as_every_record_does() -> None:
    found = {path.name: list(disagreements(record)) for path, record in read_transcripts(FOLDER)}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_every_record_is_about_beliefs_of_the_ledger_and_gives_no_names_away() -> None:
    for path, record in read_transcripts(FOLDER):
        assert {verdict.belief for verdict in record.verdicts} <= set(BELIEFS), path.name
        assert record.as_dict() == json.loads(path.read_text()), f"{path.name} is not scrubbed"


# The replay itself


@pytest.mark.parametrize("observation", RECORDED)
def test_a_record_agrees_if_the_rehearsal_answers_alike_and_otherwise_not(observation: str) -> None:
    asked, alike, otherwise = RECORDED[observation]
    agreeing = Observation(id=observation, asked=asked, answered=alike)

    assert list(disagreements(transcript(agreeing))) == []
    (line,) = disagreements(transcript(replace(agreeing, answered=otherwise)))
    assert line.startswith(observation)


def test_what_the_rehearsal_cannot_be_asked_is_no_disagreement() -> None:
    unanswered = Observation(id="unanswered", asked={}, answered={"status": 200})
    old = Observation(
        id="cuda-on-driver", asked={"driver": "470.1", "cuda": "13.0.1"}, answered={"starts": True}
    )
    assert list(disagreements(transcript(unanswered, old))) == []


def test_an_account_is_replayed_by_the_same_probes_against_the_embedded_aws() -> None:
    def asked(mistake: str, status: int, *, wait: float) -> Observation:
        said = {"status": status, "code": "ModelError"}
        return Observation(
            id="error-wording", asked={"mistake": mistake, "load_seconds": wait}, answered=said
        )

    host = Observation(id="build-host", asked={}, answered={"driver": "570"})
    record = transcript(asked("missing", 400, wait=90.0), asked("broken", 424, wait=90.0), host)

    alike = transcript(asked("missing", 400, wait=0.1), replace(host, answered={"driver": "580"}))
    assert list(account_disagreements(record, alike)) == []
    (line,) = account_disagreements(record, transcript(asked("broken", 500, wait=0.1)))
    assert "broken" in line


# The file


def test_a_transcript_is_read_as_it_was_written(tmp_path: Path) -> None:
    asked, alike, _ = RECORDED["gpus"]
    written = transcript(Observation(id="gpus", asked=asked, answered=alike))
    written.write(tmp_path / "record.json")

    ((_, found),) = read_transcripts(tmp_path)

    assert found == replace(written, verdicts=(true("gpu-memory", "bucket of <account>"),))
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


@pytest.mark.parametrize(
    "content",
    ["{}", "[", '{"version": 2}', '{"version": 1, "kind": "gpu"}', '{"version": 1, "kind": "cpu"}', "[]"],
)
def test_a_file_that_is_no_transcript_is_one_error(content: str, tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text(content)
    with pytest.raises(FleetError) as caught:
        list(read_transcripts(tmp_path))
    assert [problem.rule for problem in caught.value.problems] == ["transcript"]


def test_a_transcript_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "record.json").mkdir()
    with pytest.raises(FleetError) as caught:
        transcript().write(tmp_path / "record.json")
    assert [problem.rule for problem in caught.value.problems] == ["unwritable"]
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("arn:aws:s3:::bucket/key denied", "<arn of s3> denied"),
        ("account 123456789012, twice", "account <account>, twice"),
        ("763104351884.dkr.ecr.eu-west-1.amazonaws.com", "763104351884.dkr.ecr.eu-west-1.amazonaws.com"),
        ("request 01234567-89ab-cdef-0123-456789abcdef", "request <id>"),
        ("AKIAABCDEFGHIJKLMNOP", "<access key>"),
        ("http://10.0.3.17/ at ip-10-0-3-17", "http://<address>/ at <address>"),
        ("10.0.3.17:8080 and 127.0.0.1:8080", "<address>:8080 and 127.0.0.1:8080"),
        ("/home/someone/models", "<home>/models"),
        ("TensorRT 10.13.3.9 of my-bucket", "TensorRT 10.13.3.9 of <bucket>"),
    ],
)
def test_what_belongs_to_an_account_or_a_person_is_scrubbed(text: str, scrubbed: str) -> None:
    names = {"my-bucket": "<bucket>", "": "<nothing>"}
    assert scrub({"said": [text]}, names) == {"said": [scrubbed]}
