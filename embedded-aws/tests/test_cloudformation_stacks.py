"""Deployments of the embedded CloudFormation: order, replacement, failure, exports, missing resources."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_for_tests.deployed_functions import ACCOUNT, begin, outputs, status
from aws_for_tests.scaled_variant import serving
from embedded_aws import EmbeddedAws, StackNotFoundError
from embedded_aws.cloudformation.s3 import BucketPolicy

TOPIC: dict[str, Any] = {"Type": "AWS::SNS::Topic"}


@pytest.fixture
def cloudformation(aws: EmbeddedAws) -> Any:
    return aws.client("cloudformation")


def events(aws: EmbeddedAws, stack: str = "s") -> list[tuple[str, str]]:
    """Return the events of the resources, oldest first."""
    found = aws.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    return [
        (event["LogicalResourceId"], event["ResourceStatus"])
        for event in reversed(found)
        if event["LogicalResourceId"] != stack
    ]


def test_dependants_are_deleted_before_what_they_depend_on(aws: EmbeddedAws, cloudformation: Any) -> None:
    stack = begin(aws, serving(image="one"))

    cloudformation.delete_stack(StackName="s")

    found = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    deleted = [
        event["LogicalResourceId"]
        for event in reversed(found)
        if event["ResourceStatus"] == "DELETE_COMPLETE"
    ]
    assert deleted == ["Endpoint", "Config", "Model", "s"]


def test_a_date_in_a_yaml_template_is_a_string(aws: EmbeddedAws, cloudformation: Any) -> None:
    body = """
    AWSTemplateFormatVersion: 2010-09-09
    Conditions: {Never: !Not [!Condition Always], Always: !Equals [a, a]}
    Resources:
      Role:
        Type: AWS::IAM::Role
        Properties:
          AssumeRolePolicyDocument: {Version: 2012-10-17, Statement: []}
    Outputs:
      Name: {Value: !Select [1, !Split [/, !GetAtt Role.Arn]]}
      None: {Value: none, Condition: Never}
    """

    cloudformation.create_stack(StackName="s", TemplateBody=body)

    [name] = outputs(aws).values()
    assert (
        aws.client("iam").get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]["Version"]
        == "2012-10-17"
    )


def test_a_rollback_updates_back_in_the_order_of_dependencies_and_then_deletes(aws: EmbeddedAws) -> None:
    def parameter(value: str, **more: Any) -> dict[str, Any]:
        properties = {"Type": "String", "Value": value}
        return {"Type": "AWS::SSM::Parameter", "Properties": properties, **more}

    begin(aws, {"A": parameter("1"), "B": parameter("1", DependsOn="A")})
    seen = len(events(aws))
    new = {"A": parameter("2"), "B": parameter("2", DependsOn="A"), "C": parameter("2", DependsOn="B")}
    begin(aws, {**new, "D": parameter("", DependsOn="C")}, verb="update")

    complete = [each for each in events(aws)[seen:] if each[1].endswith("_COMPLETE")]
    assert complete[3:] == [("A", "UPDATE_COMPLETE"), ("B", "UPDATE_COMPLETE"), ("C", "DELETE_COMPLETE")]


def test_a_failed_update_puts_everything_back(aws: EmbeddedAws) -> None:
    sagemaker = aws.client("sagemaker")
    good = {"Topic": {**TOPIC, "Properties": {"DisplayName": "good"}}, **serving(image="one")}
    bad = {
        "Topic": {**TOPIC, "Properties": {"DisplayName": "bad"}},
        **serving(image="two", instance_type="ml.g99.xlarge"),
    }
    begin(aws, good, Outputs={"Topic": {"Value": {"Ref": "Topic"}}})
    before = sagemaker.describe_endpoint(EndpointName="e")["EndpointConfigName"]

    begin(aws, bad, verb="update")

    topic = outputs(aws)["Topic"]
    shown = aws.client("sns").get_topic_attributes(TopicArn=topic)["Attributes"]["DisplayName"]
    assert status(aws).startswith("UPDATE_ROLLBACK_COMPLETE")
    assert shown == "good"
    assert sagemaker.describe_endpoint(EndpointName="e")["EndpointConfigName"] == before
    assert len(sagemaker.list_models()["Models"]) == 1
    assert aws.missing_resources("s") == []


def _bucket(name: str, policy: str) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "DeletionPolicy": policy, "Properties": {"BucketName": name}}


FAILING = {"Type": "AWS::SNS::Subscription", "DependsOn": ["Always", "Later"], "Properties": {}}


def _buckets(aws: EmbeddedAws) -> list[str]:
    return [found["Name"] for found in aws.client("s3").list_buckets()["Buckets"]]


def test_a_failed_creation_keeps_only_what_is_retained_in_any_case(aws: EmbeddedAws) -> None:
    resources = {"Always": _bucket("always", "Retain"), "Later": _bucket("later", "RetainExceptOnCreate")}

    begin(aws, {**resources, "Failing": FAILING})

    assert status(aws).startswith("ROLLBACK_COMPLETE")
    assert _buckets(aws) == ["always"]


def test_a_rollback_that_cannot_empty_a_bucket_fails_and_keeps_the_buckets_key(
    aws: EmbeddedAws, monkeypatch: pytest.MonkeyPatch
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

    begin(aws, {"Key": key, "Bucket": bucket, "Filling": filling})

    [found] = aws.client("kms").list_keys()["Keys"]
    state = aws.client("kms").describe_key(KeyId=found["KeyId"])["KeyMetadata"]["KeyState"]
    assert status(aws).startswith("ROLLBACK_FAILED")
    assert (_buckets(aws), state) == (["full"], "Enabled")


EXPORT = {"Arn": {"Value": {"Ref": "Topic"}, "Export": {"Name": "s:Arn"}}}
SUBSCRIPTION = {"TopicArn": {"Fn::ImportValue": "s:Arn"}, "Protocol": "email", "Endpoint": "a@example.com"}
IMPORTING = {"Subscription": {"Type": "AWS::SNS::Subscription", "Properties": SUBSCRIPTION}}


def deploy_by_change_set(
    cloudformation: Any, stack: str, template: dict[str, Any], kind: str = "CREATE", **more: Any
) -> None:
    """Deploy as the CDK command line does: every stack's change set has the same name."""
    change = {"StackName": stack, "ChangeSetName": "deploy"}
    body = json.dumps(template)
    cloudformation.create_change_set(**change, ChangeSetType=kind, TemplateBody=body, **more)
    assert cloudformation.describe_change_set(**change)["StackName"] == stack
    cloudformation.execute_change_set(**change)


