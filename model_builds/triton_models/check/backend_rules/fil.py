"""The rules of the FIL backend.

Sources, read 2026-11-28: src/shared_state.h, src/serialization.h, src/model.h, src/tl_model.h,
src/tl_utils.h, src/fil_config.h and src/nvforest_config.h of fil_backend r24.03 to r26.06, and
cpp/include/rapids_triton/model/shared_state.hpp of rapids-triton, branch-23.12 to v26.06.00. Options changed
once, in 25.09.

The backend does not compare the tensors' sizes with the forest: it passes bare pointers to Treelite or to the
GPU, which read a row of the forest's features, and write its scores. Where it would read or write beyond the
tensors, or leave a part of the answer as the memory was, the rules refuse, with a sentence of their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from .refusal import Config, Refusal, served_dims  # noqa: TID252  a stand-in imports this package too

FILES: Mapping[str, str] = {
    "xgboost": "xgboost.model",
    "xgboost_json": "xgboost.json",
    "xgboost_ubj": "xgboost.ubj",
    "lightgbm": "model.txt",
    "treelite_checkpoint": "checkpoint.tl",
}
"""The files that the backend opens by default, by model_type."""
CLASSIFIER_SINCE = "25.09"
"""The first release with is_classifier, which reads output_class too; and with layout."""
_NVFOREST_SINCE = "26.06"
INPUT, OUTPUT, TREESHAP = "input__0", "output__0", "treeshap_output"

_FORMATS = {
    "json": "xgboost_json",
    "ubjson": "xgboost_ubj",
    "legacy": "xgboost",
    "lightgbm": "lightgbm",
    "treelite": "treelite_checkpoint",
}
OBJECTIVES = frozenset(
    [
        *("reg:squarederror", "reg:linear", "reg:squaredlogerror", "reg:pseudohubererror", "reg:logistic"),
        *("reg:gamma", "reg:tweedie", "count:poisson", "survival:cox", "survival:aft"),
        *("binary:logistic", "binary:logitraw", "binary:hinge", "multi:softmax", "multi:softprob"),
        *("rank:pairwise", "rank:ndcg", "rank:map"),
    ]
)
"""The objectives of XGBoost that Treelite knows: src/model_loader/detail/xgboost.cc of Treelite 4.7."""
SUMS = frozenset({"reg:absoluteerror", "reg:quantileerror", "reg:expectileerror"})
"""Those that it lacks although their answers are the plain sums of the trees."""
_OF_LIGHTGBM = frozenset(
    [
        *("regression", "regression_l2", "l2", "mean_squared_error", "mse", "l2_root"),
        *("root_mean_squared_error", "rmse", "regression_l1", "l1", "mean_absolute_error", "mae"),
        *("mean_absolute_percentage_error", "mape", "multiclass", "softmax"),
        *("multiclassova", "multiclass_ova", "ova", "ovr", "cross_entropy", "xentropy"),
        *("cross_entropy_lambda", "xentlambda", "rank_xendcg", "xendcg", "xe_ndcg", "xe_ndcg_mart"),
        *("xendcg_mart", "huber", "fair", "poisson", "quantile", "gamma", "tweedie", "binary"),
        *("lambdarank", "custom"),
    ]
)
"""Those of LightGBM that Treelite knows: src/model_loader/detail/lightgbm.h of Treelite 4.7."""
CALL_PYTHON = "serve it as a PythonModel that calls the framework"

# The keys of XGBoost's files, in JSON and in UBJSON, with the brackets of their values: names of features and
# attributes have none.
_LENGTH = rb"(?:L\0{7}|[iU])"
_KEYS: Mapping[str, re.Pattern[bytes]] = {
    "trees": re.compile(rb'"trees"\s*:\s*\[|%s\x05trees\[' % _LENGTH),
    "objective": re.compile(rb'"objective"\s*:\s*\{|%s\x09objective\{' % _LENGTH),
    "gblinear": re.compile(rb'"name"\s*:\s*"gblinear"|%s\x04nameS%s\x08gblinear' % (_LENGTH, _LENGTH)),
    "cats": re.compile(rb'"cats"\s*:\s*\{|%s\x04cats\{' % _LENGTH),
}
_CHUNK, _OVERLAP = 1 << 20, 1 << 8
_POINTER = b"version https://git-lfs"
_FEWEST_BYTES = 136  # LearnerModelParamLegacy, with which a binary file of XGBoost begins

# LightGBM's bits of decision_type: include/LightGBM/tree.h.
_CATEGORICAL, _LEFT, _MISSING, _ZERO = 1, 2, 12, 4
_LAYOUTS = ("depth_first", "breadth_first", "layered", "layered_children_together")
_ALGORITHMS = ("ALGO_AUTO", "NAIVE", "TREE_REORG", "BATCH_TREE_REORG")
_STORAGE = ("AUTO", "DENSE", "SPARSE", "SPARSE8")
# What std::istream reads as a float: a beginning is enough, and neither inf nor nan.
_FLOAT = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(?![eE](?![+-]?\d))")
_SWITCHES = ("predict_proba", "xgboost_allow_unknown_field", "use_experimental_optimizations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that decide what a forest answers."""

    model_type: str
    predict_proba: bool
    classifier: bool
    threshold: float


