"""Run moto's own tests against the embedded AWS and against plain moto: `python moto_tests.py`.

A test that only plain moto passes must be in `moto_tests.json`, with the reason. Takes about fifteen minutes,
and needs moto's source from PyPI, and freezegun and pytest-timeout in a folder of PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from embedded_aws.moto_gaps.patch import MOTO

LISTED = Path(__file__).with_suffix(".json")
"""The tests that only plain moto passes, by the reason."""

SERVICES = (
    *("applicationautoscaling", "awslambda", "budgets", "cloudformation", "cloudtrail", "cloudwatch"),
    *("codebuild", "ecr", "events", "iam", "kms", "logs", "s3", "sagemaker", "servicequotas", "sns", "sqs"),
    *("ssm", "stepfunctions", "sts"),
)
"""The services that the embedded AWS adds to or changes, in moto's words."""

_PLAIN = "import sys; from moto.server import main; main(['-p', sys.argv[1]])"
# The door stays open: moto's tests have keys of their own.
_EMBEDDED = """
import sys, time
from embedded_aws import EmbeddedAws
with EmbeddedAws(port=int(sys.argv[1])) as aws:
    aws.door.refusal = lambda *_: None
    time.sleep(86400)
"""
_SETTINGS = {
    "AWS_ACCESS_KEY_ID": "foobar_key",
    "AWS_SECRET_ACCESS_KEY": "foobar",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@contextmanager
def _server(program: str) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    with subprocess.Popen([sys.executable, "-c", program, str(port)], stderr=subprocess.DEVNULL) as server:
        time.sleep(8)
        try:
            yield port
        finally:
            server.terminate()


def _passed(folder: Path, program: str) -> set[str]:
    """Return the tests that pass against a server, as `service::test`.

    One runs at a time, because each resets the server. Those of a service's own resource types do not count:
    the embedded CloudFormation has other types.
    """
    passed = set()
    with _server(program) as port:
        url = f"http://localhost:{port}"
        settings = {"TEST_SERVER_MODE": "true", "TEST_SERVER_MODE_ENDPOINT": url, "MOTO_PORT": str(port)}
        for service in SERVICES:
            report = folder / f"{service}.xml"
            marks = ["-m", "not network and not requires_docker"]
            options = ["-q", "-p", "no:cacheprovider", "--timeout=60", f"--junitxml={report}", *marks]
            subprocess.run(
                [sys.executable, "-m", "pytest", *options, f"tests/test_{service}"],
                cwd=folder,
                env={**os.environ, **_SETTINGS, **settings},
                stdout=subprocess.DEVNULL,
                check=False,
            )
            cases = ElementTree.parse(report).iter("testcase")  # noqa: S314 (pytest wrote it)
            passed |= {
                f"{service}::{case.get('name')}"
                for case in cases
                if not case.get("classname", "").endswith("cloudformation") and not list(case)
            }
    return passed


def main() -> int:
    """Print the differences; return 1 if one is not listed, or no longer there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = ["-q", "--no-deps", "--no-build-isolation", "--no-binary", ":all:", "-d", name]
        download = [sys.executable, "-m", "pip", "download", *options, f"moto=={MOTO}"]
        subprocess.run(download, check=False)
        with tarfile.open(folder / f"moto-{MOTO}.tar.gz") as archive:
            archive.extractall(folder)  # noqa: S202
        (folder / f"moto-{MOTO}" / "tests").rename(folder / "tests")
        (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n aws_verified\n network\n requires_docker\n")
        plain, ours = _passed(folder, _PLAIN), _passed(folder, _EMBEDDED)
    reasons: Mapping[str, list[str]] = json.loads(LISTED.read_text(encoding="utf-8"))
    listed = {test for tests in reasons.values() for test in tests}
    say = sys.stdout.write
    say(f"plain moto passes {len(plain)}, the embedded AWS {len(ours)}\n")
    for title, tests in (("not listed", plain - ours - listed), ("listed, but passes", listed & ours)):
        for test in sorted(tests):
            say(f"{title}: {test}\n")
    return 1 if plain - ours != listed else 0


if __name__ == "__main__":
    sys.exit(main())
