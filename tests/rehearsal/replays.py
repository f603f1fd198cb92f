"""The rehearsal's answers to questions that probes have asked of a GPU, an image or an account.

A transcript in docs/transcripts/ contains questions with the real answers. The questions listed here are also
asked of the rehearsal, or of the tables and checks that replace missing parts. The answers must agree.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.models.trtexec_options import options_of
from triton_models.artifact.plan_header import PlanHeader
from triton_models.builds.tensorrt.complaints import unknown_operators
from triton_models.builds.tensorrt.machine import is_model
from triton_models.facts.dali import dali_version
from triton_models.facts.instances import GPUS
from triton_models.facts.releases import release
from triton_models.probe.transcript import Observation, Transcript
from triton_rehearsal.triton.backend_directory import STAND_INS
from triton_rehearsal.triton.machine import Machine

Asked = Mapping[str, Any]
Answered = Mapping[str, Any]


def _equal(recorded: Answered, rehearsed: Answered) -> bool:
    """Return True if the record contains everything in the answer here."""
    return all(recorded.get(name) == value for name, value in rehearsed.items())


def _versions(recorded: Answered, rehearsed: Answered) -> bool:
    """Return True if versions are equal in the numbers that both contain."""
    return all(PlanHeader(tensorrt=recorded[name]).loads_in(value) for name, value in rehearsed.items())


def _within(recorded: Answered, rehearsed: Answered) -> bool:
    """Return True if the record contains these strings and lists. It also names models and paths."""
    return all(
        set(value) <= set(recorded[name]) if isinstance(value, list) else value in recorded[name]
        for name, value in rehearsed.items()
    )


@dataclass(frozen=True, kw_only=True)
class Replay:
    """The rehearsal's answer to a question.

    Attributes:
        answer: Returns the answer; None if the rehearsal cannot answer this question.
        agrees: Compares the record with the answer.
    """

    answer: Callable[[Asked], Answered | None]
    agrees: Callable[[Answered, Answered], bool] = _equal


def _variables(asked: Asked) -> Answered:
    return Machine(release=release(asked["release"]), gpu=GPUS["A10G"]).variables()


def _same_variables(recorded: Answered, rehearsed: Answered) -> bool:
    """Return True if variables are equal, except for NVIDIA's suffixes of versions, such as "+cuda13.0"."""
    return all((recorded[name] or "").partition("+")[0] == value for name, value in rehearsed.items())


