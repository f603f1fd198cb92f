"""Every resource type of the embedded CloudFormation: created, read back, changed in place, deleted."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jmespath
import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from aws_for_tests.deployed_functions import ACCOUNT, TRUST, functions, status
from aws_for_tests.executions import ROLE
from aws_for_tests.scaled_variant import INVOCATIONS, TARGET, serving
from embedded_aws import EmbeddedAws
from embedded_aws.cloudformation.catalogue import TYPES

Read = Callable[[EmbeddedAws, str], Any]

NETWORK = {name for name in TYPES if name.startswith("AWS::EC2::")}

SERVING = serving(image="i")
MODEL, CONFIG = SERVING["Model"], SERVING["Config"]
BOUNDS = {**TARGET, "MinCapacity": 1, "MaxCapacity": 4}
SCALABLE = {
    "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
    "DependsOn": "Endpoint",
    "Properties": BOUNDS,
}
QUEUE, TOPIC = f"arn:aws:sqs:us-east-1:{ACCOUNT}:one", f"arn:aws:sns:us-east-1:{ACCOUNT}:one"
SCALED = {"ServiceNamespace": "sagemaker"}
FUNCTION = functions(one="def handler(*_): return 1")["One"]["Properties"]
METRIC = {"Namespace": "AWS/SageMaker", "MetricName": "Invocation5XXErrors"}
ALARM = {
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": "3",
    "Metrics": [
        {"Id": "e", "ReturnData": False, "MetricStat": {"Metric": METRIC, "Period": 60, "Stat": "Sum"}},
        {"Id": "rate", "Expression": "e * 100", "Label": "rate"},
    ],
}
ROLLING = {"MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": "1"}, "WaitIntervalInSeconds": 60}


def policy(resource: Any, action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": action, "Resource": resource}
    return {"Version": "2012-10-17", "Statement": [statement]}


def permissions(action: str) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]}


class Case(NamedTuple):
    """A resource named `It`, whose properties contain a value that changes without a replacement.

    `read` gets the physical id, and returns what the service shows of the value, which is `shown`.
    """

    type_name: str
    properties: Callable[[Any], dict[str, Any]]
    read: Read
    values: tuple[Any, Any] = ("first", "second")
    shown: Callable[[Any], Any] = lambda it: it
    around: Mapping[str, Any] = {}
    depends: str = ""


def role_named(name: str) -> dict[str, Any]:
    properties = {"RoleName": name, "AssumeRolePolicyDocument": TRUST}
    return {"Type": "AWS::IAM::Role", "Properties": properties}


def seen(*reads: str, **arguments: Any) -> Read:
    """Read a part of each operation's answer: `service.operation expression`.

    An operation gets those of the arguments that it has, with the physical id for `$`. JSON is parsed.
    """

    def read(aws: EmbeddedAws, physical_id: str) -> Any:
        given = json.loads(json.dumps(arguments).replace("$", physical_id))
        found = tuple(part(aws, each, given) for each in reads)
        return found if len(found) > 1 else found[0]

    def part(aws: EmbeddedAws, read: str, given: dict[str, Any]) -> Any:
        operation, _, expression = read.partition(" ")
        service, method = operation.split(".")
        client = aws.client(service)
        shape = client.meta.service_model.operation_model(
            client.meta.method_to_api_mapping[method]
        ).input_shape
        asked = {name: value for name, value in given.items() if name in shape.members}
        found = jmespath.search(expression, getattr(client, method)(**asked))
        return json.loads(found) if isinstance(found, str) and found.startswith("{") else found

    return read


def inline_policy(aws: EmbeddedAws, physical_id: str) -> Any:
    iam = aws.client("iam")
    return {
        name: [
            iam.get_role_policy(RoleName=name, PolicyName=found)["PolicyDocument"]["Statement"][0]["Action"]
            for found in iam.list_role_policies(RoleName=name)["PolicyNames"]
        ]
        for name in ("one", "two")
    }


def managed_policy(aws: EmbeddedAws, physical_id: str) -> Any:
    iam = aws.client("iam")
    version = iam.get_policy(PolicyArn=physical_id)["Policy"]["DefaultVersionId"]
    document = iam.get_policy_version(PolicyArn=physical_id, VersionId=version)["PolicyVersion"]["Document"]
    attached = iam.list_attached_role_policies(RoleName="one")["AttachedPolicies"]
    return document["Statement"][0]["Action"], [found["PolicyArn"] == physical_id for found in attached]


def function(aws: EmbeddedAws, physical_id: str) -> Any:
    """Return a function's tag, environment and timeout, and its answer."""
    client = aws.client("lambda")
    found = client.get_function(FunctionName=physical_id)
    answer = json.loads(client.invoke(FunctionName=physical_id)["Payload"].read())
    configuration = found["Configuration"]
    return found["Tags"]["stage"], configuration.get("Environment", {}), configuration["Timeout"], answer


