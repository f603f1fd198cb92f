"""Access to the embedded AWS: only for programs with a key of the run, never for web pages."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.callers import CODE, foreign, status
from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws

aws = aws_fixture(scope="module")


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("s3", "list_buckets"),  # REST and XML
        ("sts", "get_caller_identity"),  # a query and XML
        ("codebuild", "list_projects"),  # JSON
        # REST and JSON
    ],
)
def test_another_key_is_refused_in_the_protocol_of_each_service(
    aws: EmbeddedAws, service: str, operation: str
) -> None:
    with pytest.raises(ClientError) as caught:
        getattr(foreign(aws.url, service), operation)()

    assert caught.value.response["Error"]["Code"] == CODE
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert "AWS_ACCESS_KEY_ID" in caught.value.response["Error"]["Message"]


def test_a_request_without_a_key_is_refused(aws: EmbeddedAws) -> None:
    assert status(aws.url)[0] == 403
    assert status(f"{aws.url}/moto-api/reset", method="POST")[0] == 403


def test_a_presigned_url_of_the_run_needs_no_header(aws: EmbeddedAws) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="signed")
    s3.put_object(Bucket="signed", Key="a", Body=b"abc")

    url = s3.generate_presigned_url("get_object", Params={"Bucket": "signed", "Key": "a"})

    assert status(url)[0] == 200
    assert status(url.partition("?")[0])[0] == 403


def test_the_keys_of_an_assumed_role_are_let_in(aws: EmbeddedAws) -> None:
    made = aws.client("sts").assume_role(
        RoleArn="arn:aws:iam::123456789012:role/deploys", RoleSessionName="cdk"
    )["Credentials"]

    keys = {"aws_access_key_id": made["AccessKeyId"], "aws_secret_access_key": made["SecretAccessKey"]}

    assert foreign(aws.url, "sqs", **keys).list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize(
    "sent",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ],
    ids=lambda sent: " ".join(sent.values()),
)
def test_no_page_is_let_in_though_it_had_a_key(aws: EmbeddedAws, sent: dict[str, str]) -> None:
    url = aws.client("s3").generate_presigned_url("list_buckets")

    assert status(url)[0] == 200
    assert status(url, **sent)[0] == 403
