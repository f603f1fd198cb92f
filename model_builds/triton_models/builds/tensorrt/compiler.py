"""The compilation of an ONNX file to a plan, with a log, a time limit, and errors that name a cause.

The format of the errors of trtexec's ONNX parser (ModelImporter.cpp of onnx/onnx-tensorrt at release/8.6-GA
and main, read on 2026-11-21; logs in issues onnx/onnx-tensorrt 800, NVIDIA/TensorRT 4488 and
antgroup/ditto-talkinghead 45):

    [E] [TRT] ModelImporter.cpp:961: While parsing node number 11 [GridSample3D -> "warped"]:
    [E] [TRT] ModelImporter.cpp:964: --- Begin node ---
    input: "features"
    ...
    [E] [TRT] ModelImporter.cpp:967: ERROR: onnxOpCheckers.cpp:818 In function checkFallbackPluginImporter:
    [6] creator && "Plugin not found, are the plugin name, version, and namespace correct?"

The parser looks for a plugin for each unknown operator, so the error names a missing plugin.
"""

from __future__ import annotations

import contextlib
import math
import re
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from triton_models.artifact.networks import HEADER_BYTES, PlanHeader, read_plan_header
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.processes import end_group, tie_to_parent
from triton_models.builds.tensorrt import autocast
from triton_models.builds.tensorrt.options import CommandLine, PlanOptions, check_precision, way
from triton_models.builds.tensorrt.timing_cache import TimingCache
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import LEVELS, plan_problems

_TRTEXEC = "2026-11-21: samples/common of NVIDIA/TensorRT"
PLAN_OPERATOR = Check(id="plan-operator", source=_TRTEXEC)
PLAN_COMPILE = Check(id="plan-compile", source=_TRTEXEC)
PLAN_PLUGIN = Check(id="plan-plugin", source=_TRTEXEC)
NOT_A_PLAN = Check(id="not-a-plan", source=_TRTEXEC)
TENSORRT_VERSION = Check(id="tensorrt-version", source=_TRTEXEC)
COMPILE_TIMEOUT = Check(id="compile-timeout", source=FROM_ARGUMENTS)

COMPILE_TIMEOUT_S = 3600.0
"""The default time limit for a plan: most take minutes, a large one with all optimizations half an hour."""

