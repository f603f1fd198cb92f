"""A process that starts publishers: real processes, each forked from one that has imported everything.

It reads one JSON document a line. {"publish": [PATH...], "repository": URL} starts a publisher and answers
with its process id; {"wait": PID} answers with its exit code, negative for a signal.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.retries.standard import ExponentialBackoff

from tests.triton_models.publishing_aws import ENVIRONMENT, client
from triton_models.artifact.pack.pack import Artifact
from triton_models.base.errors import FleetError
from triton_models.repository.publish import publish

PART_BYTES = 5120
ROOT = Path(__file__).resolve().parents[2]


class Nursery:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, artifacts: Sequence[Artifact], *, repository: str) -> int:
        paths = [str(artifact.path) for artifact in artifacts]
        return self._ask({"publish": paths, "repository": repository})

    def wait(self, pid: int) -> int:
        return self._ask({"wait": pid})

    def _ask(self, question: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def nursery(url: str) -> Iterator[Nursery]:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "model_builds"), str(ROOT / "constructs")])
    with subprocess.Popen(
        [sys.executable, "-m", "tests.triton_models.publisher_nursery", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": paths},
    ) as process:
        yield Nursery(process)
        assert process.stdin is not None
        process.stdin.close()


def _publish(paths: Sequence[str], repository: str, s3: Any) -> int:
    try:
        artifacts = [Artifact.read(Path(path)) for path in paths]
        publish(artifacts, repository=repository, s3=s3, part_bytes=PART_BYTES)
    except FleetError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _serve(url: str) -> None:
    ExponentialBackoff.delay_amount = lambda *_: 0  # type: ignore[method-assign]  # no waiting
    s3 = client(url, attempts=3)
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            answer = os.waitstatus_to_exitcode(os.waitpid(asked["wait"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                os._exit(_publish(asked["publish"], asked["repository"], s3))
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