def test_a_change_set_registers_exports_that_the_next_stack_imports(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    deploy_by_change_set(cloudformation, "s", {"Resources": {"Topic": TOPIC}, "Outputs": EXPORT})
    deploy_by_change_set(cloudformation, "t", {"Resources": IMPORTING})

    [found] = cloudformation.list_change_sets(StackName="s")["Summaries"]
    assert (found["StackName"], found["ChangeSetName"]) == ("s", "deploy")
    with pytest.raises(cloudformation.exceptions.ChangeSetNotFoundException):
        cloudformation.describe_change_set(StackName="s", ChangeSetName="never")
    [subscription] = aws.client("sns").list_subscriptions()["Subscriptions"]
    assert status(aws, "t") == "CREATE_COMPLETE"
    assert subscription["TopicArn"] == outputs(aws)["Arn"]


def test_an_export_that_is_imported_protects_its_stack(aws: EmbeddedAws, cloudformation: Any) -> None:
    deploy_by_change_set(cloudformation, "s", {"Resources": {"Topic": TOPIC}, "Outputs": EXPORT})
    deploy_by_change_set(cloudformation, "t", {"Resources": IMPORTING})

    with pytest.raises(ClientError, match="Export s:Arn cannot be deleted as it is in use by t"):
        cloudformation.delete_stack(StackName="s")
    deploy_by_change_set(cloudformation, "s", {"Resources": {"Topic": TOPIC}}, "UPDATE")
    assert "Cannot delete export s:Arn as it is in use by t" in status(aws)
    deploy_by_change_set(cloudformation, "s", {"Resources": {"Other": TOPIC}}, "UPDATE")
    assert "Cannot delete export s:Arn as it is in use by t" in status(aws)
    assert [name for name, status in events(aws) if status == "DELETE_COMPLETE"] == ["Other"]
    [kept] = cloudformation.list_stack_resources(StackName="s")["StackResourceSummaries"]
    assert kept["LogicalResourceId"] == "Topic"

    cloudformation.delete_stack(StackName="t")
    cloudformation.delete_stack(StackName="s")
    assert cloudformation.describe_stacks()["Stacks"] == []
    assert cloudformation.list_exports()["Exports"] == []


def test_a_parameter_from_systems_manager_keeps_its_name_in_an_update(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    aws.client("ssm").put_parameter(Name="/version", Value="30", Type="String")
    parameters = {"Version": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/version"}}
    topic = {**TOPIC, "Properties": {"DisplayName": {"Ref": "Version"}}}
    shown = {"Version": {"Value": {"Ref": "Version"}}}
    begin(aws, {"Topic": topic}, Parameters=parameters, Outputs=shown)
    aws.client("ssm").put_parameter(Name="/version", Value="31", Type="String", Overwrite=True)

    template = {"Resources": {"Topic": topic, "Two": TOPIC}, "Parameters": parameters, "Outputs": shown}
    kept = [{"ParameterKey": "Version", "UsePreviousValue": True}]
    deploy_by_change_set(cloudformation, "s", template, "UPDATE", Parameters=kept)

    assert status(aws) == "UPDATE_COMPLETE"
    assert outputs(aws)["Version"] == "31"


def test_types_that_are_not_supported_are_refused_at_once_and_named_together(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    nested = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "https://bucket/t.json"}}
    resources = {"Topic": TOPIC, "Nested": nested, "Helper": {"Type": "AWS::Bedrock::Agent"}}
    words = (
        r"Unrecognized resource types: \[AWS::Bedrock::Agent, AWS::CloudFormation::Stack\]\. .*embedded AWS"
    )
    refused = pytest.raises(ClientError, match=words)

    with refused:
        begin(aws, resources)
    with refused:
        deploy_by_change_set(cloudformation, "s", {"Resources": resources})
    assert cloudformation.describe_stacks()["Stacks"] == []
    begin(aws, {"Topic": TOPIC})
    with refused:
        begin(aws, resources, verb="update")

    assert status(aws) == "CREATE_COMPLETE"


@pytest.mark.parametrize(("wanted", "created"), [("yes", ["Always", "Maybe"]), ("no", ["Always"])])
def test_a_resource_that_a_condition_leaves_out_does_not_count(
    aws: EmbeddedAws, cloudformation: Any, wanted: str, created: list[str]
) -> None:
    begin(
        aws,
        {"Always": TOPIC, "Maybe": {**TOPIC, "Condition": "Wanted"}},
        Parameters={"Want": {"Type": "String", "Default": wanted}},
        Conditions={"Wanted": {"Fn::Equals": [{"Ref": "Want"}, "yes"]}},
    )

    rows = cloudformation.list_stack_resources(StackName="s")["StackResourceSummaries"]
    assert [row["LogicalResourceId"] for row in rows] == created
    assert aws.missing_resources("s") == []


def test_a_stack_that_is_not_there_is_one_clear_error(aws: EmbeddedAws) -> None:
    begin(aws, {"Topic": TOPIC})

    with pytest.raises(StackNotFoundError, match=r"'x'.*deployed stacks: s$"):
        aws.missing_resources("x")


def _shown(value: Any, **sections: Any) -> dict[str, Any]:
    """Return a template with one output."""
    return {"Resources": {"Topic": TOPIC}, "Outputs": {"Shown": {"Value": value}}, **sections}


def _topic(**members: Any) -> dict[str, Any]:
    """Return a template with one topic."""
    return {"Resources": {"Topic": {**TOPIC, **members}}}


def _named(value: Any) -> dict[str, Any]:
    """Return a template with a topic of a name to evaluate."""
    return _topic(Properties={"DisplayName": value})


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ({"Outputs": {}}, "At least one Resources member must be defined"),
        ({**_topic(), "Output": {}}, r"Invalid template property or properties \[Output\]"),
        (_named(None), r"\[/Resources/Topic/Properties/DisplayName\] 'null' values are not allowed"),
        ({"Resources": {"Topic": {}}}, r"\[/Resources/Topic\] Every Resources object must contain a Type"),
        (_shown("", Outputs={"Shown": {}}), "Output Shown is malformed"),
        (_named({"Ref": "No"}), r"Unresolved resource dependencies \[No\] in the Resources block"),
        (_shown({"Ref": "No"}), r"Unresolved resource dependencies \[No\] in the Outputs block"),
        (
            _shown({"Fn::Sub": "${No.Arn}"}),
            "instance of Fn::Sub references invalid resource attribute No.Arn",
        ),
        (_shown({"Fn::GetAtt": ["No", "Arn"]}), "instance of Fn::GetAtt references undefined resource No"),
        (_shown({"Fn::GetAtt": ["Topic", "No"]}), "Topic does not support attribute type No in Fn::GetAtt"),
        (
            _shown("", Conditions={"A": {"Condition": "No"}}),
            "unresolved condition dependency No in Condition",
        ),
        (
            _shown("", Conditions={"A": {"Fn::Equals": [{"Ref": "Topic"}, "a"]}}),
            r"Unresolved dependencies \[Topic\]. Cannot reference resources in the Conditions block",
        ),
        (
            _shown("", Conditions={"A": {"Fn::Not": [{"Condition": "A"}]}}),
            "Found circular condition dependency between A",
        ),
        (_shown({"Fn::FindInMap": ["No", "a", "b"]}), "Mapping named 'No' is not present"),
        (_shown({"Fn::Cidr": ["10.0.0.0/16", 1, 8]}), "Encountered unsupported function: Fn::Cidr"),
        (_shown("", Transform="AWS::Serverless-2016-10-31"), "transforms: AWS::Serverless-2016-10-31"),
        (_named({"Fn::Transform": {"Name": "Macro"}}), "transforms: Macro"),
        (_shown("", Parameters={"P": {"Type": "Text", "Default": ""}}), "Unrecognized parameter type: Text"),
    ],
)
def test_a_template_that_cannot_be_deployed_is_refused(
    aws: EmbeddedAws, cloudformation: Any, template: dict[str, Any], words: str
) -> None:
    body = json.dumps(template)

    with pytest.raises(ClientError, match=rf"ValidationError.*{words}"):
        cloudformation.create_stack(StackName="s", TemplateBody=body)
    with pytest.raises(ClientError, match=rf"ValidationError.*{words}"):
        cloudformation.create_change_set(
            StackName="s", ChangeSetName="c", ChangeSetType="CREATE", TemplateBody=body
        )
    if "Parameters" not in template:
        with pytest.raises(ClientError, match=rf"ValidationError.*{words}"):
            cloudformation.validate_template(TemplateBody=body)
    assert cloudformation.describe_stacks()["Stacks"] == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "unsupported structure"),
        ("{", "JSON not well-formed"),
        ("a: b\n c: d", r"YAML not well-formed. \(line 2, column 3\)"),
    ],
)
def test_what_is_no_template_is_refused(cloudformation: Any, body: str, words: str) -> None:
    with pytest.raises(ClientError, match=f"ValidationError.*Template format error: {words}"):
        cloudformation.create_stack(StackName="s", TemplateBody=body or " ")


