"""Checks of settings that backends read: parameters, accelerators and types.

Sources, read 2026-11-21: src/onnxruntime.cc of onnxruntime_backend (24.10 and main), src/tensorrt_utils.cc of
tensorrt_backend, src/python_be.cc of python_backend and src/libtorch.cc of pytorch_backend (24.10);
src/metric_model_reporter.cc of Triton core (24.10), and ValidateModelMetrics in its src/model_config_utils.cc
(main of 2026-06-09). Settings that crash the server were tested on the bundled one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.check.subject import ArtifactCheck, Model, Subject, type_name
from triton_models.config.pbtxt import ModelConfig
from triton_models.facts.tensorrt import PLAN_TYPES

_SOURCE = (
    "2026-11-21: onnxruntime_backend, tensorrt_backend, python_backend and pytorch_backend 24.10, Triton core"
)

# Parameters of the ONNX Runtime backend that must be numbers or switches.
_NUMBERS = ("execution_mode", "inter_op_thread_count", "intra_op_thread_count")
_SWITCHES = ("enable_mem_arena", "enable_mem_pattern")
_SAID = frozenset({"true", "false", "on", "off", "1", "0"})
_NUMBER = re.compile(r"\s*[+-]?[0-9]")
_EXECUTION_MODE = re.compile(r"\s*\+?0*[01](?![0-9])")

_TENSORRT_PARAMETERS = frozenset(
    [
        "precision_mode",
        "max_workspace_size_bytes",
        "trt_max_partition_iterations",
        "trt_min_subgraph_size",
        "int8_calibration_table_name",
        "int8_use_native_calibration_table",
        "trt_dla_enable",
        "trt_dla_core",
        "trt_engine_cache_enable",
        "trt_engine_cache_path",
        "trt_engine_cache_prefix",
        "trt_dump_subgraphs",
        "trt_force_sequential_engine_build",
        "trt_context_memory_sharing_enable",
        "trt_layer_norm_fp32_fallback",
        "trt_timing_cache_enable",
        "trt_timing_cache_path",
        "trt_force_timing_cache",
        "trt_detailed_build_log",
        "trt_build_heuristics_enable",
        "trt_sparsity_enable",
        "trt_builder_optimization_level",
        "trt_auxiliary_streams",
        "trt_tactic_sources",
        "trt_extra_plugin_lib_paths",
        "trt_profile_min_shapes",
        "trt_profile_max_shapes",
        "trt_profile_opt_shapes",
        "trt_cuda_graph_enable",
        "trt_dump_ep_context_model",
        "trt_ep_context_file_path",
        "trt_ep_context_embed_mode",
    ]
)
_PRECISIONS = frozenset({"FP32", "FP16", "BF16", "INT8"})
_GPU_ACCELERATORS = frozenset({"cuda", "tensorrt"})
_CPU_ACCELERATORS = frozenset({"openvino"})

# Core adds an underscore in front and uses the tag as a label: src/metric_model_reporter.cc.
_METRIC_TAG = re.compile(r"(?!_)[A-Za-z0-9_]*")

# INVALID_CHARS in src/pb_utils.h of python_backend, branches r25.08 to r26.07 but not r25.07, read
# 2026-11-22. StubLauncher::Launch refuses them in the name of the model and of each instance, which begins
# with the group's name. It does not check the path of an environment, and the server names the region of
# shared memory.
_REFUSED_IN_NAMES = frozenset(";|&$`<>()[]{}\\\"'*?~#!")
_NAMES_CHECKED_SINCE = "25.08"

_MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"


def plan_type(subject: Subject) -> Iterator[Problem]:
    """Check that TensorRT supports the types of a plan's tensors."""
    for model, config in subject.served():
        if model.backend.name != "tensorrt":
            continue
        for part, tensors in (("input", config.input), ("output", config.output)):
            for tensor in tensors:
                if tensor.data_type and type_name(tensor.data_type) not in PLAN_TYPES:
                    yield subject.refuse(
                        model,
                        f"{part} {tensor.name!r}",
                        f"{part} {tensor.name!r} of a plan is {type_name(tensor.data_type)}",
                        expected=f"one of {', '.join(sorted(PLAN_TYPES))}",
                        fix="write the type of the plan's tensor",
                    )


def bf16_tensor(subject: Subject) -> Iterator[Problem]:
    """Check that the release's backend has the type of BF16 tensors."""
    release = subject.target.release
    if release is None:
        return
    for model, config in subject.served():
        since = release.bf16_since(model.backend.name)
        for tensor in (*config.input, *config.output) if since else ():
            if type_name(tensor.data_type) == "TYPE_BF16":
                yield subject.refuse(
                    model,
                    tensor.name,
                    f"{tensor.name!r} is TYPE_BF16, for {model.backend.name} of release {release.name}",
                    expected=f"release {since} or newer",
                    fix="use a newer release, or cast it inside the network",
                )