def read_options(config: Config, release: str | None) -> Options:
    """Return the options of a configuration without refusals."""
    values = _parameters(config)
    name = _classifier_name(values, release)
    classifier = values.get(name) == "true"
    threshold = _FLOAT.match(values.get("threshold", "")) if classifier else None
    return Options(
        model_type=_word(values, "model_type") or "xgboost",
        predict_proba=values.get("predict_proba") == "true",
        classifier=classifier,
        threshold=float(threshold[0]) if threshold else 0.5,
    )


def check_options(config: Config, release: str | None, *, on_gpu: bool) -> list[Refusal]:
    """Return what a release refuses in the parameters, in the order in which it reads them.

    Args:
        config: The configuration.
        release: The release's name; None for what every release refuses.
        on_gpu: True if an instance runs on a GPU, which alone reads some parameters.
    """
    of_gpu = _names(config, release) if on_gpu and release is not None else ()
    return [*_switches(config), *_types(config), *_classifiers(config, release), *of_gpu]


def check_tensors(config: Config) -> Iterator[Refusal]:
    """Yield what makes every request fail: the names and the types of the tensors are fixed."""
    for side, name in (("input", INPUT), ("output", OUTPUT)):
        tensors = {tensor["name"]: tensor["data_type"] for tensor in config.get(side, ())}
        kind = tensors.get(name)
        if kind != "TYPE_FP32":
            lacking = {
                "input": f"unknown request input name {name}",
                "output": f"No output with name {name} in configuration.",
            }
            yield Refusal(
                message=f"incorrect type for {name}" if kind else lacking[side],
                what=f"{side} {name!r} is {kind}" if kind else f"there is no {side} {name!r}",
                at=side,
                fix=f'write {side} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ ... ] }} ]',
            )


def check_format(config: Config, release: str | None, contents: str) -> Iterator[Refusal]:
    """Yield a model_type that is not the format of the file: Treelite's readers do not look for others.

    Args:
        config: The configuration.
        release: The release's name, or None.
        contents: The file's format, from `artifact.forest_head.format_of`; empty if it is unknown.
    """
    kind = read_options(config, release).model_type
    actual = _FORMATS.get(contents)
    if not contents and kind in {"xgboost_json", "xgboost_ubj", "lightgbm"}:
        yield _not_a_file(kind, f"the file is not of the format {kind}")
    elif contents == "pickle" or (actual and kind in FILES and kind != actual):
        yield Refusal(
            message=f"the file is not of the format {kind}",
            what=f"model_type is {kind!r}, and the file is {'a pickle' if not actual else f'of {actual!r}'}",
            at="parameters: model_type",
            fix=f'write model_type "{actual}", and call the file {FILES[actual]}'
            if actual
            else "save it with save_model() of its framework, or declare a Forest(estimator=...)",
        )