def _gpus(asked: Asked) -> Answered:
    """Return the output of the rehearsal's nvidia-smi, for each GPU of the table."""
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        for gpu in GPUS.values():
            Machine(gpu=gpu).install(Path(folder))
            query = [f"{folder}/nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
            answers[gpu.name] = subprocess.run(
                query, capture_output=True, text=True, check=True
            ).stdout.strip()
    return answers


def _same_gpus(recorded: Answered, rehearsed: Answered) -> bool:
    return all(
        rehearsed[gpu.name] == capability
        for name, capability, _ in recorded["gpus"]
        for gpu in GPUS.values()
        if is_model(name, gpu)
    )


def _refused_plan(asked: Asked) -> Answered:
    """Return the message with which the stand-in for TensorRT refuses a plan of another version."""
    stand_in = _backend("tensorrt")
    with mock.patch.dict("os.environ", {"TRT_VERSION": asked["own"]}):
        try:
            stand_in._refuse_other_version(asked["plan"])
        except stand_in.pb_utils.TritonModelException as error:
            return {"error": str(error)}
    return {"error": "loaded"}


def _started(asked: Asked) -> Answered | None:
    """Return the release table's answer; None for an older driver, which may have forward compatibility."""
    from triton_models.facts.releases import CUDA_MAJORS

    needed = CUDA_MAJORS[asked["cuda"].partition(".")[0]].min_driver
    newer = [int(part) for part in asked["driver"].split(".")] >= [int(part) for part in needed.split(".")]
    return {"starts": True} if newer else None


@functools.cache
def _backend(name: str) -> Any:
    """Return the module of a stand-in for a backend, loaded outside its server."""
    fake = types.ModuleType("triton_python_backend_utils")
    fake.TritonModelException = type("TritonModelException", (Exception,), {})  # type: ignore[attr-defined]
    onnx_model = types.ModuleType("onnx_model")
    onnx_model.OnnxModel = object  # type: ignore[attr-defined]
    gpu = types.ModuleType("gpu")
    gpu.gpu_of = None  # type: ignore[attr-defined]
    path = STAND_INS / name / "model.py"
    spec = importlib.util.spec_from_file_location(f"stand_in_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {each.__name__: each for each in (fake, onnx_model, gpu)}):
        spec.loader.exec_module(module)
    return module


REPLAYS: Mapping[str, Replay] = {
    "variables-of-image": Replay(answer=_variables, agrees=_same_variables),
    "python-of-image": Replay(answer=lambda asked: {"python": release(asked["release"]).python}),
    "cuda-of-image": Replay(answer=lambda asked: {"cuda": release(asked["release"]).cuda}, agrees=_versions),
    "tensorrt-of-image": Replay(
        answer=lambda asked: {"tensorrt": release(asked["release"]).tensorrt}, agrees=_versions
    ),
    "onnxruntime-of-image": Replay(answer=lambda asked: {"version": release(asked["release"]).onnxruntime}),
    "dali-of-image": Replay(
        answer=lambda asked: {"version": dali_version(release(asked["release"]))}, agrees=_versions
    ),
    "backends-of-image": Replay(
        answer=lambda asked: {
            "backends": sorted(path.name for path in STAND_INS.iterdir() if (path / "model.py").is_file())
        },
        agrees=_within,
    ),
    "gpus": Replay(answer=_gpus, agrees=_same_gpus),
    "cuda-on-driver": Replay(answer=_started),
    "trtexec-options": Replay(
        answer=lambda asked: {
            "unknown": [each for each in asked["options"] if each not in options_of(asked["tensorrt"])]
        }
    ),
    "unknown-operator": Replay(answer=lambda asked: {"operators": list(unknown_operators(asked["log"]))}),
    "plan-of-another-version": Replay(answer=_refused_plan, agrees=_within),
}


# Observations of AWS's behavior, not of an account's contents. Their probes also run against the embedded
# AWS.
_BEHAVIOUR = ("configuration-", "error-wording", "eviction-order", "head-bucket", "not-ready")
_BEHAVIOUR += ("object-overwritten", "old-endpoint-deletion", "payload-limit", "s3-")
# Fields that differ with the place or the clock.
_OF_THE_PLACE = frozenset({"region", "seconds", "load_seconds"})


def disagreements(transcript: Transcript) -> Iterator[str]:
    """Return a line for each difference between the rehearsal and the record."""
    for observation in transcript.observations:
        replay = REPLAYS.get(observation.id)
        rehearsed = replay.answer(observation.asked) if replay else None
        if replay and rehearsed is not None and not replay.agrees(observation.answered, rehearsed):
            yield _line(observation, rehearsed)


def account_disagreements(record: Transcript, rehearsed: Transcript) -> Iterator[str]:
    """Return a line for each difference between the embedded AWS and an account.

    Args:
        record: The transcript of `fleet probe account` in an account.
        rehearsed: The transcript of the same probes against the embedded AWS.
    """
    answers = {_question(each): _placeless(each.answered) for each in rehearsed.observations}
    for observation in record.observations:
        answer = answers.get(_question(observation)) if observation.id.startswith(_BEHAVIOUR) else None
        if answer is not None and answer != _placeless(observation.answered):
            yield _line(observation, answer)


def _question(observation: Observation) -> str:
    return f"{observation.id} {json.dumps(_placeless(observation.asked), sort_keys=True)}"


def _placeless(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in fields.items() if name not in _OF_THE_PLACE}


def _line(observation: Observation, rehearsed: Answered) -> str:
    asked, recorded = dict(observation.asked), dict(observation.answered)
    return f"{observation.id} {asked}: the record says {recorded}, the rehearsal {dict(rehearsed)}"
