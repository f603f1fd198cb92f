"""The rules of the FIL backend.

Sources, read 2026-11-28: src/shared_state.h, src/serialization.h, src/model.h, src/tl_model.h,
src/tl_utils.h, src/fil_config.h and src/nvforest_config.h of fil_backend r24.03 to r26.06, and
cpp/include/rapids_triton/model/shared_state.hpp of rapids-triton, branch-23.12 to v26.06.00.

The backend passes bare pointers to Treelite or to the GPU, which read and write as many numbers as the forest
has. Where that is beyond the tensors, or leaves a part of the answer unwritten, the rules refuse with a
sentence of their own.
"""

from __future__ import annotations

import ctypes
import math
import re
import struct
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

MODEL_TYPES = {
    "json": "xgboost_json",
    "ubjson": "xgboost_ubj",
    "legacy": "xgboost",
    "lightgbm": "lightgbm",
    "treelite": "treelite_checkpoint",
}
"""The model_type of each format of `artifact.forest_head.format_of`."""
# The objectives that Treelite 4.7 knows: src/model_loader/detail/xgboost.cc, and lightgbm.h.
_OF_XGBOOST = frozenset(
    [
        *("reg:squarederror", "reg:linear", "reg:squaredlogerror", "reg:pseudohubererror", "reg:logistic"),
        *("reg:gamma", "reg:tweedie", "count:poisson", "survival:cox", "survival:aft"),
        *("binary:logistic", "binary:logitraw", "binary:hinge", "multi:softmax", "multi:softprob"),
        *("rank:pairwise", "rank:ndcg", "rank:map"),
    ]
)
_SUMS = frozenset({"reg:absoluteerror", "reg:quantileerror", "reg:expectileerror"})  # answers are plain sums
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
CALL_PYTHON = "serve it as a PythonModel that calls the framework"
NAMED_CATEGORIES = "it has the names of categories, as XGBoost 3.1 and newer write them for data frames"
WITH_CODES = (
    "train it on the codes of the categories, as numbers: X[column].cat.codes, with "
    'feature_types="c" for these columns'
)

# The keys of XGBoost's files, in JSON and in UBJSON, with the brackets of their values: names of features and
# attributes have none.
_LENGTH = rb"(?:L\0{7}|[iU])"
_KEYS: Mapping[str, re.Pattern[bytes]] = {
    "trees": re.compile(rb'"trees"\s*:\s*\[|%s\x05trees\[' % _LENGTH),
    "objective": re.compile(rb'"objective"\s*:\s*\{|%s\x09objective\{' % _LENGTH),
    "gblinear": re.compile(rb'"name"\s*:\s*"gblinear"|%s\x04nameS%s\x08gblinear' % (_LENGTH, _LENGTH)),
    "cats": re.compile(rb'"cats"\s*:\s*\{|%s\x04cats\{' % _LENGTH),
    "encoder": re.compile(
        rb'"enc"\s*:\s*\[\s*\{|%s\x03enc\[(?:#(?:[iU].|I..|l.{4}|L.{8}))?\{' % _LENGTH, re.DOTALL
    ),
}
_CHUNK, _OVERLAP = 1 << 20, 1 << 8
# The structures of a binary file of XGBoost before 3.1: src/model_loader/xgboost_legacy.cc of Treelite 4.7.
_MARK, _LEARNER, _MAJOR_AT, _BOOSTER, _TREE, _NODE = b"binf", 136, 20, 160, 148, 36
_LONGEST_NAME = 1 << 10

# LightGBM's bits of decision_type: include/LightGBM/tree.h.
_CATEGORICAL, _LEFT, _MISSING, _ZERO = 1, 2, 12, 4
# What std::istream reads as a float: a beginning is enough, and neither inf nor nan.
_FLOAT = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(?![eE](?![+-]?\d))")
_SWITCHES = ("predict_proba", "xgboost_allow_unknown_field", "use_experimental_optimizations")
_BOOLEANS = frozenset({"true", "false"})


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
    classifier = values.get(_classifier_name(values, release)) == "true"
    threshold = _FLOAT.match(values.get("threshold", "")) if classifier else None
    return Options(
        model_type=_word(values, "model_type") or "xgboost",
        predict_proba=values.get("predict_proba") == "true",
        classifier=classifier,
        threshold=float(threshold[0]) if threshold else 0.5,
    )


