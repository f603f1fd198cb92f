"""Runs the builds of deployed CodeBuild projects on this machine, in the background, a few at a time.

The image does not run: there is no container and no GPU. Everything else comes from the project in the
embedded AWS. When a build ends, its processes end and its files are removed, as with a container.
"""

from __future__ import annotations

import logging
import shlex
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from embedded_aws import BuildRecord
from triton_models.base.errors import FleetError
from triton_models.facts.build_machines import BUILD_MACHINES
from triton_rehearsal.builds import buildspec
from triton_rehearsal.builds.buildspec import Buildspec, FailedCommand
from triton_rehearsal.builds.environment import container_environment
from triton_rehearsal.builds.processing_job import run_job
from triton_rehearsal.builds.shell import CommandShell
from triton_rehearsal.closing import Closing
from triton_rehearsal.triton.machine import Machine

if TYPE_CHECKING:
    from embedded_aws import EmbeddedAws

WITHOUT_GPU: Mapping[str, str] = MappingProxyType({"FLEET_PORTABLE": "1"})
"""Variables of every build here: without a GPU, plans are replaced by stand-ins."""

OnLine = Callable[[str], None]

_SUCCEEDED, _FAILED, _FAULT, _TIMED_OUT = "SUCCEEDED", "FAILED", "FAULT", "TIMED_OUT"
_STOPPED = "STOPPED"
_LOG_LINES_SHOWN = 25
_MINUTE_S = 60.0
_log = logging.getLogger(__name__)


class BuildRunner(Closing):
    """Runs every build that is started in an embedded AWS, until the runner is closed.

    A build that an SDK, a function or a state machine starts is queued, then runs through its phases. Its log
    is in CloudWatch, and it can be stopped. The runner also runs Processing jobs.

    Of more builds than `at_most`, others wait in order. The variables in `lacking`, for features that this
    machine lacks, override all others. `minute_s` is the time here of a minute of a build's time limit.
    """

    def __init__(
        self,
        aws: EmbeddedAws,
        *,
        at_most: int = 2,
        lacking: Mapping[str, str] = WITHOUT_GPU,
        minute_s: float = _MINUTE_S,
    ) -> None:
        self._aws = aws
        self._lacking = lacking
        self._minute_s = minute_s
        self._lock = threading.Lock()
        self._closed = False
        self._builds: dict[str, tuple[_Build, Future[None]]] = {}
        self._open = ExitStack()
        self._open.enter_context(aws.run_jobs(partial(run_job, aws)))
        self._pool = ThreadPoolExecutor(at_most, thread_name_prefix="build")
        self._open.callback(self._pool.shutdown)
        self._open.callback(self._end_all)
        self._open.enter_context(aws.run_builds(self))

    def start(self, record: BuildRecord) -> None:
        """Queue a build. Returns at once."""
        build = _Build(self._aws, record, lacking=self._lacking)
        with self._lock:
            if not self._closed:
                self._builds[record.id] = build, self._pool.submit(self._run, build)

    def stop(self, build_id: str) -> None:
        """End a build, queued or running."""
        with self._lock:
            build, _ = self._builds.get(build_id, (None, None))
        if build is not None:
            build.interrupt(_STOPPED)

    def run(self, *, project: str, overrides: Mapping[str, str], on_line: OnLine = lambda line: None) -> None:
        """Start a build of a deployed project with variables that override its own, and wait for it."""
        variables = [{"name": name, "value": value} for name, value in overrides.items()]
        started: dict[str, Any] = self._aws.client("codebuild").start_build(
            projectName=project, environmentVariablesOverride=variables
        )
        self.wait(started["build"]["id"], on_line=on_line)

    def of(self, project: str) -> list[str]:
        """Return the ids of a project's builds, oldest first."""
        with self._lock:
            return [found for found in self._builds if found.rpartition(":")[0] == project]

    def wait(self, build_id: str, *, on_line: OnLine = lambda line: None) -> None:
        """Wait for the end of a build. The function is called with each line that it prints."""
        with self._lock:
            build, future = self._builds[build_id]
        build.log.follow(on_line)
        future.result()
        if build.record.shown()["buildStatus"] != _SUCCEEDED:
            raise build.error()

    def _run(self, build: _Build) -> None:
        record = build.record
        if record.complete:  # stopped while queued
            return
        limit = float(record.shown().get("timeoutInMinutes", 60)) * self._minute_s
        timer = threading.Timer(limit, build.interrupt, (_TIMED_OUT,))
        timer.daemon = True
        timer.start()
        try:
            build.run()
        except Exception as error:  # noqa: BLE001 -- a build that cannot be run has failed
            _log.exception("the build %s could not be run", record.id)
            record.leave(_FAULT, code="INTERNAL_SERVICE_ERROR", message=str(error))
            record.finish(_FAULT)
        finally:
            timer.cancel()

    def _end_all(self) -> None:
        with self._lock:
            self._closed = True
            builds = list(self._builds.values())
        for build, _ in builds:
            if not build.record.complete:
                build.interrupt(_STOPPED)

    def close(self) -> None:
        """Stop every build and start no more."""
        self._open.close()


