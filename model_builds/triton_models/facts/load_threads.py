"""The server's threads that load models, and the models that occupy one while they load others.

A Python model that loads the models it calls waits for them in one of the server's loading threads
(--model-load-thread-count, 4 by default), and each of these models needs another one. The front end for
SageMaker loads as many models at the same time as it has request threads. If all loading threads wait, no
model loads again. Seen on Triton 24.10 on 2026-11-24: 20 such models loaded at once with 8 request threads
stop at 8 loading threads, and load with 9.
"""

from __future__ import annotations

REQUEST_THREADS = 64
"""Request threads of an endpoint by default. Triton's default is 8.

A load occupies one while it lasts. If loads occupy all of them, the server answers neither pings, for which
SageMaker waits 2 seconds, nor invocations of models that are loaded. Seen on Triton 24.10 on 2026-11-25: with
8 threads, all wait for 8 loads, and none for 7. Against 8, 64 threads and the threads that load models take
5.5 MiB of memory and no time of an idle CPU.
"""

FEWEST_REQUEST_THREADS = 2
"""With one, every load stops the pings."""

MAX_CALLERS = 3
"""Models of an artifact that may call others. More could stop a server with this project's defaults."""


def fewest_load_threads(request_threads: int) -> int:
    """Return the fewest loading threads of a server that artifacts with the most callers cannot stop."""
    return MAX_CALLERS * request_threads + 1


def load_threads(request_threads: int) -> int:
    """Return the loading threads of an endpoint by default, so that called models also load in parallel."""
    return (MAX_CALLERS + 1) * request_threads
