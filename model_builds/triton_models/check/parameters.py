"""Checks of settings that backends read: parameters, accelerators and types.

Sources, read 2026-11-21: src/onnxruntime.cc of onnxruntime_backend (24.10 and main), src/tensorrt_utils.cc of
tensorrt_backend and src/libtorch.cc of pytorch_backend (24.10); src/metric_model_reporter.cc of Triton core
(24.10), and ValidateModelMetrics in its src/model_config_utils.cc (main of 2026-06-09). Settings
that crash the server were tested on the bundled one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from triton_models.artifact.pbtxt import ModelConfig, as_json
from triton_models.base.checks import Check
from triton_models.base.suggest import did_you_mean
from triton_models.check.backend_rules import dali
from triton_models.check.subject import Findings, Model, is_on_cpu, parameter, rule, tensors_of, type_name
from triton_models.check.target import MULTI_MODEL_ENDPOINT
from triton_models.facts.limits import LOAD_LIMIT_S
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import ENGINE_AT_LOAD_S, PLAN_TYPES

_SOURCE = (
    "2026-11-21: onnxruntime_backend, tensorrt_backend, python_backend and pytorch_backend 24.10, Triton core"
)
PLAN_TYPE = rule("plan-type", _SOURCE)
BF16_TENSOR = rule("bf16-tensor", "triton_models.facts.releases")
GRAPH_SPEC = rule("graph-spec", "2026-11-26: ValidateGraphSpec of tensorrt_backend r25.09")
ONNXRUNTIME_PARAMETER = rule("onnxruntime-parameter", _SOURCE)
ACCELERATOR = rule("accelerator", _SOURCE)
ENGINE_AT_LOAD = rule(
    "engine-at-load", "triton_models.facts.tensorrt: ENGINE_AT_LOAD_S", endpoints=(MULTI_MODEL_ENDPOINT,)
)
PYTORCH_PARAMETER = rule(
    "pytorch-parameter", "2026-11-28: pytorch_backend r24.03 to r26.05; ParseBoolValue of backend"
)
PYTORCH_OUTPUT = rule("pytorch-output", _SOURCE)
DALI_FILE = rule("dali-file", "2026-11-28: dali_backend r24.01 to r26.06, src/dali_model.h")
METRIC_TAG = rule("metric-tag", _SOURCE)
MODEL_METRICS = rule("model-metrics", _SOURCE)

Values = Mapping[str, tuple[str, str]]
"""The beginning of an accepted value as a pattern, and as words, by parameter."""

_NUMBER = (r"\s*[+-]?[0-9]|\Z", "a number in digits, such as 4")
_SWITCH = (r"(?ai:true|false|on|off|1|0)\Z", "true or false")
_ONNX_RUNTIME: Values = {
    "execution_mode": (r"\s*\+?0*[01](?![0-9])|\Z", "0 or 1"),
    "inter_op_thread_count": _NUMBER,
    "intra_op_thread_count": _NUMBER,
    "enable_mem_arena": _SWITCH,
    "enable_mem_pattern": _SWITCH,
}

# ParseParameters of pytorch_backend, src/libtorch.cc of r24.03 to r25.09 and src/pt/model_state.cc of r26.05,
# with the release from which it reads a parameter; ParseBoolValue and ParseIntValue (std::stoi) of backend,
# src/backend_common.cc. Read 2026-11-28.
_INTEGER = (r"\s*[+-]?[0-9]", "a number in digits, such as 4")
_LIBTORCH: Mapping[str, Values] = {
    "23.01": dict.fromkeys(
        [
            *("DISABLE_OPTIMIZED_EXECUTION", "ENABLE_CACHE_CLEANING", "INFERENCE_MODE"),
            *("ENABLE_TENSOR_FUSER", "ENABLE_WEIGHT_SHARING", "ENABLE_JIT_PROFILING", "ENABLE_JIT_EXECUTOR"),
        ],
        _SWITCH,
    ),
    "24.06": {"DISABLE_CUDNN": _SWITCH},
    "24.05": {"INTRA_OP_THREAD_COUNT": _INTEGER, "INTER_OP_THREAD_COUNT": _INTEGER},
}

_TENSORRT_TEXT = """
int8_calibration_table_name int8_use_native_calibration_table max_workspace_size_bytes precision_mode
trt_auxiliary_streams trt_build_heuristics_enable trt_builder_optimization_level
trt_context_memory_sharing_enable trt_cuda_graph_enable trt_detailed_build_log trt_dla_core trt_dla_enable
trt_dump_ep_context_model trt_dump_subgraphs trt_engine_cache_enable trt_engine_cache_path
trt_engine_cache_prefix trt_ep_context_embed_mode trt_ep_context_file_path trt_extra_plugin_lib_paths
trt_force_sequential_engine_build trt_force_timing_cache trt_layer_norm_fp32_fallback
trt_max_partition_iterations trt_min_subgraph_size trt_profile_max_shapes trt_profile_min_shapes
trt_profile_opt_shapes trt_sparsity_enable trt_tactic_sources trt_timing_cache_enable trt_timing_cache_path
"""
_TENSORRT_PARAMETERS = frozenset(_TENSORRT_TEXT.split())
# onnxruntime_backend has the others, and BF16 as precision_mode, from these releases on: src/onnxruntime.cc
# of its branches r23.01 to r26.06, read 2026-11-28.
_FIRST_TENSORRT_PARAMETERS = frozenset(
    [
        *("precision_mode", "max_workspace_size_bytes", "int8_calibration_table_name"),
        *("int8_use_native_calibration_table", "trt_engine_cache_enable", "trt_engine_cache_path"),
    ]
)
_MORE_TENSORRT_PARAMETERS, _BF16_ACCELERATOR = "24.04", "26.02"
_ACCELERATORS = "optimization: execution_accelerators"
_PRECISIONS = frozenset({"FP32", "FP16", "BF16", "INT8"})
_GPU_ACCELERATORS = frozenset({"cuda", "tensorrt"})
_CPU_ACCELERATORS = frozenset({"openvino"})

# Core adds an underscore in front and uses the tag as a label: src/metric_model_reporter.cc.
_METRIC_TAG = re.compile(r"(?!_)[A-Za-z0-9_]*")


def check_model(report: Findings, model: Model, config: ModelConfig) -> None:
    """Report settings that a model's backend, or Triton's metrics, do not accept."""
    if not model.is_ensemble:
        _check_for_backend(report, model, config)
    for name in sorted(config.metric_tags):
        if not _METRIC_TAG.fullmatch(name):
            fix = "use letters, digits and underscores, starting with a letter or digit"
            why = "it crashes the server: the tag becomes the label of a metric"
            report(METRIC_TAG, f"the metric tag {name!r}", at="metric_tags", fix=fix, why=why)
    for control in config.model_metrics.metric_control:
        if not control.metric_identifier.family or not control.histogram_options.buckets:
            what = "a metric_control without a family or without buckets"
            fix = "add metric_identifier { family } and histogram_options { buckets }, or remove it"
            report(MODEL_METRICS, what, at="model_metrics: metric_control", fix=fix)


def _check_for_backend(report: Findings, model: Model, config: ModelConfig) -> None:
    backend, release = model.backend.name, model.target.release
    if backend == "tensorrt":
        _check_types(report, config)
        _check_graphs(report, config)
    elif backend == "onnxruntime":
        check_values(report, ONNXRUNTIME_PARAMETER, config, _ONNX_RUNTIME)
        _check_accelerators(report, model, config)
    elif backend == "dali":
        for refusal in dali.refusals(as_json(config), release=release.name if release else None):
            report(DALI_FILE, refusal.what, at=refusal.at, fix=refusal.fix)
    elif backend == "pytorch" and config.runtime != "model.py" and model.text is not None:
        _check_libtorch(report, model, config)
    since = release.bf16_since(backend) if release else None
    for _, tensor in tensors_of(config) if since else ():
        if release and type_name(tensor.data_type) == "TYPE_BF16":
            what = f"{tensor.name!r} is TYPE_BF16, for {backend} of release {release.name}"
            fix = f"use release {since} or newer, or cast it inside the network"
            report(BF16_TENSOR, what, at=tensor.name, fix=fix)


def _check_libtorch(report: Findings, model: Model, config: ModelConfig) -> None:
    release = model.target.release
    for since, accepted in _LIBTORCH.items():
        if release is None or release.name >= since:
            check_values(report, PYTORCH_PARAMETER, config, accepted)
    # A TorchScript file does not name its outputs.
    if not config.output:
        fix = "add every output with name, data_type and dims"
        report(PYTORCH_OUTPUT, f"{model.folder!r} lists no output", at="output", fix=fix)


def _check_graphs(report: Findings, config: ModelConfig) -> None:
    most = config.max_batch_size
    least = min(most, 1)
    cuda = config.optimization.cuda
    for spec in cuda.graph_spec if cuda.graphs else ():
        bounds = [spec.graph_lower_bound.batch_size] if spec.HasField("graph_lower_bound") else []
        sizes = [*bounds, spec.batch_size]
        if sizes != sorted(sizes) or not least <= sizes[0] <= sizes[-1] <= most:
            what = f"a graph for batches of {' to '.join(map(str, sizes))}, and max_batch_size {most}"
            fix = f"use sizes from {least} to {most}, the lower bound first" if most else "use 0"
            report(GRAPH_SPEC, what, at="optimization: cuda: graph_spec", fix=fix)


def _check_accelerators(report: Findings, model: Model, config: ModelConfig) -> None:
    accelerators, release = config.optimization.execution_accelerators, model.target.release
    for entry in accelerators.cpu_execution_accelerator:
        _check_name(report, "accelerator", entry.name, _CPU_ACCELERATORS)
    if is_on_cpu(config) or model.target.gpu_count == 0:
        return  # the backend reads the others for instances on GPUs only
    for entry in accelerators.gpu_execution_accelerator:
        _check_name(report, "accelerator", entry.name, _GPU_ACCELERATORS)
        if entry.name == "tensorrt":
            _check_tensorrt(report, entry.parameters, release)
        elif entry.name == "cuda" and release and not release.switches_tf32:
            what = f"the accelerator cuda with release {release.name}"
            fix = "build the model again for this release, use 24.06 or newer, or remove the accelerator"
            report(ACCELERATOR, what, at=_ACCELERATORS, fix=fix)


def _check_tensorrt(report: Findings, parameters: Mapping[str, str], release: Release | None) -> None:
    known, precisions = _TENSORRT_PARAMETERS, _PRECISIONS
    if release is not None and release.name < _MORE_TENSORRT_PARAMETERS:
        known = _FIRST_TENSORRT_PARAMETERS
    if release is not None and release.name < _BF16_ACCELERATOR:
        precisions -= {"BF16"}
    for name in sorted(parameters):
        _check_name(report, "parameter of the accelerator tensorrt", name, known)
    _check_name(report, "precision_mode", parameters.get("precision_mode", "FP32"), precisions)
    least, usual, most = ENGINE_AT_LOAD_S
    what = "the accelerator tensorrt of ONNX Runtime on a multi-model endpoint"
    fix = "declare the file as OnnxFile(..., backend=TensorRt()), whose plan is compiled in the build; or "
    fix += "remove the accelerator"
    why = f"every load compiles the network, about {usual} s ({least} to {most}), also after each eviction; "
    why += f"SageMaker answers 429 after {LOAD_LIMIT_S} s"
    report(ENGINE_AT_LOAD, what, at=_ACCELERATORS, fix=fix, why=why)


def _check_name(report: Findings, what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        otherwise = f"use one of {', '.join(sorted(known))}, or remove it"
        fix = did_you_mean(name, known, otherwise=otherwise)
        report(ACCELERATOR, f"unknown {what} {name!r}", at=_ACCELERATORS, fix=fix)


def check_values(report: Findings, rule: Check, config: ModelConfig, accepted: Values) -> None:
    """Report parameters with a value that the backend does not accept."""
    for name, (pattern, words) in accepted.items():
        value = parameter(config, name)
        if value is not None and not re.match(pattern, value):
            report(rule, f"{name} is {value!r}", at=f"parameters: {name}", fix=f"write {words}")


def _check_types(report: Findings, config: ModelConfig) -> None:
    for part, tensor in tensors_of(config):
        at, data_type = f"{part} {tensor.name!r}", type_name(tensor.data_type)
        if tensor.data_type and data_type not in PLAN_TYPES:
            fix = f"use one of {', '.join(sorted(PLAN_TYPES))}; it is that of the plan's tensor"
            report(PLAN_TYPE, f"{at} is {data_type}", at=at, fix=fix)
