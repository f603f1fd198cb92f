"""A trained forest: the file of its framework, or the object that a function returns.

It is read as its user calls it. Sources, read 2026-11-28 in the installed packages: XGBoost 3.2
(XGBModel._get_iteration_range; Booster.predict uses all trees), LightGBM 4.7 (Booster.predict and save_model
use the best iteration), scikit-learn 1.9 (`missing_go_to_left`, which Treelite 4.7 does not read).
"""

from __future__ import annotations

import copy
import functools
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.forest_head import ForestHead, format_of, read_ends, text_value
from triton_models.base.errors import FleetError
from triton_models.base.processes import tie_to_parent
from triton_models.builds.export.forest_thresholds import Thresholds, thresholds_of
from triton_models.builds.export.weights import address_of, fetch
from triton_models.check.backend_rules.fil import CALL_PYTHON, check_lightgbm, check_objective, complete
from triton_models.declare.models import Iterations
from triton_models.declare.requires import check_requires
from triton_models.declare.weights import Weights

if TYPE_CHECKING:
    import treelite

CHECKPOINT = "checkpoint.tl"
UNCLEAR_ITERATIONS = "forest-iterations"
UNREADABLE = "forest-file"

FRAMEWORKS = {"json": "xgboost", "ubjson": "xgboost", "legacy": "xgboost", "lightgbm": "lightgbm"}

_SAVE_AGAIN = "save it with save_model() of XGBoost or LightGBM, or return the fitted forest from estimator="
_ENCODED = "category_container.enc.empty"  # in Treelite's message

