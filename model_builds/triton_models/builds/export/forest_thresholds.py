"""Thresholds of forests, rounded to FP32 for rows in FP32.

LightGBM and scikit-learn's histograms compare `x <= threshold` in FP64, and the server gets x in FP32. If a
row equals a threshold, as prices with two decimals often do, its FP32 value may lie above it: FP32 knows 1.23
as 1.2300000191. The FP32 number nearest to a threshold decides for that row and for all below it as FP64
does, so the checkpoint gets it, unless it stands for a larger value of the feature as well, which goes right:
the next one on the grid of its values, or the next FP32 number, if the rows are FP32.

Thresholds show which values a feature has, if each of them is the middle of two FP32 numbers, or of two
numbers of a grid: decimals, whole numbers, binary fractions. Any others are irregular: two values next to a
threshold may be closer than FP32 can separate, such as sin(75 degrees) and sin(105 degrees), or not. The
forest does not show it; the user's rows do.

scikit-learn's other trees compare FP32 rows with thresholds in FP64, as the backend does on a CPU. On a GPU,
it takes the nearest FP32 number, which may be a row's value above the threshold (treelite_importer.hpp of
cuML 25.08, read 2026-11-28). So they get the FP32 number that decides equally. XGBoost's are FP32 numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import treelite
from numpy.typing import NDArray

CATEGORICAL = 2  # TreeNodeType::kCategoricalTestNode of Treelite 4
_WITH_LOWER = (2, 5)  # `<` and `>=` in Operator of Treelite 4: include/treelite/enum/operator.h
_MOST_DECIMALS, _MOST_GAPS, _MANY, _FEW = 6, 128, 16, 3
# The middle of two FP32 numbers of similar size has 25 bits; of others, more. FP64 has 53.
_BITS, _SIMILAR, _MOST_BITS = 53, 25, 40
_LOW_BITS = 16  # of the 29 that FP32 has not; halves of sums of FP32 numbers leave these at zero
_BINARY, _DECIMAL = 2.0**34, 2.0**48  # the largest doubled numbers of a grid
_TINY = 1e-30  # LightGBM's bounds of zero are 1e-35
# Values this near to a threshold are drawn, as a part of the distance to the next ones: if FP32 cannot hold
# these apart, about one row of a thousand is answered wrong.
_NEAR, _WINDOW = 1e-3, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The thresholds of a feature.

    Attributes:
        exact: In ascending order, in FP64.
        rounded: The FP32 numbers of the checkpoint.
        scale: The values of the feature are whole numbers divided by this; None without such a grid.
        own: True for a threshold that is rounded for rows equal to itself.
    """

    exact: NDArray[Any]
    rounded: NDArray[Any]
    scale: float | None
    own: NDArray[Any]

    @property
    def irregular(self) -> bool:
        """True if rows in FP64 have other values than FP32 numbers and those of a grid."""
        return self.scale is None and bool(self.own.any())

    @classmethod
    def of(cls, exact: NDArray[Any], *, may_be_values: bool) -> Thresholds:
        """Return the thresholds of a feature as the checkpoint has them.

        Those of LightGBM are the FP64 numbers after the middle of two values (GetDoubleUpperBound of its
        src/io/bin.cpp, read 2026-11-28). Those of scikit-learn are middles, or values of rows.
        """
        nearest, low = _nearest(exact), _down(exact)
        fixed = (np.abs(exact) <= _TINY) | (np.abs(exact) > np.finfo(np.float32).max)
        middles = (exact if may_be_values else np.nextafter(exact, -np.inf))[~fixed]
        of_fp32 = _are_middles_of_fp32(middles)
        scale = None if of_fp32 else _scale(middles, may_be_values=may_be_values)
        own, rounded = ~fixed, nearest
        if of_fp32:
            own, rounded = np.zeros(len(exact), bool), low
        elif scale is not None:
            lower, upper = map(_nearest, _beside(exact, exact, scale))
            apart = ~fixed & (nearest < upper)
            at_value = np.where((upper == low) & (lower < low), _before(low), np.maximum(lower, low))
            rounded = np.where(apart, nearest, at_value)
            own = apart & (np.abs(exact - np.round(exact * scale) / scale) > 2 * np.spacing(np.abs(exact)))
        return cls(exact=exact, rounded=np.where(fixed, low, rounded), scale=scale, own=own)

    def rows(self) -> NDArray[Any]:
        """Return values in FP64 next to which answers change."""
        t, gaps = self.exact, np.diff(self.exact)
        step = np.zeros(len(t))
        if len(gaps):
            window = np.ones(min(_WINDOW, len(gaps)))
            means = np.convolve(gaps, window, "same") / np.convolve(np.ones(len(gaps)), window, "same")
            step = _NEAR * np.minimum(np.append(means, means[-1]), np.append(means[0], means))
        values = [t[self.own], (t - step)[self.own], (t + step)[self.own]]
        if self.scale is not None:
            near = _beside(t, t, self.scale)
            apart = _nearest(near[0]) != _nearest(near[1])
            values = [near[0][apart], near[1][apart], *_beside(t - step, t + step, self.scale), t[self.own]]
        singles = np.concatenate([self.rounded, _before(self.rounded), -_before(-self.rounded)])
        drawn = np.concatenate([*values, singles[~self.collapsed(singles)]])
        return np.unique(drawn[np.abs(drawn) < np.finfo(np.float32).max])

    def collapsed(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return for each value whether its FP32 number falls between other thresholds than it does."""
        served = np.searchsorted(np.sort(self.rounded), _nearest(column))
        return np.asarray(np.searchsorted(self.exact, column) != served)

    def restored(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return the values in FP64 that FP32 numbers stand for."""
        values = numbers = column.astype(np.float64)
        if self.scale is not None:
            on_grid = np.round(numbers * self.scale) / self.scale
            values = np.where(_nearest(on_grid) == numbers, on_grid, numbers)
        exact, own = self.exact[self.own], self.rounded[self.own]
        if not len(own):
            return values
        at = np.minimum(np.searchsorted(own, numbers), len(own) - 1)
        return np.where(own[at] == numbers, exact[at], values)


def thresholds_of(model: treelite.Model, *, may_be_values: bool) -> Mapping[int, Thresholds]:
    """Return the thresholds of each feature of a forest that compares in FP64."""
    values: dict[int, set[float]] = {}
    for feature, threshold in itertools.chain.from_iterable(splits for _, _, splits in numeric_splits(model)):
        values.setdefault(feature, set()).add(threshold)
    return {
        feature: Thresholds.of(np.array(sorted(exact)), may_be_values=may_be_values)
        for feature, exact in sorted(values.items())
    }


def round_thresholds(
    model: treelite.Model, thresholds: Mapping[int, Thresholds], *, may_be_of_fp64: bool = False
) -> None:
    """Write FP32 numbers into a forest: those of its features, or those that decide as its own do.

    Args:
        model: The forest, which is changed.
        thresholds: What is known of features.
        may_be_of_fp64: The framework may have compared in FP64. Thresholds that are no middles of FP32
            numbers are then rounded to the nearest, as a GPU does.
    """
    rounded = {
        (feature, exact): single
        for feature, known in thresholds.items()
        for exact, single in zip(known.exact.tolist(), known.rounded.tolist(), strict=True)
    }
    for tree, nodes, splits in numeric_splits(model):
        values = tree.get_field("threshold").copy()
        if values.dtype == np.float32:
            continue
        upward = np.isin(tree.get_field("cmp"), _WITH_LOWER)
        singles = np.where(upward, -_down(-values), _down(values))
        if may_be_of_fp64:
            singles = np.where(_of_fp32(values), singles, _nearest(values))
        singles = singles[nodes].tolist()
        values[nodes] = [rounded.get(split, single) for split, single in zip(splits, singles, strict=True)]
        tree.set_field("threshold", values)


def round_as_on_gpu(model: treelite.Model) -> None:
    """Write the thresholds into a checkpoint that the backend takes on a GPU."""
    for number in range(model.num_tree):
        tree = model.get_tree_accessor(number)
        values = tree.get_field("threshold")
        tree.set_field("threshold", _nearest(values).astype(values.dtype))


def numeric_splits(
    model: treelite.Model, trees: Iterable[int] | None = None
) -> Iterator[tuple[Any, NDArray[Any], list[tuple[int, float]]]]:
    """Yield trees, with the nodes that compare with thresholds, and their features and thresholds."""
    for number in range(model.num_tree) if trees is None else trees:
        tree = model.get_tree_accessor(number)
        nodes = (tree.get_field("cleft") >= 0) & (tree.get_field("node_type") != CATEGORICAL)
        features, thresholds = tree.get_field("split_index")[nodes], tree.get_field("threshold")[nodes]
        yield tree, nodes, list(zip(features.tolist(), thresholds.tolist(), strict=True))


def restored_rows(rows: NDArray[Any], thresholds: Mapping[int, Thresholds]) -> NDArray[Any]:
    """Return rows in FP64 that rows in FP32 stand for; others as they are."""
    if rows.dtype != np.float32 or not thresholds:
        return rows
    values = rows.astype(np.float64)
    for feature, known in thresholds.items():
        values[:, feature] = known.restored(rows[:, feature])
    return values


def _nearest(values: NDArray[Any]) -> NDArray[Any]:
    """Return the nearest FP32 numbers, in FP64."""
    with np.errstate(over="ignore"):
        return np.asarray(values.astype(np.float32), np.float64)


def _before(values: NDArray[Any]) -> NDArray[Any]:
    """Return the FP32 numbers before others."""
    with np.errstate(over="ignore"):
        return np.asarray(np.nextafter(values.astype(np.float32), np.float32(-np.inf)), np.float64)


def _down(values: NDArray[Any]) -> NDArray[Any]:
    """Return the largest FP32 numbers that are not above values."""
    nearest = _nearest(values)
    return np.asarray(np.where(nearest > values, _before(nearest), nearest))


def _of_fp32(values: NDArray[Any]) -> NDArray[Any]:
    """Return whether numbers are, up to two units in the last place, halves of sums of FP32 numbers."""
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    return np.asarray(((bits + 2) & ((1 << _LOW_BITS) - 1)) <= 4)  # noqa: PLR2004


def _are_middles_of_fp32(middles: NDArray[Any]) -> bool:
    """Return whether each number, in ascending order, may be the middle of two FP32 numbers.

    One with more bits than others is the middle of a much smaller number and about the double of itself,
    between which there is no other middle: half of sin(15 degrees) and sin(180 degrees), which is 1e-16.
    """
    fractions, exponents = np.frexp(middles)
    ones = np.abs(fractions * 2.0**_BITS).astype(np.int64)
    bits = _BITS - np.log2(np.maximum(ones & -ones, 1)).astype(int)
    tiny = np.abs(middles - _nearest(middles)) < np.ldexp(1.0, exponents - _MOST_BITS)
    smaller = np.ldexp(1.0, exponents + _SIMILAR - np.where(tiny, _MOST_BITS, bits))
    before = np.append(-np.inf, middles[:-1])
    after = np.append(middles[1:], np.inf)
    is_next = np.where(middles > 0, before < smaller, after > -smaller)
    return bool(((bits <= _SIMILAR) | ((tiny | (bits <= _MOST_BITS)) & is_next)).all())


def _scale(middles: NDArray[Any], *, may_be_values: bool) -> float | None:
    """Return the scale of the grid of whole numbers, binary fractions or decimals that has these middles."""
    largest = float(np.abs(middles).max(initial=0))
    for power in range(_BITS):
        doubled = middles * 2.0 ** (power + 1)
        if 2 * largest * 2.0**power > _BINARY:
            break
        if (doubled == np.round(doubled)).all():
            return 2.0 ** (power + may_be_values)
    for decimals in range(_MOST_DECIMALS + 1):
        scale = 10.0**decimals
        numbers = np.round(2 * scale * middles)
        noise = 2 * np.spacing(np.abs(middles))
        if 2 * largest * scale > _DECIMAL:
            break
        if (np.abs(middles - numbers / 2 / scale) <= noise).all():
            if _are_plain(middles, numbers, scale, may_be_values=may_be_values):
                return scale
            finer = 10 * scale  # of values such as 0.05 and 0.15
            are_values = may_be_values and (middles == np.round(middles * finer) / finer).all()
            return finer if are_values else None
    return None


def _are_plain(middles: NDArray[Any], numbers: NDArray[Any], scale: float, *, may_be_values: bool) -> bool:
    """Return whether numbers are middles of plain decimals to the last bit; computed ones lie close to them.

    Of middles that are no plain decimals, about as many are halfway between decimals.
    """
    is_odd, gaps = numbers % 2 == 1, np.diff(numbers, prepend=-np.inf, append=np.inf)
    widest, unit = np.minimum(gaps[:-1], gaps[1:]), 1
    if may_be_values and len(numbers) >= _MANY:  # steps of 36 in km/h of m/s
        grid = int(np.gcd.reduce(np.diff(numbers).astype(np.int64)))
        unit = grid // 2 if grid % 2 == 0 else grid
        if grid % 2 and ((middles != numbers / 2 / scale) & ~is_odd).sum() > 2 * is_odd.sum() + _FEW:
            return False
    steps = unit * np.arange(0 if may_be_values else 1, _MOST_GAPS)[:, None]
    low, high = (numbers - steps) / 2 / scale, (numbers + steps) / 2 / scale
    is_middle = ((low + high) / 2 == middles) | (may_be_values & (high - (high - low) / 2 == middles))
    may_be = is_middle & (steps <= widest) & ((numbers - steps) % 2 == 0)
    return bool((may_be.any(axis=0) | (widest >= unit * _MOST_GAPS)).all())


def _beside(low: NDArray[Any], high: NDArray[Any], scale: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the largest numbers of a grid that are not above some, and the smallest above others."""
    below = np.floor(low * scale) + 1
    below = np.where(below / scale <= low, below, below - 1)
    above = np.floor(high * scale)
    above = np.where(above / scale > high, above, above + 1)
    return below / scale, above / scale
