"""Variants of models on this machine: built, packed and served as by a multi-model endpoint."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from triton_models.base.errors import FleetError
from triton_models.base.outcome import progress
from triton_models.deliver.verify.comparing import answered, largest_difference
from triton_models.spec import Example, ModelDefinition
from triton_rehearsal.compare.comparison import Comparison
from triton_rehearsal.compare.measurement import (
    Ask,
    ColdStart,
    Measurement,
    first_example,
    measure,
    reference_answer,
    rotated,
)

if TYPE_CHECKING:
    from triton_models.client import Parameters, Tensors
    from triton_rehearsal.hosting.instance import Instance
    from triton_rehearsal.hosting.metrics import Event

# The container's environment, as the constructs set it.
ENVIRONMENT = {
    "SAGEMAKER_MULTI_MODEL": "true",
    "SAGEMAKER_TRITON_PING_MODE": "live",
    "SAGEMAKER_TRITON_LOG_VERBOSE": "false",
    "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE": "1048576",
    "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE": "1048576",
    "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--disable-auto-complete-config",
}
LOAD_LIMIT_S = 360.0

_HERE = (
    "Python stand-ins ran the models on this machine's CPU, with one thread unless a model sets more: "
    "the numbers say nothing about a GPU.",
)
_IMPORTS = "pytorch: the stand-in imports PyTorch for each model, which the real backend does not."
_NO_PLAN = "* runs with ONNX Runtime instead of TensorRT: plans need a GPU."


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model on this machine."""

    name: str
    build: ModelDefinition
    artifact: Path
    known: Measurement
    example: Example

    def ask(self, instance: Instance) -> dict[str, Any]:
        """Return the outputs for the first example.

        Raises:
            FleetError: The server refuses the model or the request.
        """
        return answered(
            self.example,
            lambda inputs, parameters: self._send(instance, inputs=inputs, parameters=parameters),
        )

    def _send(self, instance: Instance, *, inputs: Tensors, parameters: Parameters) -> dict[str, Any]:
        from triton_models.client import decode, encode
        from triton_rehearsal.hosting.multi_model import ContainerError, NotReadyError

        body, content_type = encode(
            inputs, outputs=None, content="binary", parameters=parameters, where=f"a request for {self.name}"
        )
        headers = {"Content-Type": content_type}
        try:
            answer = instance.invoke(self.artifact.name, body=body, headers=headers).answer
        except ContainerError as error:
            raise self._refused(error.answer.text) from error
        except NotReadyError as error:
            raise self._refused(f"it did not load within {LOAD_LIMIT_S:.0f} seconds") from error
        if not answer.ok:
            raise self._refused(answer.text)
        return decode(answer.body, answer.headers["content-type"])

    def _refused(self, why: str) -> FleetError:
        return FleetError.of(
            what=f"{self.name!r} is not served: {why}",
            where="the rehearsal's Triton server",
            fix=f"verify the model alone: fleet build {self.name} -o build && fleet verify "
            f"build/{self.build.name}",
            rule="compare-served",
        )


@dataclass(kw_only=True)
class _Folder:
    """Artifacts in a folder, with the interface of an S3 client: only get_object."""

    folder: Path

    def get_object(self, *, Bucket: str, Key: str) -> Mapping[str, IO[bytes]]:  # noqa: N803  boto3's names
        del Bucket
        return {"Body": (self.folder / Key).open("rb")}


@dataclass(kw_only=True)
class _Times:
    """The durations of an instance's events in seconds, by kind of event."""

    of: dict[str, float] = field(default_factory=dict)

    def note(self, event: Event) -> None:
        self.of[type(event).__name__] = getattr(event, "seconds", 0.0)


