from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aws_cdk import App, Duration, Size, Stack, Tags
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from declared import with_values

from triton_fleet import (
    AllAtOnce,
    AsyncInference,
    DataCapture,
    EndpointNetwork,
    EndpointScaling,
    ModelRepository,
    MultiModelEndpoint,
    S3Folder,
    SingleModelEndpoint,
    Variant,
)
from triton_fleet.endpoint.hosting import deployment, variants
from triton_fleet.parts.arguments import service_model
from triton_fleet.parts.arguments.late import late_problems

VARIANT = "ProductionVariants[0]"
POLICY = "DeploymentConfig.BlueGreenUpdatePolicy"
CAPTURE = "DataCaptureConfig"
QUEUE = "AsyncInferenceConfig.ClientConfig"


@pytest.mark.parametrize(
    ("given", "right", "wrong", "where"),
    [
        (
            lambda n: {"initial_instance_count": n},
            1,
            0,
            f"{VARIANT}.InitialInstanceCount of Fleet/Endpoint/Config",
        ),
        (
            lambda n: {"container_start_timeout": Duration.seconds(n)},
            60,
            59,
            f"{VARIANT}.ContainerStartupHealthCheckTimeoutInSeconds of Fleet/Endpoint/Config",
        ),
        (
            lambda n: {"instance_type": "ml.m5.xlarge", "volume_size": Size.gibibytes(n)},
            512,
            513,
            f"{VARIANT}.VolumeSizeInGB of Fleet/Endpoint/Config",
        ),
        (
            lambda n: {"deployment": AllAtOnce(), "rollback_alarms": [f"alarm-{each}" for each in range(n)]},
            10,
            11,
            "DeploymentConfig.AutoRollbackConfiguration.Alarms of Fleet/Endpoint/Resource",
        ),
        (
            lambda n: {"deployment": AllAtOnce(wait=Duration.seconds(n))},
            3600,
            3601,
            f"{POLICY}.TrafficRoutingConfiguration.WaitIntervalInSeconds of Fleet/Endpoint/Resource",
        ),
    ],
)
def test_what_a_service_limits_is_within_its_limits(
    given: Callable[[int], dict[str, Any]], right: int, wrong: int, where: str
) -> None:
    rule = "service-model" if where.startswith("DeploymentConfig.AutoRollback") else "number-range"

    assert _found(**given(right)) == []
    assert _found(**given(wrong)) == [(rule, where)]


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"A": 1024 * "x"}, None),
        ({"A": 1025 * "x"}, "Environment[A]"),
        ({"5_BEAMS": "4"}, "a name in PrimaryContainer.Environment"),
        ({f"O{number}": "1" for number in range(100)}, "PrimaryContainer.Environment"),
    ],
)
def test_variables_are_within_sagemakers_limits(given: Mapping[str, str], where: str | None) -> None:
    found = _found(environment=given)

    assert [rule for rule, _ in found] == ["service-model"] * (where is not None)
    assert all(where is not None and where in place for _, place in found)


def test_capture_and_queue_are_within_sagemakers_limits() -> None:
    stack = Stack(App(), "Fleet")
    bucket = s3.Bucket(stack, "Bucket")

    def single(name: str, **given: Any) -> None:
        SingleModelEndpoint(
            stack,
            name,
            repository=ModelRepository(stack, f"{name}Repository"),
            variants=[Variant(artifact="resnet50-0123456789ab.tar.gz", weight=-1)],
            artifact_timeout=None,
            **given,
        )

    capture = DataCapture(bucket=bucket, sampling_percent=101, csv_content_types=["application/ld+json"])
    single("Captured", data_capture=capture)
    folders = {"requests": S3Folder(bucket=bucket), "output": S3Folder(bucket=bucket)}
    single("Queued", async_inference=AsyncInference(**folders, max_concurrent_invocations=1001))

    assert sorted((problem.rule, problem.where) for problem in late_problems(stack)) == sorted(
        [
            ("number-range", f"{VARIANT}.InitialVariantWeight of Fleet/Captured/Config"),
            ("number-range", f"{CAPTURE}.InitialSamplingPercentage of Fleet/Captured/Config"),
            (
                "service-model",
                f"{CAPTURE}.CaptureContentTypeHeader.CsvContentTypes[0] of Fleet/Captured/Config",
            ),
            ("number-range", f"{VARIANT}.InitialVariantWeight of Fleet/Queued/Config"),
            ("number-range", f"{QUEUE}.MaxConcurrentInvocationsPerInstance of Fleet/Queued/Config"),
        ]
    )


def test_more_security_groups_than_an_interface_has_are_refused() -> None:
    stack = Stack(App(), "Fleet")
    vpc = ec2.Vpc(stack, "Vpc", nat_gateways=1)
    groups = [ec2.SecurityGroup(stack, f"Group{number}", vpc=vpc) for number in range(6)]
    network = EndpointNetwork(stack, "Network", vpc=vpc, security_groups=groups)

    assert _found(stack, network=network) == [
        ("service-model", "VpcConfig.SecurityGroupIds of Fleet/Endpoint/Model")
    ]


@pytest.mark.parametrize(
    ("shape", "limits"),
    [
        ("EndpointName", (0, variants.LONGEST_RESOURCE_NAME)),
        ("VariantName", (0, variants.LONGEST_RESOURCE_NAME)),
        ("MaximumExecutionTimeoutInSeconds", (deployment.SHORTEST_MAXIMUM, deployment.LONGEST_MAXIMUM)),
    ],
)
def test_a_limit_is_sagemakers_own(shape: str, limits: tuple[int, int]) -> None:
    found = service_model._shapes("sagemaker")[shape]

    assert (found.get("min", 0), found["max"]) == limits


def test_tags_of_the_app_are_accepted() -> None:
    app = App()
    stack = Stack(app, "Fleet")
    endpoint = MultiModelEndpoint(stack, "Endpoint", repository=ModelRepository(stack, "Repository"))
    EndpointScaling(stack, "Scaling", endpoint=endpoint)
    Tags.of(app).add("cost-center", "ml")

    app.synth()


def test_the_synthesis_names_value_and_range() -> None:
    app = App()
    stack = Stack(app, "Fleet")
    repository = ModelRepository(stack, "Repository")
    MultiModelEndpoint(stack, "Endpoint", repository=repository, initial_instance_count=0)
    text = r"InitialInstanceCount is 0 \[number-range\](.|\n)*give 1 or more"

    with pytest.raises(RuntimeError, match=text):
        app.synth()


def _found(stack: Stack | None = None, **given: Any) -> list[tuple[str, str]]:
    """The problems at synthesis with a multi-model endpoint of these arguments."""
    stack = stack or Stack(App(), "Fleet")
    MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=ModelRepository(stack, "Repository"),
        endpoint_name="fleet",
        **with_values(given),
    )
    return [(problem.rule, problem.where) for problem in late_problems(stack)]
