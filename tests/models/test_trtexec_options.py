"""Every command line is one that the trtexec of its release takes, by NVIDIA's own list of options."""

import itertools
import json
from pathlib import Path
from typing import get_args

import pytest
from trtexec_options import options_of

from tests.reported import refused
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.builds.tensorrt.options import WAYS, CommandLine, PlanOptions
from triton_models.declare.mistakes import find_mistakes
from triton_models.facts.instances import gpu
from triton_models.facts.releases import RELEASES, release
from triton_models.facts.tensorrt import Hardware, Precision, hardware_problems
from triton_models.spec import ShapeRange, TensorRt

EVERYTHING = [
    PlanOptions(
        precision=precision,
        workspace_mb=workspace,
        optimization_level=level,
        hardware=hardware,
        plugins=plugins,
    )
    for precision, workspace, level, hardware, plugins in itertools.product(
        get_args(Precision), (None, 1024), (None, 5), get_args(Hardware), ((), ("/a.so", "/b.so"))
    )
]


def command(name: str, options: PlanOptions = EVERYTHING[0], **more) -> list[str]:
    onnx, plan = Path("model.onnx"), Path("model.plan")
    return CommandLine(
        trtexec=Path("trtexec"), onnx=onnx, plan=plan, release=release(name), options=options, **more
    ).arguments()[1:]


@pytest.fixture
def tuned(declare_network):
    """Declare a network with every option of a plan."""

    def declare(*, precision="tf32", level=4, **given):
        options = f'precision="{precision}", optimization_level={level}, hardware="ampere+", workspace_mb=512'
        declare_network("tuned", backend=f"TensorRt({options})", **given)

    return declare


@pytest.mark.parametrize("name", RELEASES)
def test_every_option_that_is_used_is_one_of_the_releases_trtexec(name):
    shapes = {"x": ShapeRange(min=(1, 3), opt=(2, 3), max=(4, 3))}
    profiles = [shapes] * (1 if release(name).tensorrt.startswith("8") else 2)
    for options in EVERYTHING:
        if options.precision not in WAYS[int(release(name).tensorrt.split(".")[0])]:
            continue
        given = command(name, options, profiles=profiles, timing_cache=Path("times"))
        assert {each.partition("=")[0] for each in given} <= options_of(release(name).tensorrt)


@pytest.mark.parametrize(
    ("name", "precision", "flags"),
    [
        ("25.09", "fp32", {"--noTF32"}),
        ("25.09", "tf32", set()),
        ("25.09", "fp16", {"--fp16"}),
        ("24.03", "fp16", {"--fp16"}),
        ("26.06", "fp32", {"--noTF32"}),
        ("26.06", "fp16", set()),
    ],
)
def test_the_flags_of_a_precision_are_those_of_the_releases_tensorrt(name, precision, flags):
    assert {"--noTF32", "--fp16"} & set(command(name, PlanOptions(precision=precision))) == flags


@pytest.mark.parametrize(
    ("hardware", "level"),
    [("this-gpu", None), ("same-compute-capability", "sameComputeCapability"), ("ampere+", "ampere+")],
)
def test_the_hardware_of_a_plan_is_a_level_of_compatibility(hardware, level):
    given = command("25.09", PlanOptions(hardware=hardware))
    flags = [each for each in given if each.startswith("--hardwareCompatibilityLevel")]
    assert flags == ([f"--hardwareCompatibilityLevel={level}"] if level else [])


@pytest.mark.parametrize(
    ("hardware", "name", "on", "fits"),
    [
        ("ampere+", "24.01", "A10G", True),
        ("ampere+", "25.09", "T4", False),
        ("same-compute-capability", "25.09", "T4", True),
        ("same-compute-capability", "24.09", "L4", False),
        ("same-compute-capability", "24.09", None, False),
        ("this-gpu", "24.01", "V100", True),
    ],
)
def test_a_plan_for_wider_hardware_needs_a_tensorrt_and_a_gpu_that_have_it(hardware, name, on, fits):
    found = hardware_problems(hardware, release=release(name), gpu=gpu(on) if on else None, where="here")
    assert [each.rule for each in found] == ([] if fits else ["plan-hardware"])


def test_the_shapes_of_each_profile_follow_its_number():
    every = ShapeRange(min=(1, 3), opt=(8, 3), max=(32, 3))
    small = ShapeRange(min=(1, 3), opt=(1, 3), max=(4, 3))
    assert command("25.09", PlanOptions(), profiles=[{"x": every}, {"x": small}])[4:] == [
        *("--profile=0", "--minShapes=x:1x3", "--optShapes=x:8x3", "--maxShapes=x:32x3"),
        *("--profile=1", "--minShapes=x:1x3", "--optShapes=x:1x3", "--maxShapes=x:4x3"),
    ]


def test_what_is_not_given_is_left_to_trtexec():
    assert command("25.09", PlanOptions(precision="tf32")) == [
        "--onnx=model.onnx",
        "--saveEngine=model.plan",
        "--skipInference",
    ]


def test_what_a_declaration_says_reaches_trtexec(machine, tuned, models, tmp_path):
    log = machine()
    tuned()
    build("tuned", output=tmp_path / "out", models=models, gpu="A10G")
    tuned = {"--memPoolSize=workspace:512", "--builderOptimizationLevel=4"}
    assert tuned | {"--hardwareCompatibilityLevel=ampere+"} <= set(log.read_text().split())
    (plan,) = json.loads((tmp_path / "out" / "tuned" / "build.json").read_text())["plans"].values()
    assert plan["hardware"] == "ampere+"


def test_a_workspace_without_a_size_is_a_mistake():
    ((_, mistake),) = find_mistakes(TensorRt(workspace_mb=0))
    assert mistake.field == "workspace_mb"


@pytest.mark.parametrize("level", [-1, 6, True])
def test_a_level_that_trtexec_does_not_have_is_a_mistake(level, tuned, models, tmp_path):
    tuned(level=level)
    with pytest.raises(FleetError, match="optimization_level"):
        build("tuned", output=tmp_path / "out", models=models)


def test_fp16_of_tensorrt_11_without_autocast_is_reported_before_anything_is_exported(
    machine, tuned, models, tmp_path, monkeypatch
):
    monkeypatch.setattr("triton_models.builds.tensorrt.autocast.is_installed", lambda: False)
    machine(banner="[TensorRT v110000] [b7]", version=(11, 0, 0, 7))
    tuned(precision="fp16", network="1 / 0")
    problem = refused(build, "tuned", output=tmp_path / "out", models=models, gpu="A10G", release="26.06")
    assert problem.rule == "plan-precision"
    assert "triton_models.builds.locked autocast" in problem.fix
