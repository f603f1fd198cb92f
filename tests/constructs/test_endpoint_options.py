from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import Duration, Size, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match, Template
from declared import with_values
from synthesised import Resources, refusals, statements, the_container, the_variant

from tests.reported import reported
from triton_fleet import (
    CoreDumps,
    CustomImage,
    EndpointNetwork,
    FleetError,
    ModelRepository,
    MultiModelEndpoint,
    Rolling,
    Routing,
    S3Folder,
    TritonMetrics,
    TritonServer,
)
from triton_fleet.parts.arguments.late import late_problems

CPU = "ml.m5.xlarge"  # without local NVMe, so it has a volume


def _create(stack: Stack, **arguments: Any) -> MultiModelEndpoint:
    repository = stack.node.try_find_child("Repository") or ModelRepository(stack, "Repository")
    return MultiModelEndpoint(stack, "Endpoint", repository=repository, **with_values(arguments))  # type: ignore[arg-type]


def _everything(stack: Stack) -> MultiModelEndpoint:
    """An endpoint with every option that an instance type without NVMe can have."""
    key = kms.Key(stack, "Key")
    return _create(
        stack,
        instance_type=CPU,
        endpoint_name="everything",
        deployment=Rolling(),
        rollback_alarms=["fleet-errors"],
        network=EndpointNetwork(stack, "Network", vpc=ec2.Vpc(stack, "Vpc")),
        network_isolation=True,
        environment={"OMP_NUM_THREADS": "1"},
        routing=Routing.RANDOM,
        encryption_key=key,
        volume_size=Size.gibibytes(100),
        instance_pools=["ml.m5.2xlarge", "ml.c5.2xlarge"],
        allow_unlisted_instance_pools=True,
        server=TritonServer(metrics=TritonMetrics(), request_threads=16),
        core_dumps=CoreDumps(folder=S3Folder(bucket=s3.Bucket(stack, "Dumps")), encryption_key=key),
        metric_interval=Duration.seconds(30),
    )


def test_every_option_together_is_what_the_services_accept(stack: Stack) -> None:
    _everything(stack)

    assert refusals(stack) == []


def test_a_key_and_a_size_are_of_the_volume(stack: Stack, resources: Resources) -> None:
    key = kms.Key(stack, "Key")
    _create(stack, instance_type=CPU, encryption_key=key, volume_size=Size.gibibytes(200))

    assert resources("AWS::SageMaker::EndpointConfig")[0]["KmsKeyId"] == stack.resolve(key.key_arn)
    assert the_variant(resources)["VolumeSizeInGB"] == 200


