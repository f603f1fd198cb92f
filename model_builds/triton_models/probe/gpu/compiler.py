"""Probes of the image's TensorRT: its packages, trtexec, its options, its messages and its timing cache."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from triton_models.artifact.plan_header import PlanHeader
from triton_models.base.errors import FleetError
from triton_models.builds.tensorrt.compiler import Compiler
from triton_models.builds.tensorrt.machine import IMAGE_TRTEXEC, find_compiler, find_trtexec, trtexec_version
from triton_models.builds.tensorrt.options import WAYS, CommandLine, PlanOptions
from triton_models.builds.tensorrt.timing_cache import TimingCache
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.tensorrt import LEVELS, Precision, major
from triton_models.probe.gpu.machine import ran
from triton_models.probe.gpu.situation import GpuProbe, Situation
from triton_models.probe.verdict import Verdict, decide, false, true, undecided

_PACKAGE = re.compile(r"^libnvinfer\d+ (\d+(?:\.\d+)+)", re.MULTILINE)
_OPTION = re.compile(r"--[A-Za-z][A-Za-z0-9]*")
_LOADED = re.compile(r"Loaded (\d+) bytes of (?:\S+ )?timing cache", re.IGNORECASE)
_MADE_UP = "MadeUpOperator"
_LOG_LINES = 60


def packages(situation: Situation) -> Iterator[Verdict]:
    """Compare the image's TensorRT packages with the table and with trtexec's banner."""
    listed = ran("dpkg-query", "-W", "-f", "${Package} ${Version}\\n", "libnvinfer*")
    match, expected = _PACKAGE.search(listed.output), situation.release.tensorrt
    variable = situation.environment.get("TRT_VERSION", "")
    found = match[1] if match else variable.partition("+")[0]
    if match:
        right = variable.partition("+")[0] == found
        yield decide("image-variables", f"TRT_VERSION={variable}; dpkg says {found}", holds=right)
    else:
        yield undecided("image-variables", f"dpkg lists no libnvinfer: {listed.last}")
    trtexec = find_trtexec()
    there = os.access(IMAGE_TRTEXEC, os.X_OK)
    seen = f"{IMAGE_TRTEXEC} is {'there' if there else 'missing'}; builds use {trtexec}"
    yield decide("trtexec-in-image", seen, holds=there)
    if not found:
        reason = f"dpkg lists no libnvinfer, and TRT_VERSION is not set: {listed.last}"
        yield undecided("tensorrt-per-release", reason)
        yield undecided("trtexec-banner", reason)
        return
    situation.observe("tensorrt-of-image", {"release": situation.release.name}, {"tensorrt": found})
    seen = f"TensorRT {found}; the table has {expected}"
    yield decide("tensorrt-per-release", seen, holds=PlanHeader(tensorrt=found).loads_in(expected))
    if trtexec is None:
        yield undecided("trtexec-banner", "there is no trtexec")
        return
    said = trtexec_version(trtexec)
    right = said != "unknown" and PlanHeader(tensorrt=said).loads_in(found)
    yield decide(
        "trtexec-banner", f"trtexec's first line reads as {said}; the image has {found}", holds=right
    )


def options(situation: Situation) -> Iterator[Verdict]:
    """Compare the options in trtexec's help with those of our command lines."""
    trtexec = find_trtexec()
    if trtexec is None or major(situation.release) not in WAYS:
        yield undecided("trtexec-options", "there is no trtexec with known options")
        return
    known = set(_OPTION.findall(ran(str(trtexec), "--help").output))
    if not known:
        yield undecided("trtexec-options", f"`{trtexec} --help` names no option")
        return
    used = sorted({option for precision in _PRECISIONS for option in _used(situation, trtexec, precision)})
    missing = [option for option in used if option not in known]
    asked = {"tensorrt": situation.release.tensorrt, "options": used}
    situation.observe("trtexec-options", asked, {"unknown": missing})
    seen = f"{len(known)} options; of {', '.join(used)} it lacks {', '.join(missing) or 'none'}"
    yield decide("trtexec-options", seen, holds=not missing)


def operator(situation: Situation) -> Iterator[Verdict]:
    """Compile a network with an unknown operator, and check the rule of the error."""
    belief = "unknown-operator-message"
    compiler = _compiler(situation)
    network = situation.folder / "operator" / "1" / "model.onnx"
    network.parent.mkdir(parents=True)
    _write_network(network, _MADE_UP)
    try:
        compiler.compile(network, network.with_suffix(".plan"), shapes={})
    except FleetError as error:
        (problem,) = error.problems
        log = _log(compiler)
        situation.observe("unknown-operator", {"log": log}, {"operators": [_MADE_UP]})
        right = problem.rule == "plan-operator" and _MADE_UP in problem.what
        yield decide(belief, f"[{problem.rule}] {problem.what}", holds=right)
    else:
        yield false(belief, f"TensorRT compiled a network with {_MADE_UP}")