def check_options(config: Config, release: str | None, *, on_gpu: bool) -> list[Refusal]:
    """Return what a release, or every release, refuses in the parameters, in the order of its reading.

    Some parameters are read by an instance on a GPU alone.
    """
    values = _parameters(config)
    refusals: list[Refusal] = []
    for name in _SWITCHES:
        refusals += _switch(values, name)
    kind = read_options(config, release).model_type
    if kind not in FILES:
        message = f"{kind} not recognized as a valid serialization format."
        refusals.append(_value("model_type", kind, message, f"write one of {', '.join(FILES)}"))
    classifier, threshold = _classifier_name(values, release), values.get("threshold")
    refusals += _switch(values, classifier)
    if classifier not in values:
        refusals.append(_required(classifier, "true for a classifier, otherwise false"))
    elif values[classifier] == "true" and threshold is None:
        refusals.append(_required("threshold", "a number, such as 0.5, for a classifier"))
    elif values[classifier] == "true" and not _FLOAT.match(threshold or ""):
        message = "Bad input for parameter threshold"
        refusals.append(_value("threshold", threshold, message, "write a number, such as 0.5"))
    for name, (what, names) in (_of_gpu(release) if on_gpu and release is not None else {}).items():
        value = _word(values, name)
        if value and value not in names:
            fix = f"write one of {', '.join(names)}, or remove it"
            refusals.append(_value(name, value, f"Unknown {what} name: {value}", fix))
    return refusals


def check_tensors(config: Config) -> Iterator[Refusal]:
    """Yield what makes every request fail: the names and the types of the tensors are fixed."""
    for side, name, lacking in (
        ("input", INPUT, f"unknown request input name {INPUT}"),
        ("output", OUTPUT, f"No output with name {OUTPUT} in configuration."),
    ):
        kind = {tensor["name"]: tensor["data_type"] for tensor in config.get(side, ())}.get(name)
        if kind != "TYPE_FP32":
            yield Refusal(
                message=f"incorrect type for {name}" if kind else lacking,
                what=f"{side} {name!r} is {kind}" if kind else f"there is no {side} {name!r}",
                at=side,
                fix=f'write {side} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ ... ] }} ]',
            )


def check_format(config: Config, release: str | None, contents: str) -> Iterator[Refusal]:
    """Yield a model_type that is not the format of the file: Treelite's readers do not look for others.

    The format of the contents is that of `artifact.forest_head.format_of`; empty if it is unknown.
    """
    kind = read_options(config, release).model_type
    actual, message = MODEL_TYPES.get(contents), f"the file is not of the format {kind}"
    if not contents and kind in {"xgboost_json", "xgboost_ubj", "lightgbm"}:
        yield _not_a_file(kind, message)
    elif contents == "pickle":
        fix = "save it with save_model() of its framework, or declare a Forest(estimator=...)"
        yield _file(message, f"model_type is {kind!r}, and the file is a pickle", fix)
    elif actual and kind in FILES and kind != actual:
        fix = f'write model_type "{actual}", and call the file {FILES[actual]}'
        yield _file(message, f"model_type is {kind!r}, and the file is of {actual!r}", fix)


