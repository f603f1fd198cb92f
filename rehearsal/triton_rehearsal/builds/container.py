"""A build on this machine: its source, variables, shell and phases.

The image does not run: there is no container and no GPU. Everything else comes from the project in the
embedded AWS. When the build ends, its processes end and its files are removed, as with a container.
"""

from __future__ import annotations

import shlex
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedded_aws import BuildRecord
from triton_models.base.errors import FleetError
from triton_models.facts.build_machines import BUILD_MACHINES
from triton_rehearsal.builds import buildspec
from triton_rehearsal.builds.buildspec import Buildspec, FailedCommand
from triton_rehearsal.builds.environment import container_environment
from triton_rehearsal.builds.log import BuildLog
from triton_rehearsal.builds.shell import CommandShell
from triton_rehearsal.triton.machine import Machine

if TYPE_CHECKING:
    from embedded_aws import EmbeddedAws

SUCCEEDED, FAILED, FAULT, TIMED_OUT = "SUCCEEDED", "FAILED", "FAULT", "TIMED_OUT"
_CLIENT_ERROR = "CLIENT_ERROR"


class BuildContainer:
    """One build.

    Attributes:
        failure: The first failed command; set after the end.
    """

    def __init__(
        self, aws: EmbeddedAws, record: BuildRecord, log: BuildLog, *, lacking: Mapping[str, str]
    ) -> None:
        self.failure: FailedCommand | None = None
        self._aws = aws
        self._record = record
        self._log = log
        self._lacking = lacking
        self._lock = threading.Lock()
        self._shell: CommandShell | None = None
        self._ended_as: str | None = None

    def run(self) -> None:
        """Run the build and record its end."""
        self._record.enter("PROVISIONING")
        self._record.leave(SUCCEEDED)
        with tempfile.TemporaryDirectory(prefix="fleet-build-", ignore_cleanup_errors=True) as folder:
            self._record.enter("DOWNLOAD_SOURCE")
            try:
                spec, source = self._prepare(Path(folder))
            except Exception as error:  # noqa: BLE001 -- any exception is the cause of the build's failure
                self._record.leave(FAILED, code=_CLIENT_ERROR, message=str(error))
                self._log.write(f"the source could not be prepared: {error}")
                self._record.finish(FAILED)
                return
            self._record.leave(SUCCEEDED)
            self._run_phases(spec, source)
        for phase in ("UPLOAD_ARTIFACTS", "FINALIZING"):
            self._record.enter(phase)
            self._record.leave(SUCCEEDED)
        self._record.finish(FAILED if self.failure else SUCCEEDED)

    def interrupt(self, status: str) -> None:
        """End the build from another thread, after a stop or a timeout."""
        with self._lock:
            self._ended_as = self._ended_as or status
            shell = self._shell
        if status == TIMED_OUT:
            self._record.leave(status, code="BUILD_TIMED_OUT", message="Build has timed out.")
        self._record.finish(status)
        if shell is not None:
            shell.interrupt()

    def _prepare(self, folder: Path) -> tuple[Buildspec, Path]:
        shown = self._record.shown()
        spec = buildspec.parse(shown["source"].get("buildspec", ""))
        source = folder / "src"
        source.mkdir()
        if shown["source"]["type"] != "NO_SOURCE":
            self._download(shown["source"]["location"], source)
        return spec, source

    def _download(self, location: str, into: Path) -> None:
        """Fetch and unpack the zipped source at `bucket/key`, CodeBuild's form of an S3 location."""
        bucket, _, key = location.removeprefix("arn:aws:s3:::").partition("/")
        archive = into.with_suffix(".zip")
        self._aws.client("s3").download_file(bucket, key, str(archive))
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(into)
        archive.unlink()

    def _run_phases(self, spec: Buildspec, source: Path) -> None:
        with CommandShell(
            environment=self._environment(spec, source),
            directory=source,
            on_line=self._log.write,
            program=spec.shell,
        ) as shell:
            with self._lock:
                self._shell = shell
                ended = self._ended_as
            if ended is None:
                self.failure = buildspec.run(spec, shell, _Recorder(self._record, self._log))
                self._record.exports(dict(_exported(spec, shell, source.with_name("exported"))))
            with self._lock:
                self._shell = None

    def _environment(self, spec: Buildspec, source: Path) -> dict[str, str]:
        """Return the variables of the container, the buildspec, the project and the build; later ones win.

        Source of the names of CodeBuild's variables, read on 2026-11-21:
        https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-env-vars.html
        """
        shown = self._record.shown()
        machine = self._machine(shown["environment"])
        needed = "\n".join(each.read_text() for each in source.glob("models/*/requirements.txt"))
        container = container_environment(self._aws, machine, folder=source.parent, requirements=needed)
        return {
            **container,
            **spec.variables,
            **dict(self._given(shown["environment"]["environmentVariables"])),
            **dict(_own(shown, source, stream=self._log.stream)),
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


def _own(shown: Mapping[str, Any], source: Path, *, stream: str) -> Iterator[tuple[str, str]]:
    """Yield the variables that CodeBuild itself sets."""
    yield "CODEBUILD_BUILD_ARN", shown["arn"]
    yield "CODEBUILD_BUILD_ID", shown["id"]
    yield "CODEBUILD_BUILD_IMAGE", shown["environment"].get("image", "")
    yield "CODEBUILD_BUILD_NUMBER", str(shown["buildNumber"])
    yield "CODEBUILD_BUILD_SUCCEEDING", "1"
    yield "CODEBUILD_INITIATOR", shown["initiator"]
    yield "CODEBUILD_LOG_PATH", stream
    prefix, _, _ = shown["arn"].partition(":build/")
    yield "CODEBUILD_PROJECT_ARN", f"{prefix}:project/{shown['projectName']}"
    yield "CODEBUILD_SRC_DIR", str(source)
    yield "CODEBUILD_START_TIME", str(int(shown["startTime"] * 1000))
    if shown["source"].get("location"):
        yield "CODEBUILD_SOURCE_REPO_URL", f"s3://{shown['source']['location']}"
    if shown.get("encryptionKey"):
        yield "CODEBUILD_KMS_KEY_ID", shown["encryptionKey"]


class _Recorder(buildspec.Watcher):
    """Writes a build's phases to its record and, as CodeBuild's agent does, to its log."""

    def __init__(self, record: BuildRecord, log: BuildLog) -> None:
        self._record = record
        self._log = log

    def begins(self, phase: str) -> None:
        self._record.enter(phase.upper())
        self._log.note(f"Entering phase {phase.upper()}")

    def runs(self, command: str) -> None:
        self._log.note(f"Running command {command}")

    def ends(self, phase: str, failure: FailedCommand | None) -> None:
        status = FAILED if failure else SUCCEEDED
        code = "COMMAND_EXECUTION_ERROR" if failure else ""
        message = (
            f"Error while executing command: {failure.command}. Reason: exit status {failure.status}"
            if failure
            else ""
        )
        self._record.leave(status, code=code, message=message)
        self._log.note(f"Phase complete: {phase.upper()} State: {status}")
        self._log.note(f"Phase context status code: {code} Message: {message}")


def failure_of(
    log: BuildLog, container: BuildContainer, shown: Mapping[str, Any], *, lines: int
) -> FleetError:
    """Return the error of a failed build, with the end of its log."""
    failure = container.failure
    contexts = [context for phase in shown["phases"] for context in phase.get("contexts", ())]
    reason = next((context["message"] for context in contexts if context["message"]), "it did not finish")
    what = (
        f"the build's {failure.phase} phase failed with status {failure.status}: {failure.command}"
        if failure
        else f"the build is {shown['buildStatus']}: {reason}"
    )
    return FleetError.of(
        what=what,
        where=f"build {shown['id']}",
        why="the build published nothing after this command\n" + log.tail(lines),
        fix="run the command manually in model_builds/ and fix the errors that it reports",
    )
