"""The instances of one endpoint: those that serve, and those of a deployment in progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from triton_models.base.errors import FleetError
from triton_rehearsal.hosting.instance import Instance
from triton_rehearsal.hosting.instance_group import InstanceGroup
from triton_rehearsal.hosting.metrics import Source
from triton_rehearsal.hosting.runtime_api import ApiError
from triton_rehearsal.hosting.variant import Fleets, Variant

_NEVER = float("-inf")

Taken = tuple[Variant, Sequence[Instance]]
"""The variant for a request, and its instances that take requests."""


class EndpointSlot:
    """Keeps the instances of an endpoint in line with its deployment.

    `look_up` reads the deployment, given the last one, which is used for `lookup_s` seconds.
    """

    def __init__(
        self,
        *,
        look_up: Callable[[Fleets | None], Fleets],
        group: Callable[[Variant], InstanceGroup],
        lookup_s: float,
    ) -> None:
        self._look_up, self._group, self._lookup_s = look_up, group, lookup_s
        self._lock = threading.Lock()
        self._fleets: Fleets | None = None
        self._looked_up = _NEVER
        self._groups: dict[Source, InstanceGroup] = {}
        self._retired: list[InstanceGroup] = []
        self._owed = 0.0
        self._scaling = 0
        self._closed = False

    def take(self, *, wait_for: int = 1) -> Taken:
        """Return the variant for the next request, and its instances, once as many take requests, or all.

        A new endpoint configuration gets new instances without loaded models. The old ones finish their
        requests. An ApiError: the endpoint does not exist, or the hosting is closing. A FleetError: an
        instance does not start.
        """
        while True:
            with self._lock:
                if self._closed:
                    raise closing()
                variant = self._next(self._current())
                group = self._groups[variant.source]
            group.wait_for(wait_for)
            running = group.running
            if running:
                return variant, running

    def take_now(self) -> Taken | None:
        """Return what `take` returns, or None if it would have to wait or look something up."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            known = self._fleets
            if self._closed or known is None or time.monotonic() - self._looked_up >= self._lookup_s:
                return None
            owed, variant = self._owed, self._next(known)
            running = self._groups[variant.source].running
            if not running:
                self._owed = owed
                return None
            return variant, running
        finally:
            self._lock.release()

    def launch(self, variant: Variant) -> None:
        """Start a fleet's instances next to those that serve. Requests continue meanwhile."""
        group = self._group(variant)
        try:
            group.resize(variant.instances)
            group.wait_for(variant.instances)
        except FleetError:
            group.close()
            raise
        with self._lock:
            if self._closed:
                group.close()
                raise closing()
            if variant.source in self._groups:
                self._retire(variant.source)  # from an earlier deployment whose end was not noticed
            self._groups[variant.source] = group

    def scale(self, count: int) -> None:
        """Raise the number of serving instances, and wait until the new ones take requests.

        If one does not start, or this machine cannot carry it, the number stays as it was.
        """
        with self._lock:
            if self._closed or self._fleets is None:
                return
            if count <= self._fleets.blue.instances:
                return  # the next look at the deployment drains
            # Until the description has it. Looks at the deployment would drain the new ones.
            self._scaling = count
            group = self._groups[self._fleets.blue.source]
            group.resize(count)
        try:
            group.wait_for(count)
        except FleetError:
            self._scaling = 0
            raise

    def refresh(self) -> None:
        """Read the endpoint's deployment again before the next request."""
        self._looked_up = _NEVER

    def end(self) -> None:
        """End the instances after their current requests. A new endpoint of the same name gets its own."""
        with self._lock:
            self._forget()

    def running(self) -> Iterator[tuple[Source, Instance]]:
        """Yield the running instances, with the fleets they belong to."""
        for fleet, group in tuple(self._groups.items()):
            for instance in group.running:
                yield fleet, instance

    def close(self) -> None:
        """End all instances, including old ones that still finish requests."""
        with self._lock:
            self._closed = True
            groups = [*self._groups.values(), *self._retired]
            self._groups.clear()
        for group in groups:
            group.close()

    def _next(self, fleets: Fleets) -> Variant:
        """Return the fleet for the next request. The green fleet's share is spread evenly over requests."""
        if fleets.green is None:
            return fleets.blue
        self._owed += fleets.share
        if self._owed < 1.0:
            return fleets.blue
        self._owed -= 1.0
        return fleets.green

    def _current(self) -> Fleets:
        known, age = self._fleets, time.monotonic() - self._looked_up
        if known is not None and age < self._lookup_s:
            return known
        self._looked_up = time.monotonic()
        try:
            found = self._look_up(known)
        except ApiError:
            self._forget()
            raise
        if found.green is None:
            self._owed = 0.0
        if found.blue.instances >= self._scaling:
            self._scaling = 0
        wanted = [(found.blue, max(found.blue.instances, self._scaling))]
        if found.green is not None and (found.share or found.green.source in self._groups):
            wanted.append((found.green, found.coming))
        self._keep(wanted)
        self._fleets = found
        return found

    def _forget(self) -> None:
        self._fleets, self._scaling = None, 0
        self._keep(())

    def _keep(self, wanted: Sequence[tuple[Variant, int]]) -> None:
        kept = {variant.source for variant, _ in wanted}
        for fleet in [each for each in self._groups if each not in kept]:
            self._retire(fleet)
        for variant, count in wanted:
            group = self._groups.get(variant.source) or self._group(variant)
            group.resize(count)
            self._groups[variant.source] = group

    def _retire(self, fleet: Source) -> None:
        group = self._groups.pop(fleet)
        group.retire()
        self._retired = [*(other for other in self._retired if other.busy), group]


def closing() -> ApiError:
    """Return the error for a request that arrives too late."""
    return ApiError(503, "ServiceUnavailable", "The hosting is closing.")
