"""Beliefs about the repository's models: built, checked and verified on the GPU, once per run."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.beliefs import HERE
from conformance.gpu.machine import Machine
from conformance.records import Asked
from triton_models.artifact.networks import HEADER_BYTES, PlanHeader, plan_beginning
from triton_models.base.errors import FleetError
from triton_models.declare.reading import model_names

pytestmark = pytest.mark.gpu("GPU", "image")

TOOLKIT = HERE.parent / "model_builds"
MODEL_SECONDS = 3600
PLACED = re.compile(r"ModelInstanceInitialize: (\S+?)(?:_\d+)* \((GPU|CPU) device \d+\)")
# A failure with another rule is due to a missing part of this machine, and decides nothing.
OF_COMPILING = {"plan-compile", "plan-operator"}
OF_HEADERS = {"tensorrt-version", "not-a-plan"}
DECISIVE = {*OF_COMPILING, *OF_HEADERS, "not-served", "outside-tolerance"}

Made = dict[str, Any]
Make = Callable[[Machine, str], Made]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("built")


@pytest.fixture(scope="module")
def made(folder: Path) -> Make:
    """A function that builds and verifies a model, once, by `fleet build` and `fleet verify`."""

    @functools.cache
    def make(name: str, gpu_name: str, release: str) -> Made:
        output, log = folder / name.replace(":", "_"), folder / f"{name.replace(':', '_')}.log"
        where = ["--gpu", gpu_name, "--release", release, "-o", str(output)]
        document = fleet("build", name, *where)
        if "error" in document:
            return failed("build", document["error"])
        [root] = document["built"]
        document = fleet("verify", root["path"], "--log", str(log))
        if "error" in document:
            return failed("verify", document["error"])
        [found] = document["paths"].values()
        placed = PLACED.findall(log.read_text(errors="replace")) if log.exists() else []
        seen = {"plans": root.get("plans") or {}, "placed": sorted(placed)}
        if "problems" in found:
            return {**failed("verify", found["problems"]), **seen}
        return {"step": "", "rules": [], "what": "", "accuracy": found["accuracy"], **seen}

    return lambda here, name: make(name, here.present.name, here.release.name)


def fleet(*arguments: str) -> Any:
    path = os.pathsep.join([str(TOOLKIT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "triton_models", *arguments, "--json"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=MODEL_SECONDS,
        cwd=TOOLKIT,
    )
    return json.loads(done.stdout)


def failed(step: str, problems: list[dict[str, Any]]) -> Made:
    rules = sorted({str(each.get("rule")) for each in problems})
    return {"step": step, "rules": rules, "what": problems[0]["what"], "plans": {}, "placed": []}


def decisive(found: Made) -> Made:
    """Return what is said about a model; the test is skipped if it failed for lack of something here."""
    if found["rules"] and not DECISIVE & set(found["rules"]):
        pytest.skip(f"{found['step']} fails: {found['what']} {found['rules']}")
    return found


def test_the_plan_of_minilm_compiles(here: Machine, made: Make, ask: Asked) -> None:
    found = decisive(ask(lambda: made(here, "minilm")))
    assert not OF_COMPILING & set(found["rules"]), found["what"]
    assert {plan["gpu"] for plan in found["plans"].values()} <= {here.present.name}


def test_the_header_of_a_plan_has_its_version(here: Machine, made: Make, ask: Asked) -> None:
    found = decisive(ask(lambda: made(here, "minilm")))
    assert not OF_HEADERS & set(found["rules"]), found["what"]
    for plan in found["plans"].values():
        assert PlanHeader(tensorrt=plan["tensorrt"]).loads_in(here.release.tensorrt)


def test_plans_are_on_the_gpu_and_python_steps_on_the_cpu(here: Machine, made: Make, ask: Asked) -> None:
    found = decisive(ask(lambda: made(here, "minilm")))
    encoders, placed = {path.partition("/")[0] for path in found["plans"]}, dict(found["placed"])
    if not encoders or not encoders <= placed.keys():
        pytest.skip("the server's log does not report the placement of models")
    assert {placed[each] for each in encoders} == {"GPU"}
    assert {kind for name, kind in placed.items() if name not in encoders} <= {"CPU"}


def test_a_plan_of_another_version_is_refused(here: Machine, made: Make, folder: Path, ask: Asked) -> None:
    def refused() -> str:
        from triton_models.deliver.steps import process_server

        found = decisive(made(here, "minilm"))
        if not found["plans"]:
            pytest.skip("minilm has no plan")
        copy = folder / "another-version" / "minilm"
        shutil.copytree(folder / "minilm" / "minilm", copy)
        for path, plan in found["plans"].items():
            # No TensorRT has the build number 255, which is at the end of a plan's header.
            other = ".".join([*plan["tensorrt"].split(".")[:-1], "255"])
            content, version = (copy / path).read_bytes(), plan_beginning(other)[HEADER_BYTES - 4 :]
            (copy / path).write_bytes(content[: HEADER_BYTES - 4] + version + content[HEADER_BYTES:])
        try:
            with process_server().loaded(copy, next(iter(found["plans"])).partition("/")[0]):
                return ""
        except FleetError as error:
            return error.problems[0].what

    assert ask(refused)


ANSWERS = {
    "minilm": "plan-equals-reference",
    "bert_tensorrt": "bert-fp16-tolerance",
    "resnet50": "onnxruntime-fp16",
    "roberta_onnx": "onnxruntime-fp16",
    "t5_translation": "t5-on-cuda",
    "dali_inception": "dali-gpu-decoding",
    "resnet50:torchscript": "libtorch-loads-newer-files",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.belief(each)) for name, each in ANSWERS.items()]
)
def test_a_model_answers_like_its_source(here: Machine, made: Make, ask: Asked, name: str) -> None:
    found = decisive(ask(lambda: made(here, name)))
    assert found["rules"] == [], found["what"]


def test_every_model_answers_like_its_source(here: Machine, made: Make, ask: Asked) -> None:
    found = ask(lambda: {name: made(here, name) for name in model_names(None)})
    wrong = {name: each for name, each in found.items() if each["rules"]}
    if wrong and not any(DECISIVE & set(each["rules"]) for each in wrong.values()):
        pytest.skip(str(wrong))
    assert {name: each["what"] for name, each in wrong.items()} == {}
