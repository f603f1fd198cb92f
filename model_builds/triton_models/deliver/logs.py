"""Where what the making of a model prints is to be read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

LOG_GROUP_VARIABLE = "FLEET_LOG_GROUP"
"""Names the log group of a build; CodeBuild tells a build its stream and not its group."""

# What a Processing job is told about itself, and the group that all of them log to; its streams begin with
# the job's name. Known from examples, and not read on AWS's own page: where the file is not there, or says
# something else, a result names the log less exactly.
PROCESSING_CONFIG = Path("/opt/ml/config/processingjobconfig.json")
_PROCESSING_GROUP = "/aws/sagemaker/ProcessingJobs"


def service_log(
    environment: Mapping[str, str] = os.environ, *, processing: Path = PROCESSING_CONFIG
) -> str | None:
    """The log of CloudWatch Logs that this process writes to; None on a person's own machine.

    Where there is one, what models print belongs there: files are gone with the machine.
    https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-env-vars.html, read 2026-11-21:
    CODEBUILD_LOG_PATH is the name of the log stream.
    """
    job = _processing_job(processing)
    if job is not None:
        return f"CloudWatch Logs {_PROCESSING_GROUP}, streams {job}/"
    build = environment.get("CODEBUILD_BUILD_ID")
    if not build or "CODEBUILD_LOG_PATH" not in environment:
        return None
    group = environment.get(LOG_GROUP_VARIABLE)
    where = f"CloudWatch Logs {group}" if group else f"the log of the CodeBuild build {build}"
    return f"{where}, stream {environment['CODEBUILD_LOG_PATH']}"


def log_file(folder: Path, model: str) -> Path:
    """The log of a model on a person's own machine. Any text can be asked for as a model's name."""
    return folder / f"{quote(model, safe=':')}.log"


def _processing_job(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text())["ProcessingJobName"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