_BEST = rb"best_iteration"

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
    """A trained forest.

    Attributes:
        name: The model's name, for errors.
        weights: Its file; None for an estimator.
        estimator: The function that returns the fitted forest.
        iterations: Which of the iterations answer; None for those with which its own predict() answers.
    """

    name: str
    weights: Weights | None = None
    estimator: Callable[[], Any] | None = None
    iterations: Iterations | None = None

    @property
    def address(self) -> str:
        """The place of the forest, for errors."""
        return "estimator()" if self.estimator is not None else address_of(self._weights)

    @functools.cached_property
    def path(self) -> Path:
        """The forest's file."""
        return fetch(self._weights)

    @functools.cached_property
    def format(self) -> str:
        """The format of its file; empty without one."""
        if self.estimator is not None:
            return ""
        with self.path.open("rb") as file:
            return format_of(file.read(64))

    @functools.cached_property
    def trained(self) -> Any:
        """The object of its framework, which answers as the user's own.

        Raises:
            FleetError: It is not a forest, its framework is not installed, or it needs to know which
                iterations answer.
        """
        if self.estimator is not None:
            return self._with_iterations(self.estimator())
        framework = FRAMEWORKS.get(self.format)
        check_requires([framework] if framework else [], folder=self.path.parent)
        if framework == "lightgbm":
            import lightgbm

            if not complete(self.path.read_bytes()):
                raise self.unreadable(f"{self.path.name} is incomplete")
            return lightgbm.Booster(model_file=self.path)
        if framework is None:
            raise self.unreadable(f"{self.path.name} is not a file of XGBoost or LightGBM")
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

    @functools.cached_property
    def thresholds(self) -> Mapping[int, Thresholds]:
        """The thresholds of each feature; empty for a framework that reads rows in FP32."""
        histograms = self.framework == "sklearn" and type(self.trained).__name__.startswith("Hist")
        return thresholds_of(self.forest()) if histograms or self.framework == "lightgbm" else {}

    def forest(self) -> treelite.Model:
        """Return the forest as Treelite reads it.

        Raises:
            FleetError: Treelite cannot read it, or would answer otherwise than its framework.
        """
        import treelite

        self._check_xgboost()
        try:
            if self.estimator is not None:
                return self._import(self.trained)
            model = load(self.path, self.format)
        except NotImplementedError as error:  # of Treelite's reader for scikit-learn
            raise self.unfit(f"{error}", _instead_of(self.trained)) from error
        except treelite.TreeliteError as error:
            raise self._explained(error) from error
        if self.format == "lightgbm":
            self._check_lightgbm(self.path.read_text(errors="replace"))
        elif self.format in FRAMEWORKS and self._stops_early(model):
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
            booster = trained
            if hasattr(trained, "get_booster"):
                booster = _first_iterations(trained.get_booster(), _best_of(trained.get_booster()))
            return treelite.frontend.from_xgboost(booster)
        if framework == "lightgbm":
            booster = getattr(trained, "booster_", trained)
            self._check_lightgbm(booster.model_to_string())
            return treelite.frontend.from_lightgbm(booster)
        if framework == "sklearn":
            return _with_links(with_missing_values(treelite.sklearn.import_model(trained), trained), trained)
        message = f"estimator() returned a {type(trained).__name__}, not a forest"
        raise treelite.TreeliteError(message)

    def _with_iterations(self, trained: Any) -> Any:
        """Return a forest without the iterations that its predict() does not use, or that are not wanted."""
        framework = _framework(trained)
        if framework == "lightgbm" and self.iterations == "all":
            import lightgbm

            booster = getattr(trained, "booster_", trained)
            return lightgbm.Booster(model_str=booster.model_to_string(num_iteration=-1))
        if framework != "xgboost":
            return trained
        booster = trained.get_booster() if hasattr(trained, "get_booster") else trained
        best, rounds = _best_of(booster), booster.num_boosted_rounds()
        if best is None and self.iterations == "best":
            raise self._without_best()
        if best is None or best >= rounds:
            return trained
        if trained is not booster:  # of the scikit-learn interface, whose predict() uses the best iteration
            if self.iterations != "all":
                return trained
            trained = copy.deepcopy(trained)
            trained.get_booster().set_attr(best_iteration=None)
            return trained
        if self.iterations is None and booster.attr("scikit_learn") is None:
            raise self._ambiguous(best, rounds)
        return trained if self.iterations == "all" else _first_iterations(booster, best)

    def _stops_early(self, model: treelite.Model) -> bool:
        """Return True if a file of XGBoost has more iterations than shall answer."""
        with self.path.open("rb") as file:
            text = read_ends(file)
        number = re.search(rb'\\?"missing\\?":\s*(-?[\w.+-]+)', text.partition(b"scikit_learn")[2][:4096])
        self._check_missing(_number(number[1].decode()) if number else None)
        best = text_value(text, _BEST, rb"[0-9]{1,9}")
        if not best and self.format == "legacy":
            legacy = re.search(_BEST + rb".{8}([0-9]{1,9})", text, re.DOTALL)
            best = legacy[1].decode() if legacy else ""
        if not best or self.iterations == "all":
            if self.iterations == "best":
                raise self.unfit(
                    "the file does not say which iteration is its best", 'remove iterations="best"'
                )
            return False
        head = ForestHead.of(model.get_header_accessor().get_field)
        parallel = int(text_value(text, rb"num_parallel_tree", rb"[0-9]{1,9}") or 1)
        of_round = parallel * (head.classes if head.leaf_width == 1 else 1)
        rounds = model.num_tree // max(of_round, 1)
        if int(best) + 1 >= rounds:
            return False
        if self.iterations is None and b"scikit_learn" not in text:
            raise self._ambiguous(int(best) + 1, rounds)
        return True

    def _ambiguous(self, best: int, rounds: int) -> FleetError:
        what = f"it has {rounds} iterations, of which {best} are its best"
        fix = (
            'say which of them answer in the Forest and in forest_reference(): iterations="best" for '
            'XGBClassifier and XGBRegressor, or "all" for Booster.predict(), which uses all'
        )
        return self.unfit(what, fix, rule=UNCLEAR_ITERATIONS)

    def _without_best(self) -> FleetError:
        return self.unfit("it does not say which iteration is its best", 'remove iterations="best"')

    def _check_missing(self, value: Any) -> None:
        if value is not None and value == value:  # noqa: PLR0124  not NaN
            what = f"it takes the value {value:g} as missing, and the backend takes NaN alone"
            fix = (
                "send NaN instead of that value, and serve it from estimator=, with "
                "set_params(missing=float('nan'))"
            )
            raise self.unfit(what, fix)

    def _check_lightgbm(self, text: str) -> None:
        for refusal in check_lightgbm(text):
            raise self.unfit(refusal.what, refusal.fix)

    def unreadable(self, what: str, fix: str = "") -> FleetError:
        """Return the error of a file that cannot be read."""
        return FleetError.of(
            what=f"the forest of {self.name!r} cannot be read: {what}",
            where=f"the weights {self.address!r}",
            why="the backend reads checkpoints of Treelite, which the build writes",
            fix=fix or _SAVE_AGAIN,
            rule=UNREADABLE,
        )

    def unfit(self, what: str, fix: str, *, rule: str = "forest-kind") -> FleetError:
        """Return the error of a forest that the backend would not serve as its framework does."""
        return FleetError.of(
            what=f"the forest of {self.name!r} cannot be served: {what}",
            where=f"the weights {self.address!r}",
            fix=fix,
            rule=rule,
        )

    def _check_xgboost(self) -> None:
        """Refuse what Treelite does not read, which it says in its own words, on standard error."""
        text = self._text()
        objective = text_value(text, rb"name", rb"[a-z]+:[a-z_]+")
        linear = bool(text_value(text, rb"name", rb"gblinear"))
        for refusal in check_objective(objective, linear=linear):
            raise self.unfit(refusal.what, refusal.fix)

    def _explained(self, error: Exception) -> FleetError:
        """Return the error of a forest that Treelite does not read."""
        if _ENCODED in str(error):
            what = "it has the names of categories, as XGBoost 3.1 and newer write them for data frames"
            fix = (
                "train it on the codes of the categories, as numbers: X[column].cat.codes, with "
                'feature_types="c" for these columns'
            )
            return self.unfit(what, fix)
        if self.estimator is not None and _framework(self.trained) == "sklearn":
            return self.unfit(f"the backend has no {type(self.trained).__name__}", _instead_of(self.trained))
        return self.unreadable(say(error))

    def _text(self) -> bytes:
        """Return the text of a forest of XGBoost in which its parameters stand; empty for others."""
        if self.estimator is None:
            with self.path.open("rb") as file:
                return read_ends(file) if self.format in {"json", "ubjson"} else b""
        trained = self.trained
        if _framework(trained) != "xgboost":
            return b""
        booster = trained.get_booster() if hasattr(trained, "get_booster") else trained
        return bytes(booster.save_raw("json"))

    @property
    def _weights(self) -> Weights:
        if self.weights is None:
            msg = "a forest without weights and without an estimator is refused when it is read"
            raise AssertionError(msg)
        return self.weights


