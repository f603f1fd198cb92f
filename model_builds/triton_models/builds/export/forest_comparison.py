"""The comparison of a finished checkpoint with the forest's framework, on rows that the build draws.

What decides an answer are values next to the trees' thresholds, so rows are drawn from them, with zeros,
negative and large values, missing ones where the framework takes them, and known and unknown categories.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import treelite
from numpy.typing import NDArray
from treelite.gtil import gtil

from triton_models.artifact.compared import Compared, Range
from triton_models.artifact.forest_head import ForestHead
from triton_models.base.errors import FleetError
from triton_models.builds.export.forest_source import UNREADABLE, Source, head_of
from triton_models.builds.export.forest_thresholds import (
    CATEGORICAL,
    Thresholds,
    numeric_splits,
    restored_rows,
    round_as_on_gpu,
)
from triton_models.builds.export.forests import MIDDLE, all_probabilities, class_numbers, source_scores
from triton_models.check.backend_rules.fil import INPUT, scores_in_fp32
from triton_models.declare.declaration import Example
from triton_models.declare.models import Forest
from triton_models.declare.requires import missing

_ROWS, _FEWEST_ROWS = 512, 64
# Rows in FP64 that show what drawn ones cannot: if all answer equally, 0.3 % of wrong rows is unlikely.
_OWN_ROWS = 1000
_OWN_VALUES = 100  # different ones of a feature, unless it has fewer thresholds
# A forest with more trees is compared on fewer rows: 10,000 trees of XGBoost or LightGBM take one to three
# seconds on two busy cores, and those of scikit-learn ten, for any number of rows (2026-11-28).
_TREES_OF_ALL_ROWS = 2000
_TREES_READ = 500  # whose thresholds are drawn
_MOST_VALUES = 256  # of a feature
_LARGE = (1e6, 1e9)
_BATCHES = (1, 2, 3)
_COARSE = 1e-3  # a part of the usual distance between thresholds

# FP32 rounds each sum of trees, by half of its spacing. The backend and XGBoost add in FP32, in another
# order; scikit-learn and LightGBM in FP64, and their answers are rounded once.
_ROUNDING, _TREES_OF_ROUNDING = 1e-5, 100
_HALF_SPACING, _ROUNDED_ONCE = 2.0**-24, 4
# LightGBM reads smaller values as zero: RowPairFunctionFromDenseMatric in its src/c_api.cpp.
_LIGHTGBM_ZERO = 1.1e-35
_SHOWN, _FEATURES = 12, 3


def compare_forest(
    forest: Forest,
    source: Source,
    checkpoint: Path,
    *,
    examples: Sequence[Example] = (),
    tolerance: float | None = None,
) -> Compared | None:
    """Compare a checkpoint with the framework; None if the framework cannot answer here, with a note.

    Raises:
        FleetError: An answer differs by more than the tolerance of the declaration, and than rounding.
    """
    if reason := _cannot_compare(source):
        sys.stderr.write(f"note: {forest.name} is not compared with its source: {reason}\n")
        return None
    model = treelite.Model.deserialize(checkpoint)
    round_as_on_gpu(model)
    head, thresholds, codes = head_of(model), source.thresholds, _all_codes(model)
    promised = codes if forest.known_categories else {}
    own = _own_examples(forest, examples, head.features)
    least = _LIGHTGBM_ZERO if source.framework == "lightgbm" else 0.0
    for gaps in (True, False):
        drawn = draw_rows(model, head.features, gaps=gaps, least=least, thresholds=thresholds)
        for feature, known in promised.items():
            unknown = np.flatnonzero(_unknown(drawn[:, feature], known))
            drawn[unknown, feature] = np.resize(known, len(unknown))
        rows = np.concatenate([drawn, *(restored_rows(rows, thresholds) for _, rows in own)])
        try:
            expected = source_scores(source, rows, head)
            break
        except ValueError:  # scikit-learn's "Input X contains NaN"
            if not gaps:
                raise
    answers = _answers(model, source, rows, expected, head, tolerance=tolerance or 0.0)
    for limit, scores in answers:
        if (wrong := _differences(expected, scores) > limit).any():
            _check_precision(source, rows, wrong, drawn=len(drawn))
            raise _differs(source, rows, expected, scores, allowed=limit, codes=codes)
    allowed, actual = answers[0]
    if forest.answer == "class":
        _check_classes(forest, source, rows, expected, allowed=allowed)
    ranges = {
        f"{INPUT}, feature {feature}": Range(low=min(known), high=max(known), why="known_categories")
        for feature, known in promised.items()
    }
    compared = Compared(examples=0, drawn=0, allowed=allowed, precision="fp32", ranges=ranges)
    by_user = [rows for example, rows in own if not example.generated and rows.dtype == np.float64]
    if features := _unproven(thresholds, np.concatenate([np.empty((0, head.features)), *by_user])):
        return replace(compared, unproven=_say_unproven(forest, source, features))
    without = "" if gaps else ", without missing values, which it refuses"
    fewer = f", as it has {model.num_tree} trees" if len(drawn) < _ROWS else ""
    sys.stderr.write(
        f"note: {forest.name} answers as {source.framework} on {len(drawn)} drawn rows{fewer}{without}: "
        f"largest difference {_differences(expected, actual).max():.1g}\n"
    )
    return replace(compared, examples=sum(not example.generated for example, _ in own), drawn=len(drawn))


def _unproven(thresholds: Mapping[int, Thresholds], rows: NDArray[Any]) -> list[int]:
    """Return the features for which neither drawn rows nor the user's, in FP64, prove anything."""
    own = np.where(rows == rows.astype(np.float32), np.nan, rows)  # not what FP32 has anyway
    return [
        feature
        for feature, known in thresholds.items()
        if known.irregular
        and (
            len({row.tobytes() for row in rows}) < _OWN_ROWS
            or len(np.unique(own[:, feature][~np.isnan(own[:, feature])]))
            < min(_OWN_VALUES, len(known.exact))
        )
    ]