def check_sizes(
    config: Config, release: str | None, *, features: int, classes: int, targets: int = 1
) -> Iterator[Refusal]:
    """Yield sizes of the tensors that are not the forest's.

    Args:
        config: The configuration.
        release: The release's name; None for what some release refuses.
        features: The numbers in a row; 0 if unknown.
        classes: The forest's classes; 1 for a value or for the probability of the second of two classes.
        targets: The values that it predicts.
    """
    if targets != 1:
        what, fix = f"a forest with {targets} targets", "train one forest for each target"
        yield Refusal(message="Multi-target model not supported", what=what, at="parameters", fix=fix)
        return
    batched = int(config.get("max_batch_size", 0)) > 0
    options = read_options(config, release)
    widths = answer_widths(options, release, classes)
    for tensor in config.get("input", ()):
        if tensor["name"] == INPUT and features and _row(tensor, batched=batched) != features:
            yield _size(tensor, [features], f"a row of the forest has {features} features", batched=batched)
    for tensor in config.get("output", ()):
        if tensor["name"] == OUTPUT and not widths:
            yield Refusal(
                message="predict_proba without classes",
                what="predict_proba is true, for a forest that answers with values",
                at="parameters: predict_proba",
                fix='write predict_proba "false"',
            )
        elif tensor["name"] == OUTPUT and (_written(tensor) not in widths):
            because = f"the forest answers with {_count(widths[0], 'number')} per row"
            yield _size(tensor, widths[:1], because, batched=batched)
        width = classes * (features + 1)
        if tensor["name"] == TREESHAP and features and _written(tensor) != width:
            shape = [features + 1] if classes == 1 else [classes, features + 1]
            yield _size(tensor, shape, f"it has {width} contributions per row", batched=batched)


def check_objective(objective: str, *, linear: bool) -> Iterator[Refusal]:
    """Yield what Treelite does not read of a file of XGBoost.

    Args:
        objective: The name of its objective; empty if it is unknown.
        linear: True for a model without trees, of the booster gblinear.
    """
    if linear:
        yield Refusal(
            message="gblinear has no trees",
            what="it is linear (gblinear) and has no trees",
            at="parameters: model_type",
            fix=f'train it with booster="gbtree", or {CALL_PYTHON}',
        )
    elif objective and objective not in OBJECTIVES:
        same = (
            "save it with an objective of the same answers: booster.set_param({'objective': "
            "'reg:squarederror'}), then save_model(); or "
        )
        yield Refusal(
            message=f"Unrecognized XGBoost objective: {objective}",
            what=f"the Treelite of the FIL backend does not know the objective {objective!r}",
            at="parameters: model_type",
            fix=f"{same if objective in SUMS else ''}{CALL_PYTHON}",
        )


def check_xgboost(file: IO[bytes], kind: str) -> Iterator[Refusal]:
    """Yield what keeps Treelite from reading a file of XGBoost: it is none, or was cut off.

    Args:
        file: The file.
        kind: The model_type.
    """
    if kind == "xgboost":
        beginning = file.read(_FEWEST_BYTES)
        if len(beginning) < _FEWEST_BYTES or beginning.startswith(_POINTER):
            yield _not_a_file(kind, "the file has no forest of XGBoost")
        return
    keys, last = _keys_of(file)
    if not keys & {"trees", "gblinear"}:
        yield _not_a_file(kind, "the file has no trees")
    elif last != b"}" or "objective" not in keys:
        yield _not_a_file(kind, "the file is incomplete")


def has_categories(file: IO[bytes]) -> bool:
    """Return whether a file of XGBoost has the key `cats`, as those of XGBoost 3.1 and newer have."""
    return "cats" in _keys_of(file)[0]


def _keys_of(file: IO[bytes]) -> tuple[set[str], bytes]:
    """Return which keys a file of XGBoost has, and its last byte that is no space."""
    keys: set[str] = set()
    end = last = b""
    while chunk := file.read(_CHUNK):
        text = end + chunk
        keys.update(name for name, key in _KEYS.items() if name not in keys and key.search(text))
        end, last = text[-_OVERLAP:], chunk.rstrip()[-1:] or last
    return keys, last


def _not_a_file(kind: str, what: str) -> Refusal:
    return Refusal(
        message=what,
        what=f"model_type is {kind!r}, and {what}",
        at="parameters: model_type",
        fix="save it with save_model() of its framework, fetch it with git lfs pull if it is a pointer, or "
        "declare a Forest(estimator=...)",
    )


