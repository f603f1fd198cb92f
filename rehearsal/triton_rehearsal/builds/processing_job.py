"""Runs a SageMaker Processing job on this machine, with its input, environment, entry point and log."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from triton_rehearsal.builds.environment import container_environment
from triton_rehearsal.builds.shell import end_contained, start_contained
from triton_rehearsal.triton.machine import Machine

if TYPE_CHECKING:
    from embedded_aws import EmbeddedAws

_REQUIREMENTS = re.compile(r"models/[^/]+/requirements\.txt")
LOG_GROUP = "/aws/sagemaker/ProcessingJobs"

# https://docs.aws.amazon.com/sagemaker/latest/dg/byoc-metadata.html, read 2026-11-22.
_OUTPUT, _CONFIG = "/opt/ml/output", "/opt/ml/config"
_MESSAGE_LENGTH = 1024
_LOOK_S = 0.2


def run_job(aws: EmbeddedAws, request: Mapping[str, Any], stop: threading.Event | None = None) -> str | None:
    """Run the job of a CreateProcessingJob request; return SageMaker's reason for a failure.

    The image does not run: there is no container. If the command names the path of an input in the container,
    the path here replaces it. The output goes to a log stream of CloudWatch, as with SageMaker.
    """
    application = request["AppSpecification"]
    command = [*application["ContainerEntrypoint"], *application.get("ContainerArguments", ())]
    with tempfile.TemporaryDirectory(prefix="fleet-job-") as folder:
        output, config = Path(folder, "output"), Path(folder, "config")
        output.mkdir()
        config.mkdir()
        known = {"ProcessingJobName": request["ProcessingJobName"]}
        (config / "processingjobconfig.json").write_text(json.dumps(known))
        places = {_OUTPUT: output, _CONFIG: config, **dict(_inputs(aws, request, Path(folder)))}
        process = start_contained(
            [_here(part, places) for part in command],
            environment=_environment(aws, request, Path(folder)),
            directory=Path(folder),
        )
        if stop is not None:
            threading.Thread(target=_end, args=(process, stop), daemon=True).start()
        _log(aws, f"{request['ProcessingJobName']}/algo-1", process)
        left = output / "message"
        message = left.read_text(errors="replace")[:_MESSAGE_LENGTH] if left.is_file() else ""
        aws.set_exit_message(request["ProcessingJobName"], message)
    return f"AlgorithmError: , exit code: {process.returncode}" if process.returncode else None


def _end(process: subprocess.Popen[str], stop: threading.Event) -> None:
    while process.poll() is None:
        if stop.wait(_LOOK_S):
            end_contained(process)


def _inputs(aws: EmbeddedAws, request: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Path]]:
    """Fetch every input. Yields its path in a container and its path here."""
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
    """Return a job's variables. Its container has what each requirements.txt of a zipped source names."""
    found = []
    for archive in (folder / "inputs").rglob("*.zip"):
        with zipfile.ZipFile(archive) as packed:
            wanted = [each for each in packed.namelist() if _REQUIREMENTS.fullmatch(each)]
            found += [packed.read(each).decode() for each in wanted]
    machine = Machine.of(
        image=request["AppSpecification"]["ImageUri"],
        instance_type=request["ProcessingResources"]["ClusterConfig"]["InstanceType"],
    )
    return {
        **container_environment(aws, machine, folder=folder, requirements="\n".join(found)),
        **request.get("Environment", {}),
    }


def _log(aws: EmbeddedAws, stream: str, process: subprocess.Popen[str]) -> None:
    logs = aws.client("logs")
    with contextlib.suppress(logs.exceptions.ResourceAlreadyExistsException):  # from an earlier job
        logs.create_log_group(logGroupName=LOG_GROUP)
    logs.create_log_stream(logGroupName=LOG_GROUP, logStreamName=stream)
    assert process.stdout is not None  # noqa: S101  given by PIPE
    for line in process.stdout:
        if line.strip():
            event = {"timestamp": int(time.time() * 1000), "message": line.rstrip("\n")}
            logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=stream, logEvents=[event])
    process.wait()
