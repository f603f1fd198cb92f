"""The head of a forest's file, and what the GPU importer of a release refuses in it.

On a GPU, the FIL backend converts a forest with the importer of cuML. What that refuses ends the server with
all models of the instance: rapids-triton's instance_initialize.hpp does not catch the exception, and the
thread that loads has no handler. On a CPU, Treelite runs the forest as it is.

Sources, read 2026-11-24 at the versions that fil_backend r24.03 to r26.06 pin:

* up to 25.06: cpp/src/fil/treelite_import.cu of cuml, branch-24.02 to branch-25.04;
* from 25.09 on: cpp/include/cuml/fil/treelite_importer.hpp of cuml 00094f7 (25.09), f9fcdbb (25.12), 22b12c8
  (26.03) and f223d89 (26.05); cpp/include/nvforest/treelite_importer.hpp of nvforest 26.06;
* what predict_proba makes of the last function: src/tl_model.h of fil_backend.

The format is docs/serialization/v4.rst of Treelite. The rehearsal's stand-in for the backend imports this
module too, so it imports only the standard library.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

FIRST_WITH_ALL_FUNCTIONS = "25.09"
"""The first release whose GPU importer knows all functions that make scores of sums."""
_FIRST_WITH_BASE_SCORES = "26.01"

# TaskType and TypeInfo of Treelite 4 (include/treelite/enum).
_BINARY, MULTI_CLASS = 0, 2
_INTEGER = 1
PROBABILITIES = ("sigmoid", "softmax", "identity_multiclass")
"""The last functions that the backend computes itself with `predict_proba` (src/tl_model.h)."""

_NEWEST_FORMAT = 4
_MOST_TREES = 1 << 22  # a longer list is not a forest's, and must not fill the memory
_LONGEST_NAME = 1 << 16
_NUMBER = rb"[0-9]{1,9}"
# The first key of XGBoost's JSON, or the type of its length in UBJSON. LightGBM dumps JSON of its own.
_JSON = re.compile(rb'\{\s*(?:"(?:learner|version|Config|Model)"|\})')
_LENGTHS = b"iUIlL"
_LEGACY_MARK, _LEGACY_BYTES = b"binf", 136

# The ends of a file of XGBoost in which its parameters stand: those of the trees before them, and the
# objective behind them.
_BEGINNING, _END = 1 << 20, 1 << 16

# The last function of an objective: src/model_loader/detail/xgboost.cc and lightgbm.cc of Treelite 4.7.
_OF_OBJECTIVES: Mapping[str, str] = {
    **dict.fromkeys(("multi:softmax", "multi:softprob", "multiclass"), "softmax"),
    **dict.fromkeys(("binary:logistic", "reg:logistic", "binary", "cross_entropy"), "sigmoid"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox"), "exponential"),
    **dict.fromkeys(("survival:aft", "poisson", "gamma", "tweedie"), "exponential"),
    "binary:hinge": "hinge",
    "cross_entropy_lambda": "logarithm_one_plus_exp",
    "multiclassova": "multiclass_ova",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestHead:
    """The fields that the importers look at, and what files of XGBoost say.

    Attributes:
        version: Of the checkpoint's format; (4, 0) for a file that Treelite converts when it loads.
        features: The numbers in a row; 0 if the file does not say.
        classes: 1 for a value, or for the probability of the second of two classes.
        leaf_width: The numbers in a leaf: one, or one per class.
        class_ids: The class of each tree, -1 for all; of a file of XGBoost only if they do not take turns.
        last: The function that makes scores of the sums ("postprocessor").
        base_scores: The numbers that are added to the sums of the trees, per class.
        linear: The file has a linear model without trees.
    """

    version: tuple[int, int] = (_NEWEST_FORMAT, 0)
    features: int = 0
    targets: int = 1
    classes: int = 1
    leaf_width: int = 1
    class_ids: Sequence[int] = ()
    task: int = 0
    last: str = "identity"
    sigmoid_alpha: float = 1.0
    base_scores: Sequence[float] = ()
    averages: bool = False
    integer_leaves: bool = False
    objective: str = ""
    linear: bool = False

    @classmethod
    def of(cls, field: Callable[[str], Any]) -> ForestHead:
        """Return the head from `get_header_accessor().get_field` of Treelite's model."""
        return cls(
            features=int(field("num_feature")[0]),
            targets=int(field("num_target")[0]),
            classes=int(field("num_class")[0]),
            leaf_width=int(field("leaf_vector_shape")[1]),
            class_ids=field("class_id").tolist(),
            task=int(field("task_type")[0]),
            last=str(field("postprocessor")),
            sigmoid_alpha=float(field("sigmoid_alpha")[0]),
            base_scores=field("base_scores").tolist(),
            averages=bool(field("average_tree_output")[0]),
            integer_leaves=int(field("leaf_output_type")[0]) == _INTEGER,
        )

    @property
    def in_turn(self) -> bool:
        """True if each tree answers for all classes, or the trees for one class after the other."""
        expected = (-1 if self.leaf_width > 1 else tree % self.classes for tree in range(len(self.class_ids)))
        return list(self.class_ids) == list(expected)

    @property
    def classifies(self) -> bool:
        """True if the scores are probabilities of classes."""
        return self.task == MULTI_CLASS or (self.task == _BINARY and self.last in PROBABILITIES)

    @property
    def scores(self) -> int:
        """The number of scores per row: 2 or more for the probabilities of classes, otherwise 1."""
        return max(self.classes, 2) if self.classifies else 1

    @property
    def last_of_probabilities(self) -> str:
        """The last function with `predict_proba`, which the backend chooses (src/tl_model.h)."""
        if self.task != MULTI_CLASS:
            return self.last
        return "identity_multiclass" if self.leaf_width > 1 else "softmax"

    @property
    def unequal_base_scores(self) -> bool:
        """True if what is added differs between the classes."""
        return len(set(self.base_scores[: self.classes])) > 1


