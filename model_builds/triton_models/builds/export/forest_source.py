"""A trained forest: the file of its framework, or the object that a function returns.

It is read as its user calls it. Sources, read 2026-11-28 in the installed packages: XGBoost 3.2
(XGBModel._get_iteration_range; Booster.predict uses all trees), LightGBM 4.7 (Booster.predict and save_model
use the best iteration), scikit-learn 1.9 (`missing_go_to_left`, which Treelite 4.7 does not read).
"""

from __future__ import annotations

import copy
import functools
import io
import json
import numbers
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from triton_models.artifact.forest_head import ForestHead, format_of, read_ends, read_xgboost, text_value
from triton_models.base.errors import FleetError
from triton_models.base.processes import tie_to_parent
from triton_models.builds.export.weights import address_of, fetch
from triton_models.check.backend_rules.fil import (
    CALL_PYTHON,
    MODEL_TYPES,
    NAMED_CATEGORIES,
    WITH_CODES,
    check_lightgbm,
    check_objective,
    complete,
    load_forest,
)
from triton_models.check.backend_rules.refusal import Refusal
from triton_models.declare.models import Iterations
from triton_models.declare.requires import check_requires
from triton_models.declare.weights import Weights

if TYPE_CHECKING:
    import treelite

    from triton_models.builds.export.forest_thresholds import Thresholds

CHECKPOINT = "checkpoint.tl"
UNCLEAR_ITERATIONS = "forest-iterations"
UNREADABLE = "forest-file"

FRAMEWORKS = {"json": "xgboost", "ubjson": "xgboost", "legacy": "xgboost", "lightgbm": "lightgbm"}

_SKLEARN_CODES = (
    "train it on the codes of the categories, as numbers: X[column].cat.codes, with "
    "categorical_features= for these columns"
)
_MOST_CATEGORIES = 100
_NUMBER = rb"[0-9]{1,9}"
_SCIKIT_LEARN = "scikit_learn"  # the attribute that XGBClassifier and XGBRegressor leave in their files

# Limits of reading a checkpoint. A gigabyte takes seconds.
_READ_S = 120.0
_MOST_BYTES = 4 << 30
_PROGRAM = """
import sys

source, target, most, *sys.path = sys.argv[1:]

import resource
import treelite

resource.setrlimit(resource.RLIMIT_AS, (int(most), int(most)))
try:
    treelite.Model.deserialize(source).serialize(target)
except treelite.TreeliteError as error:
    sys.exit(sys.stdout.write(str(error)))
"""


