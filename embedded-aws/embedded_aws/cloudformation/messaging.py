"""AWS::Events, AWS::SNS and AWS::SQS: rules, topics, subscriptions, queues and their policies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from embedded_aws.cloudformation.resource import (
    AbsentError,
    ApiType,
    Call,
    ConfiguredType,
    Identity,
    Properties,
    as_json,
    changed,
    retag,
    true,
    without,
)


class Rule(ConfiguredType):
    """A rule with its targets. Its id is its name, after the bus's name unless that is the default bus."""

    name, service, reads, deletes = "AWS::Events::Rule", "events", "describe_rule", "delete_rule"
    naming, limit = "Name", 64

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        name = identity.physical_id.rsplit("/", 1)[-1]
        bus = {"EventBusName": properties["EventBusName"]} if "EventBusName" in properties else {}
        return {"Name": name, "Rule": name, **bus}

    def begin(self, call: Call, properties: Properties) -> Identity:
        arn = self._put(call, self.named(call, properties), properties)
        return Identity(physical_id=arn.partition(":rule/")[2], attributes={"Arn": arn})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        where = self.where(call, identity, after)
        if before:
            self._put(call, where["Name"], after)
        kept = {target["Id"] for target in after.get("Targets", ())}
        gone = [target["Id"] for target in before.get("Targets", ()) if target["Id"] not in kept]
        if gone:
            call.client("events").remove_targets(**without(where, "Name"), Ids=gone)
        if after.get("Targets"):
            call.ask("events", "put_targets", {**without(where, "Name"), "Targets": after["Targets"]})

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the targets, then the rule: the API requires this order."""
        where = self.where(call, identity, properties)
        targets = self.act(call, "list_targets_by_rule", where)["Targets"]
        if targets:
            ids = [target["Id"] for target in targets]
            call.client("events").remove_targets(**without(where, "Name"), Ids=ids)
        super().delete(call, identity, properties)

    def _put(self, call: Call, name: str, properties: Properties) -> str:
        arn: str = call.ask("events", "put_rule", {**without(properties, "Targets"), "Name": name})["RuleArn"]
        return arn


class Topic(ConfiguredType):
    name, service, keys = "AWS::SNS::Topic", "sns", "TopicArn"
    reads, deletes, naming, limit = "get_topic_attributes", "delete_topic", "TopicName", 256
    attributes = (
        *("DisplayName", "KmsMasterKeyId", "FifoTopic", "ContentBasedDeduplication"),
        *("SignatureVersion", "TracingConfig"),
    )
    supports = f"Subscription {' '.join(attributes)}"

    def begin(self, call: Call, properties: Properties) -> Identity:
        name = self.named(call, properties)
        arn = call.client("sns").create_topic(Name=name, Tags=list(properties.get("Tags", ())))["TopicArn"]
        return Identity(physical_id=arn, attributes={"TopicArn": arn, "TopicName": name})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        sns, topic = call.client("sns"), identity.physical_id
        for name in self.attributes:
            if before.get(name) != after.get(name):
                value = as_json(after.get(name, ""))
                sns.set_topic_attributes(TopicArn=topic, AttributeName=name, AttributeValue=value)
        retag(sns, before, after, ResourceArn=topic)
        for subscription in after.get("Subscription", ()):
            if subscription not in before.get("Subscription", ()):
                sns.subscribe(TopicArn=topic, **subscription)


class Subscription(ApiType):
    name, service = "AWS::SNS::Subscription", "sns"
    reads, lists, deletes = "list_subscriptions_by_topic", "Subscriptions", "unsubscribe"
    attributes = (
        *("DeliveryPolicy", "FilterPolicy", "FilterPolicyScope", "RawMessageDelivery", "RedrivePolicy"),
        "SubscriptionRoleArn",
    )
    supports = f"TopicArn Protocol Endpoint Region {' '.join(attributes)}"

    def where(self, call: Call, identity: Identity, properties: Properties) -> dict[str, Any]:
        return {"SubscriptionArn": identity.physical_id, "TopicArn": properties["TopicArn"]}

    def create(self, call: Call, properties: Properties) -> Identity:
        self.check(properties)
        arn = call.client("sns").subscribe(
            TopicArn=properties["TopicArn"],
            Protocol=properties["Protocol"],
            Endpoint=properties.get("Endpoint", ""),
            Attributes={name: as_json(properties[name]) for name in self.attributes if name in properties},
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]
        return Identity(physical_id=arn, attributes={"Arn": arn})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        for name in sorted(changed(before, after).intersection(self.attributes)):
            call.client("sns").set_subscription_attributes(
                SubscriptionArn=identity.physical_id,
                AttributeName=name,
                AttributeValue=as_json(after.get(name, "")),
            )
        return identity


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


class Queue(ConfiguredType):
    name, service, keys = "AWS::SQS::Queue", "sqs", "QueueUrl"
    reads, deletes = "get_queue_attributes", "delete_queue"
    naming, limit, supports = "QueueName", 80, f"FifoQueue {' '.join(_QUEUE_ATTRIBUTES)}"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the queue with its name. Only a new queue can become a FIFO queue."""
        sqs, given = call.client("sqs"), properties.get(self.naming)
        fifo = {"FifoQueue": "true"} if true(properties.get("FifoQueue", False)) else {}
        ending = ".fifo" if fifo else ""
        name = given or f"{call.unique_name(limit=self.limit - len(ending))}{ending}"
        url = sqs.create_queue(QueueName=name, Attributes=fifo)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return Identity(physical_id=url, attributes={"Arn": arn, "QueueName": name, "QueueUrl": url})

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        sqs, differing = call.client("sqs"), changed(before, after) & _QUEUE_ATTRIBUTES.keys()
        if differing:
            attributes = {name: as_json(after.get(name, _QUEUE_ATTRIBUTES[name])) for name in differing}
            sqs.set_queue_attributes(QueueUrl=identity.physical_id, Attributes=attributes)
        retag(sqs, before, after, tag="tag_queue", untag="untag_queue", QueueUrl=identity.physical_id)