class _BuildLog:
    """The log of a build: in CloudWatch, as CodeBuild writes it, and for a follower on this machine."""

    def __init__(self, record: BuildRecord, *, account: str, region: str) -> None:
        from moto.logs.models import logs_backends

        shown = record.shown()
        given: Mapping[str, Any] = shown["logs"]["cloudWatchLogs"]
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._followers: list[OnLine] = []
        self._logs: Any = logs_backends[account][region]
        self._group = given.get("groupName") or f"/aws/codebuild/{shown['projectName']}"
        number = record.id.rpartition(":")[2]
        self.stream = f"{given['streamName']}/{number}" if given.get("streamName") else number
        self._kept = given.get("status") != "DISABLED"
        if self._kept:
            self._logs.ensure_log_group(self._group)
            self._logs.ensure_log_stream(self._group, self.stream)
            arn = f"arn:aws:logs:{region}:{account}:log-group:{self._group}:log-stream:{self.stream}"
            record.logs_to(group=self._group, stream=self.stream, arn=arn)

    def write(self, line: str) -> None:
        with self._lock:
            self._lines.append(line)
            followers = list(self._followers)
            self._keep(line)
        for follower in followers:
            follower(line)

    def note(self, line: str) -> None:
        """Add a line from CodeBuild itself, which only CloudWatch shows."""
        with self._lock:
            self._keep(f"[Container] {line}")

    def follow(self, on_line: OnLine) -> None:
        """Call a function with every line so far, then with each new one."""
        with self._lock:
            for line in self._lines:
                on_line(line)
            self._followers.append(on_line)

    def tail(self) -> str:
        with self._lock:
            return "\n".join(self._lines[-_LOG_LINES_SHOWN:])

    def _keep(self, line: str) -> None:
        from moto.core.utils import unix_time_millis

        # The deletion of a stack may already have removed the group, and CloudWatch refuses empty lines.
        if self._kept and line.strip() and self._group in self._logs.groups:
            event = {"timestamp": int(unix_time_millis()), "message": line}
            self._logs.put_log_events(self._group, self.stream, [event])


