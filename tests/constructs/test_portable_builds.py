from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack
from declared import Build, with_values

from tests.triton_models.declared_models import declare
from triton_fleet import ModelBuildProject, ModelRepository, MultiModelEndpoint, TritonServer
from triton_fleet.parts.arguments.late import late_problems

CPU, GPU, T4 = "ml.c7i.2xlarge", "ml.g5.2xlarge", "ml.g4dn.xlarge"
Endpoint = Callable[..., MultiModelEndpoint]


@pytest.fixture
def build(build: Build) -> Build:
    """Makes a build job, named after its models and its instance type."""

    def make(instance_type: str, *models: str, **arguments: Any) -> ModelBuildProject:
        names = models or ("minilm",)
        name = f"{'-'.join(names)} on {instance_type}"
        return build(name, models=names, instance_type=instance_type, **arguments)

    return make


@pytest.fixture
def serve(stack: Stack, repository: ModelRepository) -> Endpoint:
    """Makes a multi-model endpoint, named after its instance type."""

    def make(instance_type: str, **arguments: Any) -> MultiModelEndpoint:
        return MultiModelEndpoint(
            stack,
            f"Endpoint on {instance_type}",
            repository=repository,
            **with_values({"instance_type": instance_type} | arguments),
        )

    return make


def compiles(source: Path, *names: str, hardware: str = "this-gpu") -> None:
    """Let models have a plan."""
    for name in names:
        declare(source / "models", name, body=f"job.compile_plan(None, hardware={hardware!r})")


def misfits(stack: Stack) -> list[str]:
    """Return the models that an endpoint cannot load, per problem."""
    found = list(late_problems(stack))
    assert {problem.rule for problem in found} <= {"plan-fits-endpoint"}
    return [problem.what.rpartition(": ")[2] for problem in found]


@pytest.mark.parametrize("first", ["build", "endpoint"])
def test_a_cpu_endpoint_refuses_plans_whichever_is_declared_first(
    first: str, stack: Stack, build: Build, serve: Endpoint, source: Path
) -> None:
    compiles(source, "minilm")
    for make in (build, serve) if first == "build" else (serve, build):
        make(GPU if make is build else CPU)

    (problem,) = late_problems(stack)
    assert problem.rule == "plan-fits-endpoint"
    assert problem.where == f"instance_type of Fleet/Endpoint on {CPU}"


PLUGIN = "/opt/libscale.so"
WITH_A_PLUGIN = f"""
from triton_models.spec import *
BUILD = ModelDefinition(
    name="minilm", description="an operator of its own", examples=list, output="Y",
    weights=LocalWeights(path=__file__.replace("build.py", "net.onnx")),
    models=[OnnxFile(name="minilm", max_batch_size=0, backend=TensorRt(plugins=["{PLUGIN}"]))],
)
"""


@pytest.mark.parametrize("plugins", [(), (PLUGIN,)], ids=["missing", "opened"])
def test_an_endpoint_opens_the_plugins_of_the_plans_that_it_serves(
    plugins: tuple[str, ...], stack: Stack, build: Build, serve: Endpoint, source: Path
) -> None:
    (source / "models" / "minilm" / "build.py").write_text(WITH_A_PLUGIN)
    build(GPU)
    serve(GPU, server=TritonServer(tensorrt_plugins=plugins))

    found = [problem.rule for problem in late_problems(stack)]
    assert found == ([] if plugins else ["tensorrt-plugins"])


@pytest.mark.parametrize("completes", [False, True])
def test_an_endpoint_completes_the_configurations_of_declarations_that_rely_on_it(
    completes: bool, stack: Stack, build: Build, serve: Endpoint, source: Path
) -> None:
    declaration = source / "models" / "minilm" / "build.py"
    declare(source / "models", "minilm")
    declaration.write_text(declaration.read_text().replace("output=", "auto_complete=True, output="))
    build(GPU)
    serve(GPU, server=TritonServer(auto_complete_config=completes))

    assert [problem.rule for problem in late_problems(stack)] == ([] if completes else ["auto-complete"])


def test_of_several_models_of_a_job_only_those_with_a_plan_are_tied_to_its_gpu(
    stack: Stack, build: Build, serve: Endpoint, source: Path
) -> None:
    compiles(source, "resnet50")
    build(GPU, "minilm", "resnet50")
    serve(T4)

    assert misfits(stack) == ["resnet50"]


def test_models_that_do_not_fit_for_one_reason_are_one_problem(
    stack: Stack, build: Build, serve: Endpoint, source: Path
) -> None:
    names = [f"net-{number}" for number in range(5)]
    compiles(source, *names)
    build(GPU, *names)
    serve(T4)

    assert misfits(stack) == ["net-0, net-1, net-2 and 2 more"]


@pytest.mark.parametrize(("instance_type", "misfit"), [("ml.g6.2xlarge", []), (T4, ["minilm"])])
def test_a_plan_for_more_hardware_is_built_on_another_gpu_than_the_endpoints(
    instance_type: str, misfit: list[str], *, stack: Stack, build: Build, serve: Endpoint, source: Path
) -> None:
    compiles(source, "minilm", hardware="ampere+")
    build(GPU)
    serve(instance_type, allow_unlisted_instance_type=True)

    assert misfits(stack) == misfit


def test_a_plan_for_hardware_that_the_build_jobs_gpu_cannot_compile_is_refused(
    stack: Stack, build: Build, source: Path
) -> None:
    compiles(source, "minilm", hardware="ampere+")
    build(T4)
    build(GPU)

    (problem,) = late_problems(stack)
    assert problem.rule == "plan-hardware"
    assert problem.where == f"the plans of 'minilm', for Fleet/minilm on {T4}"


def test_a_declaration_that_cannot_be_read_is_reported_for_that_alone(
    stack: Stack, build: Build, serve: Endpoint, source: Path
) -> None:
    (source / "models" / "minilm" / "build.py").write_text("BUILD = 1\n")
    build(GPU)
    serve(T4, release="24.09", instance_pools=[GPU], allow_unlisted_instance_pools=True)

    assert [problem.rule for problem in late_problems(stack)] == ["bad-declaration"]
