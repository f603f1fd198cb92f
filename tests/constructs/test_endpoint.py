from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App, Duration, Size, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk.assertions import Annotations, Match, Template
from declared import with_values
from synthesised import Resources, refusals, statements, the_container, the_variant

from tests.reported import reported
from triton_fleet import (
    AllAtOnce,
    Canary,
    CustomImage,
    EndpointNetwork,
    FleetError,
    ModelRepository,
    MultiModelEndpoint,
    Placement,
    Rolling,
    Routing,
    Serving,
    TritonMetrics,
    TritonServer,
)
from triton_fleet.parts.arguments.late import late_problems


def test_the_container_is_started_for_many_models(endpoint: MultiModelEndpoint, resources: Resources) -> None:
    assert the_container(resources)["Environment"] == {
        "ORT_DISABLE_TELEMETRY": "1",
        "SAGEMAKER_TRITON_PING_MODE": "live",
        "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
        "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
        "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": "1048576",
        "SAGEMAKER_TRITON_THREAD_COUNT": "64",
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config --model-load-thread-count=256 "
        "--cuda-memory-pool-byte-size=0:1073741824",
    }


@pytest.mark.parametrize(
    ("serving", "ami"),
    [
        (Serving(), "al2023-ami-sagemaker-inference-gpu-4-1"),
        (Serving(release="24.09"), "al2-ami-sagemaker-inference-gpu-3-1"),
        # A GPU that is newer than every AMI is left to SageMaker's own host.
        (Serving(instance_type="ml.g7.2xlarge", allow_unlisted_instance_type=True), None),
    ],
)
def test_the_host_has_the_driver_that_the_release_needs(
    stack: Stack, repository: ModelRepository, resources: Resources, serving: Serving, ami: str | None
) -> None:
    MultiModelEndpoint(stack, "Endpoint", repository=repository, serving=serving)

    assert the_variant(resources).get("InferenceAmiVersion") == ami


def test_a_release_that_the_table_lacks_is_served_from_an_own_image_with_a_warning(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    image = CustomImage.from_uri(stack, "Image", "123456789012.dkr.ecr.us-east-1.amazonaws.com/triton:v1")
    MultiModelEndpoint(
        stack, "Endpoint", repository=repository, serving=Serving(release="26.10", image=image)
    )

    assert the_variant(resources)["InferenceAmiVersion"] == "al2023-ami-sagemaker-inference-gpu-4-1"
    Annotations.from_stack(stack).has_warning("*", Match.string_like_regexp("26.10 is not in the table"))


def test_a_deployment_keeps_what_auto_scaling_has_made_of_the_fleet(
    endpoint: MultiModelEndpoint, resources: Resources
) -> None:
    assert resources("AWS::SageMaker::Endpoint")[0]["RetainAllVariantProperties"] is True


def test_a_name_is_made_from_the_path_and_is_the_same_every_time() -> None:
    def name() -> str:
        stack = Stack(App(), "A-very-long-name-of-a-stack-that-goes-on-and-on-for-quite-some-time")
        return MultiModelEndpoint(
            stack, "Endpoint", repository=ModelRepository(stack, "Repository")
        ).literal_name

    assert name() == name()
    assert 20 < len(name()) <= 63


def test_time_outs_are_ten_minutes_or_what_is_asked_for(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    MultiModelEndpoint(stack, "Endpoint", repository=repository, model_download_timeout=Duration.minutes(30))
    variant = the_variant(resources)

    assert variant["ContainerStartupHealthCheckTimeoutInSeconds"] == 600
    assert variant["ModelDataDownloadTimeoutInSeconds"] == 1800


def test_caching_can_be_turned_off(stack: Stack, repository: ModelRepository, resources: Resources) -> None:
    MultiModelEndpoint(stack, "Endpoint", repository=repository, keep_models_cached=False)

    assert the_container(resources)["MultiModelConfig"] == {"ModelCacheSetting": "Disabled"}


@pytest.mark.parametrize(
    ("retention", "days"), [(logs.RetentionDays.ONE_YEAR, 365), (logs.RetentionDays.INFINITE, 0)]
)
def test_logs_are_kept_for_as_long_as_asked(
    stack: Stack, repository: ModelRepository, resources: Resources, retention: logs.RetentionDays, days: int
) -> None:
    MultiModelEndpoint(stack, "E", repository=repository, log_retention=retention)

    assert resources("Custom::TritonEndpointStart")[0]["RetentionDays"] == days


def test_api_gateway_accepts_it_as_an_endpoint(endpoint: MultiModelEndpoint, stack: Stack) -> None:
    api = apigateway.RestApi(stack, "Api")
    api.root.add_method("POST", apigateway.SagemakerIntegration(endpoint))
    template = Template.from_stack(stack)

    template.has_resource_properties(
        "AWS::ApiGateway::Method",
        {"Integration": {"Uri": Match.object_like({"Fn::Join": Match.any_value()})}},
    )
    invoking = {"Action": "sagemaker:InvokeEndpoint", "Effect": "Allow", "Resource": Match.any_value()}
    template.has_resource_properties("AWS::IAM::Policy", {"PolicyDocument": {"Statement": [invoking]}})


def test_invoking_is_granted_for_all_models_or_for_some(endpoint: MultiModelEndpoint, stack: Stack) -> None:
    everyone = iam.Role(stack, "Everyone", assumed_by=iam.AccountRootPrincipal())
    search = iam.Role(stack, "Search", assumed_by=iam.AccountRootPrincipal())
    endpoint.grant_invoke(everyone)
    endpoint.grant_invoke(search, target_models=["minilm-*"])

    policies = Template.from_stack(stack).find_resources("AWS::IAM::Policy")
    statements = {
        name[:6]: each["Properties"]["PolicyDocument"]["Statement"][0] for name, each in policies.items()
    }
    assert "Condition" not in statements["Everyo"]
    assert statements["Search"]["Condition"] == {"StringLike": {"sagemaker:TargetModel": ["minilm-*"]}}


def test_every_mistake_is_reported_at_once_with_the_path(stack: Stack, repository: ModelRepository) -> None:
    with reported("server-argument", "release-not-on-sagemaker", "multi-model-one-gpu") as problems:
        MultiModelEndpoint(
            stack,
            "Endpoint",
            repository=repository,
            serving=Serving(instance_type="ml.g5.12xlarge", release="25.06"),
            server=TritonServer(extra_arguments=("--a b",)),
        )

    assert problems[2].where == "instance_type of Fleet/Endpoint"
    assert "ml.g5.2xlarge" in problems[2].fix


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"instance_type": "ml.g5.2xlrage"}, "unknown-instance-type"),
        ({"release": "25.9"}, "unknown-release"),
        ({"instance_pools": ["ml.g5.xlarge"]}, "multi-model-pools"),
        ({"release": "25.09", "inference_ami": "al2-ami-sagemaker-inference-gpu-3-1"}, "host-ami"),
        ({"environment": {"SAGEMAKER_TRITON_PING_MODE": "ready"}}, "container-environment"),
        ({"endpoint_name": "a_b"}, "resource-name"),
        ({"deployment": Canary(wait=Duration.millis(1500))}, "whole-time"),
    ],
)
def test_a_mistake_names_its_rule(
    stack: Stack, repository: ModelRepository, arguments: dict[str, Any], rule: str
) -> None:
    with reported(rule):
        MultiModelEndpoint(stack, "Endpoint", repository=repository, **with_values(arguments))


