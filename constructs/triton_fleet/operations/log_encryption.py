"""A key of your own for log groups, and for the environment of functions."""

from __future__ import annotations

from aws_cdk import IAspect, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import IConstruct
from jsii import implements

from triton_fleet.endpoint.functions.around_endpoint import EndpointStart
from triton_fleet.parts.arguments.typed import typed


@implements(IAspect)
@typed
class LogEncryption:
    """Encrypts every log group and function of an app, a stack or a construct with a key.

    CloudWatch Logs must be allowed to use the key. A key of the app gets this statement here; the policy of
    an imported one needs it: the principal logs.REGION.amazonaws.com may call kms:Encrypt*, kms:Decrypt*,
    kms:ReEncrypt*, kms:GenerateDataKey* and kms:Describe*. Whoever deploys a function with a key needs
    kms:CreateGrant.

    Log groups that SageMaker creates itself are not of the stack: those of Processing jobs, which all jobs of
    an account share. The endpoint's group is encrypted, whoever created it.

    Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html and
    https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars-encryption.html, read 2026-11-23.

    Example:
        ```python
        Aspects.of(stack).add(LogEncryption(kms.Key.from_key_arn(stack, "LogKey", arn)))
        ```
    """

    def __init__(self, key: kms.IKey) -> None:
        """Let CloudWatch Logs use a symmetric key in the region of the log groups."""
        self._arn = key.key_arn
        stack = Stack.of(key)
        key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="Logs",
                principals=[iam.ServicePrincipal(f"logs.{stack.region}.{stack.url_suffix}")],
                actions=[
                    f"kms:{each}"
                    for each in ("Encrypt*", "Decrypt*", "ReEncrypt*", "GenerateDataKey*", "Describe*")
                ],
                resources=["*"],
                conditions={
                    "ArnLike": {
                        "kms:EncryptionContext:aws:logs:arn": stack.format_arn(service="logs", resource="*")
                    }
                },
            )
        )

    def visit(self, node: IConstruct) -> None:
        """Encrypt a construct, if it is a log group or a function."""
        if isinstance(node, logs.CfnLogGroup):
            node.kms_key_id = self._arn
        elif isinstance(node, lambda_.CfnFunction):
            node.kms_key_arn = self._arn
        elif isinstance(node, EndpointStart):
            node._encrypt(self._arn)
