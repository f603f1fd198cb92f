"""Probes that build and verify models on the GPU."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TypeAlias

from triton_models.artifact.plan_header import HEADER_BYTES, PlanHeader, plan_beginning
from triton_models.base.errors import Problem
from triton_models.probe.gpu.making import Loading, Made, load
from triton_models.probe.gpu.situation import MODEL_SECONDS, GpuProbe, Situation
from triton_models.probe.verdict import Verdict, decide, false, true, undecided

Failed: TypeAlias = Callable[[str, Problem, str], Iterator[Verdict]]
"""Yields the verdicts on a failed model from its step, its problem, and a description of both."""

_PLACED = re.compile(r"ModelInstanceInitialize: (\S+?)(?:_\d+)* \((GPU|CPU) device \d+\)")

# No TensorRT has this build number, which is at the end of a plan's header.
_NOBODYS = "255"
_VERSION = HEADER_BYTES - 4
_PREFIX = "the Triton server does not load it: "


def every(situation: Situation) -> Iterator[Verdict]:
    """Build, check and verify every selected model, and report the problems of each."""
    if not situation.names:
        yield undecided("every-model-verifies", "no model is declared here")
        return
    wrong, decisive = [], False
    for name in situation.names:
        problems = situation.made(name).problems
        decisive = decisive or any(map(_is_decisive, problems))
        rules = sorted({problem.rule or "error" for problem in problems})
        asked = {"model": name, "release": situation.release.name}
        situation.observe("model-verified", asked, {"verified": not problems, "rules": rules})
        if problems:
            wrong.append(f"{name} [{', '.join(rules)}]: {problems[0].what}")
    if wrong and not decisive:
        yield undecided("every-model-verifies", "; ".join(wrong))
    else:
        seen = "; ".join(wrong) or f"all {len(situation.names)} models answer like their source"
        yield decide("every-model-verifies", seen, holds=not wrong)


def encoder(situation: Situation) -> Iterator[Verdict]:
    """Check MiniLM: its plan, the plan's header, its answers, and the placement of its models."""
    made = yield from _made(situation, "minilm", *_ENCODER, failed=_encoder_failed)
    if made is None:
        return
    plans = made.record.get("plans") or {}
    recorded = sorted({f"{plan['gpu']}, TensorRT {plan['tensorrt']}" for plan in plans.values()})
    gpu = situation.gpu.name if situation.gpu else ""
    compiled = bool(plans) and all(plan["gpu"] == gpu for plan in plans.values())
    yield decide("plan-compiles", f"build.json records {'; '.join(recorded) or 'no plan'}", holds=compiled)
    yield true("plan-equals-reference", made.accuracy)
    # The build fails if the header contradicts the release's TensorRT in the table, where it is known.
    right = compiled and all(
        PlanHeader(tensorrt=plan["tensorrt"]).loads_in(situation.release.tensorrt) for plan in plans.values()
    )
    yield decide("plan-header-layout", f"the plan's header reads as {'; '.join(recorded)}", holds=right)
    placed = dict(_PLACED.findall(made.log))
    encoders = {path.partition("/")[0] for path in plans}
    steps = {name: kind for name, kind in placed.items() if name not in encoders}
    seen = ", ".join(f"{name} on {kind}" for name, kind in sorted(placed.items()))
    if not encoders <= placed.keys():
        yield undecided("kind-auto-placement", "the server's log does not report the placement of models")
        return
    on_gpu = all(placed[name] == "GPU" for name in encoders)
    yield decide("kind-auto-placement", seen, holds=on_gpu and set(steps.values()) <= {"CPU"})


def _encoder_failed(step: str, problem: Problem, said: str) -> Iterator[Verdict]:
    """Yield the verdicts that a failure decides."""
    if step == "verify":
        yield true("plan-compiles", "it was built")
        yield true("plan-header-layout", "it was built, so the header says the release's TensorRT")
        yield false("plan-equals-reference", said)
    elif problem.rule in _OF_HEADERS:
        yield false("plan-header-layout", said)
    else:
        yield false("plan-compiles", said)


def other_plan(situation: Situation) -> Iterator[Verdict]:
    """Check that the server refuses MiniLM's plan with another version in its header."""
    belief = "plan-version-refused"
    made = yield from _made(situation, "minilm", belief)
    if made is None:
        return
    plans = made.record.get("plans") or {}
    if not plans:
        yield undecided(belief, "minilm has no plan")
        return
    copy = situation.folder / "another-version"
    shutil.copytree(made.root, copy / made.root.name)
    own = next(iter(plans.values()))["tensorrt"]
    other = ".".join([*own.split(".")[:-1], _NOBODYS])
    for path in plans:
        plan = copy / made.root.name / path
        content = plan.read_bytes()
        version = plan_beginning(other)[_VERSION:]
        plan.write_bytes(content[:_VERSION] + version + content[HEADER_BYTES:])
    said = _refusal(situation, copy / made.root.name, next(iter(plans)).partition("/")[0])
    if said is None:
        yield false(belief, f"the server loads a plan whose header says {other}")
        return
    situation.observe("plan-of-another-version", {"own": own, "plan": other}, {"error": said})
    yield true(belief, f"a plan whose header says {other}: {said}")


