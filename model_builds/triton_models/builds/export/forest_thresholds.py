"""Thresholds of forests, rounded to FP32 for rows in FP32.

LightGBM and scikit-learn's histograms compare `x <= threshold` in FP64, and the server gets x in FP32. If a
row equals a threshold, as prices with two decimals often do, its FP32 value may lie above it: FP32 knows 1.23
as 1.2300000191. The FP32 number nearest to a threshold decides for that row and for all below it as FP64
does, so the checkpoint gets it, unless it stands for a larger value of the feature as well, which goes right:
the next decimal, if the thresholds lie on or halfway between decimals, or the next FP32 number, if the rows
are FP32. Decimals that were computed, such as prices with a tax, lie beside the decimals, and so do
thresholds that equal them: 20.848799999999997. There, the threshold itself counts as its decimal.

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
_MOST_DECIMALS = 6
_ROUNDED = 8  # units in the last place by which half a sum of decimals, in FP64, is not exact
# What shows that decimals are computed: thresholds next to decimals that are no middles of plain ones. The
# two values of a middle lie no further from it than the next thresholds, so one that has none there proves it
# (no threshold of 35 kinds of plain decimals was such). LightGBM's thresholds are never values of training,
# so few rows equal them: a small part of proofs is let pass. If histograms of scikit-learn have many
# thresholds, nearly all next to decimals, these are values, and the few middles are those of near values.
_GAPS, _PART_OF_LIGHTGBM = 64, 0.05
_MANY, _EQUAL, _PART_OF_EQUAL, _OF_BOTH = 128, 0.95, 0.02, 0.25
_LOW_BITS = 16  # of the 29 that FP32 has not; halves of sums of FP32 numbers leave these at zero
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
        decimals: Of the values that the feature has; None if it has others.
        own: True for a threshold that is rounded for rows equal to itself.
        computed: True for one that is a decimal as the feature's rows have it, which were computed.
    """

    exact: NDArray[Any]
    rounded: NDArray[Any]
    decimals: int | None
    own: NDArray[Any]
    computed: NDArray[Any]

    @classmethod
    def of(cls, exact: NDArray[Any], *, may_be_values: bool) -> Thresholds:
        """Return the thresholds of a feature as the checkpoint has them; they may equal values of rows."""
        nearest, low = _nearest(exact), _down(exact)
        fixed = (np.abs(exact) <= _TINY) | (np.abs(exact) > np.finfo(np.float32).max)
        decimals = _decimals(exact[~fixed])
        own, computed = ~(fixed | _of_fp32(exact)), np.zeros(len(exact), bool)
        rounded = np.where(own, nearest, low)
        if decimals is not None:
            near = ~fixed & _near(exact, decimals)
            if _are_computed(exact, near, decimals, may_be_values=may_be_values):
                computed = near
            lower, upper = map(_nearest, _sides(exact, computed, decimals))
            apart = ~fixed & (nearest < upper)
            at_value = np.where((upper == low) & (lower < low), _before(low), np.maximum(lower, low))
            rounded = np.where(apart, nearest, np.where(fixed, low, at_value))
            own = computed | (apart & ~near)
        return cls(exact=exact, rounded=rounded, decimals=decimals, own=own, computed=computed)

    def rows(self) -> NDArray[Any]:
        """Return values in FP64 next to which answers change."""
        t, gaps = self.exact, np.diff(self.exact)
        step = np.zeros(len(t))
        if len(gaps):
            window = np.ones(min(_WINDOW, len(gaps)))
            means = np.convolve(gaps, window, "same") / np.convolve(np.ones(len(gaps)), window, "same")
            step = _NEAR * np.minimum(np.append(means, means[-1]), np.append(means[0], means))
        if self.decimals is None:
            values = [t[self.own], (t - step)[self.own], (t + step)[self.own]]
        else:
            near = _sides(t, self.computed, self.decimals)
            apart = _nearest(near[0]) != _nearest(near[1])
            values = [near[0][apart], near[1][apart], *_beside(t - step, t + step, self.decimals)]
            values = [*map(self._as_computed, values), t[self.own]]
            # Multiples of 0.0119 are each computed in one way, and sums of prices in several.
            if np.gcd.reduce(np.round(t[self.computed] * 10.0**self.decimals).astype(np.int64)) == 1:
                values.append(np.nextafter(t[self.computed], np.inf))
        singles = np.concatenate([self.rounded, _before(self.rounded), -_before(-self.rounded)])
        drawn = np.concatenate([*values, singles[~self.collapsed(singles)]])
        return np.unique(drawn[np.abs(drawn) < np.finfo(np.float32).max])

    def collapsed(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return for each value whether its FP32 number falls between other thresholds than it does."""
        served = np.searchsorted(np.sort(self.rounded), _nearest(column))
        return np.asarray(np.searchsorted(self.exact, column) != served)

    def restored(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return the values in FP64 that FP32 numbers stand for."""
        numbers = column.astype(np.float64)
        if self.decimals is not None:
            scale = 10.0**self.decimals
            values = np.round(numbers * scale) / scale
            values = self._as_computed(np.where(_nearest(values) == numbers, values, numbers))
        else:
            values = numbers
        exact, own = self.exact[self.own], self.rounded[self.own]
        if not len(own):
            return values
        at = np.minimum(np.searchsorted(own, numbers), len(own) - 1)
        return np.where(own[at] == numbers, exact[at], values)

    def _as_computed(self, column: NDArray[Any]) -> NDArray[Any]:
        """Return decimals with those replaced that a threshold has as they were computed."""
        computed = self.exact[self.computed]
        if self.decimals is None or not len(computed):
            return column
        decimals = _decimal(computed, self.decimals)
        at = np.minimum(np.searchsorted(decimals, column), len(computed) - 1)
        return np.where(decimals[at] == column, computed[at], column)


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


def _decimals(values: NDArray[Any]) -> int | None:
    """Return how many decimals a feature has whose thresholds are these; None if it has more."""
    for decimals in range(_MOST_DECIMALS + 1):
        doubled = values * (2 * 10.0**decimals)
        near = np.abs(doubled - np.round(doubled)) <= _noise(doubled)
        if near.all() and (np.abs(doubled) < 1 << 48).all():
            return decimals
    return None


def _near(exact: NDArray[Any], decimals: int) -> NDArray[Any]:
    """Return which thresholds are decimals, up to what computing them left."""
    return np.asarray(np.abs(exact - _decimal(exact, decimals)) <= _noise(exact))


def _are_computed(exact: NDArray[Any], near: NDArray[Any], decimals: int, *, may_be_values: bool) -> bool:
    """Return whether a feature has decimals that were computed, as the thresholds near decimals tell.

    The middle of two plain decimals, as FP64 computes it, may lie beside a decimal as well.
    """
    scale, t, are_many = 10.0**decimals, exact[near], len(exact) >= _MANY
    numbers = np.round(t * scale)
    grid = max(1, int(np.gcd.reduce(np.diff(numbers).astype(np.int64)))) if are_many else 1
    step = grid // 2 if grid % 2 == 0 else grid  # 9 in degrees of Fahrenheit that were degrees of Celsius
    steps = step * np.arange(_GAPS)[:, None]
    gaps = np.diff(exact, prepend=-np.inf, append=np.inf)
    widest = np.round(np.minimum(gaps[:-1], gaps[1:])[near] * scale)
    proofs, unlikely, others = len(t), len(t), len(t)
    for low, high in (  # cents / 100 and cents * 0.01, which are never below decimals
        ((numbers - steps) / scale, (numbers + steps) / scale),
        ((numbers - steps) * (1 / scale), (numbers + steps) * (1 / scale)),
    ):
        if may_be_values:  # middles of distinct values, or of percentiles
            is_middle = ((low + high) / 2 == t) | (high - (high - low) / 2 == t)
        else:
            is_middle = np.nextafter((low + high) / 2, np.inf) == t
        may_be = (is_middle & (steps <= widest)).any(axis=0) | (widest >= step * _GAPS)
        proofs = min(proofs, int((~may_be).sum()))
        others = min(others, int((low[0] != t).sum()))
        unlikely = min(unlikely, int((~(is_middle & (steps <= max(step, 2))).any(axis=0)).sum()))
    if not may_be_values:
        return proofs > _PART_OF_LIGHTGBM * len(t)
    if not are_many or len(t) <= _EQUAL * len(exact):
        return proofs > 0
    # Of middles of plain decimals, as many are halfway between decimals, if these are odd and even ones.
    odd = float((numbers % 2).mean())
    of_both = min(odd, 1 - odd) > _OF_BOTH and others > 2 * (len(exact) - len(t)) + 3
    return proofs > 0 or of_both or unlikely > _PART_OF_EQUAL * len(t)


def _noise(values: NDArray[Any]) -> NDArray[Any]:
    """Return how far from decimals values may be; differences are computed from larger ones."""
    sizes = np.abs(values)
    return np.asarray(np.maximum(_ROUNDED * np.spacing(sizes), np.spacing(sizes.max(initial=0))))


def _decimal(values: NDArray[Any], decimals: int) -> NDArray[Any]:
    scale = 10.0**decimals
    return np.asarray(np.round(values * scale) / scale)


def _sides(exact: NDArray[Any], own: NDArray[Any], decimals: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the decimals next to thresholds; a threshold that is one as it was computed counts as it."""
    values = np.where(own, _decimal(exact, decimals), exact)
    return _beside(values, values, decimals)


def _beside(low: NDArray[Any], high: NDArray[Any], decimals: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the largest decimals that are not above some values, and the smallest that are above others."""
    scale = 10.0**decimals
    below = np.floor(low * scale) + 1
    below = np.where(below / scale <= low, below, below - 1)
    above = np.floor(high * scale)
    above = np.where(above / scale > high, above, above + 1)
    return below / scale, above / scale