def timing_cache(situation: Situation) -> Iterator[Verdict]:
    """Compile a small network twice, and look for the cache in the second log."""
    belief = "timing-cache-used"
    network = situation.folder / "timed" / "1" / "model.onnx"
    network.parent.mkdir(parents=True)
    _write_network(network, "Relu")
    compiler = _compiler(situation, TimingCache.at(str(situation.folder / "times")))
    for _ in range(2):
        compiler.compile(network, network.with_suffix(".plan"), shapes={})
    match = _LOADED.search(_log(compiler, lines=None))
    if match and int(match[1]):
        yield true(belief, f"the second build's log says {match[0]!r}")
    else:
        yield false(belief, "the second build's log does not report a loaded timing cache")


def hardware_level(situation: Situation) -> Iterator[Verdict]:
    """Compile a small network for every GPU of a compute capability, on the oldest GPU that can."""
    belief = "same-compute-capability-turing"
    compiler = _compiler(situation)
    if compiler.gpu.compute_capability != _TURING:
        yield undecided(
            belief, f"{compiler.gpu.name} has compute capability {compiler.gpu.compute_capability}"
        )
        return
    network = situation.folder / "portable" / "1" / "model.onnx"
    network.parent.mkdir(parents=True)
    _write_network(network, "Relu")
    level = PlanOptions(hardware="same-compute-capability")
    try:
        compiler.compile(network, network.with_suffix(".plan"), shapes={}, options=level)
    except FleetError as error:
        (problem,) = error.problems
        if problem.rule != "plan-compile":
            raise
        yield false(belief, problem.what)
    else:
        yield true(belief, f"{compiler.gpu.name}: a plan was compiled with {LEVELS[level.hardware]}")


_TURING = "7.5"
_PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "fp16")


def _used(situation: Situation, trtexec: Path, precision: Precision) -> Iterator[str]:
    """Yield the options of a command line that uses all of them."""
    command = CommandLine(
        trtexec=trtexec,
        onnx=Path("model.onnx"),
        plan=Path("model.plan"),
        release=situation.release,
        shapes={"x": ShapeRange(min=(1,), opt=(1,), max=(2,))},
        options=PlanOptions(precision=precision, workspace_mb=1, optimization_level=1),
        timing_cache=Path("times"),
    )
    for argument in command.arguments()[1:]:
        yield argument.partition("=")[0]


def _compiler(situation: Situation, cache: TimingCache | None = None) -> Compiler:
    if situation.gpu is None:
        msg = "a probe that needs a GPU"
        raise AssertionError(msg)
    return find_compiler(
        release=situation.release,
        gpu=situation.gpu,
        logs=situation.folder / "trtexec-logs",
        timing_cache=cache,
    )


def _log(compiler: Compiler, *, lines: int | None = _LOG_LINES) -> str:
    newest = max(compiler.logs.glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
    said = newest.read_text(errors="replace").splitlines()[1:]  # the first line is the command, with paths
    return "\n".join(said if lines is None else said[-lines:])


def _write_network(path: Path, operator: str) -> None:
    """Write a network of one node."""
    import onnx
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", ends[:1], ends[1:])
    network = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(network, path)


PROBES = (
    GpuProbe(
        id="tensorrt",
        what="reads TensorRT's version from dpkg and trtexec",
        decides=("tensorrt-per-release", "trtexec-in-image", "trtexec-banner", "image-variables"),
        ask=packages,
    ),
    GpuProbe(id="options", what="reads trtexec's options", decides=("trtexec-options",), ask=options),
    GpuProbe(
        id="operator",
        what="compiles a network with an unknown operator",
        decides=("unknown-operator-message",),
        ask=operator,
        needs_gpu=True,
    ),
    GpuProbe(
        id="timing-cache",
        what="compiles a small network twice",
        decides=("timing-cache-used",),
        ask=timing_cache,
        needs_gpu=True,
    ),
    GpuProbe(
        id="hardware-level",
        what="compiles a small network for every GPU of a T4's compute capability",
        decides=("same-compute-capability-turing",),
        ask=hardware_level,
        needs_gpu=True,
    ),
)
