"""The instances of one fleet of an endpoint: which one answers, how many run, and their replacement."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from triton_models.base.errors import FleetError
from triton_models.plan import policy
from triton_rehearsal.hosting.budget import require_room
from triton_rehearsal.hosting.instance import Instance

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The platform's checks of an instance, which is replaced after failures in a row."""

    interval_s: float = 5.0
    failures: int = 6


def choose(instances: Sequence[Instance], target: str, *, at_random: bool = False) -> Instance:
    """Return the instance for a request: see `policy.choose`.

    Any instance is what RoutingStrategy "RANDOM" wants for endpoints with one model.
    """
    if at_random:
        return random.choice(instances)  # noqa: S311  no secret
    requests = [-1 if (busy := each.requests_of(target)) is None else busy for each in instances]
    models = [each.model_count for each in instances]
    return instances[policy.choose(range(len(instances)), requests, models, policy.MANY)]


class InstanceGroup:
    """A number of instances, started, watched and drained in the background."""

    def __init__(self, *, start: Callable[[], Instance], watch: Watch) -> None:
        self._start, self._watch = start, watch
        self._change = threading.Condition()
        self._instances: tuple[Instance, ...] = ()
        self._wanted = self._starting = 0
        self._failure: FleetError | None = None
        self._reported = ""
        self._closed = False
        self._threads: set[threading.Thread] = set()

    @property
    def running(self) -> Sequence[Instance]:
        """The instances that take requests."""
        return [instance for instance in self._instances if instance.server.alive]

    @property
    def busy(self) -> bool:
        """True while an instance starts, runs or drains."""
        return bool(self._threads)

    def resize(self, count: int) -> None:
        """Set the number of instances, unless this machine cannot carry so many.

        Missing ones start, and the newest are drained, in the background.
        """
        with self._change:
            require_room(count - self._wanted)
            self._wanted = count
            surplus, self._instances = self._instances[count:], self._instances[:count]
            self._fill()
        self._end(surplus)

    def wait_for(self, count: int) -> None:
        """Wait until a number of instances take requests, or all if fewer are wanted."""
        with self._change:
            self._failure = None
            self._fill()
            self._change.wait_for(
                lambda: self._failure or self._closed or len(self.running) >= min(count, self._wanted)
            )
            if self._failure is not None and len(self.running) < count:
                raise self._failure

    def retire(self) -> None:
        """End all instances after the requests that are in progress. Returns at once."""
        self._end(self._take_all())

    def close(self) -> None:
        """End all instances now, and wait for those that are starting or draining."""
        for instance in self._take_all():
            instance.close()
        with self._change:
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _take_all(self) -> Sequence[Instance]:
        with self._change:
            self._closed, self._wanted = True, 0
            taken, self._instances = self._instances, ()
            self._change.notify_all()
        return taken

    def _fill(self) -> None:
        """Start the missing instances. Called with the lock."""
        for _ in range(self._wanted - self._starting - len(self._instances)):
            self._starting += 1
            self._run(self._add)

    def _add(self) -> None:
        instance, failure, wanted = None, None, False
        try:
            instance = self._start()
        except FleetError as error:
            failure = error
            if str(error) != self._reported:  # it is tried again and again
                self._reported = str(error)
                _log.warning("an instance did not start: %s", error)
        finally:
            with self._change:
                self._starting -= 1
                if instance is not None and (wanted := len(self._instances) < self._wanted):
                    self._instances = (*self._instances, instance)
                self._failure = failure
                self._change.notify_all()
        if instance is not None:
            self._run(self._look_after, instance) if wanted else instance.close()

    def _look_after(self, instance: Instance) -> None:
        """Replace an instance whose server ends, or does not answer a number of checks in a row."""
        unanswered = 0
        while unanswered < self._watch.failures:
            if instance.server.wait_for_end(self._watch.interval_s):
                break
            if instance not in self._instances:
                return
            unanswered = 0 if instance.responds() else unanswered + 1
        with self._change:
            if instance not in self._instances:
                return
            self._instances = tuple(each for each in self._instances if each is not instance)
            self._fill()
        instance.fail("its server did not answer GET /ping" if instance.server.alive else "its server ended")

    def _end(self, instances: Sequence[Instance]) -> None:
        for instance in instances:
            self._run(instance.drain)

    def _run(self, function: Callable[..., None], *arguments: object) -> None:
        """Run a function in a thread, which `close` joins."""

        def run() -> None:
            try:
                function(*arguments)
            finally:
                with self._change:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=run, name="instance", daemon=True)
        self._threads.add(thread)
        thread.start()
