"""A client that invokes the models behind an endpoint by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import copy_context

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.encoding import Content, Parameters, Tensors
from triton_models.client.batches import Answer, Gathered, Progress, Window, batches
from triton_models.client.call import InvocationError
from triton_models.client.core import AnyClient, Asked
from triton_models.client.signature import Signature

AT_ONCE = 8
"""The most requests of `infer_many` and `warm_up` at a time."""

BYTES_AT_ONCE = 64 << 20
"""The most bytes of requests of `infer_many` at a time."""


class Client(AnyClient):
    """A client of an endpoint or of the endpoint behind an alias; safe to use from many threads.

    A model's name is resolved for the target of the endpoint: see `ModelRecord.on`. An alias contains
    endpoint and target. Without an alias, the target is an argument, which is optional while each name refers
    to one artifact.

    Alias and manifest are refreshed in the background. A request waits for them only if they have not been
    read yet, the name is new, or the endpoint no longer exists.

    Inputs are held against those in the manifest before anything is sent: names, types, shapes and the batch.

    A request is retried if it is throttled, the endpoint fails (5xx), the connection ends early, or Triton
    does not find a model that it has just loaded. While a model loads, it is retried for `ready_limit_s`.
    There are no attempts after the deadline.

    Create one client per process, as with boto3.

    Its arguments are those of `AnyClient`.
    """

    def close(self) -> None:
        """Write the signals until now, if there are any: a process that ends does so by itself."""
        if self._recorder is not None:
            self._recorder.close()

    @property
    def endpoint_name(self) -> str:
        """The current endpoint.

        Raises:
            FleetError: The alias does not exist or cannot be read.
        """
        return self._serving(self._deadline()).endpoint

    @property
    def target(self) -> ArtifactTarget | None:
        """The target of the current endpoint; None if its alias does not name one.

        Raises:
            FleetError: As `endpoint_name`.
        """
        return self._serving(self._deadline()).target

    def target_model(self, model: str) -> str:
        """Return the artifact that a model's name refers to on the current endpoint.

        Raises:
            FleetError: The model is unknown, has no artifact for the endpoint's target, or the manifest
                cannot be read.
        """
        return self._artifact(model)

    def signature(self, model: str) -> Signature | None:
        """Return a model's inputs and outputs on the current endpoint; None if its build recorded none.

        Raises:
            FleetError: As `target_model`.
        """
        return self._names.signature(model, self._artifact(model))

    def infer(
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
        """Invoke a model by name.

        Args:
            model: The model's name in the repository.
            inputs: A tensor per input of the model, with the batch as first dimension if the model supports
                batching. Strings are arrays of str or bytes. A large array is sent from its memory:
                do not change it meanwhile.
            outputs: The outputs to return; all by default.
            content: The encoding of tensors: "binary" or "json", which is several times larger and slower.
            parameters: Parameters of the request: `priority`, `timeout` in microseconds, or `sequence_id`,
                `sequence_start` and `sequence_end` of a model with sequences. Of a sequence, a request that
                is repeated is a further step: use a client with attempts=1.
            key: During a roll-out, requests with the same key, such as a user, get the same version; without
                one, it is drawn.
            deadline_s: The time limit of this call, in seconds; by default the client's limit.

        Returns:
            The outputs by name, which cannot be changed. Strings are returned as arrays of bytes.

        Raises:
            InvocationError: The request failed: the model, endpoint or alias is unknown, the inputs do not
                fit the model, the endpoint failed, or the deadline expired.
            FleetError: Triton does not support the type of an input, or the deadline is not positive.
        """
        asked = Asked(inputs=inputs, outputs=outputs, content=content, parameters=parameters, key=key)
        return self._blocking.run(*self._steps_of(model, asked, deadline_s))

    def invoke_target(
        self,
        *,
        target_model: str,
        inputs: Tensors,
        outputs: Sequence[str] | None = None,
        content: Content = "binary",
        parameters: Parameters | None = None,
        deadline_s: float | None = None,
    ) -> Answer:
        """Invoke a specific artifact instead of a name; otherwise the same as `infer`."""
        asked = Asked(inputs=inputs, outputs=outputs, content=content, parameters=parameters)
        return self._blocking.run(*self._steps_to(target_model, asked, deadline_s))

    def infer_many(
        self,
        *,
        model: str,
        inputs: Iterable[Tensors],
        outputs: Sequence[str] | None = None,
        rows: int | None = None,
        at_once: int = AT_ONCE,
        bytes_at_once: int = BYTES_AT_ONCE,
        progress: Progress | None = None,
        deadline_s: float | None = None,
    ) -> Iterator[Answer]:
        """Invoke a model with each of many inputs, and yield their answers in order.

        Inputs of the same types and shapes are joined to requests, and those with too many rows or bytes are
        split. Inputs are taken from their iterable as they are sent.

        Args:
            model: The model's name in the repository.
            inputs: The inputs, each as for `infer`.
            outputs: The outputs to return; all by default.
            rows: The most rows of a request; by default the model's max_batch_size. With 0, each input is a
                request of its own.
            at_once: The most requests at a time.
            bytes_at_once: The most bytes of requests at a time. A single request may have more.
            progress: Called with the number of inputs that are answered.
            deadline_s: The time limit of each request, in seconds; by default the client's limit.

        Raises:
            InvocationError: A request failed; nothing is sent after it.
            FleetError: The answer to joined or split inputs does not have a row for each of theirs.
        """
        most = self._rows(model) if rows is None else rows
        gathered, window = Gathered(progress), Window()
        threads = ThreadPoolExecutor(at_once, thread_name_prefix="fleet-client")
        try:
            for batch in batches(inputs, most):
                while window.full(batch, at_once=at_once, bytes_at_once=bytes_at_once):
                    yield from _next(window, gathered)
                asked = Asked(inputs=batch.inputs, outputs=outputs)
                span = copy_context()  # in which the caller is
                window.append((batch, threads.submit(span.run, self._begin, model, asked, deadline_s)))
            while window:
                yield from _next(window, gathered)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def warm_up(
        self, models: Iterable[str], *, at_once: int = AT_ONCE, progress: Progress | None = None
    ) -> dict[str, InvocationError]:
        """Load models with the requests of their builds, and return the errors of those that failed.

        Each model is loaded on one instance of the endpoint, which SageMaker chooses.

        Args:
            models: The names of models in the repository.
            at_once: The most models at a time.
            progress: Called with the number of models that are loaded or have failed.
        """
        failed: dict[str, InvocationError] = {}

        def load(model: str) -> None:
            self._blocking.run(*self._warming(model))

        with ThreadPoolExecutor(at_once, thread_name_prefix="fleet-client") as threads:
            asked = {threads.submit(copy_context().run, load, each): each for each in models}
            for done, future in enumerate(as_completed(asked), start=1):
                try:
                    future.result()
                except InvocationError as error:
                    failed[asked[future]] = error
                if progress is not None:
                    progress(done)
        return failed

    def _begin(self, model: str, asked: Asked, deadline_s: float | None) -> Answer:
        return self._blocking.run(*self._steps_of(model, asked, deadline_s))


def _next(window: Window, gathered: Gathered) -> Iterator[Answer]:
    batch, future = window.popleft()
    yield from gathered.add(batch, future.result())