def complete(content: bytes) -> bool:
    """Return whether a file of LightGBM has all the trees and parameters that it begins.

    Treelite reads the beginning of a file that was cut off, and LightGBM ends the process.
    """
    first = re.search(rb"^Tree=", content, re.MULTILINE)
    sizes = re.search(rb"^tree_sizes=([\d ]+)$", content, re.MULTILINE)
    listed = sum(map(int, sizes[1].split())) if sizes else 0
    at = first.start() + listed if first and sizes else content.find(b"end of trees")
    rest = content[at:] if at >= 0 else b""
    has_parameters = b"\nend of parameters" in rest or b"\nparameters:" not in rest
    return rest.startswith(b"end of trees") and has_parameters


def check_lightgbm(text: str) -> Iterator[Refusal]:
    """Yield what Treelite does not read in a file of LightGBM, or reads and answers otherwise."""
    objective = re.search(r"^objective=(\S*)", text, re.MULTILINE)
    if not complete(text.encode()):
        yield Refusal(
            message="the file was cut off",
            what="the file is incomplete: Treelite answers with the trees that are in it",
            at="parameters: model_type",
            fix="copy the whole file, or save it again with save_model() of LightGBM",
        )
    elif objective and objective[1] not in _OF_LIGHTGBM:
        yield Refusal(
            message=f'Unknown objective name: "{objective[1]}"',
            what=f"the Treelite of the FIL backend does not know the objective {objective[1]!r}",
            at="parameters: model_type",
            fix=CALL_PYTHON,
        )
    elif re.search(r"^is_linear=1$", text, re.MULTILINE):
        yield Refusal(
            message="linear leaves are dropped",
            what="its leaves are linear models (linear_tree), which Treelite drops",
            at="parameters: model_type",
            fix=f"train it without linear_tree, or {CALL_PYTHON}",
        )
    elif any(_zeros_turn(text)):
        yield Refusal(
            message="zeros are no missing values",
            what="it takes zeros as missing (zero_as_missing), which Treelite does not do",
            at="parameters: model_type",
            fix=f"train it with zero_as_missing=false, with NaN for what is missing; or {CALL_PYTHON}",
        )


def _zeros_turn(text: str) -> Iterator[bool]:
    """Yield for each tree of LightGBM whether it sends a zero another way because zeros are missing."""
    for tree in re.split(r"^Tree=", text, flags=re.MULTILINE)[1:]:
        lines = dict(re.findall(r"^(threshold|decision_type)=([-+. 0-9a-z]*)$", tree, re.MULTILINE))
        kinds = map(int, lines.get("decision_type", "").split())
        thresholds = map(float, lines.get("threshold", "").split())
        yield any(
            not kind & _CATEGORICAL and kind & _MISSING == _ZERO and bool(kind & _LEFT) != (threshold >= 0)
            for kind, threshold in zip(kinds, thresholds, strict=False)
        )


def answer_widths(options: Options, release: str | None, classes: int) -> Sequence[int]:
    """Return how many numbers per row the output may have; the first is the usual one. Empty if none fits."""
    if not options.predict_proba:
        return [1] if options.classifier or classes == 1 else [classes]
    if classes > 1:
        return [classes]
    # Before 25.09 the backend writes both probabilities of whatever has one score, into any output.
    if release is not None and release < CLASSIFIER_SINCE:
        return [2]
    if not options.classifier:
        return [1] if release is not None else []
    return [2, 1] if release is not None else [2]


def answer_dims(tensor: Mapping[str, Any]) -> list[int]:
    """Return the shape of an answer without the rows: the backend drops sizes of 1 from it.

    With a reshape, the server answers with the tensor's dims.
    """
    dims = [int(size) for size in tensor["dims"]]
    return dims if tensor.get("reshape") is not None else [size for size in dims if size != 1]


def _switches(config: Config) -> Iterator[Refusal]:
    values = _parameters(config)
    for name in _SWITCHES:
        if name in values:
            yield from _switch(name, values[name])


def _switch(name: str, value: str) -> Iterator[Refusal]:
    if value not in {"true", "false"}:
        yield Refusal(
            message=f"Expected 'true' or 'false' for parameter '{name}', got: '{value}'",
            what=f"{name} is {value!r}",
            at=f"parameters: {name}",
            fix="write true or false, in lower case",
        )


def _types(config: Config) -> Iterator[Refusal]:
    kind = _word(_parameters(config), "model_type") or "xgboost"
    if kind not in FILES:
        yield Refusal(
            message=f"{kind} not recognized as a valid serialization format.",
            what=f"model_type is {kind!r}",
            at="parameters: model_type",
            fix=f"write one of {', '.join(FILES)}",
        )


