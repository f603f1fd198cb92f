"""A Triton server in a process of its own, which stalls, fails and drops on demand, with its own record."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

import uvloop

METADATA = {"name": "m", "inputs": [{"name": "X", "datatype": "FP32", "shape": [-1, 4]}]}
ANSWER = {"outputs": [{"name": "Y", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
UNKNOWN = {"error": "Request for unknown model: 'other' is not found"}


@dataclass(frozen=True, kw_only=True)
class Behavior:
    """What the server does. Times are in seconds, after the first request."""

    busy_s: float = 0.0  # of each request
    at_once: int = 1_000_000  # more requests wait
    stalls: tuple[tuple[float, float], ...] = ()  # nothing is answered from one time to the other
    fails: tuple[tuple[float, float], ...] = ()  # with status 503
    drops: tuple[tuple[float, float], ...] = ()  # the connection ends
    load_s: float = 0.0  # of the first request


@dataclass
class Recorded:
    """A server, whose record is there at its end."""

    url: str
    record: list[tuple[float, float, str]] = field(default_factory=list)


@contextmanager
def serving(behavior: Behavior, folder: Path) -> Iterator[Recorded]:
    """Yield a server; its record has the arrival, the time and the end of each request."""
    command = [sys.executable, "-m", __name__, json.dumps(asdict(behavior)), str(folder / "record.json")]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        recorded = Recorded(url=f"http://127.0.0.1:{process.stdout.readline().strip()}")
        try:
            yield recorded
        finally:
            process.stdin.close()
            process.wait()
    recorded.record = [tuple(each) for each in json.loads((folder / "record.json").read_text())]


class _Server:
    def __init__(self, behavior: Behavior) -> None:
        self.record: list[tuple[float, float, str]] = []
        self._does = behavior
        self._began = 0.0
        self._free = asyncio.Semaphore(behavior.at_once)

    async def answer(self) -> int:
        """Return the status of a request; 0 ends its connection."""
        arrived = time.perf_counter()
        self._began = self._began or arrived
        status = await self._status(arrived)
        self.record.append((arrived - self._began, time.perf_counter() - arrived, str(status)))
        return status

    async def _status(self, arrived: float) -> int:
        does, at = self._does, arrived - self._began
        if any(start <= at < end for start, end in does.drops):
            return 0
        if any(start <= at < end for start, end in does.fails):
            return 503
        if does.load_s and at < does.load_s:
            await asyncio.sleep(does.load_s - at)
        async with self._free:
            for start, end in does.stalls:
                now = time.perf_counter() - self._began
                if start <= now < end:
                    await asyncio.sleep(end - now)
            if does.busy_s:
                await asyncio.sleep(does.busy_s)
        return 200


class _Connection(asyncio.Protocol):
    def __init__(self, server: _Server) -> None:
        self._server = server
        self._text = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._text += data
        head, end, rest = self._text.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if not end or len(rest) < length:
            return
        self._text = b""
        self._task = asyncio.ensure_future(self._answer(head.decode()))

    async def _answer(self, head: str) -> None:
        if head.startswith("GET"):
            known = "/other" not in head
            self._send(200 if known else 404, METADATA if known else UNKNOWN)
            return
        status = await self._server.answer()
        if status:
            self._send(status, ANSWER if status == 200 else {"error": "busy"})
        else:
            self._transport.abort()

    def _send(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        if not self._transport.is_closing():
            self._transport.write(head.encode() + body)


async def _serve(behavior: Behavior, record: Path) -> None:
    loop, serving = asyncio.get_running_loop(), _Server(behavior)
    server = await loop.create_server(lambda: _Connection(serving), "127.0.0.1", 0, backlog=4096)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    record.write_text(json.dumps(serving.record))


if __name__ == "__main__":
    uvloop.run(_serve(Behavior(**json.loads(sys.argv[1])), Path(sys.argv[2])))
