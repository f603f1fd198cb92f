"""The work of the control plane in every minute of its clock: schedules, alarms and their actions."""

from __future__ import annotations

import logging
import math
import threading

from moto.applicationautoscaling.models import applicationautoscaling_backends

from embedded_aws import clock
from embedded_aws.moto_gaps.cloudwatch import evaluate_alarms
from embedded_aws.moto_gaps.endpoint_update import hosts
from embedded_aws.moto_gaps.scaling import follow_schedules

_MINUTE_S = 60.0
_log = logging.getLogger(__name__)


def evaluate(account: str, *, at: float) -> None:
    """Run the schedules that are due, then evaluate every alarm, and perform actions."""
    for backend in list(applicationautoscaling_backends[account].values()):
        follow_schedules(backend, now=at)
    evaluate_alarms(account, at=at)


class EveryMinute:
    """A thread that evaluates at the end of each minute of the clock, unless its waits are over at once."""

    def __init__(self, account: str) -> None:
        self._account = account
        self._woken = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="every-minute", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Notice that the clock has changed."""
        self._woken.set()

    def close(self) -> None:
        """Stop, after the evaluation that is under way."""
        self._closed = True
        self._woken.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            now = clock.current()
            left = None if math.isinf(now.speed) else now.here(_MINUTE_S - now.time() % _MINUTE_S)
            woken = self._woken.wait(left)
            self._woken.clear()
            if self._closed:
                return
            if not woken:
                try:
                    at = clock.current().time()
                    for host in hosts():  # or the newest minute would lack its last requests
                        host.flush_metrics()
                    evaluate(self._account, at=at)
                except Exception:  # noqa: BLE001  the next minute may go well
                    _log.exception("the evaluation of alarms failed")
