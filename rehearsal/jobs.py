"""Runs a SageMaker Processing job on this machine: its own input, environment, entry point and log."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rehearsal.triton.command import search_path

if TYPE_CHECKING:
    from rehearsal.aws.embedded import EmbeddedAws

LOG_GROUP = "/aws/sagemaker/ProcessingJobs"


def run_job(aws: EmbeddedAws, request: Mapping[str, Any]) -> str | None:
    """Run what a CreateProcessingJob request asks for.

    The image is not run: there is no container, and where the command names the place of an input in it, it
    gets the place here. What it prints goes where SageMaker puts it, a log stream of CloudWatch.

    Args:
        aws: Where the job was asked for.
        request: The request.

    Returns:
        SageMaker's reason for a failure; None if the command succeeded.
    """
    application = request["AppSpecification"]
    command = [*application["ContainerEntrypoint"], *application.get("ContainerArguments", ())]
    with tempfile.TemporaryDirectory(prefix="fleet-job-") as folder:
        places = dict(_inputs(aws, request, Path(folder)))
        process = subprocess.Popen(
            [_here(part, places) for part in command],
            env=_environment(aws, request, Path(folder)),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        _log(aws, f"{request['ProcessingJobName']}/algo-1", process)
    if process.returncode:
        return f"AlgorithmError: , exit code: {process.returncode}"
    return None


def _inputs(aws: EmbeddedAws, request: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Path]]:
    """Fetch every input; its place in a container, and its place here."""
    s3 = aws.client("s3")
    for given in request.get("ProcessingInputs", ()):
        place = folder / "inputs" / given["InputName"]
        place.mkdir(parents=True)
        location = urlsplit(given["S3Input"]["S3Uri"])
        prefix = location.path.lstrip("/")
        for found in s3.list_objects_v2(Bucket=location.netloc, Prefix=prefix)["Contents"]:
            s3.download_file(location.netloc, found["Key"], str(place / Path(found["Key"]).name))
        yield given["S3Input"]["LocalPath"], place


def _here(part: str, places: Mapping[str, Path]) -> str:
    for inside, here in places.items():
        part = part.replace(inside, str(here))
    return part


def _environment(aws: EmbeddedAws, request: Mapping[str, Any], folder: Path) -> dict[str, str]:
    return {
        **aws.environment(),
        "PATH": search_path(folder / "bin"),
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(folder),
        **request.get("Environment", {}),
        "PIP_USER": "0",  # a virtual environment has no folder of the user's
    }


def _log(aws: EmbeddedAws, stream: str, process: subprocess.Popen[str]) -> None:
    """Keep what the process prints until it has ended."""
    logs = aws.client("logs")
    with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):  # of an earlier job
        logs.create_log_group(logGroupName=LOG_GROUP)
    logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=stream)
    assert process.stdout is not None  # noqa: S101  given by PIPE
    for line in process.stdout:
        if line.strip():
            event = {"timestamp": int(time.time() * 1000), "message": line.rstrip("\n")}
            logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=stream, logEvents=[event])
    process.wait()
