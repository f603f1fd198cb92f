"""Deployments of the embedded CloudFormation: order, replacement, failure, exports, missing resources."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from triton_aws import EmbeddedAws, StackNotFoundError
from triton_aws.cloudformation.s3 import BucketPolicy

ROLE = "arn:aws:iam::123456789012:role/any"
TOPIC: dict[str, Any] = {"Type": "AWS::SNS::Topic"}


@pytest.fixture
def cloudformation(aws: EmbeddedAws) -> Any:
    return aws.client("cloudformation")


def body(resources: dict[str, Any], **more: Any) -> str:
    return json.dumps({"Resources": resources, **more})


def status(cloudformation: Any, stack: str = "s") -> str:
    [found] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    return f"{found['StackStatus']} {found.get('StackStatusReason', '')}".strip()


def outputs(cloudformation: Any, stack: str = "s") -> dict[str, str]:
    [found] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    return {row["OutputKey"]: row["OutputValue"] for row in found.get("Outputs", [])}


def events(cloudformation: Any, stack: str = "s") -> list[tuple[str, str]]:
    """The events of the resources, oldest first."""
    found = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    return [
        (event["LogicalResourceId"], event["ResourceStatus"])
        for event in reversed(found)
        if event["LogicalResourceId"] != stack
    ]


def serving(*, image: str, instance_type: str = "ml.g5.2xlarge", **endpoint: Any) -> dict[str, Any]:
    variant = {
        "VariantName": "AllTraffic",
        "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]},
        "InitialInstanceCount": 1,
        "InstanceType": instance_type,
    }
    return {
        # The other way round than they depend on each other.
        "Endpoint": {
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {
                "EndpointName": "e",
                "EndpointConfigName": {"Fn::GetAtt": ["Config", "EndpointConfigName"]},
                **endpoint,
            },
        },
        "Config": {
            "Type": "AWS::SageMaker::EndpointConfig",
            "Properties": {"ProductionVariants": [variant]},
        },
        "Model": {
            "Type": "AWS::SageMaker::Model",
            "Properties": {"ExecutionRoleArn": ROLE, "PrimaryContainer": {"Image": image}},
        },
    }


def test_a_changed_model_replaces_the_configuration_and_updates_the_endpoint(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    sagemaker = aws.client("sagemaker")
    cloudformation.create_stack(StackName="s", TemplateBody=body(serving(image="one")))
    before = sagemaker.describe_endpoint(EndpointName="e")

    cloudformation.update_stack(StackName="s", TemplateBody=body(serving(image="two")))

    after = sagemaker.describe_endpoint(EndpointName="e")
    config = sagemaker.describe_endpoint_config(EndpointConfigName=after["EndpointConfigName"])
    [variant] = config["ProductionVariants"]
    model = sagemaker.describe_model(ModelName=variant["ModelName"])
    assert status(cloudformation) == "UPDATE_COMPLETE"
    assert model["PrimaryContainer"]["Image"] == "two"
    assert (after["CreationTime"], after["EndpointStatus"]) == (before["CreationTime"], "InService")
    assert after["EndpointConfigName"] != before["EndpointConfigName"]
    assert len(sagemaker.list_endpoint_configs()["EndpointConfigs"]) == 1
    assert len(sagemaker.list_models()["Models"]) == 1


def test_what_was_replaced_is_removed_after_the_new_is_in_use(cloudformation: Any) -> None:
    cloudformation.create_stack(StackName="s", TemplateBody=body(serving(image="one")))
    seen = len(events(cloudformation))

    cloudformation.update_stack(StackName="s", TemplateBody=body(serving(image="two")))

    complete = [name for name in events(cloudformation)[seen:] if name[1].endswith("_COMPLETE")]
    assert complete == [
        ("Model", "CREATE_COMPLETE"),
        ("Config", "CREATE_COMPLETE"),
        ("Endpoint", "UPDATE_COMPLETE"),
        ("Config", "DELETE_COMPLETE"),
        ("Model", "DELETE_COMPLETE"),
    ]


def test_a_changed_name_replaces_the_endpoint(aws: EmbeddedAws, cloudformation: Any) -> None:
    cloudformation.create_stack(StackName="s", TemplateBody=body(serving(image="one")))

    cloudformation.update_stack(
        StackName="s", TemplateBody=body(serving(image="one", EndpointName="renamed"))
    )

    found = aws.client("sagemaker").list_endpoints()["Endpoints"]
    assert [endpoint["EndpointName"] for endpoint in found] == ["renamed"]


def test_dependants_are_deleted_before_what_they_depend_on(cloudformation: Any) -> None:
    stack = cloudformation.create_stack(StackName="s", TemplateBody=body(serving(image="one")))["StackId"]

    cloudformation.delete_stack(StackName="s")

    found = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    deleted = [
        event["LogicalResourceId"]
        for event in reversed(found)
        if event["ResourceStatus"] == "DELETE_COMPLETE"
    ]
    assert deleted == ["Endpoint", "Config", "Model", "s"]


def test_a_failed_creation_is_rolled_back_with_the_services_own_reason(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    cloudformation.create_stack(
        StackName="s", TemplateBody=body(serving(image="one", instance_type="ml.g99.xlarge"))
    )

    assert status(cloudformation).startswith("ROLLBACK_COMPLETE AWS::SageMaker::EndpointConfig Config:")
    assert "'ml.g99.xlarge'" in status(cloudformation)
    assert ("Config", "CREATE_FAILED") in events(cloudformation)
    assert aws.client("sagemaker").list_models()["Models"] == []


def test_a_failed_update_puts_everything_back(aws: EmbeddedAws, cloudformation: Any) -> None:
    sagemaker = aws.client("sagemaker")
    good = {"Topic": {**TOPIC, "Properties": {"DisplayName": "good"}}, **serving(image="one")}
    bad = {
        "Topic": {**TOPIC, "Properties": {"DisplayName": "bad"}},
        **serving(image="two", instance_type="ml.g99.xlarge"),
    }
    cloudformation.create_stack(
        StackName="s", TemplateBody=body(good, Outputs={"Topic": {"Value": {"Ref": "Topic"}}})
    )
    before = sagemaker.describe_endpoint(EndpointName="e")["EndpointConfigName"]

    cloudformation.update_stack(StackName="s", TemplateBody=body(bad))

    topic = outputs(cloudformation)["Topic"]
    shown = aws.client("sns").get_topic_attributes(TopicArn=topic)["Attributes"]["DisplayName"]
    assert status(cloudformation).startswith("UPDATE_ROLLBACK_COMPLETE")
    assert shown == "good"
    assert sagemaker.describe_endpoint(EndpointName="e")["EndpointConfigName"] == before
    assert len(sagemaker.list_models()["Models"]) == 1
    assert aws.missing_resources("s") == []


def test_after_a_failed_update_the_next_one_works(cloudformation: Any) -> None:
    cloudformation.create_stack(StackName="s", TemplateBody=body(serving(image="one")))
    cloudformation.update_stack(
        StackName="s", TemplateBody=body(serving(image="two", instance_type="ml.g99.xlarge"))
    )

    cloudformation.update_stack(StackName="s", TemplateBody=body(serving(image="three")))

    assert status(cloudformation) == "UPDATE_COMPLETE"


def test_half_of_a_resource_does_not_stay(aws: EmbeddedAws, cloudformation: Any) -> None:
    bucket = {
        "Type": "AWS::S3::Bucket",
        "Properties": {"LoggingConfiguration": {"DestinationBucketName": "no-such-bucket"}},
    }

    cloudformation.create_stack(StackName="s", TemplateBody=body({"Bucket": bucket}))

    assert status(cloudformation).startswith("ROLLBACK_COMPLETE")
    assert aws.client("s3").list_buckets()["Buckets"] == []


def test_an_update_without_a_change_is_refused(cloudformation: Any) -> None:
    cloudformation.create_stack(StackName="s", TemplateBody=body({"Topic": TOPIC}))

    with pytest.raises(ClientError, match="No updates are to be performed"):
        cloudformation.update_stack(StackName="s", TemplateBody=body({"Topic": TOPIC}))


def test_what_is_retained_outlives_its_stack(aws: EmbeddedAws, cloudformation: Any) -> None:
    kept = {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain", "Properties": {"BucketName": "kept"}}
    cloudformation.create_stack(StackName="s", TemplateBody=body({"Kept": kept, "Topic": TOPIC}))

    cloudformation.delete_stack(StackName="s")

    assert [found["Name"] for found in aws.client("s3").list_buckets()["Buckets"]] == ["kept"]
    assert aws.client("sns").list_topics()["Topics"] == []


def _bucket(name: str, policy: str) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "DeletionPolicy": policy, "Properties": {"BucketName": name}}


FAILING = {"Type": "AWS::SNS::Subscription", "DependsOn": ["Always", "Later"], "Properties": {}}


def _buckets(aws: EmbeddedAws) -> list[str]:
    return [found["Name"] for found in aws.client("s3").list_buckets()["Buckets"]]


def test_a_failed_creation_keeps_only_what_is_retained_in_any_case(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    resources = {"Always": _bucket("always", "Retain"), "Later": _bucket("later", "RetainExceptOnCreate")}

    cloudformation.create_stack(StackName="s", TemplateBody=body({**resources, "Failing": FAILING}))

    assert status(cloudformation).startswith("ROLLBACK_COMPLETE")
    assert _buckets(aws) == ["always"]


def test_what_is_retained_except_on_creation_outlives_an_updates_rollback_and_its_stack(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    later = _bucket("later", "RetainExceptOnCreate")
    cloudformation.create_stack(StackName="s", TemplateBody=body({"Later": later}))
    failing = {**FAILING, "DependsOn": "Later"}

    cloudformation.update_stack(StackName="s", TemplateBody=body({"Later": later, "Failing": failing}))
    assert status(cloudformation).startswith("UPDATE_ROLLBACK_COMPLETE")
    cloudformation.delete_stack(StackName="s")

    assert _buckets(aws) == ["later"]


def test_a_rollback_that_cannot_empty_a_bucket_fails_and_keeps_the_buckets_key(
    aws: EmbeddedAws, cloudformation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_and_fail(policy: Any, call: Any, physical_id: Any, properties: Any) -> None:
        call.client("s3").put_object(Bucket=properties["Bucket"], Key="model", Body=b"1")
        raise ValueError

    monkeypatch.setattr(BucketPolicy, "put", fill_and_fail)
    bucket = _bucket("full", "RetainExceptOnCreate")
    bucket["Properties"]["Tags"] = [{"Key": "key", "Value": {"Ref": "Key"}}]
    key = {"Type": "AWS::KMS::Key", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {}}
    policy = {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": {}}
    filling = {"Type": "AWS::S3::BucketPolicy", "Properties": policy}

    cloudformation.create_stack(
        StackName="s", TemplateBody=body({"Key": key, "Bucket": bucket, "Filling": filling})
    )

    [found] = aws.client("kms").list_keys()["Keys"]
    state = aws.client("kms").describe_key(KeyId=found["KeyId"])["KeyMetadata"]["KeyState"]
    assert status(cloudformation).startswith("ROLLBACK_FAILED")
    assert (_buckets(aws), state) == (["full"], "Enabled")


def test_a_bucket_that_holds_objects_fails_the_deletion_and_says_so(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "full"}}
    cloudformation.create_stack(StackName="s", TemplateBody=body({"Bucket": bucket}))
    aws.client("s3").put_object(Bucket="full", Key="k", Body=b"1")

    cloudformation.delete_stack(StackName="s")

    assert status(cloudformation).startswith("DELETE_FAILED AWS::S3::Bucket Bucket:")
    assert "not empty" in status(cloudformation)


EXPORTING = {
    "resources": {"Topic": TOPIC},
    "Outputs": {"Arn": {"Value": {"Ref": "Topic"}, "Export": {"Name": "s:Arn"}}},
}
IMPORTING = {
    "Subscription": {
        "Type": "AWS::SNS::Subscription",
        "Properties": {
            "TopicArn": {"Fn::ImportValue": "s:Arn"},
            "Protocol": "email",
            "Endpoint": "a@example.com",
        },
    }
}


def deploy_by_change_set(cloudformation: Any, stack: str, template: str, kind: str = "CREATE") -> None:
    """As the CDK command line deploys: every stack's change set has the same name."""
    cloudformation.create_change_set(
        StackName=stack, ChangeSetName="deploy", ChangeSetType=kind, TemplateBody=template
    )
    described = cloudformation.describe_change_set(StackName=stack, ChangeSetName="deploy")
    assert described["StackName"] == stack
    cloudformation.execute_change_set(StackName=stack, ChangeSetName="deploy")


