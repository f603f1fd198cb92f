"""The queue of an asynchronous endpoint, and the work on its requests.

An instance gets as many requests at one time as MaxConcurrentInvocationsPerInstance allows. Without an
instance requests wait; auto scaling starts one, as HasBacklogWithoutCapacity is 1 then.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from embedded_aws import current_clock
from triton_models.base.errors import FleetError
from triton_rehearsal.hosting.async_requests import AsyncSettings, Job
from triton_rehearsal.hosting.async_results import Notifier, Outcome, read, store
from triton_rehearsal.hosting.endpoint_slot import Taken
from triton_rehearsal.hosting.instance import EndingError, Instance, Invoked
from triton_rehearsal.hosting.metrics import Backlog, Event, Processed, Source
from triton_rehearsal.hosting.runtime_api import ApiError
from triton_rehearsal.hosting.single_model import SingleModelInstance
from triton_rehearsal.hosting.variant import Variant

_log = logging.getLogger(__name__)

_CLIENT_ERRORS = range(400, 500)


class AsyncQueue:
    """The requests of one endpoint that wait or are worked on.

    Args:
        look: Returns the endpoint's variant and its instances, without waiting for one.
        client: Returns the boto3 client of a service.
        report: Called with every event that has a metric.
        poll_s: Seconds between two looks for an instance while requests wait.
    """

    def __init__(
        self,
        *,
        look: Callable[[], Taken],
        client: Callable[[str], Any],
        report: Callable[[Source, Event], None],
        poll_s: float,
    ) -> None:
        self._look, self._client, self._report, self._poll_s = look, client, report, poll_s
        self._change = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._running: dict[Job, Instance] = {}
        self._threads: set[threading.Thread] = set()
        self._woken = self._closed = False
        self._dispatcher = threading.Thread(target=self._dispatch, name="async-queue", daemon=True)
        self._dispatcher.start()

    def put(self, job: Job) -> None:
        """Add a request."""
        with self._change:
            self._waiting.append(job)
        self._report_backlog()
        self.wake()

    def wake(self) -> None:
        """Look at the endpoint's instances now."""
        with self._change:
            self._woken = True
            self._change.notify_all()

    def backlog(self) -> tuple[Source, Backlog] | None:
        """Return the state of the queue; None if the endpoint is gone."""
        try:
            variant, _ = self._look()
        except (ApiError, FleetError):
            return None
        with self._change:
            jobs = [*self._running, *self._waiting]
            oldest = min((job.received for job in jobs), default=None)
            age = 0.0 if oldest is None else max(0.0, current_clock().time() - oldest)
            return variant.source, Backlog(requests=len(jobs), instances=variant.instances, oldest_s=age)

    def stop(self) -> None:
        """Drop all requests. Those that are worked on end with their instances, without a result."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def join(self) -> None:
        """Wait for the end of all work, after the instances have ended."""
        with self._change:
            threads = [self._dispatcher, *self._threads]
        for thread in threads:
            thread.join()

    def _report_backlog(self) -> None:
        found = self.backlog()
        if found is not None:
            self._report(*found)

    def _dispatch(self) -> None:
        """Give requests to instances until the queue is closed."""
        while True:
            with self._change:
                self._change.wait_for(
                    lambda: self._woken or self._closed, self._poll_s if self._waiting else None
                )
                self._woken = False
                if self._closed:
                    return
            try:
                variant, instances = self._look()
            except ApiError:
                with self._change:
                    self._waiting.clear()  # the endpoint is deleted
            except FleetError as error:
                _log.warning("no instance can be started for a queue: %s", error)
            else:
                self._begin(variant, instances)

    def _begin(self, variant: Variant, instances: Sequence[Instance]) -> None:
        settings = variant.asynchronous
        if settings is None:
            return  # replaced by an endpoint that answers at once
        now, expired = current_clock().time(), []
        with self._change:
            for job in [each for each in self._waiting if now - each.received > each.time_to_live_s]:
                self._waiting.remove(job)
                expired.append(job)
            while self._waiting and (instance := self._free(instances, settings)):
                job = self._waiting.popleft()
                self._running[job] = instance
                thread = threading.Thread(
                    target=self._work, args=(job, instance, variant, settings), daemon=True
                )
                self._threads.add(thread)
                thread.start()
        for job in expired:
            reason = f"The request was in the queue for more than {job.time_to_live_s:.0f} seconds."
            self._end(job, Outcome(status="Expired", reason=reason), variant, settings)

    def _free(self, instances: Sequence[Instance], settings: AsyncSettings) -> SingleModelInstance | None:
        """Return the instance with the fewest requests, if it may get another one."""
        working = list(self._running.values())
        single = [each for each in instances if isinstance(each, SingleModelInstance)]
        least = min(single, key=working.count, default=None)
        return least if least is not None and working.count(least) < settings.concurrency else None

    def _work(
        self, job: Job, instance: SingleModelInstance, variant: Variant, settings: AsyncSettings
    ) -> None:
        """Answer a request. Runs in its own thread."""
        try:
            outcome, invoked = self._invoke(job, instance)
            self._end(job, outcome, variant, settings, invoked)
        except EndingError:
            with self._change:
                self._waiting.appendleft(job)
        finally:
            with self._change:
                self._running.pop(job, None)
                self._threads.discard(threading.current_thread())
            self.wake()
        self._report_backlog()

    def _invoke(self, job: Job, instance: SingleModelInstance) -> tuple[Outcome, Invoked | None]:
        try:
            body = read(job, self._client("s3"))
        except (ClientError, BotoCoreError) as error:
            reason = f"ClientError: Failed to download the request at {job.input}: {error}"
            return Outcome(status="Failed", reason=reason), None
        invoked = instance.invoke("", body=body, headers=job.headers, limit_s=job.time_limit_s)
        answer = invoked.answer
        if answer.ok:
            return Outcome(status="Completed", answer=answer), invoked
        side = "client" if answer.status in _CLIENT_ERRORS else "server"
        reason = (
            f"ClientError: Received {side} error ({answer.status}) from model. See the SageMaker Endpoint "
            "logs in your account for more information."
        )
        return Outcome(status="Failed", answer=answer, reason=reason), invoked

    def _end(
        self,
        job: Job,
        outcome: Outcome,
        variant: Variant,
        settings: AsyncSettings,
        invoked: Invoked | None = None,
    ) -> None:
        """Write the result of a request, and send notice of it, unless the hosting ends."""
        with self._change:
            if self._closed:
                return
        try:
            store(job, outcome, self._client("s3"))
        except (ClientError, BotoCoreError) as error:
            reason = f"ClientError: Failed to upload the result: {error}"
            outcome = Outcome(status="Failed", answer=outcome.answer, reason=reason)
        event = Processed(
            status=invoked.answer.status if invoked else None,
            model_s=invoked.model_s if invoked else None,
            failed=not outcome.completed,
        )
        self._report(variant.source, event)
        notifier = Notifier(endpoint=variant.endpoint, region=variant.region, sns=lambda: self._client("sns"))
        notifier.send(job, outcome, settings)