def load(path: Path, kind: str) -> treelite.Model:
    """Read a forest's file of a format with Treelite.

    Raises:
        treelite.TreeliteError: It cannot be read.
    """
    import treelite

    try:
        if kind == "json":
            path.read_bytes().decode()  # or Treelite prints a traceback about its own message
        if kind == "lightgbm" and complete(path.read_bytes()):
            return treelite.frontend.load_lightgbm_model(path)
        if kind == "legacy":
            return treelite.frontend.load_xgboost_model_legacy_binary(path)
        if kind == "treelite":
            return _checkpoint(path)
        if kind in {"json", "ubjson"}:
            return treelite.frontend.load_xgboost_model(path, format_choice=kind)
    except UnicodeDecodeError as error:  # in Treelite's message, which quotes the file
        message = f"{path.name} is damaged"
        raise treelite.TreeliteError(message) from error
    message = (
        "it is a pickle, which only the framework can load: use estimator="
        if kind == "pickle"
        else f"{path.name} is incomplete"
        if kind == "lightgbm"
        else f"{path.name} is not a file of XGBoost, LightGBM or Treelite"
    )
    raise treelite.TreeliteError(message)


def with_missing_values(model: treelite.Model, trained: Any) -> treelite.Model:
    """Return a forest of scikit-learn with the directions that its trees learned for missing values.

    Treelite sends them all to the left. It reads histograms right, and other boosted trees, which are in an
    array, refuse missing values.
    """
    trees = getattr(trained, "estimators_", None)
    for number, tree in enumerate(trees if isinstance(trees, list) else ()):
        accessor = model.get_tree_accessor(number)
        left = accessor.get_field("default_left")
        learned = tree.tree_.missing_go_to_left
        accessor.set_field("default_left", learned.astype(left.dtype))
    return model


