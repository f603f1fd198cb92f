"""The instances of one endpoint: those that serve, and those of a deployment in progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from triton_rehearsal.assumptions import holds
from triton_rehearsal.hosting.instance import Instance
from triton_rehearsal.hosting.metrics import Source, Usage
from triton_rehearsal.hosting.runtime_api import ApiError
from triton_rehearsal.hosting.variant import Fleets, Variant

_NEVER = float("-inf")


class EndpointSlot:
    """Keeps the instances of an endpoint in line with its deployment.

    Args:
        look_up: Reads the endpoint's deployment, given the last one.
        start: Starts the instance of a fleet.
        lookup_s: Seconds for which a description is used.
    """

    def __init__(
        self,
        *,
        look_up: Callable[[Fleets | None], Fleets],
        start: Callable[[Variant], Instance],
        lookup_s: float,
    ) -> None:
        self._look_up, self._start, self._lookup_s = look_up, start, lookup_s
        self._lock = threading.Lock()
        self._fleets: Fleets | None = None
        self._looked_up = _NEVER
        self._instances: dict[Source, Instance] = {}
        self._owed = 0.0
        self._closed = False
        self._retiring: list[threading.Thread] = []

    def take(self) -> tuple[Variant, Instance]:
        """Return the variant for the next request, and its running instance.

        A new endpoint configuration gets a new instance without loaded models, and so does one whose server
        has died. The old instance finishes its requests.
        """
        with self._lock:
            self._refuse_closed()
            variant = self._next(self._current())
            return variant, self._running(variant)

    def take_now(self) -> tuple[Variant, Instance] | None:
        """Return what `take` returns, or None if it would have to wait or look something up."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            known = self._fleets
            if self._closed or known is None or time.monotonic() - self._looked_up >= self._lookup_s:
                return None
            owed, variant = self._owed, self._next(known)
            instance = self._instances.get(variant.source)
            if instance is None or not instance.alive:
                self._owed = owed
                return None
            return variant, instance
        finally:
            self._lock.release()

    def launch(self, variant: Variant) -> None:
        """Start a fleet's instance next to the serving one. Requests continue meanwhile.

        Raises:
            ApiError: The hosting is closing.
            FleetError: The fleet's server does not start.
        """
        instance = self._start(variant)
        with self._lock:
            if self._closed:
                instance.close()
            self._refuse_closed()
            if variant.source in self._instances:
                self._retire(variant.source)  # from an earlier deployment whose end was not noticed
            self._instances[variant.source] = instance

    def refresh(self) -> None:
        """Read the endpoint's deployment again before the next request."""
        self._looked_up = _NEVER

    def usage(self) -> dict[Source, Usage]:
        """Return the usage of the running instances."""
        running = tuple(self._instances.items())
        return {fleet: instance.usage() for fleet, instance in running if instance.alive}

    def close(self) -> None:
        """End all instances, including old ones that still finish requests."""
        with self._lock:
            self._closed = True
            for instance in self._instances.values():
                instance.close()
            self._instances.clear()
            for thread in self._retiring:
                thread.join()

    def _next(self, fleets: Fleets) -> Variant:
        """Return the fleet for the next request. The green fleet's share is spread evenly over requests."""
        if fleets.green is None:
            return fleets.blue
        self._owed += fleets.share
        if self._owed < 1.0:
            return fleets.blue
        self._owed -= 1.0
        return fleets.green

    def _running(self, variant: Variant) -> Instance:
        fleet = variant.source
        if fleet in self._instances and not self._instances[fleet].alive:
            self._retire(fleet)
        if fleet not in self._instances:
            self._instances[fleet] = self._start(variant)
        return self._instances[fleet]

    def _current(self) -> Fleets:
        known, age = self._fleets, time.monotonic() - self._looked_up
        if known is not None and age < self._lookup_s:
            return known
        self._looked_up = time.monotonic()
        try:
            self._fleets = self._look_up(known)
        except ApiError:
            self._fleets = None
            self._keep(())
            raise
        if self._fleets.green is None:
            self._owed = 0.0
        self._keep(self._fleets.variants)
        return self._fleets

    def _keep(self, variants: tuple[Variant, ...]) -> None:
        """Retire the instances of all other fleets."""
        kept = {variant.source for variant in variants}
        for fleet in [each for each in self._instances if each not in kept]:
            self._retire(fleet)

    def _retire(self, fleet: Source) -> None:
        instance = self._instances.pop(fleet)

        def finish() -> None:
            if instance.alive and holds("old_endpoint_deletion"):
                instance.wait_until_idle()
            instance.close()

        thread = threading.Thread(target=finish, name="retire", daemon=True)
        self._retiring = [*(other for other in self._retiring if other.is_alive()), thread]
        thread.start()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise closing()


def closing() -> ApiError:
    """Return the error for a request that arrives too late."""
    return ApiError(503, "ServiceUnavailable", "The hosting is closing.")