def queue_policy(aws: EmbeddedAws, physical_id: str) -> Any:
    url = aws.client("sqs").get_queue_url(QueueName="one")["QueueUrl"]
    return seen("sqs.get_queue_attributes Attributes.Policy", QueueUrl=url, AttributeNames=["Policy"])(
        aws, ""
    )


def bucket_properties(algorithm: str, versioning: str, blocked: bool, days: int) -> dict[str, Any]:
    default = {"ServerSideEncryptionByDefault": {"SSEAlgorithm": algorithm}}
    old = {"Id": "old", "Status": "Enabled", "NoncurrentVersionExpiration": {"NoncurrentDays": days}}
    return {
        "BucketEncryption": {"ServerSideEncryptionConfiguration": [default]},
        "VersioningConfiguration": {"Status": versioning},
        "PublicAccessBlockConfiguration": {"BlockPublicPolicy": blocked},
        "LifecycleConfiguration": {"Rules": [old]},
    }


def machine_properties(capacity: int) -> dict[str, Any]:
    return {
        "BaseCapacity": capacity,
        "EnvironmentType": "LINUX_GPU_CONTAINER",
        "ComputeType": "CUSTOM_INSTANCE_TYPE",
        "ComputeConfiguration": {"instanceType": "g6.xlarge", "disk": 64},
    }


def project_properties(gpu: str, **more: Any) -> dict[str, Any]:
    return {
        "ServiceRole": ROLE,
        "Artifacts": {"Type": "NO_ARTIFACTS"},
        "Source": {"Type": "S3", "Location": "bucket/source.zip", "BuildSpec": "version: 0.2"},
        "Environment": {
            "Type": "LINUX_GPU_CONTAINER",
            "Image": "image",
            "ComputeType": "BUILD_GENERAL1_SMALL",
            "ImagePullCredentialsType": "SERVICE_ROLE",
            "EnvironmentVariables": [{"Name": "GPU", "Type": "PLAINTEXT", "Value": gpu}],
        },
        "LogsConfig": {"CloudWatchLogs": {"Status": "ENABLED", "GroupName": "g"}},
        **more,
    }


def says(words: str) -> dict[str, Any]:
    return {"StartAt": "It", "States": {"It": {"Type": "Pass", "Result": words, "End": True}}}


def named_config(name: str) -> dict[str, Any]:
    return {
        "Type": "AWS::SageMaker::EndpointConfig",
        "Properties": {**CONFIG["Properties"], "EndpointConfigName": name},
    }


def key(description: str) -> dict[str, Any]:
    return {"Type": "AWS::KMS::Key", "Properties": {"Description": description}}


