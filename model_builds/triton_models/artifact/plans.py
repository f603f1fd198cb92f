"""The TensorRT parts of an artifact: plans and their versions, or stand-ins.

A portable artifact is not built for an endpoint: it lacks the parts that depend on a target, which build.json
lists under "left_out". It has an ONNX file or a stand-in instead of TensorRT's plan. It is for rehearsals: on
an endpoint every request for it fails, while the endpoint reports InService. A build for CPUs is not portable
in this sense, because its backend is ONNX Runtime and it does not use TensorRT.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator

from triton_models.artifact.layout import Layout, is_version
from triton_models.artifact.networks import HEADER_BYTES, read_plan_header
from triton_models.artifact.pbtxt import CONFIG_FILE, parse_config
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem

PORTABLE_ARTIFACT = Check(id="portable-artifact", source=FROM_ARGUMENTS)

PORTABLE_VARIABLE = "FLEET_PORTABLE"


def is_rehearsal() -> bool:
    """Return True if the environment requests portable builds, as in a rehearsal."""
    return os.environ.get(PORTABLE_VARIABLE) == "1"


_ONNX, _PLAN = ".onnx", ".plan"


def is_portable(layout: Layout) -> bool:
    """Return True if a build omitted parts, or a TensorRT model has an ONNX file instead of its plan."""
    if layout.build().get("left_out"):
        return True
    for folder in _tensorrt_models(layout):
        for files in _versions(layout, folder):
            suffixes = {posixpath.splitext(path)[1] for path in files}
            if _ONNX in suffixes and _PLAN not in suffixes:
                return True
    return False


def tensorrt_versions(layout: Layout) -> tuple[str, ...]:
    """Return the sorted versions of TensorRT in the headers of an artifact's plans."""
    found = set()
    for folder in _tensorrt_models(layout):
        for path in (path for files in _versions(layout, folder) for path in files):
            header = read_plan_header(layout.beginning(path, HEADER_BYTES) or b"")
            if header is not None:
                found.add(header.tensorrt)
    return tuple(sorted(found))


def _tensorrt_models(layout: Layout) -> Iterator[str]:
    for path, text in layout.texts.items():
        if posixpath.basename(path) != CONFIG_FILE:
            continue
        config = parse_config(text.decode(), where=layout.place(path))
        if config.backend == "tensorrt" or config.platform == "tensorrt_plan":
            yield posixpath.dirname(path)


def _versions(layout: Layout, folder: str) -> Iterator[list[str]]:
    for version in layout.children(folder):
        if is_version(version):
            inside = posixpath.join(folder, version)
            yield [path for path in layout.files if posixpath.dirname(path) == inside]


def refused(portable: Iterable[str], *, repository: str) -> Iterator[Problem]:
    """Yield the problems of publishing portable artifacts to a repository of endpoints."""
    for name in portable:
        yield PORTABLE_ARTIFACT.problem(
            what=f"{name} is portable, so it lacks parts for an endpoint, such as a plan",
            where=repository,
            why="an endpoint would report InService, but refuse the model on every request",
            fix="build it with --gpu for a GPU endpoint, otherwise with --cpu, as a build job does; a "
            f"rehearsal sets {PORTABLE_VARIABLE}=1",
        )
