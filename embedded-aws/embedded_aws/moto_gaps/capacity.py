"""Changes of the instance counts and weights of an endpoint's variants, by callers and by auto scaling.

New instances serve one by one, at the times of `ARRIVALS` by `embedded_aws.clock`, and the endpoint is
Updating until the last one. Weights and counts that a change does not name stay. Read on 2026-11-23:
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpointWeightsAndCapacities.html
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from moto.core.utils import utcnow
from moto.sagemaker.exceptions import AWSValidationException
from moto.sagemaker.models import FakeEndpoint, SageMakerModelBackend

from embedded_aws import clock
from embedded_aws.errors import LaunchError
from embedded_aws.moto_gaps.endpoint_update import endpoint_changed, hosts

CHANGE_S = 240.0
"""Seconds on AWS of a change that adds no instance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The time that new instances with an image need until they serve, in seconds on AWS from a change.

    The first one comes after `first_s`, the last one after `last_s`, and the others evenly in between.
    """

    image: str
    first_s: float
    last_s: float

    def times(self, count: int) -> Iterator[float]:
        for number in range(count):
            yield self.first_s + (self.last_s - self.first_s) * number / max(1, count - 1)


# From public records of AWS's own images, which tests/test_public_records.py names. The image decides: it has
# to be pulled. The first row that fits counts.
ARRIVALS = (
    Arrivals(image=r"-cpu\b", first_s=210.0, last_s=270.0),
    Arrivals(image=r"tritonserver:(2[0-3]|24\.0)", first_s=300.0, last_s=600.0),
    Arrivals(image="", first_s=720.0, last_s=900.0),
)

# The fields of a described variant for each field of a change: what is wanted, and what serves.
_FIELDS = {
    "DesiredWeight": ("DesiredWeight", "CurrentWeight"),
    "DesiredInstanceCount": ("DesiredInstanceCount", "CurrentInstanceCount"),
}


def change_capacity(
    backend: SageMakerModelBackend,
    endpoint_name: str,
    desired_weights_and_capacities: Sequence[Mapping[str, Any]],
    then: Callable[[str | None], None] | None = None,
) -> str:
    changes = desired_weights_and_capacities
    endpoint: Any = backend.endpoints.get(endpoint_name)
    if endpoint is None:
        arn = FakeEndpoint.arn_formatter(endpoint_name, backend.account_id, backend.region_name)
        raise AWSValidationException(f'Could not find endpoint "{arn}".')
    refuse_in_progress(endpoint)
    _refuse_variants(endpoint, [str(change["VariantName"]) for change in changes])
    _show(endpoint, changes, current=False)
    endpoint.endpoint_status = "Updating"
    endpoint_changed(backend, endpoint, "UPDATING")
    _refresh(endpoint)
    change = _Change(backend, endpoint, changes, then)
    if clock.current().here(CHANGE_S) or hosts():
        threading.Thread(target=change.run, name="capacity", daemon=True).start()
    else:
        change.run()
    return str(endpoint.arn)


def refuse_in_progress(endpoint: Any) -> None:
    if endpoint.endpoint_status != "InService":
        raise AWSValidationException(f'Cannot update in-progress endpoint "{endpoint.arn}".')


def _refuse_variants(endpoint: Any, names: Sequence[str]) -> None:
    known = {variant["VariantName"] for variant in endpoint.production_variants}
    for name in names:
        if names.count(name) > 1:
            raise AWSValidationException(f'The variant name "{name}" was non-unique within the request.')
        if name not in known:
            raise AWSValidationException(
                f'The variant name(s) "{name}" is/are not present within endpoint configuration '
                f'"{endpoint.endpoint_config_name}".'
            )


class _Change:
    def __init__(
        self,
        backend: SageMakerModelBackend,
        endpoint: Any,
        changes: Sequence[Mapping[str, Any]],
        then: Callable[[str | None], None] | None,
    ) -> None:
        self._backend, self._endpoint, self._changes, self._then = backend, endpoint, changes, then
        self._started = time.monotonic()
        # At the speed that the clock has now.
        self._arrivals = sorted(self._planned())
        self._least = 0.0 if self._arrivals else clock.current().here(CHANGE_S)

    def run(self) -> None:
        """Start the new instances at their times, then show the rest. The status is set last."""
        try:
            self._add()
        except LaunchError as error:
            self._end(str(error))
        else:
            self._end(None)

    def _add(self) -> None:
        """Start the new instances, each of which serves and counts at once, and wait for the end."""
        endpoint = self._endpoint
        serving = {each["VariantName"]: _count(each) for each in endpoint.production_variants}
        for seconds, group in groupby(self._arrivals, key=lambda each: each[0]):
            self._wait(seconds)
            if self._gone:
                return
            come = [name for _, name in group]
            for name in come:
                serving[name] += 1
            counts = {name: serving[name] for name in come}
            for host in hosts():
                host.scale(endpoint.endpoint_name, counts)
            shown = [{"VariantName": name, "DesiredInstanceCount": count} for name, count in counts.items()]
            _show(endpoint, shown, current=True)
            _refresh(endpoint)
        self._wait(self._least)

    def _planned(self) -> Iterator[tuple[float, str]]:
        """Yield the wall clock's seconds to each new instance, with its variant."""
        variants = {each["VariantName"]: each for each in self._endpoint.production_variants}
        for change in self._changes:
            variant = variants[change["VariantName"]]
            added = int(change.get("DesiredInstanceCount") or 0) - _count(variant)
            for seconds in _arrivals_of(variant).times(max(0, added)):
                yield clock.current().here(seconds), change["VariantName"]

    def _wait(self, seconds: float) -> None:
        time.sleep(max(0.0, self._started + seconds - time.monotonic()))

    @property
    def _gone(self) -> bool:
        return self._backend.endpoints.get(self._endpoint.endpoint_name) is not self._endpoint

    def _end(self, failure: str | None) -> None:
        endpoint = self._endpoint
        if self._gone:
            return
        endpoint.failure_reason = failure
        if failure is None:
            _show(endpoint, self._changes, current=True)
        else:  # what serves is wanted from now on
            kept = [
                {"VariantName": each["VariantName"], "DesiredInstanceCount": each.get("CurrentInstanceCount")}
                for each in endpoint.production_variants
            ]
            _show(endpoint, kept, current=False)
        _refresh(endpoint)
        endpoint.endpoint_status = "InService"
        endpoint_changed(self._backend, endpoint, "IN_SERVICE")
        if self._then is not None:
            self._then(failure)


def _count(variant: Mapping[str, Any]) -> int:
    return int(variant.get("CurrentInstanceCount") or 0)


def _arrivals_of(variant: Mapping[str, Any]) -> Arrivals:
    images = [str(each["SpecifiedImage"]) for each in variant.get("DeployedImages") or ()]
    return next(each for each in ARRIVALS if re.search(each.image, " ".join(images)))


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
