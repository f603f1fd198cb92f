"""The rules of the FIL backend, with its own words and sizes from its sources."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import treelite
import xgboost

from triton_models.artifact.forest_head import format_of
from triton_models.check.backend_rules.fil import (
    answer_dims,
    check_format,
    check_lightgbm,
    check_objective,
    check_options,
    check_sizes,
    check_tensors,
    check_xgboost,
    has_categories,
    load_forest,
    read_options,
)

OLD, NEW = "25.06", "25.09"
CLASSIFIER = {"predict_proba": "true", "is_classifier": "true", "output_class": "true", "threshold": "0.5"}
CLASSES = {**CLASSIFIER, "predict_proba": "false"}
VALUES = {"is_classifier": "false", "output_class": "false"}


def config(
    parameters: Mapping[str, str],
    *,
    inputs: list[int] | None = None,
    outputs: list[int] | None = None,
    reshape: list[int] | None = None,
    max_batch_size: int = 8,
    also: Mapping[str, list[int]] | None = None,
) -> dict[str, Any]:
    """A configuration as Triton passes it to Python models, with sizes as texts."""
    sizes = {"output__0": outputs or [1], **(also or {})}
    output = [
        {"name": name, "data_type": "TYPE_FP32", "dims": [str(size) for size in dims]}
        for name, dims in sizes.items()
    ]
    if reshape is not None:
        output[0]["reshape"] = {"shape": [str(size) for size in reshape]}
    return {
        "max_batch_size": max_batch_size,
        "input": [{"name": "input__0", "data_type": "TYPE_FP32", "dims": [str(s) for s in inputs or [5]]}],
        "output": output,
        "parameters": {name: {"string_value": value} for name, value in parameters.items()},
    }


@pytest.mark.parametrize(
    ("release", "parameters", "message"),
    [
        (NEW, {"model_type": "json", **VALUES}, "json not recognized as a valid serialization format."),
        (
            NEW,
            {**VALUES, "predict_proba": "True"},
            "Expected 'true' or 'false' for parameter 'predict_proba', got: 'True'",
        ),
        (
            NEW,
            {**VALUES, "use_experimental_optimizations": "1"},
            "Expected 'true' or 'false' for parameter 'use_experimental_optimizations', got: '1'",
        ),
        (NEW, {}, "Required parameter is_classifier not found in config"),
        (OLD, {}, "Required parameter output_class not found in config"),
        (
            OLD,
            {"is_classifier": "true", "threshold": "1"},
            "Required parameter output_class not found in config",
        ),
        (NEW, {"output_class": "yes"}, "Required parameter is_classifier not found in config"),
        (OLD, {"output_class": "yes"}, "Expected 'true' or 'false' for parameter 'output_class', got: 'yes'"),
        (NEW, {"is_classifier": "true"}, "Required parameter threshold not found in config"),
        (NEW, {"is_classifier": "true", "threshold": "nan"}, "Bad input for parameter threshold"),
        (NEW, {"is_classifier": "true", "threshold": "1e"}, "Bad input for parameter threshold"),
        (NEW, {**VALUES, "layout": "sparse"}, "Unknown FIL layout name: sparse"),
        ("26.06", {**VALUES, "layout": "sparse"}, "Unknown nvForest layout name: sparse"),
        (OLD, {**VALUES, "algo": "AUTO"}, "Unknown FIL algorithm name: AUTO"),
        (OLD, {**VALUES, "storage_type": "dense"}, "Unknown FIL storage type name: dense"),
    ],
)
def test_a_release_refuses_parameters_in_its_own_words(
    release: str, parameters: dict[str, str], message: str
) -> None:
    (refusal,) = check_options(config(parameters), release, on_gpu=True)
    assert refusal.message == message


@pytest.mark.parametrize(
    ("release", "parameters"),
    [
        (NEW, {"output_class": "true", "threshold": "0.5"}),
        (NEW, {"output_class": "yes", "is_classifier": "false"}),
        (NEW, {**VALUES, "algo": "anything", "storage_type": "anything", "blocks_per_sm": "x"}),
        (OLD, {**VALUES, "layout": "anything"}),
        (NEW, {**VALUES, "chunk_size": "many", "transfer_threshold": "", "cpu_nthread": "two"}),
        (NEW, {**CLASSIFIER, "threshold": " .5 percent"}),
        (NEW, {**VALUES, "threshold": "half"}),
        (NEW, {**VALUES, "layout": ""}),
    ],
)
def test_a_release_accepts_parameters_that_it_ignores_or_has_defaults_for(
    release: str, parameters: dict[str, str]
) -> None:
    assert check_options(config(parameters), release, on_gpu=True) == []


def test_names_of_a_gpu_are_not_read_on_a_cpu() -> None:
    assert check_options(config({**VALUES, "layout": "sparse"}), NEW, on_gpu=False) == []


@pytest.mark.parametrize(
    ("release", "parameters", "classes", "outputs"),
    [
        (NEW, CLASSIFIER, 3, [3]),
        (NEW, CLASSIFIER, 3, [1, 3]),
        (NEW, CLASSIFIER, 1, [2]),
        (OLD, CLASSIFIER, 1, [2]),
        (NEW, CLASSIFIER, 1, [1]),  # the probability of the second class alone
        (NEW, CLASSES, 3, [1]),
        (OLD, CLASSES, 1, [1]),
        (NEW, VALUES, 1, [1]),
        (NEW, VALUES, 3, [3]),
    ],
)
def test_outputs_of_the_forests_width_are_accepted(
    release: str, parameters: dict[str, str], classes: int, outputs: list[int]
) -> None:
    served = config(parameters, outputs=outputs)
    assert list(check_sizes(served, release, features=5, classes=classes)) == []
    assert list(check_sizes(config(parameters, outputs=[7]), release, features=5, classes=classes))


@pytest.mark.parametrize(
    ("release", "parameters", "classes", "outputs"),
    [
        (NEW, CLASSIFIER, 3, [1]),
        (OLD, CLASSIFIER, 1, [1]),  # 1 minus the probability, for half of the rows
        (NEW, CLASSES, 3, [3]),
        (NEW, VALUES, 3, [1]),
        (NEW, {**VALUES, "predict_proba": "true"}, 1, [2]),
        (None, {**VALUES, "predict_proba": "true"}, 1, [1]),
        (NEW, CLASSIFIER, 3, [3, -1]),
    ],
)
def test_outputs_that_the_backend_would_write_beyond_or_leave_unwritten_are_refused(
    release: str | None, parameters: dict[str, str], classes: int, outputs: list[int]
) -> None:
    served = config(parameters, outputs=outputs)
    assert len(list(check_sizes(served, release, features=5, classes=classes))) == 1


@pytest.mark.parametrize(
    ("inputs", "max_batch_size", "accepted"),
    [
        ([5], 8, True),
        ([1, 5], 8, True),
        ([4], 8, False),
        ([6], 8, False),
        ([-1], 8, False),
        ([-1, 5], 0, True),
        ([3, 5], 0, True),
        ([5], 0, False),  # five rows, of one number each
    ],
)
def test_a_row_of_the_input_has_the_forests_features(
    inputs: list[int], max_batch_size: int, accepted: bool
) -> None:
    served = config(VALUES, inputs=inputs, max_batch_size=max_batch_size)
    refusals = list(check_sizes(served, NEW, features=5, classes=1))
    assert (not refusals) is accepted
    for refusal in refusals:
        assert refusal.fix == f"write dims: [ {'5' if max_batch_size else '-1, 5'} ]"


def test_contributions_have_one_number_per_feature_and_class_and_one_more() -> None:
    right = config(CLASSIFIER, outputs=[3], also={"treeshap_output": [3, 6]})
    assert list(check_sizes(right, NEW, features=5, classes=3)) == []
    wrong = config(CLASSIFIER, outputs=[3], also={"treeshap_output": [6]})
    (refusal,) = check_sizes(wrong, NEW, features=5, classes=3)
    assert refusal.fix == "write dims: [ 3, 6 ]"


def test_a_forest_with_several_targets_is_refused() -> None:
    (refusal,) = check_sizes(config(VALUES), NEW, features=5, classes=1, targets=2)
    assert refusal.message == "Multi-target model not supported"


@pytest.mark.parametrize(
    ("model_type", "contents", "accepted"),
    [
        ("xgboost_json", "json", True),
        ("xgboost_json", "ubjson", False),
        ("xgboost_ubj", "json", False),
        ("xgboost", "json", False),
        ("lightgbm", "json", False),
        ("treelite_checkpoint", "pickle", False),
        ("xgboost", "", True),  # a file of XGBoost before 1.0 has no mark
    ],
)
def test_the_model_type_is_the_format_of_the_file(model_type: str, contents: str, accepted: bool) -> None:
    refusals = list(check_format(config({"model_type": model_type}), NEW, contents))
    assert (not refusals) is accepted


def test_an_objective_that_treelite_lacks_is_refused_in_its_words() -> None:
    (refusal,) = check_objective("reg:quantileerror", linear=False)
    assert refusal.message == "Unrecognized XGBoost objective: reg:quantileerror"
    assert "reg:squarederror" in refusal.fix
    assert list(check_objective("rank:ndcg", linear=False)) == []
    assert list(check_objective("", linear=False)) == []
    assert len(list(check_objective("binary:logistic", linear=True))) == 1


def test_the_names_and_types_of_tensors_are_fixed() -> None:
    served = config(VALUES)
    assert list(check_tensors(served)) == []
    served["input"][0]["name"] = "FEATURES"
    served["output"][0]["data_type"] = "TYPE_FP64"
    lacking, other = check_tensors(served)
    assert lacking.message == "unknown request input name input__0"
    assert other.what == "output 'output__0' is TYPE_FP64"


def test_output_class_counts_before_is_classifier_if_it_is_true_or_false() -> None:
    both = {"output_class": "true", "is_classifier": "false", "threshold": "0.7"}
    options = read_options(config(both), NEW)
    assert (options.classifier, options.threshold) == (True, 0.7)
    assert read_options(config({**both, "output_class": "no"}), NEW).classifier is False
    assert read_options(config({**both, "output_class": "false"}), OLD).classifier is False


def test_the_backend_drops_sizes_of_one_from_answers_without_a_reshape() -> None:
    (plain,) = config(VALUES, outputs=[1])["output"]
    (kept,) = config(VALUES, outputs=[1], reshape=[1])["output"]
    assert (answer_dims(plain), answer_dims(kept)) == ([], [1])


def xgboost_file(end: str) -> bytes:
    """A file of XGBoost 3.2 whose features have the names of keys."""
    rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    names = ["cats", "num_cats", "wildcats_score"]
    data = xgboost.DMatrix(rows, rows[:, 0], feature_names=names)
    booster = xgboost.train({"max_depth": 2, "nthread": 1}, data, 2)
    return bytes(booster.save_raw(end))


@pytest.mark.parametrize(("end", "kind"), [("json", "xgboost_json"), ("ubj", "xgboost_ubj")])
def test_categories_are_a_key_of_xgboost_3_1_and_no_name_of_a_feature(end: str, kind: str) -> None:
    content = xgboost_file(end)
    assert has_categories(io.BytesIO(content))
    before = content.replace(b"cats", b"rats") if end == "json" else content.replace(b"\4cats{", b"\4rats{")
    before = before.replace(b'["rats","num_rats","wildrats_score"]', b'["cats","num_cats","wildcats_score"]')
    assert b"cats" in before
    assert not has_categories(io.BytesIO(before))
    far = before.replace(b"gradient_booster", b" " * (1 << 21) + b"gradient_booster", 1)
    assert has_categories(io.BytesIO(far.replace(b"rats", b"cats")))
    assert list(check_xgboost(io.BytesIO(content), kind)) == []


@pytest.mark.parametrize(("end", "kind"), [("json", "xgboost_json"), ("ubj", "xgboost_ubj")])
def test_a_file_of_xgboost_without_its_trees_or_its_end_is_refused(end: str, kind: str) -> None:
    content = xgboost_file(end)
    for cut in (len(content) // 3, len(content) * 2 // 3, len(content) - 1):
        assert list(check_xgboost(io.BytesIO(content[:cut]), kind)), cut
    settings = b'{"learner":{"gradient_booster":{"gbtree_model_param":{}},"objective":{"name":"rank:ndcg"}}}'
    assert list(check_xgboost(io.BytesIO(settings), kind))
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    for other in (b"", pointer + bytes(99)):
        assert list(check_xgboost(io.BytesIO(other), "xgboost"))
    assert list(check_format(config({"model_type": kind}), NEW, ""))


@pytest.mark.parametrize(("end", "kind"), [("json", "xgboost_json"), ("ubj", "xgboost_ubj")])
def test_treelite_reads_codes_of_categories_and_refuses_their_names(
    end: str, kind: str, tmp_path: Path
) -> None:
    codes = np.random.default_rng(0).integers(0, 3, 99)
    labels = np.sin(codes * 2.0)
    columns = {"text": np.array(list("xyz"))[codes], "numbers": codes * 10}
    frames = [pd.DataFrame({"enc": pd.Categorical(column), "b": labels}) for column in columns.values()]
    numbers = np.c_[codes, labels]
    data = [
        *(xgboost.DMatrix(frame, labels, enable_categorical=True) for frame in frames),
        xgboost.DMatrix(numbers, labels, feature_types=["c", "q"], enable_categorical=True),
        xgboost.DMatrix(numbers, labels, feature_names=["enc", "cats"]),
    ]
    for number, rows in enumerate(data):
        content = bytes(xgboost.train({"max_depth": 2, "nthread": 1}, rows, 2).save_raw(end))
        refusals = list(check_xgboost(io.BytesIO(content), kind))
        (tmp_path / "forest").write_bytes(content)
        if number < len(frames):
            with pytest.raises(treelite.TreeliteError) as error:
                load_forest(treelite, tmp_path / "forest", kind)
            assert refusals[0].message in str(error.value)
            assert 'feature_types="c"' in refusals[0].fix
        else:
            load_forest(treelite, tmp_path / "forest", kind)
            assert refusals == []


def binary_file(
    booster: bytes = b"gbtree", *, mark: bytes = b"binf", nodes: int = 1, roots: int = 1, major: int = 2
) -> bytes:
    """A file of XGBoost before 3.1 with a tree of one leaf, by xgboost_legacy.cc of Treelite 4.7."""
    learner = struct.pack("<fIiiiI112x", 0.5, 3, 0, 0, 0, major)
    names = b"".join(struct.pack("<Q", len(name)) + name for name in (b"reg:squarederror", booster))
    forest = struct.pack("<iiii8xii128x", 1, 1, 3, 0, 1, 0)
    tree = (
        struct.pack("<6i124x", roots, nodes, 0, 0, 3, 1) + struct.pack("<iiiIf", -1, -1, -1, 0, 7) + bytes(16)
    )
    leaves = struct.pack("<Qf", 1, 7) if major < 2 else b""
    weights = struct.pack("<Qf", 1, 1) if booster == b"dart" else b""
    return mark + learner + names + forest + tree + leaves + bytes(4) + weights


def _loads(content: bytes, path: Path) -> bool:
    path.write_bytes(content)
    try:
        load_forest(treelite, path, "xgboost")
    except treelite.TreeliteError:
        return False
    return True


def test_a_binary_file_of_xgboost_is_accepted_if_treelite_reads_it(tmp_path: Path) -> None:
    whole = binary_file()
    dart = binary_file(b"dart")
    right = [whole, dart, binary_file(mark=b""), binary_file(major=1), whole + b"attributes"]
    others = {
        "CatBoost": b"CBM1" + bytes(range(256)) * 9,
        "ONNX": b"\x08\x09\x12\x08CatBoost" * 99,
        "a page": b"<html>" + b"404 not found " * 30,
        "a text": b"booster[0]:\n0:[f0<0.5] yes=1,no=2,missing=2\n\t1:leaf=0.5\n" * 9,
        "zeros": bytes(999),
        "random bytes": np.random.default_rng(1).bytes(5000),
        "a pointer": b"version https://git-lfs.github.com/spec/v1\n" + bytes(99),
        "a linear model": binary_file(b"gblinear"),
        "an unknown booster": binary_file(b"gbtrex"),
        "no node": binary_file(nodes=0),
        "two roots": binary_file(roots=2),
        "nodes beyond the file": binary_file(nodes=9),
        **{f"{cut} bytes": whole[:cut] for cut in range(0, len(whole), 13)},
        "all but a byte": whole[:-1],
        "no base 64": b"bs64" + whole,
    }
    for content in right:
        assert _loads(content, tmp_path / "file")
        assert list(check_xgboost(io.BytesIO(content), "xgboost")) == []
    for name, content in others.items():
        assert not _loads(content, tmp_path / "file"), name
        assert len(list(check_xgboost(io.BytesIO(content), "xgboost"))) == 1, name
    assert (
        len(list(check_xgboost(io.BytesIO(dart[:-1]), "xgboost"))) == 1
    )  # which Treelite reads, with a zero


def test_the_json_of_lightgbm_is_to_be_saved_as_text() -> None:
    (refusal,) = check_format(
        config({"model_type": "lightgbm"}), NEW, format_of(b'{"name": "tree", "version"')
    )
    assert refusal.fix.startswith("save it with save_model() of XGBoost or LightGBM")


def test_a_file_of_lightgbm_that_was_cut_anywhere_or_has_an_own_objective_is_refused() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3))
    options = {"objective": "regression", "verbose": -1, "num_threads": 1}
    text = lightgbm.train(options, lightgbm.Dataset(rows, rows[:, 0]), 3).model_to_string()
    assert list(check_lightgbm(text)) == []
    third = text.index("Tree=2")
    for cut in (20, third, third + 30, text.index("end of trees"), text.index("end of parameters")):
        (refusal,) = check_lightgbm(text[:cut])
        assert refusal.message == "the file was cut off"
    (refusal,) = check_lightgbm(text.replace("objective=regression", "objective=my_loss"))
    assert refusal.message == 'Unknown objective name: "my_loss"'
    assert list(check_lightgbm(text.replace("objective=regression", "objective=mape"))) == []
