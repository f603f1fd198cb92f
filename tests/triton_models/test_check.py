from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.triton_models.model_folders import Edit, tar, write, write_ensemble, write_plain
from triton_models import check
from triton_models.check import RULES, check_path
from triton_models.config import plain, tensor, write_config

Break = Callable[[Path], object]


def _edit(model: str, **fields: object) -> Break:
    def apply(root: Path) -> None:
        with Edit(root / model) as config:
            for field, value in fields.items():
                setattr(config, field, value)

    return apply


def _change(model: str, change: Callable[..., object]) -> Break:
    def apply(root: Path) -> None:
        with Edit(root / model) as config:
            change(config)

    return apply


def _replace(file: str, old: str, new: str) -> Break:
    def apply(root: Path) -> None:
        text = (root / file).read_text()
        assert old in text
        (root / file).write_text(text.replace(old, new))

    return apply


def _all(*breaks: Break) -> Break:
    def apply(root: Path) -> None:
        for each in breaks:
            each(root)

    return apply


def _remove(path: str) -> Break:
    def apply(root: Path) -> None:
        target = root / path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()

    return apply


def _second_ensemble(root: Path) -> None:
    shutil.copytree(root / "minilm", root / "other")


def _one_level_deeper(root: Path) -> None:
    (root / "repo").mkdir()
    (root / "resnet50").rename(root / "repo" / "resnet50")


def _set_dims(config, side: str, dims: list[int]) -> None:
    tensors = getattr(config, side)
    del tensors[0].dims[:]
    tensors[0].dims.extend(dims)


PLAIN: dict[str, tuple[str, Break]] = {
    "nothing there": ("no-model", _remove("resnet50")),
    "one level too many": ("too-deep", _one_level_deeper),
    "no configuration": ("config-missing", _remove("resnet50/config.pbtxt")),
    "a syntax error": ("config-syntax", lambda root: write(root / "resnet50/config.pbtxt", b"name: 3")),
    "an unknown field": (
        "config-syntax",
        _replace("resnet50/config.pbtxt", "max_batch_size", "maximum_batch_size"),
    ),
    "not utf-8": ("config-syntax", lambda root: write(root / "resnet50/config.pbtxt", b'name: "\xff"')),
    "an unknown data type": ("config-syntax", _replace("resnet50/config.pbtxt", "TYPE_FP32", "TYPE_FLOAT")),
    "two plain models": ("several-models", lambda root: write_plain(root, name="other")),
    "a folder beside it": ("stray-directory", lambda root: write(root / "shared" / "labels.txt", b"cat")),
    "an empty folder beside it": ("stray-directory", lambda root: (root / "empty").mkdir()),
    "no version folder": ("version-missing", _remove("resnet50/1")),
    "a version with a leading zero": (
        "version-missing",
        lambda root: (root / "resnet50/1").rename(root / "resnet50/01"),
    ),
    "a version that the policy leaves out": (
        "version-missing",
        _change("resnet50", lambda config: config.version_policy.specific.versions.append(2)),
    ),
    "an empty version folder": ("model-file-missing", _remove("resnet50/1/model.onnx")),
    "an empty latest version folder": (
        "model-file-missing",
        lambda root: (root / "resnet50" / "10").mkdir(),
    ),
    "a file of another name": (
        "model-file-missing",
        lambda root: (root / "resnet50/1/model.onnx").rename(root / "resnet50/1/resnet50.onnx"),
    ),
    "a named file that is not there": (
        "model-file-missing",
        _edit("resnet50", default_model_filename="resnet50.onnx"),
    ),
    "no backend that could be told": (
        "backend-missing",
        _all(
            _edit("resnet50", backend=""),
            lambda root: (root / "resnet50/1/model.onnx").rename(root / "resnet50/1/x"),
        ),
    ),
    "a platform of another backend": ("backend-missing", _edit("resnet50", platform="tensorrt_plan")),
    "a negative batch size": (
        "max-batch-size",
        _all(
            _edit("resnet50", max_batch_size=-1),
            _change("resnet50", lambda config: config.ClearField("dynamic_batching")),
        ),
    ),
    "a preferred batch above the largest": ("preferred-batch-size", _edit("resnet50", max_batch_size=7)),
    "a preferred batch without batching": ("preferred-batch-size", _edit("resnet50", max_batch_size=0)),
    "no inputs": ("tensors-missing", _change("resnet50", lambda config: config.ClearField("input"))),
    "no outputs": ("tensors-missing", _change("resnet50", lambda config: config.ClearField("output"))),
    "two inputs of one name": (
        "tensor-name",
        _change("resnet50", lambda config: config.input.append(config.input[0])),
    ),
    "an input without a name": (
        "tensor-name",
        _change("resnet50", lambda config: config.input[0].ClearField("name")),
    ),
    "an output without a data type": (
        "tensor-type",
        _change("resnet50", lambda config: config.output[0].ClearField("data_type")),
    ),
    "an input without dims": ("tensor-dims", _change("resnet50", lambda c: _set_dims(c, "input", []))),
    "an output of size zero": ("tensor-dims", _change("resnet50", lambda c: _set_dims(c, "output", [0]))),
    "a size of minus two": ("tensor-dims", _change("resnet50", lambda c: _set_dims(c, "input", [-2]))),
    "a streaming model": (
        "decoupled",
        _change("resnet50", lambda c: setattr(c.model_transaction_policy, "decoupled", True)),
    ),
    "a build record that is no object": ("build-record", lambda root: write(root / "build.json", b"[]")),
}