def test_an_existing_role_gets_the_permissions_before_the_model_is_created(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    role = iam.Role.from_role_arn(stack, "Own", "arn:aws:iam::123456789012:role/serving")
    endpoint = MultiModelEndpoint(stack, "Endpoint", repository=repository, placement=Placement(role=role))
    template = Template.from_stack(stack)
    (own,) = (
        name
        for name, each in template.find_resources("AWS::IAM::Policy").items()
        if each["Properties"]["Roles"] == ["serving"]
    )
    (model,) = template.find_resources("AWS::SageMaker::Model").values()

    assert endpoint.role is role
    assert own in model["DependsOn"]
    assert model["Properties"]["ExecutionRoleArn"] == "arn:aws:iam::123456789012:role/serving"
    assert not any("instances" in str(each.get("Description")) for each in resources("AWS::IAM::Role"))


def test_what_an_immutable_role_must_allow_is_a_warning(stack: Stack, repository: ModelRepository) -> None:
    arn = "arn:aws:iam::123456789012:role/serving"
    role = iam.Role.from_role_arn(stack, "Own", arn, mutable=False)
    endpoint = MultiModelEndpoint(
        stack, "Endpoint", repository=repository, placement=Placement(role=role), deployment=AllAtOnce()
    )
    endpoint.roll_back_on(["errors"])

    allow = Match.string_like_regexp("(?=.*s3:GetObject)(?=.*kms:Decrypt)(?=.*ecr:BatchGetImage)")
    assert len(Annotations.from_stack(stack).find_warning("/Fleet/Endpoint", allow)) == 1
    policies = Template.from_stack(stack).find_resources("AWS::IAM::Policy").values()
    assert not any(each["Properties"]["Roles"] == ["serving"] for each in policies)


def test_an_instance_type_that_aws_does_not_list_is_advised_against(
    stack: Stack, repository: ModelRepository
) -> None:
    MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=repository,
        serving=Serving(instance_type="ml.g6.2xlarge", allow_unlisted_instance_type=True),
    )

    Annotations.from_stack(stack).has_warning("/Fleet/Endpoint", Match.string_like_regexp("ml.g6.2xlarge"))


CPU = "ml.m5.xlarge"  # without local NVMe, so it has a volume


def _create(stack: Stack, **arguments: Any) -> MultiModelEndpoint:
    repository = stack.node.try_find_child("Repository") or ModelRepository(stack, "Repository")
    return MultiModelEndpoint(stack, "Endpoint", repository=repository, **with_values(arguments))  # type: ignore[arg-type]


def test_every_option_together_is_what_the_services_accept(stack: Stack) -> None:
    key = kms.Key(stack, "Key")
    _create(
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
        metric_interval=Duration.seconds(30),
    )

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


def test_metrics_every_ten_seconds(stack: Stack, resources: Resources) -> None:
    _create(stack, metric_interval=Duration.seconds(10))
    (config,) = resources("AWS::SageMaker::EndpointConfig")

    assert config["MetricsConfig"] == {
        "EnableDetailedObservability": False,
        "MetricPublishFrequencyInSeconds": 10,
    }


def test_an_interval_that_alarms_could_not_follow_is_reported(stack: Stack) -> None:
    with reported("metric-interval"):
        _create(stack, metric_interval=Duration.millis(500))
