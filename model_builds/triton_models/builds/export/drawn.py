"""Inputs that the build draws, to compare a finished network with its source.

No one picked them to be easy: zeros, negative and large values, whole numbers, missing values where the graph
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
"""The budget of a network that takes long: its rows are only those of which there must be one."""

_LARGEST_BATCH = 256
_OPERATIONS = 1e10  # about two seconds of a core
_MOST_BYTES = 64 << 20  # of one request
_MOST_OPERATIONS = 1e11  # of one request
_MOST_TOKENS = 8192  # whose attention scores still fit
_LARGEST = -2  # instead of a place among the sizes to try
_OPEN_SIZES = (4, 7, 3, 1, 16, 64, 224, 576, 16000)
_LARGE = {"thousands": 1e3, "millions": 1e6, "billions": 1e9}
_HALF = 0.5
_EVERY_THIRD, _MISSING = 3, 0.3
_WORDS = ("", "a", "yes", "Zürich", "text with spaces")
_FEATURE_RANK, _IMAGE_RANK = 2, 4
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
        """Yield requests; the first row of the second one is the first request, if the network batches.

        Of each kind there is one, also for a network that takes long: the largest sizes, the usual ones with
        padding, the largest batch, all kinds of values, and a mask without a token.
        """
        steps = self._steps() if self.model.max_batch_size else self._steps_without_batch()
        left, number = self.rows, 0
        if self.model.max_batch_size:
            second = self.request(0, batch=min(3, self.model.max_batch_size), sizes=1)
            yield {name: value[:1] for name, value in second.items()}
            yield second
            left -= 1 + min(3, self.model.max_batch_size)
        for number, (batch, sizes, first) in enumerate(steps, start=1):
            yield self.request(number, batch=batch, sizes=sizes, first=first)
            left -= batch
        empty = list(self._with_empty_masks(number + 1))
        yield from self._many(number + 1 + len(empty), left - len(empty))
        yield from empty

    def _steps(self) -> Iterator[tuple[int, int, int]]:
        """Yield the rows, the place among the sizes, and the kind of the first row of necessary requests."""
        yield 1, _LARGEST, 0
        yield 1, -1, 5  # an uneven kind has padding
        batch, kinds = self.largest_batch, 0
        while kinds < len(_ROW_KINDS):
            yield batch, 0, kinds
            kinds += batch

    def _steps_without_batch(self) -> Iterator[tuple[int, int, int]]:
        yield 1, _LARGEST, 0
        yield 1, -1, 5
        for kind in range(len(_ROW_KINDS)):
            yield 1, kind % 2, kind

    def _many(self, number: int, left: int) -> Iterator[Tensors]:
        """Yield as many further rows as a network may cost: small requests first, then large ones."""
        combinations = max(map(len, self._candidates().values()), default=1)
        small = number + max(
            2 * combinations + 2, min(_MOST_SMALL_REQUESTS, self.rows // _ROWS_PER_SMALL_REQUEST)
        )
        while left > 0:
            largest = max(1, min(left, self.model.max_batch_size, _LARGEST_BATCH, self._fitting()))
            batch = min((1, 3, 2)[number % 3] if number < small else largest, largest)
            yield self.request(number, batch=batch)
            left, number = left - batch, number + 1

    def _with_empty_masks(self, number: int) -> Iterator[Tensors]:
        """Yield a request for each mask in which no token counts, unless the declaration excludes that."""
        import numpy as np

        for tensor in self.inputs:
            span = self.ranges.get(tensor.name)
            if self.is_mask(tensor) and not (span and (span.never_empty or span.low > 0)):
                request = self.request(number, batch=1, sizes=1, first=0)
                yield {**request, tensor.name: np.zeros_like(request[tensor.name])}
                number += 1

    def is_mask(self, tensor: NetworkTensor) -> bool:
        """Return whether an input says which of the other values count."""
        span, kind = self.ranges.get(tensor.name), tensor.data_type.removeprefix("TYPE_")
        accepted = self.accepted.get(tensor.name, Accepted())
        if span is not None and span.never_empty:
            return True
        if kind.startswith("FP"):
            return accepted.mask and "mask" in tensor.name.lower()
        if kind != "BOOL" and ("INT" not in kind or accepted.table or accepted.numbers):
            return False
        if span is not None:
            return (span.low, span.high) == (0, 1)
        if kind == "BOOL" or accepted.mask or "mask" in tensor.name.lower():
            return True
        shown = [request[tensor.name] for request in self.written if tensor.name in request]
        few = bool(shown) and all(bool(((one == 0) | (one == 1)).all()) for one in shown)
        numbers = accepted.features or accepted.computes or kind in {"INT8", "UINT8"}
        return few or (not shown and not numbers)

    def empty_masks(self, request: Tensors) -> dict[str, np.ndarray]:
        """Return for each mask of a request which of its rows have a mask without a token."""
        found = {}
        for tensor in self.inputs:
            if self.is_mask(tensor) and (value := request[tensor.name]).size:
                rows = len(value) if self.model.max_batch_size else 1
                length = value.shape[-1] if value.ndim > 1 or rows == 1 else 1
                found[tensor.name] = (value.reshape(rows, -1, length or 1) == 0).all(-1).any(-1)
        return {name: rows for name, rows in found.items() if rows.any()}

    def request(
        self, number: int, *, batch: int, sizes: int | None = None, first: int | None = None
    ) -> Tensors:
        """Return one request: its sizes and its values depend on its number alone, unless they are said."""
        import numpy as np

        random = np.random.default_rng(seed=number)
        tried = self._candidates()
        place = number if sizes is None else sizes
        chosen = {key: of[place % len(of) if place >= 0 else -1] for key, of in tried.items()}
        if sizes == _LARGEST:
            chosen |= self._largest_sizes()
        request = {}
        for tensor in self.inputs:
            dims = list(tensor.dims or ())
            shape = [
                size if isinstance(size, int) else chosen.get(_key(tensor, axis), batch)
                for axis, size in enumerate(dims)
            ]
            if self.model.max_batch_size and shape:
                shape[0] = batch
            request[tensor.name] = self._values(
                tensor, shape, random, number * _STEP if first is None else first
            )
        return request

    @property
    def largest_batch(self) -> int:
        """The rows of the largest request: as many as a server joins, and as this machine can compute."""
        affordable = max(len(_ROW_KINDS), int(_MOST_OPERATIONS / max(self.operations * self._part(0), 1.0)))
        return max(1, min(self.model.max_batch_size, _LARGEST_BATCH, self._fitting(), affordable))

    @property
    def limits(self) -> str:
        """What is left out of the declared sizes, because it takes too long; empty if nothing is."""
        largest = self._largest_sizes()
        said = {
            f"{key} up to {largest[key]} of {sizes.largest}"
            for key, sizes in self._declared.items()
            if largest[key] < sizes.largest
        }
        return ", ".join(sorted(said))

    def _part(self, place: int) -> float:
        """Return what one row of some sizes costs, as a part of one of the usual sizes."""
        return math.prod(
            of[place] / max(of[-1], 1) for key, of in self._candidates().items() if key in self._declared
        )

    def _largest_sizes(self) -> dict[str, int]:
        """Return the largest declared sizes that this machine can compute one row of."""
        sizes = {key: each.largest for key, each in self._declared.items()}
        usual = {key: each.tried[-1] for key, each in self._declared.items()}
        while any(sizes[key] > usual[key] for key in sizes) and not self._affordable(sizes, usual):
            sizes = {key: max(size // 2, usual[key]) for key, size in sizes.items()}
        return sizes

    def _affordable(self, sizes: Mapping[str, int], usual: Mapping[str, int]) -> bool:
        times = math.prod(size / usual[key] for key, size in sizes.items())
        tokens = {
            _key(tensor, axis)
            for tensor in self.inputs
            for axis in range(len(tensor.dims or ()))
            if "INT" in tensor.data_type
        }
        return (
            self.operations * times <= _MOST_OPERATIONS
            and self._row_bytes(sizes) <= _MOST_BYTES
            and all(size <= _MOST_TOKENS for key, size in sizes.items() if key in tokens)
        )

    @property
    def _declared(self) -> dict[str, _Sizes]:
        """The sizes of each declared open dimension, by its name or place."""
        declared = _declared_sizes(self.model)
        return {
            _key(tensor, axis): declared[tensor.name, axis]
            for tensor in self.inputs
            for axis, size in enumerate(tensor.dims or ())
            if not isinstance(size, int)
            and (tensor.name, axis) in declared
            and (axis or not self.model.max_batch_size)
        }

    def _fitting(self) -> int:
        sizes = {key: max(of) for key, of in self._candidates().items()}
        return max(1, _MOST_BYTES // max(self._row_bytes(sizes), 1))

    def _row_bytes(self, sizes: Mapping[str, int]) -> int:
        return sum(
            8
            * math.prod(
                size if isinstance(size, int) else sizes.get(_key(tensor, axis), 1)
                for axis, size in enumerate(tensor.dims or ())
                if axis or not self.model.max_batch_size
            )
            for tensor in self.inputs
        )

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
                known = declared.get((tensor.name, axis))
                open_sizes = tuple(dict.fromkeys((*shown, *self.sizes)))
                found[key] = known.tried if known else open_sizes or tuple(shown) or _OPEN_SIZES[:1]
        return found

    def _texts(self, tensor: NetworkTensor, shape: Sequence[int], random: Any) -> Any:
        """Return words that the graph knows, or of the examples, place by place: columns differ in theirs."""
        import numpy as np

        shown = [request[tensor.name] for request in self.examples]
        if self.of_examples and all(len(shape) == texts.ndim for texts in shown):
            rows = np.concatenate([np.resize(texts, (len(texts), *shape[1:])) for texts in shown])
            _, *columns = np.indices(shape)
            places = (random.integers(0, len(rows), shape), *columns)
            return rows[places]
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

    @property
    def has_open_sizes(self) -> bool:
        """True if an input has a dimension, other than the batch, whose sizes nothing declares."""
        declared = _declared_sizes(self.model)
        return any(
            not isinstance(size, int)
            and (tensor.name, axis) not in declared
            and not (axis == 0 and self.model.max_batch_size)
            for tensor in self.inputs
            for axis, size in enumerate(tensor.dims or ())
        )

    def possible_sizes(self) -> Iterator[Sequence[int]]:
        """Yield sizes of dimensions that nothing declares, until the network accepts one."""
        if not self.has_open_sizes:
            yield ()
            return
        yield _OPEN_SIZES[:3]
        if self.examples:
            yield ()
        for size in _OPEN_SIZES:
            yield (size,)

    def _values(self, tensor: NetworkTensor, shape: Sequence[int], random: Any, first: int) -> Any:
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
            mask=self.is_mask(tensor),
        )
        draw = row.floats if dtype.kind == "f" else row.integers
        values = np.stack([draw(first + place) for place in range(shape[0] if batches else 1)])
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
    mask: bool

    def floats(self, place: int) -> np.ndarray:
        import numpy as np

        if self.span is not None and self.span.never_empty:
            return self.integers(place).astype(float)
        if self.span is not None:
            return _within(self.span, self.shape, self.random, place)
        if self.accepted.table is not None or self.accepted.numbers:
            return self.integers(place).astype(float)
        values = self._sizes_of_floats(
            _ROW_KINDS[place % len(_ROW_KINDS)], both_signs=place // len(_ROW_KINDS) % 2 == 1
        )
        if self.accepted.missing and place % _EVERY_THIRD == 1:
            values = np.where(self.random.random(self.shape) < _MISSING, np.nan, values)
        return values

    def _sizes_of_floats(self, kind: str, *, both_signs: bool) -> np.ndarray:
        """Return a row of a kind.

        Whatever reads them first, rows of features and sequences of them may be amounts, counts or times;
        embeddings have the same dimensions. Only images and other values of four dimensions have usual
        sizes, because pixels, and what networks compute from them, are small.
        """
        import numpy as np

        accepted, shape, random = self.accepted, self.shape, self.random
        raw = len(self.tensor.dims or ()) < _IMAGE_RANK and not self.mask
        center, scale = _fitted(accepted.center, shape, 0.0), _fitted(accepted.scale, shape, 1.0)
        usual = center + scale * random.standard_normal(shape)
        largest = max(map(_largest, self.shown), default=0.0)
        wide = center + scale * max(10.0, 10 * largest) * random.uniform(-1, 1, shape)
        if kind in {"millions", "billions"}:
            size = _LARGE[kind]
            values = random.uniform(-size if both_signs else 0, size, shape) if raw else usual
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
        values: Any
        if self.span is not None and not self.span.never_empty:
            values = np.round(_within(self.span, shape, random, place))
        elif accepted.numbers:
            values = random.choice(np.array(accepted.numbers), shape)
        elif accepted.table is not None:
            ends = {1: 0, 2: accepted.table - 1}
            values = random.integers(0, accepted.table, shape)
            values = np.full(shape, ends.get(place % 5, 0)) if place % 5 in ends else values
        elif kind in {"UINT8", "INT8"}:
            values = random.integers(np.iinfo(kind.lower()).min, np.iinfo(kind.lower()).max + 1, shape)
        elif (accepted.features or accepted.computes) and not self.mask:
            values = self._amounts(place)
        elif self.shown and not self.mask:
            values = random.choice(np.concatenate([each.ravel() for each in self.shown]), shape)
        else:
            length = shape[-1] if shape else 1
            ones = random.integers(1, length + 1) if length and place % 2 else length
            values = np.broadcast_to(np.arange(length) < ones, shape or (1,)).reshape(shape) + 0
        return np.asarray(values)

    def _amounts(self, place: int) -> np.ndarray:
        """Return whole numbers with which a network computes, such as amounts in cents."""
        import numpy as np

        kind = place % (2 + len(_LARGE))
        if kind == 0 and self.shown:
            return np.asarray(
                self.random.choice(np.concatenate([each.ravel() for each in self.shown]), self.shape)
            )
        size = (10, *_LARGE.values(), 1e4)[kind]
        low = -size if kind > len(_LARGE) or (self.accepted.features and place % 2) else 0
        return np.asarray(np.round(self.random.uniform(low, 0 if kind > len(_LARGE) else size, self.shape)))


def plain_requests(
    inputs: Sequence[NetworkTensor], model: PyTorchNetwork | OnnxFile, accepted: Mapping[str, Accepted]
) -> list[Tensors]:
    """Return two drawn requests of two sizes, for rewrites that keep a network's answers."""
    drawn = Drawn(model=model, inputs=inputs, accepted=accepted)
    return [drawn.request(number, batch=2) for number in (0, 1)]