_STORED = "AWS::SSM::Parameter::Value<String>"


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ({}, None, r"Parameters: \[P\] must have values"),
        ({"AllowedValues": ["a", True]}, "b", "Parameter 'P' must be one of AllowedValues"),
        ({"AllowedPattern": "[a-z]"}, "ab", r"Parameter 'P' must match pattern \[a-z\]"),
        ({"MinLength": 3}, "ab", "Parameter 'P' must contain at least 3 characters"),
        ({"Type": "Number", "MinValue": 3}, "2.5", "Parameter 'P' must be a number not less than 3"),
        ({"Type": "Number"}, "a", "Parameter 'P' must be a number"),
        ({"Type": "CommaDelimitedList", "AllowedValues": ["a"]}, "a,b", "must be one of AllowedValues"),
        ({"Type": _STORED}, "/no", r"Unable to fetch parameters \[/no\]"),
        (
            {"Type": "AWS::SSM::Parameter::Value<String>"},
            "/list",
            r"Types for SSM parameters \[/list\] .* incompat",
        ),
        ({"Type": _STORED}, "/secret", r"\[/secret\] .* types not supported"),
    ],
)
def test_a_value_that_a_parameter_does_not_allow_is_refused(
    aws: EmbeddedAws, cloudformation: Any, parameter: dict[str, Any], value: str | None, words: str
) -> None:
    for name, kind in (("/list", "StringList"), ("/secret", "SecureString")):
        aws.client("ssm").put_parameter(Name=name, Value="a", Type=kind)
    given = [] if value is None else [{"ParameterKey": "P", "ParameterValue": value}]
    body = json.dumps(_shown({"Ref": "P"}, Parameters={"P": {"Type": "String", **parameter}}))

    with pytest.raises(ClientError, match=f"ValidationError.*{words}"):
        cloudformation.create_stack(StackName="s", TemplateBody=body, Parameters=given)
    assert cloudformation.describe_stacks()["Stacks"] == []


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (
            _named({"Ref": "Never"}),
            r"Template format error: Unresolved resource dependencies \[Never\] in the Reso",
        ),
        (
            _shown({"Fn::If": ["True", {"Ref": "Never"}, "a"]}),
            r": Unresolved resource dependencies \[Never\] in",
        ),
        (_shown({"Fn::If": ["True", "a", {"Ref": "Never"}]}), ""),
    ],
)
def test_what_a_condition_leaves_out_cannot_be_referenced(
    aws: EmbeddedAws, template: dict[str, Any], words: str
) -> None:
    resources = {**template["Resources"], "Never": {**TOPIC, "Condition": "False"}}
    conditions = {"False": {"Fn::Equals": ["a", "b"]}, "True": {"Fn::Not": [{"Condition": "False"}]}}
    more = {"Conditions": conditions, "Outputs": template.get("Outputs", {})}

    with pytest.raises(ClientError, match=rf"ValidationError.*{words}") if words else nullcontext():
        begin(aws, resources, **more)
    if not words:
        assert outputs(aws) == {"Shown": "a"}


