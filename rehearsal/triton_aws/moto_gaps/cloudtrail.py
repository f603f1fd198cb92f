"""CloudTrail's record of events.

moto's gap: LookupEvents is not there. The CDK command line asks it for the cause of a failed deployment. An
event is in CloudTrail some minutes after it happened, so a lookup at once gets no events from AWS either.
"""

from __future__ import annotations

from moto.cloudtrail.responses import CloudTrailResponse
from moto.core.responses import ActionResult

from triton_aws.moto_gaps import patch


def _lookup_events(self: CloudTrailResponse) -> ActionResult:  # noqa: ARG001
    return ActionResult({"Events": []})


def install() -> None:
    """Close the gap."""
    patch.add(CloudTrailResponse, lookup_events=_lookup_events)