def _say_unproven(forest: Forest, source: Source, features: Sequence[int]) -> str:
    """Return the names of features, and write why nothing is known of a forest's answers."""
    parts = [str(feature) for feature in features[:_FEATURES]]
    if more := len(features) - len(parts):
        parts.append(f"{more} more")
    shown = " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
    unproven = f"feature{'s' * (len(features) > 1)} {shown}"
    sys.stderr.write(
        f"note: {forest.name} is not compared with its source: {source.framework} splits {unproven} in FP64, "
        "and the backend reads FP32. Whether values lie so near to thresholds that they go the other way, "
        f"only your rows show: write at least {_OWN_ROWS:,} different ones in examples(), as np.float64 and "
        f"{_limit(forest)}; or "
        f"train it on X.astype(np.float32); or serve it as a PythonModel that calls {source.framework}\n"
    )
    return unproven


def _limit(forest: Forest) -> str:
    return f"at most {forest.max_batch_size} in an example, its max_batch_size"


def _own_examples(
    forest: Forest, examples: Sequence[Example], features: int
) -> list[tuple[Example, NDArray[Any]]]:
    """Return the examples with rows of a forest, which the server must take."""
    pairs = [(example, _own_rows(example, features)) for example in examples]
    own = [(example, rows) for example, rows in pairs if rows is not None]
    for example, rows in own:
        if 0 < forest.max_batch_size < len(rows):
            more = f"declare Forest(max_batch_size={len(rows)})"
            raise FleetError.of(
                what=f"the example {example.name!r} of {forest.name!r} has {len(rows)} rows",
                where="examples()",
                why=f"the server takes at most {forest.max_batch_size} rows in a request, its max_batch_size",
                fix=f"write several examples, with {_limit(forest)}; or {more}",
                rule="forest-example",
            )
    return own


def _cannot_compare(source: Source) -> str:
    """Return why the framework cannot answer here; empty if it can."""
    framework = source.framework
    if framework == "treelite":
        return "a checkpoint of Treelite has no framework"
    if missing([framework]):
        return f"{framework} is not installed here"
    try:
        source.trained  # noqa: B018  loads it
    except FleetError as error:
        if error.problems[0].rule != UNREADABLE:
            raise
        return error.problems[0].what.partition(": ")[2]
    return ""


