"""Scheduling options of a model: instances, batching, sequences, and warm-up requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from triton_models.declare.mistakes import Mistake

# The types of control tensors, from Triton core (src/model_config_utils.cc, release 24.10, read 2026-11-21).
_OF_FLAGS = ("FP32", "BOOL", "INT32")
_OF_IDS = ("INT32", "UINT32", "INT64", "UINT64")

Kind: TypeAlias = Literal["KIND_AUTO", "KIND_CPU", "KIND_GPU", "KIND_MODEL"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instances:
    """Copies of a model that run at the same time.

    ```python
    Instances(count=2)
    ```

    Attributes:
        count: The number of instances, on each GPU or on the CPU.
        kind: "KIND_CPU" keeps the model off the GPU. None lets the server choose: the GPU if there is one, so
            that the same artifact also runs on a host without a GPU.
        gpu_memory_mb: The memory of one instance on its GPU in MiB, which `fleet census` measures: without
            the libraries that the first model of a backend brings, and without a forest's pool. A rehearsal
            takes as much from its modelled GPU. None stands for its weights and a figure of its backend; a
            network may take several times as much. It takes nothing for Python models and DALI pipelines.
    """

    count: int = 1
    kind: Kind | None = None
    gpu_memory_mb: int | None = None

    LEAST: ClassVar[Mapping[str, int]] = {"count": 1}

    def mistakes(self) -> Iterator[Mistake]:
        """Check that there is at least one instance, and that one on a GPU takes memory."""
        if self.gpu_memory_mb is not None and (self.gpu_memory_mb < 1 or self.kind == "KIND_CPU"):
            what = f"{self.gpu_memory_mb} MiB of GPU memory" + (
                " for an instance on the CPU" if self.kind == "KIND_CPU" else ""
            )
            fix = "use at least 1 for an instance on a GPU, otherwise omit it"
            yield Mistake("gpu_memory_mb", what, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicBatching:
    """The server's rules for joining requests into batches.

    ```python
    DynamicBatching(preferred=[16], max_delay_us=500, max_queue_size=64, timeout_us=200_000)
    ```

    Attributes:
        preferred: Batch sizes that are run without further waiting; empty if no size is preferred.
        max_delay_us: The longest time that a request waits for others, in microseconds.
        max_queue_size: The most requests that wait; more are refused at once. By default any number waits.
        timeout_us: The longest time that a request waits for its turn, in microseconds; it is refused then,
            instead of being computed for a caller that has given up. By default it waits.
        priorities: The number of priorities. Requests of priority 1 run first; a request names its own with
            `Client.infer(parameters={"priority": 1})`. By default all are equal.
        default_priority: The priority of requests that name none; by default the last.
    """

    preferred: Sequence[int] = field(default=())
    max_delay_us: int = 0
    max_queue_size: int | None = None
    timeout_us: int | None = None
    priorities: int | None = None
    default_priority: int | None = None

    LEAST: ClassVar[Mapping[str, int]] = {
        "max_delay_us": 0,
        "max_queue_size": 1,
        "timeout_us": 1,
        "priorities": 1,
    }

    def mistakes(self) -> Iterator[Mistake]:
        """Check that sizes are positive and times are not negative."""
        if self.default_priority is not None and not 1 <= self.default_priority <= (self.priorities or 0):
            what = f"default_priority {self.default_priority} of {self.priorities or 'no'} priorities"
            yield Mistake("default_priority", what, fix="use a priority from 1 to the number of priorities")
        if any(size < 1 for size in self.preferred):
            what = f"the preferred batch sizes {list(self.preferred)}"
            yield Mistake("preferred", what, fix="use sizes from 1 to max_batch_size, or remove them")


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """An input that the server fills: the place of a request in its sequence.

    Its shape is [1], after the batch dimension. The value is 1 or 0, or the number of the sequence.

    ```python
    Control(name="START", says="start")
    ```

    Attributes:
        name: The input's name.
        says: "start" and "end" are 1 in the first and the last request of a sequence. "ready" is 0 in the
            slots of a batch that have no request. "id" is the number of the sequence.
        data_type: The input's type. That of "id" is an integer.
    """

    name: str
    says: Literal["start", "end", "ready", "id"]
    data_type: Literal["FP32", "BOOL", "INT32", "UINT32", "INT64", "UINT64"] = "INT32"

    def mistakes(self) -> Iterator[Mistake]:
        """Check that the type fits."""
        types = _OF_IDS if self.says == "id" else _OF_FLAGS
        if self.data_type not in types:
            what = f"{self.name!r} says {self.says!r} in {self.data_type}"
            yield Mistake("data_type", what, fix=f"use one of {', '.join(types)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceBatching:
    """The server's rules for requests that belong together: one instance gets all of a sequence, in order.

    A request names its sequence with the parameter `sequence_id`; the first one has `sequence_start`, the
    last one `sequence_end`. SageMaker does not keep a sequence on one instance of the endpoint, so an
    endpoint with sequences has one instance.

    ```python
    SequenceBatching(controls=[Control(name="START", says="start")], max_idle_us=60_000_000)
    ```

    Attributes:
        controls: The inputs that the server fills. They are not inputs of requests.
        strategy: "direct" keeps a slot of the batch for each sequence until it ends. "oldest" joins requests
            of different sequences into batches, the oldest sequences first.
        max_sequences: For "oldest", the most sequences at a time; further ones wait.
        max_idle_us: The time without a request after which a sequence ends, in microseconds; by default one
            second. Later requests of it fail.
        max_delay_us: The longest time that a request waits for others, in microseconds.
    """

    controls: Sequence[Control] = ()
    strategy: Literal["direct", "oldest"] = "direct"
    max_sequences: int | None = None
    max_idle_us: int | None = None
    max_delay_us: int = 0

    LEAST: ClassVar[Mapping[str, int]] = {"max_delay_us": 0, "max_idle_us": 1}

    def mistakes(self) -> Iterator[Mistake]:
        """Check that controls are unique, and that numbers are possible."""
        given = [f"{part} {getattr(each, part)!r}" for part in ("name", "says") for each in self.controls]
        for value in sorted({value for value in given if given.count(value) > 1}):
            what = f"two controls with {value}"
            yield Mistake("controls", what, fix="remove one; each has a name and a kind of its own")
        unfit = (self.max_sequences is None) == (self.strategy == "oldest")
        if unfit or (self.max_sequences is not None and self.max_sequences < 1):
            what = f"max_sequences is {self.max_sequences}, for {self.strategy!r}"
            yield Mistake("max_sequences", what, fix='set 1 or more for "oldest", and nothing for "direct"')


Batching: TypeAlias = DynamicBatching | SequenceBatching


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """Requests that run while the model loads, so that the first caller does not wait for the slow first run.

    Triton discards the responses. If a request fails, the model does not load. An ensemble itself is not
    warmed up, but its models are. A model with `Control` inputs cannot be warmed up, because the server fills
    them only for sequences.

    ```python
    WarmUp(batch_sizes=[1, 16])
    ```

    Attributes:
        batch_sizes: The batch sizes. GPU libraries choose their kernels per size. A TensorRT plan with a
            profile for small batches gets a larger batch too.
        count: The number of requests of each size: by default 1, and 3 for LibTorch, which optimizes a
            network in its second run of a shape. On an H200 that run took 0.4 s for ResNet-50 and 2.4 s for
            Inception v3, and later ones 4 and 8 ms.
        example: The name of one of the declaration's examples, whose first row is sent. By default all values
            are 0, and dynamic dimensions have their usual size. The example's tensors must be inputs of this
            model.
    """

    batch_sizes: Sequence[int] = (1,)
    count: int | None = None
    example: str | None = None

    LEAST: ClassVar[Mapping[str, int]] = {"count": 1}

    def mistakes(self) -> Iterator[Mistake]:
        """Check that there is at least one valid batch size and one request."""
        if not self.batch_sizes or min(self.batch_sizes) < 1:
            fix = "use sizes from 1 to max_batch_size, or omit it for a batch of one"
            yield Mistake("batch_sizes", f"a warm-up with the batch sizes {list(self.batch_sizes)}", fix=fix)