def example_requests(
    examples: Sequence[Example], inputs: Sequence[NetworkTensor]
) -> tuple[Sequence[Tensors], Sequence[Tensors]]:
    """Return the first requests of examples, and those among them that the user wrote.

    Examples that lack an input are left out: a step among others may have none. Requests have the shapes that
    the network takes: Triton's reshape removes a last size of 1.
    """
    fitting = [example for example in examples if all(tensor.name in example.inputs for tensor in inputs)]
    ranks = {tensor.name: len(tensor.dims) for tensor in inputs if tensor.dims is not None}
    requests = [_reshaped(example.first, ranks) for example in fitting]
    pairs = zip(requests, fitting, strict=True)
    return requests, [request for request, example in pairs if not example.generated]


def _reshaped(request: Tensors, ranks: Mapping[str, int]) -> Tensors:
    return {
        name: value[..., 0]
        if value.ndim == ranks.get(name, value.ndim) + 1 and value.shape[-1] == 1
        else value
        for name, value in request.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """The sizes to try for a declared open dimension: from the least to the usual one, and the largest."""

    tried: Sequence[int]
    largest: int


def _declared_sizes(model: PyTorchNetwork | OnnxFile) -> dict[tuple[str, int], _Sizes]:
    """Return the sizes of each declared open dimension, by its input and place."""
    found: dict[tuple[str, int], _Sizes] = {}
    skipped = 1 if model.max_batch_size else 0
    if isinstance(model, OnnxFile):
        for name, shapes in model.profile.items():
            for axis, (least, usual, most) in enumerate(
                zip(shapes.min, shapes.opt, shapes.max, strict=False)
            ):
                found[name, axis] = _Sizes(tried=tuple(dict.fromkeys((least, usual))), largest=most)
        return found
    for tensor in model.inputs:
        for axis, size in enumerate(tensor.dims, start=skipped):
            if isinstance(size, DynamicDim):
                between = min(size.min + 3, size.max)
                tried = tuple(dict.fromkeys((size.min, between, size.usual)))
                found[tensor.name, axis] = _Sizes(tried=tried, largest=size.max)
    return found


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
