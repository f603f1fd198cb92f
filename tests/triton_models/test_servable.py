"""Declarations that a release cannot serve are found without building anything."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from triton_models.base.errors import Problem
from triton_models.check.survey import CheckedDeclaration, check_declaration, problems_together
from triton_models.facts.releases import RELEASES
from triton_models.spec import (
    DaliPipeline,
    DynamicBatching,
    DynamicDim,
    Ensemble,
    Instances,
    ModelDefinition,
    PythonBackend,
    PythonModel,
    PyTorchNetwork,
    Tensor,
    TensorRt,
    Wheels,
    load_builds,
    model_names,
    models_folder,
)

X, Y = [Tensor("X", "FP32", [1])], [Tensor("Y", "FP32", [1])]


def python(name: str = "reader", **given: Any) -> PythonModel:
    return PythonModel(name=name, code="code.py", inputs=X, outputs=Y, max_batch_size=0, **given)


def network(data_type: str, **backend: Any) -> PyTorchNetwork:
    return PyTorchNetwork(
        name="encoder",
        network=print,
        inputs=[Tensor("ids", data_type, [4])],
        outputs=["scores"],
        backend=TensorRt(**backend),
        max_batch_size=4,
    )


def build(name: str, *models: Any) -> ModelDefinition:
    return ModelDefinition(
        name=name,
        description="made up",
        models=list(models),
        examples=list,
        reference=dict,
        output="Y",
        tolerance=0.0,
    )


def rules(*builds: ModelDefinition, release: str = "25.09", gpu: bool = True) -> list[str]:
    return [problem.rule for problem in problems(*builds, release=release, gpu=gpu)]


def problems(*builds: ModelDefinition, release: str = "25.09", gpu: bool = True) -> list[Problem]:
    def source(build: ModelDefinition) -> Path:
        return models_folder() / build.name

    served = RELEASES[release]
    return list(
        problems_together(
            check_declaration(each, source=source(each), release=served, gpu=gpu) for each in builds
        )
    )


def checked(build: ModelDefinition, *, gpu: bool = True, source: Path = Path("models")) -> CheckedDeclaration:
    return check_declaration(build, source=source, release=RELEASES["25.09"], gpu=gpu)


@pytest.mark.parametrize(("release", "gpu"), [("24.09", True), ("25.09", False), ("26.05", True)])
def test_every_model_here_can_be_served(release: str, gpu: bool) -> None:
    assert problems(*load_builds(model_names()), release=release, gpu=gpu) == []


def test_a_plan_for_other_gpus_where_the_releases_tensorrt_compiles_none() -> None:
    plan = build("encoder", network("INT32", hardware="same-compute-capability"))

    assert rules(plan, release="24.09") == ["plan-hardware"]
    assert rules(plan, release="24.09", gpu=False) == []
    assert rules(plan, release="25.09") == []


def test_int64_for_a_tensorrt_that_has_none_unless_there_is_no_gpu() -> None:
    model = network("INT64")

    assert rules(build("encoder", model), release="24.01") == ["network-type"]
    assert rules(build("encoder", model), release="24.01", gpu=False) == []
    assert rules(build("encoder", model), release="25.09") == []
    assert rules(build("encoder", network("FP64"))) == ["network-type"]


@pytest.mark.parametrize(("count", "found"), [(32, []), (33, ["python-shared-memory"])])
def test_a_container_has_memory_for_64_python_instances(count: int, found: list[str]) -> None:
    models = [python("one", instances=Instances(count=32)), python("two", instances=Instances(count=count))]

    assert rules(build("ensemble", *models, Ensemble(name="ensemble", steps=["one", "two"]))) == found


@pytest.mark.parametrize(("longest", "found"), [(256, []), (512, ["python-shared-memory"])])
def test_a_container_has_memory_for_a_full_batch_of_a_python_model(longest: int, found: list[str]) -> None:
    vectors = Tensor("vectors", "FP32", [DynamicDim(name="tokens", max=longest), 768])
    alone = replace(python("pooling"), inputs=[vectors], max_batch_size=32)
    model = replace(alone, batching=DynamicBatching())
    on_gpu = replace(model, backend=PythonBackend(host_inputs=False))

    assert rules(build("pooling", model)) == found
    assert rules(build("pooling", alone)) == []  # a request has 6 MB
    assert rules(build("pooling", on_gpu)) == []


def test_inputs_that_stay_on_the_gpu_take_a_batch_of_the_servers_pool() -> None:
    frames = Tensor("frames", "FP32", [DynamicDim(name="rows", max=1024), 256])
    model = replace(python("filter", instances=Instances(count=2)), inputs=[frames], max_batch_size=32)
    on_gpu = build("filter", replace(model, backend=PythonBackend(host_inputs=False)))

    def needed(each: ModelDefinition, *, gpu: bool = True) -> int:
        return check_declaration(each, source=Path(), release=RELEASES["25.09"], gpu=gpu).pool_mib

    assert (needed(on_gpu), needed(on_gpu, gpu=False), needed(build("filter", model))) == (64, 0, 0)


def test_nothing_but_the_standard_library_is_needed() -> None:
    code = """