def onnxruntime_parameter(subject: Subject) -> Iterator[Problem]:
    """Check that parameters of ONNX Runtime have valid values."""
    for model, config in subject.having("parameters"):
        if model.backend.name != "onnxruntime":
            continue
        for name in (*_NUMBERS, *_SWITCHES):
            if name not in config.parameters:
                continue
            value = config.parameters[name].string_value
            number = name in _NUMBERS
            if number and value == "":
                continue
            pattern = _EXECUTION_MODE if name == "execution_mode" else _NUMBER
            if (number and not pattern.match(value)) or (not number and value.lower() not in _SAID):
                expected, such_as = (
                    ("0 or 1", "1")
                    if name == "execution_mode"
                    else ("a number in digits", "4")
                    if number
                    else ("true or false", "true")
                )
                yield subject.refuse(
                    model,
                    f"parameters: {name}",
                    f"{name} is {value!r}",
                    expected=expected,
                    fix=f'write {expected}, such as value: {{ string_value: "{such_as}" }}',
                )


def accelerator(subject: Subject) -> Iterator[Problem]:
    """Check that accelerators of ONNX Runtime and their parameters exist."""
    for model, config in subject.having("optimization"):
        if model.backend.name != "onnxruntime":
            continue
        accelerators = config.optimization.execution_accelerators
        release = subject.target.release
        for entry in accelerators.gpu_execution_accelerator:
            if entry.name == "cuda" and release is not None and not release.switches_tf32:
                yield _too_early(subject, model, release.name)
            elif entry.name not in _GPU_ACCELERATORS:
                yield _accelerator(subject, model, entry.name, _GPU_ACCELERATORS)
            elif entry.name == "tensorrt":
                yield from _tensorrt_accelerator(subject, model, entry)
        for entry in accelerators.cpu_execution_accelerator:
            if entry.name not in _CPU_ACCELERATORS:
                yield _accelerator(subject, model, entry.name, _CPU_ACCELERATORS)


def python_parameter(subject: Subject) -> Iterator[Problem]:
    """Check that parameters of the Python backend are valid, and that an environment in the model exists."""
    for model, config in subject.having("parameters"):
        if model.backend.name != "python":
            continue
        name = "FORCE_CPU_ONLY_INPUT_TENSORS"
        if name in config.parameters and config.parameters[name].string_value not in {"yes", "no"}:
            yield subject.refuse(
                model,
                f"parameters: {name}",
                f"{name} is {config.parameters[name].string_value!r}",
                expected="yes or no, in lower case",
                fix='write value: { string_value: "no" }',
            )
        yield from _environment(subject, model, config)


def python_file(subject: Subject) -> Iterator[Problem]:
    """Check that the file of a Python model is a Python file."""
    for model, config in subject.having("default_model_filename"):
        name = config.default_model_filename
        # Triton only checks that the last character is one of these three.
        if model.backend.name == "python" and name[-1] not in ".py":
            yield subject.refuse(
                model,
                "default_model_filename",
                f"a Python model in {name!r}",
                expected="a file that ends with .py",
                fix="rename the file",
            )


def python_name(subject: Subject) -> Iterator[Problem]:
    """Check that the names passed to a Python model's process have no special characters of a shell."""
    release = subject.target.release
    if release is None or release.name < _NAMES_CHECKED_SINCE:
        return
    for model, config in subject.served():
        if model.backend.name != "python":
            continue
        groups = [(f"instance_group {number}: name", group.name) for number, group in _named(config)]
        own = [] if subject.is_renamed(model) else [("name", model.folder)]
        for where, name in own + groups:
            refused = sorted(set(name) & _REFUSED_IN_NAMES)
            if refused:
                yield subject.refuse(
                    model,
                    where,
                    f"the name {name!r} contains {' '.join(refused)}",
                    expected=f"a name without {' '.join(sorted(_REFUSED_IN_NAMES))}",
                    why=f"releases since {_NAMES_CHECKED_SINCE} refuse it: Invalid stub name",
                    fix="rename it" if where == "name" else "rename the group, or remove its name",
                )


def pytorch_output(subject: Subject) -> Iterator[Problem]:
    """Check that a TorchScript model lists its outputs, because the file does not name them."""
    for model, config in subject.served():
        torchscript = model.backend.name == "pytorch" and config.runtime != "model.py"
        if torchscript and not config.output and model.text is not None:
            yield subject.refuse(
                model,
                "output",
                f"{model.folder!r} lists no output",
                expected="every output with name, data_type and dims",
                fix="add the outputs",
            )