def test_the_role_may_use_the_key_and_grant_it_to_services_only(stack: Stack) -> None:
    key = kms.Key(stack, "Key")
    _create(stack, instance_type=CPU, encryption_key=key)

    (granting,) = (each for each in statements(stack) if each["Action"] == "kms:CreateGrant")
    assert granting["Resource"] == stack.resolve(key.key_arn)
    assert granting["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}


def test_key_and_size_are_refused_where_there_is_no_volume(stack: Stack) -> None:
    with reported("local-storage-no-volume", "local-storage-no-volume"):
        _create(
            stack,
            instance_type="ml.g5.xlarge",
            encryption_key=kms.Key(stack, "Key"),
            volume_size=Size.gibibytes(100),
        )


@pytest.mark.parametrize("isolated", [False, True])
def test_the_network_is_of_the_model_and_the_role_may_attach_to_it(
    stack: Stack, resources: Resources, *, isolated: bool
) -> None:
    network = EndpointNetwork(stack, "Network", vpc=ec2.Vpc(stack, "Vpc"))
    _create(stack, network=network, network_isolation=isolated)
    (model,) = resources("AWS::SageMaker::Model")

    assert len(model["VpcConfig"]["Subnets"]) == len(network.subnets)
    assert model.get("EnableNetworkIsolation", False) is isolated
    assert any("ec2:CreateNetworkInterface" in each["Action"] for each in statements(stack))


def test_variables_are_added_to_those_of_the_server(stack: Stack, resources: Resources) -> None:
    _create(stack, environment={"OMP_NUM_THREADS": "1"})
    environment = the_container(resources)["Environment"]

    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["SAGEMAKER_TRITON_PING_MODE"] == "live"


def test_types_that_stand_in_are_tried_after_the_preferred_one(stack: Stack, resources: Resources) -> None:
    endpoint = _create(
        stack, instance_pools=["ml.g5.xlarge", "ml.g5.4xlarge"], allow_unlisted_instance_pools=True
    )
    variant = the_variant(resources)

    assert variant["InstancePools"] == [
        {"InstanceType": "ml.g5.2xlarge", "Priority": 1},
        {"InstanceType": "ml.g5.xlarge", "Priority": 2},
        {"InstanceType": "ml.g5.4xlarge", "Priority": 3},
    ]
    assert "InstanceType" not in variant
    assert endpoint.instance.name == "ml.g5.2xlarge"
    Annotations.from_stack(stack).has_warning("/Fleet/Endpoint", Match.string_like_regexp("instance pools"))


@pytest.mark.parametrize(
    ("pools", "rules"),
    [
        (["ml.m5.xlarge"], ["instance-pools"]),
        (
            [f"ml.g5.{size}xlarge" for size in ("", 4, 8, 16)] + ["ml.g5.12xlarge"],
            ["instance-pools", "multi-model-one-gpu"],
        ),
    ],
)
def test_types_that_could_not_run_the_models_are_refused(
    stack: Stack, pools: list[str], rules: list[str]
) -> None:
    with reported(*rules):
        _create(stack, instance_pools=pools, allow_unlisted_instance_pools=True)


def test_types_of_another_gpu_are_refused_where_it_is_not_known_what_is_published(stack: Stack) -> None:
    _create(stack, instance_pools=["ml.g4dn.xlarge"], allow_unlisted_instance_pools=True)

    assert [problem.rule for problem in late_problems(stack)] == ["instance-pools"]


def test_an_image_of_ones_own_is_pulled_and_nothing_else(stack: Stack, resources: Resources) -> None:
    own = ecr.Repository(stack, "Own")
    _create(stack, image=CustomImage(repository=own, tag="7", has_multi_model_label=True))

    (pull,) = (each for each in statements(stack) if "ecr:BatchGetImage" in each["Action"])
    assert pull["Resource"] == stack.resolve(own.repository_arn)
    assert not Template.from_stack(stack).find_mappings("*")


def test_an_image_of_ones_own_may_be_of_a_release_that_aws_does_not_publish(stack: Stack) -> None:
    own = CustomImage(repository=ecr.Repository(stack, "Own"), tag="7", has_multi_model_label=True)

    assert _create(stack, image=own, release="24.12").release.name == "24.12"


def test_triton_metrics_go_to_the_group_of_the_endpoint_and_the_role_may_publish_them(
    stack: Stack, resources: Resources
) -> None:
    _create(stack, server=TritonServer(metrics=TritonMetrics(namespace="Search")))
    environment = the_container(resources)["Environment"]
    (publishing,) = (each for each in statements(stack) if each["Action"] == "cloudwatch:PutMetricData")

    group = environment["SAGEMAKER_TRITON_CLOUDWATCH_LOG_GROUP"]
    assert group.startswith("/aws/sagemaker/Endpoints/")
    assert "Search" in publishing["Condition"]["StringEquals"]["cloudwatch:namespace"]


@pytest.mark.parametrize(
    "argument",
    ["data_capture", "variants", "shadow_variant", "async_inference", "serverless", "model_data_source"],
)
def test_what_multi_model_endpoints_cannot_do_is_refused_with_the_reason(stack: Stack, argument: str) -> None:
    with pytest.raises(FleetError, match=r"why: .*multi-model endpoint") as raised:
        _create(stack, release="25.06", **{argument: object()})

    assert [problem.rule for problem in raised.value.problems] == [
        "multi-model-excludes",
        "release-not-on-sagemaker",
    ]


def test_every_child_is_inside_the_endpoint(stack: Stack) -> None:
    _create(stack)

    assert {child.node.id for child in stack.node.children} <= {
        "Repository",
        "Endpoint",
        "TritonImage2509",  # shared by all endpoints of the stack
    }


def test_an_unknown_variant_is_a_mistake_that_names_the_known_ones(stack: Stack) -> None:
    endpoint = _create(stack)

    with pytest.raises(FleetError, match="did you mean AllTraffic"):
        endpoint.variant("AllTrafic")


@pytest.mark.parametrize(("release", "override"), [("24.05", "0"), ("25.09", None)])
def test_a_server_whose_models_cannot_switch_tf32_off_has_it_off_altogether(
    release: str, override: str | None, stack: Stack, resources: Resources
) -> None:
    _create(stack, instance_type="ml.g5.xlarge", release=release)
    (model,) = resources("AWS::SageMaker::Model")
    assert model["PrimaryContainer"]["Environment"].get("NVIDIA_TF32_OVERRIDE") == override