def gpu_refuses(head: ForestHead, release: str | None, *, probabilities: bool, classifier: bool) -> str:
    """Return what the GPU importer of a release refuses in a forest; empty if it imports it.

    Without a release, return what all refuse. The configuration has probabilities with predict_proba, and a
    classifier with output_class or is_classifier.
    """
    adds_one_score = release is not None and release < _FIRST_WITH_BASE_SCORES
    is_old = release is not None and release < FIRST_WITH_ALL_FUNCTIONS
    has_classes, last = head.classes > 1, head.last_of_probabilities if probabilities else head.last
    if head.leaf_width > 1:
        is_known = last in {"identity_multiclass", "max_index"}
    else:
        is_known = has_classes or last in {"sigmoid", "identity"}
    refused = {
        f"{head.targets} targets": head.targets != 1,
        f"{head.leaf_width} numbers per leaf for {head.classes} classes": (
            head.leaf_width not in {1, head.classes}
        ),
        "trees whose classes do not take turns, as num_parallel_tree orders them": (
            has_classes and not head.in_turn
        ),
        "base scores that differ between the classes": adds_one_score and head.unequal_base_scores,
        f"scores that are {last}": is_old and not is_known,
        f"a sigmoid with the factor {head.sigmoid_alpha:g}": is_old and head.sigmoid_alpha != 1,
        "leaves with integers": is_old and head.integer_leaves,
        "classes without output_class": is_old and has_classes and not classifier,
    }
    return next((reason for reason, applies in refused.items() if applies), "")


def read_checkpoint(file: IO[bytes]) -> ForestHead | None:
    """Read the head of a checkpoint of Treelite; None if it is not one, or is cut off.

    Of a checkpoint of another major version, only the version is read.
    """
    try:
        major, minor, _ = _unpack(file, "3i")
        if major != _NEWEST_FORMAT:
            return ForestHead(version=(major, minor)) if 0 < major < 2 * _NEWEST_FORMAT else None
        _, leaves, _, features, task, averages, targets = _unpack(file, "BBQiBBi")
        classes, shape, _, class_ids = (_array(file, "i") for _ in range(4))
        last = bytes(_array(file, "B")).decode("ascii")
        if classes[0] < 1:
            return None
        alpha, _ = _unpack(file, "2f")
        return ForestHead(
            version=(major, minor),
            features=features,
            targets=targets,
            classes=classes[0],
            leaf_width=shape[1],
            class_ids=class_ids,
            task=task,
            last=last,
            sigmoid_alpha=alpha,
            base_scores=_array(file, "d"),
            averages=bool(averages),
            integer_leaves=leaves == _INTEGER,
        )
    except (struct.error, ValueError, IndexError):
        return None


def read_xgboost(file: IO[bytes]) -> ForestHead | None:
    """Read the objective and the order of the trees of a JSON or UBJSON file; None if it has neither."""
    text = read_ends(file)
    objective = text_value(text, rb"name", rb"[a-z]+:[a-z_]+")
    linear = bool(text_value(text, rb"name", rb"gblinear"))
    if not (objective or linear):
        return None
    classes = int(text_value(text, rb"num_class", rb"[0-9]{1,5}") or 1)
    is_parallel = int(text_value(text, rb"num_parallel_tree", _NUMBER) or 1) > 1
    return _of_xgboost(
        objective,
        classes,
        features=int(text_value(text, rb"num_feature", _NUMBER) or 0),
        targets=max(1, int(text_value(text, rb"num_target", _NUMBER) or 1)),
        class_ids=(0, 0) if is_parallel and classes > 1 else (),
        linear=linear,
    )


