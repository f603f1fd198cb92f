"""The types of tensors that Triton's openvino backend supports."""

from __future__ import annotations

# ModelConfigDataTypeToOpenVINOElement of src/openvino_utils.cc of openvino_backend (main), read 2026-11-24.
OPENVINO_TYPES = frozenset(
    {"TYPE_BOOL", "TYPE_FP16", "TYPE_FP32"}
    | {f"TYPE_{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
)
