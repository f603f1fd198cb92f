"""boto3 clients of the embedded AWS."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any

_WEB_IDENTITY = "choose-signer.sts.AssumeRoleWithWebIdentity"


class Clients:
    """boto3 clients that reach the embedded AWS and ignore the caller's AWS configuration."""

    def __init__(self, url: str, keys: dict[str, str]) -> None:
        import boto3
        import botocore.session

        nowhere = dict.fromkeys(("config_file", "credentials_file"), (None, None, os.devnull, None))
        hermetic = botocore.session.Session(session_vars={"profile": (None, None, None, None), **nowhere})
        hermetic.register_component("data_loader", _service_models())
        self._session = boto3.Session(botocore_session=hermetic, **keys)
        self._url = url
        self._made: dict[tuple[str, str], Any] = {}
        # A boto3 session must not create clients in two threads at once.
        self._lock = threading.Lock()

    def get(self, service: str, region: str) -> Any:
        from botocore.config import Config

        with self._lock:
            if (service, region) not in self._made:
                # Nothing here fails temporarily: a retry would only hide a failure. Loopback traffic must
                # not go through the caller's proxy.
                config = Config(retries={"total_max_attempts": 1}, proxies={})
                make: Any = self._session.client  # typed per service name, but `service` is any of them
                made = make(service, region_name=region, endpoint_url=self._url, config=config)
                # An SDK does not sign this call, and the door refuses what no key of the run has signed.
                made.meta.events.register_first(_WEB_IDENTITY, lambda **_: "v4")
                self._made[service, region] = made
            return self._made[service, region]

    def close(self) -> None:
        for client in self._made.values():
            client.close()


class _Connected:
    clients: Clients | None = None


def connect(clients: Clients | None) -> None:
    """Set the clients with which services call each other, as AWS's own do; None disconnects them."""
    _Connected.clients = clients


def client(service: str, region: str) -> Any:
    """Return a client of the open embedded AWS."""
    if _Connected.clients is None:
        raise RuntimeError("no embedded AWS is open")
    return _Connected.clients.get(service, region)


@cache
def _service_models() -> Any:
    """The service descriptions, read once per process: some of them are megabytes."""
    import botocore.loaders

    return botocore.loaders.create_loader()