def check_sizes(
    config: Config, release: str | None, *, features: int, classes: int, targets: int = 1
) -> Iterator[Refusal]:
    """Yield sizes of the tensors that are not the forest's, for a release or for any.

    It has 0 features if they are unknown; 1 class for a value, or for the probability of the second of two.
    """
    if targets != 1:
        what, fix = f"a forest with {targets} targets", "train one forest for each target"
        yield Refusal(message="Multi-target model not supported", what=what, at="parameters", fix=fix)
        return
    batched = int(config.get("max_batch_size", 0)) > 0
    widths = _answer_widths(read_options(config, release), release, classes)
    contributions = classes * (features + 1)
    for tensor in config.get("input", ()):
        # The first size of what arrives is the number of rows, also without batches.
        if tensor["name"] == INPUT and features and _row(tensor, rows=not batched) != features:
            yield _size(tensor, [features], f"a row of the forest has {features} features", batched=batched)
    for tensor in config.get("output", ()):
        # The first -1 is the number of rows; without one in front, the backend adds it.
        width = _row(tensor, rows=served_dims(tensor)[:1] == (-1,))
        if tensor["name"] == OUTPUT and not widths:
            yield Refusal(
                message="predict_proba without classes",
                what="predict_proba is true, for a forest that answers with values",
                at="parameters: predict_proba",
                fix='write predict_proba "false"',
            )
        elif tensor["name"] == OUTPUT and width not in widths:
            numbers = f"{widths[0]} number{'s' * (widths[0] != 1)}"
            because = f"the forest answers with {numbers} per row"
            yield _size(tensor, widths[:1], because, batched=batched)
        elif tensor["name"] == TREESHAP and features and width != contributions:
            shape = [features + 1] if classes == 1 else [classes, features + 1]
            because = f"it has {contributions} contributions per row"
            yield _size(tensor, shape, because, batched=batched)


def check_objective(objective: str, *, linear: bool) -> Iterator[Refusal]:
    """Yield what Treelite does not read of a file of XGBoost; its objective is empty if it is unknown."""
    if linear:
        fix = f'train it with booster="gbtree", or {CALL_PYTHON}'
        yield _file("gblinear has no trees", "it is linear (gblinear) and has no trees", fix)
    elif objective and objective not in _OF_XGBOOST:
        same = (
            "save it with an objective of the same answers: booster.set_param({'objective': "
            "'reg:squarederror'}), then save_model(); or "
        )
        what = f"the Treelite of the FIL backend does not know the objective {objective!r}"
        fix = f"{same if objective in _SUMS else ''}{CALL_PYTHON}"
        yield _file(f"Unrecognized XGBoost objective: {objective}", what, fix)


def check_xgboost(file: IO[bytes], kind: str) -> Iterator[Refusal]:
    """Yield what keeps Treelite from reading a file of XGBoost, by its model_type: it is none, or was cut."""
    if kind == "xgboost":
        yield from _check_binary(file)
        return
    keys, last = _keys_of(file)
    if not keys & {"trees", "gblinear"}:
        yield _not_a_file(kind, "the file has no trees")
    elif last != b"}" or "objective" not in keys:
        yield _not_a_file(kind, "the file is incomplete")
    elif "encoder" in keys:
        message = "Treelite does not yet support XGBoost models with categorical encoder"
        yield _file(message, NAMED_CATEGORIES, f"{WITH_CODES}; or {CALL_PYTHON}")


def _check_binary(file: IO[bytes]) -> Iterator[Refusal]:
    """Yield what keeps Treelite from reading a file of the model_type "xgboost"."""
    try:
        mark = _take(file, len(_MARK))
        learner = (b"" if mark == _MARK else mark) + _take(file, _LEARNER - len(mark) * (mark != _MARK))
        _objective, booster = _name(file), _name(file)
    except ValueError:
        booster = b""
    if booster == b"gblinear":
        yield from check_objective("", linear=True)
    elif booster not in {b"gbtree", b"dart"}:
        yield _not_a_file("xgboost", "the file has no forest in the binary format of XGBoost")
    elif not _has_all_trees(file, *struct.unpack_from("<I", learner, _MAJOR_AT), is_dart=booster == b"dart"):
        yield _not_a_file("xgboost", "the file is incomplete")


def _has_all_trees(file: IO[bytes], major: int, *, is_dart: bool) -> bool:
    try:
        (trees,) = struct.unpack_from("<i", _take(file, _BOOSTER))
        for _ in range(trees):
            roots, nodes, _, _, _, leaf = struct.unpack_from("<6i", _take(file, _TREE))
            if roots != 1 or nodes < 1:
                return False
            _take(file, nodes * _NODE)
            if leaf and major < 2:  # noqa: PLR2004
                _take(file, 4 * _number(file))
        _take(file, 4 * trees)
        return not is_dart or (_number(file) == trees and bool(trees == 0 or _take(file, 4 * trees)))
    except ValueError:
        return False


