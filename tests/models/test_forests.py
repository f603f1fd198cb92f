"""Forests of XGBoost, LightGBM and scikit-learn, served by the FIL backend with their framework's answers."""

from __future__ import annotations

import json
import pickle
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import treelite
import xgboost
from one_server import ENDPOINT, ask, serving, tensors_of
from sklearn import ensemble, tree
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation

from tests.reported import reported
from triton_models.artifact.evidence import evidence_of
from triton_models.artifact.forest_head import ForestHead
from triton_models.artifact.pbtxt import read_config, write_config
from triton_models.base.errors import FleetError, Problem
from triton_models.builds.build import build
from triton_models.builds.export import forest_comparison, forest_source, forest_thresholds
from triton_models.builds.export.forest_source import Source
from triton_models.builds.export.forest_thresholds import round_thresholds
from triton_models.builds.export.forests import forest_reference, write_forest
from triton_models.check.check import check_path
from triton_models.check.target import target
from triton_models.declare.reading import load_build
from triton_models.deliver.verify.server import local_server
from triton_models.deliver.verify.verify import expected_answers, verify
from triton_models.spec import Forest, LocalWeights
from triton_rehearsal.triton import command
from triton_rehearsal.triton.contract import MultiModelContract
from triton_rehearsal.triton.server import TritonServer

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(300, 5)).astype(np.float32)
CLASS = (ROWS[:, 0] + ROWS[:, 1] > 0).astype(int) + (ROWS[:, 2] > 1)
BINARY = (CLASS > 0).astype(int)
VALUE = ROWS[:, 0] * ROWS[:, 1]
ASKED = np.vstack([ROWS[:6], np.full((1, 5), np.nan, np.float32)])
NO_GAPS = ASKED[:6]

DECLARED = """
import pickle

from triton_models.builds.export.forests import forest_reference
from triton_models.spec import *

def estimator():
    return pickle.load(open({file!r}, "rb"))

WEIGHTS = LocalWeights(path={file!r})
BUILD = ModelDefinition(
    name={name!r}, description="made up", weights=WEIGHTS,
    models=[Forest(name={name!r}, max_batch_size=64, {options})],
    examples=list, reference=forest_reference(WEIGHTS), output="output__0", tolerance=1e-5,
)
"""
OF_ESTIMATOR = "estimator=estimator"


def of_xgboost(objective: str, target: Any, **given: Any) -> xgboost.Booster:
    options = {"objective": objective, "max_depth": 3, "nthread": 1, **given}
    return xgboost.train(options, xgboost.DMatrix(ROWS, target), 5)


def of_lightgbm(objective: str, target: Any, **given: Any) -> lightgbm.Booster:
    options = {"objective": objective, "verbose": -1, "num_threads": 1, **given}
    return lightgbm.train(options, lightgbm.Dataset(ROWS, target), 5)


@dataclass(frozen=True)
class Kind:
    """A trained forest, the end of its file's name, and its scores for some rows."""

    trained: Callable[[], Any]
    end: str
    scores: Callable[[Any, Any], Any]

    def save(self, path: Path) -> Any:
        """Train the forest, write its file, and return it."""
        trained = self.trained()
        if self.end == "pkl":
            path.write_bytes(pickle.dumps(trained))
        else:
            trained.save_model(path)
        return trained


def columns(scores: Any) -> Any:
    """Return one column for values, and two or more for probabilities."""
    return np.asarray(scores, np.float32).reshape(len(scores), -1)


def both(scores: Any) -> Any:
    """Return the probabilities of both classes, from those of the second."""
    return np.stack([1 - scores, scores], axis=1)


def predicted(trained: Any, rows: Any) -> Any:
    return columns(trained.predict(xgboost.DMatrix(rows) if isinstance(trained, xgboost.Booster) else rows))


def probable(trained: Any, rows: Any) -> Any:
    return columns(trained.predict_proba(rows))


def of_second(trained: Any, rows: Any) -> Any:
    return both(predicted(trained, rows)[:, 0])


KINDS = {
    "xgboost-json-binary": Kind(lambda: of_xgboost("binary:logistic", BINARY), "json", of_second),
    "xgboost-ubj-classes": Kind(lambda: of_xgboost("multi:softprob", CLASS, num_class=3), "ubj", predicted),
    "xgboost-regression": Kind(lambda: of_xgboost("reg:squarederror", VALUE), "json", predicted),
    "xgboost-ranking": Kind(lambda: of_xgboost("rank:pairwise", BINARY), "json", predicted),
    "xgboost-dart": Kind(lambda: of_xgboost("binary:logistic", BINARY, booster="dart"), "json", of_second),
    "lightgbm-binary": Kind(lambda: of_lightgbm("binary", BINARY), "txt", of_second),
    "lightgbm-classes": Kind(lambda: of_lightgbm("multiclass", CLASS, num_class=3), "txt", predicted),
    "sklearn-forest-classes": Kind(
        lambda: ensemble.RandomForestClassifier(5, random_state=0).fit(ROWS, CLASS), "pkl", probable
    ),
    "sklearn-forest-regression": Kind(
        lambda: ensemble.RandomForestRegressor(5, random_state=0).fit(ROWS, VALUE), "pkl", predicted
    ),
    "sklearn-histograms": Kind(
        lambda: ensemble.HistGradientBoostingRegressor(max_iter=5).fit(ROWS, VALUE), "pkl", predicted
    ),
    "sklearn-anomalies": Kind(
        lambda: ensemble.IsolationForest(n_estimators=5, random_state=0).fit(ROWS),
        "pkl",
        lambda trained, rows: columns(-trained.score_samples(rows)),
    ),
    "xgboost-estimator": Kind(
        lambda: xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(ROWS, CLASS), "pkl", probable
    ),
    "lightgbm-estimator": Kind(
        lambda: lightgbm.LGBMClassifier(n_estimators=5, n_jobs=1, verbose=-1).fit(ROWS, CLASS),
        "pkl",
        probable,
    ),
}
WITHOUT_GAPS = {name for name in KINDS if name.startswith("sklearn") and name != "sklearn-histograms"}


def declare(models: Path, name: str, file: Path, options: str = "") -> None:
    (models / name).mkdir()
    own = f"{OF_ESTIMATOR}, {options}" if file.suffix == ".pkl" else options
    (models / name / "build.py").write_text(DECLARED.format(name=name, file=str(file), options=own))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, Path]]:
    """Every kind of forest, with its file."""
    folder = tmp_path_factory.mktemp("trained")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            name: (kind.save(path := folder / f"{name}.{kind.end}"), path) for name, kind in KINDS.items()
        }


