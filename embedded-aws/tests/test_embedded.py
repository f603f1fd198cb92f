"""The embedded AWS as a server and a package: its address, its remains, its changes of moto, its page."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from embedded_aws import EmbeddedAws, MotoChangedError, PortError
from embedded_aws.moto_gaps import patch


def test_a_client_made_from_the_exported_variables_alone_reaches_it(
    aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in aws.exports().items():
        monkeypatch.setenv(name, value)

    s3 = boto3.Session().client("s3")
    s3.create_bucket(Bucket="exported")
    s3.put_object(Bucket="exported", Key="models/a.tar.gz", Body=b"abc")

    assert s3.get_object(Bucket="exported", Key="models/a.tar.gz")["Body"].read() == b"abc"


def test_nothing_of_the_callers_own_aws_reaches_a_child(
    aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of production")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER", "https://production.example")
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", "999999999999")

    environment = aws.environment(EXTRA="1")

    assert not {"AWS_PROFILE", "AWS_ENDPOINT_URL_SAGEMAKER", "CDK_DEFAULT_ACCOUNT"} & environment.keys()
    assert "of production" not in environment.values()
    assert environment["EXTRA"] == "1"
    assert environment["HOME"] == os.environ["HOME"]


def test_a_taken_port_or_a_number_that_is_none_is_one_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(PortError, match=f"port {port} cannot be used: Address already in use"):
            EmbeddedAws(port)
    with pytest.raises(PortError, match="port 70000"):
        EmbeddedAws(70000)


def test_two_at_once_in_a_process_are_refused(aws: EmbeddedAws) -> None:
    with pytest.raises(RuntimeError, match="another EmbeddedAws is open"):
        EmbeddedAws()


def test_the_next_one_knows_nothing_of_the_last() -> None:
    with EmbeddedAws() as aws:
        aws.client("s3").create_bucket(Bucket="first")
        aws.client("cloudformation").create_stack(
            StackName="first", TemplateBody=json.dumps({"Resources": {"T": {"Type": "AWS::SNS::Topic"}}})
        )

    with EmbeddedAws() as aws:
        assert aws.client("s3").list_buckets()["Buckets"] == []
        assert aws.client("cloudformation").describe_stacks()["Stacks"] == []
        assert aws.client("sns").list_topics()["Topics"] == []


def test_it_needs_no_profile_of_the_caller_and_requests_and_crashes_leave_the_terminal_alone() -> None:
    # In a separate process: moto is imported only once, and pytest would capture the tested logging.
    program = """
from embedded_aws import EmbeddedAws
with EmbeddedAws() as aws:
    aws.client("sagemaker").list_models()
    aws.client("logs").describe_log_groups()
    for _ in range(2):
        try:
            aws.client("sagemaker").create_hub(HubName="h", HubDescription="d")
        except Exception as error:
            print(type(error).__name__)
"""
    environment = {**os.environ, "AWS_PROFILE": "no-such-profile"}

    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )

    assert "POST" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr == "The embedded AWS does not support sagemaker:CreateHub.\n"


@pytest.mark.parametrize(
    ("service", "operation", "request_"),
    [
        ("cloudformation", "ListTypes", {}),  # a query and XML
        ("sagemaker", "ListInferenceComponents", {}),  # JSON
        ("lambda", "ListCodeSigningConfigs", {}),  # REST and JSON
        ("s3", "GetBucketAnalyticsConfiguration", {"Bucket": "bucket", "Id": "i"}),  # REST and XML
        ("frauddetector", "GetModels", {}),  # a service that moto lacks
    ],
)
def test_an_operation_that_is_not_supported_is_refused_at_once_by_name(
    aws: EmbeddedAws, service: str, operation: str, request_: dict[str, Any]
) -> None:
    client = aws.client(service)
    if service == "s3":
        client.create_bucket(Bucket="bucket")

    with pytest.raises(ClientError) as caught:
        client._make_api_call(operation, request_)

    answer = caught.value.response
    assert answer["Error"]["Code"] == "UnsupportedOperation"
    assert f":{operation}" in answer["Error"]["Message"]
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["ResponseMetadata"]["RetryAttempts"]) == (
        400,
        0,
    )


def test_a_crash_of_a_service_is_an_error_of_the_service_with_the_reason(
    aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    from moto.logs.models import LogsBackend

    monkeypatch.delattr(LogsBackend, "describe_log_groups")

    with pytest.raises(ClientError) as caught:
        aws.client("logs").describe_log_groups()

    answer = caught.value.response
    assert answer["Error"]["Code"] == "InternalFailure"
    assert "logs:DescribeLogGroups. AttributeError: " in answer["Error"]["Message"]
    assert answer["ResponseMetadata"]["RetryAttempts"] == 0


def test_an_invocation_finds_no_instance_here(aws: EmbeddedAws) -> None:
    def refused() -> dict[str, Any]:
        with pytest.raises(ClientError) as caught:
            aws.client("sagemaker-runtime").invoke_endpoint(EndpointName="mine", Body=b"\x80")
        return dict(caught.value.response["Error"])

    assert refused() == {
        "Code": "ValidationError",
        "Message": "Endpoint mine of account 123456789012 not found.",
    }

    aws.serve_elsewhere("sagemaker-runtime", "http://localhost:9")

    assert "AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME=http://localhost:9" in refused()["Message"]


def test_one_publisher_wins_and_none_replaces_what_has_changed(aws: EmbeddedAws) -> None:
    aws.client("s3").create_bucket(Bucket="race")

    def put(number: int) -> bool:
        try:
            aws.client("s3").put_object(
                Bucket="race", Key="manifest.json", Body=str(number).encode(), IfNoneMatch="*"
            )
        except aws.client("s3").exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 412:
                raise
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(put, range(24)))

    assert won.count(True) == 1
    with pytest.raises(ClientError, match="PreconditionFailed"):
        aws.client("s3").put_object(Bucket="race", Key="manifest.json", Body=b"", IfMatch='"another"')


def test_the_changes_are_for_the_installed_moto() -> None:
    assert version("moto") == patch.MOTO


def test_a_member_that_moto_no_longer_has_is_named_with_both_versions() -> None:
    class Backend: ...

    with pytest.raises(MotoChangedError, match=rf"Backend no longer has create,.*written for {patch.MOTO}$"):
        patch.replace(Backend, create=None)
    with pytest.raises(MotoChangedError, match=r"now has adds"):
        patch.adds(patch, "adds")


PAGE = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_example_passes_as_a_test_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "test_example.py").write_text(example)

    status = pytest.main(
        ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(tmp_path), str(tmp_path)]
    )

    assert status == 0
    assert "1 passed" in capsys.readouterr().out