ENSEMBLE: dict[str, tuple[str, Break]] = {
    "two ensembles": ("several-ensembles", _second_ensemble),
    "no version folder of the ensemble": ("version-missing", _remove("minilm/1")),
    "a composing model without a version": ("version-missing", _remove("minilm_pooling/1")),
    "a composing model without configuration": (
        "config-missing",
        _remove("minilm_pooling/config.pbtxt"),
    ),
    "single quotes": (
        "ensemble-undetected",
        _replace("minilm/config.pbtxt", '"ensemble"', "'ensemble'"),
    ),
    "backend instead of platform": (
        "ensemble-undetected",
        _replace("minilm/config.pbtxt", 'platform: "ensemble"', 'backend: "ensemble"'),
    ),
    "steps without platform": (
        "ensemble-undetected",
        _replace("minilm/config.pbtxt", 'platform: "ensemble"', ""),
    ),
    "the word in a comment of another model": (
        "ensemble-in-comment",
        _replace("minilm_pooling/config.pbtxt", "name:", '# part of a platform: "ensemble"\nname:'),
    ),
    "a composing model of another name": ("composing-name", _edit("minilm_encoder", name="encoder")),
    "instances of the ensemble": (
        "ensemble-fields",
        _change("minilm", lambda config: config.instance_group.add(count=1)),
    ),
    "platform and backend": ("ensemble-fields", _edit("minilm", backend="ensemble")),
    "no steps": (
        "ensemble-fields",
        _change("minilm", lambda config: config.ensemble_scheduling.ClearField("step")),
    ),
    "a step without its model's name": (
        "step-fields",
        _change("minilm", lambda c: c.ensemble_scheduling.step.add(input_map={"a": "TEXT"})),
    ),
    "a composing model that is missing": ("step-model", _remove("minilm_pooling")),
    "a step that is the ensemble itself": (
        "step-model",
        _change("minilm", lambda c: setattr(c.ensemble_scheduling.step[2], "model_name", "minilm")),
    ),
    "an unknown input of a step": (
        "step-tensor",
        _change("minilm", lambda c: c.ensemble_scheduling.step[1].input_map.update({"token_ids": "ids"})),
    ),
    "an unknown output of a step": (
        "step-tensor",
        _all(
            _change("minilm", lambda c: c.ensemble_scheduling.step[2].output_map.clear()),
            _change("minilm", lambda c: c.ensemble_scheduling.step[2].output_map.update(v="embedding")),
        ),
    ),
    "an input that nothing feeds": (
        "step-input",
        _change("minilm", lambda c: c.ensemble_scheduling.step[1].input_map.pop("attention_mask")),
    ),
    "a step with smaller batches": ("step-batch-size", _edit("minilm_encoder", max_batch_size=8)),
    "a tensor of two types": (
        "tensor-type-mismatch",
        _change("minilm_encoder", lambda c: setattr(c.input[0], "data_type", "TYPE_INT64")),
    ),
    "an output of another type than its step's": (
        "tensor-type-mismatch",
        _change("minilm", lambda c: setattr(c.output[0], "data_type", "TYPE_FP16")),
    ),
    "a tensor of two sizes": (
        "tensor-shape-mismatch",
        _change("minilm_encoder", lambda c: _set_dims(c, "output", [-1, 768])),
    ),
    "a tensor of two ranks": (
        "tensor-shape-mismatch",
        _change("minilm", lambda c: _set_dims(c, "output", [1, 384])),
    ),
    "a tensor that is written twice": (
        "tensor-written-twice",
        _all(
            _change("minilm_tokenizer", lambda c: c.output.add(name="x", data_type="TYPE_INT32", dims=[-1])),
            _change("minilm", lambda c: c.ensemble_scheduling.step[0].output_map.update({"x": "ids"})),
        ),
    ),
    "an input that no step reads": (
        "tensor-unconnected",
        _change("minilm", lambda c: c.input.add(name="EXTRA", data_type="TYPE_FP32", dims=[1])),
    ),
    "an output that no step writes": (
        "tensor-unconnected",
        _change("minilm", lambda c: c.output.add(name="EXTRA", data_type="TYPE_FP32", dims=[1])),
    ),
    "a streaming step": (
        "decoupled",
        _change("minilm_encoder", lambda c: setattr(c.model_transaction_policy, "decoupled", True)),
    ),
}


