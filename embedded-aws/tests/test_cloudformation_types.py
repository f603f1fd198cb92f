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
from aws_for_tests.scaled_variant import serving
from embedded_aws import EmbeddedAws
from embedded_aws.cloudformation.catalogue import TYPES
from vpc_template import network

Read = Callable[[EmbeddedAws, str], Any]

NETWORK = {name for name in TYPES if name.startswith("AWS::EC2::")}

SERVING = serving(image="i")
MODEL, CONFIG = SERVING["Model"], SERVING["Config"]
TARGET = {
    "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
    "DependsOn": "Endpoint",
    "Properties": {
        "ServiceNamespace": "sagemaker",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        "ResourceId": "endpoint/e/variant/AllTraffic",
        "MinCapacity": 1,
        "MaxCapacity": 4,
    },
}
QUEUE, TOPIC = f"arn:aws:sqs:us-east-1:{ACCOUNT}:one", f"arn:aws:sns:us-east-1:{ACCOUNT}:one"
SCALED = {"ServiceNamespace": "sagemaker"}
ONE = functions(one="def handler(*_): return 1")
FUNCTION = {name: value for name, value in ONE["One"]["Properties"].items() if name != "FunctionName"}
BUDGET = {"BudgetType": "COST", "TimeUnit": "MONTHLY", "BudgetLimit": {"Amount": 1, "Unit": "USD"}}
ALARM = {
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": "3",
    "Metrics": [
        {
            "Id": "e",
            "ReturnData": False,
            "MetricStat": {
                "Metric": {"Namespace": "AWS/SageMaker", "MetricName": "Invocation5XXErrors"},
                "Period": 60,
                "Stat": "Sum",
            },
        },
        {"Id": "rate", "Expression": "e * 100", "Label": "rate"},
    ],
}


def policy(resource: Any, action: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": action, "Resource": resource}
    return {"Version": "2012-10-17", "Statement": [statement]}


def permissions(action: str) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]}


class Case(NamedTuple):
    """A resource named `It`, a change that does not replace it, and its service's view of the difference.

    `read` gets the physical id. Its result must equal `before`, and `after` once the change is deployed.
    """

    type_name: str
    properties: dict[str, Any]
    change: dict[str, Any]
    read: Read
    before: Any
    after: Any
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
    """Return a function's variables, timeout and tags, and its answer."""
    client = aws.client("lambda")
    found = client.get_function(FunctionName=physical_id)
    answer = json.loads(client.invoke(FunctionName=physical_id)["Payload"].read())
    configuration = found["Configuration"]
    variables = configuration.get("Environment", {}).get("Variables", {})
    return variables, configuration["Timeout"], found["Tags"], answer


def queue_policy(aws: EmbeddedAws, physical_id: str) -> Any:
    url = aws.client("sqs").get_queue_url(QueueName="one")["QueueUrl"]
    return seen("sqs.get_queue_attributes Attributes.Policy", QueueUrl=url, AttributeNames=["Policy"])(
        aws, ""
    )


def bucket_properties(*, algorithm: str, versioning: str, blocked: bool, days: int) -> dict[str, Any]:
    default = {"ServerSideEncryptionByDefault": {"SSEAlgorithm": algorithm}}
    return {
        "BucketEncryption": {"ServerSideEncryptionConfiguration": [default]},
        "VersioningConfiguration": {"Status": versioning},
        "PublicAccessBlockConfiguration": {"BlockPublicPolicy": blocked},
        "LifecycleConfiguration": {
            "Rules": [
                {"Id": "old", "Status": "Enabled", "NoncurrentVersionExpiration": {"NoncurrentDays": days}}
            ]
        },
    }


def machine_properties(*, capacity: int) -> dict[str, Any]:
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


def tagged(value: str) -> dict[str, Any]:
    return {"Tags": [{"Key": "stage", "Value": value}]}


def named_config(name: str) -> dict[str, Any]:
    return {
        "Type": "AWS::SageMaker::EndpointConfig",
        "Properties": {**CONFIG["Properties"], "EndpointConfigName": name},
    }