def test_a_change_set_registers_exports_that_the_next_stack_imports(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    deploy_by_change_set(cloudformation, "s", body(EXPORTING["resources"], Outputs=EXPORTING["Outputs"]))
    deploy_by_change_set(cloudformation, "t", body(IMPORTING))

    [subscription] = aws.client("sns").list_subscriptions()["Subscriptions"]
    assert status(cloudformation, "t") == "CREATE_COMPLETE"
    assert subscription["TopicArn"] == outputs(cloudformation)["Arn"]


def test_an_export_that_is_imported_protects_its_stack(cloudformation: Any) -> None:
    deploy_by_change_set(cloudformation, "s", body(EXPORTING["resources"], Outputs=EXPORTING["Outputs"]))
    deploy_by_change_set(cloudformation, "t", body(IMPORTING))

    with pytest.raises(ClientError, match="Export s:Arn cannot be deleted as it is in use by t"):
        cloudformation.delete_stack(StackName="s")
    deploy_by_change_set(cloudformation, "s", body(EXPORTING["resources"]), "UPDATE")
    assert "Cannot delete export s:Arn as it is in use by t" in status(cloudformation)

    cloudformation.delete_stack(StackName="t")
    cloudformation.delete_stack(StackName="s")
    assert cloudformation.describe_stacks()["Stacks"] == []
    assert cloudformation.list_exports()["Exports"] == []


def test_an_import_of_nothing_fails_the_stack_and_names_the_export(cloudformation: Any) -> None:
    cloudformation.create_stack(StackName="t", TemplateBody=body(IMPORTING))

    assert status(cloudformation, "t").startswith("ROLLBACK_COMPLETE")
    assert "No export named s:Arn found" in status(cloudformation, "t")


def test_a_stack_can_take_another_ones_output_without_an_export(cloudformation: Any) -> None:
    cloudformation.create_stack(
        StackName="s", TemplateBody=body({"Topic": TOPIC}, Outputs={"Arn": {"Value": {"Ref": "Topic"}}})
    )
    weak = {"Fn::GetStackOutput": {"StackName": "s", "OutputName": "Arn"}}
    cloudformation.create_stack(
        StackName="t", TemplateBody=body({"Topic": TOPIC}, Outputs={"Other": {"Value": weak}})
    )

    assert outputs(cloudformation, "t")["Other"] == outputs(cloudformation)["Arn"]


def test_a_parameter_from_systems_manager_keeps_its_name_in_an_update(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    aws.client("ssm").put_parameter(Name="/version", Value="30", Type="String")
    parameters = {"Version": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/version"}}
    topic = {**TOPIC, "Properties": {"DisplayName": {"Ref": "Version"}}}
    shown = {"Version": {"Value": {"Ref": "Version"}}}
    cloudformation.create_stack(
        StackName="s", TemplateBody=body({"Topic": topic}, Parameters=parameters, Outputs=shown)
    )
    aws.client("ssm").put_parameter(Name="/version", Value="31", Type="String", Overwrite=True)

    cloudformation.create_change_set(
        StackName="s",
        ChangeSetName="deploy",
        ChangeSetType="UPDATE",
        TemplateBody=body({"Topic": topic, "Two": TOPIC}, Parameters=parameters, Outputs=shown),
        Parameters=[{"ParameterKey": "Version", "UsePreviousValue": True}],
    )
    cloudformation.execute_change_set(StackName="s", ChangeSetName="deploy")

    assert status(cloudformation) == "UPDATE_COMPLETE"
    assert outputs(cloudformation)["Version"] == "31"


def test_a_change_set_that_is_not_there_is_reported_by_its_own_error(cloudformation: Any) -> None:
    cloudformation.create_stack(StackName="s", TemplateBody=body({"Topic": TOPIC}))

    with pytest.raises(cloudformation.exceptions.ChangeSetNotFoundException):
        cloudformation.describe_change_set(StackName="s", ChangeSetName="never")


def test_a_type_that_nobody_registered_is_named_although_the_stack_is_complete(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    unknown = {"Type": "AWS::Bedrock::Agent", "Properties": {"AgentName": "a"}}
    cloudformation.create_stack(
        StackName="s",
        TemplateBody=body(
            {"Topic": TOPIC, "Helper": unknown},
            Outputs={"Helper": {"Value": {"Fn::GetAtt": ["Helper", "AgentArn"]}}},
        ),
    )

    [missing] = aws.missing_resources("s")

    assert status(cloudformation) == "CREATE_COMPLETE"
    assert (missing.stack, missing.logical_id) == ("s", "Helper")
    assert missing.type_name == "AWS::Bedrock::Agent"


def test_a_custom_resource_is_named_instead_of_hanging(aws: EmbeddedAws, cloudformation: Any) -> None:
    custom = {"Type": "Custom::Cleaner", "Properties": {"ServiceToken": "arn:aws:lambda:::function:f"}}
    cloudformation.create_stack(StackName="s", TemplateBody=body({"Custom": custom}))

    [missing] = aws.missing_resources("s")

    assert (missing.type_name, missing.logical_id) == ("Custom::Cleaner", "Custom")


@pytest.mark.parametrize(("wanted", "created"), [("yes", ["Always", "Maybe"]), ("no", ["Always"])])
def test_a_resource_that_a_condition_leaves_out_does_not_count(
    aws: EmbeddedAws, cloudformation: Any, wanted: str, created: list[str]
) -> None:
    cloudformation.create_stack(
        StackName="s",
        TemplateBody=body(
            {"Always": TOPIC, "Maybe": {**TOPIC, "Condition": "Wanted"}},
            Parameters={"Want": {"Type": "String", "Default": wanted}},
            Conditions={"Wanted": {"Fn::Equals": [{"Ref": "Want"}, "yes"]}},
        ),
    )

    rows = cloudformation.list_stack_resources(StackName="s")["StackResourceSummaries"]
    assert [row["LogicalResourceId"] for row in rows] == created
    assert aws.missing_resources("s") == []


def test_a_stack_that_is_not_there_is_one_clear_error(aws: EmbeddedAws, cloudformation: Any) -> None:
    cloudformation.create_stack(StackName="s", TemplateBody=body({"Topic": TOPIC}))

    with pytest.raises(StackNotFoundError, match=r"'x'.*deployed stacks: s$"):
        aws.missing_resources("x")


def test_a_reference_to_nothing_fails_the_stack_and_names_it(cloudformation: Any) -> None:
    topic = {**TOPIC, "Properties": {"DisplayName": {"Ref": "Nowhere"}}}

    cloudformation.create_stack(StackName="s", TemplateBody=body({"Topic": topic}))

    assert status(cloudformation).startswith("ROLLBACK_COMPLETE")
    assert "[Nowhere]" in status(cloudformation)


def test_an_attribute_that_a_type_does_not_have_fails_the_stack_and_names_it(cloudformation: Any) -> None:
    other = {**TOPIC, "Properties": {"DisplayName": {"Fn::GetAtt": ["Topic", "Colour"]}}}

    cloudformation.create_stack(StackName="s", TemplateBody=body({"Topic": TOPIC, "Other": other}))

    assert "AWS::SNS::Topic Topic has no attribute Colour" in status(cloudformation)
