"""Artifacts that the account's endpoints can load regardless of the manifest.

A SageMaker Model of a single-model endpoint names its artifact, which every new instance downloads. A
multi-model endpoint's Model names the repository, and loads the artifacts that applications request. Models
in other accounts, and artifacts named only by a model package or an inference component, are not found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from triton_models.repository.manifest import Repository
from triton_models.repository.s3 import error_code, field, workers

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sagemaker import SageMakerClient

# DescribeModel is throttled at a few requests per second; the SDK waits and retries.
_THREADS = 4


def sagemaker_client(repository: Repository, s3: S3Client) -> SageMakerClient:
    """Return a SageMaker client in the bucket's region, because a Model loads only from its own region."""
    import boto3.session
    from botocore.config import Config

    config = Config(retries={"mode": "standard", "total_max_attempts": 10})
    region = _region(repository, s3)
    return boto3.session.Session().client("sagemaker", region_name=region, config=config)


def named_by_models(repository: Repository, sagemaker: SageMakerClient) -> dict[str, tuple[str, ...]]:
    """Return the artifacts of a repository that SageMaker Models name, with the names of the Models."""
    pages = sagemaker.get_paginator("list_models").paginate()
    names = [each["ModelName"] for page in pages for each in field(page, "Models", where=repository.url)]
    found: defaultdict[str, list[str]] = defaultdict(list)
    with workers(_THREADS) as pool:
        described = pool.map(lambda name: _described(name, sagemaker), names)
        for name, model in zip(names, described, strict=True):
            for url in set(_urls(model)):
                artifact = url.removeprefix(repository.url)
                if artifact not in {"", url}:
                    found[artifact].append(name)
    return {artifact: tuple(models) for artifact, models in found.items()}


def _described(name: str, sagemaker: SageMakerClient) -> Mapping[str, Any]:
    from botocore.exceptions import ClientError

    try:
        answer = sagemaker.describe_model(ModelName=name)
    except ClientError as error:
        if error_code(error) == "ValidationException":
            return {}  # it was deleted after it was listed
        raise
    field(answer, "ModelArn", where=f"the SageMaker Model {name}")
    return answer


def _urls(model: Mapping[str, Any]) -> Iterator[str]:
    for container in (model.get("PrimaryContainer") or {}, *(model.get("Containers") or ())):
        sources = [
            container.get("ModelDataSource") or {},
            *(container.get("AdditionalModelDataSources") or ()),
        ]
        yield container.get("ModelDataUrl") or ""
        for source in sources:
            yield (source.get("S3DataSource") or {}).get("S3Uri") or ""


def _region(repository: Repository, s3: S3Client) -> str:
    """Return the bucket's region, which S3 reveals even when it denies access."""
    from botocore.exceptions import ClientError

    try:
        answer: Any = s3.head_bucket(Bucket=repository.bucket)
    except ClientError as error:
        answer = error.response
    said = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
    return said or s3.meta.region_name
