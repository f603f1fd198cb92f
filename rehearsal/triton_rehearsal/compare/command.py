"""`fleet compare`: measures variants of models side by side, on this machine or on a deployed endpoint."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from triton_models.base.answers import largest_difference
from triton_models.base.errors import FleetError
from triton_models.base.outcome import progress
from triton_models.builds.tensorrt.machine import is_model, query_gpus
from triton_models.deliver.verify.comparing import answered
from triton_models.facts.gpu_peaks import peaks_of
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import RELEASE_VARIABLE
from triton_models.spec import Ensemble, Example, ModelDefinition, forms_of, load_builds
from triton_rehearsal.compare.floors import Floors, RequestFloor, floors, request_floor
from triton_rehearsal.compare.measurement import (
    Ask,
    ColdStart,
    Comparison,
    Measurement,
    first_example,
    measure,
    reference_answer,
    rotated,
)
from triton_rehearsal.compare.record import write_record
from triton_rehearsal.options import CompareOptions

if TYPE_CHECKING:
    from triton_models.client import Client, Parameters, Tensors
    from triton_models.deliver.verify.server import Server
    from triton_models.facts.instances import Gpu
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
_LOAD_LIMIT_S = 360.0

_HERE = (
    "Python stand-ins ran the models on this machine's CPU, with one thread unless a model sets more: "
    "the numbers say nothing about a GPU.",
)
_IMPORTS = "pytorch: the stand-in imports PyTorch for each model, which the real backend does not."
_NO_PLAN = "* runs with ONNX Runtime instead of TensorRT: plans need a GPU."
_ONE_START = (
    "One cold start per model, measured by the caller, if the endpoint had not loaded the model yet.",
)


def run(options: CompareOptions) -> Comparison | Floors:
    """Run `fleet compare NAME...`: on this machine, on its GPU, on a deployed endpoint, or on paper."""
    models = options.models
    spelled = [[name] if ":" in name else forms_of(name, models) for name in options.names]
    names = list(dict.fromkeys(each for forms in spelled for each in forms))
    builds = dict(zip(names, load_builds(names, models), strict=True))
    gpu = options.gpu if options.gpu and _is_here(options.gpu) else ""
    if options.record and not (gpu or options.endpoint):
        raise FleetError.of(
            what="nothing to record: no GPU is measured",
            where="--record",
            fix="add --endpoint NAME, or --gpu with this machine's GPU in the Triton image",
            rule="compare-record",
        )
    if gpu or options.endpoint:
        measured = (
            _compare_on_gpu(builds, options, gpu=gpu)
            if gpu
            else _compare_on_endpoint(builds, options, endpoint=options.endpoint or "")
        )
        if options.record:
            write_record(options.record, measured)
        return measured
    if options.gpu:
        return floors(builds, options.gpu, models=models)
    return compare_locally(
        builds,
        models=models,
        requests=options.requests,
        concurrency=options.concurrency,
        cold_starts=options.cold_starts,
    )


def _compare_on_endpoint(
    builds: Mapping[str, ModelDefinition], options: CompareOptions, *, endpoint: str
) -> Comparison:
    """Measure the answers of a deployed endpoint, with the current artifacts of its repository.

    The named models must be published. Their other forms are measured only if they are published.
    """
    import boto3.session

    from triton_models.client import Client
    from triton_models.repository.endpoints import deployed
    from triton_models.repository.objects import opened
    from triton_models.repository.stored_manifest import read

    requests, concurrency = options.requests, options.concurrency
    with opened(options.repository) as store:
        manifest = read(store).manifest
        serving = deployed(endpoint, boto3.session.Session().client("sagemaker"))
    target = next(iter(serving.targets), None)
    client = Client(endpoint_name=endpoint, target=str(target) if target else None, repository=store.url)
    published = frozenset(manifest.names)
    named = options.names
    there = {name: build for name, build in builds.items() if name in named or build.name in published}
    models = {name: manifest.model(build.name) for name, build in there.items()}
    sizes = {
        name: model.artifacts[manifest.target_model(builds[name].name, target)].size
        for name, model in models.items()
    }
    ask = {name: _invoking(build, client) for name, build in there.items()}
    gpus = {each.gpu for each in serving.instance_types}
    gpu = gpus.pop() if len(gpus) == 1 else None
    known = [
        _first_answer(name, build, ask[name], sizes[name], floor=_floor(name, build, gpu, options.models))
        for name, build in there.items()
    ]
    missing = ", ".join(name for name in builds if name not in there)
    return Comparison(
        where=serving.where,
        release=serving.release.name if serving.release else None,
        notes=(*_ONE_START, *([f"Not published, so not measured: {missing}."] if missing else [])),
        requests=requests,
        concurrency=concurrency,
        models=measure(known, ask, requests=requests, concurrency=concurrency),
    )


def _floor(name: str, build: ModelDefinition, gpu: Gpu | None, models: Path | None) -> RequestFloor | None:
    """Return the floor of the first example on a GPU; None if it has none."""
    batches = any(not isinstance(each, Ensemble) and each.max_batch_size for each in build.models)
    rows = len(next(iter(first_example(build).first.values()))) if batches else 1
    try:
        if gpu is not None:
            return request_floor(name, build, peaks=peaks_of(gpu), rows=rows, models=models)
    except FleetError as error:
        progress(f"{name} has no floor: {error.problems[0].what}")
    return None


def _compare_on_gpu(
    builds: Mapping[str, ModelDefinition], options: CompareOptions, *, gpu: str
) -> Comparison:
    """Build every model for this machine's GPU, and measure it on the image's server, all loaded at once."""
    from triton_models.builds.build import build as build_model
    from triton_models.deliver.verify.server import local_server

    release = os.environ[RELEASE_VARIABLE]
    card, driver = query_gpus("name", "driver_version")[0]
    known, ask = [], {}
    with (
        tempfile.TemporaryDirectory(prefix="fleet-compare-") as folder,
        local_server() as server,
        ExitStack() as loaded,
    ):
        for name, build in builds.items():
            progress(f"building {name}")
            root = build_model(name, output=Path(folder), release=release, gpu=gpu, models=options.models)
            floor = _floor(name, build, gpu_named(gpu), options.models)
            size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
            ask[name] = _asking(build, server)
            start = time.perf_counter()
            loaded.enter_context(server.loaded(root, build.name))
            first = _first_answer(name, build, ask[name], size, floor=floor)
            known.append(replace(first, cold=(ColdStart(total_s=time.perf_counter() - start),)))
        measured = measure(known, ask, requests=options.requests, concurrency=options.concurrency)
    return Comparison(
        where=f"the Triton server of {release} on {card}, driver {driver}",
        release=release,
        driver=driver,
        notes=("Cold start: from the load to the first answer, without unpacking.",),
        requests=options.requests,
        concurrency=options.concurrency,
        models=measured,
    )


def _asking(build: ModelDefinition, server: Server) -> Ask:
    example = build.as_sent(first_example(build))
    where = f"a request for {build.name!r}"
    return lambda: answered(
        example,
        lambda inputs, parameters: server.infer(build.name, inputs, parameters=parameters, where=where),
    )


def _is_here(gpu: str) -> bool:
    """Return True in a Triton image on a machine with this GPU."""
    devices = [each[0] for each in query_gpus("name")] if RELEASE_VARIABLE in os.environ else []
    return bool(devices) and all(is_model(name, gpu_named(gpu)) for name in devices)


def _first_answer(
    name: str, build: ModelDefinition, ask: Ask, size: int, *, floor: RequestFloor | None = None
) -> Measurement:
    progress(f"asking {name} for the first time")
    start = time.perf_counter()
    served = ask()
    total = time.perf_counter() - start
    models = [model for model in build.models if not isinstance(model, Ensemble)]
    return Measurement(
        name=name,
        backends=tuple(dict.fromkeys(model.backend.backend for model in models)),
        size=size,
        cold=(ColdStart(total_s=total),),
        floor=floor,
        difference=_difference(build, first_example(build), served),
        allowed=build.widest() if build.reference else None,
    )


def _invoking(build: ModelDefinition, client: Client) -> Ask:
    example = build.as_sent(first_example(build))
    return lambda: answered(
        example,
        lambda inputs, parameters: client.infer(model=build.name, inputs=inputs, parameters=parameters),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    name: str
    build: ModelDefinition
    artifact: Path
    known: Measurement
    example: Example

    def ask(self, instance: Instance) -> dict[str, Any]:
        return answered(
            self.build.as_sent(self.example),
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
            raise self._refused(f"it did not load within {_LOAD_LIMIT_S:.0f} seconds") from error
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


def compare_locally(
    builds: Mapping[str, ModelDefinition],
    *,
    requests: int,
    concurrency: int,
    cold_starts: int,
    models: Path | None = None,
) -> Comparison:
    """Build, pack and serve every model on this machine, as a multi-model endpoint does.

    Each of the cold starts of a model has a new server.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-compare-") as folder:
        place = Path(folder)
        subjects = [_prepared(name, build, place, models) for name, build in builds.items()]
        cold = _cold_starts(subjects, place, cold_starts)
        with closing(_instance(place)) as instance:
            known = [
                replace(
                    each.known,
                    cold=tuple(cold[each.name]),
                    difference=_difference(each.build, each.example, each.ask(instance)),
                )
                for each in subjects
            ]
            progress(f"sending each model {requests} requests, in turn")
            ask = {each.name: partial(each.ask, instance) for each in subjects}
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


