"""The endpoints that serve models, deployed or planned, and the Models that name artifacts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.errors import FleetError
from triton_models.facts.instances import InstanceType
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.releases import Release, known_release
from triton_models.facts.releases import release as find_release
from triton_models.repository.manifest import Repository
from triton_models.repository.objects import Store
from triton_models.repository.s3 import error_code, field, in_parallel

if TYPE_CHECKING:
    from mypy_boto3_sagemaker import SageMakerClient

# DescribeModel is throttled at a few requests per second; the SDK waits and retries.
_THREADS = 4

# Of an endpoint or Model that was deleted after it was listed.
_DELETED = "ValidationException"

# The tag of AWS's and NVIDIA's images: "25.09-py3", "25.09-py3-cpu".
_TAG = re.compile(r":(?P<release>\d\d\.\d\d)-py3(?:-cpu)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The endpoint that serves the models.

    Attributes:
        instance_types: Its instance types; several if its variants or pools differ.
        release: The Triton release; None if the image's tag does not contain it.
        repositories: The URLs that its models come from; empty if it is planned.
    """

    instance_types: tuple[InstanceType, ...]
    release: Release | None
    where: str
    repositories: tuple[str, ...] = ()

    @property
    def targets(self) -> tuple[ArtifactTarget, ...]:
        """The targets of the endpoint, one per compute capability; empty if the release is unknown."""
        release = self.release
        if release is None:
            return ()
        return tuple(
            dict.fromkeys(ArtifactTarget.of(release=release, gpu=each.gpu) for each in self.instance_types)
        )


def describe(name: str, sagemaker: SageMakerClient) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]:
    """Return what SageMaker says of an endpoint, and the configuration of its variants."""
    where = f"the endpoint {name}"
    endpoint = sagemaker.describe_endpoint(EndpointName=name)
    config = field(endpoint, "EndpointConfigName", where=where)
    answer = sagemaker.describe_endpoint_config(EndpointConfigName=config)
    return endpoint, field(answer, "ProductionVariants", where=where)


def deployed(endpoint: str, sagemaker: SageMakerClient) -> Endpoint:
    """Return the part of a deployed endpoint that decides which artifacts it loads."""
    _, variants = describe(endpoint, sagemaker)
    return _endpoint(endpoint, variants, _models(variants, sagemaker))


def live_targets(repository: Repository, sagemaker: SageMakerClient) -> frozenset[ArtifactTarget] | None:
    """Return the targets of the multi-model endpoints that serve a repository.

    None if they are unknown: no endpoint of this account and region serves it, or the image or instance type
    of such an endpoint is not in the tables.
    """
    from botocore.exceptions import ClientError

    found: set[ArtifactTarget] = set()
    pages = sagemaker.get_paginator("list_endpoints").paginate()
    for name in [
        each["EndpointName"] for page in pages for each in field(page, "Endpoints", where=repository.url)
    ]:
        try:
            _, variants = describe(name, sagemaker)
            models = _models(variants, sagemaker)
        except ClientError as error:
            if error_code(error) != _DELETED:
                raise
            continue
        if not any(each.get("ModelDataUrl") == repository.url for each in _containers(models)):
            continue
        try:
            targets = _endpoint(name, variants, models).targets
        except FleetError:
            return None
        if not targets:
            return None
        found.update(targets)
    return frozenset(found) or None


def planned(*, instance_type: str, release: str) -> Endpoint:
    """Describe a planned endpoint."""
    return Endpoint(
        instance_types=(find_instance_type(instance_type),),
        release=find_release(release),
        where=f"{instance_type} with release {release}",
    )


def _endpoint(
    endpoint: str, variants: Sequence[Mapping[str, Any]], models: Sequence[Mapping[str, Any]]
) -> Endpoint:
    types = dict.fromkeys(name for variant in variants for name in _instance_types(variant))
    images = dict.fromkeys(each["Image"] for each in _containers(models) if each.get("Image"))
    releases = {match["release"] for image in images if (match := _TAG.search(image))}
    known = known_release(releases.pop()) if len(releases) == 1 else None
    return Endpoint(
        instance_types=tuple(find_instance_type(name) for name in types),
        release=known,
        repositories=tuple(each["ModelDataUrl"] for each in _containers(models) if each.get("ModelDataUrl")),
        where=f"endpoint {endpoint} ({', '.join([*types, *([f'release {known.name}'] if known else [])])})",
    )


def _models(variants: Sequence[Mapping[str, Any]], sagemaker: SageMakerClient) -> list[Mapping[str, Any]]:
    names = dict.fromkeys(model for variant in variants if (model := variant.get("ModelName")))
    return [_model(name, sagemaker) for name in names]


def _model(name: str, sagemaker: SageMakerClient) -> Mapping[str, Any]:
    answer = sagemaker.describe_model(ModelName=name)
    field(answer, "ModelArn", where=f"the SageMaker Model {name}")
    return answer


def _instance_types(variant: Mapping[str, Any]) -> Iterator[str]:
    if variant.get("InstanceType"):
        yield variant["InstanceType"]
    for pool in variant.get("InstancePools") or ():
        yield pool["InstanceType"]


def _containers(models: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for model in models:
        yield from (model.get("PrimaryContainer") or {}, *(model.get("Containers") or ()))


def sagemaker_client(store: Store) -> SageMakerClient:
    """Return a SageMaker client in the bucket's region, because a Model loads only from its own region."""
    import boto3.session
    from botocore.config import Config

    config = Config(retries={"mode": "standard", "total_max_attempts": 10})
    return boto3.session.Session().client("sagemaker", region_name=bucket_region(store), config=config)


def bucket_region(store: Store) -> str:
    """Return the region of a repository, which is that of its endpoints."""
    from botocore.exceptions import ClientError

    try:
        answer: Any = store.s3.head_bucket(Bucket=store.repository.bucket)
    except ClientError as error:
        answer = error.response  # S3 reveals the region even when it denies access
    said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
    return str(said or store.s3.meta.region_name)


def named_by_models(repository: Repository, sagemaker: SageMakerClient) -> dict[str, tuple[str, ...]]:
    """Return the artifacts of a repository that SageMaker Models name, with the names of the Models.

    A single-model endpoint's Model names its artifact, which every new instance downloads. Not found are
    Models of other accounts, and artifacts that only a model package or an inference component names.
    """
    from botocore.exceptions import ClientError

    def described(name: str) -> Sequence[Mapping[str, Any]]:
        try:
            return [_model(name, sagemaker)]
        except ClientError as error:
            if error_code(error) == _DELETED:
                return ()
            raise

    pages = sagemaker.get_paginator("list_models").paginate()
    names = [each["ModelName"] for page in pages for each in field(page, "Models", where=repository.url)]
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, models in zip(names, in_parallel(described, names, threads=_THREADS), strict=True):
        for url in {url for container in _containers(models) for url in _urls(container)}:
            artifact = url.removeprefix(repository.url)
            if artifact not in {"", url}:
                found[artifact].append(name)
    return {artifact: tuple(models) for artifact, models in found.items()}


def _urls(container: Mapping[str, Any]) -> Iterator[str]:
    yield container.get("ModelDataUrl") or ""
    for source in (container.get("ModelDataSource"), *(container.get("AdditionalModelDataSources") or ())):
        yield ((source or {}).get("S3DataSource") or {}).get("S3Uri") or ""