class _Build:
    """One build. It writes its phases to its record and, as CodeBuild's agent does, to its log."""

    def __init__(self, aws: EmbeddedAws, record: BuildRecord, *, lacking: Mapping[str, str]) -> None:
        self.record = record
        self.log = _BuildLog(record, account=aws.account, region=aws.region)
        self._aws = aws
        self._lacking = lacking
        self._failure: FailedCommand | None = None
        self._lock = threading.Lock()
        self._shell: CommandShell | None = None
        self._ended_as: str | None = None

    def run(self) -> None:
        self.record.enter("PROVISIONING")
        self.record.leave(_SUCCEEDED)
        with tempfile.TemporaryDirectory(prefix="fleet-build-", ignore_cleanup_errors=True) as folder:
            self.record.enter("DOWNLOAD_SOURCE")
            try:
                spec, source = self._prepare(Path(folder))
            except Exception as error:  # noqa: BLE001 -- any exception is the cause of the build's failure
                self.record.leave(_FAILED, code="CLIENT_ERROR", message=str(error))
                self.log.write(f"the source could not be prepared: {error}")
                self.record.finish(_FAILED)
                return
            self.record.leave(_SUCCEEDED)
            self._run_phases(spec, source)
        for phase in ("UPLOAD_ARTIFACTS", "FINALIZING"):
            self.record.enter(phase)
            self.record.leave(_SUCCEEDED)
        self.record.finish(_FAILED if self._failure else _SUCCEEDED)

    def interrupt(self, status: str) -> None:
        """End the build from another thread, after a stop or a timeout."""
        with self._lock:
            self._ended_as = self._ended_as or status
            shell = self._shell
        if status == _TIMED_OUT:
            self.record.leave(status, code="BUILD_TIMED_OUT", message="Build has timed out.")
        self.record.finish(status)
        if shell is not None:
            shell.interrupt()

    def begins(self, phase: str) -> None:
        self.record.enter(phase.upper())
        self.log.note(f"Entering phase {phase.upper()}")

    def runs(self, command: str) -> None:
        self.log.note(f"Running command {command}")

    def ends(self, phase: str, failure: FailedCommand | None) -> None:
        status, code, message = _SUCCEEDED, "", ""
        if failure:
            status, code = _FAILED, "COMMAND_EXECUTION_ERROR"
            message = (
                f"Error while executing command: {failure.command}. Reason: exit status {failure.status}"
            )
        self.record.leave(status, code=code, message=message)
        self.log.note(f"Phase complete: {phase.upper()} State: {status}")
        self.log.note(f"Phase context status code: {code} Message: {message}")

    def error(self) -> FleetError:
        shown, failure = self.record.shown(), self._failure
        contexts = [context for phase in shown["phases"] for context in phase.get("contexts", ())]
        reason = next((each["message"] for each in contexts if each["message"]), "it did not finish")
        return FleetError.of(
            what=f"the build's {failure.phase} phase failed with status {failure.status}: {failure.command}"
            if failure
            else f"the build is {shown['buildStatus']}: {reason}",
            where=f"build {shown['id']}",
            why="the build published nothing after this command\n" + self.log.tail(),
            fix="run the command manually in model_builds/ and fix the errors that it reports",
        )

    def _prepare(self, folder: Path) -> tuple[Buildspec, Path]:
        given = self.record.shown()["source"]
        spec = buildspec.parse(given.get("buildspec", ""))
        source = folder / "src"
        source.mkdir()
        if given["type"] != "NO_SOURCE":
            # CodeBuild's form of a zipped source in S3 is `bucket/key`.
            bucket, _, key = given["location"].removeprefix("arn:aws:s3:::").partition("/")
            archive = folder / "src.zip"
            self._aws.client("s3").download_file(bucket, key, str(archive))
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(source)
            archive.unlink()
        return spec, source

    def _run_phases(self, spec: Buildspec, source: Path) -> None:
        environment = self._environment(spec, source)
        with CommandShell(
            environment=environment, directory=source, on_line=self.log.write, program=spec.shell
        ) as shell:
            with self._lock:
                self._shell = shell
                ended = self._ended_as
            if ended is None:
                self._failure = buildspec.run(spec, shell, self)
                self.record.exports(dict(_exported(spec, shell, source.with_name("exported"))))
            with self._lock:
                self._shell = None

    def _environment(self, spec: Buildspec, source: Path) -> dict[str, str]:
        """Return the variables of the container, the buildspec, the project and the build; later ones win."""
        shown = self.record.shown()
        machine = self._machine(shown["environment"])
        needed = "\n".join(each.read_text() for each in source.glob("models/*/requirements.txt"))
        return {
            **container_environment(self._aws, machine, folder=source.parent, requirements=needed),
            **spec.variables,
            **dict(self._given(shown["environment"]["environmentVariables"])),
            **_own(shown, source, stream=self.log.stream),
            **self._lacking,
        }

    def _machine(self, environment: Mapping[str, Any]) -> Machine:
        """Return the machine of a project, from the instance type of its fleet or from its compute type."""
        image = environment.get("image", "")
        if arn := environment.get("fleet", {}).get("fleetArn"):
            (fleet,) = self._aws.client("codebuild").batch_get_fleets(names=[arn])["fleets"]
            instance = fleet.get("computeConfiguration", {}).get("instanceType", "")
            return Machine.of(image=image, instance_type=f"ml.{instance}")
        if "GPU" not in environment["type"]:
            return Machine.of(image=image)
        rented = {each.compute_type: each.gpu for each in BUILD_MACHINES.values()}
        return Machine.of(image=image, gpu=rented.get(environment["computeType"]))

    def _given(self, variables: list[dict[str, str]]) -> Iterator[tuple[str, str]]:
        secrets = self._aws.client("secretsmanager")
        for variable in variables:
            name, value, kind = variable["name"], variable["value"], variable["type"]
            if kind == "SECRETS_MANAGER":
                value = secrets.get_secret_value(SecretId=value)["SecretString"]
            elif kind != "PLAINTEXT":
                msg = f"the rehearsal reads no variable of type {kind}: {name}"
                raise ValueError(msg)
            yield name, value


def _exported(spec: Buildspec, shell: CommandShell, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the variables that the buildspec exports, with their values after the last command."""
    folder.mkdir()
    for name in spec.exported:
        shell.run(f'printf %s "${{{name}-}}" > {shlex.quote(str(folder / name))}')
        if (folder / name).is_file():
            yield name, (folder / name).read_text(errors="replace")


def _own(shown: Mapping[str, Any], source: Path, *, stream: str) -> dict[str, str]:
    """Return the variables that CodeBuild itself sets.

    Source of their names, read on 2026-11-21:
    https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-env-vars.html
    """
    prefix, _, _ = shown["arn"].partition(":build/")
    location, key = shown["source"].get("location"), shown.get("encryptionKey")
    return {
        "CODEBUILD_BUILD_ARN": shown["arn"],
        "CODEBUILD_BUILD_ID": shown["id"],
        "CODEBUILD_BUILD_IMAGE": shown["environment"].get("image", ""),
        "CODEBUILD_BUILD_NUMBER": str(shown["buildNumber"]),
        "CODEBUILD_BUILD_SUCCEEDING": "1",
        "CODEBUILD_INITIATOR": shown["initiator"],
        "CODEBUILD_LOG_PATH": stream,
        "CODEBUILD_PROJECT_ARN": f"{prefix}:project/{shown['projectName']}",
        "CODEBUILD_SRC_DIR": str(source),
        "CODEBUILD_START_TIME": str(int(shown["startTime"] * 1000)),
        **({"CODEBUILD_SOURCE_REPO_URL": f"s3://{location}"} if location else {}),
        **({"CODEBUILD_KMS_KEY_ID": key} if key else {}),
    }
