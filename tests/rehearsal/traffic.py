"""An application that sends requests during a test."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any

import boto3
from typing_extensions import Self

from embedded_aws import EmbeddedAws
from triton_rehearsal.hosting.service import Hosting

_PAUSE_S = 0.01


class Traffic(ABC):
    """An application that sends one request after the other, in its own thread."""

    def __init__(self) -> None:
        self.asked = 0
        self.pause_s = _PAUSE_S
        self.failures: list[Exception] = []
        self._answers: set[float] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def taken(self) -> set[float]:
        """Return the answers since the last call."""
        seen, self._answers = self._answers, set()
        return seen

    @abstractmethod
    def ask(self) -> float:
        """Send a request and return the answer."""

    def _run(self) -> None:
        while not self._ended.wait(self.pause_s):
            try:
                self._answers.add(self.ask())
            except Exception as error:  # noqa: BLE001  every failure counts
                self.failures.append(error)
            else:
                self.asked += 1


def runtime_of(aws: EmbeddedAws, hosting: Hosting) -> Any:
    """Return an application's client of InvokeEndpoint."""
    return boto3.client(
        "sagemaker-runtime",
        endpoint_url=hosting.url,
        region_name=aws.region,
        aws_access_key_id=aws.door.key,
        aws_secret_access_key="any",
    )