def test_parameters_are_shown_as_given_and_kept_in_an_update(aws: EmbeddedAws, cloudformation: Any) -> None:
    aws.client("ssm").put_parameter(Name="/list", Value="a, b", Type="StringList")
    declared = {
        "List": {"Type": "CommaDelimitedList", "Default": "a,b"},
        "Secret": {"Type": "String", "NoEcho": True},
        "Stored": {"Type": "AWS::SSM::Parameter::Value<List<String>>", "Default": "/list"},
    }
    template = {**_topic(), "Parameters": declared}
    given = [{"ParameterKey": "Secret", "ParameterValue": "hush"}]
    cloudformation.create_stack(StackName="s", TemplateBody=json.dumps(template), Parameters=given)
    [stack] = cloudformation.describe_stacks()["Stacks"]
    assert "Outputs" not in stack
    assert stack["Parameters"] == [
        {"ParameterKey": "List", "ParameterValue": "a,b"},
        {"ParameterKey": "Secret", "ParameterValue": "****"},
        {"ParameterKey": "Stored", "ParameterValue": "/list", "ResolvedValue": "a,b"},
    ]

    kept: dict[str, Any] = {
        "StackName": "s",
        "Parameters": [{"ParameterKey": name, "UsePreviousValue": True} for name in declared],
    }
    with pytest.raises(ClientError, match="No updates are to be performed"):
        cloudformation.update_stack(TemplateBody=json.dumps(template), **kept)
    shown = {"Outputs": {"Shown": {"Value": {"Ref": "Secret"}}}}
    cloudformation.update_stack(TemplateBody=json.dumps({**template, **shown}), **kept)

    assert outputs(aws) == {"Shown": "hush"}