def _prepared(name: str, declared: ModelDefinition, place: Path, models: Path | None) -> _Subject:
    from triton_models.artifact.layout import BUILD_FILE, TOLERANCE
    from triton_models.artifact.pack.pack import pack
    from triton_models.builds.build import build
    from triton_models.deliver.steps import check_built

    progress(f"building {name}")
    root = build(name, output=place / "built", models=models)
    check_built(root)
    artifact = pack(root, output=place / "artifacts")
    allowed = json.loads((root / BUILD_FILE).read_text()).get(TOLERANCE)
    known = Measurement(name=name, backends=_backends(root), size=artifact.size, cold=(), allowed=allowed)
    return _Subject(
        name=name, build=declared, artifact=artifact.path, known=known, example=first_example(declared)
    )


def _backends(root: Path) -> tuple[str, ...]:
    from triton_models.artifact.pbtxt import read_config

    found = [read_config(path).backend for path in sorted(root.glob("*/config.pbtxt"))]
    return tuple(dict.fromkeys("tensorrt*" if each == "tensorrt" else each for each in found if each))


def _cold_starts(subjects: Sequence[_Subject], place: Path, count: int) -> dict[str, list[ColdStart]]:
    """Return the cold starts of each model, each on a server that has just started."""
    cold: dict[str, list[ColdStart]] = {each.name: [] for each in subjects}
    by_name = {each.name: each for each in subjects}
    for number in range(count):
        for name in rotated(list(by_name), number):
            progress(f"cold start {number + 1} of {name}")
            times: dict[str, float] = {}  # in seconds, by kind of event
            with closing(_instance(place, times)) as instance:
                start = time.perf_counter()
                by_name[name].ask(instance)
                total = time.perf_counter() - start
            cold[name].append(ColdStart(total_s=total, unpack_s=times["Download"], load_s=times["Load"]))
    return cold


def _instance(place: Path, times: dict[str, float] | None = None) -> Instance:
    from triton_rehearsal.hosting.instance import Setup
    from triton_rehearsal.hosting.multi_model import MultiModelInstance
    from triton_rehearsal.hosting.variant import Repository

    def note(event: Event) -> None:
        if times is not None:
            times[type(event).__name__] = getattr(event, "seconds", 0.0)

    setup = Setup(
        environment=ENVIRONMENT,
        directory=Path(tempfile.mkdtemp(prefix="server-", dir=place)) / "instance",
        report=note,
    )
    s3 = _Folder(folder=place / "artifacts")
    repository = Repository(bucket="", prefix="")
    return MultiModelInstance(setup, repository=repository, s3=s3, load_wait_s=_LOAD_LIMIT_S)


def _difference(build: ModelDefinition, example: Example, served: Mapping[str, Any]) -> float | None:
    """Return the largest difference from the reference; None without one."""
    expected = reference_answer(build, example)
    return max((largest_difference(served[name], value) for name, value in expected.items()), default=None)
