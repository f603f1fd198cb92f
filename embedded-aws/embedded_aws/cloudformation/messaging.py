"""AWS::SNS and AWS::SQS: topics, subscriptions, queues and their policies."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from embedded_aws.cloudformation.request import refuse_unknown
from embedded_aws.cloudformation.resource import (
    AbsentError,
    Call,
    ConfiguredType,
    Identity,
    Properties,
    ResourceType,
    changed_tags,
)

_TOPIC_NAME_LIMIT = 256
_QUEUE_NAME_LIMIT = 80

# The properties of a topic that are attributes under the same name in the API.
_TOPIC_ATTRIBUTES = (
    "DisplayName",
    "KmsMasterKeyId",
    "FifoTopic",
    "ContentBasedDeduplication",
    "SignatureVersion",
    "TracingConfig",
)


class Topic(ConfiguredType):
    """An SNS topic. Its id is its ARN."""

    name = "AWS::SNS::Topic"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the topic with its name and tags."""
        refuse_unknown(properties, {*_TOPIC_ATTRIBUTES, "TopicName", "Tags", "Subscription"})
        name = properties.get("TopicName") or call.unique_name(limit=_TOPIC_NAME_LIMIT)
        arn = call.client("sns").create_topic(Name=name, Tags=list(properties.get("Tags", ())))["TopicArn"]
        return Identity(physical_id=arn, attributes={"TopicArn": arn, "TopicName": name})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Set the attributes that differ, the tags and the subscriptions declared within the topic."""
        sns = call.client("sns")
        for name in _TOPIC_ATTRIBUTES:
            if before.get(name) != after.get(name):
                sns.set_topic_attributes(
                    TopicArn=identity.physical_id,
                    AttributeName=name,
                    AttributeValue=_text(after.get(name, "")),
                )
        put, removed = changed_tags(before, after)
        if put:
            sns.tag_resource(ResourceArn=identity.physical_id, Tags=put)
        if removed:
            sns.untag_resource(ResourceArn=identity.physical_id, TagKeys=removed)
        for subscription in after.get("Subscription", ()):
            if subscription not in before.get("Subscription", ()):
                sns.subscribe(TopicArn=identity.physical_id, **subscription)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the topic."""
        call.client("sns").delete_topic(TopicArn=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the topic."""
        call.client("sns").get_topic_attributes(TopicArn=identity.physical_id)


class Subscription(ResourceType):
    """A subscription to a topic. Its id is its ARN."""

    name = "AWS::SNS::Subscription"

    def create(self, call: Call, properties: Properties) -> Identity:
        """Subscribe."""
        refuse_unknown(properties, {"TopicArn", "Protocol", "Endpoint", "Region", *_SUBSCRIPTION_ATTRIBUTES})
        arn = call.client("sns").subscribe(
            TopicArn=properties["TopicArn"],
            Protocol=properties["Protocol"],
            Endpoint=properties.get("Endpoint", ""),
            Attributes={
                name: _text(properties[name]) for name in _SUBSCRIPTION_ATTRIBUTES if name in properties
            },
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]
        return Identity(physical_id=arn, attributes={"Arn": arn})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Set the attributes that differ."""
        for name in _SUBSCRIPTION_ATTRIBUTES:
            if before.get(name) != after.get(name):
                call.client("sns").set_subscription_attributes(
                    SubscriptionArn=identity.physical_id,
                    AttributeName=name,
                    AttributeValue=_text(after.get(name, "")),
                )
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Unsubscribe."""
        call.client("sns").unsubscribe(SubscriptionArn=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Find the subscription in its topic's list."""
        found = call.client("sns").list_subscriptions_by_topic(TopicArn=properties["TopicArn"])
        if identity.physical_id not in (row["SubscriptionArn"] for row in found["Subscriptions"]):
            msg = f"the topic has no subscription {identity.physical_id}"
            raise AbsentError(msg)


_SUBSCRIPTION_ATTRIBUTES = (
    "DeliveryPolicy",
    "FilterPolicy",
    "FilterPolicyScope",
    "RawMessageDelivery",
    "RedrivePolicy",
    "SubscriptionRoleArn",
)


class Queue(ConfiguredType):
    """An SQS queue. Its id is its URL."""

    name = "AWS::SQS::Queue"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the queue with its name. Only a new queue can become a FIFO queue."""
        refuse_unknown(properties, {*_QUEUE_ATTRIBUTES, "QueueName", "FifoQueue", "Tags"})
        sqs = call.client("sqs")
        name = properties.get("QueueName") or call.unique_name(limit=_QUEUE_NAME_LIMIT)
        fifo = {"FifoQueue": "true"} if _text(properties.get("FifoQueue", False)) == "true" else {}
        url = sqs.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return Identity(physical_id=url, attributes={"Arn": arn, "QueueName": name, "QueueUrl": url})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Set the attributes that differ, and the tags."""
        sqs = call.client("sqs")
        changed = {
            name: _text(after.get(name, default))
            for name, default in _QUEUE_ATTRIBUTES.items()
            if before.get(name) != after.get(name)
        }
        if changed:
            sqs.set_queue_attributes(QueueUrl=identity.physical_id, Attributes=changed)
        put, removed = changed_tags(before, after)
        if put:
            sqs.tag_queue(QueueUrl=identity.physical_id, Tags={tag["Key"]: tag["Value"] for tag in put})
        if removed:
            sqs.untag_queue(QueueUrl=identity.physical_id, TagKeys=removed)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the queue."""
        call.client("sqs").delete_queue(QueueUrl=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the queue."""
        call.client("sqs").get_queue_attributes(QueueUrl=identity.physical_id, AttributeNames=["QueueArn"])


# A queue's attributes with their defaults. Source: SQS API reference, SetQueueAttributes.
_QUEUE_ATTRIBUTES: Mapping[str, Any] = {
    "DelaySeconds": 0,
    "MaximumMessageSize": 262144,
    "MessageRetentionPeriod": 345600,
    "ReceiveMessageWaitTimeSeconds": 0,
    "VisibilityTimeout": 30,
    "RedrivePolicy": "",
    "RedriveAllowPolicy": "",
    "KmsMasterKeyId": "",
    "KmsDataKeyReusePeriodSeconds": 300,
    "SqsManagedSseEnabled": True,
    "ContentBasedDeduplication": False,
    "DeduplicationScope": "",
    "FifoThroughputLimit": "",
}


class _PolicyOfSeveral(ResourceType):
    """A policy document of several topics or queues. Its id is unknown to their service."""

    holders: str

    def create(self, call: Call, properties: Properties) -> Identity:
        """Set the policy of each."""
        for holder in properties[self.holders]:
            self.write(call, holder, json.dumps(properties["PolicyDocument"]))
        name = call.unique_name(limit=_TOPIC_NAME_LIMIT)
        return Identity(physical_id=name, attributes={"Id": name})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Set the policy of each, and remove it from those that left the list."""
        for holder in before[self.holders]:
            if holder not in after[self.holders]:
                self.write(call, holder, "")
        for holder in after[self.holders]:
            self.write(call, holder, json.dumps(after["PolicyDocument"]))
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the policy from each."""
        for holder in properties[self.holders]:
            self.write(call, holder, "")

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Compare the policy of each."""
        for holder in properties[self.holders]:
            if json.loads(self.read(call, holder) or "{}") != properties["PolicyDocument"]:
                msg = f"{holder} has another policy"
                raise AbsentError(msg)

    def write(self, call: Call, holder: str, policy: str) -> None:
        """Set the policy of a topic or queue; an empty string removes it."""
        raise NotImplementedError

    def read(self, call: Call, holder: str) -> str:
        """Return the policy of a topic or queue."""
        raise NotImplementedError


class TopicPolicy(_PolicyOfSeveral):
    """The permissions to publish to topics."""

    name = "AWS::SNS::TopicPolicy"
    holders = "Topics"

    def write(self, call: Call, holder: str, policy: str) -> None:
        """Set a topic's policy; an empty string restores the policy of a new topic."""
        document = policy or json.dumps(_owner_only(holder, call.account))
        call.client("sns").set_topic_attributes(
            TopicArn=holder, AttributeName="Policy", AttributeValue=document
        )

    def read(self, call: Call, holder: str) -> str:
        """Return a topic's policy."""
        policy: str = call.client("sns").get_topic_attributes(TopicArn=holder)["Attributes"]["Policy"]
        return policy


class QueuePolicy(_PolicyOfSeveral):
    """The permissions to send to queues and receive from them."""

    name = "AWS::SQS::QueuePolicy"
    holders = "Queues"

    def write(self, call: Call, holder: str, policy: str) -> None:
        """Set a queue's policy."""
        call.client("sqs").set_queue_attributes(QueueUrl=holder, Attributes={"Policy": policy})

    def read(self, call: Call, holder: str) -> str:
        """Return a queue's policy."""
        answer = call.client("sqs").get_queue_attributes(QueueUrl=holder, AttributeNames=["Policy"])
        policy: str = answer.get("Attributes", {}).get("Policy", "")
        return policy


def _owner_only(topic: str, account: str) -> dict[str, Any]:
    """Return the policy that SNS gives a new topic."""
    actions = (
        "GetTopicAttributes SetTopicAttributes AddPermission RemovePermission "
        "DeleteTopic Subscribe ListSubscriptionsByTopic Publish"
    )
    return {
        "Version": "2008-10-17",
        "Id": "__default_policy_ID",
        "Statement": [
            {
                "Sid": "__default_statement_ID",
                "Effect": "Allow",
                "Principal": {"AWS": "*"},
                "Action": [f"SNS:{action}" for action in actions.split()],
                "Resource": topic,
                "Condition": {"StringEquals": {"AWS:SourceOwner": account}},
            }
        ],
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
