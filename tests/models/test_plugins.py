"""TensorRT plugins: a network with operators of its own is compiled with their libraries, on a GPU only."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_onnx import network_of

from tests.reported import refused
from triton_models.artifact.plans import PORTABLE_VARIABLE
from triton_models.builds.build import build
from triton_models.check.survey import check_declaration
from triton_models.declare.mistakes import find_mistakes
from triton_models.facts.releases import RELEASES
from triton_models.spec import TensorRt, load_build

FIELDS = """max_batch_size=0, backend=TensorRt(plugins=["{}"]),
    profile={{"X": ShapeRange(min=(4,), opt=(4,), max=(4,))}}"""

Declare = Callable[..., Path]


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "libscale.so"
    path.touch()
    return path


@pytest.fixture
def declared(declare_onnx: Callable[..., Path]) -> Declare:
    """Declare a network with an operator that the plugin has, or a standard one."""

    def declare(plugin: Path, operator: str = "company.Scale") -> Path:
        graph = f"g (float[4] X) => (float[4] Y) {{ Y = {operator}(X) }}"
        return declare_onnx(network_of(graph, opsets='"": 17, "company": 1'), FIELDS.format(plugin))

    return declare


def test_a_plan_is_compiled_with_its_plugins_and_records_them(
    declared: Declare, library: Path, machine: Any, tmp_path: Path
) -> None:
    log = machine()
    root = build("net", models=declared(library), output=tmp_path / "out", gpu="A10G")
    (plan,) = json.loads((root / "build.json").read_text())["plans"].values()
    assert plan["plugins"] == str(library)
    assert f"--staticPlugins={library}" in log.read_text().split()


def test_a_library_that_the_image_of_the_build_lacks_is_named(
    declared: Declare, machine: Any, tmp_path: Path
) -> None:
    machine()
    problem = refused(
        build, "net", models=declared(Path("/opt/libnone.so")), output=tmp_path / "out", gpu="A10G"
    )
    assert (problem.rule, problem.what) == ("plan-plugin", "there is no /opt/libnone.so")


@pytest.mark.parametrize("given", [{}, {"cpu": True}, {"gpu": "A10G"}], ids=["portable", "cpu", "rehearsed"])
def test_a_build_without_a_gpu_refuses_operators_that_only_a_plugin_has(
    given: dict[str, Any], declared: Declare, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PORTABLE_VARIABLE, "1")
    problem = refused(build, "net", models=declared(library), output=tmp_path / "out", **given)
    assert (problem.rule, "Scale" in problem.what) == ("plan-plugin", True)


def test_a_plugin_for_a_standard_operator_is_not_needed_without_a_gpu(
    declared: Declare, library: Path, tmp_path: Path
) -> None:
    models = declared(library, "Relu")
    root = build("net", models=models, output=tmp_path / "out")
    assert (root / "net" / "1" / "model.onnx").is_file()


@pytest.mark.parametrize(
    "path", ["libscale.so", "/opt/a b.so", "/opt/a;b.so", "/opt/a,b.so", "/opt/*.so", "/opt/a"]
)
def test_a_path_that_does_not_reach_the_server_is_a_mistake(path: str) -> None:
    ((_, mistake),) = find_mistakes(TensorRt(plugins=[path]))
    assert mistake.field == "plugins"


@pytest.mark.parametrize("gpu", [True, False])
def test_a_synthesis_knows_the_plugins_of_a_fleet_with_gpus(
    gpu: bool, declared: Declare, library: Path
) -> None:
    models = declared(library)
    checked = check_declaration(
        replace(load_build("net", models), examples=list),
        source=models / "net",
        release=RELEASES["25.09"],
        gpu=gpu,
    )
    assert checked.plugins == ((str(library),) if gpu else ())
