from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import text_format

from tests.triton_models.model_folders import Edit, tar, write, write_ensemble, write_plain
from triton_models.check import check
from triton_models.check.check import CHECKS, check_path
from triton_models.config.pbtxt import plain, tensor, write_config

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


def _reshape(tensor, *, dims: list[int], shape: list[int]) -> None:
    del tensor.dims[:]
    tensor.dims.extend(dims)
    tensor.reshape.shape.extend(shape)


def _priorities(batching, *, levels: int, policy: int = 1, preserve_ordering: bool = False) -> None:
    batching.priority_levels = levels
    batching.default_priority_level = 1
    batching.priority_queue_policy[policy].max_queue_size = 3
    batching.preserve_ordering = preserve_ordering


def _sequences(config, rest: str, *parts: str) -> None:
    """Sequence batching instead of dynamic batching."""
    config.ClearField("dynamic_batching")
    text_format.Parse(f"sequence_batching {{ {' '.join(parts)} }} {rest}", config)


def _warm_up(config, inputs: str, *, batch_size: int = 1) -> None:
    text_format.Parse(f"model_warmup {{ name: 'first' batch_size: {batch_size} {inputs} }}", config)


def _parameter(name: str, value: str) -> Break:
    return _change("resnet50", lambda c: setattr(c.parameters[name], "string_value", value))


_START = "control_input { name: '%s' control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }"
_CORRELATION = "control_input { name: 'id' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }"
_STATE = (
    "state { input_name: 'in' output_name: 'out' data_type: TYPE_FP32 dims: 2 "
    "initial_state { name: 'first' data_type: TYPE_FP32 %s } }"
)
_WARM = "inputs { key: 'image' value { data_type: TYPE_FP32 dims: [ %s ] zero_data: true } }"


