"""The steps of a call, taken in the thread that waits for its answer."""

from __future__ import annotations

from functools import cached_property, partial

from triton_models.base.clock import Clock
from triton_models.client.batches import Answer
from triton_models.client.call import Call, within
from triton_models.client.service import Service
from triton_models.client.sockets import Sockets
from triton_models.client.steps import Look, Pause, Step, Steps
from triton_models.client.telemetry import observed
from triton_models.signals.recorder import Recorder


class Blocking:
    """Takes the steps of calls; safe to use from many threads."""

    def __init__(self, *, service: Service, recorder: Recorder | None, clock: Clock) -> None:
        self._service, self._recorder, self._clock = service, recorder, clock

    @cached_property
    def _sockets(self) -> Sockets:
        return Sockets(self._service.route)

    def run(self, call: Call, steps: Steps) -> Answer:
        """Take the steps of a call."""
        with observed(call, self._recorder):
            try:
                step = next(steps)
                while True:
                    try:
                        outcome = self._taken(step, call)
                    except Exception as error:  # noqa: BLE001  the call knows what it means
                        step = steps.throw(error)
                    else:
                        step = steps.send(outcome)
            except StopIteration as end:
                answer: Answer = end.value
                return answer

    def _taken(self, step: Step, call: Call) -> object:
        if isinstance(step, Look):
            return step.find()
        if isinstance(step, Pause):
            self._clock.wait(step.seconds)
            return None
        service = self._service
        signed = partial(
            service.signed, step.request, endpoint=call.endpoint, artifact=call.artifact, digest=step.digest
        )
        path, headers = signed() if service.has_credentials else within(call.deadline.left_s, signed)
        return self._sockets.send(path, headers, step.request.buffers, deadline=call.deadline)
