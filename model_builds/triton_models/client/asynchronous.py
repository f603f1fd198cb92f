"""A client for asyncio, which invokes the models behind an endpoint by name."""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.encoding import Content, Parameters, Tensors
from triton_models.client.batches import Answer, Batch, Gathered, Joining, Progress, Window
from triton_models.client.call import Call, HungError, InvocationError, start
from triton_models.client.client import AT_ONCE, BYTES_AT_ONCE
from triton_models.client.connections import Connections
from triton_models.client.core import AnyClient, Asked
from triton_models.client.service import Request
from triton_models.client.signature import Signature
from triton_models.client.steps import Look, Pause, Send, Step, Steps
from triton_models.client.telemetry import observed
from triton_models.client.wire import SILENCE_S, Response

T = TypeVar("T")

# The most threads that wait for S3, Systems Manager or credentials.
_THREADS = 16


class AsyncClient(AnyClient):
    """The client for asyncio: what `Client` does, in coroutines.

    Its arguments are those of `AnyClient`. It may be used in several event loops, with connections in each.
    A call that is cancelled ends its connection. Close it at the end, or use it as a context manager:

    ```python
    async with AsyncClient(alias="/triton-fleet/TritonFleet/endpoint", repository=url) as client:
        answer = await client.infer(model="minilm", inputs={"TEXT": [["How do I reset my password?"]]})
    ```
    """

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of this event loop that are not in use, and write the signals until now."""
        self._in_loop.connections.close()
        if self._recorder is not None:
            await self._apart(self._recorder.close)

    async def endpoint_name(self) -> str:
        """Return the current endpoint: see `Client.endpoint_name`."""
        return (await self._apart(lambda: self._serving(self._deadline()))).endpoint

    async def target(self) -> ArtifactTarget | None:
        """Return the target of the current endpoint: see `Client.target`."""
        return (await self._apart(lambda: self._serving(self._deadline()))).target

    async def target_model(self, model: str) -> str:
        """Return the artifact that a model's name refers to: see `Client.target_model`."""
        return await self._apart(lambda: self._artifact(model))

    async def signature(self, model: str) -> Signature | None:
        """Return a model's inputs and outputs: see `Client.signature`."""
        return self._names.signature(model, await self.target_model(model))

    async def request_of(self, model: str, inputs: Tensors | None = None) -> tuple[str, Request]:
        """Return a model's artifact and an encoded request: of its build, or with inputs.

        Raises:
            FleetError: The model is unknown, or nothing is known of its inputs.
        """
        return await self._apart(lambda: self._prepared(model, inputs))

    async def infer(
        self,
        *,
        model: str,
        inputs: Tensors,
        outputs: Sequence[str] | None = None,
        content: Content = "binary",
        parameters: Parameters | None = None,
        key: str | None = None,
        deadline_s: float | None = None,
    ) -> Answer:
        """Invoke a model by name: see `Client.infer`."""
        asked = Asked(inputs=inputs, outputs=outputs, content=content, parameters=parameters, key=key)
        return await self._run(*self._steps_of(model, asked, deadline_s))

    async def invoke_target(
        self,
        *,
        target_model: str,
        inputs: Tensors,
        outputs: Sequence[str] | None = None,
        content: Content = "binary",
        parameters: Parameters | None = None,
        deadline_s: float | None = None,
    ) -> Answer:
        """Invoke a specific artifact instead of a name: see `Client.invoke_target`."""
        asked = Asked(inputs=inputs, outputs=outputs, content=content, parameters=parameters)
        return await self._run(*self._steps_to(target_model, asked, deadline_s))

    async def infer_many(
        self,
        *,
        model: str,
        inputs: Iterable[Tensors] | AsyncIterable[Tensors],
        outputs: Sequence[str] | None = None,
        rows: int | None = None,
        at_once: int = AT_ONCE,
        bytes_at_once: int = BYTES_AT_ONCE,
        progress: Progress | None = None,
        deadline_s: float | None = None,
    ) -> AsyncIterator[Answer]:
        """Invoke a model with each of many inputs, and yield their answers in order: see `Client.infer_many`.

        Of an asynchronous stream, each of the inputs is a request of its own unless `rows` is given: a
        request does not wait for the next one.
        """
        streams = isinstance(inputs, AsyncIterable)
        most = rows if rows is not None else 0 if streams else await self._apart(lambda: self._rows(model))
        gathered, window, changed, ended = Gathered(progress), Window(), asyncio.Condition(), False

        async def begin() -> None:
            nonlocal ended
            try:
                async for batch in _batches(inputs, most):
                    async with changed:
                        while window.full(batch, at_once=at_once, bytes_at_once=bytes_at_once):
                            await changed.wait()
                        asked = Asked(inputs=batch.inputs, outputs=outputs)
                        call = self._run(*self._steps_of(model, asked, deadline_s))
                        window.append((batch, asyncio.ensure_future(call)))
                        changed.notify_all()
            finally:
                ended = True
                async with changed:
                    changed.notify_all()

        beginning = asyncio.ensure_future(begin())
        try:
            while True:
                async with changed:
                    await changed.wait_for(lambda: window or ended)
                if not window:
                    break
                batch, task = window[0]
                answer = await task
                async with changed:
                    window.popleft()
                    changed.notify_all()
                for each in gathered.add(batch, answer):
                    yield each
            await beginning  # which raises the error of the inputs
        finally:
            beginning.cancel()
            for _, task in window:
                task.cancel()

    async def warm_up(
        self, models: Iterable[str], *, at_once: int = AT_ONCE, progress: Progress | None = None
    ) -> dict[str, InvocationError]:
        """Load models, and return the errors of those that failed: see `Client.warm_up`."""
        failed: dict[str, InvocationError] = {}
        free, done = asyncio.Semaphore(at_once), 0

        async def load(model: str) -> None:
            nonlocal done
            async with free:
                try:
                    await self._run(*self._warming(model))
                except InvocationError as error:
                    failed[model] = error
            done += 1
            if progress is not None:
                progress(done)

        await asyncio.gather(*map(load, models))
        return failed

    async def _run(self, call: Call, steps: Steps) -> Answer:
        """Take the steps of a call."""
        with observed(call, self._recorder):
            try:
                step = next(steps)
                while True:
                    try:
                        outcome = await self._taken(step, call)
                    except Exception as error:  # noqa: BLE001  the call knows what it means
                        step = steps.throw(error)
                    else:
                        step = steps.send(outcome)
            except StopIteration as end:
                answer: Answer = end.value
                return answer

    async def _taken(self, step: Step, call: Call) -> object:
        if isinstance(step, Look):
            apart = step.waits or (step.computes and self._in_loop.connections.busy)
            return await self._apart(step.find) if apart else step.find()
        if isinstance(step, Pause):
            await self._clock.pause(step.seconds)
            return None
        try:
            return await asyncio.wait_for(self._sent(step, call), min(call.deadline.left_s, SILENCE_S))
        except (asyncio.TimeoutError, TimeoutError):
            if call.deadline.left_s:
                raise ConnectionError(f"no answer within {SILENCE_S:g} s") from None
            raise HungError from None

    async def _sent(self, step: Send, call: Call) -> Response:
        signed = functools.partial(
            self._service.signed,
            step.request,
            endpoint=call.endpoint,
            artifact=call.artifact,
            digest=step.digest,
        )
        path, headers = signed() if self._service.has_credentials else await self._apart(signed)
        return await self._in_loop.connections.send(path, headers, step.request.buffers)

    async def _apart(self, find: Callable[[], T]) -> T:
        """Call a function that waits in a thread of its own."""
        async with self._in_loop.threads:
            found = Future[T]()
            start(find, found)
            return await asyncio.wrap_future(found)

    @property
    def _in_loop(self) -> _InLoop:
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops[loop] = _InLoop(connections=Connections(self._service.route))
        return self._loops[loop]

    @functools.cached_property
    def _loops(self) -> weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _InLoop]:
        return weakref.WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class _InLoop:
    """What belongs to an event loop: its connections, and how many threads may wait for it."""

    connections: Connections
    threads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_THREADS))


async def _batches(inputs: Iterable[Tensors] | AsyncIterable[Tensors], rows: int) -> AsyncIterator[Batch]:
    joining = Joining(rows)
    if isinstance(inputs, AsyncIterable):
        async for each in inputs:
            for batch in joining.add(each):
                yield batch
    else:
        for each in inputs:
            for batch in joining.add(each):
                yield batch
    for batch in joining.rest():
        yield batch