CASES = [
    Case(
        "AWS::ApplicationAutoScaling::ScalableTarget",
        TARGET["Properties"],
        {"MaxCapacity": "8"},
        seen("application-autoscaling.describe_scalable_targets ScalableTargets[0].MaxCapacity", **SCALED),
        4,
        8,
        SERVING,
        "Endpoint",
    ),
    Case(
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        {
            "PolicyName": "invocations",
            "PolicyType": "TargetTrackingScaling",
            "ScalingTargetId": {"Ref": "Target"},
            "TargetTrackingScalingPolicyConfiguration": {
                "TargetValue": 600,
                "PredefinedMetricSpecification": {
                    "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
                },
            },
        },
        {
            "TargetTrackingScalingPolicyConfiguration": {
                "TargetValue": 900,
                "PredefinedMetricSpecification": {
                    "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
                },
            }
        },
        seen(
            "application-autoscaling.describe_scaling_policies "
            "ScalingPolicies[0].TargetTrackingScalingPolicyConfiguration.TargetValue",
            **SCALED,
        ),
        600.0,
        900.0,
        {**SERVING, "Target": TARGET},
    ),
    Case(
        "AWS::Budgets::Budget",
        {"Budget": BUDGET},
        {"Budget": {**BUDGET, "BudgetLimit": {"Amount": 2, "Unit": "USD"}}},
        seen("budgets.describe_budget Budget.BudgetLimit", AccountId=ACCOUNT, BudgetName="$"),
        {"Amount": "1", "Unit": "USD"},
        {"Amount": "2", "Unit": "USD"},
    ),
    Case(
        "AWS::CDK::Metadata", {"Analytics": "v2:a"}, {"Analytics": "v2:b"}, lambda aws, name: None, None, None
    ),
    Case(
        "AWS::CloudWatch::Alarm",
        {**ALARM, "Threshold": 5},
        {"Threshold": "9.5"},
        seen(
            "cloudwatch.describe_alarms MetricAlarms[0].[Threshold, Metrics[1].Expression]", AlarmNames=["$"]
        ),
        [5.0, "e * 100"],
        [9.5, "e * 100"],
    ),
    Case(
        "AWS::CloudWatch::CompositeAlarm",
        {"AlarmRule": {"Fn::Sub": 'ALARM("${One}")'}, "AlarmDescription": "first"},
        {"AlarmDescription": "second"},
        seen("cloudwatch.describe_alarms CompositeAlarms[0].AlarmDescription", AlarmTypes=["CompositeAlarm"]),
        "first",
        "second",
        {"One": {"Type": "AWS::CloudWatch::Alarm", "Properties": {**ALARM, "Threshold": 1}}},
    ),
    Case(
        "AWS::CloudWatch::Dashboard",
        {"DashboardBody": '{"widgets": []}'},
        {"DashboardBody": '{"widgets": [], "start": "-PT1H"}'},
        seen("cloudwatch.get_dashboard DashboardBody", DashboardName="$"),
        {"widgets": []},
        {"widgets": [], "start": "-PT1H"},
    ),
    Case(
        "AWS::CodeBuild::Fleet",
        machine_properties(capacity=1),
        machine_properties(capacity=2),
        seen("codebuild.batch_get_fleets fleets[0].[baseCapacity, status.statusCode]", names=["$"]),
        [1, "ACTIVE"],
        [2, "ACTIVE"],
    ),
    Case(
        "AWS::CodeBuild::Project",
        project_properties("A10G", TimeoutInMinutes="120"),
        project_properties("L4", TimeoutInMinutes=90),
        seen(
            "codebuild.batch_get_projects "
            "projects[0].[timeoutInMinutes, environment.environmentVariables[0].value]",
            names=["$"],
        ),
        [120, "A10G"],
        [90, "L4"],
    ),
    Case(
        "AWS::ECR::Repository",
        {"RepositoryName": "images", "ImageTagMutability": "MUTABLE"},
        {"ImageTagMutability": "IMMUTABLE"},
        seen("ecr.describe_repositories repositories[0].imageTagMutability"),
        "MUTABLE",
        "IMMUTABLE",
    ),
    Case(
        "AWS::Events::Rule",
        {"EventPattern": {"source": ["aws.sagemaker"]}, "Targets": [{"Id": "one", "Arn": QUEUE}]},
        {"EventPattern": {"source": ["aws.s3"]}, "Targets": [{"Id": "two", "Arn": QUEUE, "Input": "{}"}]},
        seen(
            *("events.describe_rule EventPattern", "events.list_targets_by_rule Targets[].[Id, Input]"),
            Name="$",
            Rule="$",
        ),
        ({"source": ["aws.sagemaker"]}, [["one", None]]),
        ({"source": ["aws.s3"]}, [["two", "{}"]]),
    ),
    Case(
        "AWS::IAM::ManagedPolicy",
        {"PolicyDocument": permissions("s3:GetObject"), "Roles": [{"Ref": "One"}]},
        {"PolicyDocument": permissions("s3:PutObject")},
        managed_policy,
        ("s3:GetObject", [True]),
        ("s3:PutObject", [True]),
        {"One": role_named("one")},
    ),
    Case(
        "AWS::IAM::OIDCProvider",
        {"Url": "https://tokens.example.org", "ClientIdList": ["one"]},
        {"ClientIdList": ["two"]},
        seen("iam.get_open_id_connect_provider ClientIDList", OpenIDConnectProviderArn="$"),
        ["one"],
        ["two"],
    ),
    Case(
        "AWS::IAM::Policy",
        {"PolicyName": "p", "PolicyDocument": permissions("s3:GetObject"), "Roles": [{"Ref": "One"}]},
        {"PolicyDocument": permissions("s3:PutObject"), "Roles": [{"Ref": "Two"}]},
        inline_policy,
        {"one": ["s3:GetObject"], "two": []},
        {"one": [], "two": ["s3:PutObject"]},
        {"One": role_named("one"), "Two": role_named("two")},
    ),
    Case(
        "AWS::IAM::Role",
        {
            "AssumeRolePolicyDocument": TRUST,
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/ReadOnlyAccess"],
            "Policies": [{"PolicyName": "first", "PolicyDocument": permissions("s3:GetObject")}],
        },
        {
            "ManagedPolicyArns": ["arn:aws:iam::aws:policy/AdministratorAccess"],
            "Policies": [{"PolicyName": "second", "PolicyDocument": permissions("s3:GetObject")}],
            "Description": "changed",
        },
        seen(
            "iam.list_attached_role_policies AttachedPolicies[].PolicyName",
            *("iam.list_role_policies PolicyNames", "iam.get_role Role.Description || ''"),
            RoleName="$",
        ),
        (["ReadOnlyAccess"], ["first"], ""),
        (["AdministratorAccess"], ["second"], "changed"),
    ),
    Case(
        "AWS::KMS::Alias",
        {"AliasName": "alias/it", "TargetKeyId": {"Ref": "One"}},
        {"TargetKeyId": {"Ref": "Two"}},
        seen("kms.describe_key KeyMetadata.Description", KeyId="$"),
        "one",
        "two",
        {
            "One": {"Type": "AWS::KMS::Key", "Properties": {"Description": "one"}},
            "Two": {"Type": "AWS::KMS::Key", "Properties": {"Description": "two"}},
        },
    ),
    Case(
        "AWS::KMS::Key",
        {"Description": "first", "KeyPolicy": policy("*", "kms:*"), "EnableKeyRotation": True},
        {"Description": "second", "EnableKeyRotation": "false"},
        seen(
            "kms.describe_key KeyMetadata.Description",
            "kms.get_key_rotation_status KeyRotationEnabled",
            KeyId="$",
        ),
        ("first", True),
        ("second", False),
    ),
    Case(
        "AWS::Lambda::EventInvokeConfig",
        {"FunctionName": {"Ref": "One"}, "Qualifier": "$LATEST", "MaximumRetryAttempts": 0},
        {"MaximumRetryAttempts": "2"},
        seen("lambda.get_function_event_invoke_config MaximumRetryAttempts", FunctionName="$"),
        0,
        2,
        {"One": {"Type": "AWS::Lambda::Function", "Properties": FUNCTION}, "Role": role_named("one")},
    ),
    Case(
        "AWS::Lambda::Function",
        {**FUNCTION, "Environment": {"Variables": {"A": "1"}}, "Timeout": "60", **tagged("one")},
        {"Code": {"ZipFile": "def handler(*_): return 2"}, "Environment": {}, "Timeout": 9, **tagged("two")},
        function,
        ({"A": "1"}, 60, {"stage": "one"}, 1),
        ({}, 9, {"stage": "two"}, 2),
        {"Role": role_named("one")},
    ),
    Case(
        "AWS::Logs::LogGroup",
        {"LogGroupName": "/aws/it", "RetentionInDays": 30},
        {"RetentionInDays": 90},
        seen("logs.describe_log_groups logGroups[0].retentionInDays"),
        30,
        90,
    ),
    Case(
        "AWS::Logs::MetricFilter",
        {
            "LogGroupName": {"Ref": "Group"},
            "FilterPattern": '"failed to load"',
            "MetricTransformations": [
                {"MetricNamespace": "App", "MetricName": "FailedLoads", "MetricValue": "1"}
            ],
        },
        {"FilterPattern": '"failed to unload"'},
        seen("logs.describe_metric_filters metricFilters[0].filterPattern"),
        '"failed to load"',
        '"failed to unload"',
        {"Group": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/aws/filtered"}}},
        "Group",
    ),
    Case(
        "AWS::Logs::ResourcePolicy",
        {"PolicyName": "events", "PolicyDocument": '{"Statement": []}'},
        {"PolicyDocument": '{"Statement": [{"Sid": "Events"}]}'},
        seen("logs.describe_resource_policies resourcePolicies[0].policyDocument"),
        {"Statement": []},
        {"Statement": [{"Sid": "Events"}]},
    ),
    Case(
        "AWS::S3::Bucket",
        bucket_properties(algorithm="aws:kms", versioning="Enabled", blocked=True, days=30),
        bucket_properties(algorithm="AES256", versioning="Suspended", blocked=False, days=7),
        seen(
            "s3.get_bucket_encryption ServerSideEncryptionConfiguration.Rules[0].*.SSEAlgorithm | [0]",
            "s3.get_bucket_versioning Status",
            "s3.get_public_access_block PublicAccessBlockConfiguration.BlockPublicPolicy",
            "s3.get_bucket_lifecycle_configuration Rules[0].NoncurrentVersionExpiration.NoncurrentDays",
            Bucket="$",
        ),
        ("aws:kms", "Enabled", True, 30),
        ("AES256", "Suspended", False, 7),
    ),
    Case(
        "AWS::S3::BucketPolicy",
        {"Bucket": {"Ref": "One"}, "PolicyDocument": policy({"Fn::GetAtt": ["One", "Arn"]}, "s3:ListBucket")},
        {"PolicyDocument": policy({"Fn::GetAtt": ["One", "Arn"]}, "s3:GetBucketPolicy")},
        seen("s3.get_bucket_policy Policy", Bucket="$"),
        policy("arn:aws:s3:::one-bucket", "s3:ListBucket"),
        policy("arn:aws:s3:::one-bucket", "s3:GetBucketPolicy"),
        {"One": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "one-bucket"}}},
    ),
    Case(
        "AWS::SNS::Subscription",
        {"TopicArn": {"Ref": "One"}, "Protocol": "email", "Endpoint": "a@example.com"},
        {"FilterPolicy": {"stage": ["production"]}},
        seen("sns.get_subscription_attributes Attributes.FilterPolicy", SubscriptionArn="$"),
        None,
        {"stage": ["production"]},
        {"One": {"Type": "AWS::SNS::Topic"}},
    ),
    Case(
        "AWS::SNS::Topic",
        {"DisplayName": "first"},
        {"DisplayName": "second"},
        seen("sns.get_topic_attributes Attributes.DisplayName", TopicArn="$"),
        "first",
        "second",
    ),
    Case(
        "AWS::SNS::TopicPolicy",
        {"Topics": [{"Ref": "One"}], "PolicyDocument": policy({"Ref": "One"}, "sns:Publish")},
        {"PolicyDocument": policy({"Ref": "One"}, "sns:Subscribe")},
        seen("sns.get_topic_attributes Attributes.Policy", TopicArn=TOPIC),
        policy(TOPIC, "sns:Publish"),
        policy(TOPIC, "sns:Subscribe"),
        {"One": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "one"}}},
    ),
    Case(
        "AWS::SQS::Queue",
        {"VisibilityTimeout": 60},
        {"VisibilityTimeout": 90},
        seen("sqs.get_queue_attributes Attributes.VisibilityTimeout", QueueUrl="$", AttributeNames=["All"]),
        "60",
        "90",
    ),
    Case(
        "AWS::SQS::QueuePolicy",
        {
            "Queues": [{"Ref": "One"}],
            "PolicyDocument": policy({"Fn::GetAtt": ["One", "Arn"]}, "sqs:SendMessage"),
        },
        {"PolicyDocument": policy({"Fn::GetAtt": ["One", "Arn"]}, "sqs:ReceiveMessage")},
        queue_policy,
        policy(QUEUE, "sqs:SendMessage"),
        policy(QUEUE, "sqs:ReceiveMessage"),
        {"One": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "one"}}},
    ),
    Case(
        "AWS::SSM::Parameter",
        {"Name": "/it", "Type": "String", "Value": "first"},
        {"Value": "second"},
        seen(
            *("ssm.get_parameter Parameter.Value", "ssm.list_tags_for_resource TagList"),
            Name="$",
            ResourceType="Parameter",
            ResourceId="$",
        ),
        ("first", [{"Key": "stage", "Value": "first"}]),
        ("second", [{"Key": "stage", "Value": "second"}]),
    ),
    Case(
        "AWS::SageMaker::Endpoint",
        {
            "EndpointName": "it",
            "EndpointConfigName": {"Fn::GetAtt": ["First", "EndpointConfigName"]},
            "RetainAllVariantProperties": True,
            "DeploymentConfig": {
                "RollingUpdatePolicy": {
                    "MaximumBatchSize": {"Type": "INSTANCE_COUNT", "Value": "1"},
                    "WaitIntervalInSeconds": 60,
                }
            },
        },
        {"EndpointConfigName": {"Fn::GetAtt": ["Second", "EndpointConfigName"]}},
        seen("sagemaker.describe_endpoint [EndpointConfigName, EndpointStatus]", EndpointName="it"),
        ["first", "InService"],
        ["second", "InService"],
        {"Model": MODEL, "First": named_config("first"), "Second": named_config("second")},
    ),
    Case(
        "AWS::SageMaker::EndpointConfig",
        {**CONFIG["Properties"], **tagged("first")},
        tagged("second"),
        seen("sagemaker.list_tags Tags[].Value", ResourceArn="$"),
        ["first"],
        ["second"],
        {"Model": MODEL},
    ),
    Case(
        "AWS::SageMaker::Model",
        {**MODEL["Properties"], **tagged("first")},
        tagged("second"),
        seen("sagemaker.list_tags Tags[].Value", ResourceArn="$"),
        ["first"],
        ["second"],
    ),
    Case(
        "AWS::StepFunctions::StateMachine",
        {
            "RoleArn": ROLE,
            "DefinitionString": json.dumps(says("${said}")),
            "DefinitionSubstitutions": {"said": "first"},
            "TracingConfiguration": {"Enabled": True},
            **tagged("first"),
        },
        {"DefinitionSubstitutions": {"said": "second"}, **tagged("second")},
        seen(
            *(
                "stepfunctions.describe_state_machine definition",
                "stepfunctions.list_tags_for_resource tags[].value",
            ),
            "stepfunctions.describe_state_machine tracingConfiguration.enabled",
            stateMachineArn="$",
            resourceArn="$",
        ),
        (says("first"), ["first"], True),
        (says("second"), ["second"], True),
    ),
]


