"""What ONNX Runtime says of an ONNX file: from a session if the package is there, otherwise from the file.

A backend compares outputs with what its session infers, which differs from what a file says: in one of 20
files that PyPI packages ship (2026-11-28). The graph's optimization level counts, because folded constants
become sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from triton_models.artifact.networks import NetworkTensor, OnnxHead, Signature, onnx_signature
from triton_models.check.backend_rules.onnxruntime import Network, Tensor, network_of
from triton_models.facts.dali import version_numbers
from triton_models.facts.releases import Release

ONNX_OUTPUTS = "onnx_outputs"
"""The key of build.json with the sizes that ONNX Runtime infers for outputs, by model and output."""

MOST_BYTES = 1 << 30
"""The largest file that is loaded for its sizes; a session takes about a second for each 100 MB."""

# The images of Triton are built on Ubuntu's, without locales of languages: issue 153 of onnxruntime_backend.
_LOCALES = frozenset({"", "C", "C.UTF-8", "C.utf8", "POSIX"})

# The exceptions for an invalid file, and what they say if a file is not even read into a graph: a session
# that fails later may only lack an operator's implementation for the CPU. Weights elsewhere have a check of
# their own. Tried with ONNX Runtime 1.31, 2026-11-28.
_INVALID = frozenset({"Fail", "InvalidGraph", "InvalidProtobuf", "InvalidArgument"})
_WHILE_LOADING = re.compile(
    r"(?i)load model from|invalid model|type error|inferenceerror|registered|protobuf|official support"
)
INITIALIZING = "Exception during initialization"
_ELSEWHERE = re.compile(r"(?i)external")
_PLACES = re.compile(
    r"^\[ONNXRuntimeError\] : \d+ : \w+ : |Load model from .*? failed: ?|Fatal error: "
    r"|/\S+\.(?:cc|h):\d+ .*?\) (?=[A-Z])"
)

# ONNX Runtime's words for operators and versions that it does not have, before it looks at providers.
_FOREIGN = re.compile(r"([\w.-]*):\w+\(-?\d+\) is not a registered|\(\"[^\"]*\", \w+, \"([\w.-]+)\", -1\)")
_VERSIONED = re.compile(r"registered|IR version|official support")
_OWN_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
_AGAIN = "export the network again"

PLUGIN_DOMAIN = "trt.plugins"
"""The domain of TensorRT's plugins: the only operators that an execution provider of the images adds.

Source: tensorrt_execution_provider_custom_ops.cc of ONNX Runtime, read 2026-11-28.
"""

_KINDS = frozenset({"sequence", "map", "sparse_tensor", "optional", "unknown"})

# The backend's reading of `optimization { graph { level } }`; every other level means all.
_LEVELS = {-1: "ORT_ENABLE_BASIC", 1: "ORT_ENABLE_EXTENDED", 2: "ORT_DISABLE_ALL"}


class RefusedError(Exception):
    """ONNX Runtime refuses a file on every device; the text is its first line, without paths and codes."""


def session_of(source: Path | bytes, *, level: int = 0) -> Any | None:
    """Return a session of ONNX Runtime on the CPU.

    None if there is no package, or if the session fails for a reason that may not hold elsewhere, such as an
    operator that only GPUs have.

    Raises:
        RefusedError: The file is no valid network.
    """
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    name = _LEVELS.get(level, "ORT_ENABLE_ALL")
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, name)
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    content = source if isinstance(source, bytes) else str(source)
    try:
        # Without enable_fallback=0, it prints errors of a damaged file, and tries again.
        return onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # ONNX Runtime's exceptions have no common class
        said = str(error).strip().partition("\n")[0]
        is_invalid = type(error).__name__ in _INVALID and _WHILE_LOADING.search(said)
        if (is_invalid or INITIALIZING in said) and not _ELSEWHERE.search(said):
            raise RefusedError(_PLACES.sub("", said).strip()) from error
        return None


def newer_versions(head: OnnxHead, release: Release) -> Iterator[tuple[str, str]]:
    """Yield the versions of a file that a release does not read, with what to do."""
    for what, version, most, do in (
        ("IR version", head.ir_version, release.onnx_ir_version, "set its ir_version to"),
        ("opset", head.opset, release.onnx_opset, "export it again with opset_version"),
        ("ai.onnx.ml opset", head.ml_opset, release.onnx_ml_opset, "export it again with ai.onnx.ml"),
    ):
        if version > most:
            newest = f"the newest for ONNX Runtime {release.onnxruntime} of release {release.name}"
            yield (
                f"an ONNX file with {what} {version}",
                f"{do} {most}, {newest}; or serve it with a newer release",
            )


def refusal_of(
    message: str, *, release: Release | None, has_library: bool = False, has_plugins: bool = False
) -> tuple[str, str]:
    """Return what to say of a `RefusedError`, and what to do; empty if the server may know the operator.

    Args:
        message: The error's text.
        release: The release of the server, whose ONNX Runtime may be newer than the one here.
        has_library: True if the server loads a library of operators.
        has_plugins: True if the server runs the network with TensorRT's execution provider.
    """
    foreign = _FOREIGN.search(message)
    domain = (foreign[1] or foreign[2] or "") if foreign else ""
    if foreign and (has_library or (has_plugins and domain == PLUGIN_DOMAIN)):
        return "", ""
    if _VERSIONED.search(message) and release and is_older_than(release.onnxruntime):
        return "", ""
    fix = _AGAIN
    if foreign and domain not in _OWN_DOMAINS:
        fix = f"name the library with the operators of {domain} in config.pbtxt: model_operations "
        fix += f'{{ op_library_filename: "/path/in/the/image.so" }}; or {_AGAIN} with operators of ONNX'
    return f"ONNX Runtime refuses the file: {message}", fix


def missing_locale(head: OnnxHead) -> tuple[str, str]:
    """Return which locale of a file Triton's images do not have, and what to do; empty if they have all."""
    for locale in sorted(head.locales - _LOCALES):
        what = f"a StringNormalizer with the locale {locale!r}, which Triton's images do not have"
        fix = 'give each StringNormalizer the attribute locale "C.UTF-8": '
        return what, fix + 'node.attribute.append(onnx.helper.make_attribute("locale", "C.UTF-8"))'
    return "", ""