class _PolicyOfSeveral(ApiType):
    """A policy document of several topics or queues. Its id is unknown to their service."""

    holders: str

    def create(self, call: Call, properties: Properties) -> Identity:
        name = call.unique_name()
        self.update(call, Identity(physical_id=name), {self.holders: []}, properties)
        return Identity(physical_id=name, attributes={"Id": name})

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        for holder in before[self.holders]:
            if holder not in after[self.holders]:
                self.write(call, holder, "")
        for holder in after[self.holders]:
            self.write(call, holder, json.dumps(after["PolicyDocument"]))
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        for holder in properties[self.holders]:
            self.write(call, holder, "")

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        for holder in properties[self.holders]:
            if json.loads(self.read(call, holder) or "{}") != properties["PolicyDocument"]:
                raise AbsentError(f"{holder} has another policy")

    def write(self, call: Call, holder: str, policy: str) -> None:
        """Set the policy of a topic or queue; an empty string removes it."""
        raise NotImplementedError

    def read(self, call: Call, holder: str) -> str:
        raise NotImplementedError


class TopicPolicy(_PolicyOfSeveral):
    name, holders = "AWS::SNS::TopicPolicy", "Topics"

    def write(self, call: Call, holder: str, policy: str) -> None:
        """Set a topic's policy; an empty string restores the policy of a new topic."""
        document = policy or json.dumps(_owner_only(holder, call.account))
        call.client("sns").set_topic_attributes(
            TopicArn=holder, AttributeName="Policy", AttributeValue=document
        )

    def read(self, call: Call, holder: str) -> str:
        return str(call.client("sns").get_topic_attributes(TopicArn=holder)["Attributes"]["Policy"])


class QueuePolicy(_PolicyOfSeveral):
    name, holders = "AWS::SQS::QueuePolicy", "Queues"

    def write(self, call: Call, holder: str, policy: str) -> None:
        call.client("sqs").set_queue_attributes(QueueUrl=holder, Attributes={"Policy": policy})

    def read(self, call: Call, holder: str) -> str:
        answer = call.client("sqs").get_queue_attributes(QueueUrl=holder, AttributeNames=["Policy"])
        return str(answer.get("Attributes", {}).get("Policy", ""))


def _owner_only(topic: str, account: str) -> dict[str, Any]:
    actions = (
        "GetTopicAttributes SetTopicAttributes AddPermission RemovePermission "
        "DeleteTopic Subscribe ListSubscriptionsByTopic Publish"
    )
    statement = {
        "Sid": "__default_statement_ID",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": [f"SNS:{action}" for action in actions.split()],
        "Resource": topic,
        "Condition": {"StringEquals": {"AWS:SourceOwner": account}},
    }
    return {"Version": "2008-10-17", "Id": "__default_policy_ID", "Statement": [statement]}


TYPES = (Queue(), QueuePolicy(), Rule(), Subscription(), Topic(), TopicPolicy())
