"""Beliefs about the image's TensorRT: its packages, and trtexec's options, messages and timing cache."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.beliefs import gpu
from conformance.gpu.machine import Machine, run, variable
from conformance.records import Asked
from triton_models.artifact.networks import PlanHeader
from triton_models.base.errors import FleetError
from triton_models.builds.tensorrt.compiler import Compiler
from triton_models.builds.tensorrt.complaints import unknown_operators
from triton_models.builds.tensorrt.machine import IMAGE_TRTEXEC, find_compiler, find_trtexec, trtexec_version
from triton_models.builds.tensorrt.options import CommandLine, PlanOptions
from triton_models.builds.tensorrt.timing_cache import TimingCache
from triton_models.declare.tensors import ShapeRange
from triton_models.facts.tensorrt import Precision

pytestmark = gpu("image")

LOADED = re.compile(r"Loaded (\d+) bytes of (?:\S+ )?timing cache", re.IGNORECASE)
MADE_UP = "MadeUpOperator"
TURING = "7.5"
PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "fp16")


def trtexec() -> Path:
    found = find_trtexec()
    if found is None:
        pytest.skip("there is no trtexec")
    return found


def installed() -> str:
    """Return TensorRT's version of the package libnvinfer, or "" without one."""
    listed = run("sh", "-c", "dpkg-query -W -f '${Package} ${Version} ' 'libnvinfer*'")
    match = re.search(r"\blibnvinfer\d+ (\d+(?:\.\d+)+)", listed)
    return match[1] if match else ""


def test_tensorrt_is_that_of_the_table(here: Machine, ask: Asked) -> None:
    assert PlanHeader(tensorrt=ask(installed)).loads_in(here.release.tensorrt)


def test_a_variable_has_the_version_of_tensorrt(ask: Asked) -> None:
    assert ask(lambda: variable("TRT_VERSION"), "TRT_VERSION").partition("+")[0] == ask(installed, "package")


def test_trtexec_is_in_its_place(ask: Asked) -> None:
    assert ask(lambda: os.access(IMAGE_TRTEXEC, os.X_OK))


def test_trtexecs_first_line_has_its_version(ask: Asked) -> None:
    said = ask(lambda: trtexec_version(trtexec()), "trtexec")
    assert said != "unknown"
    assert PlanHeader(tensorrt=said).loads_in(ask(installed, "package"))


def test_trtexec_knows_the_options_of_our_command_lines(here: Machine, ask: Asked) -> None:
    def known() -> list[str]:
        said = run("sh", "-c", f"{trtexec()} --help | tr '\\n' ' '")
        return sorted(set(re.findall(r"--[A-Za-z][A-Za-z0-9]*", said)))

    assert set(used(here)) <= set(ask(known))


def used(here: Machine) -> Iterator[str]:
    """Yield the options of command lines that use all of them."""
    for precision in PRECISIONS:
        command = CommandLine(
            trtexec=IMAGE_TRTEXEC,
            onnx=Path("model.onnx"),
            plan=Path("model.plan"),
            release=here.release,
            shapes={"x": ShapeRange(min=(1,), opt=(1,), max=(2,))},
            options=PlanOptions(precision=precision, workspace_mb=1, optimization_level=1),
            timing_cache=Path("times"),
        )
        yield from (each.partition("=")[0] for each in command.arguments()[1:])


def compiled(compiler: Compiler, folder: Path, operator: str = "Relu", **more: PlanOptions) -> str:
    """Compile a network of one node; return the rule of the error, or "", before trtexec's log."""
    import onnx
    from onnx import TensorProto, helper

    network = folder / "1" / "model.onnx"
    network.parent.mkdir(parents=True, exist_ok=True)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), network)
    rule = ""
    try:
        compiler.compile(network, network.with_suffix(".plan"), shapes={}, **more)
    except FleetError as error:
        rule = str(error.problems[0].rule)
    newest = max(compiler.logs.glob("*.log"), key=lambda path: path.stat().st_mtime_ns)
    lines = newest.read_text(errors="replace").splitlines()[1:]  # the first is the command, with paths
    kept = [each for each in lines if LOADED.search(each)] or lines[-60:]
    return "\n".join([rule, *kept])


def compiler(here: Machine, folder: Path, cache: TimingCache | None = None) -> Compiler:
    return find_compiler(
        release=here.release, gpu=here.present, logs=folder / "trtexec-logs", timing_cache=cache
    )


def test_an_unknown_operator_is_reported_as_one(here: Machine, tmp_path: Path, ask: Asked) -> None:
    rule, _, log = ask(lambda: compiled(compiler(here, tmp_path), tmp_path, MADE_UP)).partition("\n")
    assert rule == "plan-operator"
    assert list(unknown_operators(log)) == [MADE_UP]


def test_a_second_build_loads_the_timing_cache(here: Machine, tmp_path: Path, ask: Asked) -> None:
    def twice() -> str:
        cached = compiler(here, tmp_path, TimingCache.at(str(tmp_path / "times")))
        return [compiled(cached, tmp_path) for _ in range(2)][-1]

    match = LOADED.search(ask(twice))
    assert match
    assert int(match[1])


def test_a_plan_for_a_compute_capability_compiles_on_the_oldest_gpu(
    here: Machine, tmp_path: Path, ask: Asked
) -> None:
    if here.present.compute_capability != TURING:
        pytest.skip(f"{here.place} has compute capability {here.present.compute_capability}")
    level = PlanOptions(hardware="same-compute-capability")
    said = ask(lambda: compiled(compiler(here, tmp_path), tmp_path, options=level)).partition("\n")[0]
    if said not in {"", "plan-compile"}:
        pytest.skip(f"the rule {said} says nothing about the level")
    assert said == ""