_JOINED = {"Fn::Join": ["-", {"Ref": "P"}]}


@pytest.mark.parametrize(
    ("value", "parameter", "shown"),
    [
        (_JOINED, {"Type": "CommaDelimitedList", "Default": "a, b"}, "a-b"),
        (_JOINED, {"Type": "AWS::SSM::Parameter::Value<List<String>>", "Default": "/list"}, "a-b"),
        ({"Fn::Select": [{"Ref": "P"}, ["a", "b"]]}, {"Type": "Number", "Default": 1}, "b"),
        ({"Fn::Select": ["1", {"Fn::GetAZs": {"Ref": "AWS::Region"}}]}, None, "us-east-1b"),
        ({"Fn::Join": ["", ["a", {"Ref": "AWS::NoValue"}, True, 1]]}, None, "atrue1"),
        ({"Fn::Sub": ["${A}${!B}${AWS::Region}", {"A": "${C}"}]}, None, "${C}${B}us-east-1"),
        ({"Fn::GetAtt": "Topic.TopicName"}, None, "t"),
        ({"Fn::If": ["Equal", "yes", "no"]}, {"Type": "Number", "Default": "5"}, "yes"),
        ({"Fn::FindInMap": ["M", {"Ref": "AWS::AccountId"}, "a"]}, None, "found"),
        (True, None, "true"),
    ],
)
def test_a_value_is_evaluated_as_by_cloudformation(
    aws: EmbeddedAws, value: Any, parameter: dict[str, Any] | None, shown: str
) -> None:
    aws.client("ssm").put_parameter(Name="/list", Value="a, b", Type="StringList")
    begin(
        aws,
        {"Topic": {**TOPIC, "Properties": {"TopicName": "t"}}},
        Parameters={"P": parameter or {"Type": "String", "Default": ""}},
        Conditions={"Equal": {"Fn::Equals": [{"Ref": "P"}, "5"]}} if "Equal" in str(value) else {},
        Mappings={"M": {ACCOUNT: {"a": "found"}}},
        Outputs={"Shown": {"Value": value}},
    )

    assert outputs(aws) == {"Shown": shown}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"Fn::Select": [1, ["a"]]}, "Fn::Select cannot select nonexistent value at index 1"),
        ({"Fn::Select": [0, "a"]}, r"Fn::Select has an invalid argument: \[0, 'a'\]"),
        ({"Fn::FindInMap": ["M", "a", "b"]}, "Unable to get mapping for M::a::b"),
        ({"Fn::Join": ["", [["a"]]]}, r'\["a"\] is not a string'),
        ({"Fn::ImportValue": "No"}, "No export named No found"),
    ],
)
def test_a_value_that_cannot_be_evaluated_rolls_the_stack_back(
    aws: EmbeddedAws, value: Any, words: str
) -> None:
    begin(aws, _named(value)["Resources"], Mappings={"M": {"b": {"a": "found"}}})

    assert re.match(rf"ROLLBACK_COMPLETE (Template (format )?error: )?{words}", status(aws))


