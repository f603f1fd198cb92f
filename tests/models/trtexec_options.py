"""The options of trtexec, per version of TensorRT."""

from __future__ import annotations

import json
from pathlib import Path

_TAGS = json.loads(Path(__file__).with_suffix(".json").read_text())["tags"]


def tag_of(tensorrt: str) -> str:
    """The newest tag of NVIDIA/TensorRT that is not newer than a version, and of the same major."""
    wanted = _number(tensorrt)
    older = [tag for tag in _TAGS if _number(tag[1:])[0] == wanted[0] and _number(tag[1:]) <= wanted]
    return max(older, key=lambda tag: _number(tag[1:]))


def options_of(tensorrt: str) -> frozenset[str]:
    """The options that a version takes, such as "--onnx"."""
    return frozenset(f"--{name}" for name in _TAGS[tag_of(tensorrt)]["options"].split())


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:3]))
