"""SQS: queues that invoke functions, and what FIFO queues drop.

moto's gaps:
- It invokes a function in the call that sends a message, before the message's delay is over. Here a queue is
  read once a minute of the clock, and when a test asks; Lambda reads it all the time. A batch of a function
  that fails, or what it reports in `batchItemFailures`, comes back after the visibility timeout.
- A FIFO queue forgets a deduplication id with its message. On AWS it knows it for five minutes.

Read on 2026-11-26:
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html
"""

from __future__ import annotations

import json
import math
from functools import partial
from typing import Any

from moto.awslambda_simple.models import lambda_simple_backends
from moto.sqs.models import DEDUPLICATION_TIME_IN_SECONDS, Message, Queue, sqs_backends

from embedded_aws.functions.runner import Outcome
from embedded_aws.moto_gaps import lambda_, patch
from embedded_aws.moto_gaps.iam import conditions_hold


@patch.replaces(Queue, "add_message")
def _add_message(self: Any, message: Any) -> None:
    if self.fifo_queue and message.deduplication_id:
        known: dict[str, float] = vars(self).setdefault("embedded_aws_sent", {})
        since = message.sent_timestamp - known.get(message.deduplication_id, -math.inf)
        if since < DEDUPLICATION_TIME_IN_SECONDS * 1000:
            return
        known[message.deduplication_id] = message.sent_timestamp
    with self._messages_lock:
        self._messages.append(message)
        self._messages_lock.notify_all()


def send(queue_arn: str, body: str, *, group: str | None, service: str, source_arn: str) -> bool:
    """Send a message if the queue exists and its policy lets a service send it for a source."""
    _, _, _, region, account, name = queue_arn.split(":")
    backend = sqs_backends[account][region]
    queue: Any = backend.queues.get(name)
    if queue is None:
        return False
    statements = json.loads(queue.policy or "{}").get("Statement", ())
    allowed = any(
        each["Effect"] == "Allow"
        and each["Principal"] in ("*", {"Service": service})
        and {"sqs:SendMessage", "sqs:*"}
        & {*([each["Action"]] if isinstance(each["Action"], str) else each["Action"])}
        and conditions_hold(each, {"aws:SourceArn": source_arn})
        for each in statements
    )
    if allowed:
        backend.send_message(queue_name=name, message_body=body, group_id=group)
    return allowed


def deliver(account: str, *, at: float) -> None:
    """Invoke the functions of queues that have messages by then, each with one batch."""
    for region, backend in list(lambda_simple_backends[account].items()):
        for mapping in list(backend._event_source_mappings.values()):
            _, _, service, _, _, name = mapping.event_source_arn.split(":", 5)
            queue: Any = sqs_backends[account][region].queues.get(name) if service == "sqs" else None
            batch = _batch(queue, mapping.batch_size, at * 1000) if queue and mapping.enabled else []
            if batch:
                event = {"Records": [_record(queue, message) for message in batch]}
                end = partial(_end, queue, batch)
                lambda_.start(mapping.function_arn, json.dumps(event).encode(), on_end=end)


def _batch(queue: Any, size: int, now: float) -> list[Message]:
    """Receive messages. Of a group of a FIFO queue, none is received while another one is invisible."""
    busy = {each.group_id for each in queue._messages if queue.fifo_queue and each.visible_at > now}
    due = [
        each
        for each in queue._messages
        if max(each.visible_at, each.delayed_until) <= now and each.group_id not in busy
    ][:size]
    for message in due:
        message.mark_received()
        message.visible_at = now + int(queue.visibility_timeout) * 1000
    return due


def _record(queue: Any, message: Any) -> dict[str, Any]:
    fifo = {"MessageGroupId": message.group_id, "MessageDeduplicationId": message.deduplication_id}
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": {
            "ApproximateReceiveCount": str(message.approximate_receive_count),
            "SentTimestamp": str(message.sent_timestamp),
            "SenderId": message.sender_id,
            "ApproximateFirstReceiveTimestamp": str(message.approximate_first_receive_timestamp),
            **(fifo if queue.fifo_queue else {}),
        },
        "messageAttributes": {},
        "md5OfBody": message.body_md5,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue.queue_arn,
        "awsRegion": queue.region,
    }


def _end(queue: Any, batch: list[Any], outcome: Outcome) -> None:
    """Delete the messages that a function is done with."""
    if outcome.failed:
        return
    answer = json.loads(outcome.payload) or {}
    failed = {each["itemIdentifier"] for each in answer.get("batchItemFailures", ())}
    for message in batch:
        if message.id not in failed:
            queue.delete_message(message.receipt_handle)
