from __future__ import annotations

from aws_cdk import Aspects, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from synthesised import Resources

from triton_fleet import LogEncryption, ModelRepository, MultiModelEndpoint


def test_a_key_of_the_app_lets_cloudwatch_logs_use_it(stack: Stack, resources: Resources) -> None:
    key = kms.Key(stack, "Key")
    logs.LogGroup(stack, "Logs")
    Aspects.of(stack).add(LogEncryption(key))
    [made] = resources("AWS::KMS::Key")
    [allowed] = [each for each in made["KeyPolicy"]["Statement"] if each.get("Sid") == "Logs"]
    [group] = resources("AWS::Logs::LogGroup")

    assert "logs." in str(allowed["Principal"]["Service"])
    assert "kms:EncryptionContext:aws:logs:arn" in allowed["Condition"]["ArnLike"]
    assert group["KmsKeyId"] == {"Fn::GetAtt": [stack.get_logical_id(key.node.default_child), "Arn"]}  # type: ignore[arg-type]


def test_the_endpoints_own_log_group_gets_it_from_the_function_that_makes_it(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    key = kms.Key.from_key_arn(stack, "Given", "arn:aws:kms:us-east-1:123456789012:key/1234abcd")
    MultiModelEndpoint(stack, "Endpoint", repository=repository)
    Aspects.of(stack).add(LogEncryption(key))
    [start] = resources("Custom::TritonEndpointStart")
    statements = [
        each for policy in resources("AWS::IAM::Policy") for each in policy["PolicyDocument"]["Statement"]
    ]
    [allowed] = [each for each in statements if each.get("Sid") == "LogGroupKey"]

    assert start["KmsKeyId"] == key.key_arn
    assert allowed["Action"] == "logs:AssociateKmsKey"