def _display(name: Any, **more: Any) -> dict[str, Any]:
    return {**TOPIC, "Properties": {"DisplayName": name}, **more}


@pytest.mark.parametrize(
    ("resources", "named"),
    [
        ({"A": _display({"Ref": "B"}), "B": {**TOPIC, "DependsOn": "A"}}, "[A, B]"),
        ({"A": _display({"Fn::GetAtt": "A.TopicName"})}, "[A]"),
    ],
)
def test_resources_that_refer_to_each_other_in_a_circle_are_refused(
    aws: EmbeddedAws, cloudformation: Any, resources: dict[str, Any], named: str
) -> None:
    refused = pytest.raises(ClientError, match=re.escape(f"Circular dependency between resources: {named}"))

    with refused:
        begin(aws, resources)
    with refused:
        deploy_by_change_set(cloudformation, "s", {"Resources": resources})

    assert cloudformation.describe_stacks()["Stacks"] == []


@pytest.mark.parametrize(("verb", "ends"), [("create", "ROLLBACK_COMPLETE"), ("update", "UPDATE_ROLLBACK")])
def test_an_error_outside_of_a_resource_rolls_the_stack_back(aws: EmbeddedAws, verb: str, ends: str) -> None:
    if verb == "update":
        begin(aws, {"Topic": TOPIC})

    begin(aws, {"Other": TOPIC}, Outputs={"Last": {"Value": {"Fn::Select": [5, ["a"]]}}}, verb=verb)

    assert status(aws).startswith(ends)
    assert "nonexistent value at index 5" in status(aws)


def test_a_protected_stack_is_deleted_only_after_its_protection(
    aws: EmbeddedAws, cloudformation: Any
) -> None:
    body = json.dumps({"Resources": {"Topic": TOPIC}})
    cloudformation.create_stack(StackName="s", TemplateBody=body, EnableTerminationProtection=True)
    [stack] = cloudformation.describe_stacks()["Stacks"]
    assert stack["EnableTerminationProtection"]

    with pytest.raises(
        ClientError, match=r"Stack \[s\] cannot be deleted while TerminationProtection is enabled"
    ):
        cloudformation.delete_stack(StackName="s")
    assert status(aws) == "CREATE_COMPLETE"
    changed = cloudformation.update_termination_protection(StackName="s", EnableTerminationProtection=False)
    assert changed["StackId"] == stack["StackId"]
    cloudformation.delete_stack(StackName="s")

    assert cloudformation.describe_stacks()["Stacks"] == []