CASES = [
    Case(
        "AWS::ApplicationAutoScaling::ScalableTarget",
        lambda it: {**BOUNDS, "MaxCapacity": it},
        seen("application-autoscaling.describe_scalable_targets ScalableTargets[0].MaxCapacity", **SCALED),
        (4, "8"),
        int,
        SERVING,
        "Endpoint",
    ),
    Case(
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        lambda it: {
            "PolicyName": "invocations",
            "PolicyType": "TargetTrackingScaling",
            "ScalingTargetId": {"Ref": "Target"},
            "TargetTrackingScalingPolicyConfiguration": {
                "TargetValue": it,
                "PredefinedMetricSpecification": INVOCATIONS,
            },
        },
        seen(
            "application-autoscaling.describe_scaling_policies "
            "ScalingPolicies[0].TargetTrackingScalingPolicyConfiguration.TargetValue",
            **SCALED,
        ),
        (600, 900),
        around={**SERVING, "Target": SCALABLE},
    ),
    Case(
        "AWS::Budgets::Budget",
        lambda it: {
            "Budget": {
                "BudgetType": "COST",
                "TimeUnit": "MONTHLY",
                "BudgetLimit": {"Amount": it, "Unit": "USD"},
            }
        },
        seen("budgets.describe_budget Budget.BudgetLimit.Amount", AccountId=ACCOUNT, BudgetName="$"),
        (1, 2),
        str,
    ),
    Case("AWS::CDK::Metadata", lambda it: {"Analytics": it}, lambda aws, name: None, shown=lambda it: None),
    Case(
        "AWS::CloudWatch::Alarm",
        lambda it: {**ALARM, "Threshold": it},
        seen(
            "cloudwatch.describe_alarms MetricAlarms[0].[Threshold, Metrics[1].Expression]", AlarmNames=["$"]
        ),
        (5, "9.5"),
        lambda it: [float(it), "e * 100"],
    ),
    Case(
        "AWS::CloudWatch::CompositeAlarm",
        lambda it: {"AlarmRule": {"Fn::Sub": 'ALARM("${One}")'}, "AlarmDescription": it},
        seen("cloudwatch.describe_alarms CompositeAlarms[0].AlarmDescription", AlarmTypes=["CompositeAlarm"]),
        around={"One": {"Type": "AWS::CloudWatch::Alarm", "Properties": {**ALARM, "Threshold": 1}}},
    ),
    Case(
        "AWS::CloudWatch::Dashboard",
        lambda it: {"DashboardBody": it},
        seen("cloudwatch.get_dashboard DashboardBody", DashboardName="$"),
        ('{"widgets": []}', '{"widgets": [], "start": "-PT1H"}'),
        json.loads,
    ),
    Case(
        "AWS::CodeBuild::Fleet",
        machine_properties,
        seen("codebuild.batch_get_fleets fleets[0].[baseCapacity, status.statusCode]", names=["$"]),
        (1, 2),
        lambda it: [it, "ACTIVE"],
    ),
    Case(
        "AWS::CodeBuild::Project",
        lambda it: project_properties(it[0], TimeoutInMinutes=it[1]),
        seen(
            "codebuild.batch_get_projects "
            "projects[0].[environment.environmentVariables[0].value, timeoutInMinutes]",
            names=["$"],
        ),
        (("A10G", "120"), ("L4", 90)),
        lambda it: [it[0], int(it[1])],
    ),
    Case(
        "AWS::ECR::Repository",
        lambda it: {"RepositoryName": "images", "ImageTagMutability": it},
        seen("ecr.describe_repositories repositories[0].imageTagMutability"),
        ("MUTABLE", "IMMUTABLE"),
    ),
    Case(
        "AWS::Events::Rule",
        lambda it: {"EventPattern": {"source": [it]}, "Targets": [{"Id": it, "Arn": QUEUE}]},
        seen(
            *("events.describe_rule EventPattern", "events.list_targets_by_rule Targets[].Id"),
            Name="$",
            Rule="$",
        ),
        ("aws.sagemaker", "aws.s3"),
        lambda it: ({"source": [it]}, [it]),
    ),
    Case(
        "AWS::IAM::ManagedPolicy",
        lambda it: {"PolicyDocument": permissions(it), "Roles": [{"Ref": "One"}]},
        managed_policy,
        ("s3:GetObject", "s3:PutObject"),
        lambda it: (it, [True]),
        {"One": role_named("one")},
    ),
    Case(
        "AWS::IAM::OIDCProvider",
        lambda it: {"Url": "https://tokens.example.org", "ClientIdList": [it]},
        seen("iam.get_open_id_connect_provider ClientIDList[0]", OpenIDConnectProviderArn="$"),
    ),
    Case(
        "AWS::IAM::Policy",
        lambda it: {"PolicyName": "p", "PolicyDocument": permissions(it[1]), "Roles": [{"Ref": it[0]}]},
        inline_policy,
        (("One", "s3:GetObject"), ("Two", "s3:PutObject")),
        lambda it: {"one": [], "two": []} | {it[0].lower(): [it[1]]},
        {"One": role_named("one"), "Two": role_named("two")},
    ),
    Case(
        "AWS::IAM::Role",
        lambda it: {
            "AssumeRolePolicyDocument": TRUST,
            "ManagedPolicyArns": [f"arn:aws:iam::aws:policy/{it}"],
            "Policies": [{"PolicyName": it, "PolicyDocument": permissions("s3:GetObject")}],
            "Description": it,
        },
        seen(
            "iam.list_attached_role_policies AttachedPolicies[].PolicyName",
            *("iam.list_role_policies PolicyNames", "iam.get_role Role.Description"),
            RoleName="$",
        ),
        ("ReadOnlyAccess", "AdministratorAccess"),
        lambda it: ([it], [it], it),
    ),
    Case(
        "AWS::KMS::Alias",
        lambda it: {"AliasName": "alias/it", "TargetKeyId": {"Ref": it}},
        seen("kms.describe_key KeyMetadata.Description", KeyId="$"),
        ("One", "Two"),
        str.lower,
        {"One": key("one"), "Two": key("two")},
    ),
    Case(
        "AWS::KMS::Key",
        lambda it: {"Description": it[0], "KeyPolicy": policy("*", "kms:*"), "EnableKeyRotation": it[1]},
        seen(
            *("kms.describe_key KeyMetadata.Description", "kms.get_key_rotation_status KeyRotationEnabled"),
            KeyId="$",
        ),
        (("first", True), ("second", "false")),
        lambda it: (it[0], it[1] is True),
    ),
    Case(
        "AWS::Lambda::EventInvokeConfig",
        lambda it: {"FunctionName": {"Ref": "One"}, "Qualifier": "$LATEST", "MaximumRetryAttempts": it},
        seen("lambda.get_function_event_invoke_config MaximumRetryAttempts", FunctionName="$"),
        (0, "2"),
        int,
        {"One": {"Type": "AWS::Lambda::Function", "Properties": FUNCTION}, "Role": role_named("one")},
    ),
    Case(
        "AWS::Lambda::EventSourceMapping",
        lambda it: {"FunctionName": {"Ref": "One"}, "EventSourceArn": QUEUE, "BatchSize": it},
        seen("lambda.get_event_source_mapping BatchSize", UUID="$"),
        (5, "8"),
        int,
        {
            "One": {"Type": "AWS::Lambda::Function", "Properties": FUNCTION, "DependsOn": "Queue"},
            "Role": role_named("one"),
            "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "one"}},
        },
    ),
    Case(
        "AWS::Lambda::Function",
        lambda it: {
            **{name: value for name, value in FUNCTION.items() if name != "FunctionName"},
            "Environment": it[1],
            "Timeout": it[2],
            "Code": {"ZipFile": f"def handler(*_): return {it[3]}"},
        },
        function,
        (("first", {"Variables": {"A": "1"}}, "60", 1), ("second", {}, 9, 2)),
        lambda it: (*it[:2], int(it[2]), it[3]),
        {"Role": role_named("one")},
    ),
    Case(
        "AWS::Logs::LogGroup",
        lambda it: {"LogGroupName": "/aws/it", "RetentionInDays": it},
        seen("logs.describe_log_groups logGroups[0].retentionInDays"),
        (30, 90),
    ),
    Case(
        "AWS::Logs::MetricFilter",
        lambda it: {
            "LogGroupName": "/aws/filtered",
            "FilterPattern": it,
            "MetricTransformations": [{"MetricNamespace": "App", "MetricName": "Loads", "MetricValue": "1"}],
        },
        seen("logs.describe_metric_filters metricFilters[0].filterPattern"),
        around={"Group": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/aws/filtered"}}},
        depends="Group",
    ),
    Case(
        "AWS::Logs::ResourcePolicy",
        lambda it: {"PolicyName": "events", "PolicyDocument": it},
        seen("logs.describe_resource_policies resourcePolicies[0].policyDocument"),
        ('{"Statement": []}', '{"Statement": [{"Sid": "Events"}]}'),
        json.loads,
    ),
    Case(
        "AWS::S3::Bucket",
        lambda it: bucket_properties(*it),
        seen(
            "s3.get_bucket_encryption ServerSideEncryptionConfiguration.Rules[0].*.SSEAlgorithm | [0]",
            "s3.get_bucket_versioning Status",
            "s3.get_public_access_block PublicAccessBlockConfiguration.BlockPublicPolicy",
            "s3.get_bucket_lifecycle_configuration Rules[0].NoncurrentVersionExpiration.NoncurrentDays",
            Bucket="$",
        ),
        (("aws:kms", "Enabled", True, 30), ("AES256", "Suspended", False, 7)),
    ),
    Case(
        "AWS::S3::BucketPolicy",
        lambda it: {"Bucket": {"Ref": "One"}, "PolicyDocument": policy({"Fn::GetAtt": ["One", "Arn"]}, it)},
        seen("s3.get_bucket_policy Policy", Bucket="$"),
        ("s3:ListBucket", "s3:GetBucketPolicy"),
        lambda it: policy("arn:aws:s3:::one-bucket", it),
        {"One": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "one-bucket"}}},
    ),
    Case(
        "AWS::SNS::Subscription",
        lambda it: {
            "TopicArn": {"Ref": "One"},
            "Protocol": "email",
            "Endpoint": "a@example.com",
            **({"FilterPolicy": it} if it else {}),
        },
        seen("sns.get_subscription_attributes Attributes.FilterPolicy", SubscriptionArn="$"),
        (None, {"stage": ["production"]}),
        around={"One": {"Type": "AWS::SNS::Topic"}},
    ),
    Case(
        "AWS::SNS::Topic",
        lambda it: {"DisplayName": it},
        seen("sns.get_topic_attributes Attributes.DisplayName", TopicArn="$"),
    ),
    Case(
        "AWS::SNS::TopicPolicy",
        lambda it: {"Topics": [{"Ref": "One"}], "PolicyDocument": policy({"Ref": "One"}, it)},
        seen("sns.get_topic_attributes Attributes.Policy", TopicArn=TOPIC),
        ("sns:Publish", "sns:Subscribe"),
        lambda it: policy(TOPIC, it),
        {"One": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "one"}}},
    ),
    Case(
        "AWS::SQS::Queue",
        lambda it: {"VisibilityTimeout": it},
        seen("sqs.get_queue_attributes Attributes.VisibilityTimeout", QueueUrl="$", AttributeNames=["All"]),
        (60, 90),
        str,
    ),
    Case(
        "AWS::SQS::QueuePolicy",
        lambda it: {"Queues": [{"Ref": "One"}], "PolicyDocument": policy({"Fn::GetAtt": ["One", "Arn"]}, it)},
        queue_policy,
        ("sqs:SendMessage", "sqs:ReceiveMessage"),
        lambda it: policy(QUEUE, it),
        {"One": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "one"}}},
    ),
    Case(
        "AWS::SSM::Parameter",
        lambda it: {"Name": "/it", "Type": "String", "Value": it},
        seen(
            *("ssm.get_parameter Parameter.Value", "ssm.list_tags_for_resource TagList[0].Value"),
            Name="$",
            ResourceType="Parameter",
            ResourceId="$",
        ),
        shown=lambda it: (it, it),
    ),
    Case(
        "AWS::SageMaker::Endpoint",
        lambda it: {
            "EndpointName": "it",
            "EndpointConfigName": {"Fn::GetAtt": [it, "EndpointConfigName"]},
            "RetainAllVariantProperties": True,
            "DeploymentConfig": {"RollingUpdatePolicy": ROLLING},
        },
        seen("sagemaker.describe_endpoint [EndpointConfigName, EndpointStatus]", EndpointName="it"),
        ("First", "Second"),
        lambda it: [it.lower(), "InService"],
        {"Model": MODEL, "First": named_config("first"), "Second": named_config("second")},
    ),
    Case(
        "AWS::SageMaker::EndpointConfig",
        lambda _: CONFIG["Properties"],
        seen("sagemaker.list_tags Tags[0].Value", ResourceArn="$"),
        around={"Model": MODEL},
    ),
    Case(
        "AWS::SageMaker::Model",
        lambda _: MODEL["Properties"],
        seen("sagemaker.list_tags Tags[0].Value", ResourceArn="$"),
    ),
    Case(
        "AWS::StepFunctions::StateMachine",
        lambda it: {
            "RoleArn": ROLE,
            "DefinitionString": json.dumps(says("${said}")),
            "DefinitionSubstitutions": {"said": it},
            "TracingConfiguration": {"Enabled": True},
        },
        seen(
            "stepfunctions.describe_state_machine definition",
            "stepfunctions.describe_state_machine tracingConfiguration.enabled",
            "stepfunctions.list_tags_for_resource tags[0].value",
            stateMachineArn="$",
            resourceArn="$",
        ),
        shown=lambda it: (says(it), True, it),
    ),
]