def metric_tag(subject: Subject) -> Iterator[Problem]:
    """Check that metric tags are valid labels of metrics."""
    for model, config in subject.having("metric_tags"):
        for name in sorted(config.metric_tags):
            if not _METRIC_TAG.fullmatch(name):
                yield subject.refuse(
                    model,
                    "metric_tags",
                    f"the metric tag {name!r}",
                    expected="letters, digits and underscores, starting with a letter or digit",
                    why="it crashes the server: the tag becomes the label of a metric",
                    fix="rename the tag",
                )


def model_metrics(subject: Subject) -> Iterator[Problem]:
    """Check that metrics changed by a model have a name and buckets."""
    for model, config in subject.having("model_metrics"):
        for control in config.model_metrics.metric_control:
            if not control.metric_identifier.family or not control.histogram_options.buckets:
                yield subject.refuse(
                    model,
                    "model_metrics: metric_control",
                    "a metric_control without a family or without buckets",
                    expected="metric_identifier { family } and histogram_options { buckets }",
                    fix="add the missing fields, or remove metric_control",
                )


def _environment(subject: Subject, model: Model, config: ModelConfig) -> Iterator[Problem]:
    name = "EXECUTION_ENV_PATH"
    if name not in config.parameters:
        return
    value = config.parameters[name].string_value
    if not value.startswith(_MODEL_DIRECTORY):
        return  # outside the model, on the host
    path = subject.inside(model, value.removeprefix(_MODEL_DIRECTORY).lstrip("/") or ".")
    if path is not None and not subject.layout.has(path):
        yield subject.refuse(
            model,
            f"parameters: {name}",
            f"there is no {path!r}",
            expected="the environment's .tar.gz or its folder",
            fix="pack the environment into the model, or correct the path",
        )


def _named(config: ModelConfig) -> Iterator[tuple[int, Any]]:
    """Return the instance groups that have names, with their numbers."""
    return ((number, group) for number, group in enumerate(config.instance_group) if group.name)


def _accelerator(subject: Subject, model: Model, name: str, known: frozenset[str]) -> Problem:
    return subject.refuse(
        model,
        "optimization: execution_accelerators",
        f"unknown accelerator {name!r}",
        expected=f"one of {', '.join(sorted(known))}",
        fix=did_you_mean(name, known, otherwise="remove it"),
    )


def _too_early(subject: Subject, model: Model, release: str) -> Problem:
    return subject.refuse(
        model,
        "optimization: execution_accelerators",
        f"the accelerator cuda with release {release}",
        expected="release 24.06 or newer",
        fix="build the model again for this release, or remove the accelerator",
    )


def _tensorrt_accelerator(subject: Subject, model: Model, entry: Any) -> Iterator[Problem]:
    where = "optimization: execution_accelerators"
    for name in sorted(entry.parameters):
        if name not in _TENSORRT_PARAMETERS:
            yield subject.refuse(
                model,
                where,
                f"unknown parameter {name!r} of the accelerator tensorrt",
                expected="a parameter in the README of the ONNX Runtime backend",
                fix=did_you_mean(name, _TENSORRT_PARAMETERS, otherwise="remove it"),
            )
    precision = entry.parameters.get("precision_mode", "FP32")
    if precision not in _PRECISIONS:
        yield subject.refuse(
            model,
            where,
            f"precision_mode {precision!r}",
            expected=f"one of {', '.join(sorted(_PRECISIONS))}",
            fix=did_you_mean(precision, _PRECISIONS, otherwise="remove it"),
        )


CHECKS = (
    ArtifactCheck(id="plan-type", source=_SOURCE, find=plan_type),
    ArtifactCheck(id="bf16-tensor", source="triton_models.facts.releases", find=bf16_tensor),
    ArtifactCheck(id="onnxruntime-parameter", source=_SOURCE, find=onnxruntime_parameter),
    ArtifactCheck(id="accelerator", source=_SOURCE, find=accelerator),
    ArtifactCheck(id="python-parameter", source=_SOURCE, find=python_parameter),
    ArtifactCheck(id="python-file", source=_SOURCE, find=python_file),
    ArtifactCheck(id="python-name", source=_SOURCE, find=python_name),
    ArtifactCheck(id="pytorch-output", source=_SOURCE, find=pytorch_output),
    ArtifactCheck(id="metric-tag", source=_SOURCE, find=metric_tag),
    ArtifactCheck(id="model-metrics", source=_SOURCE, find=model_metrics),
)