def compare_locally(
    builds: Mapping[str, ModelDefinition],
    *,
    requests: int,
    concurrency: int,
    cold_starts: int,
    models: Path | None = None,
) -> Comparison:
    """Build, pack and serve every model on this machine, as a multi-model endpoint does.

    Args:
        builds: The declarations, by the requested names.
        requests: Number of requests per model.
        concurrency: Number of concurrent callers.
        cold_starts: Number of cold starts per model, each with a new server.
        models: The folder of model builds; by default the repository's.

    Raises:
        FleetError: A model cannot be built, or is not served.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-compare-") as folder:
        place = Path(folder)
        subjects = [_prepared(name, build, place, models) for name, build in builds.items()]
        cold = _cold_starts(subjects, place, cold_starts)
        with closing(_instance(place)) as instance:
            known = [
                replace(each.known, cold=tuple(cold[each.name]), difference=_difference(each, instance))
                for each in subjects
            ]
            progress(f"sending each model {requests} requests, in turn")
            ask: dict[str, Ask] = {each.name: _asking(each, instance) for each in subjects}
            measured = measure(known, ask, requests=requests, concurrency=concurrency)
    ran = {backend for model in measured for backend in model.backends}
    said = {"pytorch": _IMPORTS, "tensorrt*": _NO_PLAN}
    return Comparison(
        where=f"the rehearsal's Triton server on {len(os.sched_getaffinity(0))} CPU cores",
        notes=(*_HERE, *(note for backend, note in said.items() if backend in ran)),
        requests=requests,
        concurrency=concurrency,
        models=measured,
    )


def _prepared(name: str, declared: ModelDefinition, place: Path, models: Path | None) -> Subject:
    from triton_models.artifact.pack.pack import pack
    from triton_models.builds.build import build
    from triton_models.deliver.steps import check_built

    progress(f"building {name}")
    root = build(name, output=place / "built", models=models)
    check_built(root)
    artifact = pack(root, output=place / "artifacts")
    allowed = None if declared.reference is None else declared.allowed()
    known = Measurement(name=name, backends=_backends(root), size=artifact.size, cold=(), allowed=allowed)
    return Subject(
        name=name, build=declared, artifact=artifact.path, known=known, example=first_example(declared)
    )


def _backends(root: Path) -> tuple[str, ...]:
    """Return the backends of an artifact's models; an ensemble has those of its steps."""
    from triton_models.artifact.pbtxt import read_config

    found = [read_config(path).backend for path in sorted(root.glob("*/config.pbtxt"))]
    return tuple(dict.fromkeys("tensorrt*" if each == "tensorrt" else each for each in found if each))


def _cold_starts(subjects: Sequence[Subject], place: Path, count: int) -> dict[str, list[ColdStart]]:
    """Return the cold starts of each model, each on a server that has just started."""
    cold: dict[str, list[ColdStart]] = {each.name: [] for each in subjects}
    by_name = {each.name: each for each in subjects}
    for number in range(count):
        for name in rotated(list(by_name), number):
            progress(f"cold start {number + 1} of {name}")
            times = _Times()
            with closing(_instance(place, times)) as instance:
                start = time.perf_counter()
                by_name[name].ask(instance)
                total = time.perf_counter() - start
            cold[name].append(
                ColdStart(total_s=total, unpack_s=times.of["Download"], load_s=times.of["Load"])
            )
    return cold


def _instance(place: Path, times: _Times | None = None) -> Instance:
    from triton_rehearsal.hosting.instance import Setup
    from triton_rehearsal.hosting.multi_model import MultiModelInstance

    setup = Setup(
        environment=ENVIRONMENT,
        directory=Path(tempfile.mkdtemp(prefix="server-", dir=place)) / "instance",
        report=(times or _Times()).note,
    )
    s3 = _Folder(folder=place / "artifacts")
    return MultiModelInstance(setup, bucket="", prefix="", s3=s3, load_wait_s=LOAD_LIMIT_S)


def _difference(subject: Subject, instance: Instance) -> float | None:
    served = subject.ask(instance)
    expected = reference_answer(subject.build, subject.example)
    return max((largest_difference(served[name], value) for name, value in expected.items()), default=None)


def _asking(subject: Subject, instance: Instance) -> Ask:
    return lambda: subject.ask(instance)