def draw_rows(
    model: treelite.Model,
    features: int,
    *,
    gaps: bool,
    least: float = 0.0,
    thresholds: Mapping[int, Thresholds] | None = None,
) -> NDArray[Any]:
    """Return rows, equal for equal forests: in FP32, or in FP64 with thresholds.

    With gaps, values are missing. The framework takes values up to `least` for zero.
    """
    random = np.random.default_rng(seed=0)
    count = max(_FEWEST_ROWS, min(_ROWS, _ROWS * _TREES_OF_ALL_ROWS // max(model.num_tree, 1)))
    large = np.array([sign * size for size in _LARGE for sign in (1, -1)], np.float32)
    rows = np.empty((count, features), np.float64 if thresholds else np.float32)
    values = _split_values(model)
    for feature, known in (thresholds or {}).items():
        values[feature] = _sample(known.rows().tolist())
    for feature in range(features):
        own = values.get(feature, np.array([-1, 1], np.float32))
        pools = [*[own] * 7, np.zeros(1, np.float32), large, np.full(1, np.nan) if gaps else own]
        choices = random.integers(0, len(pools), count)
        column = rows[:, feature]
        for number, pool in enumerate(pools):
            chosen = choices == number
            column[chosen] = random.choice(pool, int(chosen.sum()))
    rows[np.abs(rows) <= least] = 0
    rows[0], rows[1], rows[2] = 0, _LARGE[-1], -_LARGE[-1]
    if gaps:
        rows[3] = np.nan
    return rows


def _split_values(model: treelite.Model) -> dict[int, NDArray[Any]]:
    """Return the values of each feature next to which answers change: thresholds, and categories.

    Categories are those that splits name, two that none does, and a negative one.
    """
    trees = np.unique(np.linspace(0, model.num_tree - 1, min(model.num_tree, _TREES_READ), dtype=int))
    values: dict[int, set[float]] = defaultdict(set)
    for _, _, splits in numeric_splits(model, trees.tolist()):
        for feature, threshold in splits:
            values[feature].add(threshold)
    for feature, thresholds in values.items():
        numbers = np.array(sorted(thresholds)).astype(np.float32)
        numbers = numbers[np.isfinite(numbers)]
        near = [numbers, *(np.nextafter(numbers, np.float32(end)) for end in (np.inf, -np.inf))]
        values[feature] = set(np.concatenate(near).tolist())
    for feature, codes in _codes(model, trees.tolist()):
        largest = max(codes, default=0.0)
        values[feature] |= {*codes, 0.0, largest + 1, largest + 100, -1.0}
    return {feature: _sample(sorted(numbers)) for feature, numbers in values.items() if numbers}


def _codes(model: treelite.Model, trees: Iterable[int]) -> Iterator[tuple[int, set[float]]]:
    """Yield for each tree the codes that its splits name, by feature."""
    for number in trees:
        tree = model.get_tree_accessor(number)
        features, codes = tree.get_field("split_index"), tree.get_field("category_list")
        begins, ends = tree.get_field("category_list_begin"), tree.get_field("category_list_end")
        of_tree: dict[int, set[float]] = defaultdict(set)
        is_split = (tree.get_field("cleft") >= 0) & (tree.get_field("node_type") == CATEGORICAL)
        for node in np.flatnonzero(is_split):
            of_tree[int(features[node])].update(map(float, codes[begins[node] : ends[node]]))
        yield from of_tree.items()


def _all_codes(model: treelite.Model) -> dict[int, list[float]]:
    """Return the codes of each feature with categories that splits name."""
    codes: dict[int, set[float]] = defaultdict(set)
    for feature, of_tree in _codes(model, range(model.num_tree)):
        codes[feature] |= of_tree
    return {feature: sorted(known) for feature, known in sorted(codes.items()) if known}


def _unknown(column: NDArray[Any], codes: Sequence[float]) -> NDArray[Any]:
    return np.asarray(~np.isnan(column) & ~np.isin(column, codes))


def _sample(values: list[float]) -> NDArray[Any]:
    return np.asarray(values[:: max(1, len(values) // _MOST_VALUES)])


def _own_rows(example: Example, features: int) -> NDArray[Any] | None:
    rows = np.asarray(example.inputs.get(INPUT, ()))
    usable = set(example.inputs) == {INPUT} and rows.ndim == 2 and rows.shape[1] == features  # noqa: PLR2004
    if not usable or rows.dtype.kind not in "fiub":
        return None
    return rows if rows.dtype == np.float64 else rows.astype(np.float32)


def _backend_scores(model: treelite.Model, rows: NDArray[Any], head: ForestHead) -> NDArray[Any]:
    """Return the scores of a checkpoint as the backend computes them, in batches of several sizes."""
    if head.classifies:
        model.get_header_accessor().set_field("postprocessor", head.last_of_probabilities)
    batches = [batch for batch in np.split(rows, np.cumsum(_BATCHES)) if len(batch)]
    scores = np.concatenate([scores_in_fp32(gtil, model, batch, classes=head.classes) for batch in batches])
    return all_probabilities(scores) if head.classifies else scores


def _answers(
    model: treelite.Model,
    source: Source,
    rows: NDArray[Any],
    expected: NDArray[Any],
    head: ForestHead,
    *,
    tolerance: float,
) -> list[tuple[float, NDArray[Any]]]:
    """Return the scores of the backend, and those in FP64, with the differences that rounding explains."""
    is_sum = head.last == "identity"
    largest = _largest_sum(model) if is_sum else math.inf
    allowed = max(tolerance, _rounding(model, expected, largest))
    answers = [(allowed, _backend_scores(model, rows.astype(np.float32), head))]
    exactly = max(tolerance, _ROUNDED_ONCE * _HALF_SPACING * largest)
    if is_sum and source.framework != "xgboost" and exactly < allowed:
        answers.append((exactly, _exact_scores(model, rows)))
    return answers


def _exact_scores(model: treelite.Model, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the scores of a checkpoint in FP64 for rows in FP32, which shows whether the trees are equal."""
    scores = gtil.predict(model, rows.astype(np.float32).astype(np.float64))
    return np.asarray(scores).reshape(len(rows), -1)


def _largest_sum(model: treelite.Model) -> float:
    """Return a number that no sum of trees exceeds, also none of a part of them."""
    header = model.get_header_accessor()
    total = 0.0
    for number in range(model.num_tree):
        tree = model.get_tree_accessor(number)
        leaves = tree.get_field("leaf_value")[tree.get_field("cleft") < 0], tree.get_field("leaf_vector")
        total += max(float(np.abs(values).max(initial=0)) for values in leaves)
    if header.get_field("average_tree_output")[0]:
        total /= max(model.num_tree, 1)
    return total + float(np.abs(header.get_field("base_scores")).max(initial=0))


def _rounding(model: treelite.Model, expected: NDArray[Any], largest: float) -> float:
    """Return the largest difference that rounding explains: for plain sums, half a spacing for each tree.

    Otherwise it is a part of the scores' size to the next power of ten, so that equal forests have equal
    records.
    """
    finite = np.abs(expected[np.isfinite(expected)])
    size = 10.0 ** math.ceil(math.log10(max(1.0, float(finite.max(initial=0)))))
    part = _ROUNDING * max(1.0, math.sqrt(model.num_tree / _TREES_OF_ROUNDING))
    sums = max(part, model.num_tree * _HALF_SPACING * largest)
    return float(f"{min(part * size, sums):.2g}")


def _differences(expected: NDArray[Any], actual: NDArray[Any]) -> NDArray[Any]:
    """Return the difference of each score; equal infinities and NaNs do not differ."""
    if expected.shape != actual.shape:
        return np.full(len(expected), np.inf)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(expected.astype(np.float64) - actual)
    equal = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    per_score: NDArray[Any] = np.where(equal, 0.0, np.where(np.isnan(gaps), np.inf, gaps))
    return np.asarray(per_score.max(axis=1))


def _check_classes(
    forest: Forest, source: Source, rows: NDArray[Any], scores: NDArray[Any], *, allowed: float
) -> None:
    """Compare the classes with those of the user's own predict(), which are labels.

    Rows whose classes are equally likely are left out: rounding decides there.
    """
    labels = getattr(source.trained, "classes_", None)
    if labels is None or forest.threshold != MIDDLE:
        return
    names = dict(enumerate(np.asarray(labels).tolist()))
    if list(names.values()) != list(names):
        sys.stderr.write(f"note: {forest.name} answers with numbers of classes: {names}\n")
    ranked = np.sort(scores, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 2 * allowed
    predicted = np.searchsorted(labels, source.trained.predict(rows))[:, None].astype(np.float32)
    chosen = class_numbers(scores, forest.threshold)
    wrong = np.flatnonzero(clear & (predicted != chosen)[:, 0])
    if len(wrong):
        raise _differs(source, rows[wrong], predicted[wrong], chosen[wrong], allowed=0.0, codes={})


def _check_precision(source: Source, rows: NDArray[Any], wrong: NDArray[Any], *, drawn: int) -> None:
    """Refuse a forest that answers otherwise because FP32 cannot separate its values from its thresholds."""
    for feature, thresholds in source.thresholds.items():
        exact: list[float] = thresholds.exact.tolist()
        for row in np.flatnonzero(wrong & thresholds.collapsed(rows[:, feature])).tolist():
            value = float(rows[row, feature])
            nearest = min(exact, key=lambda threshold: (threshold == value, abs(threshold - value)))
            whose = " of your examples" if row >= drawn else ""
            is_coarse = np.spacing(np.float32(abs(value))) > _COARSE * np.median(np.diff([*exact, np.inf]))
            fix = (
                f"subtract an offset from feature {feature}, such as its smallest value, before training and "
                "in requests"
            )
            if not is_coarse:
                fix = "train it on X.astype(np.float32)"
            raise FleetError.of(
                what=f"feature {feature} of {source.name!r} has values that FP32 does not separate from "
                f"thresholds, such as the value {value!r}{whose} from the threshold {nearest!r}: it has "
                f"{len(exact)} between {exact[0]!r} and {exact[-1]!r}",
                where=f"the forest of {source.name!r}",
                why="the backend gets FP32, which has seven digits, and would answer such rows otherwise",
                fix=f"{fix}; or serve it as a PythonModel that calls {source.framework}",
                rule="forest-answers",
            )


def _differs(
    source: Source,
    rows: NDArray[Any],
    expected: NDArray[Any],
    actual: NDArray[Any],
    *,
    allowed: float,
    codes: Mapping[int, Sequence[float]],
) -> FleetError:
    differences = _differences(expected, actual)
    worst, wrong = int(differences.argmax()), differences > allowed
    return FleetError.of(
        what=f"{source.name!r} answers {_text(actual[worst])} to the row {_text(rows[worst])}, and "
        f"{source.framework} {_text(expected[worst])}; {int(wrong.sum())} of {len(rows)} rows differ by "
        f"more than {allowed:g}",
        where=f"the checkpoint of {source.name!r}",
        why="the backend would serve other answers than the model that was trained",
        fix=f"serve it as a PythonModel that calls {source.framework}, or train it without what differs: "
        f"{_suspect(rows, wrong, codes)}",
        rule="forest-answers",
    )


def _suspect(rows: NDArray[Any], wrong: NDArray[Any], codes: Mapping[int, Sequence[float]]) -> str:
    """Return what rows that differ have in common."""
    unknown = [_unknown(rows[:, feature], known) for feature, known in codes.items()]
    if unknown and np.any(unknown, axis=0)[wrong].all():
        return (
            "all rows that differ have unknown categories. If no requests have any, declare "
            "Forest(known_categories=True)"
        )
    marks = {"missing values": np.isnan(rows), "zeros": rows == 0, "large values": np.abs(rows) >= _LARGE[0]}
    for what, mark in marks.items():
        has = mark.any(axis=1)
        if has[wrong].all() and not has[~wrong].all():
            return f"all rows that differ have {what}"
    return "all rows differ" if wrong.all() else "the rows that differ have nothing in common"


def _text(values: NDArray[Any]) -> str:
    parts = [f"{value:.6g}" for value in values[:_SHOWN]]
    return f"[{', '.join(parts)}{', ...' if len(values) > _SHOWN else ''}]"
