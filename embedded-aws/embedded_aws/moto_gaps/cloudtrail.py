"""CloudTrail's record of events.

moto's gap: it lacks LookupEvents, which the CDK command line uses to find the cause of a failed deployment.
Events appear in CloudTrail only after some minutes, so an immediate lookup on AWS finds none either.
"""

from __future__ import annotations

from moto.cloudtrail.responses import CloudTrailResponse
from moto.core.responses import ActionResult

from embedded_aws.moto_gaps import patch


def _lookup_events(self: CloudTrailResponse) -> ActionResult:  # noqa: ARG001
    return ActionResult({"Events": []})


def install() -> None:
    """Close the gap."""
    patch.add(CloudTrailResponse, lookup_events=_lookup_events)
