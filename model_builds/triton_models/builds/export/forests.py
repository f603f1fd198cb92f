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

import functools
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.forest_head import MULTI_CLASS, ForestHead, gpu_refuses
from triton_models.base.errors import FleetError
from triton_models.base.processes import tie_to_parent
from triton_models.builds.export.weights import address_of, fetch
from triton_models.declare.declaration import Tensors
from triton_models.declare.models import Forest
from triton_models.declare.requires import check_requires
from triton_models.declare.tensors import Tensor
from triton_models.declare.weights import Weights
from triton_models.facts.releases import Release

if TYPE_CHECKING:
    import treelite
    from numpy.typing import NDArray

CHECKPOINT = "checkpoint.tl"
INPUT, OUTPUT = "input__0", "output__0"

_FRAMEWORKS = {"json": "xgboost", "ubjson": "xgboost", "legacy": "xgboost", "lightgbm": "lightgbm"}

# TaskType in include/treelite/enum/task_type.h of Treelite 4.
_BINARY = 0
# With `predict_proba`, the backend computes these functions, whatever the checkpoint says (src/tl_model.h).
_PROBABILITIES = ("sigmoid", "softmax", "identity_multiclass")

_FIRST_WITH_IS_CLASSIFIER = "25.09"

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


def forest_file(weights: Weights, *, name: str) -> tuple[str, int]:
    """Return which framework wrote a file, xgboost or lightgbm, and for how many features."""
    import treelite

    path = fetch(weights)
    try:
        kind = _kind(path)
        if kind not in _FRAMEWORKS:
            raise _unreadable(name, address_of(weights), f"{path.name} is not a file of XGBoost or LightGBM")
        model = _load(path)
    except (OSError, treelite.TreeliteError) as error:
        raise _unreadable(name, address_of(weights), _said(error)) from error
    return _FRAMEWORKS[kind], model.num_feature


def write_forest(forest: Forest, weights: Weights | None, folder: Path) -> Shape:
    """Write the checkpoint of a forest into the version folder of its model."""
    model, source = _read(forest, weights)
    model = _without_base_scores(model)
    head = _head(model)
    if head.targets != 1:
        what, fix = f"it has {head.targets} targets", "train one forest for each target"
        raise _unfit(forest.name, source, what, fix)
    if head.task == MULTI_CLASS and head.last not in _PROBABILITIES:
        what = f"its scores are {head.last}, and the backend computes softmax"
        fix = "train it with the objective of all classes together, such as multiclass"
        raise _unfit(forest.name, source, what, fix)
    scores = 1
    if head.task == MULTI_CLASS or (head.task == _BINARY and head.last in _PROBABILITIES):
        scores = max(head.classes, 2)
    elif forest.answer == "class":
        raise _unfit(forest.name, source, "it is no classifier with probabilities", 'remove answer="class"')
    model.serialize(folder / CHECKPOINT)
    return Shape(features=model.num_feature, scores=scores, head=head)


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


def forest_reference(
    weights: Weights | None = None, *, estimator: Callable[[], Any] | None = None
) -> Callable[[Tensors], Tensors]:
    """Return the reference of a forest that answers with scores: the framework itself.

    XGBoost and LightGBM must be installed: name xgboost-cpu or lightgbm in the model's requirements.txt.

    ```python
    forest_reference(S3Weights(url="s3://bucket/churn.ubj"))
    ```

    Args:
        weights: A file of XGBoost or LightGBM.
        estimator: Instead of a file, the function that returns the fitted forest.
    """
    return functools.partial(_reference, weights, estimator)


def _reference(
    weights: Weights | None, estimator: Callable[[], Any] | None, inputs: Tensors
) -> dict[str, NDArray[Any]]:
    import numpy as np

    rows = inputs[INPUT]
    trained = estimator() if estimator else _trained(weights)
    scores = np.asarray(_scores(trained, rows), np.float32).reshape(len(rows), -1)
    if scores.shape[1] == 1:
        head = _head(_imported(trained) if estimator else _load(fetch(_given(weights))))
        if head.task == _BINARY and head.last in _PROBABILITIES:
            scores = np.hstack([1 - scores, scores])
    return {OUTPUT: scores}


def _scores(trained: Any, rows: NDArray[Any]) -> Any:
    if hasattr(trained, "predict_proba"):
        return trained.predict_proba(rows)
    if type(trained).__module__.startswith("xgboost") and hasattr(trained, "inplace_predict"):
        return trained.inplace_predict(rows, validate_features=False)
    if hasattr(trained, "score_samples"):  # an IsolationForest, whose score Treelite gives without the sign
        return -trained.score_samples(rows)
    return trained.predict(rows)


