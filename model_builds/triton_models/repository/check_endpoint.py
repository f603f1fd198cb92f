"""`fleet check-endpoint`: find models that an endpoint could not load, before the first request.

A TensorRT plan loads only on the compute capability and with the TensorRT it was compiled for. An endpoint
that cannot load it still reports InService, but answers every request for the model with an error. On another
GPU of the same compute capability TensorRT warns, and the plan may be slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from triton_models.artifact.networks import PlanHeader
from triton_models.artifact.targets import built_gpu
from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.outcome import JsonReady
from triton_models.repository.endpoints import Endpoint, deployed, planned
from triton_models.repository.manifest import ArtifactRecord, Manifest, ModelRecord
from triton_models.repository.objects import opened
from triton_models.repository.stored_manifest import read

CHECK_ENDPOINT = Check(id="check-endpoint", source=FROM_ARGUMENTS)
FITS = Check(id="artifact-fits-endpoint", source="the tables of triton_models.facts")


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


def check_endpoint(manifest: Manifest, endpoint: Endpoint, *, models: Sequence[str] = ()) -> Fit:
    """Compare the targets of current artifacts with the endpoint that serves them."""
    names = tuple(dict.fromkeys(models) or manifest.names)
    report = Report(endpoint.where)
    unrecorded: dict[str, None] = {}
    other_gpus: dict[str, None] = {}
    for name in names:
        model = manifest.model(name)
        for artifact in dict.fromkeys(_looked_up(model, endpoint)):
            record = model.artifacts.get(artifact)
            if record is None or not (record.build or record.plans):
                unrecorded[name] = None
            if record is not None:
                misfits = Report(f"{name} ({artifact}) on {endpoint.where}")
                _check_fit(misfits, record, endpoint)
                report.add(misfits.problems)
                gpu = built_gpu(record.build)
                if gpu and any(each.gpu and each.gpu.name != gpu for each in endpoint.instance_types):
                    other_gpus[name] = None
    report.raise_if_any()
    return Fit(where=endpoint.where, models=names, unrecorded=tuple(unrecorded), other_gpus=tuple(other_gpus))


def _looked_up(model: ModelRecord, endpoint: Endpoint) -> Iterator[str]:
    """Yield the artifacts that the endpoint would load; the last publication if it has no target."""
    last = next((each.artifact for each in reversed(model.history)), None)
    for target in endpoint.targets or (None,):
        artifact = None if target is None else model.on(target)
        yield from filter(None, [artifact or last or next(iter(model.current.values()), None)])


@dataclass(frozen=True, kw_only=True)
class CheckEndpointOptions(opt.RepositoryOptions):
    """Options of `fleet check-endpoint`."""

    names: Sequence[opt.Name] = opt.argument("only these models", nargs="*")
    endpoint: opt.Name | None = opt.option("a deployed endpoint; its instance type and release are looked up")
    instance_type: opt.Type | None = opt.option(opt.INSTANCE_TYPE)
    release: str | None = opt.option("the endpoint's Triton release, such as 25.09")


def run(options: CheckEndpointOptions) -> Fit:
    """Run `fleet check-endpoint [NAME...] (--endpoint NAME | --instance-type TYPE --release RELEASE)`."""
    with opened(options.repository) as store:
        endpoint = _wanted(options)
        manifest = read(store).manifest
    return check_endpoint(manifest, endpoint, models=options.names)


def _wanted(options: CheckEndpointOptions) -> Endpoint:
    if options.endpoint and not (options.instance_type or options.release):
        import boto3.session

        return deployed(options.endpoint, boto3.session.Session().client("sagemaker"))
    if options.instance_type and options.release and not options.endpoint:
        return planned(instance_type=options.instance_type, release=options.release)
    raise CHECK_ENDPOINT.error(
        what="the endpoint is missing",
        where="the command line",
        fix="add --endpoint TritonFleet-g5-2xlarge-25-09, or --instance-type ml.g5.2xlarge --release 25.09",
    )


def _check_fit(report: Report, record: ArtifactRecord, endpoint: Endpoint) -> None:
    def misfit(what: str) -> None:
        report(
            FITS,
            what,
            why="the endpoint would report InService, but answer every request with an error",
            fix="run the build job for that instance type and release, or use `fleet rollback`",
        )

    if record.portable:
        misfit("it is portable, and lacks parts for an endpoint, such as a plan")
        return
    gpu, release = built_gpu(record.build), endpoint.release
    plans = [each for each in record.targets if each.tensorrt]
    for instance in endpoint.instance_types:
        has = instance.gpu
        loads = has is not None and (has.name == gpu or any(each.on_gpu(has) for each in plans))
        if gpu and not loads:
            misfit(f"a plan for {gpu}, and {instance.name} has {has.name if has else 'no GPU'}")
    # What was built in the release's image fits, also if the table of releases is wrong.
    if release is None or record.build.get("release") == release.name:
        return
    said = record.build.get("tensorrt")
    for tensorrt in record.plans or ((str(said),) if said else ()):  # if the plans' own are not recorded
        if not PlanHeader(tensorrt=tensorrt).loads_in(release.tensorrt):
            misfit(
                f"a plan of TensorRT {tensorrt}, and release {release.name} has TensorRT {release.tensorrt}"
            )
