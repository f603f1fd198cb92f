"""The suite itself: it asks first, records, and leaves nothing, not even after an interruption.

The embedded AWS stands in for an account.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from conformance.beliefs import HERE, beliefs
from conformance.records import Record, records, scrubbed
from conformance.sweep import left, main, sweep
from docs.generate.pages import grade
from embedded_aws import EmbeddedAws
from triton_rehearsal.aws import open_aws

STORAGE = "test_a_taken_key_and_a_wrong_checksum_are_refused"
CHEAP = "conformance/test_services.py"
Suite = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def account() -> Iterator[EmbeddedAws]:
    with open_aws() as opened:
        yield opened


@pytest.fixture
def suite(account: EmbeddedAws, tmp_path: Path) -> Suite:
    """Start `pytest conformance --aws` in the account, with more arguments."""

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "pytest", CHEAP, "--aws", "--region", account.region, "-q"]
        return subprocess.Popen(
            [*command, "--recorded", str(tmp_path), "-p", "no:cacheprovider", *arguments],
            env=account.environment(),
            cwd=HERE.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    return start


def left_in(account: EmbeddedAws) -> list[str]:
    return [each.name for each in left(account.client, account.region)]


def test_nothing_is_created_before_it_is_agreed_to(
    suite: Suite, account: EmbeddedAws, tmp_path: Path
) -> None:
    chosen = f"{STORAGE} or waits_for_builds or least_recently_used"
    running = suite("conformance/test_endpoint.py", "--cheap", "-k", chosen)
    shown, _ = running.communicate("n\n", timeout=120)
    assert "2 tests in us-east-1, one after another: 3 minutes, 0.00 USD." in shown
    assert "a role, a state machine" in shown
    assert "nothing was created" in shown
    assert running.returncode == 1
    workers = suite("-n", "1", "-k", STORAGE)  # which cannot ask
    workers.communicate(timeout=120)
    assert workers.returncode == pytest.ExitCode.USAGE_ERROR
    assert left_in(account) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.story
def test_a_run_is_recorded_and_replayed_and_leaves_nothing(
    suite: Suite, account: EmbeddedAws, tmp_path: Path
) -> None:
    running = suite("-k", STORAGE)
    shown, _ = running.communicate("y\n", timeout=120)
    assert running.returncode == 0, shown
    assert left_in(account) == []
    [record] = records(tmp_path)
    assert record.verdicts["s3-refuses-taken-key"]["outcome"] == "true"
    assert record.answers[f"{STORAGE}: put"] == "PreconditionFailed"
    record.answers[f"{STORAGE}: put"] = ""  # an account that accepts it
    record.write(tmp_path)
    replay = [sys.executable, "-m", "pytest", CHEAP, "-q", "-k", STORAGE, "--recorded", str(tmp_path)]
    replayed = subprocess.run(replay, cwd=HERE.parent, capture_output=True, text=True, check=False)
    assert replayed.returncode == 1
    assert (
        'account-us-east-1-25.09 has the answer "", the embedded AWS "PreconditionFailed"' in replayed.stdout
    )


@pytest.mark.story
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_everything_is_removed_after_an_interruption(
    suite: Suite,
    account: EmbeddedAws,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    how: signal.Signals,
) -> None:
    running = suite("--yes", "-k", "head_bucket or taken_key")
    while len(left_in(account)) < 1:
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(how)
    running.communicate(timeout=120)
    if how == signal.SIGKILL:
        for name, value in account.exports().items():
            monkeypatch.setenv(name, value)
        assert main(["--region", account.region, "--yes"]) == 0
        assert "removes fleet-conformance-" in capsys.readouterr().out
    assert left_in(account) == []


def test_a_sweep_removes_what_it_may_and_has_the_name_of_a_run(account: EmbeddedAws) -> None:
    def client(service: str) -> Any:
        if service == "stepfunctions":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListStateMachines")
        return account.client(service)

    s3 = account.client("s3")
    for name in ("fleet-conformance-0123abcd-a", "fleet-conformance-of-someone"):
        s3.create_bucket(Bucket=name)
    assert left_in(account) == ["fleet-conformance-0123abcd-a"]
    [wrong] = sweep(client, account.region, pause=lambda: None)
    assert "ListStateMachines" in wrong
    assert [each["Name"] for each in s3.list_buckets()["Buckets"]] == ["fleet-conformance-of-someone"]


def test_every_belief_says_how_it_is_decided_and_names_a_test_that_there_is() -> None:
    files = [*HERE.glob("test_*.py"), *HERE.glob("gpu/test_*.py")]
    tests = {
        f"{path.stem}.{name}" for path in files for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert [each.id for each in beliefs().values() if not (each.test or each.command)] == []
    assert [each.test for each in beliefs().values() if each.test and each.test not in tests] == []


@pytest.mark.parametrize(
    ("outcome", "shown"),
    [
        ("true", "observed on 2026-11-25, release 25.09, A10G"),
        ("false", "**refuted** on 2026-11-25, release 25.09, A10G"),
        ("undecided", "public record"),
    ],
)
def test_what_a_run_observed_is_the_grade_of_a_belief(outcome: str, shown: str) -> None:
    verdict = {"outcome": outcome, "date": "2026-11-25"}
    record = Record(kind="gpu", place="A10G", release="25.09", verdicts={"gpu-memory": verdict})
    assert grade(beliefs()["gpu-memory"], [record]) == shown


def test_a_record_names_nobody_and_keeps_what_a_later_run_did_not_ask(tmp_path: Path) -> None:
    shown = {
        "arn:aws:s3:::bucket/key denied to 123456789012": "<arn of s3> denied to <account>",
        "763104351884.dkr.ecr.eu-west-1.amazonaws.com": "763104351884.dkr.ecr.eu-west-1.amazonaws.com",
        "request 01234567-89ab-cdef-0123-456789abcdef": "request <id>",
        "AKIAABCDEFGHIJKLMNOP at http://10.0.3.17/": "<access key> at http://<address>/",
        "/home/someone/x": "<home>/x",
        "TensorRT 10.13.3.9 of my-run": "TensorRT 10.13.3.9 of <run>",
    }
    assert scrubbed(list(shown), {"my-run": "<run>"}) == list(shown.values())
    for answers in ({"a": 1, "b": 1}, {"b": 2}):
        path = Record(kind="gpu", place="A10G", release="25.09", answers=answers).write(tmp_path)
    assert json.loads(path.read_text())["answers"] == {"a": 1, "b": 2}
    assert [each.name for each in tmp_path.iterdir()] == ["gpu-a10g-25.09.json"]
