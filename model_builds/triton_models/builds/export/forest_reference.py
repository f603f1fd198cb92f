"""The reference of a forest: its framework, called as its user calls it.

The server gets FP32 values. A framework that compares in FP64 gets the values that these stand for, such as
1.23 for 1.2300000191 if the forest was trained on prices: see `forest_thresholds`.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton_models.artifact.forest_head import MULTI_CLASS, ForestHead
from triton_models.builds.export.forest_source import Source
from triton_models.builds.export.forest_thresholds import restored_rows
from triton_models.declare.declaration import Tensors
from triton_models.declare.models import Answer, Iterations
from triton_models.declare.weights import Weights

if TYPE_CHECKING:
    import treelite
    from numpy.typing import NDArray

INPUT, OUTPUT = "input__0", "output__0"
MIDDLE = 0.5

# TaskType in include/treelite/enum/task_type.h of Treelite 4.
_BINARY = 0
# With `predict_proba`, the backend computes these functions, whatever the checkpoint says (src/tl_model.h).
PROBABILITIES = ("sigmoid", "softmax", "identity_multiclass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The answers of a forest.

    Attributes:
        scores: The number of scores per row: 2 or more for the probabilities of classes, otherwise 1.
    """

    features: int
    scores: int
    head: ForestHead

    @property
    def classifies(self) -> bool:
        """True if the scores are probabilities of classes."""
        return self.scores > 1

    @classmethod
    def of(cls, model: treelite.Model) -> Shape:
        """Return the shape of a forest's answers."""
        head = ForestHead.of(model.get_header_accessor().get_field)
        classifies = head.task == MULTI_CLASS or (head.task == _BINARY and head.last in PROBABILITIES)
        return cls(features=head.features, scores=max(head.classes, 2) if classifies else 1, head=head)


def forest_reference(
    weights: Weights | None = None,
    *,
    estimator: Callable[[], Any] | None = None,
    answer: Answer = "scores",
    threshold: float = MIDDLE,
    iterations: Iterations | None = None,
) -> Callable[[Tensors], Tensors]:
    """Return the reference of a forest: the framework itself.

    XGBoost and LightGBM must be installed: name xgboost-cpu or lightgbm in the model's requirements.txt.

    ```python
    forest_reference(S3Weights(url="s3://bucket/churn.ubj"))
    ```

    Args:
        weights: A file of XGBoost or LightGBM.
        estimator: Instead of a file, the function that returns the fitted forest.
        answer: That of the Forest.
        threshold: That of the Forest.
        iterations: Those of the Forest.
    """
    source = Source(name="the reference", weights=weights, estimator=estimator, iterations=iterations)
    return functools.partial(_reference, source, answer, threshold)


def _reference(source: Source, answer: Answer, threshold: float, inputs: Tensors) -> dict[str, NDArray[Any]]:
    scores = source_scores(source, inputs[INPUT])
    return {OUTPUT: scores if answer == "scores" else class_numbers(scores, threshold)}


def source_scores(source: Source, rows: NDArray[Any], shape: Shape | None = None) -> NDArray[Any]:
    """Return the scores of rows from the framework, in FP32: one column per score.

    Rows in FP64 are its user's own.

    Raises:
        FleetError: The framework is not installed, or cannot read the forest.
    """
    import numpy as np

    trained = source.trained
    rows = restored_rows(rows, source.thresholds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the names of features, which a request has not
        scores = np.asarray(_scores(trained, rows), np.float32).reshape(len(rows), -1)
    shape = shape or Shape.of(source.forest())
    if shape.scores == 1 and scores.shape[1] > 1:  # a classifier's, of an objective without probabilities
        return scores[:, -1:]
    return np.hstack([1 - scores, scores]) if scores.shape[1] == 1 < shape.scores else scores


def class_numbers(scores: NDArray[Any], threshold: float) -> NDArray[Any]:
    """Return the numbers of the classes with these probabilities, as the backend chooses them."""
    import numpy as np

    of_two = scores[:, 1:] > threshold
    chosen = of_two if scores.shape[1] == 2 else scores.argmax(1, keepdims=True)  # noqa: PLR2004
    return np.asarray(chosen, np.float32)


def _scores(trained: Any, rows: NDArray[Any]) -> Any:
    if hasattr(trained, "predict_proba"):
        return trained.predict_proba(rows)
    if type(trained).__module__.startswith("xgboost") and hasattr(trained, "inplace_predict"):
        return _booster_scores(trained, rows)
    if hasattr(trained, "score_samples"):  # an IsolationForest, whose score Treelite gives without the sign
        return -trained.score_samples(rows)
    return trained.predict(rows)


def _booster_scores(booster: Any, rows: NDArray[Any]) -> Any:
    """Return the scores of XGBoost's Booster, which answers with a class for multi:softmax."""
    import numpy as np

    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    if objective != "multi:softmax":
        return booster.inplace_predict(rows, validate_features=False)
    sums = booster.inplace_predict(rows, validate_features=False, predict_type="margin")
    powers = np.exp(sums - sums.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