@dataclass(kw_only=True)
class Source:
    """A trained forest: weights, or an estimator that returns it.

    Without iterations, those answer with which its own predict() does.
    """

    name: str
    weights: Weights | None = None
    estimator: Callable[[], Any] | None = None
    iterations: Iterations | None = None

    @functools.cached_property
    def path(self) -> Path:
        """The forest's file."""
        return fetch(cast("Weights", self.weights))

    @functools.cached_property
    def format(self) -> str:
        """The format of its file; empty without one."""
        if self.estimator is not None:
            return ""
        with self.path.open("rb") as file:
            return format_of(file.read(64))

    @functools.cached_property
    def trained(self) -> Any:
        """The object of its framework, which answers as the user's own."""
        if self.estimator is not None:
            return self._with_iterations(self.estimator())
        framework = self.require_framework()
        check_requires([framework], folder=self.path.parent)
        if framework == "lightgbm":
            import lightgbm

            if not complete(self.path.read_bytes()):
                raise self.unreadable(f"{self.path.name} is incomplete")
            return lightgbm.Booster(model_file=self.path)
        import xgboost

        try:
            return self._with_iterations(xgboost.Booster(model_file=self.path))
        except xgboost.core.XGBoostError as error:
            what = f"XGBoost {xgboost.__version__} cannot read {self.path.name}"
            fix = "load it with the XGBoost that wrote it, and save it again: save_model('forest.json')"
            raise self.unreadable(what, fix) from error

    @property
    def framework(self) -> str:
        """The framework of a forest: xgboost, lightgbm, sklearn; or treelite, which needs none."""
        if self.estimator is not None:
            return _framework(self.trained)
        return FRAMEWORKS.get(self.format, "treelite")

    def require_framework(self) -> str:
        """Return the framework of a file, which must be XGBoost or LightGBM."""
        if self.format not in FRAMEWORKS:
            raise self.unreadable(f"{self.path.name} is not a file of XGBoost or LightGBM")
        return FRAMEWORKS[self.format]

    @functools.cached_property
    def head(self) -> ForestHead | None:
        """What XGBoost says of its forest; None for another framework and for old binary files."""
        if self.estimator is None:
            with self.path.open("rb") as file:
                return read_xgboost(file) if self.format in {"json", "ubjson"} else None
        if self.framework != "xgboost":
            return None
        return read_xgboost(io.BytesIO(_booster(self.trained).save_raw("json")))

    @functools.cached_property
    def thresholds(self) -> Mapping[int, Thresholds]:
        """The thresholds of each feature; empty for a framework that reads rows in FP32."""
        from triton_models.builds.export.forest_thresholds import thresholds_of

        histograms = self.framework == "sklearn" and type(self.trained).__name__.startswith("Hist")
        in_fp64 = histograms or self.framework == "lightgbm"
        return thresholds_of(self.forest(), may_be_values=histograms) if in_fp64 else {}

    def forest(self) -> treelite.Model:
        """Return the forest as Treelite reads it, unless it would answer otherwise than its framework."""
        import treelite

        if self.head is not None:  # Treelite says what it lacks in its own words, on standard error
            self._refuse(check_objective(self.head.objective, linear=self.head.linear))
        try:
            if self.estimator is not None:
                return self._import(self.trained)
            model = load(self.path, self.format)
        except NotImplementedError as error:  # of Treelite's reader for scikit-learn
            raise self.unfit(f"{error}", _instead_of(self.trained)) from error
        except treelite.TreeliteError as error:
            raise self._explain(error) from error
        if self.framework == "lightgbm":
            self._refuse(check_lightgbm(self.path.read_text(errors="replace")))
        if self.framework == "xgboost" and self._stops_early(model):
            return self._import(self.trained)
        return model

    def _import(self, trained: Any) -> treelite.Model:
        """Convert a fitted forest of any framework."""
        import treelite

        framework = _framework(trained)
        if isinstance(trained, treelite.Model):
            return trained
        if framework == "xgboost":
            self._check_missing(getattr(trained, "missing", None))
            booster, best = _booster(trained), _best_of(_booster(trained))
            is_part = trained is not booster and best is not None and best < booster.num_boosted_rounds()
            return treelite.frontend.from_xgboost(booster[:best] if is_part else booster)
        if framework == "lightgbm":
            booster = _booster(trained)
            self._refuse(check_lightgbm(booster.model_to_string()))
            return treelite.frontend.from_lightgbm(booster)
        if framework == "sklearn":
            if _has_named_categories(trained):
                raise self.unfit(
                    "it has the names of categories, as scikit-learn keeps them of data frames",
                    _SKLEARN_CODES,
                )
            return _complete_sklearn(treelite.sklearn.import_model(trained), trained)
        message = f"estimator() returned a {type(trained).__name__}, not a forest"
        raise treelite.TreeliteError(message)

    def _with_iterations(self, trained: Any) -> Any:
        """Return a forest whose own predict() uses the iterations that shall answer."""
        framework, booster = _framework(trained), _booster(trained)
        if framework == "lightgbm" and self.iterations == "all":
            import lightgbm

            return lightgbm.Booster(model_str=booster.model_to_string(num_iteration=-1))
        if framework != "xgboost":
            return trained
        best, is_wrapped = _best_of(booster), trained is not booster
        knows_caller = is_wrapped or booster.attr(_SCIKIT_LEARN) is not None
        count = self._count(best, booster.num_boosted_rounds(), knows_caller=knows_caller)
        if is_wrapped and self.iterations == "all" and best is not None:
            trained = copy.deepcopy(trained)
            trained.get_booster().set_attr(best_iteration=None)
        return trained if is_wrapped or count is None else booster[:count]

    def _count(self, best: int | None, rounds: int, *, knows_caller: bool) -> int | None:
        """Return how many of XGBoost's iterations answer; None for all."""
        if best is None and self.iterations == "best":
            raise self.unfit("it does not say which iteration is its best", 'remove iterations="best"')
        if best is None or best >= rounds or self.iterations == "all":
            return None
        if self.iterations is None and not knows_caller:
            what = f"it has {rounds} iterations, of which {best} are its best"
            fix = (
                'say which of them answer in the Forest and in forest_reference(): iterations="best" for '
                'XGBClassifier and XGBRegressor, or "all" for Booster.predict(), which uses all'
            )
            raise self.unfit(what, fix, rule=UNCLEAR_ITERATIONS)
        return best

    def _stops_early(self, model: treelite.Model) -> bool:
        """Return True if a file of XGBoost has more iterations than shall answer, without XGBoost."""
        with self.path.open("rb") as file:
            text = read_ends(file)
        _, attribute, options = text.partition(_SCIKIT_LEARN.encode())
        missing = re.search(rb'\\?"missing\\?":\s*(-?(?:\d[\d.eE+-]*|Infinity))', options[:4096])
        self._check_missing(float(missing[1]) if missing else None)
        best = text_value(text, rb"best_iteration", _NUMBER)
        if not best and self.format == "legacy":
            attribute_value = re.search(rb"best_iteration.{8}([0-9]{1,9})", text, re.DOTALL)
            best = attribute_value[1].decode() if attribute_value else ""
        head = head_of(model)
        parallel = int(text_value(text, rb"num_parallel_tree", _NUMBER) or 1)
        rounds = model.num_tree // max(parallel * (head.classes if head.leaf_width == 1 else 1), 1)
        count = self._count(int(best) + 1 if best else None, rounds, knows_caller=bool(attribute))
        return count is not None

    def _check_missing(self, value: float | None) -> None:
        if value is not None and value == value:  # noqa: PLR0124  not NaN
            what = f"it takes the value {value:g} as missing, and the backend takes NaN alone"
            fix = (
                "send NaN instead of that value, and serve it from estimator=, with "
                "set_params(missing=float('nan'))"
            )
            raise self.unfit(what, fix)

    def _refuse(self, refusals: Iterable[Refusal]) -> None:
        for refusal in refusals:
            raise self.unfit(refusal.what, refusal.fix)

    def _explain(self, error: Exception) -> FleetError:
        """Return the error of a forest that Treelite does not read."""
        message = str(error).partition("\n")[0]
        if "category_container.enc.empty" in str(error):
            return self.unfit(NAMED_CATEGORIES, WITH_CODES)
        if self.estimator is not None and self.framework == "sklearn":
            return self.unfit(f"the backend has no {type(self.trained).__name__}", _instead_of(self.trained))
        # Without the place in Treelite's source code.
        return self.unreadable(message.partition("] ")[2].partition(": ")[2] or message)

    def unreadable(self, what: str, fix: str = "") -> FleetError:
        """Return the error of a file that cannot be read."""
        again = (
            "save it with save_model() of XGBoost or LightGBM, or return the fitted forest from estimator="
        )
        return FleetError.of(
            what=f"the forest of {self.name!r} cannot be read: {what}",
            where=self._where,
            why="the backend reads checkpoints of Treelite, which the build writes",
            fix=fix or again,
            rule=UNREADABLE,
        )

    def unfit(self, what: str, fix: str, *, rule: str = "forest-kind") -> FleetError:
        """Return the error of a forest that the backend would not serve as its framework does."""
        what = f"the forest of {self.name!r} cannot be served: {what}"
        return FleetError.of(what=what, where=self._where, fix=fix, rule=rule)

    @property
    def _where(self) -> str:
        address = "estimator()" if self.estimator is not None else address_of(cast("Weights", self.weights))
        return f"the weights {address!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestFile:
    """A file of XGBoost or LightGBM: its options and lines of remarks are source code of a declaration."""

    framework: str
    features: int
    options: Mapping[str, str]
    remarks: Sequence[str]


