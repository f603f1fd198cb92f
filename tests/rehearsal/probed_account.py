"""An account to probe: the embedded AWS, with time that a test controls."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3.session
from moto.cloudformation.models import cloudformation_backends
from moto.sagemaker.models import sagemaker_backends

from embedded_aws import EmbeddedAws
from triton_models.probe.account.cleaning import Cleaned
from triton_models.probe.account.resources import found_in
from triton_models.probe.account.run import run
from triton_models.probe.account.work import Clients, Clock
from triton_models.probe.result import Probed

REGION = "us-east-1"


class Account:
    """The account of an embedded AWS, as a user with all permissions sees it.

    Attributes:
        aws: The embedded AWS.
        folder: The folder of transcripts and journals.
        meanwhile: Called in every pause of the probes, to simulate changes in the account.
        region: The region of new sessions.
        minutes_a_pause: Minutes that pass in a pause, in addition to the real time. None pass while a stack
            is in progress: its functions are real processes.
        removing: True once the run has begun to remove something.
        before: Called before each request, with its name, such as "CreateBucket". May return the code and
            message of an error with which AWS then answers.
        after: Called when AWS has done a request, before the probe gets the answer.
        start_minutes: Minutes for which a new endpoint is Creating. With 0 it is in service at once.
    """

    def __init__(self, aws: EmbeddedAws, folder: Path, *, runtime: str = "") -> None:
        self.aws, self.folder = aws, folder
        self.meanwhile: Callable[[], None] = lambda: None
        self.region = REGION
        self.minutes_a_pause = 0.0
        self.start_minutes = 0.0
        self.before: Callable[[str], Any] = lambda call: None
        self.after: Callable[[str], Any] = lambda call: None
        self.removing = False
        self._passed = 0.0
        self._runtime = runtime
        self._made: dict[tuple[str, str], Any] = {}
        self.session = self.new_session()

    def new_session(self) -> Any:
        """Return a session whose clients reach this AWS and are created only once."""
        session = _Session(
            region_name=self.region, aws_access_key_id=self.aws.door.key, aws_secret_access_key="test"
        )
        session.made, session.url, session.runtime = self._made, self.aws.url, self._runtime
        session.events.register("before-call", self._before_call)
        session.events.register("after-call", self._after_call)
        session.events.register("after-call.sagemaker.CreateEndpoint", self._creating)
        return session

    def _before_call(self, model: Any, **_: Any) -> Any:
        self.removing = self.removing or model.name.startswith(("Delete", "Deregister", "Abort", "Stop"))
        refusal = self.before(model.name)
        if refusal is None:
            return None
        code, message = refusal
        error = {"Code": code, "Message": message}
        return SimpleNamespace(status_code=400), {"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}

    def _after_call(self, model: Any, **_: Any) -> None:
        self.after(model.name)

    @property
    def clock(self) -> Clock:
        """The clock for the probes."""
        return Clock(now=self._now, pause=self._pause, slow_load_s=1.0, slow_answer_s=1.0, bake_s=600)

    def _now(self) -> float:
        return time.monotonic() + self._passed

    def _pause(self) -> None:
        self.meanwhile()
        self._start_endpoints()
        if self.minutes_a_pause and not self._stack_in_progress():
            self._passed += self.minutes_a_pause * 60
        else:
            time.sleep(0.01)

    def _stack_in_progress(self) -> bool:
        stacks = cloudformation_backends[EmbeddedAws.account][self.region].stacks.values()
        return any(stack.status.endswith("IN_PROGRESS") for stack in stacks)

    def _start_endpoints(self) -> None:
        """Put new endpoints in service after their start time. Time passes while one is Creating."""
        creating = [each for each in self._endpoints() if each.endpoint_status == "Creating"]
        self._passed += 60 if creating and not self._stack_in_progress() else 0
        for endpoint in creating:
            if self._now() - endpoint.began >= self.start_minutes * 60:
                endpoint.endpoint_status = endpoint.outcome

    def _creating(self, **_: Any) -> None:
        for endpoint in self._endpoints():
            if self.start_minutes and not hasattr(endpoint, "began"):
                endpoint.began, endpoint.outcome = self._now(), endpoint.endpoint_status
                endpoint.endpoint_status = "Creating"

    def _endpoints(self) -> list[Any]:
        return list(sagemaker_backends[EmbeddedAws.account][self.region].endpoints.values())

    def probe(self, *only: str, **options: Any) -> Probed | Cleaned:
        """Run `fleet probe account` with `--yes`."""
        self.removing = False
        given = {"only": list(only) or None, "yes": True, **options}
        return run(arguments(self.folder, **given), session=self.session, clock=self.clock)

    def verdicts(self, *only: str, **options: Any) -> dict[str, str]:
        """Run these probes and return the outcome of each belief that they decide."""
        outcome = self.probe(*only, **options)
        assert isinstance(outcome, Probed)
        self.evidence = {each.belief: each.evidence for each in outcome.transcript.verdicts}
        return {each.belief: each.outcome.value for each in outcome.transcript.verdicts}

    def assume(self, **assumptions: bool) -> AbstractContextManager[None]:
        """Set assumptions about AWS to true or false."""
        return self.aws.assume(**assumptions)

    def left(self) -> list[tuple[str, str]]:
        """Return kind and name of everything that any run has left in the account."""
        return list(found_in(Clients(self.session, self.region), self.region))

    def journals(self) -> list[Path]:
        """Return the journals of unfinished runs."""
        return sorted((self.folder / "triton-fleet").glob("probe-*.json"))


def arguments(folder: Path, **given: Any) -> argparse.Namespace:
    """Return the arguments of a command line."""
    usual: Mapping[str, Any] = {
        "region": REGION,
        "profile": None,
        "release": "25.09",
        "instance_type": "ml.g5.2xlarge",
        "only": None,
        "all": False,
        "yes": False,
        "resume": False,
        "clean": False,
        "transcript": folder / "transcript.json",
    }
    return argparse.Namespace(**{**usual, **given})


class _Session(boto3.session.Session):
    """A session that creates each client once: creating one takes longer than most probes."""

    made: dict[tuple[str, str], Any]
    url: str
    runtime: str

    def client(self, service: str, **options: Any) -> Any:  # type: ignore[override]
        own = options.get("aws_session_token")
        key = (service, options.get("region_name") or REGION)
        if own is None and key in self.made:
            return self.made[key]
        url = self.runtime if service == "sagemaker-runtime" and self.runtime else self.url
        made = super().client(service, **options, endpoint_url=url)
        if own is None:
            self.made[key] = made
        return made


def on_path(folder: Path, **programs: str) -> str:
    """Create shell scripts with these names, and return a search path with them before all others."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return os.pathsep.join([str(folder), os.environ["PATH"]])
