"""Inputs that the build draws, to compare a finished network with its source.

Nobody picked them to be easy: zeros, negative and large values, whole numbers, missing values where the graph
knows them, several sizes and batches. They are seeded, and how many there are depends on what the network
costs to run, never on the clock: equal sources give equal records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from triton_models.artifact.networks import NetworkTensor
from triton_models.base.encoding import Tensors
from triton_models.builds.export.accepted import Accepted
from triton_models.declare.declaration import Example
from triton_models.declare.models import OnnxFile, PyTorchNetwork
from triton_models.declare.tensors import NUMPY_TYPES, Between, DynamicDim

if TYPE_CHECKING:
    import numpy as np

_ROWS = 512
_REQUESTS = 128  # of a network without a batch
FEW = 4
"""Rows for a network that takes long: a batch of 1, and one of 3."""

_LARGEST_BATCH = 256
_OPERATIONS = 1e10  # about two seconds of a core
_MOST_BYTES = 64 << 20  # of one request
_OPEN_SIZES = (4, 7, 3, 1, 16, 64, 224)
_LARGE = {"thousands": 1e3, "millions": 1e6, "billions": 1e9}
_HALF = 0.5
_EVERY_THIRD, _MISSING = 3, 0.3
_WORDS = ("", "a", "yes", "Zürich", "text with spaces")
_FEATURE_RANK = 2
_STEP = 11  # without a common factor with the number of kinds: single rows are of every kind
_ROWS_PER_SMALL_REQUEST, _MOST_SMALL_REQUESTS = 16, 31
_ROW_KINDS = ("usual", "wide", "zeros", "negative", "whole", "usual", "ones", "millions", "billions", "mixed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Draws requests for one network.

    Attributes:
        inputs: The inputs of the network, as its file has them.
        accepted: What the graph says about each input.
        ranges: What the declaration says.
        examples: The first requests of the examples that fit this network.
        written: Those among them that the user wrote.
        operations: What one row costs, in arithmetic operations.
        sizes: The sizes of dimensions that nothing declares; see `possible_sizes`.
        of_examples: Strings come from the examples, because the network refuses others.
    """

    model: PyTorchNetwork | OnnxFile
    inputs: Sequence[NetworkTensor]
    accepted: Mapping[str, Accepted] = field(default_factory=dict)
    examples: Sequence[Tensors] = ()
    written: Sequence[Tensors] = ()
    operations: float = 0.0
    sizes: Sequence[int] = ()
    of_examples: bool = False

    @property
    def ranges(self) -> Mapping[str, Between]:
        """The ranges that the declaration promises."""
        return self.model.inputs_between

    @property
    def rows(self) -> int:
        """How many rows are drawn, or requests for a network without a batch."""
        most = _ROWS if self.model.max_batch_size else _REQUESTS
        return max(FEW, min(most, int(_OPERATIONS / max(self.operations, 1.0))))

    def requests(self) -> Iterator[Tensors]:
        """Yield requests; the first row of the second one is the first request, if the network batches."""
        combinations = max(map(len, self._candidates().values()), default=1)
        batches = [min(each, max(1, self.model.max_batch_size)) for each in (1, 3)]
        small = max(2 * combinations + 2, min(_MOST_SMALL_REQUESTS, self.rows // _ROWS_PER_SMALL_REQUEST))
        left, number = self.rows, 0
        second = self.request(0, batch=batches[1])
        if self.model.max_batch_size:
            yield {name: value[:1] for name, value in second.items()}
            yield second
            left, number = left - sum(batches), 2
        while left > 0:
            largest = min(left, self.model.max_batch_size, _LARGEST_BATCH, self._fitting())
            batch = min((1, 3, 2)[number % 3] if number < small else largest, largest, left)
            yield self.request(number, batch=max(1, batch))
            left, number = left - max(1, batch), number + 1

    def request(self, number: int, *, batch: int) -> Tensors:
        """Return one request: its sizes and its values depend on its number alone."""
        import numpy as np

        random = np.random.default_rng(seed=number)
        sizes = {key: of[number % len(of)] for key, of in self._candidates().items()}
        request = {}
        for tensor in self.inputs:
            dims = list(tensor.dims or ())
            shape = [
                size if isinstance(size, int) else sizes.get(_key(tensor, axis), batch)
                for axis, size in enumerate(dims)
            ]
            if self.model.max_batch_size and shape:
                shape[0] = batch
            request[tensor.name] = self._values(tensor, shape, random, number)
        return request

    def _fitting(self) -> int:
        sizes = {key: max(of) for key, of in self._candidates().items()}
        row = sum(
            8
            * math.prod(
                size if isinstance(size, int) else sizes[_key(tensor, axis)]
                for axis, size in enumerate(tensor.dims or ())
                if axis or not self.model.max_batch_size
            )
            for tensor in self.inputs
        )
        return max(1, _MOST_BYTES // max(row, 1))

    def _candidates(self) -> dict[str, Sequence[int]]:
        """Return the sizes to try for each open dimension, by its name or place."""
        declared = _declared_sizes(self.model)
        found: dict[str, Sequence[int]] = {}
        for tensor in self.inputs:
            for axis, size in enumerate(tensor.dims or ()):
                key = _key(tensor, axis)
                if isinstance(size, int) or key in found or (axis == 0 and self.model.max_batch_size):
                    continue
                shapes = [each[tensor.name].shape for each in self.examples if tensor.name in each]
                shown = dict.fromkeys(shape[axis] for shape in shapes if axis < len(shape))
                known = declared.get((tensor.name, axis)) or tuple(dict.fromkeys((*shown, *self.sizes)))
                found[key] = known or tuple(shown) or _OPEN_SIZES[:1]
        return found

    def _texts(self, tensor: NetworkTensor, shape: Sequence[int], random: Any) -> Any:
        """Return words that the graph knows, or of the examples, place by place: columns differ in theirs."""
        import numpy as np

        shown = [request[tensor.name] for request in self.examples]
        if self.of_examples and all(len(shape) == texts.ndim for texts in shown):
            rows = np.concatenate([np.resize(texts, (len(texts), *shape[1:])) for texts in shown])
            places = np.indices(shape)
            return rows[(random.integers(0, len(rows), shape), *places[1:])]
        accepted = self.accepted.get(tensor.name, Accepted())
        words = np.array([word.encode() for word in accepted.words or _WORDS], object)
        return random.choice(words, shape)

    def choices(self) -> Iterator[Drawn]:
        """Yield ways to draw, until the network accepts one: sizes, and for strings the examples' own."""
        for sizes in self.possible_sizes():
            yield replace(self, sizes=sizes)
        if self.examples and any(tensor.data_type == "TYPE_STRING" for tensor in self.inputs):
            for sizes in self.possible_sizes():
                yield replace(self, sizes=sizes, of_examples=True)

    def possible_sizes(self) -> Iterator[Sequence[int]]:
        """Yield sizes of dimensions that nothing declares, until the network accepts one."""
        declared = _declared_sizes(self.model)
        if all(
            isinstance(size, int)
            or (tensor.name, axis) in declared
            or (not axis and self.model.max_batch_size)
            for tensor in self.inputs
            for axis, size in enumerate(tensor.dims or ())
        ):
            yield ()
            return
        yield _OPEN_SIZES[:3]
        if self.examples:
            yield ()
        for size in _OPEN_SIZES:
            yield (size,)

    def _values(self, tensor: NetworkTensor, shape: Sequence[int], random: Any, number: int) -> Any:
        import numpy as np

        accepted = self.accepted.get(tensor.name, Accepted())
        dtype = np.dtype(NUMPY_TYPES.get(tensor.data_type.removeprefix("TYPE_"), "object"))
        if dtype.kind == "O":
            return self._texts(tensor, shape, random)
        batches = bool(shape and self.model.max_batch_size)
        row = _Row(
            tensor=tensor,
            accepted=accepted,
            span=self.ranges.get(tensor.name),
            shape=tuple(shape[1:] if batches else shape),
            shown=[each[tensor.name] for each in self.written if tensor.name in each],
            random=random,
        )
        draw = row.floats if dtype.kind == "f" else row.integers
        values = np.stack([draw(number * _STEP + place) for place in range(shape[0] if batches else 1)])
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            values = np.clip(values, max(limits.min, -(2**53)), min(limits.max, 2**53))
        with np.errstate(over="ignore"):
            return np.reshape(values, shape).astype(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Draws one row of an input; `place` says of which kind."""

    tensor: NetworkTensor
    accepted: Accepted
    span: Between | None
    shape: Sequence[int]
    shown: Sequence[np.ndarray]
    random: Any

    def floats(self, place: int) -> np.ndarray:
        import numpy as np

        if self.span is not None:
            return _within(self.span, self.shape, self.random, place)
        if self.accepted.table is not None or self.accepted.numbers:
            return self.integers(place).astype(float)
        values = self._sizes_of_floats(_ROW_KINDS[place % len(_ROW_KINDS)])
        if self.accepted.missing and place % _EVERY_THIRD == 1:
            values = np.where(self.random.random(self.shape) < _MISSING, np.nan, values)
        return values

    def _sizes_of_floats(self, kind: str) -> np.ndarray:
        import numpy as np

        accepted, shape, random = self.accepted, self.shape, self.random
        raw = accepted.features and len(self.tensor.dims or ()) == _FEATURE_RANK
        center, scale = _fitted(accepted.center, shape, 0.0), _fitted(accepted.scale, shape, 1.0)
        usual = center + scale * random.standard_normal(shape)
        largest = max(map(_largest, self.shown), default=0.0)
        wide = center + scale * max(10.0, 10 * largest) * random.uniform(-1, 1, shape)
        if kind in {"millions", "billions"}:
            size = _LARGE[kind]
            values = random.uniform(-size, size, shape) if raw else usual
        elif kind == "whole":
            top = max(accepted.reach, 1e5 if raw else 2.0)
            values = np.round(random.uniform(0, top, shape))
        elif kind == "mixed" and raw:
            values = np.where(random.random(shape) < _HALF, usual, random.choice([*_LARGE.values()], shape))
        else:
            zeros, ones = np.zeros(shape), np.ones(shape)
            others = {"zeros": zeros, "ones": ones, "negative": -np.abs(usual), "wide": wide}
            values = others.get(kind, usual)
        return np.asarray(values)

    def integers(self, place: int) -> np.ndarray:
        import numpy as np

        accepted, shape, random = self.accepted, self.shape, self.random
        kind = self.tensor.data_type.removeprefix("TYPE_")
        masks = accepted.mask or "mask" in self.tensor.name.lower() or kind == "BOOL"
        values: Any
        if self.span is not None:
            values = np.round(_within(self.span, shape, random, place))
        elif accepted.numbers:
            values = random.choice(np.array(accepted.numbers), shape)
        elif accepted.table is not None:
            ends = {1: 0, 2: accepted.table - 1}
            values = random.integers(0, accepted.table, shape)
            values = np.full(shape, ends.get(place % 5, 0)) if place % 5 in ends else values
        elif kind in {"UINT8", "INT8"}:
            values = random.integers(np.iinfo(kind.lower()).min, np.iinfo(kind.lower()).max + 1, shape)
        elif accepted.features and not masks and _fixed(self.tensor):
            size = (10, *_LARGE.values())[place % (1 + len(_LARGE))]
            values = np.round(random.uniform(-size, size, shape))
        elif self.shown and not masks:
            values = random.choice(np.concatenate([each.ravel() for each in self.shown]), shape)
        else:
            length = shape[-1] if shape else 1
            ones = random.integers(1, length + 1) if length and place % 2 else length
            values = np.broadcast_to(np.arange(length) < ones, shape or (1,)).reshape(shape) + 0
        return np.asarray(values)


def plain_requests(
    inputs: Sequence[NetworkTensor], model: PyTorchNetwork | OnnxFile, accepted: Mapping[str, Accepted]
) -> list[Tensors]:
    """Return two drawn requests of two sizes, for rewrites that keep a network's answers."""
    drawn = Drawn(model=model, inputs=inputs, accepted=accepted)
    return [drawn.request(number, batch=2) for number in (0, 1)]


def fitting_examples(examples: Sequence[Example], inputs: Sequence[NetworkTensor]) -> list[Example]:
    """Return the examples that have every input of a network; a step among others may have none."""
    return [each for each in examples if all(tensor.name in each.inputs for tensor in inputs)]


def _declared_sizes(model: PyTorchNetwork | OnnxFile) -> dict[tuple[str, int], Sequence[int]]:
    """Return sizes between the least and the usual one of each declared open dimension."""
    found: dict[tuple[str, int], Sequence[int]] = {}
    skipped = 1 if model.max_batch_size else 0
    if isinstance(model, OnnxFile):
        for name, shapes in model.profile.items():
            for axis, ends in enumerate(zip(shapes.min, shapes.opt, shapes.max, strict=False)):
                found[name, axis] = tuple(dict.fromkeys(ends))
        return found
    for tensor in model.inputs:
        for axis, size in enumerate(tensor.dims, start=skipped):
            if isinstance(size, DynamicDim):
                between = min(size.min + 3, size.max)
                found[tensor.name, axis] = tuple(dict.fromkeys((size.min, between, size.usual)))
    return found


def _fixed(tensor: NetworkTensor) -> bool:
    return all(isinstance(size, int) for size in (tensor.dims or ())[1:])


def _key(tensor: NetworkTensor, axis: int) -> str:
    size = (tensor.dims or ())[axis]
    return size if isinstance(size, str) else f"{tensor.name}/{axis}"


def _within(span: Between, shape: Sequence[int], random: Any, place: int) -> np.ndarray:
    import numpy as np

    values = random.uniform(span.low, span.high, shape)
    ends = {1: span.low, 3: span.high, 5: min(max(0.0, span.low), span.high)}
    if place % 7 in ends:
        return np.full(shape, ends[place % 7])
    values = np.clip(np.round(values), span.low, span.high) if place % 7 == 6 else values  # noqa: PLR2004
    return np.asarray(values)


def _fitted(values: np.ndarray | None, shape: Sequence[int], otherwise: float) -> Any:
    """Return values per feature, or their mean if they are not the last dimension's."""
    import numpy as np

    if values is None:
        return otherwise
    if values.size == 1 or (shape and values.size == shape[-1]):
        return values
    if len(shape) >= _FEATURE_RANK and values.size == shape[0]:
        return values.reshape(-1, *([1] * (len(shape) - 1)))
    return float(np.max(np.abs(values)))


def _largest(values: np.ndarray) -> float:
    import numpy as np

    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    return float(np.abs(finite).max(initial=0)) if finite.dtype.kind in "fiu" else 0.0
