"""HTTP over a Unix socket, which only the user who owns it can open."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection


class UnixSocketPool(urllib3.HTTPConnectionPool):
    """Connections to a server at a Unix socket, used like connections to a TCP port."""

    def __init__(self, path: Path, *, connections: int = 1) -> None:
        super().__init__("localhost", maxsize=connections, block=False, retries=False)
        self._path = path

    def _new_conn(self) -> _UnixSocketConnection:
        self.num_connections += 1
        return _UnixSocketConnection(self._path, host=self.host)


class _UnixSocketConnection(HTTPConnection):
    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(**options)
        self._path = path

    def connect(self) -> None:
        """Connect through the open folder: a socket's path is limited to 107 bytes, a folder's is not."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = -1
        try:
            made.settimeout(self.timeout)
            folder = os.open(self._path.parent, os.O_PATH)
            made.connect(f"/proc/self/fd/{folder}/{self._path.name}")
        except BaseException:
            made.close()
            raise
        finally:
            if folder >= 0:
                os.close(folder)
        self.sock = made
