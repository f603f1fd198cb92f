"""Changes of the instance counts and weights of an endpoint's variants, by callers and by auto scaling.

The endpoint is Updating for `CHANGE_S` by `triton_aws.clock`. Weights and counts that a change does not name
stay. Read on 2026-11-23:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moto.core.utils import utcnow
from moto.sagemaker.exceptions import AWSValidationException
from moto.sagemaker.models import FakeEndpoint, SageMakerModelBackend

from triton_aws import clock
from triton_aws.errors import LaunchError
from triton_aws.moto_gaps.endpoint_events import endpoint_changed
from triton_aws.moto_gaps.endpoint_update import hosts

CHANGE_S = 240.0
"""Seconds on AWS from a change to its end. AWS documents only that instances need several minutes."""

# The fields of a described variant for each field of a change: what is wanted, and what serves.
_FIELDS = {
    "DesiredWeight": ("DesiredWeight", "CurrentWeight"),
    "DesiredInstanceCount": ("DesiredInstanceCount", "CurrentInstanceCount"),
}


def change_capacity(
    backend: SageMakerModelBackend,
    endpoint_name: str,
    desired_weights_and_capacities: Sequence[Mapping[str, Any]],
    then: Callable[[], None] | None = None,
) -> str:
    """Change weights and counts of variants, as UpdateEndpointWeightsAndCapacities does.

    Args:
        backend: The SageMaker backend that has the endpoint.
        endpoint_name: The endpoint.
        desired_weights_and_capacities: The changes, as in the request.
        then: Called when the change has ended.

    Returns:
        The endpoint's ARN.

    Raises:
        AWSValidationException: The endpoint or a variant does not exist, or the endpoint is being updated.
    """
    changes = desired_weights_and_capacities
    endpoint: Any = backend.endpoints.get(endpoint_name)
    if endpoint is None:
        arn = FakeEndpoint.arn_formatter(endpoint_name, backend.account_id, backend.region_name)
        msg = f'Could not find endpoint "{arn}".'
        raise AWSValidationException(msg)
    refuse_in_progress(endpoint)
    _refuse_variants(endpoint, [str(change["VariantName"]) for change in changes])
    _show(endpoint, changes, current=False)
    endpoint.endpoint_status = "Updating"
    endpoint_changed(backend, endpoint, "UPDATING")
    _refresh(endpoint)
    seconds = clock.current().here(CHANGE_S)
    if seconds or hosts():
        arguments = (backend, endpoint, changes, seconds, then)
        threading.Thread(target=_finish, args=arguments, name="capacity", daemon=True).start()
    else:
        _finish(backend, endpoint, changes, seconds, then)
    return str(endpoint.arn)


def refuse_in_progress(endpoint: Any) -> None:
    """Refuse to change an endpoint that is being changed.

    Raises:
        AWSValidationException: It is.
    """
    if endpoint.endpoint_status != "InService":
        msg = f'Cannot update in-progress endpoint "{endpoint.arn}".'
        raise AWSValidationException(msg)


def _refuse_variants(endpoint: Any, names: Sequence[str]) -> None:
    known = {variant["VariantName"] for variant in endpoint.production_variants}
    for name in names:
        if names.count(name) > 1:
            msg = f'The variant name "{name}" was non-unique within the request.'
            raise AWSValidationException(msg)
        if name not in known:
            msg = (
                f'The variant name(s) "{name}" is/are not present within endpoint configuration '
                f'"{endpoint.endpoint_config_name}".'
            )
            raise AWSValidationException(msg)


def _finish(
    backend: SageMakerModelBackend,
    endpoint: Any,
    changes: Sequence[Mapping[str, Any]],
    seconds: float,
    then: Callable[[], None] | None,
) -> None:
    """Show the new counts after a time, unless the endpoint is gone. The status is set last."""
    ready_at = time.monotonic() + seconds
    failure = _start_instances(endpoint, changes)
    time.sleep(max(0.0, ready_at - time.monotonic()))
    current: Any = backend.endpoints.get(endpoint.endpoint_name)
    if current is not endpoint:
        return
    endpoint.failure_reason = failure
    if failure is None:
        _show(endpoint, changes, current=True)
    else:
        _show(endpoint, _serving(endpoint), current=False)
    _refresh(endpoint)
    endpoint.endpoint_status = "InService"
    endpoint_changed(backend, endpoint, "IN_SERVICE")
    if then is not None:
        then()


def _start_instances(endpoint: Any, changes: Sequence[Mapping[str, Any]]) -> str | None:
    """Start the missing instances on the hosts. Returns the reason if they do not start."""
    counts = {
        str(change["VariantName"]): int(change["DesiredInstanceCount"])
        for change in changes
        if change.get("DesiredInstanceCount")
    }
    for host in hosts():
        try:
            host.scale(endpoint.endpoint_name, counts)
        except LaunchError as error:
            return str(error)
    return None


def _serving(endpoint: Any) -> list[dict[str, Any]]:
    """Return the change after which an endpoint's variants are wanted as they serve."""
    return [
        {"VariantName": each["VariantName"], "DesiredInstanceCount": each.get("CurrentInstanceCount")}
        for each in endpoint.production_variants
    ]


def _refresh(endpoint: Any) -> None:
    for host in hosts():
        host.refresh(endpoint.endpoint_name)


def _show(endpoint: Any, changes: Sequence[Mapping[str, Any]], *, current: bool) -> None:
    """Set the wanted values, or those that serve, in the endpoint's description."""
    wanted = {change["VariantName"]: change for change in changes}
    endpoint.production_variants = [
        {
            **variant,
            **{
                fields[current]: value
                for name, fields in _FIELDS.items()
                if (value := wanted.get(variant["VariantName"], {}).get(name)) is not None
            },
        }
        for variant in endpoint.production_variants
    ]
    endpoint.last_modified_time = utcnow()
