"""An instance of a single-model endpoint. The model is there, and loaded, before the first request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from triton_rehearsal.hosting.instance import EndingError, Instance, Invoked, Setup
from triton_rehearsal.triton.contract import INVOCATIONS, Answer, NoAnswerError, SingleModelContract


class SingleModelInstance(Instance):
    """A Triton server with one model.

    Raises:
        FleetError: The model cannot be downloaded or loaded, or the Triton server cannot be started.
    """

    _contract: SingleModelContract

    def __init__(self, setup: Setup, *, fill: Callable[[Path], None]) -> None:
        self._users = 0
        super().__init__(setup, fill=fill)
        self._contract = SingleModelContract(self.server.socket)

    @property
    def loaded(self) -> list[str]:
        """The model's name in the server."""
        return [] if self.server.model is None else [self.server.model]

    @property
    def model_count(self) -> int:
        """One."""
        return 1

    def requests_of(self, target: str) -> int:
        """Return the number of requests in progress."""
        del target
        return self._users

    @property
    def _requests(self) -> int:
        return self._users

    def invoke(self, target: str, *, body: bytes, headers: Mapping[str, str]) -> Invoked:
        """Answer a request.

        Raises:
            EndingError: The instance is closing.
        """
        if not self._began():
            raise EndingError(target)
        started = time.monotonic()
        try:
            answer = self._contract.invoke(body=body, headers=headers)
        except NoAnswerError as error:
            answer = Answer(status=0, body=str(error).encode())
        finally:
            self._ended()
        return Invoked(answer=answer, cache_hit=None, model_s=time.monotonic() - started)

    async def invoke_now(self, target: str, *, body: bytes, headers: Mapping[str, str]) -> Invoked | None:
        """Answer a request on the event loop; see `Instance`."""
        del target
        if not self._began():
            return None
        try:
            answer, seconds = await self._invocations.invoke(INVOCATIONS, body=body, headers=headers)
        finally:
            self._ended()
        return Invoked(answer=answer, cache_hit=None, model_s=seconds)

    def _began(self) -> bool:
        with self._change:
            if self._ending:
                return False
            self._users += 1
            return True

    def _ended(self) -> None:
        with self._change:
            self._users -= 1
            self._change.notify_all()
