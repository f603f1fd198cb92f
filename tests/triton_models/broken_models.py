"""Small artifacts, each with one mistake: what the checks refuse, and what a real server refuses."""

from __future__ import annotations

from functools import partial

from google.protobuf import text_format

from tests.triton_models.check_case import Spoil
from tests.triton_models.model_folders import write, write_plain
from tests.triton_models.spoils import both, edited, having, moved, said, stepped, without, written

net = partial(edited, "resnet50")


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


_START = "control_input { name: '%s' control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }"


_CORRELATION = "control_input { name: 'id' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }"


_STATE = (
    "state { input_name: 'in' output_name: 'out' data_type: TYPE_FP32 dims: 2 "
    "initial_state { name: 'first' data_type: TYPE_FP32 %s } }"
)


_WARM = "inputs { key: 'image' value { data_type: TYPE_FP32 dims: [ %s ] zero_data: true } }"


PLAIN: dict[str, dict[str, Spoil]] = {
    "config-syntax": {
        "a syntax error": written("resnet50/config.pbtxt", b"name: 3"),
        "an unknown field": said("resnet50", "max_batch_size", "maximum_batch_size"),
        "an escape that C does not know": lambda root: write(
            root / "resnet50/config.pbtxt",
            (root / "resnet50/config.pbtxt").read_bytes() + b'metric_tags { key: "a" value: "C:\\data" }',
        ),
        "an unknown data type": said("resnet50", "TYPE_FP32", "TYPE_FLOAT"),
    },
    "several-models": {"two plain models": lambda root: write_plain(root, name="other")},
    "stray-directory": {"an empty folder next to it": lambda root: (root / "empty").mkdir()},
    "version-missing": {
        "no version folder": without("resnet50/1"),
        "a version with a leading zero": moved("resnet50/1", "resnet50/01"),
        "a version that the policy leaves out": net(lambda c: c.version_policy.specific.versions.append(2)),
        "a policy of no version": net(lambda c: c.version_policy.latest.SetInParent()),
    },
    "model-file-missing": {
        "an empty version folder": without("resnet50/1/model.onnx"),
        "an empty latest version folder": lambda root: (root / "resnet50" / "10").mkdir(),
        "a named file that is not there": having("resnet50", default_model_filename="resnet50.onnx"),
    },
    "backend-missing": {
        "an unknown backend": both(
            having("resnet50", backend=""), moved("resnet50/1/model.onnx", "resnet50/1/x")
        ),
        "a platform of another backend": having("resnet50", platform="tensorrt_plan"),
    },
    "max-batch-size": {
        "a negative batch size": both(
            having("resnet50", max_batch_size=-1), net(lambda c: c.ClearField("dynamic_batching"))
        )
    },
    "preferred-batch-size": {
        "a preferred batch above the largest": having("resnet50", max_batch_size=7),
        "a preferred batch without batching": having("resnet50", max_batch_size=0),
    },
    "tensors-missing": {"no inputs": net(lambda c: c.ClearField("input"))},
    "tensor-name": {"an input without a name": net(lambda c: c.input[0].ClearField("name"))},
    "tensor-type": {"an output without a data type": net(lambda c: c.output[0].ClearField("data_type"))},
    "tensor-dims": {
        "an input without dims": net(lambda c: set_dims(c, "input", [])),
        "an output of size zero": net(lambda c: set_dims(c, "output", [0])),
        "a size of minus two": net(lambda c: set_dims(c, "input", [-2])),
    },
    "reshape": {
        "a reshape to another size": net(lambda c: c.input[0].reshape.shape.extend([3, 224, 225])),
        "a reshape that moves a size over a variable one": net(
            lambda c: _reshape(c.output[0], dims=[2, -1, 3], shape=[3, -1, 2])
        ),
        "an empty reshape of several elements": net(lambda c: c.output[0].reshape.SetInParent()),
    },
    "tensor-format": {
        "an image of two dims": net(
            lambda c: (set_dims(c, "input", [3, 224]), setattr(c.input[0], "format", 2))
        )
    },
    "tensor-tensorrt": {
        "a shape tensor without TensorRT": net(lambda c: setattr(c.input[0], "is_shape_tensor", True))
    },
    "batch-tensors": {
        "a batch input of nothing": net(
            lambda c: c.batch_input.add(data_type="TYPE_FP32", target_name=["n"])
        ),
        "a batch input of an unknown input": net(
            lambda c: c.batch_input.add(data_type="TYPE_FP32", source_input=["nothing"])
        ),
        "a batch input of text": net(
            lambda c: c.batch_input.add(data_type="TYPE_STRING", source_input=["image"])
        ),
        "a batch output to an unknown output": net(
            lambda c: c.batch_output.add(target_name=["nothing"], source_input=["image"])
        ),
    },
    "priority-levels": {
        "a default priority that there is not": net(
            lambda c: setattr(c.dynamic_batching, "priority_levels", 2)
        ),
        "a policy for a priority that there is not": net(
            lambda c: _priorities(c.dynamic_batching, levels=2, policy=3)
        ),
    },
    "preserve-ordering": {
        "an order of requests with priorities": net(
            lambda c: _priorities(c.dynamic_batching, levels=2, preserve_ordering=True)
        )
    },
    "response-cache": {
        "a cache of streamed responses": net(lambda c: _sequences(c, "response_cache { enable: true }"))
    },
    "slot-utilization": {
        "a share of more than everything": net(
            lambda c: _sequences(c, "", "direct { minimum_slot_utilization: 1.5 }")
        )
    },
    "control-input": {
        "a control without a name": net(lambda c: _sequences(c, "", "control_input { }")),
        "two tensors of one control": net(lambda c: _sequences(c, "", _START % "a", _START % "b")),
    },
    "control-values": {
        "a control without values": net(
            lambda c: _sequences(c, "", 'control_input { name: "a" control { } }')
        ),
        "a control of one value": net(lambda c: _sequences(c, "", (_START % "a").replace(", 1", ""))),
        "a correlation id of floats": net(
            lambda c: _sequences(c, "", _CORRELATION.replace("UINT64", "FP32"))
        ),
    },
    "state": {
        "a state that starts from another shape": net(
            lambda c: _sequences(c, "", _STATE % "dims: 3 zero_data: true")
        ),
        "a state that starts from a file that is not there": net(
            lambda c: _sequences(c, "", _STATE % 'dims: 2 data_file: "first.raw"')
        ),
    },
    "custom-batching": {
        "a batching library for sequences": net(
            lambda c: _sequences(
                c, 'parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "/b.so" } }'
            )
        )
    },
    "instance-kind": {
        "a CPU group with GPUs": net(lambda c: c.instance_group.add(kind="KIND_CPU", gpus=[0])),
        "a GPU below zero": net(lambda c: c.instance_group.add(gpus=[-1])),
    },
    "instance-profile": {
        "a profile of a model that is no plan": net(lambda c: c.instance_group.add(profile=["0"])),
        "a profile that is no number": both(
            having("resnet50", backend="tensorrt"),
            net(lambda c: c.instance_group.add(profile=["fast"])),
            written("resnet50/1/model.plan", b"plan"),
        ),
    },
    "warm-up": {
        "a warm-up without its input": net(lambda c: _warm_up(c, "")),
        "a warm-up of a variable size": net(lambda c: _warm_up(c, _WARM % "-1, 224, 224")),
        "a warm-up of another shape": net(lambda c: _warm_up(c, _WARM % "3, 224")),
        "a warm-up of another type": net(
            lambda c: _warm_up(c, (_WARM % "3, 224, 224").replace("FP32", "FP16"))
        ),
        "a warm-up without data": net(
            lambda c: _warm_up(c, (_WARM % "3, 224, 224").replace("zero_data: true", ""))
        ),
        "a warm-up from a file that is too short": both(
            net(
                lambda c: _warm_up(
                    c, (_WARM % "3, 224, 224").replace("zero_data: true", 'input_data_file: "image.raw"')
                )
            ),
            written("resnet50/warmup/image.raw", b"0000"),
        ),
        "a warm-up of more than a batch": net(lambda c: _warm_up(c, _WARM % "3, 224, 224", batch_size=9)),
    },
    "plan-type": {
        "a type that no plan has": both(
            having("resnet50", backend="tensorrt"),
            net(lambda c: setattr(c.output[0], "data_type", "TYPE_STRING")),
            written("resnet50/1/model.plan", b"plan"),
        )
    },
    "accelerator": {
        "a parameter of an accelerator that there is not": net(
            lambda c: c.optimization.execution_accelerators.gpu_execution_accelerator.add(
                name="tensorrt", parameters={"precision": "FP16"}
            )
        )
    },
    "runtime": {"a library that the backend has not": having("resnet50", runtime="model.py")},
    "metric-tag": {
        "a metric tag that is no label": net(lambda c: c.metric_tags.update({"cost-center": "7"}))
    },
    "repository-agent": {
        "agents of the repository, but none": net(lambda c: c.model_repository_agents.SetInParent())
    },
    "label-file": {
        "labels that are not there": net(lambda c: setattr(c.output[0], "label_filename", "labels.txt")),
        "labels that are a folder": net(lambda c: setattr(c.output[0], "label_filename", "1")),
    },
    "version-number": {
        "a version that no server can count to": lambda root: (root / "resnet50" / ("9" * 20)).mkdir()
    },
    "new-field": {
        "a field that the release does not know": both(
            net(lambda c: c.model_metrics.SetInParent()), written("build.json", b'{"release": "24.09"}')
        )
    },
}


