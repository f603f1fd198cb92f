"""What the file of a forest says that its declaration needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from triton_models.artifact.forest_head import read_ends, text_value
from triton_models.base.errors import FleetError
from triton_models.builds.export.forest_reference import Shape
from triton_models.builds.export.forest_source import FRAMEWORKS, UNCLEAR_ITERATIONS, Source
from triton_models.declare.weights import Weights

_MOST_CATEGORIES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestFile:
    """A file of XGBoost or LightGBM.

    Attributes:
        framework: xgboost or lightgbm.
        features: The numbers in a row.
        options: Options of `Forest` and `forest_reference`, as source code.
        remarks: Lines for its declaration.
    """

    framework: str
    features: int
    options: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()


def describe_forest(weights: Weights, *, name: str) -> ForestFile:
    """Return what a declaration needs to say of a file.

    Raises:
        FleetError: The file cannot be read, or not be served.
    """
    source = Source(name=name, weights=weights)
    options: dict[str, str] = {}
    remarks: list[str] = []
    try:
        kind = source.format
        if kind not in FRAMEWORKS:
            raise source.unreadable(f"{source.path.name} is not a file of XGBoost or LightGBM")
        try:
            model = source.forest()
        except FleetError as error:
            if error.problems[0].rule != UNCLEAR_ITERATIONS:
                raise
            model = Source(name=name, weights=weights, iterations="all").forest()
            options["iterations"] = "ITERATIONS"
            remarks = [
                "",
                f"# The forest has{error.problems[0].what.rpartition(': it has')[2]}. Write",
                '# "best" if these answer, as in XGBClassifier, or "all", as in Booster.predict().',
                "ITERATIONS = None",
            ]
        text = read_end(source) if kind == "lightgbm" else ""
    except OSError as error:
        raise source.unreadable(error.strerror or str(error)) from error
    if kind != "lightgbm":
        with source.path.open("rb") as file:
            ends = read_ends(file)
        if text_value(ends, rb"name", rb"[a-z]+:[a-z_]+") == "multi:softmax":
            options["answer"] = '"class"'
    remarks += list(_categories(text))
    shape = Shape.of(model)
    return ForestFile(framework=FRAMEWORKS[kind], features=shape.features, options=options, remarks=remarks)


def read_end(source: Source) -> str:
    """Return the text of a file of LightGBM."""
    return source.path.read_text(encoding="utf-8", errors="replace")


def _categories(text: str) -> Iterator[str]:
    """Yield lines about the categories of data frames, whose codes are in requests."""
    found = re.search(r"^pandas_categorical:(\[.*\])$", text, re.MULTILINE)
    try:
        categories = json.loads(found[1]) if found else []
    except ValueError:
        return
    if not categories:
        return
    names = _line(text, "feature_names").split()
    kinds = _line(text, "feature_infos").split()
    # Categorical features list their codes, such as 0:1:2; others a range, such as [0:1].
    columns = [
        name for name, kind in zip(names, kinds, strict=False) if not kind.startswith("[") and kind != "none"
    ]
    yield ""
    yield "# The model was trained on categories. Requests have their codes, and NaN for any other:"
    for number, values in enumerate(categories):
        column = columns[number] if len(columns) == len(categories) else f"categorical column {number + 1}"
        shown = [f"{code}: {json.dumps(value)}" for code, value in enumerate(values[:_MOST_CATEGORIES])]
        more = f", ... {len(values)} in all" if len(values) > _MOST_CATEGORIES else ""
        yield f"#   {json.dumps(column)}: {', '.join(shown)}{more}"


def _line(text: str, name: str) -> str:
    found = re.search(rf"^{name}=(.*)$", text, re.MULTILINE)
    return found[1] if found else ""