PLAIN: dict[str, tuple[str, Break]] = {
    "nothing there": ("no-model", _remove("resnet50")),
    "one level too many": ("too-deep", _one_level_deeper),
    "no configuration": ("config-missing", _remove("resnet50/config.pbtxt")),
    "a syntax error": ("config-syntax", lambda root: write(root / "resnet50/config.pbtxt", b"name: 3")),
    "an unknown field": (
        "config-syntax",
        _replace("resnet50/config.pbtxt", "max_batch_size", "maximum_batch_size"),
    ),
    "an escape that C does not know": (
        "config-syntax",
        lambda root: write(
            root / "resnet50/config.pbtxt",
            (root / "resnet50/config.pbtxt").read_bytes() + b'metric_tags { key: "a" value: "C:\\data" }',
        ),
    ),
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
        "tensor-twice",
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
    "a reshape to another size": (
        "reshape",
        _change("resnet50", lambda c: c.input[0].reshape.shape.extend([3, 224, 225])),
    ),
    "a reshape that moves a size over a variable one": (
        "reshape",
        _change("resnet50", lambda c: _reshape(c.output[0], dims=[2, -1, 3], shape=[3, -1, 2])),
    ),
    "an empty reshape of several elements": (
        "reshape",
        _change("resnet50", lambda c: c.output[0].reshape.SetInParent()),
    ),
    "an image of two dims": (
        "tensor-format",
        _change("resnet50", lambda c: (_set_dims(c, "input", [3, 224]), setattr(c.input[0], "format", 2))),
    ),
    "a shape tensor without TensorRT": (
        "tensor-tensorrt",
        _change("resnet50", lambda c: setattr(c.input[0], "is_shape_tensor", True)),
    ),
    "a batch input of nothing": (
        "batch-tensors",
        _change("resnet50", lambda c: c.batch_input.add(data_type="TYPE_FP32", target_name=["n"])),
    ),
    "a batch input of an unknown input": (
        "batch-tensors",
        _change("resnet50", lambda c: c.batch_input.add(data_type="TYPE_FP32", source_input=["nothing"])),
    ),
    "a batch input of text": (
        "batch-tensors",
        _change("resnet50", lambda c: c.batch_input.add(data_type="TYPE_STRING", source_input=["image"])),
    ),
    "a batch output to an unknown output": (
        "batch-tensors",
        _change("resnet50", lambda c: c.batch_output.add(target_name=["nothing"], source_input=["image"])),
    ),
    "a default priority that there is not": (
        "priority-levels",
        _change("resnet50", lambda c: setattr(c.dynamic_batching, "priority_levels", 2)),
    ),
    "a policy for a priority that there is not": (
        "priority-levels",
        _change("resnet50", lambda c: _priorities(c.dynamic_batching, levels=2, policy=3)),
    ),
    "an order of requests with priorities": (
        "preserve-ordering",
        _change("resnet50", lambda c: _priorities(c.dynamic_batching, levels=2, preserve_ordering=True)),
    ),
    "a cache of streamed responses": (
        "response-cache",
        _change("resnet50", lambda c: _sequences(c, "response_cache { enable: true }")),
    ),
    "a share of more than everything": (
        "slot-utilization",
        _change("resnet50", lambda c: _sequences(c, "", "direct { minimum_slot_utilization: 1.5 }")),
    ),
    "a control without a name": (
        "control-input",
        _change("resnet50", lambda c: _sequences(c, "", "control_input { }")),
    ),
    "two tensors of one control": (
        "control-input",
        _change("resnet50", lambda c: _sequences(c, "", _START % "a", _START % "b")),
    ),
    "a control without values": (
        "control-values",
        _change("resnet50", lambda c: _sequences(c, "", 'control_input { name: "a" control { } }')),
    ),
    "a control of one value": (
        "control-values",
        _change("resnet50", lambda c: _sequences(c, "", (_START % "a").replace(", 1", ""))),
    ),
    "a correlation id of floats": (
        "control-values",
        _change("resnet50", lambda c: _sequences(c, "", _CORRELATION.replace("UINT64", "FP32"))),
    ),
    "a state that starts from another shape": (
        "state",
        _change("resnet50", lambda c: _sequences(c, "", _STATE % "dims: 3 zero_data: true")),
    ),
    "a state that starts from a file that is not there": (
        "state",
        _change("resnet50", lambda c: _sequences(c, "", _STATE % 'dims: 2 data_file: "first.raw"')),
    ),
    "a batching library for sequences": (
        "custom-batching",
        _change(
            "resnet50",
            lambda c: _sequences(
                c, 'parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "/b.so" } }'
            ),
        ),
    ),
    "a CPU group with GPUs": (
        "instance-kind",
        _change("resnet50", lambda c: c.instance_group.add(kind="KIND_CPU", gpus=[0])),
    ),
    "a GPU below zero": ("instance-kind", _change("resnet50", lambda c: c.instance_group.add(gpus=[-1]))),
    "a profile of a model that is no plan": (
        "instance-profile",
        _change("resnet50", lambda c: c.instance_group.add(profile=["0"])),
    ),
    "a profile that is no number": (
        "instance-profile",
        _all(
            _edit("resnet50", backend="tensorrt"),
            _change("resnet50", lambda c: c.instance_group.add(profile=["fast"])),
            lambda root: write(root / "resnet50/1/model.plan", b"plan"),
        ),
    ),
    "a warm-up without its input": ("warm-up", _change("resnet50", lambda c: _warm_up(c, ""))),
    "a warm-up of a variable size": (
        "warm-up",
        _change("resnet50", lambda c: _warm_up(c, _WARM % "-1, 224, 224")),
    ),
    "a warm-up of another shape": ("warm-up", _change("resnet50", lambda c: _warm_up(c, _WARM % "3, 224"))),
    "a warm-up of another type": (
        "warm-up",
        _change("resnet50", lambda c: _warm_up(c, (_WARM % "3, 224, 224").replace("FP32", "FP16"))),
    ),
    "a warm-up without data": (
        "warm-up",
        _change("resnet50", lambda c: _warm_up(c, (_WARM % "3, 224, 224").replace("zero_data: true", ""))),
    ),
    "a warm-up from a file that is too short": (
        "warm-up",
        _all(
            _change(
                "resnet50",
                lambda c: _warm_up(
                    c, (_WARM % "3, 224, 224").replace("zero_data: true", 'input_data_file: "image.raw"')
                ),
            ),
            lambda root: write(root / "resnet50/warmup/image.raw", b"0000"),
        ),
    ),
    "a warm-up of more than a batch": (
        "warm-up",
        _change("resnet50", lambda c: _warm_up(c, _WARM % "3, 224, 224", batch_size=9)),
    ),
    "a type that no plan has": (
        "plan-type",
        _all(
            _edit("resnet50", backend="tensorrt"),
            _change("resnet50", lambda c: setattr(c.output[0], "data_type", "TYPE_STRING")),
            lambda root: write(root / "resnet50/1/model.plan", b"plan"),
        ),
    ),
    "a number of threads that is none": (
        "onnxruntime-parameter",
        _parameter("intra_op_thread_count", "many"),
    ),
    "an execution mode that there is not": ("onnxruntime-parameter", _parameter("execution_mode", "2")),
    "a switch that is neither on nor off": ("onnxruntime-parameter", _parameter("enable_mem_arena", "maybe")),
    "an accelerator that there is not": (
        "accelerator",
        _change(
            "resnet50",
            lambda c: c.optimization.execution_accelerators.gpu_execution_accelerator.add(name="tensort"),
        ),
    ),
    "a parameter of an accelerator that there is not": (
        "accelerator",
        _change(
            "resnet50",
            lambda c: c.optimization.execution_accelerators.gpu_execution_accelerator.add(
                name="tensorrt", parameters={"precision": "FP16"}
            ),
        ),
    ),
    "a library that the backend has not": ("runtime", _edit("resnet50", runtime="model.py")),
    "a metric tag that is no label": (
        "metric-tag",
        _change("resnet50", lambda c: c.metric_tags.update({"cost-center": "7"})),
    ),
    "a metric without buckets": (
        "model-metrics",
        _change("resnet50", lambda c: c.model_metrics.metric_control.add()),
    ),
    "agents of the repository, but none": (
        "repository-agent",
        _change("resnet50", lambda c: c.model_repository_agents.SetInParent()),
    ),
    "labels that are not there": (
        "label-file",
        _change("resnet50", lambda c: setattr(c.output[0], "label_filename", "labels.txt")),
    ),
    "labels that are a folder": (
        "label-file",
        _change("resnet50", lambda c: setattr(c.output[0], "label_filename", "1")),
    ),
    "a pointer in the place of the weights": (
        "lfs-pointer",
        lambda root: write(
            root / "resnet50/1/model.onnx",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 102442450\n",
        ),
    ),
    "a version that no server can count to": (
        "version-number",
        lambda root: (root / "resnet50" / ("9" * 20)).mkdir(),
    ),
    "a policy of no version": (
        "version-missing",
        _change("resnet50", lambda config: config.version_policy.latest.SetInParent()),
    ),
    "a field that the release does not know": (
        "new-field",
        _all(
            _change("resnet50", lambda c: c.model_metrics.SetInParent()),
            lambda root: write(root / "build.json", b'{"release": "24.09"}'),
        ),
    ),
    "a backend that the release has dropped": (
        "backend-removed",
        _all(
            _edit("resnet50", backend="tensorflow", platform="tensorflow_graphdef"),
            lambda root: write(root / "resnet50/1/model.graphdef", b"graph"),
            lambda root: write(root / "build.json", b'{"release": "25.09"}'),
        ),
    ),
    "labels outside, in a release that keeps them in": (
        "label-outside",
        _all(
            _change("resnet50", lambda c: setattr(c.output[0], "label_filename", "/labels.txt")),
            lambda root: write(root / "build.json", b'{"release": "26.05"}'),
        ),
    ),
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
    "a step without a version": (
        "step-version",
        _change("minilm", lambda c: c.ensemble_scheduling.step[1].ClearField("model_version")),
    ),
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
    "a step that caches its answers": (
        "composing-cache",
        _change("minilm_encoder", lambda c: setattr(c.response_cache, "enable", True)),
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

    # These have tests of their own: other files, other targets.
    elsewhere = {
        "decoupled-inputs",
        "ensemble-cycle",
        "environment-files",
        "environment-numpy",
        "environment-outside",
        "environment-python",
        "environment-wheel",
        "model-name",
        "python-shared-memory",
        "root-config",
        "packed-environment",
        "plan-version",
        "plan-gpu",
        "plan-missing",
        "gpu-removed",
        "plan-int64",
        "python-file",
        "python-parameter",
        "pytorch-output",
        "backend-unknown",
        "inner-model",
        "instance-gpu",
        "python-name",
        "onnx-tensor",
        "onnx-version",
        "python-import",
        "torchscript-tensor",
    }
    assert {rule.id for rule in CHECKS} - tried == elsewhere


def test_rule_ids_are_unique() -> None:
    ids = [rule.id for rule in CHECKS]

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
    "a backend of the user's own": _all(
        _edit("resnet50", backend="mine"),
        _remove("resnet50/1/model.onnx"),
        lambda root: write(root / "resnet50/1/libtriton_mine.so", b"library"),
    ),
    "a backend of the user's own in a library of another name": _all(
        _edit("resnet50", backend="mine", runtime="libother.so"),
        lambda root: write(root / "resnet50/libother.so", b"library"),
    ),
    "a backend of an image of the user's own": _all(
        _edit("resnet50", backend="mine"),
        lambda root: write(root / "build.json", b'{"own_image_adds": ["mine"]}'),
    ),
    "an agent of an image of the user's own, which brings the files": _all(
        _change("resnet50", lambda c: c.model_repository_agents.agents.add(name="vault")),
        _remove("resnet50/1"),
        lambda root: write(root / "build.json", b'{"own_image_adds": ["vault"]}'),
    ),
    "an output that is listed again": _change("resnet50", lambda c: c.output.append(c.output[0])),
    "the ensemble word in a comment of the only model": _replace(
        "resnet50/config.pbtxt", "name:", '# no platform: "ensemble"\nname:'
    ),
    "a comment in Latin-1": lambda root: write(
        root / "resnet50/config.pbtxt",
        b"# caf\xe9\n" + (root / "resnet50/config.pbtxt").read_bytes(),
    ),
    "a minus with a space": lambda root: write(
        root / "resnet50/config.pbtxt",
        (root / "resnet50/config.pbtxt").read_bytes() + b"optimization { graph { level: - 1 } }",
    ),
    "version zero": lambda root: (root / "resnet50/1").rename(root / "resnet50/0"),
    "every version": _change("resnet50", lambda config: config.version_policy.SetInParent()),
    "a reshape around a variable size": _change(
        "resnet50", lambda c: _reshape(c.output[0], dims=[2, -1, 6], shape=[2, 1, -1, 3, 2])
    ),
    "an empty reshape of one element": _change(
        "resnet50", lambda c: _reshape(c.output[0], dims=[1], shape=[]) or c.output[0].reshape.SetInParent()
    ),
    "priorities": _change("resnet50", lambda c: _priorities(c.dynamic_batching, levels=2)),
    "sequences": _change(
        "resnet50",
        lambda c: _sequences(
            c, "", _START % "start", _CORRELATION, _STATE % "dims: 2 zero_data: true", "oldest { }"
        ),
    ),
    "groups on chosen GPUs": _change("resnet50", lambda c: c.instance_group.add(gpus=[0], count=2)),
    "a warm-up": _change("resnet50", lambda c: _warm_up(c, _WARM % "3, 224, 224", batch_size=8)),
    "threads": _parameter("intra_op_thread_count", "4"),
    "labels": _all(
        _change("resnet50", lambda c: setattr(c.output[0], "label_filename", "labels.txt")),
        lambda root: write(root / "resnet50/labels.txt", b"cat"),
    ),
    "an accelerator": _change(
        "resnet50",
        lambda c: c.optimization.execution_accelerators.gpu_execution_accelerator.add(
            name="tensorrt", parameters={"precision_mode": "FP16", "trt_engine_cache_enable": "true"}
        ),
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
    "a model that is loaded by a name which only its caller knows": lambda root: write(
        root / "minilm_pooling/1/model.py", b'load_model(name); InferenceRequest(model_name="inner")'
    ),
    "an output that is listed again": _change("minilm", lambda c: c.output.append(c.output[0])),
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


def test_an_unknown_escape_is_named_with_line_and_column(tmp_path: Path) -> None:
    root = write_plain(tmp_path / "resnet50")
    write(root / "resnet50" / "config.pbtxt", b'# "\\d"\nname: "a\\data"\n')

    (problem,) = check_path(root)

    assert problem.what == "an unknown escape \\d"
    assert problem.where == f"{root}/resnet50/config.pbtxt:2:9"


def test_a_path_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    assert _rules(tmp_path / "nothing") == {"unreadable"}


def test_a_folder_of_several_builds_is_answered_with_the_one_to_give(tmp_path: Path) -> None:
    write_plain(tmp_path / "build" / "resnet50")

    (problem,) = check_path(tmp_path / "build")

    assert problem.rule == "too-deep"
    assert str(tmp_path / "build" / "resnet50") in problem.fix


def _arguments(*paths: Path) -> argparse.Namespace:
    return argparse.Namespace(paths=list(paths), release=None, gpu=None, instance_type=None, endpoint=None)


def test_the_outcome_tells_accepted_from_refused(tmp_path: Path) -> None:
    good, bad = write_plain(tmp_path / "resnet50"), tmp_path / "nothing"

    outcome = check.run(_arguments(good, bad))

    assert outcome.exit_code == 1
    assert next(iter(outcome.lines())) == f"{good}: accepted"
    assert list(outcome.lines())[-1] == f"{bad}: 1 problem"
    assert outcome.as_dict()["paths"][str(good)] == []
    assert check.run(_arguments(good)).exit_code == 0