def is_older_than(version: str) -> bool:
    """Return whether the installed ONNX Runtime is older, and may lack what that version has."""
    import onnxruntime

    return version_numbers(onnxruntime.__version__)[:2] < version_numbers(version)[:2]


def network_of_file(
    head: OnnxHead,
    source: Path | bytes | None,
    *,
    level: int = 0,
    recorded: Mapping[str, Sequence[int | None]] | None = None,
) -> Network:
    """Return what ONNX Runtime says of a file, which is None if it is too large to load.

    Without a session, outputs have the sizes that the build recorded, or that the package onnx infers.

    Raises:
        RefusedError: ONNX Runtime refuses the file.
    """
    session = None if source is None else session_of(source, level=level)
    if session is not None:
        return network_of(session)
    outputs = [_tensor(tensor, unknown=None) for tensor in head.signature.outputs]
    sizes = {name: tuple(dims) for name, dims in (recorded or _inferred(source)).items()}
    return Network(
        inputs=tuple(_tensor(tensor, unknown=-1) for tensor in head.signature.inputs),
        outputs=tuple(replace(tensor, dims=sizes.get(tensor.name, tensor.dims)) for tensor in outputs),
        initializers=tuple(_tensor(tensor, unknown=-1) for tensor in head.initializers),
    )


def session_signature(path: Path) -> Signature:
    """Return the inputs of an ONNX file, and its outputs with the sizes that ONNX Runtime infers, if it does.

    Raises:
        FleetError: It is not an ONNX file.
    """
    signature = onnx_signature(path)
    try:
        session = session_of(path) if path.stat().st_size <= MOST_BYTES else None
    except RefusedError:  # reported by the checks
        session = None
    shapes = {} if session is None else {entry.name: entry.shape for entry in session.get_outputs()}
    outputs = []
    for tensor in signature.outputs:
        shape = shapes.get(tensor.name)
        # ONNX Runtime says [] for a scalar, and also if it does not know the number of dimensions.
        is_known = shape is not None and (shape or tensor.dims is not None) and tensor.data_type not in _KINDS
        sizes = [size if not isinstance(size, int) or size >= 0 else None for size in shape or ()]
        outputs.append(replace(tensor, dims=sizes) if is_known else tensor)
    return Signature(inputs=signature.inputs, outputs=outputs)


def recorded_sizes(signature: Signature) -> dict[str, list[int]]:
    """Return the sizes of outputs for build.json, with -1 for an open one."""
    return {
        tensor.name: [size if isinstance(size, int) else -1 for size in tensor.dims]
        for tensor in signature.outputs
        if tensor.dims is not None
    }


def _tensor(tensor: NetworkTensor, *, unknown: int | None) -> Tensor:
    """Return a tensor as the file describes it; only ONNX Runtime knows an output's open sizes."""
    kind = tensor.data_type if tensor.data_type in _KINDS else "tensor"
    dims: tuple[int | None, ...] | None = () if unknown else None
    if tensor.dims is not None:
        dims = tuple(size if isinstance(size, int) else unknown for size in tensor.dims)
    return Tensor(name=tensor.name, data_type=tensor.data_type, dims=dims, kind=kind)


def _inferred(source: Path | bytes | None) -> Mapping[str, Sequence[int | None]]:
    """Return the sizes of outputs that the package onnx infers; nothing without it."""
    if source is None:
        return {}
    try:
        import onnx

        if isinstance(source, bytes):
            model = onnx.load_model_from_string(source)
        else:
            model = onnx.load_model(source, load_external_data=False)
        outputs = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
    except Exception:  # noqa: BLE001  onnx and protobuf raise many
        return {}
    return {
        value.name: [
            size.dim_value if size.HasField("dim_value") and size.dim_value >= 0 else None
            for size in value.type.tensor_type.shape.dim
        ]
        for value in outputs
        if value.type.tensor_type.HasField("shape")
    }