import sys
absent = "google.protobuf numpy onnx boto3 torch transformers sentence_transformers nvidia tritonclient"
sys.modules.update(dict.fromkeys(absent.split()))
from triton_models.facts.releases import RELEASES
from triton_models.check.survey import check_declaration
from triton_models.spec import load_builds, model_names, models_folder
for build in load_builds(model_names()):
    check_declaration(build, source=models_folder() / build.name, release=RELEASES["25.09"], gpu=True)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_composing_model_of_two_artifacts() -> None:
    first = build("first", python("reader"), Ensemble(name="first", steps=["reader"]))
    second = replace(
        first, name="second", models=[python("reader"), Ensemble(name="second", steps=["reader"])]
    )

    assert rules(first, second) == ["composing-name-taken"]
    assert rules(first, build("reader", python())) == ["composing-name-taken"]
    assert rules(first) == []


def test_plans_are_those_of_a_build_for_gpus() -> None:
    declared = build("encoder", network("INT32", hardware="ampere+"))

    assert checked(declared).plans == ("ampere+",)
    assert checked(declared, gpu=False).plans == ()


@pytest.mark.parametrize(
    ("body", "plans"), [("pass", ()), ("job.compile_plan(path, shapes={})", ("this-gpu",))]
)
def test_code_of_a_declaration_is_tied_to_a_gpu_only_if_it_makes_plans(
    body: str, plans: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "build.py").write_text(f"def write(job):\n    {body}\n")
    written = replace(build("reader", python()), write=print)

    assert checked(written, source=tmp_path).plans == plans
    assert checked(written, source=tmp_path, gpu=False).plans == ()
    assert checked(build("reader", python()), source=tmp_path).plans == ()  # nothing calls it


@pytest.mark.parametrize("gpu", [True, False])
def test_a_dali_pipeline_of_a_build_for_gpus_needs_one_of_whatever_model(gpu: bool) -> None:
    pipeline = DaliPipeline(name="images", pipeline=print, inputs=X, outputs=Y, max_batch_size=1)
    found = checked(build("images", pipeline), gpu=gpu)

    assert (found.plans, found.pipelines, found.any_gpu) == ((), True, gpu)


@pytest.mark.parametrize(
    ("wheels", "any_gpu"), [(["numpy==2.2.6"], False), (lambda job: ["numpy==2.2.6"], True)]
)
def test_wheels_that_a_function_names_may_be_for_a_gpu(wheels: Any, any_gpu: bool) -> None:
    model = build("reader", python(environment=Wheels(wheels)))

    found = checked(model)
    assert (found.environments, found.any_gpu) == (True, any_gpu)
    assert not checked(model, gpu=False).any_gpu
