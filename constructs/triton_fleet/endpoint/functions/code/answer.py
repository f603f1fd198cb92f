"""The answer to CloudFormation, which waits for it at the ResponseURL of its request.

It is part of the functions that import it: they get its text in the place of the import. It imports nothing
but Python.

Source, read on 2026-11-21:
https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html
"""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Mapping
from typing import Any

# In bytes; CloudFormation takes 4096 for the answer, of which names and data need some.
LONGEST_REASON = 2500

logger = logging.getLogger(__name__)


def put_answer(
    event: Mapping[str, Any],
    *,
    failure: str = "",
    physical_id: str = "",
    data: Mapping[str, str] | None = None,
    longest_reason: int = LONGEST_REASON,
) -> None:
    """Put the answer where CloudFormation looks for it. After an error here Lambda invokes this once more.

    Args:
        event: The request.
        failure: The reason for the failure; empty if it succeeded.
        physical_id: The id of the created resource. By default the previous id: another id makes
            CloudFormation delete the resource of that id.
        data: The values for Fn::GetAtt.
        longest_reason: Bytes of the failure that are sent.
    """
    answer = {
        "Status": "FAILED" if failure else "SUCCESS",
        "Reason": failure.encode()[:longest_reason].decode(errors="ignore"),
        "PhysicalResourceId": physical_id or event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        **({"Data": dict(data)} if data else {}),
    }
    logger.info("Answering %s %s", answer["Status"], answer["Reason"])
    request = urllib.request.Request(  # noqa: S310 -- the URL is CloudFormation's own
        event["ResponseURL"],
        data=json.dumps(answer, ensure_ascii=False).encode(),
        method="PUT",
        headers={"Content-Type": ""},  # the URL is signed for an empty one
    )
    with urllib.request.urlopen(request, timeout=30):  # noqa: S310
        pass
