"""The location of a model's build log."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

LOG_GROUP_VARIABLE = "FLEET_LOG_GROUP"
"""The variable with the log group of a build; CodeBuild itself sets only the stream."""

# The file that describes a Processing job, and the log group of all jobs. Stream names begin with the job's
# name. Known from examples, not from AWS. Without the file, a result names the log less exactly.
PROCESSING_CONFIG = Path("/opt/ml/config/processingjobconfig.json")
_PROCESSING_GROUP = "/aws/sagemaker/ProcessingJobs"


def service_log(
    environment: Mapping[str, str] = os.environ, *, processing: Path = PROCESSING_CONFIG
) -> str | None:
    """Return the CloudWatch Logs stream of this process; None on a developer's machine.

    Models print to this stream if there is one, because files are lost with the machine.
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
    """Return the log file of a model on a developer's machine; the name may be any string."""
    return folder / f"{quote(model, safe=':')}.log"


def _processing_job(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text())["ProcessingJobName"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
