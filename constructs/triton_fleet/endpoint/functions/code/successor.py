"""The next invocation of a function, which goes on with a request where the time of this one is up.

It is part of the functions that import it: they get its text in the place of the import.
"""

from __future__ import annotations

import json
from typing import Any

import boto3

# What is left of an invocation, in seconds, when it starts the next one.
SPARE_S = 45


class OutOfTimeError(Exception):
    """An invocation has to end before its request can be answered."""


def check_time(context: Any) -> None:
    """Raise if the time of this invocation is up.

    Raises:
        OutOfTimeError: It is.
    """
    if context.get_remaining_time_in_millis() < SPARE_S * 1000:
        raise OutOfTimeError


def invoke_again(event: dict[str, Any], context: Any) -> None:
    """Start the next invocation, with the request and what was noted in it."""
    boto3.client("lambda").invoke(
        FunctionName=context.invoked_function_arn, InvocationType="Event", Payload=json.dumps(event).encode()
    )
