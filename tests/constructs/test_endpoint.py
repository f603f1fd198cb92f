from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App, Duration, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk.assertions import Annotations, Match, Template
from declared import with_values
from synthesised import Resources, the_container, the_variant

from tests.reported import reported
from triton_fleet import (
    AllAtOnce,
    Canary,
    CustomImage,
    ModelRepository,
    MultiModelEndpoint,
    Placement,
    Serving,
    TritonServer,
)


def test_the_container_is_started_for_many_models(endpoint: MultiModelEndpoint, resources: Resources) -> None:
    assert the_container(resources)["Environment"] == {
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


def test_two_endpoints_live_in_one_stack_and_share_the_accounts_of_the_image(
    endpoint: MultiModelEndpoint, repository: ModelRepository, stack: Stack
) -> None:
    MultiModelEndpoint(stack, "Second", repository=repository)

    assert len(Template.from_stack(stack).find_mappings("*")) == 1


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
        ({"instance_type": "ml.g6.2xlarge"}, "multi-model-type"),
        ({"instance_type": "ml.p3.2xlarge"}, "gpu-generation-supported"),
        ({"release": "25.9"}, "unknown-release"),
        ({"release": "26.10"}, "release-not-on-sagemaker"),
        ({"rollback_alarms": ["errors"]}, "rollback-alarms"),
        ({"instance_pools": ["ml.g5.xlarge"]}, "multi-model-pools"),
        ({"release": "25.09", "inference_ami": "al2-ami-sagemaker-inference-gpu-3-1"}, "host-ami"),
        ({"environment": {"SAGEMAKER_TRITON_PING_MODE": "ready"}}, "container-environment"),
        ({"endpoint_name": "a_b"}, "resource-name"),
        ({"container_start_timeout": Duration.millis(500_500)}, "whole-time"),
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
