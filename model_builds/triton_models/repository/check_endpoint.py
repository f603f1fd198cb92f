"""`fleet check-endpoint`: find models that an endpoint could not load, before the first request.

A TensorRT plan loads only on the compute capability and with the TensorRT it was compiled for. An endpoint
that cannot load it still reports InService, but answers every request for the model with an error. On another
GPU of the same compute capability TensorRT warns, and the plan may be slower.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triton_models.artifact.networks import PlanHeader
from triton_models.artifact.targets import built_gpu
from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.outcome import JsonReady
from triton_models.facts.instances import Gpu
from triton_models.repository.manifest import ArtifactRecord, Manifest, ModelRecord, Repository
from triton_models.repository.s3 import aws_errors, repository_client, wanted_repository
from triton_models.repository.serving import Serving, deployed, serving_with
from triton_models.repository.stored_manifest import read

RULE = "artifact-fits-endpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit(JsonReady):
    """The outcome of `fleet check-endpoint`: every model fits.

    Attributes:
        unrecorded: The models whose artifact has no record of its target.
        other_gpus: The models whose plan was compiled on another GPU of the same compute capability.
    """

    where: str
    models: tuple[str, ...]
    unrecorded: tuple[str, ...]
    other_gpus: tuple[str, ...] = ()
    exit_code: int = 0

    def lines(self) -> Iterator[str]:
        """Yield a summary, and a line each for models without a record and for plans of other GPUs."""
        count = len(self.models)
        yield f"{self.where}: {count} model{'s' * (count != 1)}, each built for this target or without a plan"
        if self.unrecorded:
            yield f"without a build record, so not compared: {', '.join(self.unrecorded)}"
        if self.other_gpus:
            yield (
                "compiled on another GPU of the same compute capability, so TensorRT warns and they may be "
                f"slower: {', '.join(self.other_gpus)}"
            )


def check_endpoint(manifest: Manifest, serving: Serving, *, models: Sequence[str] = ()) -> Fit:
    """Compare the targets of current artifacts with the endpoint that serves them.

    Raises:
        FleetError: The endpoint would refuse some artifacts, all of which are listed, or a model is unknown.
    """
    names = tuple(dict.fromkeys(models) or manifest.names)
    problems: list[Problem] = []
    unrecorded: dict[str, None] = {}
    other_gpus: dict[str, None] = {}
    for name in names:
        model = manifest.model(name)
        for artifact in dict.fromkeys(_looked_up(model, serving)):
            record = model.artifacts.get(artifact)
            if record is None or not (record.build or record.plans):
                unrecorded[name] = None
            if record is not None:
                where = f"{name} ({artifact}) on {serving.where}"
                problems.extend(_misfits(record, serving, where=where))
                if _other_gpu(record, serving):
                    other_gpus[name] = None
    raise_if_any(problems)
    return Fit(where=serving.where, models=names, unrecorded=tuple(unrecorded), other_gpus=tuple(other_gpus))


def _looked_up(model: ModelRecord, serving: Serving) -> Iterator[str]:
    """Yield the artifacts that the endpoint would load; the last publication if it has no target."""
    last = next((each.artifact for each in reversed(model.history)), None)
    for target in serving.targets or (None,):
        artifact = None if target is None else model.on(target)
        yield from filter(None, [artifact or last or next(iter(model.current.values()), None)])


def run(arguments: argparse.Namespace) -> Fit:
    """Run `fleet check-endpoint [NAME...] (--endpoint NAME | --instance-type TYPE --release RELEASE)`."""
    where = Repository.parse(wanted_repository(arguments.repository))
    with aws_errors(where.url):
        s3 = repository_client()
        serving = _wanted_serving(arguments)
        manifest = read(where, s3).manifest
    return check_endpoint(manifest, serving, models=arguments.names)


def _wanted_serving(arguments: argparse.Namespace) -> Serving:
    if arguments.endpoint and not (arguments.instance_type or arguments.release):
        import boto3.session

        return deployed(arguments.endpoint, boto3.session.Session().client("sagemaker"))
    if arguments.instance_type and arguments.release and not arguments.endpoint:
        return serving_with(instance_type=arguments.instance_type, release=arguments.release)
    raise FleetError.of(
        what="the endpoint is missing",
        where="the command line",
        fix="add --endpoint TritonFleet-g5-2xlarge-25-09, or --instance-type ml.g5.2xlarge --release 25.09",
        rule="check-endpoint",
    )


def _misfits(record: ArtifactRecord, serving: Serving, *, where: str) -> Iterator[Problem]:
    if record.portable:
        yield _misfit("it is portable, and lacks parts for an endpoint, such as a plan", where=where)
        return
    gpu = built_gpu(record.build)
    for instance in serving.instance_types:
        has = instance.gpu.name if instance.gpu else None
        if gpu and has != gpu and not _loads_on(record, instance.gpu):
            yield _misfit(f"a plan for {gpu}, and {instance.name} has {has or 'no GPU'}", where=where)
    # What was built in the release's image fits, also if the table of releases is wrong.
    elsewhere = serving.release is None or record.build.get("release") != serving.release.name
    for tensorrt in _tensorrt(record) if elsewhere else ():
        if serving.release and not PlanHeader(tensorrt=tensorrt).loads_in(serving.release.tensorrt):
            yield _misfit(
                f"a plan of TensorRT {tensorrt}, and release {serving.release.name} has TensorRT "
                f"{serving.release.tensorrt}",
                where=where,
            )


def _loads_on(record: ArtifactRecord, gpu: Gpu | None) -> bool:
    """Return whether a plan compiled on another GPU loads on this one."""
    if gpu is None:
        return False
    return any(each.tensorrt and each.on_gpu(gpu) for each in record.targets)


def _other_gpu(record: ArtifactRecord, serving: Serving) -> bool:
    gpu = built_gpu(record.build)
    return gpu is not None and any(
        each.gpu is not None and each.gpu.name != gpu for each in serving.instance_types
    )


def _tensorrt(record: ArtifactRecord) -> tuple[str, ...]:
    """Return the TensorRT versions of the plans themselves, otherwise those recorded by the build."""
    said = record.build.get("tensorrt")
    return record.plans or ((str(said),) if said else ())


def _misfit(what: str, *, where: str) -> Problem:
    return Problem(
        what=what,
        where=where,
        why="the endpoint would report InService, but answer every request with an error",
        fix="run the build job for that instance type and release, or use `fleet rollback`",
        rule=RULE,
    )
