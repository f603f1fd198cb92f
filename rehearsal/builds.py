"""Runs a deployed CodeBuild project on this machine: its own source, environment and buildspec."""

from __future__ import annotations

import collections
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehearsal import buildspec
from rehearsal.jobs import run_job
from rehearsal.shell import CommandShell
from triton_models.errors import FleetError

if TYPE_CHECKING:
    from rehearsal.aws.embedded import EmbeddedAws

_LOG_LINES_KEPT = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """A build that succeeded.

    Attributes:
        identifier: CodeBuild's id of the build.
        commands: How many commands the buildspec ran.
    """

    identifier: str
    commands: int


def run_build(
    aws: EmbeddedAws,
    *,
    project: str,
    overrides: Mapping[str, str],
    on_line: Callable[[str], None] = lambda line: None,
) -> Build:
    """Start a build of a deployed project and run it here.

    The image is not run: there is no container, and the GPU that the project asks for is not here either.
    Everything else is the project's own, read back from the embedded AWS: the source from its S3 asset,
    the environment variables, the buildspec. A Processing job that the build starts is run here as well.

    Args:
        aws: Where the project was deployed.
        project: The project's name.
        overrides: Environment variables that this build replaces, as StartBuild takes them.
        on_line: Called with each line that the build prints.

    Raises:
        FleetError: A command failed; with the end of the log.
    """
    codebuild = aws.client("codebuild")
    started: dict[str, Any] = codebuild.start_build(
        projectName=project,
        environmentVariablesOverride=[{"name": name, "value": value} for name, value in overrides.items()],
    )["build"]
    spec = buildspec.parse(started["source"]["buildspec"])
    log: collections.deque[str] = collections.deque(maxlen=_LOG_LINES_KEPT)

    def keep(line: str) -> None:
        log.append(line)
        on_line(line)

    from rehearsal.aws.moto_gaps import processing_jobs  # moto takes a second to import

    with (
        tempfile.TemporaryDirectory(prefix="fleet-build-") as folder,
        processing_jobs.hosted(lambda request: run_job(aws, request)),
    ):
        source = Path(folder) / "src"
        source.mkdir()
        if started["source"]["type"] != "NO_SOURCE":
            _download_source(aws, location=started["source"]["location"], into=source)
        environment = _environment(aws, started, spec, source)
        with CommandShell(environment=environment, directory=source, on_line=keep) as shell:
            failure = buildspec.run(spec, shell)
    aws.finish_build(started["id"], status="FAILED" if failure else "SUCCEEDED")
    if failure:
        raise FleetError.of(
            what=f"the build's {failure.phase} phase failed with status {failure.status}: {failure.command}",
            where=f"build {started['id']}",
            expected="status 0 from every command",
            why="nothing of this build was published after that command\n" + "\n".join(log),
            fix="run the command by hand in model_builds/ and mend what it says",
        )
    return Build(identifier=started["id"], commands=sum(len(phase.commands) for phase in spec.phases))


def _download_source(aws: EmbeddedAws, *, location: str, into: Path) -> None:
    """Fetch and unpack the zipped source at `bucket/key`, as CodeBuild takes an S3 location."""
    bucket, _, key = location.removeprefix("arn:aws:s3:::").partition("/")
    archive = into.with_suffix(".zip")
    aws.client("s3").download_file(bucket, key, str(archive))
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(into)
    archive.unlink()


def _environment(
    aws: EmbeddedAws, started: Mapping[str, Any], spec: buildspec.Buildspec, source: Path
) -> dict[str, str]:
    """What the commands see: AWS's address, then the buildspec's, the project's and the build's variables."""
    given = {
        variable["name"]: variable["value"] for variable in started["environment"]["environmentVariables"]
    }
    here = str(Path(sys.executable).parent)
    return {
        **aws.environment(),
        "PATH": os.pathsep.join([here, os.environ.get("PATH", os.defpath)]),
        "CODEBUILD_BUILD_ID": started["id"],
        "CODEBUILD_SRC_DIR": str(source),
        "PYTHONUNBUFFERED": "1",
        **spec.variables,
        **given,
    }