def precision(situation: Situation) -> Iterator[Verdict]:
    """Check the FP16 plan of BERT."""
    yield from _answers(situation, "bert_tensorrt", "bert-fp16-tolerance")


def tf32(situation: Situation) -> Iterator[Verdict]:
    """Check the two models that ONNX Runtime serves in FP32."""
    belief = "onnxruntime-tf32"
    seen = []
    for name in ("resnet50", "roberta_onnx"):
        made = yield from _made(situation, name, belief)
        if made is None:
            return
        seen.append(made.accuracy)
    yield true(belief, "; ".join(seen))


def translation(situation: Situation) -> Iterator[Verdict]:
    """Check T5, which has its own environment with ONNX Runtime and refuses to run on the CPU."""
    yield from _answers(situation, "t5_translation", "t5-on-cuda")


def decoding(situation: Situation) -> Iterator[Verdict]:
    """Check the images that DALI decodes on the GPU."""
    yield from _answers(situation, "dali_inception", "dali-gpu-decoding")


def torchscript(situation: Situation) -> Iterator[Verdict]:
    """Check a TorchScript file written by the PyTorch of the build."""
    yield from _answers(situation, "resnet50:torchscript", "libtorch-loads-newer-files")


def _answers(situation: Situation, name: str, belief: str) -> Iterator[Verdict]:
    """Yield a verdict that is true if a model answers like its source."""
    made = yield from _made(situation, name, belief)
    if made is not None:
        sources = ", ".join(f"{topic}: {source}" for topic, source in made.record["sources"].items())
        yield true(belief, f"{made.accuracy}; {sources}")


def _made(
    situation: Situation, name: str, *beliefs: str, failed: Failed | None = None
) -> Generator[Verdict, None, Made | None]:
    """Return a model; None, after a verdict on each belief, if it was not built."""
    if name.partition(":")[0] not in {each.partition(":")[0] for each in situation.names}:
        for belief in beliefs:
            yield undecided(belief, f"{name!r} is not among the models of this run")
        return None
    ended = situation.made(name)
    if ended.answer is not None:
        return ended.answer
    problem = ended.problems[0]
    said = f"{name} fails in step {ended.step!r}: {problem.what} [{problem.rule}]"
    found: list[Verdict] = []
    if _is_decisive(problem) and failed:
        found = list(failed(ended.step, problem, said))
    elif _is_decisive(problem):
        found = [false(belief, said) for belief in beliefs]
    yield from found
    decided = {verdict.belief for verdict in found}
    for belief in beliefs:
        if belief not in decided:
            yield undecided(belief, said)
    return None


def _is_decisive(problem: Problem) -> bool:
    """Return whether a failure is due to the GPU or the image, not to missing parts of this machine."""
    if problem.rule in _OF_HEADERS:
        return problem.where.startswith("the plan ") or problem.rule == "not-a-plan"
    return problem.rule in _DECISIVE


def _refusal(situation: Situation, root: Path, model: str) -> str | None:
    """Return the server's error for a model of an artifact root; None if the model loads."""
    ended = situation.worker.do(
        load,
        Loading(root=root, model=model),
        name=model,
        seconds=MODEL_SECONDS,
        log=situation.folder / "load.log",
    )
    if ended.answer:
        return None
    return ended.problems[0].what.removeprefix(_PREFIX)


_ENCODER = ("plan-compiles", "plan-equals-reference", "plan-header-layout", "kind-auto-placement")
_OF_HEADERS = frozenset({"tensorrt-version", "not-a-plan"})
_DECISIVE = frozenset({"plan-compile", "plan-operator", "not-served", "outside-tolerance"})


def _probe(name: str, what: str, ask: Callable[[Situation], Iterator[Verdict]], *decides: str) -> GpuProbe:
    return GpuProbe(id=name, what=what, decides=decides, ask=ask, needs_gpu=True)


PROBES = (
    _probe("minilm", "builds and verifies minilm", encoder, *_ENCODER),
    _probe("other-plan", "loads a plan with another version", other_plan, "plan-version-refused"),
    _probe("bert", "builds and verifies bert_tensorrt", precision, "bert-fp16-tolerance"),
    _probe("onnx", "builds and verifies resnet50 and roberta_onnx", tf32, "onnxruntime-tf32"),
    _probe("t5", "builds and verifies t5_translation", translation, "t5-on-cuda"),
    _probe("decoding", "builds and verifies dali_inception", decoding, "dali-gpu-decoding"),
    _probe(
        "torchscript", "builds and verifies resnet50:torchscript", torchscript, "libtorch-loads-newer-files"
    ),
    _probe("models", "builds and verifies every model", every, "every-model-verifies"),
)
