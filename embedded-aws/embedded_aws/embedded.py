"""An AWS in this process: moto's server, with the resource types and answers that moto lacks."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from embedded_aws import clients, given
from embedded_aws import clock as clocks
from embedded_aws.clients import Clients
from embedded_aws.door import Door
from embedded_aws.given import Prices
from embedded_aws.server import listen, serve

if TYPE_CHECKING:
    from embedded_aws.builds import BuildRunner
    from embedded_aws.deployment import Host
    from embedded_aws.moto_gaps.processing_jobs import JobRunner

ACCOUNT = "123456789012"
"""The account that moto answers for."""

# Any secret will do: the door checks the key's id, and nothing checks a signature.
_SECRETS = dict.fromkeys(("aws_secret_access_key", "aws_session_token"), "embedded")

# Settings for the caller's own AWS, which must not reach a child process that uses this one.
_INHERITED_PREFIXES = ("AWS_", "CDK_", "BOTO_", "MOTO_")
_PROXIES = ("NO_PROXY", "no_proxy")
_LOOPBACK = "localhost,127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingResource:
    """A resource of a deployed template that does not exist.

    Attributes:
        stack: The stack's name.
        logical_id: The resource's name in the template.
        type_name: The resource's type.
        reason: The reason why it counts as missing.
    """

    stack: str
    logical_id: str
    type_name: str
    reason: str


class EmbeddedAws:
    """An AWS with one account. It is empty when opened, and closing discards it.

    Only one can be open per process, because moto keeps its state per process. It answers only requests
    signed with its key, which is in `exports`; see `embedded_aws.door`.

    Args:
        port: The TCP port on the loopback interface; 0 takes a free one.
        region: The region in `environment`, `exports` and `client`.
        speed: Seconds of the control plane per second of the wall clock: waits of deployments, periods of
            alarms, cooldowns, schedules and the times of metrics. 1 is AWS's pace. By default every wait is
            over at once, and nothing is evaluated unless asked; see `clock`.
        prices: The prices in the price list; none by default.
        images: Facts about images in other accounts' registries; by default every image exists.

    Raises:
        PortError: The port is taken or not allowed.
        ValueError: The speed is not above 0.
        RuntimeError: Another one is open in this process.

    Attributes:
        account: The id of the account.
        door: The access control; `door.key` is the id of the access key.
    """

    account = ACCOUNT
    _turn = threading.Lock()

    def __init__(
        self,
        port: int = 0,
        *,
        region: str = "us-east-1",
        speed: float = math.inf,
        prices: Prices | None = None,
        images: given.Images | None = None,
    ) -> None:
        self.region = region
        self.door = Door(_issued)
        self._elsewhere: dict[str, str] = {}
        self._open = ExitStack()
        if not EmbeddedAws._turn.acquire(blocking=False):
            raise RuntimeError("another EmbeddedAws is open in this process")
        self._open.callback(EmbeddedAws._turn.release)
        try:
            clocks.connect(clocks.Clock(speed=speed))
            self._open.callback(clocks.connect, None)
            # Bound before the heavy imports, so that a taken port is reported at once.
            listener = self._open.enter_context(listen(port))
            self.port: int = listener.getsockname()[1]
            serve(listener, self.door, prices or (lambda *_: None), self._open, self._elsewhere)
            self._clients = Clients(self.url, _keys(self.door.key))
            self._open.callback(self._clients.close)
            self._connect()
            given.connect(images)
            self._open.callback(given.connect, None)
        except BaseException:
            self._open.close()
            raise

    def _connect(self) -> None:
        """Let the services call each other; what still runs ends at the end."""
        from embedded_aws.cloudformation import stacks
        from embedded_aws.cloudformation.custom_resource import ANSWERS
        from embedded_aws.functions.runner import Functions
        from embedded_aws.moto_gaps import lambda_, states
        from embedded_aws.moto_gaps.scaling import EveryMinute

        ANSWERS.connect(self.url)
        clients.connect(self._clients)
        self._open.callback(clients.connect, None)
        self._open.callback(stacks.join)
        functions = Functions(self._function_environment)
        lambda_.connect(functions)
        self._open.callback(lambda_.connect, None)
        self._open.callback(functions.close)
        self._open.callback(states.end_executions)
        self._every_minute = EveryMinute(ACCOUNT)
        self._open.callback(self._every_minute.close)

    def _function_environment(self) -> dict[str, str]:
        return {
            **self.exports(),
            **self._elsewhere,
            **dict.fromkeys(_PROXIES, _LOOPBACK),
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }

    def serve_elsewhere(self, service: str, url: str) -> None:
        """Send the functions' calls of a service, such as `sagemaker-runtime`, to another address.

        It takes effect at each function's next call. `exports` does not contain the address.
        """
        self._elsewhere[f"AWS_ENDPOINT_URL_{service.upper().replace('-', '_')}"] = url

    @property
    def clock(self) -> clocks.Clock:
        """The time of the control plane. Metrics, alarms, deployments and scaling follow it."""
        return clocks.current()

    def set_speed(self, speed: float) -> None:
        """Let the clock go on at another speed. A wait that has begun keeps its own."""
        clocks.connect(self.clock.at_speed(speed))
        self._every_minute.wake()

    def attach(self, host: Host) -> None:
        """Start the instances of endpoints on a host before they take traffic."""
        from embedded_aws.moto_gaps import endpoint_update

        endpoint_update.attach(host)
        self._open.callback(endpoint_update.detach, host)

    def detach(self, host: Host) -> None:
        """Stop starting instances on a host."""
        from embedded_aws.moto_gaps import endpoint_update

        endpoint_update.detach(host)

    @contextmanager
    def run_builds(self, runner: BuildRunner) -> Iterator[None]:
        """Run CodeBuild's builds with a runner until the end of the `with`. There is one at a time."""
        from embedded_aws.moto_gaps import codebuild

        codebuild.connect(runner)
        try:
            yield
        finally:
            codebuild.connect(None)

    def run_jobs(self, runner: JobRunner) -> AbstractContextManager[None]:
        """Run Processing jobs until the end of the `with`, which stops those that still run.

        Args:
            runner: Runs the job of a CreateProcessingJob request until the event is set. Returns the reason
                for a failure; None if the job succeeded.
        """
        from embedded_aws.moto_gaps import processing_jobs

        return processing_jobs.hosted(runner)

    @property
    def url(self) -> str:
        """The endpoint URL of every service.

        It names localhost, not 127.0.0.1: moto recognizes only that host in the URL of a template.
        """
        return f"http://localhost:{self.port}"

    def exports(self) -> dict[str, str]:
        """The variables that point an AWS SDK or the AWS command line here."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_S3": self.url,
            **{name.upper(): value for name, value in _keys(self.door.key).items()},
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def environment(self, **extra: str) -> dict[str, str]:
        """Return a process environment that points SDKs and the AWS and CDK command lines here.

        It contains none of the caller's settings for the real AWS: no profile, credentials or other endpoint.

        Args:
            **extra: More variables. They take precedence.
        """
        return {**self.environment_of(os.environ), **extra}

    def environment_of(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return such an environment, based on other variables than this process's.

        Args:
            inherited: The variables. Those that could lead to the real AWS are left out.
        """
        kept = {key: value for key, value in inherited.items() if not key.startswith(_INHERITED_PREFIXES)}
        for name in _PROXIES:
            kept[name] = f"{kept[name]},{_LOOPBACK}" if kept.get(name) else _LOOPBACK
        return {
            **kept,
            **self.exports(),
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "CDK_DISABLE_CLI_TELEMETRY": "true",
        }

    def client(self, service: str) -> Any:
        """Return a boto3 client of a service here, independent of the caller's own AWS settings."""
        return self._clients.get(service, self.region)

    def missing_resources(self, stack_name: str) -> list[MissingResource]:
        """Return the resources of a deployed template that do not exist.

        CREATE_COMPLETE alone proves nothing here. A resource exists if it has a physical id and its service's
        API returns it. Resources that a condition leaves out do not count.

        Raises:
            StackNotFoundError: The stack does not exist.
        """
        from embedded_aws.cloudformation import stacks

        return [
            MissingResource(stack=stack_name, logical_id=logical_id, type_name=type_name, reason=reason)
            for logical_id, type_name, reason in stacks.missing(ACCOUNT, self.region, stack_name)
        ]

    def evaluate(self, *, at: datetime | None = None) -> None:
        """Run due schedules, read queues for functions, then evaluate every alarm, and perform actions.

        The clock does this every minute of its own time. A call allows a test to pass hours without waiting.

        Args:
            at: The time of the evaluation; by default now. Periods of metrics that have ended then count.
        """
        from embedded_aws.moto_gaps.scaling import evaluate

        evaluate(ACCOUNT, at=self.clock.time() if at is None else at.timestamp())

    def finish_build(self, build_id: str, *, status: str, phases: Sequence[Mapping[str, Any]] = ()) -> None:
        """Record the outcome of a build. Without a runner, a build stays in progress until then.

        Args:
            build_id: The id that StartBuild returned.
            status: CodeBuild's status: SUCCEEDED, FAILED, FAULT, TIMED_OUT or STOPPED.
            phases: The phases that ran, as BatchGetBuilds shows them.

        Raises:
            LookupError: The build does not exist.
            ValueError: The status is not one of a finished build.
        """
        from moto.codebuild.models import codebuild_backends

        from embedded_aws.moto_gaps import codebuild

        backend = codebuild_backends[ACCOUNT][self.region]
        codebuild.finish_build(backend, build_id, status=status, phases=phases)

    def set_exit_message(self, job: str, message: str) -> None:
        """Set the exit message of a Processing job, unless the message is empty."""
        from moto.sagemaker.models import sagemaker_backends

        if message:
            jobs: Any = sagemaker_backends[ACCOUNT][self.region].processing_jobs
            jobs[job].exit_message = message

    def close(self) -> None:
        """Stop answering and discard everything. A second call has no effect."""
        self._open.close()

    def __enter__(self) -> EmbeddedAws:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _keys(key: str) -> dict[str, str]:
    return {"aws_access_key_id": key, **_SECRETS}


def _issued(key: str) -> bool:
    """Return True if AssumeRole or CreateAccessKey created a key here."""
    from moto.iam.models import iam_backends

    return any(key in iam.access_keys for account in iam_backends.values() for iam in account.values())