def _trained(weights: Weights | None) -> Any:
    """Load a file with the framework that wrote it."""
    path = fetch(_given(weights))
    kind = _kind(path)
    check_requires([_FRAMEWORKS[kind]] if kind in _FRAMEWORKS else [], folder=path.parent)
    if kind == "lightgbm":
        import lightgbm

        if not _complete(path):
            raise _unreadable("the reference", address_of(_given(weights)), f"{path.name} is incomplete")
        return lightgbm.Booster(model_file=path)
    if kind in _FRAMEWORKS:
        import xgboost

        return xgboost.Booster(model_file=path)
    raise _unreadable(
        "the reference", address_of(_given(weights)), f"{path.name} is not a file of XGBoost or LightGBM"
    )


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


def _read(forest: Forest, weights: Weights | None) -> tuple[treelite.Model, str]:
    """Return the forest, and a description of where it comes from."""
    import treelite

    try:
        if forest.estimator is not None:
            return _imported(forest.estimator()), "estimator()"
        path = fetch(_given(weights))
        return _load(path), address_of(_given(weights))
    except treelite.TreeliteError as error:
        source = address_of(_given(weights)) if forest.estimator is None else "estimator()"
        raise _unreadable(forest.name, source, _said(error)) from error


def _load(path: Path) -> treelite.Model:
    import treelite

    kind = _kind(path)
    try:
        if kind == "json":
            path.read_bytes().decode()  # or Treelite prints a traceback about its own message
        if kind == "lightgbm" and _complete(path):
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


def _complete(path: Path) -> bool:
    """Return whether a file of LightGBM has all the trees and parameters that it begins.

    Treelite reads the beginning of a file that was cut off, and LightGBM ends the process.
    """
    content = path.read_bytes()
    first = re.search(rb"^Tree=", content, re.MULTILINE)
    sizes = re.search(rb"^tree_sizes=([\d ]+)$", content, re.MULTILINE)
    listed = sum(map(int, sizes[1].split())) if sizes else 0
    rest = content[first.start() + listed if first and sizes else content.find(b"end of trees") :]
    has_parameters = b"\nend of parameters" in rest or b"\nparameters:" not in rest
    return rest.startswith(b"end of trees") and has_parameters


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


def _imported(trained: Any) -> treelite.Model:
    """Convert a fitted forest of any framework."""
    import treelite

    if isinstance(trained, treelite.Model):
        return trained
    framework = type(trained).__module__.partition(".")[0]
    if framework == "xgboost":
        booster = trained.get_booster() if hasattr(trained, "get_booster") else trained
        return treelite.frontend.from_xgboost(booster)
    if framework == "lightgbm":
        return treelite.frontend.from_lightgbm(getattr(trained, "booster_", trained))
    if framework == "sklearn":
        return treelite.sklearn.import_model(trained)
    message = f"estimator() returned a {type(trained).__name__}, not a forest"
    raise treelite.TreeliteError(message)


def _kind(path: Path) -> str:
    """Return the format of a file from its beginning, because names differ: SageMaker has "xgboost-model"."""
    with path.open("rb") as file:
        begin = file.read(64)
    if begin.startswith(b"{"):
        return "json" if begin[1:].lstrip()[:1] in {b'"', b"}"} else "ubjson"
    known = {
        b"tree\n": "lightgbm",
        b"binf": "legacy",
        b"\x80": "pickle",
        b"\x04\0\0\0": "treelite",
        b"\x03\0\0\0": "treelite",
    }
    return next((kind for mark, kind in known.items() if begin.startswith(mark)), "")


def _given(weights: Weights | None) -> Weights:
    if weights is None:
        msg = "a forest without weights and without an estimator is refused when it is read"
        raise AssertionError(msg)
    return weights


def _said(error: Exception) -> str:
    """Return Treelite's message without the place in its source code."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    said = str(error).partition("\n")[0]
    return said.partition("] ")[2].partition(": ")[2] or said


def _text(switch: bool) -> str:  # noqa: FBT001  the only argument
    return str(switch).lower()


def _unreadable(model: str, source: str, what: str) -> FleetError:
    return FleetError.of(
        what=f"the forest of {model!r} cannot be read: {what}",
        where=f"the weights {source!r}",
        why="the backend reads checkpoints of Treelite, which the build writes",
        fix="save it with save_model() of XGBoost or LightGBM, or return the fitted forest from estimator=",
        rule="forest-file",
    )


def _unfit(model: str, source: str, what: str, fix: str) -> FleetError:
    return FleetError.of(
        what=f"the forest of {model!r} cannot be served: {what}",
        where=f"the weights {source!r}",
        fix=fix,
        rule="forest-kind",
    )
