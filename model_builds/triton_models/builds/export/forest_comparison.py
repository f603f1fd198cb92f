"""The comparison of a finished checkpoint with the forest's framework, on rows that the build draws.

What decides an answer are values next to the trees' thresholds, so rows are drawn from them, with zeros,
negative and large values, missing ones where the framework takes them, and known and unknown categories.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.compared import Compared, Range
from triton_models.base.errors import FleetError
from triton_models.builds.export.forest_reference import INPUT, MIDDLE, Shape, class_numbers, source_scores
from triton_models.builds.export.forest_source import UNREADABLE, Source
from triton_models.builds.export.forest_thresholds import CATEGORICAL, Thresholds, restored_rows
from triton_models.check.backend_rules.fil import scores_in_fp32
from triton_models.declare.declaration import Example
from triton_models.declare.models import Forest
from triton_models.declare.requires import missing

if TYPE_CHECKING:
    import treelite
    from numpy.typing import NDArray

_ROWS, _FEWEST_ROWS = 512, 64
# A forest with more trees is compared on fewer rows: 10,000 trees of XGBoost or LightGBM take one to three
# seconds on two busy cores, and those of scikit-learn ten, for any number of rows (2026-11-28).
_TREES_OF_ALL_ROWS = 2000
_TREES_READ = 500  # whose thresholds are drawn
_MOST_VALUES = 256  # of a feature
_LARGE = (1e6, 1e9)
_BATCHES = (1, 2, 3)

# FP32 rounds each sum of trees. The backend adds in FP32; scikit-learn and LightGBM in FP64.
_ROUNDING, _TREES_OF_ROUNDING = 1e-5, 100
# LightGBM reads smaller values as zero: RowPairFunctionFromDenseMatric in its src/c_api.cpp.
_LIGHTGBM_ZERO = 1.1e-35
_SHOWN = 12


def compare_forest(
    forest: Forest,
    source: Source,
    checkpoint: Path,
    *,
    examples: Sequence[Example] = (),
    tolerance: float | None = None,
) -> Compared | None:
    """Compare a checkpoint with the framework; None if the framework is not installed, with a note.

    Args:
        forest: Its declaration.
        source: What it was written from.
        checkpoint: The finished file.
        examples: Requests of the declaration, which are compared too.
        tolerance: The difference that the declaration allows, if it does.

    Raises:
        FleetError: An answer differs.
    """
    import numpy as np
    import treelite

    framework = source.framework
    if reason := _cannot_compare(source):
        sys.stderr.write(f"note: {forest.name} is not compared with its source: {reason}\n")
        return None
    model = treelite.Model.deserialize(checkpoint)
    least = _LIGHTGBM_ZERO if framework == "lightgbm" else 0.0
    shape = Shape.of(model)
    known = source.thresholds
    own = [rows for example in examples if (rows := _rows(example, shape.features)) is not None]
    own = [restored_rows(rows, known) for rows in own]
    codes = _codes(model)
    promised = codes if forest.known_categories else {}
    drawn, gaps = draw_rows(model, shape.features, gaps=True, least=least, thresholds=known), True
    _keep_known(drawn, promised)
    rows = np.concatenate([drawn, *own])
    try:
        expected = source_scores(source, rows, shape)
    except ValueError:  # scikit-learn's "Input X contains NaN"
        drawn, gaps = draw_rows(model, shape.features, gaps=False, least=least, thresholds=known), False
        _keep_known(drawn, promised)
        rows = np.concatenate([drawn, *own])
        expected = source_scores(source, rows, shape)
    actual = _served(model, rows.astype(np.float32), shape)
    allowed = max(tolerance or 0.0, _allowed(model, expected))
    differences = _differences(expected, actual)
    if differences.max() > allowed:
        _check_precision(forest.name, source, rows[differences > allowed])
        raise _differs(forest.name, framework, rows, expected, actual, allowed=allowed, codes=codes)
    if forest.answer == "class":
        _check_classes(forest, source, rows, expected, allowed=allowed, framework=framework)
    without = "" if gaps else ", without missing values, which it refuses"
    fewer = f", as it has {model.num_tree} trees" if len(drawn) < _ROWS else ""
    sys.stderr.write(
        f"note: {forest.name} answers as {framework} on {len(drawn)} drawn rows{fewer}{without}: "
        f"largest difference {differences.max():.1g}\n"
    )
    written = sum(not each.generated and _rows(each, shape.features) is not None for each in examples)
    ranges = {
        f"{INPUT}, feature {feature}": Range(low=min(known), high=max(known), why="known_categories")
        for feature, known in promised.items()
    }
    return Compared(examples=written, drawn=len(drawn), allowed=allowed, precision="fp32", ranges=ranges)


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

    Args:
        model: The forest.
        features: The numbers in a row.
        gaps: True to draw missing values too.
        least: The size up to which the framework takes a value for zero.
        thresholds: Of a framework that compares in FP64.
    """
    import numpy as np

    random = np.random.default_rng(seed=0)
    count = max(_FEWEST_ROWS, min(_ROWS, _ROWS * _TREES_OF_ALL_ROWS // max(model.num_tree, 1)))
    large = np.array([sign * size for size in _LARGE for sign in (1, -1)], np.float32)
    rows = np.empty((count, features), np.float64 if thresholds else np.float32)
    values = _split_values(model)
    for feature, known in (thresholds or {}).items():
        values[feature] = _some(known.rows().tolist())
    for feature in range(features):
        own = values.get(feature, np.array([-1, 1], np.float32))
        pools = [own, own, own, own, own, own, own, np.zeros(1, np.float32), large]
        pools += [np.array([np.nan], np.float32)] if gaps else [own]
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
    """Return the values of each feature next to which answers change: thresholds, and categories."""
    import numpy as np

    found: dict[int, set[float]] = {}
    for number in np.unique(np.linspace(0, model.num_tree - 1, min(model.num_tree, _TREES_READ), dtype=int)):
        tree = model.get_tree_accessor(int(number))
        splits, kinds = tree.get_field("split_index"), tree.get_field("node_type")
        thresholds = tree.get_field("threshold")
        inner = tree.get_field("cleft") >= 0
        for feature in np.unique(splits[inner]):
            of_feature = inner & (splits == feature)
            numbers = thresholds[of_feature & (kinds != CATEGORICAL)].astype(np.float32)
            numbers = numbers[np.isfinite(numbers)]
            near = [numbers, *(np.nextafter(numbers, np.float32(end)) for end in (np.inf, -np.inf))]
            values = found.setdefault(int(feature), set())
            values.update(np.concatenate(near).tolist())
            if (of_feature & (kinds == CATEGORICAL)).any():
                values.update(_categories(tree, of_feature & (kinds == CATEGORICAL)))
    return {feature: _some(sorted(values)) for feature, values in found.items() if values}


def _categories(tree: Any, nodes: NDArray[Any]) -> set[float]:
    """Return the categories that splits name, two that none does, and a negative one."""
    import numpy as np

    begins, ends = tree.get_field("category_list_begin"), tree.get_field("category_list_end")
    listed = tree.get_field("category_list")
    known = {float(code) for node in np.flatnonzero(nodes) for code in listed[begins[node] : ends[node]]}
    largest = max(known, default=0.0)
    return {*known, 0.0, largest + 1, largest + 100, -1.0}


def _codes(model: treelite.Model) -> dict[int, list[float]]:
    """Return the codes of each feature with categories that splits name."""
    import numpy as np

    codes: dict[int, set[float]] = {}
    for number in range(model.num_tree):
        tree = model.get_tree_accessor(number)
        splits = tree.get_field("split_index")
        nodes = (tree.get_field("cleft") >= 0) & (tree.get_field("node_type") == CATEGORICAL)
        begins, ends = tree.get_field("category_list_begin"), tree.get_field("category_list_end")
        listed = tree.get_field("category_list")
        for node in np.flatnonzero(nodes):
            of_node = map(float, listed[begins[node] : ends[node]])
            codes.setdefault(int(splits[node]), set()).update(of_node)
    return {feature: sorted(known) for feature, known in sorted(codes.items()) if known}


def _keep_known(rows: NDArray[Any], codes: Mapping[int, Sequence[float]]) -> None:
    """Replace categories that no split names, where the declaration promises that none come."""
    import numpy as np

    for feature, known in codes.items():
        column = rows[:, feature]
        unknown = np.flatnonzero(~np.isnan(column) & ~np.isin(column, known))
        column[unknown] = np.resize(known, len(unknown))


def _some(values: list[float]) -> NDArray[Any]:
    import numpy as np

    step = max(1, len(values) // _MOST_VALUES)
    return np.asarray(values[::step])


def _rows(example: Example, features: int) -> NDArray[Any] | None:
    import numpy as np

    rows = np.asarray(example.inputs.get(INPUT, ()))
    usable = set(example.inputs) == {INPUT} and rows.ndim == 2 and rows.shape[1] == features  # noqa: PLR2004
    if not usable or rows.dtype.kind not in "fiub":
        return None
    return rows if rows.dtype == np.float64 else rows.astype(np.float32)


def _served(model: treelite.Model, rows: NDArray[Any], shape: Shape) -> NDArray[Any]:
    """Return the scores of a checkpoint as the backend computes them, in batches of several sizes.

    With probabilities, the backend chooses the last function itself (src/tl_model.h).
    """
    import numpy as np
    from treelite.gtil import gtil

    header, head = model.get_header_accessor(), shape.head
    if shape.classifies and head.classes > 1:
        header.set_field("postprocessor", "identity_multiclass" if head.leaf_width > 1 else "softmax")
    ends = np.minimum(np.cumsum([0, *_BATCHES, len(rows)]), len(rows))
    batches = [rows[start:end] for start, end in itertools.pairwise(ends) if end > start]
    scores = np.concatenate([scores_in_fp32(gtil, model, batch, classes=head.classes) for batch in batches])
    return np.hstack([1 - scores, scores]) if scores.shape[1] == 1 < shape.scores else scores


def _allowed(model: treelite.Model, expected: NDArray[Any]) -> float:
    """Return the largest difference that rounding explains.

    It is a part of the scores' size to the next power of ten, so that equal forests have equal records.
    """
    import numpy as np

    finite = np.abs(expected[np.isfinite(expected)])
    size = 10.0 ** math.ceil(math.log10(max(1.0, float(finite.max(initial=0)))))
    return float(f"{_ROUNDING * size * max(1.0, math.sqrt(model.num_tree / _TREES_OF_ROUNDING)):.2g}")


def _differences(expected: NDArray[Any], actual: NDArray[Any]) -> NDArray[Any]:
    """Return the difference of each score; equal infinities and NaNs do not differ."""
    import numpy as np

    if expected.shape != actual.shape:
        return np.full(len(expected), np.inf)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(expected.astype(np.float64) - actual)
    equal = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    per_score: NDArray[Any] = np.where(equal, 0.0, np.where(np.isnan(gaps), np.inf, gaps))
    return np.asarray(per_score.max(axis=1))


def _check_classes(
    forest: Forest,
    source: Source,
    rows: NDArray[Any],
    scores: NDArray[Any],
    *,
    allowed: float,
    framework: str,
) -> None:
    """Compare the classes with those of the user's own predict(), which are labels.

    Rows whose classes are equally likely are left out: rounding decides there.
    """
    import numpy as np

    trained: Any = source.trained
    labels = getattr(trained, "classes_", None)
    if labels is None or forest.threshold != MIDDLE:
        return
    names = dict(enumerate(np.asarray(labels).tolist()))
    if list(names.values()) != list(names):
        sys.stderr.write(f"note: {forest.name} answers with numbers of classes: {names}\n")
    ranked = np.sort(scores, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 2 * allowed
    predicted = np.searchsorted(labels, trained.predict(rows))[:, None].astype(np.float32)
    chosen = class_numbers(scores, forest.threshold)
    wrong = np.flatnonzero(clear & (predicted != chosen)[:, 0])
    if len(wrong):
        raise _differs(forest.name, framework, rows[wrong], predicted[wrong], chosen[wrong], allowed=0.0)


def _check_precision(name: str, source: Source, rows: NDArray[Any]) -> None:
    """Refuse a forest that answers otherwise because FP32 cannot separate its values from its thresholds."""
    import numpy as np

    for feature, known in source.thresholds.items():
        wrong = np.flatnonzero(known.collapsed(rows[:, feature]))
        if len(wrong):
            value = float(rows[wrong[0], feature])
            threshold = float(known.exact[np.abs(known.exact - value).argmin()])
            raise FleetError.of(
                what=f"feature {feature} of {name!r} has values that FP32 does not separate from thresholds, "
                f"such as the value {value!r} from the threshold {threshold!r}: it has {len(known.exact)} "
                f"between {float(known.exact[0])!r} and {float(known.exact[-1])!r}",
                where=f"the forest of {name!r}",
                why="the backend gets FP32, which has seven digits, and would answer such rows otherwise",
                fix=f"subtract an offset from feature {feature}, such as its smallest value, before training "
                f"and in requests; or serve it as a PythonModel that calls {source.framework}",
                rule="forest-answers",
            )


def _differs(
    name: str,
    framework: str,
    rows: NDArray[Any],
    expected: NDArray[Any],
    actual: NDArray[Any],
    *,
    allowed: float,
    codes: Mapping[int, Sequence[float]] | None = None,
) -> FleetError:
    differences = _differences(expected, actual)
    worst = int(differences.argmax())
    outside = int((differences > allowed).sum())
    return FleetError.of(
        what=f"{name!r} answers {_shown(actual[worst])} to the row {_shown(rows[worst])}, and {framework} "
        f"{_shown(expected[worst])}; {outside} of {len(rows)} rows differ by more than {allowed:g}",
        where=f"the checkpoint of {name!r}",
        why="the backend would serve other answers than the model that was trained",
        fix=f"serve it as a PythonModel that calls {framework}, or train it without what differs: "
        f"{_suspect(rows, differences > allowed, codes or {})}",
        rule="forest-answers",
    )


def _suspect(rows: NDArray[Any], wrong: NDArray[Any], codes: Mapping[int, Sequence[float]]) -> str:
    """Return what rows that differ have in common."""
    import numpy as np

    of_codes = rows[:, list(codes)]
    known = [np.isin(of_codes[:, at], own) for at, own in enumerate(codes.values())]
    if codes and (~np.column_stack(known) & ~np.isnan(of_codes)).any(axis=1)[wrong].all():
        return (
            "all rows that differ have unknown categories. If no requests have any, declare "
            "Forest(known_categories=True)"
        )
    marks: dict[str, Callable[[NDArray[Any]], Any]] = {
        "missing values": np.isnan,
        "zeros": lambda values: values == 0,
        "large values": lambda values: np.abs(values) >= _LARGE[0],
    }
    for what, mark in marks.items():
        has = mark(rows).any(axis=1)
        if has[wrong].all() and not has[~wrong].all():
            return f"all rows that differ have {what}"
    return "all rows differ" if wrong.all() else "the rows that differ have nothing in common"


def _shown(values: NDArray[Any]) -> str:
    parts = [f"{value:.6g}" for value in values[:_SHOWN]]
    return f"[{', '.join(parts)}{', ...' if len(values) > _SHOWN else ''}]"
