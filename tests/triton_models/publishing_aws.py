"""A small AWS to publish to, artifacts to publish, and what must hold afterwards."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import boto3.session
from botocore.config import Config
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

from tests.triton_models.model_folders import write_plain
from tests.triton_models.real_networks import write_onnx
from triton_models.artifact.layout import digest_of_artifact
from triton_models.artifact.pack.pack import Artifact, pack
from triton_models.repository.manifest import ArtifactRecord, Manifest, Publication, Repository
from triton_models.repository.stored_manifest import read_manifest

# Commands compare it with the clock: `fleet prune` keeps what was current within the last seven days.
EARLIER = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=2)
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}

_numbers = itertools.count(1)
_session = boto3.session.Session()  # it reads the API models once


@contextmanager
def small_aws() -> Iterator[str]:
    from moto.s3 import models

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    least, models.S3_UPLOAD_PART_MIN_SIZE = models.S3_UPLOAD_PART_MIN_SIZE, 1  # small parts are quick
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        models.S3_UPLOAD_PART_MIN_SIZE = least
        server.stop()


def client(url: str, service: str = "s3", *, attempts: int = 1) -> Any:
    return _session.client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"mode": "standard", "total_max_attempts": attempts}, max_pool_connections=16),
    )


@contextmanager
def own_endpoints(url: str) -> Iterator[Any]:
    """A client of SageMaker; what is made meanwhile goes: servers of one process have endpoints in common."""
    sagemaker = client(url, "sagemaker")
    before = _endpoints(sagemaker)
    yield sagemaker
    for name in _endpoints(sagemaker) - before:
        sagemaker.delete_endpoint(EndpointName=name)


def _endpoints(sagemaker: Any) -> set[str]:
    return {each["EndpointName"] for each in sagemaker.list_endpoints()["Endpoints"]}


def endpoint(sagemaker: Any, url: str, *, name: str, image: str, instance_type: str, count: int = 1) -> None:
    sagemaker.create_model(
        ModelName=name,
        PrimaryContainer={"Image": image, "Mode": "MultiModel", "ModelDataUrl": url},
        ExecutionRoleArn="arn:aws:iam::123456789012:role/r",
    )
    variant = {"VariantName": "v", "ModelName": name, "InstanceType": instance_type}
    sagemaker.create_endpoint_config(
        EndpointConfigName=name, ProductionVariants=[{**variant, "InitialInstanceCount": count}]
    )
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)


def new_repository(s3: Any) -> str:
    bucket = f"published-{next(_numbers)}"  # servers of one process have their buckets in common
    s3.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/models/"


def artifact(folder: Path, *, name: str, weights: bytes) -> Artifact:
    root = write_plain(folder / hashlib.sha256(weights).hexdigest()[:8] / name, name=name)
    write_onnx(root / name, weights)
    return pack(root, output=folder / "artifacts")


def repository_of(versions: Sequence[Artifact], s3: Any) -> str:
    url = new_repository(s3)
    where, manifest = Repository.parse(url), Manifest()
    for version in versions:
        s3.put_object(
            Bucket=where.bucket,
            Key=where.key(version.name),
            Body=version.path.read_bytes(),
            Metadata={"sha256": version.sha256},
        )
        record = ArtifactRecord(size=version.size, sha256=version.sha256, build=version.build)
        wanted = [Publication(model=version.model, artifact=version.name, record=record)]
        manifest = manifest.with_published(wanted, at=EARLIER, by="ann")
    write_manifest(url, json.loads(manifest.to_json()), s3)
    return url


def consistent_manifest(repository: str, s3: Any) -> Manifest:
    """Return the manifest after reading every object that it refers to.

    Every artifact that the manifest records is there, with the recorded size and SHA-256, and every name
    stands for one of them.
    """
    manifest = read_manifest(Repository.parse(repository), s3=s3)
    for model in manifest.models.values():
        assert set(model.current.values()) <= model.artifacts.keys()
        assert model.history[-1].artifact in model.current.values()
        for name, record in model.artifacts.items():
            content = stored(name, repository, s3)
            assert (len(content), hashlib.sha256(content).hexdigest()) == (record.size, record.sha256)
            assert name not in manifest.deleting
    return manifest


def file_name(model: str, digit: str) -> str:
    """The name of an artifact whose digest consists of one digit; see `record_of`."""
    return f"{model}-{digit * 16}.tar.gz"


def record_of(name: str, **fields: Any) -> ArtifactRecord:
    """A record of an artifact, whose SHA-256 begins as its name says."""
    sha256 = digest_of_artifact(name).ljust(64, "0")
    return ArtifactRecord(**{"size": 3, "sha256": sha256, "build": {}, **fields})


def objects(repository: str, s3: Any) -> set[str]:
    where = Repository.parse(repository)
    listed = s3.list_objects_v2(Bucket=where.bucket, Prefix=where.prefix).get("Contents", [])
    return {each["Key"].removeprefix(where.prefix) for each in listed}


def stored(name: str, repository: str, s3: Any) -> bytes:
    where = Repository.parse(repository)
    content: bytes = s3.get_object(Bucket=where.bucket, Key=where.key(name))["Body"].read()
    return content


def put(name: str, body: bytes, repository: str, s3: Any) -> None:
    where = Repository.parse(repository)
    s3.put_object(Bucket=where.bucket, Key=where.key(name), Body=body)


def delete(name: str, repository: str, s3: Any) -> None:
    where = Repository.parse(repository)
    s3.delete_object(Bucket=where.bucket, Key=where.key(name))


def unfinished_uploads(repository: str, s3: Any) -> list[str]:
    listed = s3.list_multipart_uploads(Bucket=Repository.parse(repository).bucket)
    return [each["Key"] for each in listed.get("Uploads", [])]


def write_manifest(repository: str, document: Any, s3: Any) -> None:
    put("manifest.json", json.dumps(document).encode(), repository, s3)