def read_legacy(file: IO[bytes]) -> ForestHead | None:
    """Read the head of a binary file of XGBoost before 3.1; None if it is not one.

    The layout is LearnerModelParamLegacy in src/learner.cc of XGBoost 1.0 to 3.0, and the objective's name.
    Files of XGBoost before 1.0 have no mark.
    """
    try:
        mark = file.read(len(_LEGACY_MARK))
        parameters = (b"" if mark == _LEGACY_MARK else mark) + file.read(
            _LEGACY_BYTES - 4 * (mark != _LEGACY_MARK)
        )
        _, features, classes = struct.unpack_from("<fIi", parameters)
        (length,) = _unpack(file, "Q")
        objective = file.read(min(length, _LONGEST_NAME)).decode("ascii")
    except (struct.error, ValueError):
        return None
    is_name = len(objective) == length and re.fullmatch(r"[a-z]+:[a-z_]+", objective)
    return (
        None if classes > _MOST_TREES or not is_name else _of_xgboost(objective, classes, features=features)
    )


def _of_xgboost(objective: str, classes: int, **fields: Any) -> ForestHead:
    last = _OF_OBJECTIVES.get(objective, "identity")
    task = MULTI_CLASS if classes > 1 else 0
    return ForestHead(objective=objective, classes=max(1, classes), task=task, last=last, **fields)


def read_lightgbm(file: IO[bytes]) -> ForestHead | None:
    """Read the head of a LightGBM file; None if it is not one."""
    text = file.read(_BEGINNING)
    if not text.startswith(b"tree\n"):
        return None
    numbers = dict(re.findall(rb"^(num_class|max_feature_idx)=(\d{1,9})$", text, re.MULTILINE))
    objective = re.search(rb"^objective=([a-z_0-9]+)([^\n]*)", text, re.MULTILINE)
    name, rest = objective.groups() if objective else (b"", b"")
    options = dict(re.findall(rb" (\w+):(\d{1,5}(?:\.\d{1,9})?)(?= |$)", rest))
    last = _OF_OBJECTIVES.get(name.decode(), "identity")
    if last == "identity" and b" sqrt" in rest:
        last = "signed_square"
    classes = max(1, int(float(numbers.get(b"num_class") or options.get(b"num_class", 1))))
    return ForestHead(
        features=int(numbers.get(b"max_feature_idx", -1)) + 1,
        classes=classes,
        task=MULTI_CLASS if classes > 1 or b"num_class" in options else 0,
        last=last,
        sigmoid_alpha=float(options.get(b"sigmoid", 1)) if last in {"sigmoid", "multiclass_ova"} else 1.0,
    )


def format_of(beginning: bytes) -> str:
    """Return the format of a forest's file from its first bytes, because names differ; empty if unknown."""
    if _JSON.match(beginning):
        return "json"
    known = {
        **{b"{%c" % kind: "ubjson" for kind in _LENGTHS},
        b"tree\n": "lightgbm",
        b"binf": "legacy",
        b"\x80": "pickle",
        b"\x04\0\0\0": "treelite",
        b"\x03\0\0\0": "treelite",
    }
    return next((name for mark, name in known.items() if beginning.startswith(mark)), "")


def _unpack(file: IO[bytes], form: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))


def _array(file: IO[bytes], kind: str) -> tuple[Any, ...]:
    (count,) = _unpack(file, "Q")
    if count > (_LONGEST_NAME if kind == "B" else _MOST_TREES):
        msg = f"{count} entries"
        raise ValueError(msg)
    return _unpack(file, f"{count}{kind}")


def read_ends(file: IO[bytes]) -> bytes:
    """Return the beginning and the end of a file, where XGBoost writes its parameters."""
    beginning, end = file.read(_BEGINNING), b""
    if file.seekable():
        size = file.seek(0, io.SEEK_END)
        file.seek(max(size - _END, len(beginning)))
    while chunk := file.read(_BEGINNING):
        end = (end + chunk)[-_END:]
    return beginning + end


def text_value(text: bytes, key: bytes, value: bytes) -> str:
    """Return the string of a key in JSON or UBJSON; empty without one."""
    match = re.search(rb'"%s"\s*:\s*"(%s)"' % (key, value), text)
    if match is None:  # UBJSON: the value is S, the type of its length, the length, and the string
        match = re.search(rb"%sS(?:[iU].|I..|l.{4}|L.{8})(%s)" % (key, value), text, re.DOTALL)
    return match[1].decode() if match else ""