def _classifiers(config: Config, release: str | None) -> Iterator[Refusal]:
    values = _parameters(config)
    name = _classifier_name(values, release)
    if name not in values:
        yield _required(name, "true for a classifier, otherwise false")
        return
    yield from _switch(name, values[name])
    threshold = values.get("threshold")
    if values[name] != "true" or (threshold is not None and _FLOAT.match(threshold)):
        return
    lacking = _required("threshold", "a number, such as 0.5, for a classifier")
    if threshold is None:
        yield lacking
    else:
        yield Refusal(
            message="Bad input for parameter threshold",
            what=f"threshold is {threshold!r}",
            at="parameters: threshold",
            fix="write a number, such as 0.5",
        )


def _required(name: str, words: str) -> Refusal:
    return Refusal(
        message=f"Required parameter {name} not found in config",
        what=f"there is no {name}",
        at="parameters",
        fix=f'add parameters {{ key: "{name}" value: {{ string_value: "..." }} }}, with {words}',
    )


def _names(config: Config, release: str) -> Iterator[Refusal]:
    """Yield options of a GPU with a value that the release does not know; a CPU does not read them."""
    library = "nvForest" if release >= _NVFOREST_SINCE else "FIL"
    known: Mapping[str, tuple[str, Sequence[str]]] = (
        {"layout": (f"Unknown {library} layout name", _LAYOUTS)}
        if release >= CLASSIFIER_SINCE
        else {
            "algo": ("Unknown FIL algorithm name", _ALGORITHMS),
            "storage_type": ("Unknown FIL storage type name", _STORAGE),
        }
    )
    values = _parameters(config)
    for name, (message, names) in known.items():
        value = _word(values, name)
        if value and value not in names:
            yield Refusal(
                message=f"{message}: {value}",
                what=f"{name} is {value!r}",
                at=f"parameters: {name}",
                fix=f"write one of {', '.join(names)}, or remove it",
            )


def _classifier_name(values: Mapping[str, str], release: str | None) -> str:
    """Return the parameter that says whether a forest classifies.

    From 25.09 on, output_class counts if its first word is true or false, and is ignored otherwise.
    """
    if release is not None and release < CLASSIFIER_SINCE:
        return "output_class"
    word = _word(values, "output_class")
    known = word in {"true", "false"} and values["output_class"] == word
    return "output_class" if known or (release is None and "is_classifier" not in values) else "is_classifier"


def _size(tensor: Mapping[str, Any], shape: Sequence[int], because: str, *, batched: bool) -> Refusal:
    side = "input" if tensor["name"] == INPUT else "output"
    dims = [int(size) for size in tensor["dims"]]
    served = list(served_dims(tensor))
    reshaped = f", reshaped to {served}" if served != dims else ""
    return Refusal(
        message=f"{because}, and the configuration says {served}",
        what=f"dims of {side} {tensor['name']!r} are {dims}{reshaped}, and {because}",
        at=f"{side} {tensor['name']!r}",
        fix=f"write dims: [ {', '.join(map(str, shape if batched else [-1, *shape]))} ]"
        f"{' and remove the reshape' if reshaped else ''}",
    )


def _row(tensor: Mapping[str, Any], *, batched: bool) -> int | None:
    """Return the numbers in a row of the input; None if requests may choose.

    The first size of what arrives is the number of rows, also without batches.
    """
    sizes = served_dims(tensor)
    row = sizes if batched else sizes[1:]
    return None if -1 in row or not sizes else math.prod(row)


def _written(tensor: Mapping[str, Any]) -> int | None:
    """Return the numbers per row for which the backend reserves memory; None if it refuses every request.

    The first -1 is the number of rows; without one in front, the backend adds it.
    """
    sizes = served_dims(tensor)
    row = sizes[1:] if sizes and sizes[0] == -1 else sizes
    return None if -1 in row or not sizes else math.prod(row)


def _parameters(config: Config) -> dict[str, str]:
    return {name: str(entry["string_value"]) for name, entry in config.get("parameters", {}).items()}


def _word(values: Mapping[str, str], name: str) -> str:
    """Return the first word of a parameter, which is what the backend reads of a text; empty without one."""
    return next(iter(values.get(name, "").split()), "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
