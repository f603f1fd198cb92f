"""Stack operations that can continue after their API call has returned.

CloudFormation answers at once and continues. Here a call returns when the operation is done, after some
tenths of a second, so that clients need not poll. If a resource waits for something outside, such as a custom
resource for its function, the call returns earlier.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_log = logging.getLogger(__name__)

# Receives a function that answers the API call.
Work = Callable[[Callable[[], None]], None]


class Operations:
    """The operations of one embedded AWS."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()

    def run(self, work: Work) -> None:
        """Run the work. Returns when it is done, or when it asks to answer the API call."""
        answered = threading.Event()
        failures: list[Exception] = []

        def operate() -> None:
            try:
                work(answered.set)
            except Exception as error:  # noqa: BLE001 (the caller gets it)
                if answered.is_set():
                    _log.error("a stack operation of the embedded AWS failed", exc_info=error)
                failures.append(error)
            finally:
                answered.set()
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=operate, name="stack-operation", daemon=True)
        with self._lock:
            self._threads.add(thread)
        thread.start()
        answered.wait()
        if failures:
            raise failures[0]

    def join(self) -> None:
        """Wait until every operation has ended."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join()
