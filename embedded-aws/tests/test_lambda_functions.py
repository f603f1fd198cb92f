"""Functions in the embedded AWS: their code runs as in Lambda, and ends with the embedded AWS."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.deployed_functions import function_arn, running, until
from embedded_aws import EmbeddedAws

ROLE = "arn:aws:iam::123456789012:role/functions"


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    with EmbeddedAws() as opened:
        opened.client("s3").create_bucket(Bucket="notes")
        opened.client("iam").create_role(RoleName="functions", AssumeRolePolicyDocument="{}")
        yield opened


def archive(**sources: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as writing:
        for name, source in sources.items():
            writing.writestr(f"{name}.py", textwrap.dedent(source))
    return packed.getvalue()


def create(aws: EmbeddedAws, source: str, *, name: str, **more: Any) -> None:
    settings = {"Runtime": "python3.13", "Handler": "index.handler", "Timeout": 30, **more}
    code = {"ZipFile": archive(index=source)}
    aws.client("lambda").create_function(FunctionName=name, Role=ROLE, Code=code, **settings)


def invoke(aws: EmbeddedAws, name: str, event: Any = None, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = aws.client("lambda").invoke(
        FunctionName=name, Payload=json.dumps(event or {}), **more
    )
    body = answer["Payload"].read()
    return {**answer, "Payload": json.loads(body) if body else None}


def logged(aws: EmbeddedAws, group: str) -> list[str]:
    found = aws.client("logs").filter_log_events(logGroupName=group)["events"]
    return [event["message"] for event in found]


def test_a_function_knows_its_context_and_environment_and_nothing_of_the_caller(
    aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    create(
        aws,
        """
        import importlib.util, os

        def handler(event, context):
            found = [name for name in event if importlib.util.find_spec(name)]
            known = [context.function_name, context.invoked_function_arn, len(context.aws_request_id)]
            names = ["AWS_PROFILE", "GREETING", "AWS_REGION", "AWS_LAMBDA_FUNCTION_NAME"]
            variables = [os.environ.get(each) for each in names]
            return found, known, variables, os.getcwd(), context.get_remaining_time_in_millis()
        """,
        name="knowing",
        Environment={"Variables": {"GREETING": "hello"}},
    )

    answer = invoke(aws, "knowing", ["embedded_aws", "aws_for_tests", "boto3"])["Payload"]

    found, known, variables, here, left = answer
    assert (found, known) == (["boto3"], ["knowing", function_arn("knowing"), 36])
    assert variables == [None, "hello", "us-east-1", "knowing"]
    assert Path.cwd().as_posix() not in here
    assert 20_000 < left <= 30_000


def test_what_a_function_prints_and_logs_is_in_its_log_group(aws: EmbeddedAws) -> None:
    create(
        aws,
        """
        import logging

        def handler(event, context):
            print("printed")
            logging.getLogger().warning("warned")
        """,
        name="talks",
    )

    invoke(aws, "talks")

    start, printed, warned, end, report = logged(aws, "/aws/lambda/talks")
    assert start.startswith("START RequestId: ")
    assert start.endswith("Version: $LATEST")
    assert printed == "printed"
    assert warned.startswith("[WARNING]\t")
    assert warned.endswith("\twarned")
    assert end.startswith("END RequestId: ")
    assert "\tDuration: " in report


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("def handler(*_): raise ValueError('no such model')", "ValueError", "no such model"),
        ("import nowhere", "Runtime.ImportModuleError", "No module named 'nowhere'"),
        ("def other(*_): pass", "Runtime.HandlerNotFound", "Handler 'handler' missing on module 'index'"),
        ("def handler(*_): return object()", "Runtime.MarshalError", "not JSON serializable"),
        ("import os\ndef handler(*_): os._exit(3)", "Runtime.ExitError", "exit status 3"),
        ("import time\ndef handler(*_): time.sleep(60)", "Sandbox.Timedout", "timed out after 1.00 seconds"),
    ],
    ids=["raises", "import", "handler", "answer", "exit", "timeout"],
)
def test_a_function_that_fails_answers_with_lambdas_error(
    aws: EmbeddedAws, source: str, kind: str, message: str
) -> None:
    create(aws, source, name=kind.rpartition(".")[2], Timeout=1)

    answer = invoke(aws, kind.rpartition(".")[2])

    assert answer["FunctionError"] == "Unhandled"
    assert answer["StatusCode"] == 200
    assert answer["Payload"]["errorType"] == kind
    assert message in answer["Payload"]["errorMessage"]


@pytest.mark.story
def test_a_function_that_invokes_itself_without_end_is_stopped(aws: EmbeddedAws) -> None:
    create(
        aws,
        """
        import json, os, urllib.request

        def handler(event, context):
            url = f"{os.environ['AWS_ENDPOINT_URL']}/2015-03-31/functions/loop/invocations"
            # The request that the SDK sends, without the fifth of a second for its import.
            headers = {
                "Authorization": "AWS4-HMAC-SHA256 Credential="
                f"{os.environ['AWS_ACCESS_KEY_ID']}/20260101/us-east-1/lambda/aws4_request",
                "X-Amzn-Trace-Id": os.environ["_X_AMZN_TRACE_ID"],
                "Content-Type": "",
            }
            body = json.dumps({"turn": event["turn"] + 1}).encode()
            try:
                return json.load(urllib.request.urlopen(urllib.request.Request(url, body, headers)))
            except urllib.error.HTTPError as refusal:
                return {"turn": event["turn"], "refusal": refusal.read().decode()}
        """,
        name="loop",
    )

    answer = invoke(aws, "loop", {"turn": 1})["Payload"]

    assert answer["turn"] == 16
    assert "RecursiveInvocationException" in answer["refusal"]


def test_a_function_that_is_not_in_python_says_so_when_invoked(aws: EmbeddedAws) -> None:
    create(aws, "", name="javascript", Runtime="nodejs22.x")

    with pytest.raises(ClientError, match="runs functions in Python only; javascript is for nodejs22"):
        invoke(aws, "javascript")


# An embedded AWS in a process of its own, whose function writes its process id to a pipe and sleeps.
ENDLESS = """
import sys
from test_lambda_functions import create, invoke
from embedded_aws import EmbeddedAws

SOURCE = f'''
import os, time

def handler(event, context):
    with open({sys.argv[1]!r}, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)
'''
with EmbeddedAws() as aws:
    aws.client("iam").create_role(RoleName="functions", AssumeRolePolicyDocument="{}")
    create(aws, SOURCE, name="endless", Timeout=600)
    invoke(aws, "endless")
"""


@pytest.mark.story
def test_a_function_ends_when_the_process_of_its_aws_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, file], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    until(lambda: process.poll() is not None or (file.exists() and file.read_text() != ""))
    assert process.poll() is None
    pid = int(file.read_text())
    assert running(pid)

    process.kill()
    process.wait()

    until(lambda: not running(pid))