def _with_links(model: treelite.Model, trained: Any) -> treelite.Model:
    """Return a boosted forest of scikit-learn with the function of its loss, which Treelite does not read."""
    import numpy as np

    kind, loss = type(trained).__name__, getattr(trained, "loss", None)
    header = model.get_header_accessor()
    if kind == "GradientBoostingClassifier" and loss == "exponential":
        header.set_field("sigmoid_alpha", np.array([2], np.float32))
    elif kind == "HistGradientBoostingRegressor" and loss in {"poisson", "gamma"}:
        header.set_field("postprocessor", "exponential")
    return model


def _framework(trained: Any) -> str:
    return type(trained).__module__.partition(".")[0]


def _instead_of(trained: Any) -> str:
    """Return what to do about an estimator that Treelite does not read."""
    kind = type(trained).__name__
    if kind not in {"DecisionTreeClassifier", "DecisionTreeRegressor"}:
        return CALL_PYTHON
    forest = kind.replace("DecisionTree", "RandomForest")
    same = "n_estimators=1, bootstrap=False, max_features=None"
    return f"train it as {forest}({same}), with its other options; or {CALL_PYTHON}"


def _best_of(booster: Any) -> int | None:
    """Return the number of iterations up to the best one; None if the forest was not stopped early."""
    best = booster.attr("best_iteration")
    return None if best is None else int(best) + 1


def _first_iterations(booster: Any, count: int | None) -> Any:
    return booster if count is None or count >= booster.num_boosted_rounds() else booster[:count]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _checkpoint(path: Path) -> treelite.Model:
    """Read a checkpoint that another process has read and written again.

    Treelite copies a checkpoint into memory as it is. Of 150 damaged ones, 23 ended its process and 17 read
    without an end (Treelite 4.7.0, 2026-11-25); of 450 damaged files of frameworks, none did.
    """
    import treelite

    with tempfile.TemporaryDirectory(prefix="fleet-forest-") as folder:
        copy = Path(folder) / CHECKPOINT
        most = _MOST_BYTES + 20 * path.stat().st_size
        try:
            run = subprocess.run(
                [sys.executable, "-c", _PROGRAM, str(path), str(copy), str(most), *sys.path],
                capture_output=True,
                timeout=_READ_S,
                check=False,
                preexec_fn=tie_to_parent,
            )
        except subprocess.TimeoutExpired as error:
            message = f"reading {path.name} takes more than {_READ_S:g} seconds"
            raise treelite.TreeliteError(message) from error
        if run.returncode:
            said = run.stdout.decode(errors="replace") or f"{path.name} is damaged"
            raise treelite.TreeliteError(said)
        return treelite.Model.deserialize(copy)


def say(error: Exception) -> str:
    """Return Treelite's message without the place in its source code."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    said = str(error).partition("\n")[0]
    return said.partition("] ")[2].partition(": ")[2] or said
