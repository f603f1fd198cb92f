"""A server in a SageMaker container: its ports, its threads, and its shared memory.

SageMaker sets SAGEMAKER_SAFE_PORT_RANGE, and Triton exits if one of its interfaces, besides that for
SageMaker's own requests, is outside: "The server cannot listen to metrics requests at port 8002, allowed port
range is [23000, 23999]". AWS does not document the range, and it has not always been the same: see the belief
`safe-port-range`.

A Python model that loads the models it calls waits for them in one of the server's loading threads
(--model-load-thread-count, 4 by default), and each of these models needs another one. The front end for
SageMaker loads as many models at the same time as it has request threads. If all loading threads wait, no
model loads again. Seen on Triton 24.10 on 2026-11-24: 20 such models loaded at once with 8 request threads
stop at 8 loading threads, and load with 9.

Each instance of a Python model has its own region of shared memory, /dev/shm (SharedMemoryManager in
src/shm_manager.cc of python_backend, read 2026-11-21). Its initial size is shm-default-byte-size, which
src/python_be.cc requires to be at least 1 MiB. With the start script's 16 MiB, four instances fill a
container. The size of a container's /dev/shm is in issue 2801 of sagemaker-python-sdk and in server issue
4675; it cannot be changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from triton_models.base.checks import Check
from triton_models.base.errors import Problem
from triton_models.facts.limits import PAYLOAD_LIMIT

SAFE_PORTS = range(23000, 24000)
"""The ports that SageMaker allows."""

SAFE_PORT_RANGE = f"{SAFE_PORTS[0]}-{SAFE_PORTS[-1]}"
"""The value of SAGEMAKER_SAFE_PORT_RANGE."""

METRICS_PORT = SAFE_PORTS[0]
"""The port of Triton's metrics, by default."""

GRPC_PORT = SAFE_PORTS[1]
"""The port of Triton's gRPC interface, by default."""

TRITON_PORTS = {"http": 8000, "grpc": 8001, "metrics": 8002}
"""The ports that Triton listens on by default, by interface: none of them is allowed."""


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


CONTAINER_BYTES = 64 << 20
SMALLEST_REGION_BYTES = 1 << 20
_MIB = 1 << 20

PYTHON_SHARED_MEMORY = Check(
    id="python-shared-memory", source="2026-11-21: python_backend, src/shm_manager.cc and src/python_be.cc"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRegions:
    """The shared memory of a Python model's instances, by the bytes of a row and the largest batch.

    A batch is there until it is answered: the inputs and outputs of all its rows. A region that is too small
    for a batch grows by the batch, and never shrinks. So batches of several sizes leave up to about twice the
    largest: seen on Triton 24.10 on 2026-11-26, 25 MiB after batches of 3, 6 and 12 MiB, 46 after 6, 12 and
    24, and 14 after 12 alone.

    Without a batcher, a batch has at most the rows of one request: `rows_of_a_request`. AWS's own example of
    FIL has max_batch_size 882352, and answered 99,000 rows on 2026-11-28.
    """

    count: int
    row: int
    rows: int

    @property
    def each(self) -> int:
        """The bytes of one instance after batches of all sizes."""
        return max(self.row * self.rows * (2 if self.rows > 1 else 1), SMALLEST_REGION_BYTES)


def rows_of_a_request(row: int) -> int:
    """Return how many rows of so many bytes a request of an endpoint can have, as binary tensors."""
    return max(1, PAYLOAD_LIMIT // max(row, 1))


def too_little_shared_memory(models: Mapping[str, PythonRegions], *, where: str) -> Iterator[Problem]:
    """Yield a problem if an artifact's Python models do not fit into a container with full batches."""
    total = sum(model.count * model.each for model in models.values())
    if total > CONTAINER_BYTES:
        parts = (
            f"{model.count} x {math.ceil(model.each / _MIB)} MiB for {name!r}"
            for name, model in models.items()
        )
        what = f"{math.ceil(total / _MIB)} MiB of shared memory for Python models: {', '.join(parts)}"
        why = f"a container's models share {CONTAINER_BYTES // _MIB} MiB, and each instance keeps two batches"
        fix = "use fewer instances, a smaller max_batch_size, or smaller tensors"
        yield PYTHON_SHARED_MEMORY.problem(what=what, where=where, why=why, fix=fix)
