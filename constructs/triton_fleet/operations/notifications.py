"""The destination of alarms: an encrypted topic that only this account's CloudWatch alarms may write to."""

from __future__ import annotations

import re

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Check, Report

EMAIL_ADDRESS = Check(
    id="email-address",
    source="2026-11-21: https://docs.aws.amazon.com/sns/latest/dg/sns-email-notifications.html",
)


@typed
class AlarmTopic(Construct):
    """An SNS topic that sends alarms by e-mail.

    Attributes:
        topic: The topic; add subscriptions of any other kind to it.
        key: Encrypts it. SNS's own key cannot be used: CloudWatch is not allowed to use that one.
    """

    def __init__(self, scope: Construct, construct_id: str, *, email: str) -> None:
        """Create the topic and subscribe an address, which SNS asks to confirm before the first alarm."""
        super().__init__(scope, construct_id)
        report = Report(self.node.path)
        email_address(report.at("email"), known(email))
        report.raise_if_any()
        cloudwatch = iam.ServicePrincipal(
            "cloudwatch.amazonaws.com",
            conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
        )
        self.key = kms.Key(
            self,
            "Key",
            description="Encrypts alarm notifications",
            enable_key_rotation=True,
            removal_policy=RemovalPolicy.DESTROY,  # it encrypts nothing that outlives the topic
        )
        self.key.grant(cloudwatch, "kms:Decrypt", "kms:GenerateDataKey")
        self.topic = sns.Topic(self, "Topic", master_key=self.key, enforce_ssl=True)
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[cloudwatch], actions=["sns:Publish"], resources=[self.topic.topic_arn]
            )
        )
        self.topic.add_subscription(subscriptions.EmailSubscription(email))


def email_address(report: Report, address: str | None) -> None:
    """Report problems with an address; None if it is known only at deployment."""
    if address is None or re.fullmatch(r"[^@\s]+@[^@\s]+", address):
        return
    report(
        EMAIL_ADDRESS,
        f"the address is {address[:60]!a}",
        fix="use an address such as oncall@example.com",
        why="SNS refuses the subscription, and no one would get an alarm",
    )
