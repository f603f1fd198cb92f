"""Small artifacts, each with one mistake: what the checks refuse, and what a real server refuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf import text_format

from tests.triton_models.check_case import Spoil
from tests.triton_models.model_folders import write_plain
from tests.triton_models.spoils import (
    added,
    both,
    edited,
    exported,
    having,
    moved,
    said,
    stepped,
    without,
    written,
)

net = partial(edited, "resnet50")


def fitting(*spoils: Spoil) -> Spoil:
    """Change the configuration, and export the network anew, so that it fits."""
    return both(*spoils, exported("resnet50"))


def set_dims(config, side: str, dims: list[int]) -> None:
    tensors = getattr(config, side)
    del tensors[0].dims[:]
    tensors[0].dims.extend(dims)


def reshaped(dims: str, shape: str, part: str = "output") -> Spoil:
    """A tensor with these dims and this reshape, instead of the first output or input."""
    tensor = f'{part} {{ name: "x" data_type: TYPE_FP32 dims: [ {dims} ] reshape {{ shape: [ {shape} ] }} }}'
    return fitting(net(lambda config: config.ClearField(part)), added("resnet50", tensor))


def batched(text: str) -> Spoil:
    return net(lambda config: text_format.Merge(text, config.dynamic_batching))


def sequences(*parts: str, extra: str = "") -> Spoil:
    batching = f"sequence_batching {{ {' '.join(parts)} }} {extra}"
    return net(lambda config: (config.ClearField("dynamic_batching"), text_format.Parse(batching, config)))


def _controls(config: Any) -> Any:
    return config.sequence_batching.control_input


def warmed(inputs: str, *, batch_size: int = 1) -> Spoil:
    return added("resnet50", f"model_warmup {{ name: 'first' batch_size: {batch_size} {inputs} }}")


def warmed_with_text(content: bytes, *, dims: str = "2") -> Spoil:
    """A model of texts, warmed up from a file."""

    def take_texts(config: Any) -> None:
        del config.input[0].dims[:]
        config.input[0].dims.append(-1)
        config.input[0].data_type = 13
        config.input[0].format = 0

    return fitting(
        net(take_texts),
        warmed(WARM % ("TYPE_STRING", dims, 'input_data_file: "texts"')),
        written("resnet50/warmup/texts", content),
    )


def text(*texts: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4, "little") + each for each in texts)


def plan(edit: Callable[[Any], object]) -> Spoil:
    return both(having("resnet50", backend="tensorrt"), net(edit), written("resnet50/1/model.plan", b"plan"))


def graphs(spec: str) -> Spoil:
    return plan(lambda c: text_format.Merge(f"graphs: true graph_spec {{ {spec} }}", c.optimization.cuda))


START = "control_input { name: '%s' control { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } }"


CORRELATION = "control_input { name: 'id' control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }"


STATE = (
    "state { input_name: 'in' output_name: 'out' data_type: TYPE_FP32 dims: 2 "
    "initial_state { name: 'first' data_type: TYPE_FP32 %s } }"
)


BATCH_INPUT = "batch_input { data_type: %s target_name: 'sizes' source_input: '%s' }"


WARM = "inputs { key: 'image' value { data_type: %s dims: [ %s ] %s } }"


PLAIN: dict[str, dict[str, Spoil]] = {
    "config-syntax": {
        "a syntax error": written("resnet50/config.pbtxt", b"name: 3"),
        "an unknown field": said("resnet50", "max_batch_size", "maximum_batch_size"),
        "an escape that C does not know": added("resnet50", 'metric_tags { key: "a" value: "C:\\data" }'),
        "a blank from a web page": said("resnet50", "max_batch_size: ", "max_batch_size:\u00a0"),
    },
    "several-models": {"two plain models": lambda root: write_plain(root, name="other")},
    "stray-directory": {"an empty folder next to it": lambda root: (root / "empty").mkdir()},
    "version-missing": {
        "no version folder": without("resnet50/1"),
        "a version with a leading zero": moved("resnet50/1", "resnet50/01"),
        "a version that the policy lacks": added("resnet50", "version_policy { specific { versions: 2 } }"),
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
        "a negative batch size": fitting(
            having("resnet50", max_batch_size=-1), net(lambda c: c.ClearField("dynamic_batching"))
        )
    },
    "preferred-batch-size": {
        "a preferred batch above the largest": having("resnet50", max_batch_size=7),
        "a preferred batch without batching": fitting(having("resnet50", max_batch_size=0)),
    },
    "tensors-missing": {"no inputs": net(lambda c: c.ClearField("input"))},
    "tensor-name": {"an input without a name": net(lambda c: c.input[0].ClearField("name"))},
    "tensor-type": {"an output without a data type": net(lambda c: c.output[0].ClearField("data_type"))},
    "tensor-dims": {
        "an input without dims": net(lambda c: set_dims(c, "input", [])),
        "an output of size zero": net(lambda c: set_dims(c, "output", [0])),
    },
    "reshape": {
        "a reshape to another size": reshaped("3, 224, 224", "3, 224, 225", "input"),
        "a reshape that moves a size over a variable one": reshaped("2, -1, 3", "3, -1, 2"),
        "an empty reshape of several elements": reshaped("1000", ""),
    },
    "tensor-format": {
        "an image of two dims": fitting(
            net(lambda c: (set_dims(c, "input", [3, 224]), setattr(c.input[0], "format", 2)))
        )
    },
    "tensor-tensorrt": {
        "a shape tensor without TensorRT": net(lambda c: setattr(c.input[0], "is_shape_tensor", True))
    },
    "batch-tensors": {
        "a batch input of an unknown input": fitting(
            added("resnet50", BATCH_INPUT % ("TYPE_FP32", "nothing"))
        ),
        "a batch input of text": fitting(added("resnet50", BATCH_INPUT % ("TYPE_STRING", "image"))),
        "a batch output to an unknown output": added(
            "resnet50", "batch_output { target_name: 'nothing' source_input: 'image' }"
        ),
    },
    "priority-levels": {
        "a default priority that there is not": batched("priority_levels: 2"),
        "a policy for a priority that there is not": batched(
            "priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } }"
        ),
    },
    "preserve-ordering": {
        "an order of requests with priorities": batched(
            "priority_levels: 2 default_priority_level: 1 preserve_ordering: true"
        )
    },
    "response-cache": {"a cache of streamed responses": sequences(extra="response_cache { enable: true }")},
    "slot-utilization": {
        "a share of more than everything": sequences("direct { minimum_slot_utilization: 1.5 }")
    },
    "control-input": {
        "a control without a name": sequences("control_input { }"),
        "two tensors of one control": both(
            fitting(sequences(START % "a")),
            net(lambda c: _controls(c).add(name="b", control=_controls(c)[0].control)),
        ),
    },
    "control-values": {
        "a control without values": both(
            fitting(sequences(START % "a")), net(lambda c: _controls(c)[0].control[0].Clear())
        ),
        "a correlation id of floats": fitting(sequences(CORRELATION.replace("UINT64", "FP32"))),
    },
    "state": {
        "a state that starts from another shape": fitting(sequences(STATE % "dims: 3 zero_data: true")),
        "a state that starts from no file": fitting(sequences(STATE % 'dims: 2 data_file: "first.raw"')),
    },
    "custom-batching": {
        "a batching library for sequences": sequences(
            extra='parameters { key: "TRITON_BATCH_STRATEGY_PATH" value { string_value: "/b.so" } }'
        )
    },
    "instance-kind": {
        "a CPU group with GPUs": added("resnet50", "instance_group { kind: KIND_CPU gpus: 0 }")
    },
    "instance-profile": {
        "a profile of a model that is no plan": added("resnet50", "instance_group { profile: '0' }"),
        "a profile that is no number": plan(lambda c: c.instance_group.add(profile=["fast"])),
        "a profile that the plan does not have": both(
            plan(lambda c: c.instance_group.add(profile=["0", "2"])),
            written("build.json", b'{"plans": {"resnet50/1/model.plan": {"profiles": 2}}}'),
        ),
    },
    "graph-spec": {
        "a graph of more than a batch": graphs("batch_size: 9"),
        "a graph below its lower bound": graphs("batch_size: 2 graph_lower_bound { batch_size: 3 }"),
    },
    "warm-up": {
        "a warm-up without its input": warmed(""),
        "a warm-up of a variable size": warmed(WARM % ("TYPE_FP32", "-1, 224, 224", "zero_data: true")),
        "a warm-up of another shape": warmed(WARM % ("TYPE_FP32", "3, 224", "zero_data: true")),
        "a warm-up of another type": warmed(WARM % ("TYPE_FP16", "3, 224, 224", "zero_data: true")),
        "a warm-up without data": warmed(WARM % ("TYPE_FP32", "3, 224, 224", "")),
        "a warm-up from a file that is too short": both(
            warmed(WARM % ("TYPE_FP32", "3, 224, 224", 'input_data_file: "image.raw"')),
            written("resnet50/warmup/image.raw", b"0000"),
        ),
        "a warm-up of more texts than it has room for": warmed_with_text(text(b"one", b"two", b"three")),
        "a warm-up of too few texts": warmed_with_text(text(b"one")),
        "a warm-up of plain text": warmed_with_text(b"one\ntwo\n"),
        "a warm-up of an empty file for texts": warmed_with_text(b""),
        "a warm-up of texts with bytes after them": warmed_with_text(text(b"one", b"two") + b"\n"),
        "a warm-up of more than a batch": warmed(
            WARM % ("TYPE_FP32", "3, 224, 224", "zero_data: true"), batch_size=9
        ),
    },
    "plan-type": {
        "a type that no plan has": plan(lambda c: setattr(c.output[0], "data_type", "TYPE_STRING"))
    },
    "accelerator": {
        "an accelerator of the CPU for a GPU": added(
            "resnet50",
            "optimization { execution_accelerators { gpu_execution_accelerator { name: 'openvino' } } }",
        )
    },
    "runtime": {"a library that the backend has not": having("resnet50", runtime="model.py")},
    "metric-tag": {"a tag of no label": added("resnet50", "metric_tags { key: 'cost-center' value: '7' }")},
    "repository-agent": {"agents, but none": added("resnet50", "model_repository_agents { }")},
    "label-file": {
        "labels that are not there": net(lambda c: setattr(c.output[0], "label_filename", "labels.txt")),
        "labels that are a folder": net(lambda c: setattr(c.output[0], "label_filename", "1")),
    },
    "version-number": {
        "a version that no server can count to": lambda root: (root / "resnet50" / ("9" * 20)).mkdir()
    },
    "new-field": {
        "a field that the release does not know": both(
            added("resnet50", "model_metrics { }"), written("build.json", b'{"release": "24.09"}')
        )
    },
}


ENSEMBLE: dict[str, dict[str, Spoil]] = {
    "version-missing": {
        "no version folder of the ensemble": without("minilm/1"),
        "a composing model without a version": without("minilm_pooling/1"),
    },
    "config-missing": {"a composing model without configuration": without("minilm_pooling/config.pbtxt")},
    "ensemble-undetected": {"steps without platform": said("minilm", 'platform: "ensemble"', "")},
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
        )
    },
    "tensor-shape-mismatch": {
        "a tensor of two sizes": edited("minilm_encoder", lambda c: set_dims(c, "output", [-1, 768]))
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