def template(it: Case, value: Any, tag: str) -> str:
    """Return a template with the resource and, if its type can have them, tags as those of an app."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", it.type_name).schema
    tags = {"stage": tag} if it.type_name == "AWS::SSM::Parameter" else [{"Key": "stage", "Value": tag}]
    properties = {**({"Tags": tags} if "Tags" in schema["properties"] else {}), **it.properties(value)}
    depends = {"DependsOn": it.depends} if it.depends else {}
    mine = {"Type": it.type_name, "Properties": properties, **depends}
    return json.dumps({"Resources": {**it.around, "It": mine}})


def physical_id(aws: EmbeddedAws) -> str:
    rows = aws.client("cloudformation").list_stack_resources(StackName="s")["StackResourceSummaries"]
    [mine] = [row["PhysicalResourceId"] for row in rows if row["LogicalResourceId"] == "It"]
    return mine


def name_of(it: Case) -> str:
    return it.type_name.removeprefix("AWS::")


@pytest.mark.parametrize("it", CASES, ids=name_of)
def test_it_is_created_changed_in_place_and_deleted(aws: EmbeddedAws, it: Case) -> None:
    cloudformation = aws.client("cloudformation")
    before, after = it.values

    cloudformation.create_stack(StackName="s", TemplateBody=template(it, before, "first"))
    assert status(aws) == "CREATE_COMPLETE"
    created = physical_id(aws)
    assert aws.missing_resources("s") == []
    assert it.read(aws, created) == it.shown(before)

    cloudformation.update_stack(StackName="s", TemplateBody=template(it, after, "second"))
    often = {"Delay": 0.05, "MaxAttempts": 600}
    cloudformation.get_waiter("stack_update_complete").wait(StackName="s", WaiterConfig=often)
    assert status(aws) == "UPDATE_COMPLETE"
    assert physical_id(aws) == created
    assert aws.missing_resources("s") == []
    assert it.read(aws, created) == it.shown(after)

    cloudformation.delete_stack(StackName="s")
    assert cloudformation.describe_stacks()["Stacks"] == []


@pytest.mark.parametrize(
    "it", [found for found in CASES if found.type_name != "AWS::CDK::Metadata"], ids=name_of
)
def test_one_that_disappeared_from_its_service_is_named(aws: EmbeddedAws, it: Case) -> None:
    from moto.cloudformation.models import cloudformation_backends

    from embedded_aws.cloudformation import stacks

    aws.client("cloudformation").create_stack(StackName="s", TemplateBody=template(it, it.values[0], "first"))
    stack = cloudformation_backends[ACCOUNT]["us-east-1"].get_stack("s")
    mine = stacks.resources_of(stack).deployed["It"]
    assert mine.identity is not None
    mine.kind.delete(stacks._call(stack, "It"), mine.identity, mine.properties)

    [missing] = aws.missing_resources("s")

    assert (missing.type_name, missing.logical_id) == (it.type_name, "It")


@pytest.mark.parametrize(("value", "kept"), [(5, "5")])
def test_a_number_or_a_boolean_becomes_the_string_that_its_type_declares(
    aws: EmbeddedAws, value: bool | int, kept: str
) -> None:
    bucket = {"BucketName": "tagged", "Tags": [{"Key": "stage", "Value": value}]}
    parameter = {"Name": "/p", "Type": "String", "Value": value, "Tags": {"stage": value}}
    body = {
        "Resources": {
            "Bucket": {"Type": "AWS::S3::Bucket", "Properties": bucket},
            "Parameter": {"Type": "AWS::SSM::Parameter", "Properties": parameter},
        }
    }

    aws.client("cloudformation").create_stack(StackName="s", TemplateBody=json.dumps(body))

    ssm = aws.client("ssm")
    tagged = ssm.list_tags_for_resource(ResourceType="Parameter", ResourceId="/p")["TagList"]
    assert aws.client("s3").get_bucket_tagging(Bucket="tagged")["TagSet"] == [{"Key": "stage", "Value": kept}]
    assert tagged == [{"Key": "stage", "Value": kept}]
    assert ssm.get_parameter(Name="/p")["Parameter"]["Value"] == kept


def test_a_property_that_is_not_supported_fails_the_resource_and_is_named(aws: EmbeddedAws) -> None:
    body = {"Resources": {"It": {"Type": "AWS::S3::Bucket", "Properties": {"WebsiteConfiguration": {}}}}}

    aws.client("cloudformation").create_stack(StackName="s", TemplateBody=json.dumps(body))

    assert status(aws).startswith("ROLLBACK_COMPLETE")
    assert "WebsiteConfiguration" in status(aws)


@pytest.mark.parametrize(
    ("type_name", "properties", "words"),
    [
        ("SSM::Parameter", {"Type": "String"}, "#: required key [Value] not found"),
        ("SNS::Topic", {"Colour": "red"}, "#: extraneous key [Colour] is not permitted"),
        (
            "S3::Bucket",
            {"VersioningConfiguration": {"State": "Enabled"}},
            "#/VersioningConfiguration: required key [Status] not found, "
            "#/VersioningConfiguration: extraneous key [State] is not permitted",
        ),
    ],
)
def test_missing_and_unknown_properties_fail_the_resource_in_the_words_of_cloudformation(
    aws: EmbeddedAws, type_name: str, properties: dict[str, Any], words: str
) -> None:
    body = {"Resources": {"It": {"Type": f"AWS::{type_name}", "Properties": properties}}}

    aws.client("cloudformation").create_stack(StackName="s", TemplateBody=json.dumps(body))

    assert status(aws).startswith("ROLLBACK_COMPLETE")
    assert f"Properties validation failed for resource It with message:\n[{words}" in status(aws)


def test_a_crash_of_a_type_is_an_internal_failure(aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise KeyError("Missing")

    monkeypatch.setattr(type(TYPES["AWS::SNS::Topic"]), "create", crash)
    body = {"Resources": {"It": {"Type": "AWS::SNS::Topic"}}}

    aws.client("cloudformation").create_stack(StackName="s", TemplateBody=json.dumps(body))

    words = "AWS::SNS::Topic It: Internal failure of the embedded AWS: it needs 'Missing'"
    assert status(aws) == f"ROLLBACK_COMPLETE {words}"


def network(*, tag: str, port: int) -> dict[str, Any]:
    """Return a VPC with all kinds of parts: those that can have tags have one, and a group opens a port."""
    tags = {"Tags": [{"Key": "stage", "Value": tag}]}
    anywhere, vpc, subnet = "0.0.0.0/0", {"VpcId": {"Ref": "Vpc"}}, {"SubnetId": {"Ref": "Subnet"}}
    table, internet = {"RouteTableId": {"Ref": "Table"}}, {"Ref": "Internet"}
    callers, servers = ({"Fn::GetAtt": [name, "GroupId"]} for name in ("Callers", "Servers"))
    https, opened = ({"IpProtocol": "tcp", "FromPort": each, "ToPort": each} for each in (443, port))
    block = {"CidrBlock": "10.0.0.0/16", "EnableDnsHostnames": True, "EnableDnsSupport": True}
    name = {"Fn::Join": ["", ["com.amazonaws.", {"Ref": "AWS::Region"}, ".s3"]]}
    s3 = {"ServiceName": name, "VpcEndpointType": "Gateway", "RouteTableIds": [{"Ref": "Table"}]}
    place = {"AvailabilityZone": "us-east-1a", "CidrBlock": "10.0.0.0/18", "MapPublicIpOnLaunch": True}
    logs = {"ServiceName": "com.amazonaws.us-east-1.logs", "VpcEndpointType": "Interface"}
    parts: dict[str, tuple[str, dict[str, Any]]] = {
        "Vpc": ("VPC", {**block, **tags}),
        "Subnet": ("Subnet", {**place, **vpc, **tags}),
        "Table": ("RouteTable", {**vpc, **tags}),
        "Association": ("SubnetRouteTableAssociation", {**table, **subnet}),
        "Internet": ("InternetGateway", tags),
        "Attachment": ("VPCGatewayAttachment", {"InternetGatewayId": internet, **vpc}),
        "Route": ("Route", {"DestinationCidrBlock": anywhere, "GatewayId": internet, **table}),
        "Address": ("EIP", {"Domain": "vpc", **tags}),
        "Nat": ("NatGateway", {"AllocationId": {"Fn::GetAtt": "Address.AllocationId"}, **subnet, **tags}),
        "ByNat": ("Route", {"DestinationCidrBlock": "10.1.0.0/16", "NatGatewayId": {"Ref": "Nat"}, **table}),
        "S3": ("VPCEndpoint", {**s3, **vpc, **tags}),
        "Logs": (
            "VPCEndpoint",
            {**logs, "SecurityGroupIds": [servers], "SubnetIds": [{"Ref": "Subnet"}], **vpc, **tags},
        ),
        "Callers": ("SecurityGroup", {"GroupDescription": "callers", **vpc, **tags}),
        "Servers": (
            "SecurityGroup",
            {
                "GroupDescription": "servers",
                "SecurityGroupIngress": [{"CidrIp": anywhere, **opened}],
                **vpc,
                **tags,
            },
        ),
        "Out": ("SecurityGroupEgress", {"GroupId": callers, "DestinationSecurityGroupId": servers, **https}),
        "In": ("SecurityGroupIngress", {"GroupId": servers, "SourceSecurityGroupId": callers, **https}),
        "Machine": ("Instance", {"ImageId": "ami-12c6146b", "UserData": {"Fn::Base64": "ls"}, **tags}),
    }
    after = {"Route": "Attachment", "Nat": "Route"}
    return {
        "Resources": {
            name: {
                "Type": f"AWS::EC2::{kind}",
                "Properties": properties,
                **({"DependsOn": after[name]} if name in after else {}),
            }
            for name, (kind, properties) in parts.items()
        }
    }


def network_parts(aws: EmbeddedAws) -> dict[str, int]:
    """Return the number of parts of networks by the method that lists them."""
    client = aws.client("ec2")
    parts = "addresses internet_gateways nat_gateways route_tables security_groups subnets vpcs vpc_endpoints"
    answers = {part: getattr(client, f"describe_{part}")() for part in parts.split()}
    found = {
        part: next(each for each in answers[part].values() if isinstance(each, list)) for part in answers
    }
    return {part: sum(row.get("State") != "deleted" for row in found[part]) for part in found}


def test_the_parts_of_a_vpc_are_created_changed_and_deleted(aws: EmbeddedAws) -> None:
    cloudformation, client = aws.client("cloudformation"), aws.client("ec2")
    before, template = network_parts(aws), network(tag="one", port=80)
    assert {each["Type"] for each in template["Resources"].values() if "EC2" in each["Type"]} == NETWORK

    cloudformation.create_stack(StackName="s", TemplateBody=json.dumps(template))
    assert status(aws) == "CREATE_COMPLETE"
    assert aws.missing_resources("s") == []
    made = network_parts(aws)
    cloudformation.update_stack(StackName="s", TemplateBody=json.dumps(network(tag="two", port=81)))
    assert status(aws) == "UPDATE_COMPLETE"
    assert network_parts(aws) == made

    mine = [{"Name": "tag:stage", "Values": ["two"]}]
    [vpc] = client.describe_vpcs(Filters=mine)["Vpcs"]
    groups = client.describe_security_groups(Filters=mine)["SecurityGroups"]
    ports = {rule.get("FromPort") for group in groups for rule in group["IpPermissions"]}
    names = client.describe_vpc_attribute(VpcId=vpc["VpcId"], Attribute="enableDnsHostnames")
    assert names["EnableDnsHostnames"]["Value"]
    assert ports == {81, 443}
    cloudformation.delete_stack(StackName="s")
    assert network_parts(aws) == before


def test_a_change_that_is_not_supported_is_rolled_back(aws: EmbeddedAws) -> None:
    def template(description: str, **change: Any) -> str:
        topic = {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": description}}
        address = {"Type": "AWS::EC2::EIP", "DependsOn": "Topic", "Properties": change}
        return json.dumps({"Resources": {"Topic": topic, "It": address}})

    cloudformation = aws.client("cloudformation")
    cloudformation.create_stack(StackName="s", TemplateBody=template("one"))

    cloudformation.update_stack(StackName="s", TemplateBody=template("two", InstanceId="i-1"))

    assert status(aws).startswith("UPDATE_ROLLBACK_COMPLETE AWS::EC2::EIP It: the embedded AWS cannot change")
    [topic] = aws.client("sns").list_topics()["Topics"]
    shown = aws.client("sns").get_topic_attributes(TopicArn=topic["TopicArn"])["Attributes"]["DisplayName"]
    assert shown == "one"
