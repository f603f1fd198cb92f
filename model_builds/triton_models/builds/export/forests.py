"""Forests of decision trees, written as a checkpoint of Treelite, and their references.

Triton's FIL backend reads the files of frameworks with the Treelite of its release: before release 26.01 it
refuses every file of XGBoost 3.1 and newer. All of Treelite 4 reads a checkpoint of Treelite 4, so the build
writes one. Tried on 2026-11-24: 25 forests of XGBoost 3.2, LightGBM 4.7 and scikit-learn 1.9, written by
Treelite 4.7.0 and read by 4.0.0, 4.1.2, 4.3.0, 4.4.1 and 4.6.1, gave the framework's answers.

The reference of a forest is its framework, called as its user calls it. One that compares in FP64 gets the
values that the server's FP32 stands for, such as 1.23 for 1.2300000191: see `forest_thresholds`.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.forest_head import MULTI_CLASS, PROBABILITIES, ForestHead, gpu_refuses
from triton_models.builds.export.forest_source import CHECKPOINT, Source, head_of
from triton_models.check.backend_rules.fil import CLASSIFIER_SINCE, INPUT, OUTPUT
from triton_models.declare.declaration import Tensors
from triton_models.declare.models import Answer, Forest, Iterations
from triton_models.declare.tensors import Tensor
from triton_models.declare.weights import Weights
from triton_models.facts.releases import Release

if TYPE_CHECKING:
    import treelite
    from numpy.typing import NDArray

MIDDLE = 0.5


def forest_source(forest: Forest, weights: Weights | None) -> Source:
    """Return what a declared forest is written from."""
    own = weights if forest.estimator is None else None
    return Source(name=forest.name, weights=own, estimator=forest.estimator, iterations=forest.iterations)


def write_forest(forest: Forest, source: Source, folder: Path) -> ForestHead:
    """Write the checkpoint of a forest into the version folder of its model."""
    from triton_models.builds.export.forest_thresholds import round_thresholds

    model = source.forest()
    round_thresholds(model, source.thresholds, may_be_of_fp64=source.framework == "treelite")
    model = _without_base_scores(model)
    head = head_of(model)
    if head.targets != 1:
        raise source.unfit(f"it has {head.targets} targets", "train one forest for each target")
    if head.task == MULTI_CLASS and head.last not in PROBABILITIES:
        what = f"its scores are {head.last}, and the backend computes softmax"
        fix = "train it with the objective of all classes together, such as multiclass"
        raise source.unfit(what, fix)
    if head.task == MULTI_CLASS and head.classes == 1:
        raise source.unfit("it knows one class, so there is nothing to predict", "train it with two or more")
    if forest.answer == "class" and not head.classifies:
        raise source.unfit("it is no classifier with probabilities", 'remove answer="class"')
    model.serialize(folder / CHECKPOINT)
    return head


def gpu_refuses_forest(forest: Forest, head: ForestHead, release: Release) -> str:
    """Return what the release's GPU importer refuses in a forest; empty if it imports it."""
    probabilities = head.classifies and forest.answer == "scores"
    return gpu_refuses(head, release.name, probabilities=probabilities, classifier=head.classifies)


def tensors(forest: Forest, head: ForestHead) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs and the outputs of a forest, with the names and types that the backend requires."""
    width = head.scores if forest.answer == "scores" else 1
    return [Tensor(INPUT, "FP32", [head.features])], [Tensor(OUTPUT, "FP32", [width])]


def parameters(forest: Forest, head: ForestHead, release: Release) -> Mapping[str, str]:
    """Return the parameters of config.pbtxt."""
    classifier = "is_classifier" if release.name >= CLASSIFIER_SINCE else "output_class"
    values = {
        "model_type": "treelite_checkpoint",
        "predict_proba": str(head.classifies and forest.answer == "scores").lower(),
        classifier: str(head.classifies).lower(),
    }
    if head.classifies:  # required, although it has no effect on probabilities
        values["threshold"] = str(forest.threshold)
    return values


def _without_base_scores(model: treelite.Model) -> treelite.Model:
    """Return a forest with base scores that differ between the classes as trees of one leaf each.

    The GPU importers of releases before 26.01 refuse them, as XGBoost 3.1 and newer and scikit-learn's
    boosting write them. A forest that averages its trees, or whose trees do not take turns, is returned as
    it is.
    """
    import numpy as np
    import treelite
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    head = head_of(model)
    if not head.unequal_base_scores or head.averages or not head.in_turn or head.targets != 1:
        return model
    has_vectors = head.leaf_width > 1
    classes = [-1] if has_vectors else list(range(head.classes))
    leaves: list[Any] = [list(head.base_scores)] if has_vectors else list(head.base_scores[: head.classes])
    builder: Any = ModelBuilder(
        threshold_type=model.input_type,
        leaf_output_type=model.output_type,
        metadata=Metadata(
            num_feature=model.num_feature,
            task_type="kMultiClf",
            average_tree_output=False,
            num_target=1,
            num_class=[head.classes],
            leaf_vector_shape=(1, head.leaf_width),
        ),
        tree_annotation=TreeAnnotation(num_tree=len(classes), target_id=[0] * len(classes), class_id=classes),
        postprocessor=PostProcessorFunc(name=head.last),
        base_scores=[0.0] * head.classes,
    )
    for leaf in leaves:
        builder.start_tree()
        builder.start_node(0)
        builder.leaf(leaf)
        builder.end_node()
        builder.end_tree()
    model.get_header_accessor().set_field("base_scores", np.zeros(head.classes))
    return treelite.Model.concatenate([model, builder.commit()])


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


def source_scores(source: Source, rows: NDArray[Any], head: ForestHead | None = None) -> NDArray[Any]:
    """Return the scores of rows from the framework, in FP32: one column per score.

    Rows in FP64 are its user's own.
    """
    import numpy as np

    from triton_models.builds.export.forest_thresholds import restored_rows

    trained = source.trained
    rows = restored_rows(rows, source.thresholds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the names of features, which a request has not
        scores = np.asarray(_scores(trained, rows), np.float32).reshape(len(rows), -1)
    head = head or head_of(source.forest())
    # A classifier of an objective without probabilities answers with a value.
    return all_probabilities(scores) if head.classifies else scores[:, -1:]


def all_probabilities(scores: NDArray[Any]) -> NDArray[Any]:
    """Return the probabilities of all classes from these, or from those of the second of two."""
    import numpy as np

    return np.hstack([1 - scores, scores]) if scores.shape[1] == 1 else scores


def class_numbers(scores: NDArray[Any], threshold: float) -> NDArray[Any]:
    """Return the numbers of the classes with these probabilities, as the backend chooses them."""
    import numpy as np

    of_two = scores[:, 1:] > threshold
    chosen = of_two if scores.shape[1] == 2 else scores.argmax(1, keepdims=True)  # noqa: PLR2004
    return np.asarray(chosen, np.float32)


def _scores(trained: Any, rows: NDArray[Any]) -> Any:
    if hasattr(trained, "predict_proba"):
        return trained.predict_proba(rows)
    if hasattr(trained, "score_samples"):  # an IsolationForest, whose score Treelite gives without the sign
        return -trained.score_samples(rows)
    if not hasattr(trained, "inplace_predict"):
        return trained.predict(rows)
    # XGBoost's Booster, which answers with a class for multi:softmax.
    if json.loads(trained.save_config())["learner"]["objective"]["name"] != "multi:softmax":
        return trained.inplace_predict(rows, validate_features=False)
    import numpy as np

    sums = trained.inplace_predict(rows, validate_features=False, predict_type="margin")
    powers = np.exp(sums - sums.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
