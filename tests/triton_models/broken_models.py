"""Small artifacts, each with one mistake: what the checks refuse, and what a real server refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from google.protobuf import text_format

from tests.triton_models.model_folders import Edit, write, write_plain

Break = Callable[[Path], object]


def edit(model: str, **fields: object) -> Break:
    def apply(root: Path) -> None:
        with Edit(root / model) as config:
            for field, value in fields.items():
                setattr(config, field, value)

    return apply


def change(model: str, change: Callable[..., object]) -> Break:
    def apply(root: Path) -> None:
        with Edit(root / model) as config:
            change(config)

    return apply


def replace(file: str, old: str, new: str) -> Break:
    def apply(root: Path) -> None:
        text = (root / file).read_text()
        assert old in text
        (root / file).write_text(text.replace(old, new))

    return apply


def all_of(*breaks: Break) -> Break:
    def apply(root: Path) -> None:
        for each in breaks:
            each(root)

    return apply


def remove(path: str) -> Break:
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


def set_dims(config, side: str, dims: list[int]) -> None:
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
    return change("resnet50", lambda c: setattr(c.parameters[name], "string_value", value))


_START = "control_input { name: '%s' control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }"


_CORRELATION = "control_input { name: 'id' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }"


_STATE = (
    "state { input_name: 'in' output_name: 'out' data_type: TYPE_FP32 dims: 2 "
    "initial_state { name: 'first' data_type: TYPE_FP32 %s } }"
)


_WARM = "inputs { key: 'image' value { data_type: TYPE_FP32 dims: [ %s ] zero_data: true } }"


PLAIN: dict[str, tuple[str, Break]] = {
    "nothing there": ("no-model", remove("resnet50")),
    "one level too many": ("too-deep", _one_level_deeper),
    "no configuration": ("config-missing", remove("resnet50/config.pbtxt")),
    "a syntax error": ("config-syntax", lambda root: write(root / "resnet50/config.pbtxt", b"name: 3")),
    "an unknown field": (
        "config-syntax",
        replace("resnet50/config.pbtxt", "max_batch_size", "maximum_batch_size"),
    ),
    "an escape that C does not know": (
        "config-syntax",
        lambda root: write(
            root / "resnet50/config.pbtxt",
            (root / "resnet50/config.pbtxt").read_bytes() + b'metric_tags { key: "a" value: "C:\\data" }',
        ),
    ),
    "an unknown data type": ("config-syntax", replace("resnet50/config.pbtxt", "TYPE_FP32", "TYPE_FLOAT")),
    "two plain models": ("several-models", lambda root: write_plain(root, name="other")),
    "a folder beside it": ("stray-directory", lambda root: write(root / "shared" / "labels.txt", b"cat")),
    "an empty folder beside it": ("stray-directory", lambda root: (root / "empty").mkdir()),
    "no version folder": ("version-missing", remove("resnet50/1")),
    "a version with a leading zero": (
        "version-missing",
        lambda root: (root / "resnet50/1").rename(root / "resnet50/01"),
    ),
    "a version that the policy leaves out": (
        "version-missing",
        change("resnet50", lambda config: config.version_policy.specific.versions.append(2)),
    ),
    "an empty version folder": ("model-file-missing", remove("resnet50/1/model.onnx")),
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
        edit("resnet50", default_model_filename="resnet50.onnx"),
    ),
    "no backend that could be told": (
        "backend-missing",
        all_of(
            edit("resnet50", backend=""),
            lambda root: (root / "resnet50/1/model.onnx").rename(root / "resnet50/1/x"),
        ),
    ),
    "a platform of another backend": ("backend-missing", edit("resnet50", platform="tensorrt_plan")),
    "a negative batch size": (
        "max-batch-size",
        all_of(
            edit("resnet50", max_batch_size=-1),
            change("resnet50", lambda config: config.ClearField("dynamic_batching")),
        ),
    ),
    "a preferred batch above the largest": ("preferred-batch-size", edit("resnet50", max_batch_size=7)),
    "a preferred batch without batching": ("preferred-batch-size", edit("resnet50", max_batch_size=0)),
    "no inputs": ("tensors-missing", change("resnet50", lambda config: config.ClearField("input"))),
    "no outputs": ("tensors-missing", change("resnet50", lambda config: config.ClearField("output"))),
    "two inputs of one name": (
        "tensor-twice",
        change("resnet50", lambda config: config.input.append(config.input[0])),
    ),
    "an input without a name": (
        "tensor-name",
        change("resnet50", lambda config: config.input[0].ClearField("name")),
    ),
    "an output without a data type": (
        "tensor-type",
        change("resnet50", lambda config: config.output[0].ClearField("data_type")),
    ),
    "an input without dims": ("tensor-dims", change("resnet50", lambda c: set_dims(c, "input", []))),
    "a reshape to another size": (
        "reshape",
        change("resnet50", lambda c: c.input[0].reshape.shape.extend([3, 224, 225])),
    ),
    "a reshape that moves a size over a variable one": (
        "reshape",
        change("resnet50", lambda c: _reshape(c.output[0], dims=[2, -1, 3], shape=[3, -1, 2])),
    ),
    "an empty reshape of several elements": (
        "reshape",
        change("resnet50", lambda c: c.output[0].reshape.SetInParent()),
    ),
    "an image of two dims": (
        "tensor-format",
        change("resnet50", lambda c: (set_dims(c, "input", [3, 224]), setattr(c.input[0], "format", 2))),
    ),
    "a shape tensor without TensorRT": (
        "tensor-tensorrt",
        change("resnet50", lambda c: setattr(c.input[0], "is_shape_tensor", True)),
    ),
    "a batch input of nothing": (
        "batch-tensors",
        change("resnet50", lambda c: c.batch_input.add(data_type="TYPE_FP32", target_name=["n"])),
    ),
    "a batch input of an unknown input": (
        "batch-tensors",
        change("resnet50", lambda c: c.batch_input.add(data_type="TYPE_FP32", source_input=["nothing"])),
    ),
    "a batch input of text": (
        "batch-tensors",
        change("resnet50", lambda c: c.batch_input.add(data_type="TYPE_STRING", source_input=["image"])),
    ),
    "a batch output to an unknown output": (
        "batch-tensors",
        change("resnet50", lambda c: c.batch_output.add(target_name=["nothing"], source_input=["image"])),
    ),
    "a default priority that there is not": (
        "priority-levels",
        change("resnet50", lambda c: setattr(c.dynamic_batching, "priority_levels", 2)),
    ),
    "a policy for a priority that there is not": (
        "priority-levels",
        change("resnet50", lambda c: _priorities(c.dynamic_batching, levels=2, policy=3)),
    ),
    "an order of requests with priorities": (
        "preserve-ordering",
        change("resnet50", lambda c: _priorities(c.dynamic_batching, levels=2, preserve_ordering=True)),
    ),
    "a cache of streamed responses": (
        "response-cache",
        change("resnet50", lambda c: _sequences(c, "response_cache { enable: true }")),
    ),
    "a share of more than everything": (
        "slot-utilization",
        change("resnet50", lambda c: _sequences(c, "", "direct { minimum_slot_utilization: 1.5 }")),
    ),
    "a control without a name": (
        "control-input",
        change("resnet50", lambda c: _sequences(c, "", "control_input { }")),
    ),
    "two tensors of one control": (
        "control-input",
        change("resnet50", lambda c: _sequences(c, "", _START % "a", _START % "b")),
    ),
    "a control without values": (
        "control-values",
        change("resnet50", lambda c: _sequences(c, "", 'control_input { name: "a" control { } }')),
    ),
    "a control of one value": (
        "control-values",
        change("resnet50", lambda c: _sequences(c, "", (_START % "a").replace(", 1", ""))),
    ),
    "a correlation id of floats": (
        "control-values",
        change("resnet50", lambda c: _sequences(c, "", _CORRELATION.replace("UINT64", "FP32"))),
    ),
    "a state that starts from another shape": (
        "state",
        change("resnet50", lambda c: _sequences(c, "", _STATE % "dims: 3 zero_data: true")),
    ),
    "a state that starts from a file that is not there": (
        "state",
        change("resnet50", lambda c: _sequences(c, "", _STATE % 'dims: 2 data_file: "first.raw"')),
    ),
    "a batching library for sequences": (
        "custom-batching",
        change(
            "resnet50",
            lambda c: _sequences(
                c, 'parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "/b.so" } }'
            ),
        ),
    ),
    "a CPU group with GPUs": (
        "instance-kind",
        change("resnet50", lambda c: c.instance_group.add(kind="KIND_CPU", gpus=[0])),
    ),
    "a GPU below zero": ("instance-kind", change("resnet50", lambda c: c.instance_group.add(gpus=[-1]))),
    "a profile of a model that is no plan": (
        "instance-profile",
        change("resnet50", lambda c: c.instance_group.add(profile=["0"])),
    ),
    "a profile that is no number": (
        "instance-profile",
        all_of(
            edit("resnet50", backend="tensorrt"),
            change("resnet50", lambda c: c.instance_group.add(profile=["fast"])),
            lambda root: write(root / "resnet50/1/model.plan", b"plan"),
        ),
    ),
    "a warm-up without its input": ("warm-up", change("resnet50", lambda c: _warm_up(c, ""))),
    "a warm-up of a variable size": (
        "warm-up",
        change("resnet50", lambda c: _warm_up(c, _WARM % "-1, 224, 224")),
    ),
    "a warm-up of another shape": ("warm-up", change("resnet50", lambda c: _warm_up(c, _WARM % "3, 224"))),
    "a warm-up of another type": (
        "warm-up",
        change("resnet50", lambda c: _warm_up(c, (_WARM % "3, 224, 224").replace("FP32", "FP16"))),
    ),
    "a warm-up without data": (
        "warm-up",
        change("resnet50", lambda c: _warm_up(c, (_WARM % "3, 224, 224").replace("zero_data: true", ""))),
    ),
    "a warm-up from a file that is too short": (
        "warm-up",
        all_of(
            change(
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
        change("resnet50", lambda c: _warm_up(c, _WARM % "3, 224, 224", batch_size=9)),
    ),
    "a type that no plan has": (
        "plan-type",
        all_of(
            edit("resnet50", backend="tensorrt"),
            change("resnet50", lambda c: setattr(c.output[0], "data_type", "TYPE_STRING")),
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
        change(
            "resnet50",
            lambda c: c.optimization.execution_accelerators.gpu_execution_accelerator.add(name="tensort"),
        ),
    ),
    "a parameter of an accelerator that there is not": (
        "accelerator",
        change(
            "resnet50",
            lambda c: c.optimization.execution_accelerators.gpu_execution_accelerator.add(
                name="tensorrt", parameters={"precision": "FP16"}
            ),
        ),
    ),
    "a library that the backend has not": ("runtime", edit("resnet50", runtime="model.py")),
    "a metric tag that is no label": (
        "metric-tag",
        change("resnet50", lambda c: c.metric_tags.update({"cost-center": "7"})),
    ),
    "a metric without buckets": (
        "model-metrics",
        change("resnet50", lambda c: c.model_metrics.metric_control.add()),
    ),
    "agents of the repository, but none": (
        "repository-agent",
        change("resnet50", lambda c: c.model_repository_agents.SetInParent()),
    ),
    "labels that are not there": (
        "label-file",
        change("resnet50", lambda c: setattr(c.output[0], "label_filename", "labels.txt")),
    ),
    "labels that are a folder": (
        "label-file",
        change("resnet50", lambda c: setattr(c.output[0], "label_filename", "1")),
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
        change("resnet50", lambda config: config.version_policy.latest.SetInParent()),
    ),
    "a field that the release does not know": (
        "new-field",
        all_of(
            change("resnet50", lambda c: c.model_metrics.SetInParent()),
            lambda root: write(root / "build.json", b'{"release": "24.09"}'),
        ),
    ),
    "a backend that the release has dropped": (
        "backend-removed",
        all_of(
            edit("resnet50", backend="tensorflow", platform="tensorflow_graphdef"),
            lambda root: write(root / "resnet50/1/model.graphdef", b"graph"),
            lambda root: write(root / "build.json", b'{"release": "25.09"}'),
        ),
    ),
    "labels outside, in a release that keeps them in": (
        "label-outside",
        all_of(
            change("resnet50", lambda c: setattr(c.output[0], "label_filename", "/labels.txt")),
            lambda root: write(root / "build.json", b'{"release": "26.05"}'),
        ),
    ),
    "an output of size zero": ("tensor-dims", change("resnet50", lambda c: set_dims(c, "output", [0]))),
    "a size of minus two": ("tensor-dims", change("resnet50", lambda c: set_dims(c, "input", [-2]))),
    "a streaming model": (
        "decoupled",
        change("resnet50", lambda c: setattr(c.model_transaction_policy, "decoupled", True)),
    ),
    "a build record that is no object": ("build-record", lambda root: write(root / "build.json", b"[]")),
}


ENSEMBLE: dict[str, tuple[str, Break]] = {
    "two ensembles": ("several-ensembles", _second_ensemble),
    "no version folder of the ensemble": ("version-missing", remove("minilm/1")),
    "a composing model without a version": ("version-missing", remove("minilm_pooling/1")),
    "a composing model without configuration": (
        "config-missing",
        remove("minilm_pooling/config.pbtxt"),
    ),
    "single quotes": (
        "ensemble-undetected",
        replace("minilm/config.pbtxt", '"ensemble"', "'ensemble'"),
    ),
    "backend instead of platform": (
        "ensemble-undetected",
        replace("minilm/config.pbtxt", 'platform: "ensemble"', 'backend: "ensemble"'),
    ),
    "steps without platform": (
        "ensemble-undetected",
        replace("minilm/config.pbtxt", 'platform: "ensemble"', ""),
    ),
    "the word in a comment of another model": (
        "ensemble-in-comment",
        replace("minilm_pooling/config.pbtxt", "name:", '# part of a platform: "ensemble"\nname:'),
    ),
    "a composing model of another name": ("composing-name", edit("minilm_encoder", name="encoder")),
    "instances of the ensemble": (
        "ensemble-fields",
        change("minilm", lambda config: config.instance_group.add(count=1)),
    ),
    "platform and backend": ("ensemble-fields", edit("minilm", backend="ensemble")),
    "a step without a version": (
        "step-version",
        change("minilm", lambda c: c.ensemble_scheduling.step[1].ClearField("model_version")),
    ),
    "no steps": (
        "ensemble-fields",
        change("minilm", lambda config: config.ensemble_scheduling.ClearField("step")),
    ),
    "a step without its model's name": (
        "step-fields",
        change("minilm", lambda c: c.ensemble_scheduling.step.add(input_map={"a": "TEXT"})),
    ),
    "a composing model that is missing": ("step-model", remove("minilm_pooling")),
    "a step that is the ensemble itself": (
        "step-model",
        change("minilm", lambda c: setattr(c.ensemble_scheduling.step[2], "model_name", "minilm")),
    ),
    "an unknown input of a step": (
        "step-tensor",
        change("minilm", lambda c: c.ensemble_scheduling.step[1].input_map.update({"token_ids": "ids"})),
    ),
    "an unknown output of a step": (
        "step-tensor",
        all_of(
            change("minilm", lambda c: c.ensemble_scheduling.step[2].output_map.clear()),
            change("minilm", lambda c: c.ensemble_scheduling.step[2].output_map.update(v="embedding")),
        ),
    ),
    "an input that nothing feeds": (
        "step-input",
        change("minilm", lambda c: c.ensemble_scheduling.step[1].input_map.pop("attention_mask")),
    ),
    "a step with smaller batches": ("step-batch-size", edit("minilm_encoder", max_batch_size=8)),
    "a tensor of two types": (
        "tensor-type-mismatch",
        change("minilm_encoder", lambda c: setattr(c.input[0], "data_type", "TYPE_INT64")),
    ),
    "an output of another type than its step's": (
        "tensor-type-mismatch",
        change("minilm", lambda c: setattr(c.output[0], "data_type", "TYPE_FP16")),
    ),
    "a tensor of two sizes": (
        "tensor-shape-mismatch",
        change("minilm_encoder", lambda c: set_dims(c, "output", [-1, 768])),
    ),
    "a tensor of two ranks": (
        "tensor-shape-mismatch",
        change("minilm", lambda c: set_dims(c, "output", [1, 384])),
    ),
    "a tensor that is written twice": (
        "tensor-written-twice",
        all_of(
            change("minilm_tokenizer", lambda c: c.output.add(name="x", data_type="TYPE_INT32", dims=[-1])),
            change("minilm", lambda c: c.ensemble_scheduling.step[0].output_map.update({"x": "ids"})),
        ),
    ),
    "an input that no step reads": (
        "tensor-unconnected",
        change("minilm", lambda c: c.input.add(name="EXTRA", data_type="TYPE_FP32", dims=[1])),
    ),
    "an output that no step writes": (
        "tensor-unconnected",
        change("minilm", lambda c: c.output.add(name="EXTRA", data_type="TYPE_FP32", dims=[1])),
    ),
    "a step that caches its answers": (
        "composing-cache",
        change("minilm_encoder", lambda c: setattr(c.response_cache, "enable", True)),
    ),
    "a streaming step": (
        "decoupled",
        change("minilm_encoder", lambda c: setattr(c.model_transaction_policy, "decoupled", True)),
    ),
}