def tagged_as(it: Case, value: str) -> dict[str, Any]:
    """Return tags as those of an app, if the type can have them."""
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", it.type_name).schema
    tags = {"stage": value} if it.type_name == "AWS::SSM::Parameter" else tagged(value)["Tags"]
    return {"Tags": tags} if "Tags" in schema["properties"] else {}


def template(it: Case, properties: dict[str, Any]) -> str:
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

    properties = {**tagged_as(it, "first"), **it.properties}

    cloudformation.create_stack(StackName="s", TemplateBody=template(it, properties))
    assert status(aws) == "CREATE_COMPLETE"
    created = physical_id(aws)
    assert aws.missing_resources("s") == []
    assert it.read(aws, created) == it.before

    cloudformation.update_stack(
        StackName="s", TemplateBody=template(it, {**properties, **tagged_as(it, "second"), **it.change})
    )
    often = {"Delay": 0.05, "MaxAttempts": 600}
    cloudformation.get_waiter("stack_update_complete").wait(StackName="s", WaiterConfig=often)
    assert status(aws) == "UPDATE_COMPLETE"
    assert physical_id(aws) == created
    assert aws.missing_resources("s") == []
    assert it.read(aws, created) == it.after

    cloudformation.delete_stack(StackName="s")
    assert cloudformation.describe_stacks()["Stacks"] == []


@pytest.mark.parametrize(
    "it", [found for found in CASES if found.type_name != "AWS::CDK::Metadata"], ids=name_of
)
def test_one_that_disappeared_from_its_service_is_named(aws: EmbeddedAws, it: Case) -> None:
    from moto.cloudformation.models import cloudformation_backends

    from embedded_aws.cloudformation import stacks

    aws.client("cloudformation").create_stack(StackName="s", TemplateBody=template(it, it.properties))
    stack = cloudformation_backends[ACCOUNT]["us-east-1"].get_stack("s")
    mine = stacks.resources_of(stack).deployed["It"]
    assert mine.identity is not None
    mine.kind.delete(stacks._call(stack, "It"), mine.identity, mine.properties)

    [missing] = aws.missing_resources("s")

    assert (missing.type_name, missing.logical_id) == (it.type_name, "It")


@pytest.mark.parametrize(("value", "kept"), [(True, "true"), (5, "5")])
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
        (
            "CodeBuild::Project",
            project_properties("L4", Tags=[{"Key": "a"}]),
            "#/Tags/0: required key [Value]",
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
