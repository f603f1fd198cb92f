"""Errors of trtexec, read from its log.

The format of its ONNX parser (ModelImporter.cpp of onnx/onnx-tensorrt at release/8.6-GA and main, read on
2026-11-21; logs in issues onnx/onnx-tensorrt 800, NVIDIA/TensorRT 4488 and antgroup/ditto-talkinghead 45):

    [E] [TRT] ModelImporter.cpp:961: While parsing node number 11 [GridSample3D -> "warped"]:
    [E] [TRT] ModelImporter.cpp:964: --- Begin node ---
    input: "features"
    ...
    [E] [TRT] ModelImporter.cpp:967: ERROR: onnxOpCheckers.cpp:818 In function checkFallbackPluginImporter:
    [6] creator && "Plugin not found, are the plugin name, version, and namespace correct?"

The parser looks for a plugin for each unknown operator, so the error names a missing plugin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_NODE = re.compile(r"While parsing node number \d+ \[(?P<operator>[^\s\]]+)")
_NAMED = re.compile(r"In node -?\d+ with name: .* and operator: (?P<operator>\S+)")
_NO_PLUGIN = ("FallbackPluginImporter", "Plugin not found")
_OF_THE_PARSER = re.compile(r"^(?:\[TRT\] )?(?:\S*ModelImporter\.cpp:\d+: )?")
_SHOWN = 3


def unknown_operators(log: str) -> tuple[str, ...]:
    """Return the operators in the log that TensorRT does not support."""
    found: dict[str, None] = {}
    parsed: str | None = None
    for line in log.splitlines():
        if named := _NAMED.search(line) or _NODE.search(line):
            parsed = named["operator"]
        if parsed is not None and any(each in line for each in _NO_PLUGIN):
            found[parsed] = None
    return tuple(found)


def first_complaints(log: str) -> str:
    """Return the first lines marked as errors; later ones only repeat the failure."""
    errors = list(_errors(log.splitlines()))
    return "; ".join(errors[:_SHOWN]) or _last_line(log) or "no error in the log"


def _errors(lines: list[str]) -> Iterator[str]:
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if "[E]" not in line:
            continue
        said = _OF_THE_PARSER.sub("", line.partition("[E]")[2].strip())
        if said.startswith("---"):
            continue
        # After "ERROR: file.cpp:1 In function x:", the reason is on the next line.
        yield f"{said} {after.strip()}" if said.startswith("ERROR:") and said.endswith(":") else said


def _last_line(log: str) -> str:
    lines = [
        line.strip() for line in log.splitlines() if line.strip() and not line.startswith(("$ ", "&&&&"))
    ]
    return lines[-1] if lines else ""
