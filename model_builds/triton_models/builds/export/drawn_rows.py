"""The values of drawn rows, which no one picked to be easy.

They are zeros, negative, large and small values, rows that are nearly constant, whole numbers, and missing
values where the graph knows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triton_models.artifact.networks import NetworkTensor
from triton_models.builds.export.accepted import Accepted
from triton_models.builds.export.probed import Bounds
from triton_models.declare.tensors import Between

ROW_KINDS = (
    *("usual", "wide", "zeros", "negative", "whole", "usual", "ones", "millions", "billions", "mixed"),
    *("small", "even", "tiny"),
)
_KINDS_WITHIN = (
    *("", "low", "upper", "high", "lower", "zero", "mixed", "small", "waves", "even", "whole", "mostly zero"),
    "tiny",
)
"""Of a declared range; neither number of kinds is a multiple of 3, the cycle of small batches."""

_LARGE = {"thousands": 1e3, "millions": 1e6, "billions": 1e9}
_AMOUNTS = (1, 10, 300, *_LARGE.values(), -1e4)  # the largest, or the smallest of negative ones
MILLISECONDS, _WEEKS = 2e12, 5e9  # since 1970, of 2033; on AVX2, ONNX Runtime's Clip takes them for equal
_SMALL = {"small": (1e-4, 1e-2), "tiny": (1e-6, 1e-3)}  # in turn
_NOISE = 1e-3  # of a row that is nearly constant, as a part of its values
_HALF, _TENTH = 0.5, 0.1
_SHARES = (None, 0.5, 0.9)  # of bits that are 1; else these are few
_EVERY_THIRD, _MISSING = 3, 0.3
_FEATURE_RANK, _IMAGE_RANK = 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Draws one row of an input; `place` says of which kind.

    Attributes:
        shown: The values of the user's examples.
        mask: True if the input says which of the other values count.
        bounds: The numbers that the source takes, of an input that indexes a table.
    """

    tensor: NetworkTensor
    accepted: Accepted
    span: Between | None
    shape: Sequence[int]
    shown: Sequence[np.ndarray]
    random: Any
    mask: bool
    bounds: Bounds | None

    @property
    def _has_amounts(self) -> bool:
        return self.bounds is not None and bool(self.bounds.free.any())

    def floats(self, place: int) -> np.ndarray:
        """Return a row of floats."""
        return self._beside_known(self._floats(place), place)

    def _floats(self, place: int) -> np.ndarray:
        whole = (self.accepted.table is not None and not self._has_amounts) or bool(self.accepted.numbers)
        if self.span is not None:
            whole = self.span.never_empty
        if whole:
            return self._integers(place).astype(float)
        if self.span is not None:
            return self._beside_places(self._within(self.span, place), place)
        round_, kind = divmod(place, len(ROW_KINDS))
        if (name := ROW_KINDS[kind]) in _SMALL:
            values = _SMALL[name][round_ % 2] * self.random.standard_normal(self.shape)
        else:
            values = self._of_kind(name, both_signs=round_ % 2 == 1)
        if self.accepted.missing and place % _EVERY_THIRD == 1:
            values = np.where(self.random.random(self.shape) < _MISSING, np.nan, values)
        return self._beside_places(values, place)

    def _beside_places(self, values: np.ndarray, place: int) -> np.ndarray:
        """Return amounts, with places in a table in the other cells; every fourth row has only these."""
        if self.bounds is None:
            return values
        free, places = self.bounds.free, self._places(place)
        if self.span is not None:
            places = np.clip(places, self.span.low, self.span.high)
        if self.accepted.table is None:  # amounts, too, as far as the source takes them
            limited = np.clip(values, self.bounds.low, self.bounds.high)
            return np.where(free, values, places if place // len(_AMOUNTS) % 2 else limited)
        return np.where(free & (place % 4 > 0), values, places)

    def _beside_known(self, values: np.ndarray, place: int) -> np.ndarray:
        """Return values, with numbers that the network knows: in every second row, and where no others go."""
        if self.bounds is None or not len(self.bounds.known):
            return values
        known, count = self.bounds.known, len(self.bounds.known)
        chosen = self.random.integers(count, size=self.shape)
        if values.size == 1:
            chosen = np.full(self.shape, place // 2 % count)  # one after the other
        taken = np.take_along_axis(np.broadcast_to(known, (count, *self.shape)), chosen[None], 0)[0]
        often = self.random.random(self.shape) < (0, 1, 0, _HALF)[place % 4]
        only = ~self.bounds.free & (self.bounds.low == self.bounds.high)
        return np.where(only | often, taken, values)

    def _places(self, place: int) -> np.ndarray:
        low, high = np.zeros(()), np.full((), (self.accepted.table or 1) - 1.0)
        if self.bounds is not None:
            low, high = self.bounds.low, self.bounds.high
        ends = {1: low, 2: high}
        if place % 5 in ends:
            return np.broadcast_to(ends[place % 5], self.shape)
        low = np.maximum(low, -np.abs(high) - 1)  # most cells that take any negative number get none
        return np.asarray(np.floor(low + self.random.random(self.shape) * (high - low + 1)))

    def _of_kind(self, kind: str, *, both_signs: bool) -> np.ndarray:
        """Return a row of a kind.

        Whatever reads them first, rows of features and sequences of them may be amounts, counts or times;
        embeddings have the same dimensions. Only images and other values of four dimensions have usual
        sizes, because pixels, and what networks compute from them, are small.
        """
        accepted, shape, random = self.accepted, self.shape, self.random
        raw = len(self.tensor.dims or ()) < _IMAGE_RANK and not self.mask
        center, scale = _fitted(accepted.center, shape, 0.0), _fitted(accepted.scale, shape, 1.0)
        usual = center + scale * random.standard_normal(shape)
        largest = max(map(_largest, self.shown), default=0.0)
        wide = center + scale * max(10.0, 10 * largest) * random.uniform(-1, 1, shape)
        if kind == "whole":
            top = max(accepted.reach, 1e5 if raw else 2.0)
            return np.asarray(np.round(random.uniform(0, top, shape)))
        if raw and kind in _LARGE:
            return np.asarray(random.uniform(-_LARGE[kind] if both_signs else 0, _LARGE[kind], shape))
        if raw and kind == "mixed":
            small = random.random(shape) < _HALF
            return np.asarray(np.where(small, usual, random.choice([0.0, *_LARGE.values()], shape)))
        zeros, ones = np.zeros(shape), np.ones(shape)
        even = self._even(usual)
        others = {"zeros": zeros, "ones": ones, "negative": -np.abs(usual), "wide": wide, "even": even}
        return np.asarray(others.get(kind, usual))

    def _even(self, values: Any) -> Any:
        """Return a row that is nearly constant, with noise about as large as the last digits of FP16."""
        return np.resize(values, 1)[0] * (1 + _NOISE * self.random.standard_normal(self.shape))

    def integers(self, place: int) -> np.ndarray:
        """Return a row of whole numbers."""
        return self._beside_known(self._integers(place), place)

    def _integers(self, place: int) -> np.ndarray:
        accepted, shape, random = self.accepted, self.shape, self.random
        kind = self.tensor.data_type.removeprefix("TYPE_")
        values: Any
        if self.span is not None and not self.span.never_empty:
            values = self._beside_places(np.round(self._within(self.span, place)), place)
        elif accepted.numbers:
            values = random.choice(np.array(accepted.numbers), shape)
        elif kind in {"UINT8", "INT8"} and accepted.table is None:
            limits = np.iinfo(kind.lower())
            values = self._beside_places(random.integers(limits.min, limits.max + 1, shape), place)
        elif self.mask:
            values = self._ones(place)
        elif kind == "BOOL":
            values = self._bits(place)
        elif accepted.table is None or self._has_amounts:
            values = self._beside_places(self._amounts(place), place)
        else:
            values = self._places(place)
        return np.asarray(values)

    def _ones(self, place: int) -> np.ndarray:
        """Return a mask, of which every second one ends in zeros; of BOOL, every third has any bits."""
        length = self.shape[-1] if self.shape else 1
        if self.tensor.data_type == "TYPE_BOOL" and self.shape and length and place % _EVERY_THIRD == 2:  # noqa: PLR2004
            bits = self._bits(place // _EVERY_THIRD)
            bits[..., self.random.integers(0, length)] = 1
            return bits
        ones = self.random.integers(1, length + 1) if length and place % 2 else length
        return np.broadcast_to(np.arange(length) < ones, self.shape or (1,)).reshape(self.shape) + 0

    def _bits(self, place: int) -> np.ndarray:
        """Return bits of which one to three, half, or most are 1; a single one is either."""
        count = int(np.prod(self.shape, dtype=int))
        few = 1 + place // len(_SHARES) % _EVERY_THIRD
        ones = few if (share := _SHARES[place % len(_SHARES)]) is None else int(share * count)
        if count == 1:
            ones = self.random.integers(0, 2)
        return np.asarray(self.random.permutation(count) < ones).reshape(self.shape).astype(int)

    def _amounts(self, place: int) -> np.ndarray:
        """Return whole numbers of any size, such as counts, or amounts in cents; small ones if unasked."""
        known = self.bounds is not None or self.accepted.features
        size = _AMOUNTS[place % len(_AMOUNTS)] if known else 1
        if self.shown and (not known or size == _AMOUNTS[1]):
            return self._of_examples()
        if size == 1:
            return self._ones(place)
        if size == _LARGE["billions"] and self.tensor.data_type.endswith("INT64") and place % 2:
            return np.asarray(np.round(MILLISECONDS - self.random.uniform(0, _WEEKS, self.shape)))
        both_signs = self.accepted.features and place % 2
        low, high = (size, 0) if size < 0 else (-size if both_signs else 0, size)
        return np.asarray(np.round(self.random.uniform(low, high, self.shape)))

    def _of_examples(self) -> np.ndarray:
        values = np.concatenate([example.ravel() for example in self.shown])
        return np.asarray(self.random.choice(values, self.shape))

    def _within(self, span: Between, place: int) -> np.ndarray:
        values = self.random.uniform(span.low, span.high, self.shape)
        kind = _KINDS_WITHIN[place % len(_KINDS_WITHIN)]
        random, zero = self.random, min(max(0.0, span.low), span.high)
        ends = {"low": span.low, "high": span.high, "zero": zero}
        near = {"lower": span.low, "upper": span.high}
        if kind in ends:
            return np.full(self.shape, ends[kind])
        if kind in near:
            values = near[kind] + (values - near[kind]) * _TENTH
        elif kind == "whole":
            values = np.round(values)
        elif kind == "mixed":
            values = np.where(
                random.random(self.shape) < _HALF,
                values,
                random.choice([span.low, zero, span.high], self.shape),
            )
        elif kind == "mostly zero":
            values = np.where(random.random(self.shape) < _TENTH, values, zero)
        elif kind == "waves":
            axis = place // len(_KINDS_WITHIN) % max(len(self.shape), 1)
            along = np.indices(self.shape)[axis] if self.shape else 0
            turns = 2 * np.pi * random.uniform(0, _HALF) * along
            values = np.where(np.sin(turns) < 0, span.low, span.high)
        elif kind in _SMALL and span.low <= 0 <= span.high:
            values *= _SMALL[kind][place // len(_KINDS_WITHIN) % 2]
        elif kind == "even":
            values = self._even(values)
        return np.asarray(np.clip(values, span.low, span.high))


def _fitted(values: np.ndarray | None, shape: Sequence[int], otherwise: float) -> Any:
    """Return values per feature, or the largest if they fit neither the last nor the first dimension."""
    if values is None:
        return otherwise
    if values.size == 1 or values.size == (shape[-1] if shape else None):
        return values
    if len(shape) >= _FEATURE_RANK and values.size == shape[0]:
        return values.reshape(-1, *([1] * (len(shape) - 1)))
    return float(np.max(np.abs(values)))


def _largest(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)] if values.dtype.kind in "fiu" else np.zeros(0)
    return float(np.abs(finite).max(initial=0))
