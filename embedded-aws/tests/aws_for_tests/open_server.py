"""moto's server with the gaps closed, but without the embedded AWS's access control and stacks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from moto.moto_server.threaded_moto_server import ThreadedMotoServer

from aws_for_tests.clocks import Clock, clock_is
from embedded_aws.moto_gaps import close_gaps


@contextmanager
def open_server() -> Iterator[str]:
    """Serve on a free port of this machine, with waits that are over at once. Yields the URL."""
    close_gaps()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    with clock_is(Clock(speed=math.inf)):
        server.start()
        try:
            yield f"http://localhost:{server.get_host_and_port()[1]}"
        finally:
            server.stop()