def _rules(path: Path) -> set[str]:
    return {problem.rule for problem in check_path(path)}


@pytest.fixture(params=["directory", "archive"])
def view(request, tmp_path: Path) -> Callable[[Path], Path]:
    """The same content, as a directory or as an archive."""
    if request.param == "directory":
        return lambda root: root
    return lambda root: tar(root, tmp_path / f"{root.name}.tar.gz")


@pytest.mark.parametrize(("rule", "broken"), PLAIN.values(), ids=PLAIN.keys())
def test_a_broken_plain_model_is_refused_by_its_rule(rule, broken, view, tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    broken(root)

    assert rule in _rules(view(root))


@pytest.mark.parametrize(("rule", "broken"), ENSEMBLE.values(), ids=ENSEMBLE.keys())
def test_a_broken_ensemble_is_refused_by_its_rule(rule, broken, view, tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")
    broken(root)

    assert rule in _rules(view(root))


@pytest.mark.parametrize(("rule", "broken"), (PLAIN | ENSEMBLE).values(), ids=(PLAIN | ENSEMBLE).keys())
def test_one_mistake_is_reported_by_one_rule(rule, broken, tmp_path: Path) -> None:
    named = {case[1] for case in PLAIN.values()}
    root = write_plain(tmp_path / "resnet50") if broken in named else write_ensemble(tmp_path / "minilm")
    broken(root)

    assert _rules(root) == {rule}


def test_every_rule_has_a_case_that_breaks_it() -> None:
    tried = {rule for rule, _ in (PLAIN | ENSEMBLE).values()}

    assert {rule.id for rule in RULES} - tried == {"model-name"}


def test_rule_ids_are_unique() -> None:
    ids = [rule.id for rule in RULES]

    assert len(ids) == len(set(ids))


def test_a_plain_model_is_accepted(view, tmp_path: Path) -> None:
    assert check_path(view(write_plain(tmp_path / "resnet50"))) == []


@pytest.mark.parametrize("gpu", [None, "A10G"])
def test_an_ensemble_is_accepted(gpu: str | None, view, tmp_path: Path) -> None:
    assert check_path(view(write_ensemble(tmp_path / "minilm", gpu=gpu))) == []


def test_a_bare_model_directory_is_accepted(tmp_path: Path) -> None:
    assert check_path(write_plain(tmp_path / "root") / "resnet50") == []


def test_an_archive_whose_top_is_the_model_directory_is_accepted(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "root")

    assert check_path(tar(root / "resnet50", tmp_path / "resnet50.tar.gz")) == []


def test_a_stand_in_for_a_plan_is_refused_once_the_build_names_a_gpu(tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")
    write(root / "build.json", json.dumps({"gpu": "A10G"}).encode())

    assert _rules(root) == {"model-file-missing"}


VALID: dict[str, Break] = {
    "several versions": lambda root: write(root / "resnet50" / "2" / "model.onnx", b"w"),
    "an old version that is empty": _all(
        lambda root: (root / "resnet50" / "1").rename(root / "resnet50" / "2"),
        lambda root: (root / "resnet50" / "1").mkdir(),
    ),
    "labels in the model directory": lambda root: write(root / "resnet50" / "labels.txt", b"cat\n"),
    "a configuration for another host": lambda root: shutil.copytree(
        root / "resnet50" / "1", root / "resnet50" / "configs"
    ),
    "a loose file at the top": lambda root: write(root / "shared_env.tar.gz", b"env"),
    "no name": _edit("resnet50", name=""),
    "another name than the folder's": _edit("resnet50", name="net"),
    "the platform spelling": _edit("resnet50", backend="", platform="onnxruntime_onnx"),
    "the backend told by the file": _edit("resnet50", backend=""),
    "a named file": _all(
        _edit("resnet50", default_model_filename="net.onnx"),
        lambda root: (root / "resnet50/1/model.onnx").rename(root / "resnet50/1/net.onnx"),
    ),
    "a model that is a folder": _all(
        _remove("resnet50/1/model.onnx"),
        lambda root: write(root / "resnet50/1/model.onnx/model.onnx", b"w"),
    ),
    "a plan for each compute capability": _all(
        _change("resnet50", lambda c: c.cc_model_filenames.update({"8.6": "a10g.onnx"})),
        lambda root: (root / "resnet50/1/model.onnx").rename(root / "resnet50/1/a10g.onnx"),
    ),
    "a backend of the user's own": _all(_edit("resnet50", backend="mine"), _remove("resnet50/1/model.onnx")),
    "the ensemble word in a comment of the only model": _replace(
        "resnet50/config.pbtxt", "name:", '# no platform: "ensemble"\nname:'
    ),
    "comments and blank lines": _replace("resnet50/config.pbtxt", "name:", "# made by hand\n\nname:"),
    "what tools leave behind": lambda root: write(root / ".ipynb_checkpoints" / "x", b""),
}


@pytest.mark.parametrize("change", VALID.values(), ids=VALID.keys())
def test_a_valid_plain_model_raises_no_false_alarm(change: Break, tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    change(root)

    assert check_path(root) == []


def _inner_model(root: Path) -> None:
    config = plain(
        name="inner",
        backend="python",
        max_batch_size=0,
        inputs=[tensor("a", "FP32", [-1])],
        outputs=[tensor("b", "FP32", [-1])],
    )
    config.model_transaction_policy.decoupled = True
    write_config(config, root / "inner" / "config.pbtxt")
    write(root / "inner" / "1" / "model.py", b"")


VALID_ENSEMBLES: dict[str, Break] = {
    "folders beside it": lambda root: write(root / "shared_env" / "bin" / "activate", b""),
    "a model that another calls by itself": _inner_model,
    "a step without batches on full shapes": _all(
        _edit("minilm_pooling", max_batch_size=0),
        _change("minilm_pooling", lambda c: _set_dims(c, "output", [-1, 384])),
        _change("minilm_pooling", lambda c: _set_dims(c, "input", [-1, -1, 384])),
        _change("minilm_pooling", lambda c: c.input[1].dims.append(-1)),
    ),
    "an optional input that nothing feeds": _change(
        "minilm_pooling",
        lambda c: c.input.add(name="hint", data_type="TYPE_FP32", dims=[1], optional=True),
    ),
    "an output that nothing reads": _change(
        "minilm_pooling", lambda c: c.output.add(name="pooled", data_type="TYPE_FP32", dims=[384])
    ),
    "composing models without names": _edit("minilm_encoder", name=""),
    "a file instead of .keep": lambda root: write(root / "minilm" / "1" / "README.md", b"keep"),
    "an inner tensor that is also an output": _change(
        "minilm", lambda c: c.output.add(name="mask", data_type="TYPE_INT32", dims=[-1])
    ),
}


@pytest.mark.parametrize("change", VALID_ENSEMBLES.values(), ids=VALID_ENSEMBLES.keys())
def test_a_valid_ensemble_raises_no_false_alarm(change: Break, tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")
    change(root)

    assert check_path(root) == []


def test_an_ensemble_with_an_empty_version_folder_is_accepted(tmp_path: Path) -> None:
    root = write_ensemble(tmp_path / "minilm")
    (root / "minilm/1/.keep").unlink()

    assert check_path(root) == []


def test_every_mistake_is_found_at_once(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    _edit("resnet50", max_batch_size=2)(root)
    _change("resnet50", lambda config: config.ClearField("output"))(root)
    _remove("resnet50/1")(root)

    assert _rules(root) == {"preferred-batch-size", "tensors-missing", "version-missing"}


@pytest.mark.parametrize("name", ["my model", "-x", "a" * 201, "münchen"])
def test_a_name_that_cannot_be_a_target_model_is_refused(name: str, tmp_path: Path) -> None:
    assert _rules(write_plain(tmp_path / name)) == {"model-name"}


def test_the_problem_names_the_file_and_line(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    write(root / "resnet50" / "config.pbtxt", b'name: "x"\nmax_batch_sise: 3\n')

    (problem,) = check_path(root)

    assert problem.where == f"{root}/resnet50/config.pbtxt:2:1"


def test_a_path_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    assert _rules(tmp_path / "nothing") == {"unreadable"}


def test_a_folder_of_several_builds_is_answered_with_the_one_to_give(tmp_path: Path) -> None:
    write_plain(tmp_path / "build" / "resnet50")

    (problem,) = check_path(tmp_path / "build")

    assert problem.rule == "too-deep"
    assert str(tmp_path / "build" / "resnet50") in problem.fix


def test_the_outcome_tells_accepted_from_refused(tmp_path: Path) -> None:
    good, bad = write_plain(tmp_path / "resnet50"), tmp_path / "nothing"

    outcome = check.run(argparse.Namespace(paths=[good, bad]))

    assert outcome.exit_code == 1
    assert next(iter(outcome.lines())) == f"{good}: accepted"
    assert list(outcome.lines())[-1] == f"{bad}: 1 problem"
    assert outcome.as_dict()["paths"][str(good)] == []
    assert check.run(argparse.Namespace(paths=[good])).exit_code == 0