def _take(file: IO[bytes], size: int) -> bytes:
    """Read so many bytes, or raise a ValueError. Return the first ones."""
    first = chunk = file.read(max(0, min(size, _CHUNK)))
    left = size - len(chunk)
    while left > 0 and chunk:
        chunk = file.read(min(left, _CHUNK))
        left -= len(chunk)
    if left:
        msg = "the file ends too early"
        raise ValueError(msg)
    return first


def _number(file: IO[bytes]) -> int:
    return int.from_bytes(_take(file, 8), "little")


def _name(file: IO[bytes]) -> bytes:
    if (length := _number(file)) > _LONGEST_NAME:
        msg = f"a name of {length} bytes"
        raise ValueError(msg)
    return _take(file, length)


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


def complete(content: bytes) -> bool:
    """Return whether a file of LightGBM has all the trees and parameters that it begins.

    Treelite reads the beginning of a file that was cut off, and LightGBM ends the process.
    """
    first = re.search(rb"^Tree=", content, re.MULTILINE)
    sizes = re.search(rb"^tree_sizes=([\d ]+)$", content, re.MULTILINE)
    trees = sum(map(int, sizes[1].split())) if sizes else 0
    at = first.start() + trees if first and sizes else content.find(b"end of trees")
    rest = content[at:] if at >= 0 else b""
    has_parameters = b"\nend of parameters" in rest or b"\nparameters:" not in rest
    return rest.startswith(b"end of trees") and has_parameters


