"""`fleet preflight`: whether an endpoint can load what the names stand for now, found before it is asked.

A TensorRT plan loads on the GPU model and with the TensorRT that compiled it. An endpoint that cannot load it
reports InService all the same, and answers every request for the model with an error.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton_models.built_for import built_gpus
from triton_models.errors import FleetError, Problem, raise_if_any
from triton_models.instances import InstanceType
from triton_models.instances import instance_type as find_instance_type
from triton_models.manifest import ArtifactRecord, Manifest, Repository
from triton_models.plan_header import PlanHeader
from triton_models.publishing.s3 import aws_errors, repository_client, wanted_repository
from triton_models.publishing.stored_manifest import read
from triton_models.releases import RELEASES, Release
from triton_models.releases import release as find_release

if TYPE_CHECKING:
    from mypy_boto3_sagemaker import SageMakerClient

RULE = "artifact-fits-endpoint"

# The tag of AWS's and NVIDIA's images: "25.09-py3", "25.09-py3-cpu".
_TAG = re.compile(r":(?P<release>\d\d\.\d\d)-py3(?:-cpu)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """What serves the models.

    Attributes:
        instance_types: What the endpoint runs on; several where its variants or pools differ.
        release: The Triton release; None if the image does not tell.
        where: The endpoint, for errors.
    """

    instance_types: tuple[InstanceType, ...]
    release: Release | None
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The outcome of `fleet preflight`: every model fits.

    Attributes:
        where: What serves them.
        models: The models that were looked at.
        unrecorded: Those of them whose artifact says nothing about what it was built for.
    """

    where: str
    models: tuple[str, ...]
    unrecorded: tuple[str, ...]
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """All of it."""
        return {"where": self.where, "models": list(self.models), "unrecorded": list(self.unrecorded)}

    def lines(self) -> Iterator[str]:
        """One line, and one more for models that nothing is known about."""
        count = len(self.models)
        yield f"{self.where}: {count} model{'s' * (count != 1)}, each built for it or without a plan"
        if self.unrecorded:
            yield f"without a build record, so not compared: {', '.join(self.unrecorded)}"


def preflight(manifest: Manifest, serving: Serving, *, models: Sequence[str] = ()) -> Fit:
    """Compare what current artifacts were built for with what serves them.

    Args:
        manifest: The repository's.
        serving: The endpoint.
        models: Only these; all if empty.

    Raises:
        FleetError: Artifacts that the endpoint would refuse, all of them; or a model of that name is unknown.
    """
    names = tuple(dict.fromkeys(models) or sorted(manifest.models))
    problems: list[Problem] = []
    unrecorded = []
    for name in names:
        model = manifest.model(name)
        record = model.artifacts.get(model.current)
        if record is None or not (record.build or record.plans):
            unrecorded.append(name)
        if record is not None:
            where = f"{name} ({model.current}) on {serving.where}"
            problems.extend(_misfits(record, serving, where=where))
    raise_if_any(problems)
    return Fit(where=serving.where, models=names, unrecorded=tuple(unrecorded))


def deployed(endpoint: str, sagemaker: SageMakerClient) -> Serving:
    """What a deployed endpoint serves with.

    Raises:
        FleetError: Its instance type is unknown to the table of instance types.
        botocore.exceptions.ClientError: There is no such endpoint, or it must not be described.
    """
    config = sagemaker.describe_endpoint(EndpointName=endpoint)["EndpointConfigName"]
    variants = sagemaker.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    types = dict.fromkeys(name for variant in variants for name in _instance_types(variant))
    images = dict.fromkeys(
        image
        for variant in variants
        if (model := variant.get("ModelName"))
        for image in _images(sagemaker.describe_model(ModelName=model))
    )
    releases = {match["release"] for image in images if (match := _TAG.search(image))}
    known = RELEASES.get(releases.pop()) if len(releases) == 1 else None
    return Serving(
        instance_types=tuple(find_instance_type(name) for name in types),
        release=known,
        where=f"endpoint {endpoint} ({', '.join([*types, *([f'release {known.name}'] if known else [])])})",
    )


def serving_with(*, instance_type: str, release: str) -> Serving:
    """An endpoint that is still to be deployed.

    Raises:
        FleetError: The instance type or the release is unknown.
    """
    return Serving(
        instance_types=(find_instance_type(instance_type),),
        release=find_release(release),
        where=f"{instance_type} with release {release}",
    )


def run(arguments: argparse.Namespace) -> Fit:
    """`fleet preflight [NAME...] (--endpoint NAME | --instance-type TYPE --release RELEASE)`."""
    where = Repository.parse(wanted_repository(arguments.repository))
    with aws_errors(where.url):
        s3 = repository_client()
        serving = _wanted_serving(arguments)
        manifest = read(where, s3).manifest
    return preflight(manifest, serving, models=arguments.models)


def _wanted_serving(arguments: argparse.Namespace) -> Serving:
    if arguments.endpoint and not (arguments.instance_type or arguments.release):
        import boto3.session

        return deployed(arguments.endpoint, boto3.session.Session().client("sagemaker"))
    if arguments.instance_type and arguments.release and not arguments.endpoint:
        return serving_with(instance_type=arguments.instance_type, release=arguments.release)
    raise FleetError.of(
        what="it is not said what serves the models",
        where="the command line",
        expected="--endpoint NAME; or --instance-type and --release of one that is still to be deployed",
        fix="--endpoint TritonFleet-g5-2xlarge, or --instance-type ml.g5.2xlarge --release 25.09",
        rule="preflight-endpoint",
    )


def _misfits(record: ArtifactRecord, serving: Serving, *, where: str) -> Iterator[Problem]:
    if record.portable:
        yield _misfit(
            "portable: built for no endpoint, so it lacks a TensorRT plan or an environment",
            "an artifact built for the endpoint",
            where=where,
        )
        return
    gpus = built_gpus(record.build)
    for instance in serving.instance_types:
        has = instance.gpu.name if instance.gpu else None
        if gpus and has not in gpus:
            plan = f"a plan for {gpus[0]}" if len(gpus) == 1 else f"plans for {', '.join(gpus)}"
            yield _misfit(plan, f"{instance.name} has {has or 'no GPU'}", where=where)
    for tensorrt in _tensorrt(record):
        if serving.release and not PlanHeader(tensorrt=tensorrt).loads_in(serving.release.tensorrt):
            yield _misfit(
                f"a plan of TensorRT {tensorrt}",
                f"release {serving.release.name} has TensorRT {serving.release.tensorrt}",
                where=where,
            )


def _tensorrt(record: ArtifactRecord) -> tuple[str, ...]:
    """What the plans say; where nobody has looked into them, what the build said."""
    said = record.build.get("tensorrt")
    return record.plans or ((str(said),) if said else ())


def _misfit(what: str, expected: str, *, where: str) -> Problem:
    return Problem(
        what=what,
        where=where,
        expected=expected,
        why="the endpoint would answer every request for the model with an error, and report InService",
        fix="run the build job of that instance type and release, or `fleet rollback` to one that fits",
        rule=RULE,
    )


def _instance_types(variant: Mapping[str, Any]) -> Iterator[str]:
    if variant.get("InstanceType"):
        yield variant["InstanceType"]
    for pool in variant.get("InstancePools") or ():
        yield pool["InstanceType"]


def _images(model: Mapping[str, Any]) -> Iterator[str]:
    for container in (model.get("PrimaryContainer") or {}, *(model.get("Containers") or ())):
        if container.get("Image"):
            yield container["Image"]
