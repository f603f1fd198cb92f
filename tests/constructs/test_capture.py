from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from synthesised import Resources, statements

from tests.reported import reported
from triton_fleet import DataCapture, ModelRepository, SingleModelEndpoint, Variant


def _captured(stack: Stack, resources: Resources, **options: Any) -> dict[str, Any]:
    SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        variants=[Variant(artifact="resnet50-0123456789ab.tar.gz")],
        artifact_timeout=None,
        data_capture=DataCapture(bucket=s3.Bucket(stack, "Captured"), **options),
    )
    (config,) = resources("AWS::SageMaker::EndpointConfig")
    return dict(config["DataCaptureConfig"])


def test_all_requests_and_answers_are_kept_below_the_prefix(stack: Stack, resources: Resources) -> None:
    config = _captured(stack, resources, csv_content_types=["text/csv"])

    assert config["EnableCapture"] is True
    assert config["InitialSamplingPercentage"] == 100
    assert config["DestinationS3Uri"]["Fn::Join"][1][-1] == "/captured/"
    assert config["CaptureOptions"] == [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}]
    assert config["CaptureContentTypeHeader"] == {
        "CsvContentTypes": ["text/csv"],
        "JsonContentTypes": ["application/json"],
    }
    assert "KmsKeyId" not in config


def test_a_part_of_the_answers_alone_can_be_kept_as_it_is(stack: Stack, resources: Resources) -> None:
    config = _captured(stack, resources, inputs=False, sampling_percent=5, json_content_types=())

    assert config["CaptureOptions"] == [{"CaptureMode": "Output"}]
    assert config["InitialSamplingPercentage"] == 5
    assert "CaptureContentTypeHeader" not in config


@pytest.mark.parametrize(("prefix", "folder"), [("kept", "/kept/"), ("", "/")])
def test_the_role_writes_below_the_prefix_and_deletes_nothing(
    prefix: str, folder: str, stack: Stack, resources: Resources
) -> None:
    config = _captured(stack, resources, prefix=prefix)
    (writing,) = (each for each in statements(stack) if "s3:PutObject" in each["Action"])

    assert config["DestinationS3Uri"]["Fn::Join"][1][-1] == folder
    assert writing["Resource"]["Fn::Join"][1][-1] == f"{folder}*"
    assert not any("Delete" in action for action in writing["Action"])


def test_a_key_encrypts_the_files_and_the_role_may_use_it(stack: Stack, resources: Resources) -> None:
    key = kms.Key(stack, "Key")
    config = _captured(stack, resources, encryption_key=key)

    assert config["KmsKeyId"] == stack.resolve(key.key_arn)
    assert any(
        each["Resource"] == stack.resolve(key.key_arn) and "kms:GenerateDataKey*" in each["Action"]
        for each in statements(stack)
    )


def test_capturing_nothing_is_a_mistake(stack: Stack, resources: Resources) -> None:
    with reported("data-capture"):
        _captured(stack, resources, inputs=False, outputs=False)