def describe_forest(weights: Weights, *, name: str) -> ForestFile:
    """Return what a declaration needs to say of a file."""
    source = Source(name=name, weights=weights)
    options: dict[str, str] = {}
    remarks: list[str] = []
    try:
        framework = source.require_framework()
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
        if framework == "lightgbm":
            remarks += _categories(source.path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise source.unreadable(error.strerror or str(error)) from error
    if source.head is not None and source.head.objective == "multi:softmax":
        options["answer"] = '"class"'
    return ForestFile(framework=framework, features=model.num_feature, options=options, remarks=remarks)


def _categories(text: str) -> Iterator[str]:
    """Yield lines about the categories of data frames, whose codes are in requests."""
    pattern = r"^(feature_names=|feature_infos=|pandas_categorical:)(.*)$"
    lines = dict(re.findall(pattern, text, re.MULTILINE))
    try:
        categories = json.loads(lines.get("pandas_categorical:", "[]"))
    except ValueError:
        return
    if not categories:
        return
    names, kinds = lines.get("feature_names=", "").split(), lines.get("feature_infos=", "").split()
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


def head_of(model: treelite.Model) -> ForestHead:
    """Return the head of a forest in Treelite."""
    return ForestHead.of(model.get_header_accessor().get_field)


def load(path: Path, kind: str) -> treelite.Model:
    """Read a forest's file of a format with Treelite, or raise its TreeliteError."""
    import treelite

    try:
        if kind == "json":
            path.read_bytes().decode()  # or Treelite prints a traceback about its own message
        if kind == "treelite":
            return _read_checkpoint(path)
        if kind in FRAMEWORKS and (kind != "lightgbm" or complete(path.read_bytes())):
            model: treelite.Model = load_forest(treelite, path, MODEL_TYPES[kind])
            return model
    except UnicodeDecodeError as error:  # in Treelite's message, which quotes the file
        message = f"{path.name} is damaged"
        raise treelite.TreeliteError(message) from error
    problems = {
        "pickle": "it is a pickle, which only the framework can load: use estimator=",
        "lightgbm": f"{path.name} is incomplete",
    }
    raise treelite.TreeliteError(
        problems.get(kind, f"{path.name} is not a file of XGBoost, LightGBM or Treelite")
    )


def _read_checkpoint(path: Path) -> treelite.Model:
    """Read a checkpoint that another process has read and written again.

    Treelite copies a checkpoint into memory as it is. Of 150 damaged ones, 23 ended its process and 17 read
    without an end (Treelite 4.7.0, 2026-11-25); of 450 damaged files of frameworks, none did.
    """
    import treelite

    with tempfile.TemporaryDirectory(prefix="fleet-forest-") as folder:
        copied = Path(folder) / CHECKPOINT
        most = _MOST_BYTES + 20 * path.stat().st_size
        try:
            run = subprocess.run(
                [sys.executable, "-c", _PROGRAM, str(path), str(copied), str(most), *sys.path],
                capture_output=True,
                timeout=_READ_S,
                check=False,
                preexec_fn=tie_to_parent,
            )
        except subprocess.TimeoutExpired as error:
            message = f"reading {path.name} takes more than {_READ_S:g} seconds"
            raise treelite.TreeliteError(message) from error
        if run.returncode:
            message = run.stdout.decode(errors="replace") or f"{path.name} is damaged"
            raise treelite.TreeliteError(message)
        return treelite.Model.deserialize(copied)


def _has_named_categories(trained: Any) -> bool:
    """Return whether an estimator with histograms encodes categories that are no numbers.

    `_preprocessor` of scikit-learn 1.4 to 1.9 encodes them; Treelite 4.7 reads them as numbers.
    """
    encoder = getattr(getattr(trained, "_preprocessor", None), "named_transformers_", {}).get("encoder")
    known = getattr(encoder, "categories_", ())
    return any(not isinstance(value, numbers.Real) for values in known for value in values.tolist())


def _complete_sklearn(model: treelite.Model, trained: Any) -> treelite.Model:
    """Return a forest of scikit-learn with what Treelite does not read: missing values, and last functions.

    Treelite sends all missing values to the left. It reads histograms right, and other boosted trees, which
    are in an array, refuse missing values.
    """
    import numpy as np

    trees = getattr(trained, "estimators_", None)
    for number, tree in enumerate(trees if isinstance(trees, list) else ()):
        accessor = model.get_tree_accessor(number)
        left = accessor.get_field("default_left")
        accessor.set_field("default_left", tree.tree_.missing_go_to_left.astype(left.dtype))
    kind, loss = type(trained).__name__, getattr(trained, "loss", None)
    header = model.get_header_accessor()
    if kind == "GradientBoostingClassifier" and loss == "exponential":
        header.set_field("sigmoid_alpha", np.array([2], np.float32))
    elif kind == "HistGradientBoostingRegressor" and loss in {"poisson", "gamma"}:
        header.set_field("postprocessor", "exponential")
    return model


def _framework(trained: Any) -> str:
    return type(trained).__module__.partition(".")[0]


def _booster(trained: Any) -> Any:
    """Return the Booster of a classifier or regressor of XGBoost or LightGBM; others as they are."""
    return trained.get_booster() if hasattr(trained, "get_booster") else getattr(trained, "booster_", trained)


def _best_of(booster: Any) -> int | None:
    """Return the number of XGBoost's iterations up to the best one; None if it was not stopped early."""
    best = booster.attr("best_iteration")
    return None if best is None else int(best) + 1


def _instead_of(trained: Any) -> str:
    """Return what to do about an estimator that Treelite does not read."""
    kind = type(trained).__name__
    if kind not in {"DecisionTreeClassifier", "DecisionTreeRegressor"}:
        return CALL_PYTHON
    forest = kind.replace("DecisionTree", "RandomForest")
    same = "n_estimators=1, bootstrap=False, max_features=None"
    return f"train it as {forest}({same}), with its other options; or {CALL_PYTHON}"