# The part of a failed run's log to copy to standard error, because a build machine and its files are deleted.
_SHOWN_LINES = 200
_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """A trtexec that matches a release, on a machine with the GPU; created by `find_compiler`.

    Attributes:
        device: The machine's name of the GPU, such as "NVIDIA A10G".
        tensorrt: Its TensorRT version, as precise as known.
        logs: The folder for trtexec's logs, one per model.
    """

    trtexec: Path
    gpu: Gpu
    release: Release
    device: str = ""
    tensorrt: str = ""
    logs: Path = field(default_factory=lambda: Path(tempfile.gettempdir()) / "fleet-logs")
    timing_cache: TimingCache | None = None
    timeout_s: float = COMPILE_TIMEOUT_S

    def compile(
        self,
        onnx: Path,
        plan: Path,
        *,
        profiles: Sequence[Mapping[str, ShapeRange]],
        options: PlanOptions = PlanOptions(),  # noqa: B008  frozen
    ) -> dict[str, Any]:
        """Compile an ONNX file into a plan, and return the plan's record for build.json."""
        check_precision(self.release, options.precision)
        where = f"the plan of {onnx.parent.parent.name}"
        report = Report(where)
        report.add(
            plan_problems(
                options.precision, options.hardware, release=self.release, gpu=self.gpu, where=where
            )
        )
        _check_plugins(report, options.plugins)
        report.raise_if_any()
        self.logs.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"{onnx.parent.parent.name}.log"
        about: dict[str, Any] = {"gpu": self.gpu.name, "device": self.device, "precision": options.precision}
        if options.hardware in LEVELS:
            about["hardware"] = LEVELS[options.hardware]
        if options.plugins:
            about["plugins"] = ";".join(options.plugins)
        try:
            with log.open("wb") as output, contextlib.ExitStack() as stack:
                if to := way(self.release, options.precision).autocast:
                    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-autocast-")))
                    about["autocast"], onnx = self._cast(onnx, folder, output, to=to)
                cache = stack.enter_context(self._times())
                command = CommandLine(
                    trtexec=self.trtexec,
                    onnx=onnx,
                    plan=plan,
                    release=self.release,
                    profiles=profiles,
                    options=options,
                    timing_cache=cache,
                ).arguments()
                self._run(command, output, what=f"compiling {onnx.name}")
            version = plan_version(plan)
            where = f"the plan that {self.trtexec} wrote"
            raise_if_any(version_problems(version, self.release, where=where))
        except FleetError:
            plan.unlink(missing_ok=True)
            _show(log)
            raise
        if memory := plan_memory(log.read_text(errors="replace"), size=plan.stat().st_size):
            about["memory_mb"] = sum(memory)
            sys.stderr.write(
                f"note: the plan of {log.stem} takes {sum(memory)} MiB of GPU memory per instance: "
                f"{memory[0]} for its weights, {memory[1]} to compute the largest batch\n"
            )
        return {**about, "tensorrt": version}

    def _cast(self, onnx: Path, folder: Path, output: IO[bytes], *, to: str) -> tuple[str, Path]:
        """Convert an ONNX file to lower precision, and return the tool's version and the converted file."""
        converted = folder / onnx.name
        command = autocast.command(onnx, converted, to=to)
        self._run(command, output, what=f"converting {onnx.name} to {to.upper()}")
        autocast.check_converted(onnx, converted, log=Path(output.name))
        return autocast.version(), converted

    def _times(self) -> contextlib.AbstractContextManager[Path | None]:
        if self.timing_cache is None:
            return contextlib.nullcontext()
        return self.timing_cache.used(tensorrt=self.tensorrt, gpu=self.gpu.name)

    def _run(self, command: Sequence[str], output: IO[bytes], *, what: str) -> None:
        output.write(f"$ {' '.join(command)}\n".encode())
        output.flush()
        log = Path(output.name)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=tie_to_parent,  # noqa: PLW1509  a single call of the C library
        )
        try:
            status = process.wait(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            raise COMPILE_TIMEOUT.error(
                what=f"{what} was ended after the time limit of {self.timeout_s:g} seconds",
                where=f"the network of {log.stem!r}; the log is {log}",
                fix="check the end of the log; lower optimization_level, or raise --compile-timeout",
            ) from None
        finally:
            end_group(process)
        if status:
            raise self._failed(what, log, status)

    def _failed(self, what: str, log: Path, status: int) -> FleetError:
        text = log.read_text(errors="replace")
        where = f"the network of {log.stem!r}; the log is {log}"
        if operators := unknown_operators(text):
            tensorrt = self.tensorrt or self.release.tensorrt
            what = f"TensorRT {tensorrt} has no operator {', '.join(map(repr, operators))}"
            fix = "replace the operator in the network, or serve the model with OnnxRuntime()"
            why = "trtexec found neither an operator nor a plugin of that name"
            return PLAN_OPERATOR.error(what=what, where=where, why=why, fix=fix)
        what = f"{what} failed (exit status {status}): {first_complaints(text)}"
        fix = "check the log, whose first line is the command; rerun it with --verbose for details"
        return PLAN_COMPILE.error(what=what, where=where, fix=fix)


_WEIGHTS, _ACTIVATIONS = (re.compile(rf"Total {each} Memory: ([0-9]+)") for each in ("Weights", "Activation"))


def plan_memory(log: str, *, size: int) -> tuple[int, int] | None:
    """Return the MiB of GPU memory for weights and for activations in trtexec's log; None without them.

    TensorRT prints the activations once before it chooses kernels, and after that those of the plan. Before
    version 10 it does not print the weights: then they take about the plan's size.
    """
    planned = log.partition(" network tensors.")[2]
    activations = [int(each) for each in _ACTIVATIONS.findall(planned)]
    if not activations:
        return None
    weights = max(map(int, _WEIGHTS.findall(planned)), default=size)
    return math.ceil(weights / _MIB), math.ceil(max(activations) / _MIB)


def _check_plugins(report: Report, plugins: Sequence[str]) -> None:
    for plugin in plugins:
        if not Path(plugin).is_file():
            fix = "build in the image of the endpoint, with the library: `image` in cdk.json"
            why = "TensorRT finds the network's own operators in it"
            report(PLAN_PLUGIN, f"there is no {plugin}", fix=fix, why=why)


def plan_version(plan: Path) -> str:
    """Return the TensorRT version that compiled a plan, from its first bytes."""
    header: PlanHeader | None = None
    with contextlib.suppress(FileNotFoundError), plan.open("rb") as file:
        header = read_plan_header(file.read(HEADER_BYTES))
    if header is None:
        what = f"{plan.name} is not a TensorRT plan, as trtexec --saveEngine writes it"
        fix = "rebuild the model with `fleet build --gpu ...`"
        raise NOT_A_PLAN.error(what=what, where=str(plan), fix=fix)
    return header.tensorrt


def version_problems(version: str, release: Release, *, where: str) -> Iterator[Problem]:
    """Yield a problem if a TensorRT version differs from the release's; only known parts are compared."""
    if not PlanHeader(tensorrt=version).loads_in(release.tensorrt):
        why = "a plan loads only in the TensorRT version that compiled it"
        fix = f"build inside the image of release {release.name}, which has {release.tensorrt}"
        yield TENSORRT_VERSION.problem(what=f"TensorRT {version}", where=where, why=why, fix=fix)


def _show(log: Path) -> None:
    """Copy the end of a log to standard error, which a build machine keeps."""
    if sys.stderr.isatty():
        return
    with log.open(errors="replace") as lines:
        sys.stderr.writelines(deque(lines, maxlen=_SHOWN_LINES))
    sys.stderr.flush()


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
