"""What the exporters of scikit-learn, LightGBM, XGBoost and CatBoost write, as a user would call them.

`python public_exports.py public_exports.zip` writes each file with rows and the framework's own answers to
them, as NAME.onnx and NAME.npz. The archive is of 2026-11-28: skl2onnx 1.18.0, onnxmltools 1.13.0,
onnx 1.17.0, scikit-learn 1.6.1, LightGBM 4.5.0, XGBoost 2.1.4 and CatBoost 1.2.8, which work together.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Answers = dict[str, Any]

FEATURES = 4


def rows_and_labels() -> tuple[Any, Any, Any]:
    """Return rows of ordinary size, three classes and a number for each."""
    random = np.random.default_rng(7)
    rows = random.standard_normal((300, FEATURES)).astype(np.float32)
    score = rows[:, 0] + 0.5 * rows[:, 1] * rows[:, 2]
    return rows, np.digitize(score, [-0.5, 0.5]), score


def of_sklearn() -> Iterator[tuple[str, Any, Callable[[Any], Any], dict[str, Any]]]:
    """Yield names, fitted models, the function whose answers count, and options of skl2onnx."""
    from sklearn import (
        ensemble,
        impute,
        linear_model,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    rows, classes, numbers = rows_and_labels()
    plain = {"zipmap": False}
    for model in (
        linear_model.LogisticRegression(max_iter=500),
        ensemble.RandomForestClassifier(n_estimators=8, max_depth=4),
        ensemble.GradientBoostingClassifier(n_estimators=8),
        ensemble.HistGradientBoostingClassifier(max_iter=8),
        tree.DecisionTreeClassifier(max_depth=4),
        svm.SVC(probability=True),
        neighbors.KNeighborsClassifier(),
        neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=50),
        pipeline.make_pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(max_iter=500)),
    ):
        model.fit(rows, classes)
        name = type(model if not hasattr(model, "steps") else model.steps[-1][1]).__name__
        yield f"{name}{'_scaled' * hasattr(model, 'steps')}", model, model.predict_proba, plain
    model = linear_model.LogisticRegression(max_iter=500).fit(rows, classes)
    yield "LogisticRegression_zipmap", model, model.predict_proba, {}
    for model in (
        linear_model.LinearRegression(),
        ensemble.RandomForestRegressor(n_estimators=8, max_depth=4),
        ensemble.GradientBoostingRegressor(n_estimators=8),
        pipeline.make_pipeline(
            preprocessing.StandardScaler(), neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=50)
        ),
    ):
        model.fit(rows, numbers)
        name = type(model if not hasattr(model, "steps") else model.steps[-1][1]).__name__
        yield name, model, model.predict, {}
    model = pipeline.make_pipeline(impute.SimpleImputer(), linear_model.Ridge()).fit(rows, numbers)
    yield "Ridge_imputed", model, model.predict, {}
    model = preprocessing.StandardScaler().fit(rows)
    yield "StandardScaler", model, model.transform, {}
    model = ensemble.IsolationForest(n_estimators=8).fit(rows)
    yield "IsolationForest", model, model.decision_function, {}


def write(name: str, folder: Path, network: Any, answers: Any) -> None:
    """Write a network with its rows and answers."""
    (folder / f"{name}.onnx").write_bytes(network.SerializeToString())
    np.savez(folder / f"{name}.npz", rows=rows_and_labels()[0], answers=np.asarray(answers, np.float64))


def main(folder: Path) -> None:
    """Write all exports into a folder."""
    import catboost
    import lightgbm
    import onnx
    import onnxmltools
    import skl2onnx
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    rows, classes, numbers = rows_and_labels()
    for name, model, answer, options in of_sklearn():
        opset = {"": 17, "ai.onnx.ml": 3}
        made = skl2onnx.to_onnx(
            model, rows[:1], options={id(model): options} if options else None, target_opset=opset
        )
        write(f"sklearn_{name}", folder, made, answer(rows))
    shape = [("X", FloatTensorType([None, FEATURES]))]
    for zipmap in (True, False):
        model = lightgbm.LGBMClassifier(n_estimators=6, verbose=-1).fit(rows, classes)
        made = onnxmltools.convert_lightgbm(model, initial_types=shape, zipmap=zipmap, target_opset=15)
        write(f"lightgbm_classifier{'_zipmap' * zipmap}", folder, made, model.predict_proba(rows))
    model = lightgbm.LGBMRegressor(n_estimators=6, verbose=-1).fit(rows, numbers)
    made = onnxmltools.convert_lightgbm(model, initial_types=shape, target_opset=15)
    write("lightgbm_regressor", folder, made, model.predict(rows))
    for kind, labels in (("Classifier", classes), ("Regressor", numbers)):
        model = getattr(xgboost, f"XGB{kind}")(n_estimators=6, max_depth=3).fit(rows, labels)
        try:
            made = onnxmltools.convert_xgboost(model, initial_types=shape, target_opset=15)
        except Exception as error:  # noqa: BLE001  the exporter does not know this XGBoost
            sys.stderr.write(f"xgboost {kind}: {error}\n")
            continue
        answers = model.predict_proba(rows) if kind == "Classifier" else model.predict(rows)
        write(f"xgboost_{kind.lower()}", folder, made, answers)
    for kind, labels in (("Classifier", classes), ("Regressor", numbers)):
        model = getattr(catboost, f"CatBoost{kind}")(
            iterations=6, depth=3, verbose=False, allow_writing_files=False
        )
        model.fit(rows, labels)
        path = folder / f"catboost_{kind.lower()}.onnx"
        model.save_model(str(path), format="onnx")
        answers = model.predict_proba(rows) if kind == "Classifier" else model.predict(rows)
        write(path.stem, folder, onnx.load(str(path)), answers)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as exports:
        main(Path(exports))
        with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_LZMA) as archive:
            for path in sorted(Path(exports).glob("*.*")):
                archive.write(path, path.name)