@pytest.fixture(scope="module")
def served(trained: dict[str, tuple[Any, Path]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start a server with every kind of forest, and two that answer with a class."""
    folder = tmp_path_factory.mktemp("served")
    for name, (_, file) in trained.items():
        declare(folder, name, file)
    declare(folder, "two", trained["xgboost-json-binary"][1], 'answer="class", threshold=0.6')
    declare(folder, "three", trained["xgboost-ubj-classes"][1], 'answer="class"')
    names = [*trained, "two", "three"]
    roots = [build(name, models=folder, output=folder / "out") for name in names]
    with serving(*roots, folder=folder) as contract:
        yield contract


@pytest.mark.parametrize("name", KINDS)
def test_a_forest_answers_as_its_framework_does_and_so_does_its_reference(
    name: str, served: Any, trained: Any
) -> None:
    booster, file = trained[name]
    rows = NO_GAPS if name in WITHOUT_GAPS else ASKED
    answer = ask(served, name, {"input__0": rows})["output__0"]
    np.testing.assert_allclose(answer, KINDS[name].scores(booster, rows), atol=1e-5)

    of_file = forest_reference(LocalWeights(path=str(file)))
    reference = forest_reference(estimator=lambda: booster) if file.suffix == ".pkl" else of_file
    found = reference({"input__0": NO_GAPS})["output__0"]
    np.testing.assert_allclose(found, KINDS[name].scores(booster, NO_GAPS), atol=1e-6)


def test_a_classifier_answers_with_the_class_above_its_threshold_or_with_the_likeliest(
    served: Any, trained: Any
) -> None:
    scores = predicted(trained["xgboost-json-binary"][0], ASKED)
    answer = ask(served, "two", {"input__0": ASKED})["output__0"]
    np.testing.assert_array_equal(answer, scores > 0.6)
    assert {0, 1} == set(answer.ravel())

    scores = predicted(trained["xgboost-ubj-classes"][0], ASKED)
    answer = ask(served, "three", {"input__0": ASKED})["output__0"]
    np.testing.assert_array_equal(answer, scores.argmax(1)[:, None])


@pytest.mark.parametrize(("release", "name"), [("25.04", "output_class"), ("25.09", "is_classifier")])
def test_the_configuration_has_the_parameter_of_the_release(
    release: str, name: str, trained: Any, tmp_path: Path
) -> None:
    declare(tmp_path, "net", trained["lightgbm-classes"][1])
    root = build("net", models=tmp_path, output=tmp_path / "out", release=release)
    config = read_config(root / "net" / "config.pbtxt")
    assert {key: value.string_value for key, value in config.parameters.items()} == {
        "model_type": "treelite_checkpoint",
        "predict_proba": "true",
        name: "true",
        "threshold": "0.5",
    }
    assert tensors_of(root / "net") == [("input__0", "TYPE_FP32", [5]), ("output__0", "TYPE_FP32", [3])]


def refused(models: Path, name: str, file: Path, options: str = "", **given: Any) -> Problem:
    declare(models, name, file, options)
    with pytest.raises(FleetError) as error:
        build(name, models=models, output=models / "out", **given)
    (problem,) = error.value.problems
    assert f"model {name!r}" in problem.where
    return problem


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"version": [99, 0, 0], "learner": {"new": 1}}', "could not be parsed as XGBoost model"),
        (b"tree\nversion=v9\nend of trees\n", "Ill-formed LightGBM model file"),
        (b"\x04\0\0\0\x07\0\0\0\0\0\0\0", "threshold_type"),
        (pickle.dumps({}), "a pickle"),
        (b"", "not a file of XGBoost, LightGBM or Treelite"),
    ],
    ids=["xgboost", "lightgbm", "treelite", "pickle", "empty"],
)
def test_a_file_of_an_unknown_version_is_refused_with_the_models_name(
    content: bytes, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "forest.model"
    file.write_bytes(content)
    problem = refused(tmp_path, "net", file)
    assert (problem.rule, said in problem.what) == ("forest-file", True), problem.what


@pytest.mark.parametrize(("at", "said"), [(32, "is damaged"), (14, "takes more than 0.5 seconds")])
def test_a_checkpoint_that_treelite_crashes_or_hangs_at_is_refused(
    at: int, said: str, trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forest_source, "_READ_S", 0.5 if "more" in said else 60.0)
    treelite.frontend.from_lightgbm(trained["lightgbm-binary"][0]).serialize(tmp_path / "given.tl")
    content = bytearray((tmp_path / "given.tl").read_bytes())
    content[at : at + 8] = (2**63 - 1).to_bytes(8, "little")
    (tmp_path / "given.tl").write_bytes(content)
    problem = refused(tmp_path, "net", tmp_path / "given.tl")
    assert (problem.rule, said in problem.what) == ("forest-file", True), problem.what


@pytest.mark.parametrize("last", ["Tree=2", "end of tree", "[boosting: "])
def test_a_file_of_lightgbm_that_was_cut_off_is_refused_before_lightgbm_ends_the_process(
    last: str, trained: Any, tmp_path: Path
) -> None:
    content, mark, _ = trained["lightgbm-binary"][1].read_text().partition(last)
    file = tmp_path / "forest.txt"
    file.write_text(content + mark)
    assert refused(tmp_path, "net", file).rule == "forest-file"
    with reported("forest-file"):
        forest_reference(LocalWeights(path=str(file)))({"input__0": NO_GAPS})


def test_a_release_that_cannot_read_checkpoints_is_refused(trained: Any, tmp_path: Path) -> None:
    problem = refused(tmp_path, "net", trained["lightgbm-binary"][1], release="24.01")
    assert problem.rule == "forest-release"


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda: of_lightgbm("multiclassova", CLASS, num_class=3), ""),
        (lambda: of_lightgbm("regression", VALUE), 'answer="class"'),
        (lambda: of_xgboost("reg:squarederror", np.stack([VALUE, VALUE], 1)), ""),
    ],
    ids=["one against all", "class of a regression", "several targets"],
)
def test_a_forest_whose_answers_the_backend_cannot_give_is_refused(
    make: Callable[[], Any], options: str, tmp_path: Path
) -> None:
    file = tmp_path / "forest.json"
    make().save_model(file)
    assert refused(tmp_path, "net", file, options).rule == "forest-kind"


def test_a_treelite_checkpoint_is_served_as_it_is(trained: Any, tmp_path: Path) -> None:
    single = treelite.frontend.from_xgboost(trained["xgboost-regression"][0])
    double = treelite.frontend.from_lightgbm(trained["lightgbm-binary"][0])
    for name, model in (("single", single), ("double", double)):
        model.serialize(tmp_path / f"{name}.tl")
        declare(tmp_path, name, tmp_path / f"{name}.tl")
    root = build("single", models=tmp_path, output=tmp_path / "out")
    assert (root / "single" / "1" / "checkpoint.tl").read_bytes() == (tmp_path / "single.tl").read_bytes()
    root = build("double", models=tmp_path, output=tmp_path / "out")
    near = forest_comparison.draw_rows(double, 5, gaps=True)
    expected = treelite.gtil.predict(double, near).reshape(len(near), -1)[:, -1]
    np.testing.assert_array_equal(answers(root, near), expected)


UNEQUAL = {
    "xgboost": lambda: of_xgboost("multi:softprob", CLASS, num_class=3),
    "vectors of xgboost": lambda: of_xgboost(
        "multi:softprob", CLASS, num_class=3, multi_strategy="multi_output_tree", tree_method="hist"
    ),
    "histograms": lambda: ensemble.HistGradientBoostingClassifier(max_iter=4).fit(ROWS, CLASS),
}


def checkpoint(make: Callable[[], Any], folder: Path) -> tuple[treelite.Model, treelite.Model]:
    """Return a forest as Treelite converts it, and as it was written."""
    trained = make()
    forest = Forest(name="net", max_batch_size=8, estimator=lambda: trained)
    write_forest(forest, Source(name="net", estimator=lambda: trained), folder)
    if isinstance(trained, xgboost.Booster):
        return treelite.frontend.from_xgboost(trained), treelite.Model.deserialize(folder / "checkpoint.tl")
    return treelite.sklearn.import_model(trained), treelite.Model.deserialize(folder / "checkpoint.tl")


@pytest.mark.parametrize("make", UNEQUAL.values(), ids=UNEQUAL)
def test_base_scores_that_differ_are_written_as_trees_with_equal_answers(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    given, written = checkpoint(make, tmp_path)
    assert ForestHead.of(given.get_header_accessor().get_field).unequal_base_scores
    assert not ForestHead.of(written.get_header_accessor().get_field).unequal_base_scores
    np.testing.assert_array_equal(
        treelite.gtil.predict(written, NO_GAPS), treelite.gtil.predict(given, NO_GAPS)
    )


# Releases with another GPU importer than the one before.
IMPORTERS = ("24.03", "25.06", "25.09", "25.12", "26.03", "26.06")
OLD = IMPORTERS[:2]
REFUSED: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "poisson": (lambda: of_xgboost("count:poisson", np.exp(VALUE)), OLD),
    "tweedie of lightgbm": (lambda: of_lightgbm("tweedie", np.exp(VALUE)), OLD),
    "square roots": (lambda: of_lightgbm("regression", np.exp(VALUE), reg_sqrt=True), OLD),
    "lambda": (lambda: of_lightgbm("cross_entropy_lambda", BINARY), OLD),
    "steep sigmoid": (lambda: of_lightgbm("binary", BINARY, sigmoid=2.0), OLD),
    "anomalies": (lambda: ensemble.IsolationForest(n_estimators=5, random_state=0).fit(ROWS), OLD),
    "parallel trees": (
        lambda: of_xgboost("multi:softprob", CLASS, num_class=3, num_parallel_tree=2),
        IMPORTERS,
    ),
    "none of these": (lambda: of_lightgbm("regression", VALUE), ()),
}


def instances_of(models: Path, release: str, out: Path) -> str:
    root = build("net", models=models, output=out, release=release)
    (group,) = read_config(root / "net" / "config.pbtxt").instance_group or [None]
    return "" if group is None else type(group).Kind.Name(group.kind)


@pytest.mark.parametrize(("make", "refusing"), REFUSED.values(), ids=REFUSED)
def test_a_forest_that_the_gpu_importer_of_a_release_refuses_is_placed_on_the_cpu(
    make: Callable[[], Any], refusing: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "forest.pkl"
    file.write_bytes(pickle.dumps(make()))
    declare(tmp_path, "net", file)
    on_cpu = [each for each in IMPORTERS if instances_of(tmp_path, each, tmp_path / "out") == "KIND_CPU"]
    assert on_cpu == list(refusing)
    assert capfd.readouterr().err.count("note: net runs on the CPU") == len(on_cpu)


def test_a_forest_that_must_run_on_a_gpu_and_cannot_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "forest.json"
    of_xgboost("count:poisson", np.exp(VALUE)).save_model(file)
    problem = refused(tmp_path, "net", file, 'instances=Instances(kind="KIND_GPU")', release="25.04")
    assert problem.rule == "forest-gpu"


@pytest.mark.parametrize("release", [IMPORTERS[0], IMPORTERS[-1]])
def test_no_kind_of_forest_is_built_for_a_gpu_whose_importer_refuses_it(
    release: str, trained: Any, tmp_path: Path
) -> None:
    for name, (_, file) in trained.items():
        declare(tmp_path, name, file)
        root = build(name, models=tmp_path, output=tmp_path / "out", release=release)
        assert check_path(root, target=target(release=release, gpu="A10G")) == []


def build_forest(models: Path, trained: Any, options: str = "", name: str = "net") -> Path:
    """Build a forest that a function returns."""
    file = models / f"{name}.pkl"
    file.write_bytes(pickle.dumps(trained))
    declare(models, name, file, options)
    return build(name, models=models, output=models / "out")


def build_file(models: Path, trained: Any, options: str = "", name: str = "net", end: str = "json") -> Path:
    """Build a forest from its file."""
    file = models / f"{name}.{end}"
    trained.save_model(file)
    declare(models, name, file, options)
    return build(name, models=models, output=models / "out")


def answers(root: Path, rows: Any, *, features: int = 5) -> Any:
    """What the backend answers: its probabilities of two classes as those of the second."""
    model = treelite.Model.deserialize(next(root.glob("*/1/checkpoint.tl")))
    scores = treelite.gtil.predict(model, np.asarray(rows, np.float32)).reshape(len(rows), -1)
    return scores[:, -1]


WITH_GAPS = np.where(RANDOM.random(ROWS.shape) < 0.2, np.nan, ROWS).astype(np.float32)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ensemble.RandomForestClassifier(9, random_state=0).fit(WITH_GAPS, BINARY),
        lambda: ensemble.RandomForestRegressor(9, random_state=0).fit(WITH_GAPS, VALUE),
        lambda: ensemble.ExtraTreesClassifier(9, random_state=0).fit(WITH_GAPS, BINARY),
        lambda: ensemble.ExtraTreesRegressor(9, random_state=0).fit(WITH_GAPS, VALUE),
        lambda: ensemble.RandomForestClassifier(9, random_state=0).fit(ROWS, BINARY),
    ],
    ids=["forest", "regression", "extra", "extra regression", "trained without gaps"],
)
def test_a_forest_of_scikit_learn_keeps_the_directions_of_its_missing_values(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    trained = make()
    expected = probable(trained, WITH_GAPS) if hasattr(trained, "classes_") else predicted(trained, WITH_GAPS)
    found = answers(build_forest(tmp_path, trained), WITH_GAPS)
    np.testing.assert_allclose(found, expected[:, -1], atol=1e-5)


def stopped_early(**given: Any) -> Any:
    options = {"n_estimators": 60, "early_stopping_rounds": 4, "n_jobs": 1, **given}
    kind = xgboost.XGBRegressor if "objective" in given else xgboost.XGBClassifier
    noise = RANDOM.integers(0, 2, len(ROWS))
    halves = ROWS[:150], noise[:150], ROWS[150:], noise[150:]
    trained = kind(**options).fit(*halves[:2], eval_set=[halves[2:]], verbose=False)
    assert trained.best_iteration + 1 < trained.get_booster().num_boosted_rounds()
    return trained


def without_interface(trained: Any, folder: Path) -> Any:
    """Return the Booster of a classifier, whose file does not say who called it."""
    trained.get_booster().save_model(folder / "booster.ubj")
    return xgboost.Booster(model_file=folder / "booster.ubj")


@pytest.mark.parametrize("end", ["json", "ubj"])
@pytest.mark.parametrize("given", [{}, {"num_parallel_tree": 3}, {"objective": "reg:squarederror"}], ids=str)
def test_a_file_of_a_classifier_that_was_stopped_early_answers_as_the_classifier(
    end: str, given: dict[str, Any], tmp_path: Path
) -> None:
    trained = stopped_early(**given)
    expected = trained.predict(ROWS) if given.get("objective") else trained.predict_proba(ROWS)[:, 1]
    found = answers(build_file(tmp_path, trained, end=end), ROWS)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    file = tmp_path / f"net.{end}"
    reference = forest_reference(LocalWeights(path=str(file)))({"input__0": ROWS})["output__0"]
    np.testing.assert_allclose(reference[:, -1], expected, atol=1e-6)
    every = trained.predict(ROWS, iteration_range=(0, trained.get_booster().num_boosted_rounds()))
    found = answers(build_file(tmp_path, trained, 'iterations="all"', name="all", end=end), ROWS)
    assert given.get("objective") is None or np.abs(found - every).max() < 1e-5


@pytest.mark.parametrize("options", ["", OF_ESTIMATOR], ids=["file", "estimator"])
def test_a_booster_that_was_stopped_early_has_to_say_which_iterations_answer(
    options: str, tmp_path: Path
) -> None:
    booster = without_interface(stopped_early(), tmp_path)
    make = build_forest if options else build_file
    with pytest.raises(FleetError) as error:
        make(tmp_path, booster, name="which")
    (problem,) = error.value.problems
    assert problem.rule == "forest-iterations"
    assert 'iterations="best"' in problem.fix
    rounds = booster.num_boosted_rounds()
    for iterations, used in (("best", booster.best_iteration + 1), ("all", rounds)):
        expected = booster.predict(xgboost.DMatrix(ROWS), iteration_range=(0, used))
        found = answers(make(tmp_path, booster, f'iterations="{iterations}"', name=iterations), ROWS)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_lightgbm_that_was_stopped_early_answers_with_its_best_iteration_unless_all_shall(
    tmp_path: Path,
) -> None:
    own, other = (lightgbm.Dataset(ROWS[half], BINARY[half]) for half in (slice(150), slice(150, None)))
    booster = lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1, "learning_rate": 0.9},
        own,
        60,
        valid_sets=[other],
        callbacks=[lightgbm.early_stopping(4, verbose=False)],
        keep_training_booster=True,
    )
    assert booster.best_iteration < booster.num_trees()
    weights = {"": booster.predict(ROWS), 'iterations="all"': booster.predict(ROWS, num_iteration=-1)}
    assert np.abs(weights[""] - weights['iterations="all"']).max() > 1e-3
    for options, expected in weights.items():
        model = Source(name="net", estimator=lambda: booster, iterations="all" if options else None).forest()
        found = treelite.gtil.predict(model, ROWS).ravel()
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_forest_without_a_best_iteration_cannot_answer_with_it(trained: Any, tmp_path: Path) -> None:
    file = trained["xgboost-json-binary"][1]
    assert "does not say" in refused(tmp_path, "net", file, 'iterations="best"').what


ZEROS = np.where(RANDOM.random(ROWS.shape) < 0.3, 0, ROWS).astype(np.float32)
UNLIKE: dict[str, tuple[Callable[[], Any], str]] = {
    "zeros as missing": (
        lambda: lightgbm.train(
            {"objective": "binary", "zero_as_missing": True, "verbose": -1},
            lightgbm.Dataset(ZEROS, BINARY),
            5,
        ),
        "zero_as_missing",
    ),
    "linear leaves": (lambda: of_lightgbm("regression", VALUE, linear_tree=True), "linear_tree"),
    "a value as missing": (
        lambda: xgboost.XGBClassifier(n_estimators=3, missing=-999, n_jobs=1).fit(ROWS, BINARY),
        "-999",
    ),
    "no trees": (lambda: of_xgboost("binary:logistic", BINARY, booster="gblinear"), "gblinear"),
    "an unknown objective": (lambda: of_xgboost("reg:absoluteerror", VALUE), "'reg:absoluteerror'"),
    "an unknown objective with options": (
        lambda: of_xgboost("reg:quantileerror", VALUE, quantile_alpha=0.3),
        "'reg:quantileerror'",
    ),
    "no forest": (
        lambda: ensemble.AdaBoostClassifier(n_estimators=2).fit(ROWS, BINARY),
        "no AdaBoostClassifier",
    ),
    "a start that is a model": (
        lambda: ensemble.GradientBoostingRegressor(
            n_estimators=2, init=ensemble.RandomForestRegressor(2)
        ).fit(ROWS, VALUE),
        "init",
    ),
    "one class": (lambda: ensemble.RandomForestClassifier(3).fit(ROWS, np.ones(len(ROWS), int)), "one class"),
}


@pytest.mark.parametrize(("make", "said"), UNLIKE.values(), ids=UNLIKE)
def test_a_forest_that_treelite_would_answer_otherwise_is_refused_with_the_reason(
    make: Callable[[], Any], said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FleetError) as error:
        build_forest(tmp_path, make())
    (problem,) = error.value.problems
    assert (problem.rule, said in problem.what) == ("forest-kind", True), problem.what
    assert "project/src" not in problem.what + capfd.readouterr().err


@pytest.mark.parametrize(
    ("objective", "given"), [("reg:absoluteerror", {}), ("reg:quantileerror", {"quantile_alpha": 0.3})]
)
def test_the_fix_for_an_unknown_objective_serves_the_same_answers(
    objective: str, given: dict[str, Any], tmp_path: Path
) -> None:
    booster = of_xgboost(objective, VALUE, **given)
    expected = booster.predict(xgboost.DMatrix(ROWS))
    booster.set_param({"objective": "reg:squarederror"})
    np.testing.assert_allclose(answers(build_file(tmp_path, booster), ROWS), expected, atol=1e-5)


def test_the_fix_for_a_value_as_missing_is_accepted(tmp_path: Path) -> None:
    rows = np.where(np.isnan(WITH_GAPS), -999, WITH_GAPS)
    trained = xgboost.XGBClassifier(n_estimators=3, missing=-999, n_jobs=1).fit(rows, BINARY)
    expected = trained.predict_proba(rows)[:, 1]
    trained.set_params(missing=float("nan"))
    found = answers(build_forest(tmp_path, trained), WITH_GAPS)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_zeros_that_go_where_missing_ones_go_are_served(tmp_path: Path) -> None:
    positive = np.abs(ROWS) + 1
    options = {"objective": "binary", "zero_as_missing": True, "verbose": -1, "min_data_in_leaf": 5}
    booster = lightgbm.train(options, lightgbm.Dataset(positive, BINARY), 5)
    text = booster.model_to_string()
    # Every split sends what is missing to the left, where a zero goes too.
    left = re.sub(r"decision_type=.*", lambda line: line[0].replace("4", "6").replace("10", "6"), text)
    trained = lightgbm.Booster(model_str=re.sub(r"^tree_sizes=.*\n", "", left, flags=re.MULTILINE))
    root = build_forest(tmp_path, trained)
    zeros = np.where(RANDOM.random(positive.shape) < 0.3, 0, positive)
    np.testing.assert_allclose(answers(root, zeros), trained.predict(zeros), atol=1e-5)


SCORED: dict[str, Callable[[], Any]] = {
    "softmax": lambda: xgboost.XGBClassifier(n_estimators=3, objective="multi:softmax", n_jobs=1).fit(
        ROWS, CLASS
    ),
    "hinge": lambda: xgboost.XGBClassifier(n_estimators=3, objective="binary:hinge", n_jobs=1).fit(
        ROWS, BINARY
    ),
    "margin": lambda: xgboost.XGBClassifier(n_estimators=3, objective="binary:logitraw", n_jobs=1).fit(
        ROWS, BINARY
    ),
    "exponential": lambda: ensemble.GradientBoostingClassifier(n_estimators=3, loss="exponential").fit(
        ROWS, BINARY
    ),
    "poisson": lambda: ensemble.HistGradientBoostingRegressor(max_iter=3, loss="poisson").fit(
        ROWS, np.exp(VALUE)
    ),
    "gamma": lambda: ensemble.HistGradientBoostingRegressor(max_iter=3, loss="gamma").fit(
        ROWS, np.exp(VALUE)
    ),
}


@pytest.mark.parametrize("make", SCORED.values(), ids=SCORED)
def test_an_estimators_own_answers_are_the_reference_of_its_objective(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    trained = make()
    expected = (trained.predict_proba if hasattr(trained, "classes_") else trained.predict)(ROWS)
    root = build_forest(tmp_path, trained)
    np.testing.assert_allclose(answers(root, ROWS), columns(expected)[:, -1], atol=1e-5)
    reference = forest_reference(estimator=lambda: trained)({"input__0": ROWS})["output__0"]
    (_, _, dims) = tensors_of(root / "net")[1]
    assert reference.shape == (len(ROWS), *dims)


def test_multi_softmax_has_probabilities_and_classes_as_references(tmp_path: Path) -> None:
    booster = of_xgboost("multi:softmax", CLASS, num_class=3)
    booster.save_model(tmp_path / "forest.ubj")
    weights = LocalWeights(path=str(tmp_path / "forest.ubj"))
    scores = forest_reference(weights)({"input__0": ROWS})["output__0"]
    np.testing.assert_allclose(scores.sum(axis=1), 1, atol=1e-6)
    classes = forest_reference(weights, answer="class")({"input__0": ROWS})["output__0"]
    np.testing.assert_array_equal(classes[:, 0], booster.predict(xgboost.DMatrix(ROWS)))
    np.testing.assert_array_equal(scores.argmax(axis=1), classes[:, 0])


def test_a_build_records_how_many_rows_it_compared(tmp_path: Path) -> None:
    root = build_forest(tmp_path, ensemble.RandomForestClassifier(5, random_state=0).fit(ROWS, CLASS))
    record = json.loads((root / "build.json").read_text())
    compared = {"examples": 0, "drawn": 512, "allowed": 1e-5, "precision": "fp32"}
    assert record["compared"] == {"net": compared}


def test_a_forest_whose_framework_is_not_installed_is_built_with_a_note_and_not_compared(
    trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(forest_comparison, "missing", list)
    declare(tmp_path, "net", trained["xgboost-json-binary"][1])
    root = build("net", models=tmp_path, output=tmp_path / "out")
    assert "compared" not in json.loads((root / "build.json").read_text())
    assert "xgboost is not installed here" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("default_left", lambda values: 1 - values),
        ("threshold", lambda values: np.nextafter(values, np.float32(np.inf))),
        ("leaf_value", lambda values: values * np.float32(1.001)),
    ],
)
def test_a_checkpoint_that_differs_in_one_way_fails_its_build_with_the_row(
    field: str, change: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booster = of_xgboost("reg:squarederror", VALUE)
    read = forest_source.load

    def spoilt(path: Path, kind: str) -> treelite.Model:
        model = read(path, kind)
        tree = model.get_tree_accessor(0)
        tree.set_field(field, change(tree.get_field(field)).astype(tree.get_field(field).dtype))
        return model

    monkeypatch.setattr(forest_source, "load", spoilt)
    with pytest.raises(FleetError) as error:
        build_file(tmp_path, booster)
    (problem,) = error.value.problems
    assert problem.rule == "forest-answers"
    assert "to the row [" in problem.what


def test_many_trees_are_compared_on_fewer_rows() -> None:
    counts = []
    for trees in (5, 4000):
        data = xgboost.DMatrix(ROWS[:50], VALUE[:50])
        booster = xgboost.train({"max_depth": 1, "nthread": 1}, data, trees)
        model = treelite.frontend.from_xgboost(booster)
        counts.append(len(forest_comparison.draw_rows(model, 5, gaps=True)))
    assert counts == [512, 256]


def test_rows_are_drawn_next_to_thresholds_with_zeros_large_and_missing_values() -> None:
    booster = of_xgboost("reg:squarederror", VALUE)
    model = treelite.frontend.from_xgboost(booster)
    rows = forest_comparison.draw_rows(model, 5, gaps=True)
    np.testing.assert_array_equal(rows, forest_comparison.draw_rows(model, 5, gaps=True))
    tree = model.get_tree_accessor(0)
    first, threshold = tree.get_field("split_index")[0], tree.get_field("threshold")[0]
    column = rows[:, first]
    for value in (threshold, np.nextafter(threshold, np.float32(9)), np.nextafter(threshold, -np.float32(9))):
        assert value in column
    for value in (0, 1e6, -1e6, 1e9, -1e9):
        assert value in column
    assert np.isnan(column).any()
    assert not np.isnan(forest_comparison.draw_rows(model, 5, gaps=False)).any()


MISFITS = [
    ("xgboost-json-binary", "input", "4", "a row of the forest has 5 features"),
    ("xgboost-ubj-classes", "output", "1", "the forest answers with 3 numbers per row"),
    ("xgboost-regression", "output", "2", "the forest answers with 1 number per row"),
]


def test_a_server_refuses_sizes_that_are_not_the_forests(trained: Any, tmp_path: Path) -> None:
    roots = {}
    for name, side, size, said in MISFITS:
        declare(tmp_path, name, trained[name][1])
        root = build(name, models=tmp_path, output=tmp_path / "out")
        path = root / name / "config.pbtxt"
        config = read_config(path)
        (tensor,) = getattr(config, side)
        tensor.dims[:] = [int(size)]
        tensor.ClearField("reshape")
        write_config(config, path)
        assert "fil-tensor" in [problem.rule for problem in check_path(root, target=target())]
        roots[root] = said
    with TritonServer(ENDPOINT, tmp_path / "server") as server, MultiModelContract(server.socket) as contract:
        for root, said in roots.items():
            answer = contract.load(model_id=root.name, target_model=root.name, folder=str(root))
            assert not answer.ok
            assert said in answer.text + server.log_tail()


def of_prices(count: int, seed: int) -> Any:
    """Rows as a shop has them: a price, a weight and a part, in FP64."""
    random = np.random.default_rng(seed)
    columns = [random.uniform(1, 30, count), random.gamma(2, 10, count), random.uniform(0, 1, count)]
    return np.column_stack(
        [np.round(column, digits) for column, digits in zip(columns, (2, 1, 2), strict=True)]
    )


def histograms(rows: Any, target: Any) -> Any:
    return ensemble.HistGradientBoostingRegressor(max_iter=20).fit(rows, target)


def leaves(rows: Any, target: Any) -> Any:
    return lightgbm.LGBMRegressor(n_estimators=20, verbose=-1, n_jobs=1).fit(rows, target)


IN_FP64 = pytest.mark.parametrize("fit", [histograms, leaves])


@IN_FP64
@pytest.mark.parametrize(
    "draw",
    [
        of_prices,
        lambda count, seed: 10 * of_prices(count, seed) + 5000,
        lambda count, seed: of_prices(count, seed).astype(np.float32),
        lambda count, seed: np.random.default_rng(seed).lognormal(12, 1.5, (count, 3)),
    ],
    ids=["prices", "thousands", "FP32", "continuous"],
)
def test_a_forest_in_fp64_answers_as_its_own_call_on_rows_that_were_not_rounded(
    draw: Callable[[int, int], Any], fit: Callable[[Any, Any], Any], tmp_path: Path
) -> None:
    rows = draw(2000, 1)
    trained = fit(rows, np.sin(rows[:, 0]) * 5 + np.sin(rows[:, 1]) + (rows[:, 2] > np.median(rows[:, 2])))
    fresh = np.vstack([draw(2000, 2), rows])  # training rows may equal thresholds
    root, expected = build_forest(tmp_path, trained), trained.predict(fresh)
    np.testing.assert_allclose(answers(root, fresh), expected, atol=1e-4)
    reference = forest_reference(estimator=lambda: trained)
    found = reference({"input__0": fresh.astype(np.float32)})["output__0"]
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-4)


@IN_FP64
@pytest.mark.parametrize(
    ("low", "width", "digits"),
    [(1.7e9, 3600, 9), (1.7e9, 3600, 0), (1e8, 400, 0), (2.0**24, 50, 0)],
    ids=["an hour", "seconds of an hour", "ids of nine digits", "ids of eight digits"],
)
def test_a_forest_whose_values_fp32_cannot_tell_apart_is_refused_and_its_fix_accepted(
    low: float, width: float, digits: int, fit: Callable[[Any, Any], Any], tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    offsets = np.round(random.uniform(0, width, 1500), digits)
    rows = np.column_stack([random.normal(size=1500), low + offsets])
    target = np.sin(offsets / width * 20)
    with pytest.raises(FleetError) as error:
        build_forest(tmp_path, fit(rows, target))
    (problem,) = error.value.problems
    assert problem.rule == "forest-answers"
    assert "feature 1 of 'net' has values that FP32 does not separate" in problem.what
    assert "subtract an offset from feature 1" in problem.fix
    build_forest(tmp_path, fit(rows - [0, low], target), name="shifted")


def of_computed(column: Any) -> tuple[Any, Any, Any]:
    """Return rows with a column, their targets, and a forest of scikit-learn's histograms of two thirds."""
    random = np.random.default_rng(11)
    scaled = (column - column.mean()) / column.std()
    rows = np.column_stack([column, random.normal(size=len(column)).astype(np.float32)])
    target = np.sin(5 * scaled) + scaled + 0.3 * rows[:, 1]
    part = len(column) * 2 // 3
    return rows, target, ensemble.HistGradientBoostingRegressor(max_iter=50).fit(rows[:part], target[:part])


def money(seed: int) -> Any:
    return np.round(np.random.default_rng(seed).lognormal(3, 1, 3000), 2)


def uniform(seed: int) -> Any:
    return np.round(np.random.default_rng(seed).uniform(1, 50, 3000), 2)


@pytest.mark.parametrize("seed", [6, 17, 20])
def test_decimals_halfway_between_those_of_most_thresholds_answer_as_in_fp64(
    seed: int, tmp_path: Path
) -> None:
    rows, _, trained = of_computed(uniform(seed) * 0.85)  # 18.445 and 18.4535
    root, expected = build_forest(tmp_path, trained), trained.predict(rows)
    np.testing.assert_allclose(answers(root, rows), expected, atol=1e-4)
    reference = forest_reference(estimator=lambda: trained)({"input__0": rows.astype(np.float32)})
    np.testing.assert_allclose(reference["output__0"][:, 0], expected, atol=1e-4)


@pytest.mark.parametrize(
    "values",
    [
        [0.99, 1.99, 2.99, 3.99, 4.99, 7.49, 12.49],
        [9.99, 19.99, 29.99],
        np.round(np.arange(300) * 0.4, 1),
        np.floor(np.arange(1, 300)) + 0.99,
    ],
    ids=["seven prices", "three prices", "steps of 0.4", "99 cents"],
)
@IN_FP64
def test_few_plain_decimals_are_not_taken_for_computed_ones(
    values: Any, fit: Callable[[Any, Any], Any], tmp_path: Path
) -> None:
    rows = np.random.default_rng(1).choice(values, (3000, 1))
    trained = fit(rows, np.sin(rows[:, 0]))
    np.testing.assert_allclose(
        answers(build_forest(tmp_path, trained), rows, features=1), trained.predict(rows), atol=1e-4
    )


@pytest.mark.parametrize("factor", [1.19, 1.2, 0.01, 1 / 1.19])
def test_decimals_with_a_factor_answer_as_in_fp64(factor: float, tmp_path: Path) -> None:
    prices = money(11)
    rows, _, trained = of_computed((np.round(prices * 100) if factor == 0.01 else prices) * factor)
    np.testing.assert_allclose(
        answers(build_forest(tmp_path, trained), rows), trained.predict(rows), atol=1e-4
    )
    reference = forest_reference(estimator=lambda: trained)({"input__0": rows.astype(np.float32)})
    np.testing.assert_allclose(reference["output__0"][:, 0], trained.predict(rows), atol=1e-4)


HOURS = np.random.default_rng(4).integers(0, 24, 3000)
TEMPERATURES = np.round(10 + np.random.default_rng(5).normal(size=3000).cumsum() / 10, 1)


def rolling(values: Any, count: int) -> Any:
    """Return rolling means as pandas computes them: it adds the new value, and subtracts the old one."""
    sums = np.cumsum(np.concatenate([values[:1], values[1:] - np.pad(values, (count, 0))[1 : len(values)]]))
    return sums / np.minimum(np.arange(len(values)) + 1, count)


COMPUTED = {
    "hour": np.sin(2 * np.pi * HOURS / 24),
    "rolling": rolling(TEMPERATURES, 7),
    "entropy": -((HOURS + 1) / 26 * np.log((HOURS + 1) / 26) + (25 - HOURS) / 26 * np.log((25 - HOURS) / 26)),
    "sum": np.round(money(1), 1) + np.round(money(2), 1),
    "discount": money(1) * (1 - np.random.default_rng(2).integers(0, 9, 3000) / 10),
    "mean": np.round(np.random.default_rng(3).uniform(1, 10, (3000, 5)), 1).mean(axis=1),
    "continuous": np.random.default_rng(2).lognormal(12, 1.5, 3000),
}


def words_of(root: Path, *, examples: int | None = 1) -> str:
    return evidence_of(json.loads((root / "build.json").read_text()), examples=examples).words()


@pytest.mark.parametrize("kind", COMPUTED)
@IN_FP64
def test_a_forest_of_values_that_only_its_user_knows_is_not_called_equal_until_it_is_of_fp32(
    kind: str, fit: Callable[[Any, Any], Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows, target, _ = of_computed(COMPUTED[kind])
    refusal = ""
    try:
        root = build_forest(tmp_path, fit(rows, target))
    except FleetError as error:  # two thresholds are closer than FP32 separates
        refusal = error.problems[0].fix
    if refusal:
        assert "train it on X.astype(np.float32)" in refusal
    else:
        text = capfd.readouterr().err
        assert "splits feature 0 in FP64" in text
        assert "write at least 1,000 different ones in examples(), as np.float64" in text
        expected = "loads; not compared, as it splits feature 0 in FP64 and reads FP32"
        assert words_of(root, examples=0) == expected
        assert evidence_of(json.loads((root / "build.json").read_text()), examples=3).status == "loads"
    rows = rows.astype(np.float32)
    trained = fit(rows, target)
    root = build_forest(tmp_path, trained, name="single")
    np.testing.assert_allclose(answers(root, rows), trained.predict(rows), atol=1e-4)
    assert words_of(root) == "equal on 1 of your examples and 512 drawn rows"


def build_with_rows(
    models: Path, trained: Any, rows: Any, *, generated: bool = False, count: int = 64
) -> Path:
    """Build a forest with examples of 64 rows each."""
    models.mkdir(exist_ok=True)
    (models / "net.pkl").write_bytes(pickle.dumps(trained))
    np.save(models / "rows.npy", rows)
    declare(models, "net", models / "net.pkl")
    code = (
        "def examples():\n    import numpy as np\n"
        f"    rows = np.load({str(models / 'rows.npy')!r})\n"
        f"    parts = {{str(row): {{'input__0': rows[row : row + {count}]}} "
        f"for row in range(0, len(rows), {count})}}\n"
        f"    return [Example(name=n, inputs=part, generated={generated}) for n, part in parts.items()]\n\n"
        "BUILD ="
    )
    file = models / "net" / "build.py"
    text = file.read_text().replace("BUILD =", code).replace("examples=list", "examples=examples")
    file.write_text(text.replace("forest_reference(WEIGHTS)", "forest_reference(estimator=estimator)"))
    return build("net", models=models, output=models / "out")


def test_a_thousand_different_rows_in_fp64_prove_what_drawn_rows_cannot(tmp_path: Path) -> None:
    rows, target, _ = of_computed(COMPUTED["continuous"])
    trained = leaves(rows, target)
    equal = "equal on 16 of your examples and 512 drawn rows"
    assert words_of(build_with_rows(tmp_path / "enough", trained, rows[:1000])) == equal
    for name, own, generated in (
        ("few", rows[:999], False),
        ("single", rows[:1000].astype(np.float32), False),
        ("rounded", rows[:1000].astype(np.float32).astype(np.float64), False),
        ("generated", rows[:1000], True),
        ("one value", np.repeat(rows[:1], 1000, axis=0), False),
        ("ten times 100 rows", np.tile(rows[:100], (10, 1)), False),
    ):
        assert words_of(build_with_rows(tmp_path / name, trained, own, generated=generated)).startswith(
            "loads; not compared"
        )


@IN_FP64
def test_own_rows_in_fp64_that_differ_fail_the_build_and_the_fix_works(
    fit: Callable[[Any, Any], Any], tmp_path: Path
) -> None:
    rows, target, _ = of_computed(COMPUTED["hour"])
    target = np.random.default_rng(1).normal(size=24)[HOURS]
    with pytest.raises(FleetError) as error:
        build_with_rows(tmp_path / "double", fit(rows, target), rows[:30])
    (problem,) = error.value.problems
    assert "of your examples from the threshold" in problem.what
    assert problem.fix.startswith("train it on X.astype(np.float32)")
    single = rows.astype(np.float32)
    root = build_with_rows(tmp_path / "single", fit(single, target), single[:30])
    assert words_of(root) == "equal on 1 of your examples and 512 drawn rows"


def test_an_example_has_no_more_rows_than_the_server_takes(tmp_path: Path) -> None:
    rows, target, _ = of_computed(COMPUTED["continuous"])
    with pytest.raises(FleetError) as error:
        build_with_rows(tmp_path / "many", leaves(rows, target), rows[:65], count=65)
    (problem,) = error.value.problems
    assert (problem.rule, "has 65 rows" in problem.what) == ("forest-example", True)
    assert "at most 64 in an example" in problem.fix


def test_the_note_on_own_rows_says_how_many_an_example_may_have(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows, target, _ = of_computed(COMPUTED["continuous"])
    build_with_rows(tmp_path / "few", leaves(rows, target), rows[:64])
    assert "as np.float64 and at most 64 in an example, its max_batch_size; or" in capfd.readouterr().err


PRESSURE = 101325 + 3 * (ROWS[:, 1] > 0) + ROWS[:, 0]
LARGE_SUMS = {
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=50, n_jobs=1),
    "histograms": lambda: ensemble.HistGradientBoostingRegressor(max_iter=30),
    "forest": lambda: ensemble.RandomForestRegressor(100, max_depth=5, n_jobs=1),
    "boosted": lambda: ensemble.GradientBoostingRegressor(n_estimators=30),
}


@pytest.mark.parametrize("kind", LARGE_SUMS)
def test_trees_of_large_sums_are_equal_and_others_are_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = LARGE_SUMS[kind]().fit(ROWS.astype(np.float32), PRESSURE)
    root = build_forest(tmp_path, trained)
    record = json.loads((root / "build.json").read_text())["compared"]["net"]
    assert record["drawn"] == 512
    assert record["allowed"] < np.ptp(PRESSURE) / 5

    def spoilt(self: Any, trained: Any) -> treelite.Model:
        model = imported(self, trained)
        for number in range(model.num_tree):
            tree = model.get_tree_accessor(number)
            leaves = tree.get_field("leaf_value").copy()
            leaves[tree.get_field("cleft") < 0] += np.float32(0.1)
            tree.set_field("leaf_value", leaves)
        return model

    imported = forest_source.Source._import
    monkeypatch.setattr(forest_source.Source, "_import", spoilt)
    with pytest.raises(FleetError) as error:
        build_forest(tmp_path, trained, name="spoilt")
    assert error.value.problems[0].rule == "forest-answers"


def test_histograms_of_named_categories_need_their_codes(tmp_path: Path) -> None:
    codes = np.random.default_rng(0).integers(0, 3, len(ROWS))
    frame = pd.DataFrame({"a": ROWS[:, 0], "b": pd.Categorical(np.array(list("uvw"))[codes])})
    numbers = frame.assign(b=frame["b"].cat.codes)
    target = np.sin(3 * codes) + ROWS[:, 0]
    named = ensemble.HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype")
    with pytest.raises(FleetError) as error:
        build_forest(tmp_path, named.fit(frame, target))
    (problem,) = error.value.problems
    assert (problem.rule, "names of categories" in problem.what) == ("forest-kind", True)
    assert "X[column].cat.codes" in problem.fix
    fixed = ensemble.HistGradientBoostingRegressor(max_iter=5, categorical_features=[1]).fit(numbers, target)
    root = build_forest(tmp_path, fixed, "known_categories=True", name="fixed")
    np.testing.assert_allclose(
        answers(root, numbers.to_numpy(), features=2), fixed.predict(numbers), atol=1e-5
    )


def test_a_verification_sends_rows_in_fp64_as_fp32_and_compares_them_by_their_own_values(
    tmp_path: Path,
) -> None:
    rows, target, _ = of_computed(COMPUTED["continuous"])
    trained = leaves(rows, target)
    with local_server(command.install(tmp_path) / command.PROGRAM) as server:
        for count, words in (
            (1000, "equal on 16 of your examples and 512 drawn rows"),
            (64, "loads; answered 1 of your examples; not compared, as it splits feature 0 in FP64"),
        ):
            models = tmp_path / str(count)
            root = build_with_rows(models, trained, rows[:count])
            declaration = load_build("net", models)
            assert verify(root, declaration, server=server).evidence.words().startswith(words)
            example, answer = expected_answers(root, declaration).answers[0]
            assert example.inputs["input__0"].dtype == np.float32
            assert isinstance(answer, Mapping)
            np.testing.assert_allclose(answer["output__0"][:, 0], trained.predict(rows[:64]), rtol=1e-6)


PLAIN = {
    "temperatures": lambda random: np.round(random.normal(12, 8, 3000), 1),
    "counts": lambda random: random.poisson(3, 3000),
    "flags": lambda random: random.integers(0, 2, 3000),
    "ids": lambda random: random.integers(10**8, 10**9, 3000),
    "seconds": lambda random: random.integers(1_600_000_000, 1_750_000_000, 3000),
    "prices": lambda random: np.round(random.lognormal(3, 1, 3000), 2),
    "cents": lambda random: np.round(100 * random.lognormal(3, 1, 3000)),
    "few prices": lambda random: random.choice([0.99, 2.49, 4.99, 19.99], 3000),
    "skewed prices": lambda random: np.round(random.lognormal(8, 3, 3000), 2),
    "steps of 0.05": lambda random: np.round(random.integers(0, 800, 3000) * 0.05, 2),
    "longitudes": lambda random: np.round(random.uniform(-122.5, -121.5, 3000), 4),
    "megabytes": lambda random: random.choice(random.integers(0, 2**31, 900), 3000) / 2**20,
    "FP32": lambda random: random.lognormal(0, 3, 3000).astype(np.float32),
    "sine in FP32": lambda random: np.sin(random.integers(0, 24, 3000) * np.pi / 12).astype(np.float32),
}


@pytest.mark.parametrize("kind", PLAIN)
@IN_FP64
def test_plain_values_are_equal_on_drawn_rows(
    kind: str, fit: Callable[[Any, Any], Any], tmp_path: Path
) -> None:
    rows, target, _ = of_computed(PLAIN[kind](np.random.default_rng(0)).astype(float))
    trained = fit(rows, target)
    root = build_forest(tmp_path, trained)
    assert words_of(root, examples=0) == "equal on 512 drawn rows"
    differs = np.abs(answers(root, rows) - trained.predict(rows)) > 1e-4
    assert differs.mean() <= 1e-3


def of_seconds(kind: Any, **options: Any) -> tuple[Any, Any]:
    """Return a forest of a day's Unix seconds, which FP32 rounds to 128 of them, and rows of that day."""
    random = np.random.default_rng(3)
    seconds = random.integers(1_700_000_000, 1_700_086_400, 2000)
    rows = np.column_stack([seconds, random.normal(size=2000)])
    target = np.sin((seconds - 1.7e9) / 17_000) + rows[:, 1] / 5
    classes = issubclass(kind, ensemble.RandomForestClassifier)
    forest = kind(n_estimators=10, random_state=0, **options)
    return forest.fit(rows, (target > 0) if classes else target), rows


BETWEEN_FP32 = [
    ensemble.RandomForestRegressor,
    ensemble.RandomForestClassifier,
    ensemble.ExtraTreesRegressor,
    ensemble.GradientBoostingRegressor,
]


@pytest.mark.parametrize("kind", BETWEEN_FP32)
def test_a_forest_with_thresholds_between_fp32_numbers_answers_equally_on_a_gpu(
    kind: Any, tmp_path: Path
) -> None:
    trained, rows = of_seconds(kind)
    root = build_forest(tmp_path, trained)
    expected = trained.predict_proba(rows)[:, 1] if hasattr(trained, "classes_") else trained.predict(rows)
    np.testing.assert_allclose(answers(root, rows), expected, atol=1e-5)
    model = treelite.Model.deserialize(next(root.glob("*/1/checkpoint.tl")))
    for number in range(model.num_tree):  # a GPU's importer takes float(threshold)
        thresholds = model.get_tree_accessor(number).get_field("threshold")
        np.testing.assert_array_equal(thresholds, thresholds.astype(np.float32))


@pytest.mark.parametrize("kind", BETWEEN_FP32)
def test_a_checkpoint_that_a_gpu_would_read_otherwise_fails_its_build(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, _ = of_seconds(kind)
    monkeypatch.setattr(forest_thresholds, "round_thresholds", lambda *_, **__: None)
    with pytest.raises(FleetError, match="rows differ by more than"):
        build_forest(tmp_path, trained)


def test_a_checkpoint_of_a_framework_that_compares_in_fp64_keeps_its_answers_on_a_gpu() -> None:
    random = np.random.default_rng(0)
    rows = np.round(random.uniform(0, 60, (2000, 1)), 1)
    forest = ensemble.HistGradientBoostingRegressor(max_iter=20).fit(rows, np.sin(rows[:, 0]))
    model = treelite.sklearn.import_model(forest)
    round_thresholds(model, {}, may_be_of_fp64=True)
    answers = treelite.gtil.predict(model, rows.astype(np.float32)).ravel()
    np.testing.assert_allclose(answers, forest.predict(rows), atol=1e-5)


@pytest.mark.parametrize(
    ("operator", "rounded"), [("<=", 1.0), ("<", 1 + 2**-23), (">", 1.0), (">=", 1 + 2**-23)]
)
def test_a_threshold_between_two_fp32_numbers_decides_as_before(operator: str, rounded: float) -> None:
    builder = ModelBuilder(
        threshold_type="float64",
        leaf_output_type="float64",
        metadata=Metadata(1, "kRegressor", False, 1, [1], (1, 1)),
        tree_annotation=TreeAnnotation(1, [0], [0]),
        postprocessor=PostProcessorFunc("identity"),
        base_scores=[0.0],
    )
    builder.start_tree()
    builder.start_node(0)
    builder.numerical_test(
        feature_id=0,
        threshold=1 + 2**-24,
        default_left=False,
        opname=operator,
        left_child_key=1,
        right_child_key=2,
    )
    builder.end_node()
    for node in (1, 2):
        builder.start_node(node)
        builder.leaf(float(node))
        builder.end_node()
    builder.end_tree()
    model = builder.commit()
    rows = np.array([[1], [1 + 2**-23]], np.float32)
    before = treelite.gtil.predict(model, rows)
    round_thresholds(model, {})
    assert model.get_tree_accessor(0).get_field("threshold")[0] == rounded
    np.testing.assert_array_equal(treelite.gtil.predict(model, rows), before)


def test_categories_that_training_had_not_need_a_promise_which_the_build_records(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = np.column_stack([random.normal(size=(500, 2)), 3 + 2 * random.integers(0, 8, 500)])
    target = (rows[:, 0] + rows[:, 2] % 3 + random.normal(size=500) > 1).astype(int)
    trained = ensemble.HistGradientBoostingClassifier(max_iter=10, categorical_features=[2]).fit(rows, target)
    with pytest.raises(FleetError) as error:
        build_forest(tmp_path, trained)
    (problem,) = error.value.problems
    assert "unknown categories" in problem.fix
    assert "Forest(known_categories=True)" in problem.fix
    root = build_forest(tmp_path, trained, "known_categories=True", name="promised")
    (promised,) = json.loads((root / "build.json").read_text())["compared"]["promised"]["ranges"].values()
    assert (promised["between"], promised["why"]) == ([3.0, 17.0], "known_categories")
    rows[:50, 2] = np.nan
    np.testing.assert_allclose(answers(root, rows), trained.predict_proba(rows)[:, 1], atol=1e-5)


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_a_single_tree_is_refused_and_the_forest_of_its_fix_answers_as_it_does(
    kind: str, tmp_path: Path
) -> None:
    target = CLASS if kind == "Classifier" else VALUE
    single = getattr(tree, f"DecisionTree{kind}")(random_state=0, max_depth=4).fit(ROWS, target)
    with pytest.raises(FleetError) as error:
        build_forest(tmp_path, single)
    call = f"RandomForest{kind}(n_estimators=1, bootstrap=False, max_features=None)"
    assert f"train it as {call}" in error.value.problems[0].fix
    same = getattr(ensemble, f"RandomForest{kind}")(
        n_estimators=1, bootstrap=False, max_features=None, random_state=0, max_depth=4
    ).fit(ROWS, target)
    scores = probable if kind == "Classifier" else predicted
    found = answers(build_forest(tmp_path, same, name="same"), NO_GAPS)
    np.testing.assert_allclose(found, scores(single, NO_GAPS)[:, -1], atol=1e-5)