def check_lightgbm(text: str) -> Iterator[Refusal]:
    """Yield what Treelite does not read in a file of LightGBM, or reads and answers otherwise."""
    objective = re.search(r"^objective=(\S*)", text, re.MULTILINE)
    if not complete(text.encode()):
        yield _file(
            "the file was cut off",
            "the file is incomplete: Treelite answers with the trees that are in it",
            "copy the whole file, or save it again with save_model() of LightGBM",
        )
    elif objective and objective[1] not in _OF_LIGHTGBM:
        what = f"the Treelite of the FIL backend does not know the objective {objective[1]!r}"
        yield _file(f'Unknown objective name: "{objective[1]}"', what, CALL_PYTHON)
    elif re.search(r"^is_linear=1$", text, re.MULTILINE):
        what = "its leaves are linear models (linear_tree), which Treelite drops"
        yield _file("linear leaves are dropped", what, f"train it without linear_tree, or {CALL_PYTHON}")
    elif any(_zeros_turn(text)):
        yield _file(
            "zeros are no missing values",
            "it takes zeros as missing (zero_as_missing), which Treelite does not do",
            f"train it with zero_as_missing=false, with NaN for what is missing; or {CALL_PYTHON}",
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


def load_forest(treelite: Any, path: Any, kind: str, *, allow_unknown: bool = False) -> Any:
    """Return the file of a model_type as Treelite reads it; the module comes from the caller."""
    frontend = treelite.frontend
    if kind == "treelite_checkpoint":
        return treelite.Model.deserialize(path)
    if kind == "lightgbm":
        return frontend.load_lightgbm_model(path)
    if kind == "xgboost":
        return frontend.load_xgboost_model_legacy_binary(path)
    form = "json" if kind == "xgboost_json" else "ubjson"
    return frontend.load_xgboost_model(path, format_choice=form, allow_unknown_field=allow_unknown)


def scores_in_fp32(gtil: Any, forest: Any, rows: Any, *, classes: int, threads: int = 1) -> Any:
    """Return the scores of rows of FP32 as the backend computes them on a CPU, of the shape [rows, classes].

    `predict()` of Treelite's package would convert the rows to the type of the forest. Callers have NumPy and
    Treelite, and pass the module `treelite.gtil.gtil`.
    """
    import numpy as np

    rows, scores = np.ascontiguousarray(rows), np.zeros((len(rows), classes), np.float32)
    floats = ctypes.POINTER(ctypes.c_float)
    config = gtil.GTILConfig(predict_type="default", nthread=threads)
    gtil._check_call(
        gtil._LIB.TreeliteGTILPredict(
            forest.handle,
            rows.ctypes.data_as(floats),
            b"float32",
            ctypes.c_uint64(len(rows)),
            scores.ctypes.data_as(floats),
            config.handle,
        )
    )
    return scores


def answer_dims(tensor: Mapping[str, Any]) -> list[int]:
    """Return the shape of an answer without the rows: the backend drops sizes of 1 from it.

    With a reshape, the server answers with the tensor's dims.
    """
    dims = [int(size) for size in tensor["dims"]]
    return dims if tensor.get("reshape") is not None else [size for size in dims if size != 1]


def _answer_widths(options: Options, release: str | None, classes: int) -> Sequence[int]:
    """Return how many numbers per row the output may have; the first is the usual one. Empty if none fits."""
    if not options.predict_proba:
        return [1] if options.classifier else [classes]
    if classes > 1:
        return [classes]
    # Before 25.09 the backend writes both probabilities of whatever has one score, into any output.
    if release is not None and release < CLASSIFIER_SINCE:
        return [2]
    both = [2] if options.classifier else []
    return both if release is None else [*both, 1]


def _of_gpu(release: str) -> Mapping[str, tuple[str, Sequence[str]]]:
    """Return the names that a release's GPU reads, with what each is in its errors, and the known ones."""
    if release < CLASSIFIER_SINCE:
        return {
            "algo": ("FIL algorithm", ("ALGO_AUTO", "NAIVE", "TREE_REORG", "BATCH_TREE_REORG")),
            "storage_type": ("FIL storage type", ("AUTO", "DENSE", "SPARSE", "SPARSE8")),
        }
    library = "nvForest" if release >= _NVFOREST_SINCE else "FIL"
    layouts = ("depth_first", "breadth_first", "layered", "layered_children_together")
    return {"layout": (f"{library} layout", layouts)}


def _switch(values: Mapping[str, str], name: str) -> Iterator[Refusal]:
    value = values.get(name, "true")
    if value not in _BOOLEANS:
        message = f"Expected 'true' or 'false' for parameter '{name}', got: '{value}'"
        yield _value(name, value, message, "write true or false, in lower case")


def _value(name: str, value: str | None, message: str, fix: str) -> Refusal:
    return Refusal(message=message, what=f"{name} is {value!r}", at=f"parameters: {name}", fix=fix)


def _required(name: str, words: str) -> Refusal:
    return Refusal(
        message=f"Required parameter {name} not found in config",
        what=f"there is no {name}",
        at="parameters",
        fix=f'add parameters {{ key: "{name}" value: {{ string_value: "..." }} }}, with {words}',
    )


def _file(message: str, what: str, fix: str) -> Refusal:
    return Refusal(message=message, what=what, at="parameters: model_type", fix=fix)


def _not_a_file(kind: str, what: str) -> Refusal:
    fix = (
        "save it with save_model() of XGBoost or LightGBM, fetch it with git lfs pull if it is a pointer, or "
        "declare a Forest(estimator=...)"
    )
    return _file(what, f"model_type is {kind!r}, and {what}", fix)


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


def _row(tensor: Mapping[str, Any], *, rows: bool) -> int | None:
    """Return the numbers in a row; None if requests may choose. With `rows`, the first size is theirs."""
    sizes = served_dims(tensor)
    row = sizes[1:] if rows else sizes
    return None if -1 in row or not sizes else math.prod(row)


def _classifier_name(values: Mapping[str, str], release: str | None) -> str:
    """Return the parameter that says whether a forest classifies.

    From 25.09 on, output_class counts if its first word is true or false, and is ignored otherwise.
    """
    if release is not None and release < CLASSIFIER_SINCE:
        return "output_class"
    known = values.get("output_class") in _BOOLEANS
    return "output_class" if known or (release is None and "is_classifier" not in values) else "is_classifier"


def _parameters(config: Config) -> dict[str, str]:
    return {name: str(entry["string_value"]) for name, entry in config.get("parameters", {}).items()}


def _word(values: Mapping[str, str], name: str) -> str:
    """Return the first word of a parameter, which is what the backend reads of a text; empty without one."""
    return next(iter(values.get(name, "").split()), "")
