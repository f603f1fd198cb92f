"""Forests of decision trees, written as a checkpoint of Treelite, and their references.

Triton's FIL backend reads the files of frameworks with the Treelite of its release, which knows the
frameworks of its time: before release 26.01 it refuses every file of XGBoost 3.1 and newer. A checkpoint of
Treelite 4 is read by all of Treelite 4, so the build writes one. Tried on 2026-11-24: 25 forests of XGBoost
3.2, LightGBM 4.7 and scikit-learn 1.9, written by Treelite 4.7.0 and read by 4.0.0, 4.1.2, 4.3.0, 4.4.1 and
4.6.1, gave the framework's answers.

The GPU importers of releases before 26.01 refuse base scores that differ between the classes, as XGBoost 3.1
and newer and scikit-learn's boosting write them. The build adds them as trees of one leaf, which gives the
same sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.forest_head import MULTI_CLASS, ForestHead, gpu_refuses
from triton_models.builds.export.forest_reference import INPUT, OUTPUT, PROBABILITIES, Shape, forest_reference
from triton_models.builds.export.forest_source import CHECKPOINT, Source
from triton_models.builds.export.forest_thresholds import round_thresholds
from triton_models.declare.models import Forest
from triton_models.declare.tensors import Tensor
from triton_models.declare.weights import Weights
from triton_models.facts.releases import Release

if TYPE_CHECKING:
    import treelite

__all__ = ["forest_reference"]

_FIRST_WITH_IS_CLASSIFIER = "25.09"


def forest_source(forest: Forest, weights: Weights | None) -> Source:
    """Return what a declared forest is written from."""
    return Source(
        name=forest.name,
        weights=None if forest.estimator is not None else weights,
        estimator=forest.estimator,
        iterations=forest.iterations,
    )


def write_forest(forest: Forest, source: Source, folder: Path) -> Shape:
    """Write the checkpoint of a forest into the version folder of its model."""
    model = source.forest()
    round_thresholds(model, source.thresholds)
    model = _without_base_scores(model)
    shape = Shape.of(model)
    head = shape.head
    if head.targets != 1:
        raise source.unfit(f"it has {head.targets} targets", "train one forest for each target")
    if head.task == MULTI_CLASS and head.last not in PROBABILITIES:
        what = f"its scores are {head.last}, and the backend computes softmax"
        fix = "train it with the objective of all classes together, such as multiclass"
        raise source.unfit(what, fix)
    if head.task == MULTI_CLASS and head.classes == 1:
        raise source.unfit("it knows one class, so there is nothing to predict", "train it with two or more")
    if forest.answer == "class" and not shape.classifies:
        raise source.unfit("it is no classifier with probabilities", 'remove answer="class"')
    model.serialize(folder / CHECKPOINT)
    return shape


def gpu_refuses_forest(forest: Forest, shape: Shape, release: Release) -> str:
    """Return what the release's GPU importer refuses in a forest; empty if it imports it."""
    probabilities = shape.classifies and forest.answer == "scores"
    return gpu_refuses(shape.head, release.name, probabilities=probabilities, classifier=shape.classifies)


def tensors(forest: Forest, shape: Shape) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs and the outputs of a forest, with the names and types that the backend requires."""
    width = shape.scores if forest.answer == "scores" else 1
    return [Tensor(INPUT, "FP32", [shape.features])], [Tensor(OUTPUT, "FP32", [width])]


def parameters(forest: Forest, shape: Shape, release: Release) -> Mapping[str, str]:
    """Return the parameters of config.pbtxt."""
    classifier = "is_classifier" if release.name >= _FIRST_WITH_IS_CLASSIFIER else "output_class"
    of_classes = {"threshold": str(forest.threshold)} if shape.classifies else {}
    return {
        "model_type": "treelite_checkpoint",
        "predict_proba": _text(shape.classifies and forest.answer == "scores"),
        classifier: _text(shape.classifies),
        **of_classes,  # required, although it has no effect on probabilities
    }


def _head(model: treelite.Model) -> ForestHead:
    return ForestHead.of(model.get_header_accessor().get_field)


def _without_base_scores(model: treelite.Model) -> treelite.Model:
    """Return a forest with base scores that differ between the classes as trees of one leaf each.

    A forest that averages its trees, or whose trees do not take turns, is returned as it is.
    """
    import numpy as np
    import treelite
    from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

    head, header = _head(model), model.get_header_accessor()
    if not head.unequal_base_scores or head.averages or not head.in_turn or head.targets != 1:
        return model
    vectors = head.leaf_width > 1
    trees = [-1] if vectors else list(range(head.classes))
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
        tree_annotation=TreeAnnotation(num_tree=len(trees), target_id=[0] * len(trees), class_id=trees),
        postprocessor=PostProcessorFunc(name=head.last),
        base_scores=[0.0] * head.classes,
    )
    for each in trees:
        builder.start_tree()
        builder.start_node(0)
        builder.leaf(list(head.base_scores) if vectors else head.base_scores[each])
        builder.end_node()
        builder.end_tree()
    header.set_field("base_scores", np.zeros(head.classes))
    return treelite.Model.concatenate([model, builder.commit()])


def _text(switch: bool) -> str:  # noqa: FBT001  the only argument
    return str(switch).lower()
