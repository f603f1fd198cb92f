"""Inputs that the build draws, to compare a finished network with its source.

They are seeded, and how many there are depends on what the network costs to run, never on the clock: equal
sources give equal records.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from triton_models.artifact.networks import NetworkTensor
from triton_models.base.encoding import Tensors
from triton_models.builds.export.accepted import Accepted, whole_numbers
from triton_models.builds.export.drawn_rows import MILLISECONDS, ROW_KINDS, Row
from triton_models.builds.export.probed import Bounds, Probe, Questions, TooManyQuestionsError, with_numbers
from triton_models.declare.declaration import Example
from triton_models.declare.models import Network, OnnxFile
from triton_models.declare.tensors import NUMPY_TYPES, Between, DynamicDim

_ROWS = 512
_REQUESTS = 128  # of a network without a batch
FEW = 4
"""The budget of a network that takes long: its rows are only those of which there must be one."""

_LARGEST_BATCH = 256
_OPERATIONS = 1e10  # about two seconds of a core
_MOST_BYTES = 64 << 20  # of one request
_BYTES_IN_ALL = 1 << 30  # they are kept, with the answers
_MOST_OPERATIONS = 1e11  # of one request
_OPERATIONS_OF_KINDS = 4e12  # of the rows of all kinds: a minute of a core
_MOST_TOKENS = 8192  # whose attention scores still fit
_OPEN_SIZES = (4, 7, 3, 1, 16, 64, 224, 576, 16000)
_WORDS = ("", "a", "yes", "Zürich", "text with spaces")
_STEP = 11  # without a common factor with the number of kinds: single rows are of every kind
_FEW_CONSTANTS = 8
# Kinds of rows near or at the ends of their range. In even ones, no mask has padding.
_ENDS = (2, 4, 8, 6, 3, 1)
_MOST_WORDS = 512
_MOST_SIZE = 4096.0
_REMAINDERS = 12
_LARGE_SIZE = 1000  # of one dimension alone, such as samples of sound
_MASK = re.compile(r"mask|(^|_)(valid|padding|present|observed|visible)(__\d+)?$")
_UNASKED = Bounds(free=np.zeros((), bool), low=np.zeros(()), high=np.full((), 300.0))
"""What inputs of whole numbers get first, where the source cannot be asked."""

_ROWS_PER_SMALL_REQUEST, _MOST_SMALL_REQUESTS = 16, 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Draws requests for one network.

    Attributes:
        inputs: The inputs of the network, as its file has them.
        accepted: What the graph says about each input.
        examples: The first requests of the examples that fit this network.
        written: Those among them that the user wrote.
        operations: What one row costs, in arithmetic operations.
        sizes: The sizes of dimensions that nothing declares; see `possible_sizes`.
        of_examples: Strings come from the examples, because the network refuses others.
        bounds: The numbers that the source takes in inputs that index a table.
        hides: Masks of BOOL say which values do not count, as those of PyTorch's padding do.
    """

    model: Network
    inputs: Sequence[NetworkTensor]
    accepted: Mapping[str, Accepted] = field(default_factory=dict)
    examples: Sequence[Tensors] = ()
    written: Sequence[Tensors] = ()
    operations: float = 0.0
    sizes: Sequence[int] = ()
    of_examples: bool = False
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    hides: bool = False

    @property
    def ranges(self) -> Mapping[str, Between]:
        """The ranges that the declaration promises."""
        return self.model.inputs_between

    @property
    def batches(self) -> bool:
        """True if the first dimension is the batch."""
        return self.model.max_batch_size > 0

    @property
    def rows(self) -> int:
        """How many rows are drawn, or requests for a network without a batch."""
        most = _ROWS if self.batches else _REQUESTS
        sizes = {key: max(of) for key, of in self._candidates().items()}
        kept = _BYTES_IN_ALL // max(self._row_bytes(sizes), 1)
        return max(FEW, min(most, kept, int(_OPERATIONS / max(self.operations, 1.0))))

    @property
    def _kinds(self) -> int:
        """How many kinds of rows there are: all, but of a network whose rows take seconds."""
        affordable = int(_OPERATIONS_OF_KINDS / max(self.operations, 1.0))
        return max(1, min(len(ROW_KINDS), affordable))

    def requests(self) -> Iterator[Tensors]:
        """Yield requests; the first row of the second one is the first request, if the network batches.

        Of each kind there is one, also for a network that takes long: the largest sizes, the usual ones with
        padding, the largest batch, all kinds of values, and a mask without a token.
        """
        left, number = self.rows, 0
        if self.batches:
            batch = min(3, max(2, self._kinds), self.model.max_batch_size)
            second = self.request(0, batch=batch, sizes=1)
            yield {name: value[:1] for name, value in second.items()}
            yield second
            left -= 1 + batch
        for number, (batch, sizes, first) in enumerate(self._necessary(), start=1):
            yield self.request(number, batch=batch, sizes=sizes, first=first)
            left -= batch
        empty = list(self._with_empty_masks(number + 1))
        yield from self._many(number + 1 + len(empty), left - len(empty))
        yield from empty

    def _necessary(self) -> Iterator[tuple[int, int | Mapping[str, int], int]]:
        """Yield the rows, the sizes, and the kind of the first row of necessary requests."""
        largest, usual = self._largest_sizes(), {key: of.tried[-1] for key, of in self._declared.items()}
        cost = self.operations * math.prod(size / usual[key] for key, size in largest.items())
        ends = _ENDS[: max(2, int(_MOST_OPERATIONS / max(cost, 1.0)))] if self.ranges and largest else ()
        for kind in (0, *ends):  # FP16 cannot hold the sums of long rows of one sign
            yield 1, largest, kind
        yield 1, -1, 5  # an uneven kind has padding
        for number, further in enumerate(self._further_sizes()):
            yield 1, further, number
        batch = self.largest_batch
        for kind in range(0, self._kinds, batch):
            yield batch, 0 if self.batches else kind % 2, kind

    def _many(self, number: int, left: int) -> Iterator[Tensors]:
        """Yield as many further rows as a network may cost: small requests first, then large ones."""
        combinations = max(map(len, self._candidates().values()), default=1)
        few = min(_MOST_SMALL_REQUESTS, self.rows // _ROWS_PER_SMALL_REQUEST)
        small = number + max(2 * combinations + 2, few)
        while left > 0:
            largest = max(1, min(left, self._joined))
            batch = min((1, 3, 2)[number % 3] if number < small else largest, largest)
            yield self.request(number, batch=batch)
            left, number = left - batch, number + 1

    def _with_empty_masks(self, number: int) -> Iterator[Tensors]:
        """Yield a request for each mask in which no token counts, unless the declaration excludes that."""
        for tensor in self.inputs:
            span = self.ranges.get(tensor.name)
            promised = span and (span.never_empty or span.low > 0)
            if self._may_hide(tensor) and not promised and not self._is_hiding(tensor):
                request = self.request(number, batch=1, sizes=1, first=0)
                yield {**request, tensor.name: np.zeros_like(request[tensor.name])}
                number += 1

    def _known(self, tensor: NetworkTensor) -> Accepted:
        return self.accepted.get(tensor.name, Accepted())

    def is_mask(self, tensor: NetworkTensor) -> bool:
        """Return whether an input says which of the other values count, so that only 0 and 1 come."""
        declared = tensor.name in self.ranges or not tensor.data_type.startswith(("TYPE_INT", "TYPE_UINT"))
        says_so = declared or self._known(tensor).mask or _names_mask(tensor)
        return says_so and self._may_hide(tensor)

    def _may_hide(self, tensor: NetworkTensor) -> bool:
        """Return whether zeros of an input may say that other values do not count."""
        span, kind, known = self.ranges.get(tensor.name), tensor.data_type, self._known(tensor)
        if span is not None and span.never_empty:
            return True
        if all(size == 1 for size in self._sizes_of(tensor).values()):
            return False  # a flag
        if kind.startswith("TYPE_FP"):
            return known.mask and _names_mask(tensor)
        compared = known.constants and not _names_mask(tensor)
        if kind != "TYPE_BOOL" and ("INT" not in kind or known.table or known.numbers or compared):
            return False
        if span is not None:
            return (span.low, span.high) == (0, 1)
        return all(np.isin(request[tensor.name], (0, 1)).all() for request in self.written)

    def _is_hiding(self, tensor: NetworkTensor) -> bool:
        return self.hides and tensor.data_type == "TYPE_BOOL" and tensor.name not in self.ranges

    def empty_masks(self, request: Tensors) -> dict[str, np.ndarray]:
        """Return for each mask of a request which of its rows have a mask without a token."""
        empty = {}
        for tensor in self.inputs:
            if self._may_hide(tensor) and (value := request[tensor.name]).size:
                rows = len(value) if self.batches else 1
                length = value.shape[-1] if value.ndim > 1 or rows == 1 else 1
                hidden = value.reshape(rows, -1, length or 1) == self._is_hiding(tensor)
                empty[tensor.name] = hidden.all(-1).any(-1)
        return {name: rows for name, rows in empty.items() if rows.any()}

    def request(
        self,
        number: int,
        *,
        batch: int,
        sizes: int | Mapping[str, int] | None = None,
        first: int | None = None,
    ) -> Tensors:
        """Return one request.

        Args:
            number: Decides the values, as their seed, and what the other arguments leave open.
            batch: Its rows.
            sizes: The place among the sizes to try; -1 for the usual ones. Or sizes by key, instead of these.
            first: The kind of the first row.
        """
        random = np.random.default_rng(seed=number)
        if isinstance(sizes, Mapping):
            special, place = sizes, -1
        else:
            special, place = {}, number if sizes is None else sizes
        chosen = {key: of[place % len(of) if place >= 0 else -1] for key, of in self._candidates().items()}
        chosen |= special
        request = {}
        for tensor in self.inputs:
            shape = [batch] if self.batches and tensor.dims else []
            shape += [
                size if isinstance(size, int) else chosen[size] for size in self._sizes_of(tensor).values()
            ]
            place = number * _STEP if first is None else first
            request[tensor.name] = self._values(tensor, shape, random, place, chosen)
        return request

    @property
    def _joined(self) -> int:
        """The most rows of a request: as many as a server joins, and as fit."""
        sizes = {key: max(of) for key, of in self._candidates().items()}
        fitting = _MOST_BYTES // max(self._row_bytes(sizes), 1)
        return max(1, min(self.model.max_batch_size, _LARGEST_BATCH, fitting))

    @property
    def largest_batch(self) -> int:
        """The rows of the largest request: as many as a server joins, and as this machine can compute."""
        declared = self._declared
        tried = [sizes for key, sizes in self._candidates().items() if key in declared]
        least = math.prod(sizes[0] / max(sizes[-1], 1) for sizes in tried)  # as a part of the usual cost
        affordable = int(_MOST_OPERATIONS / max(self.operations * least, 1.0))
        return min(self._joined, max(self._kinds, affordable))

    @property
    def limits(self) -> str:
        """What is left out of the declared sizes, because it takes too long; empty if nothing is."""
        largest = self._largest_sizes()
        return ", ".join(
            f"{key} up to {largest[key]} of {sizes.largest}"
            for key, sizes in sorted(self._declared.items())
            if largest[key] < sizes.largest
        )

    def _largest_sizes(self) -> dict[str, int]:
        """Return the largest declared sizes that this machine can compute one row of."""
        sizes = {key: declared.largest for key, declared in self._declared.items()}
        usual = {key: declared.tried[-1] for key, declared in self._declared.items()}
        while any(sizes[key] > usual[key] for key in sizes) and not self._affordable(sizes, usual):
            sizes = {key: max(size // 2, usual[key]) for key, size in sizes.items()}
        return sizes

    def _further_sizes(self) -> Iterator[dict[str, int]]:
        """Yield declared sizes, of every remainder and magnitude: a network may decide by them."""
        largest, declared = self._largest_sizes(), self._declared
        times = math.prod(largest[key] / of.tried[-1] for key, of in declared.items())
        affordable = int(2 * _OPERATIONS / max(self.operations * times, 1.0))
        for step in range(1, min(_REMAINDERS, affordable) if declared else 0):
            yield {key: min(of.tried[-1] + step, largest[key]) for key, of in declared.items()}
            part = step / _REMAINDERS
            yield {
                key: round(max(of.tried[0], 1) ** (1 - part) * largest[key] ** part)
                for key, of in declared.items()
            }

    def sizes_near(self, size: int) -> dict[str, int]:
        """Return one size for all open dimensions, or the closest to it that is declared."""
        near = {
            key: min(max(size, declared.tried[0]), declared.largest)
            for key, declared in self._declared.items()
        }
        return dict.fromkeys(self._candidates(), size) | near

    def _affordable(self, sizes: Mapping[str, int], usual: Mapping[str, int]) -> bool:
        times = math.prod(size / usual[key] for key, size in sizes.items())
        tokens = {key for tensor, _, key in self._open_dims() if "INT" in tensor.data_type}
        return (
            self.operations * times <= _MOST_OPERATIONS
            and self._row_bytes(sizes) <= _MOST_BYTES
            and all(size <= _MOST_TOKENS for key, size in sizes.items() if key in tokens)
        )

    def _row_bytes(self, sizes: Mapping[str, int]) -> int:
        dims = [self._sizes_of(tensor).values() for tensor in self.inputs]
        return 8 * sum(
            math.prod(size if isinstance(size, int) else sizes.get(size, 1) for size in shape)
            for shape in dims
        )

    def _sizes_of(self, tensor: NetworkTensor) -> dict[int, int | str]:
        """Return the sizes of an input but for the batch, by place; those of open dimensions are keys."""
        return {
            axis: f"{tensor.name}/{axis}" if size is None else size
            for axis, size in enumerate(tensor.dims or ())
            if axis or not self.batches
        }

    def _open_dims(self) -> Iterator[tuple[NetworkTensor, int, str]]:
        """Yield the open dimensions but for the batch: their input, place and key."""
        for tensor in self.inputs:
            for axis, size in self._sizes_of(tensor).items():
                if isinstance(size, str):
                    yield tensor, axis, size

    @property
    def _declared(self) -> dict[str, _Sizes]:
        """The sizes of each declared open dimension, by key."""
        declared, dims = _declared_sizes(self.model), self._open_dims()
        return {
            key: declared[tensor.name, axis] for tensor, axis, key in dims if (tensor.name, axis) in declared
        }

    def _candidates(self) -> dict[str, Sequence[int]]:
        """Return the sizes to try for each open dimension, by key."""
        declared = _declared_sizes(self.model)
        tried: dict[str, Sequence[int]] = {}
        for tensor, axis, key in self._open_dims():
            shapes = [request[tensor.name].shape for request in self.examples]
            shown = [shape[axis] for shape in shapes if axis < len(shape)]
            known = declared.get((tensor.name, axis))
            sizes = known.tried if known else _distinct(*shown, *self.sizes) or _OPEN_SIZES[:1]
            tried.setdefault(key, sizes)
        return tried

    def choices(self, source: Callable[[Tensors], Any] | None) -> Iterator[Drawn]:
        """Yield ways to draw, until the network accepts one: sizes, and for strings the examples' own.

        The source says which numbers it takes, unless what it refuses must not be tried.
        """
        strings = any(tensor.data_type == "TYPE_STRING" for tensor in self.inputs)
        questions = Questions.of(source, self.operations) if source else None
        for of_examples in (False, True) if self.examples and strings else (False,):
            for sizes in self.possible_sizes():
                choice = replace(self, sizes=sizes, of_examples=of_examples)
                choice = replace(choice, hides=bool(source) and choice._masks_hide(source))
                choice = choice._without_missing(source) if source else choice
                yield from choice._bounded(questions) if questions else ()
                yield choice

    def _without_missing(self, source: Callable[[Tensors], Any]) -> Drawn:
        """Return a way to draw without missing values, if the source knows them in order to refuse them."""
        floats = {tensor.name for tensor in self.inputs if tensor.data_type.startswith("TYPE_FP")}
        missing = {name: known for name, known in self.accepted.items() if known.missing and name in floats}
        if not missing:
            return self
        request = self.request(0, batch=1, sizes=1, first=0)
        unknown = {name: np.full_like(request[name], np.nan) for name in missing}
        if not _takes(source, request) or _takes(source, {**request, **unknown}):
            return self
        known = {name: replace(one, missing=False) for name, one in missing.items()}
        return replace(self, accepted={**self.accepted, **known})

    def _bounded(self, questions: Questions) -> Iterator[Drawn]:
        """Yield ways to draw within what the source takes, first of what it may refuse, then of all.

        Counts come before tables: next to a length of 1, no table may be read in the other cells.
        """
        usual = next(self._usual(questions), None)
        asked: dict[str, Bounds] = {}
        for of_all in (False, True):
            new: dict[str, Bounds] = {}
            for tensor in sorted(self.inputs, key=self._is_count, reverse=True):
                if tensor.name in asked or not self._is_asked(tensor, of_all=of_all):
                    continue
                with contextlib.suppress(TooManyQuestionsError):
                    if usual is not None:
                        new[tensor.name] = self._bounds(tensor, usual, questions)
                if self._is_count(tensor):
                    new.setdefault(tensor.name, _UNASKED)
                    if usual is not None:
                        usual = self._with_largest(tensor, usual, new[tensor.name], questions)
            asked |= new
            if new or not of_all or any(bounds.size for bounds in asked.values()):
                yield replace(self, bounds=_of_any_size(asked) if of_all else asked)

    def _with_largest(
        self, tensor: NetworkTensor, request: Tensors, bounds: Bounds, questions: Questions
    ) -> Tensors:
        """Return a request with hundreds for counts, or the most below that, if the source takes it."""
        value = request[tensor.name]
        most = np.where(bounds.free, _UNASKED.high, np.minimum(bounds.high, _UNASKED.high))
        larger = {**request, tensor.name: np.broadcast_to(most, value.shape).astype(value.dtype)}
        with contextlib.suppress(TooManyQuestionsError):
            return larger if questions.takes(larger) else request
        return request

    def _is_count(self, tensor: NetworkTensor) -> bool:
        """Return whether an input has whole numbers of which nothing says more."""
        known = self._known(tensor)
        unknown = tensor.name not in self.ranges and not (known.table or known.numbers)
        return "INT" in tensor.data_type and unknown and not self.is_mask(tensor)

    def _is_asked(self, tensor: NetworkTensor, *, of_all: bool) -> bool:
        if tensor.data_type in {"TYPE_STRING", "TYPE_BOOL"} or self.is_mask(tensor):
            return False
        return of_all or bool(self._known(tensor).table or self.numbers(tensor)) or self._is_count(tensor)

    def _masks_hide(self, source: Any) -> bool:
        """Return whether the source has a finite answer to false masks of BOOL, and none to true ones."""
        masks = [tensor.name for tensor in self.inputs if replace(self, hides=True)._is_hiding(tensor)]
        request = self.request(0, batch=1, sizes=1) if masks else {}

        def is_finite(fill: Any) -> bool:
            filled = {name: fill(request[name]) for name in masks}
            with contextlib.suppress(Exception):  # whatever a framework raises
                answers = source({**request, **filled}).values()
                return all(np.isfinite(answer).all() for answer in answers if answer.dtype.kind == "f")
            return False

        return bool(masks) and not is_finite(np.ones_like) and is_finite(np.zeros_like)

    def _bounds(self, tensor: NetworkTensor, request: Tensors, questions: Questions) -> Bounds:
        """Return what the source takes in each cell of an input, next to a request that it takes."""
        known, span, usual = self._known(tensor), self.ranges.get(tensor.name), request[tensor.name]
        sizes = self._sizes_of(tensor)
        limits = np.iinfo(usual.dtype) if usual.dtype.kind in "iu" else np.finfo("f")
        far = MILLISECONDS if usual.dtype == np.int64 else 1e9
        low, high = (span.low, span.high) if span else (-far, _MOST_SIZE if known.sizes else far)
        least, most = (span.low, span.high) if span else (limits.min, limits.max)
        corner = tuple(slice(size if isinstance(size, int) else 1) for _, size in sorted(sizes.items()))

        def takes(cells: np.ndarray) -> bool:
            values = np.broadcast_to(cells, usual.shape).astype(usual.dtype)
            return questions.takes({**request, tensor.name: values})

        probe = Probe(
            usual=np.array((usual[0] if self.batches else usual)[corner], float),
            takes=takes,
            ends=(max(low, float(limits.min)), min(high, float(limits.max))),
            table=known.table or 1,
            numbers=[number for number in self.numbers(tensor) if least <= number <= most],
        )
        bounds = probe.bounds()
        if known.sizes:  # larger ones would take gigabytes
            bounds = replace(
                bounds,
                free=np.zeros_like(bounds.free),
                low=np.where(bounds.free, probe.ends[0], bounds.low),
                high=np.where(bounds.free, probe.ends[1], bounds.high),
            )
        open_sizes = {key: request[other.name].shape[axis] for other, axis, key in self._open_dims()}
        sizes_of = [(key, size) for key, size in open_sizes.items() if size in bounds.high[~bounds.free]]
        return replace(bounds, size=sizes_of[0] if sizes_of else None)

    def numbers(self, tensor: NetworkTensor) -> list[int]:
        """Return whole numbers that the graph or an example knows, and then their neighbors.

        Of few, sums and differences may be what the graph knows: it may compare behind an offset.
        """
        accepted = self._known(tensor)
        ids = [*accepted.numbers, *accepted.constants]
        if "INT" in tensor.data_type and not accepted.table:
            ids += [number for request in self.written for number in whole_numbers(request[tensor.name])]
        if len(accepted.constants) <= _FEW_CONSTANTS:
            pairs = itertools.permutations(accepted.constants, 2)
            ids += [number for one, other in pairs for number in (one + other, one - other)]
        return [*dict.fromkeys([*ids, *(number + step for number in ids for step in (-1, 1))])]

    def _usual(self, questions: Questions) -> Iterator[Tensors]:
        """Yield requests of one row that the source takes: of examples, or made up."""
        shown = [
            request
            for request in (*self.written, *self.examples)
            if all(value.size for value in request.values())
        ]
        if self.batches:
            shown = [{name: value[:1] for name, value in request.items()} for request in shown]
        numbers = {tensor.name: self.numbers(tensor) for tensor in self.inputs if not self.is_mask(tensor)}
        made = with_numbers(self.request(0, batch=1, sizes=1), numbers)
        with contextlib.suppress(TooManyQuestionsError):
            yield from filter(questions.takes, itertools.chain(shown, made))

    @property
    def has_open_sizes(self) -> bool:
        """True if an input has a dimension, other than the batch, whose sizes nothing declares."""
        declared = _declared_sizes(self.model)
        return any((tensor.name, axis) not in declared for tensor, axis, _ in self._open_dims())

    def possible_sizes(self) -> Iterator[Sequence[int]]:
        """Yield sizes of dimensions that nothing declares, until the network accepts one."""
        if not self.has_open_sizes:
            yield ()
            return
        yield _OPEN_SIZES[:3]
        if self.examples:
            yield ()
        open_dims = [key for _, _, key in self._open_dims()]
        for size in _OPEN_SIZES:
            fits = self._row_bytes(dict.fromkeys(open_dims, size)) <= _MOST_BYTES
            if fits and (size < _LARGE_SIZE or len(open_dims) == 1):
                yield (size,)

    def _values(
        self, tensor: NetworkTensor, shape: Sequence[int], random: Any, first: int, sizes: Mapping[str, int]
    ) -> Any:
        dtype = np.dtype(NUMPY_TYPES.get(tensor.data_type.removeprefix("TYPE_"), "object"))
        if dtype.kind == "O":
            return self._texts(tensor, shape, random)
        batches = bool(shape) and self.batches
        bounds = self.bounds.get(tensor.name)
        row = Row(
            tensor=tensor,
            accepted=self._known(tensor),
            span=self.ranges.get(tensor.name),
            shape=tuple(shape[1:] if batches else shape),
            shown=[request[tensor.name] for request in self.written],
            random=random,
            mask=self.is_mask(tensor),
            bounds=bounds and bounds.of_sizes(sizes),
        )
        draw = row.floats if dtype.kind == "f" else row.integers
        values = np.stack([draw(first + place) for place in range(shape[0] if batches else 1)])
        if self._is_hiding(tensor):
            values = values == 0
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            values = np.clip(values, max(limits.min, -(2**53)), min(limits.max, 2**53))
        with np.errstate(over="ignore"):
            return np.reshape(values, shape).astype(dtype)

    def _texts(self, tensor: NetworkTensor, shape: Sequence[int], random: Any) -> Any:
        """Return words that the graph knows, or of the examples, place by place: columns differ in theirs."""
        shown = [request[tensor.name] for request in self.examples]
        if self.of_examples and all(len(shape) == texts.ndim for texts in shown):
            rows = np.concatenate([np.resize(texts, (len(texts), *shape[1:])) for texts in shown])
            _, *columns = np.indices(shape)
            places = (random.integers(0, len(rows), shape), *columns)
            return rows[places]
        known = self._known(tensor)
        numbers = [str(place) for place in range(min(known.table or 0, _MOST_WORDS))]
        words = [word.encode() for word in known.words or numbers or _WORDS]
        return random.choice(np.array(words, object), shape)


def example_requests(
    examples: Sequence[Example], inputs: Sequence[NetworkTensor]
) -> tuple[Sequence[Tensors], Sequence[Tensors]]:
    """Return the first requests of examples, and those among them that the user wrote.

    Examples that lack an input are left out: a step among others may have none. Requests have the shapes that
    the network takes: Triton's reshape removes a last size of 1.
    """
    fitting = [example for example in examples if all(tensor.name in example.inputs for tensor in inputs)]
    ranks = {tensor.name: len(tensor.dims) for tensor in inputs if tensor.dims is not None}
    requests = [
        {
            name: value[..., 0] if value.shape[-1:] == (1,) and value.ndim - 1 == ranks.get(name) else value
            for name, value in example.first.items()
        }
        for example in fitting
    ]
    pairs = zip(requests, fitting, strict=True)
    return requests, [request for request, example in pairs if not example.generated]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """The sizes to try for a declared open dimension: from the least to the usual one, and the largest."""

    tried: Sequence[int]
    largest: int


def _declared_sizes(model: Network) -> dict[tuple[str, int], _Sizes]:
    """Return the sizes of each declared open dimension, by its input and place."""
    if isinstance(model, OnnxFile):
        return {
            (name, axis): _Sizes(tried=_distinct(least, usual), largest=most)
            for name, shapes in model.profile.items()
            for axis, (least, usual, most) in enumerate(zip(shapes.min, shapes.opt, shapes.max, strict=False))
        }
    return {
        (tensor.name, axis): _Sizes(
            tried=_distinct(size.min, min(size.min + 3, size.max), size.usual), largest=size.max
        )
        for tensor in model.inputs
        for axis, size in enumerate(tensor.dims, start=1 if model.max_batch_size else 0)
        if isinstance(size, DynamicDim)
    }


def _takes(source: Callable[[Tensors], Any], request: Tensors) -> bool:
    with contextlib.suppress(Exception):  # whatever a framework raises
        source(request)
        return True
    return False


def _names_mask(tensor: NetworkTensor) -> bool:
    return _MASK.search(tensor.name.lower()) is not None


def _of_any_size(bounds: Mapping[str, Bounds]) -> dict[str, Bounds]:
    return {name: replace(of_input, size=None) for name, of_input in bounds.items()}


def _distinct(*sizes: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(sizes))