ENSEMBLE: dict[str, dict[str, Spoil]] = {
    "version-missing": {
        "no version folder of the ensemble": without("minilm/1"),
        "a composing model without a version": without("minilm_pooling/1"),
    },
    "config-missing": {"a composing model without configuration": without("minilm_pooling/config.pbtxt")},
    "ensemble-undetected": {
        "backend instead of platform": said("minilm", 'platform: "ensemble"', 'backend: "ensemble"'),
        "steps without platform": said("minilm", 'platform: "ensemble"', ""),
    },
    "composing-name": {"a composing model of another name": having("minilm_encoder", name="encoder")},
    "ensemble-fields": {
        "instances of the ensemble": edited("minilm", lambda c: c.instance_group.add(count=1)),
        "platform and backend": having("minilm", backend="ensemble"),
        "no steps": edited("minilm", lambda c: c.ensemble_scheduling.ClearField("step")),
    },
    "step-version": {"a step without a version": stepped(1, lambda it: it.ClearField("model_version"))},
    "step-fields": {
        "a step without its model's name": edited(
            "minilm", lambda c: c.ensemble_scheduling.step.add(input_map={"a": "TEXT"})
        )
    },
    "step-model": {
        "a composing model that is missing": without("minilm_pooling"),
        "a step that is the ensemble itself": stepped(2, lambda it: setattr(it, "model_name", "minilm")),
    },
    "step-tensor": {
        "an unknown input of a step": stepped(1, lambda it: it.input_map.update({"token_ids": "ids"})),
        "an unknown output of a step": both(
            stepped(2, lambda it: it.output_map.clear()),
            stepped(2, lambda it: it.output_map.update(v="embedding")),
        ),
    },
    "step-input": {"an input that nothing feeds": stepped(1, lambda it: it.input_map.pop("attention_mask"))},
    "step-batch-size": {"a step with smaller batches": having("minilm_encoder", max_batch_size=8)},
    "tensor-type-mismatch": {
        "a tensor of two types": edited(
            "minilm_encoder", lambda c: setattr(c.input[0], "data_type", "TYPE_INT64")
        ),
        "an output of another type than its step's": edited(
            "minilm", lambda c: setattr(c.output[0], "data_type", "TYPE_FP16")
        ),
    },
    "tensor-shape-mismatch": {
        "a tensor of two sizes": edited("minilm_encoder", lambda c: set_dims(c, "output", [-1, 768])),
        "a tensor of two ranks": edited("minilm", lambda c: set_dims(c, "output", [1, 384])),
    },
    "tensor-written-twice": {
        "a tensor that is written twice": both(
            edited("minilm_tokenizer", lambda c: c.output.add(name="x", data_type="TYPE_INT32", dims=[-1])),
            stepped(0, lambda it: it.output_map.update({"x": "ids"})),
        )
    },
    "tensor-unconnected": {
        "an input that no step reads": edited(
            "minilm", lambda c: c.input.add(name="EXTRA", data_type="TYPE_FP32", dims=[1])
        ),
        "an output that no step writes": edited(
            "minilm", lambda c: c.output.add(name="EXTRA", data_type="TYPE_FP32", dims=[1])
        ),
    },
    "composing-cache": {
        "a step that caches its answers": edited(
            "minilm_encoder", lambda c: setattr(c.response_cache, "enable", True)
        )
    },
}
