"""Artifacts into a model repository: objects once and for all, then the manifest that gives them their names.

An object is written only if its key is free, so nothing is ever overwritten. The manifest is written only if
it is still the one that was read, so no publisher undoes another's work.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triton_models.check import check_path
from triton_models.errors import FleetError, Problem, raise_if_any
from triton_models.manifest import MANIFEST_NAME, ArtifactRecord, Manifest, Repository
from triton_models.outcome import progress
from triton_models.pack import Artifact

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REPOSITORY_VARIABLE = "FLEET_REPOSITORY"

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/upload-objects.html, read 2026-11-21
MAX_OBJECT_BYTES = 5 * 1024**3

# Every lost round means that another publisher's went through, so this many losses are no accident.
_MANIFEST_ROUNDS = 50
_OBJECT_ROUNDS = 5

# S3 metadata: unlike the stored checksum, reading it needs no right on the KMS key, and one HEAD gives it.
_SHA256 = "sha256"

_LOST_RACE = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
_NOT_FOUND = frozenset({"NoSuchKey", "404", "NotFound"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The outcome of `fleet publish`.

    Attributes:
        repository: Its URL.
        uploaded: The artifacts that were not there yet.
        present: The artifacts that were there already, with the same content.
        targets: Each model's name with the target model that it stands for now.
    """

    repository: str
    uploaded: tuple[str, ...]
    present: tuple[str, ...]
    targets: dict[str, str]
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """All of it."""
        return {
            "repository": self.repository,
            "uploaded": list(self.uploaded),
            "present": list(self.present),
            "targets": self.targets,
        }

    def lines(self) -> Iterator[str]:
        """One line for each model."""
        for model, target in sorted(self.targets.items()):
            how = "uploaded" if target in self.uploaded else "already there"
            yield f"{model} -> {self.repository}{target} ({how})"


def publish(artifacts: Iterable[Artifact], *, repository: str, s3: S3Client | None = None) -> Published:
    """Upload artifacts and make each its model's current one.

    What is there already, with the same content, is not sent again. The manifest is written last, so a
    model's name never stands for an object that is not there.

    Args:
        artifacts: At most one for each model.
        repository: The model repository, such as s3://bucket/models/.
        s3: The client to use; one from the environment if None.

    Raises:
        FleetError: `check` refuses an artifact, two are of one model, an object of that name has other
            content, or S3 refuses: no such bucket, no credentials, no access, no answer.
    """
    wanted = tuple(artifacts)
    where = Repository.parse(repository)
    _refuse_unfit(wanted)
    with aws_errors(where.url):
        client = s3 if s3 is not None else _client()
        # Read before anything is sent: a wrong bucket or missing credentials show here.
        read_manifest(where, s3=client)
        uploaded = tuple(a.path.name for a in wanted if _upload(a, where, client))
        manifest = _make_current(wanted, where, client)
    names = tuple(artifact.path.name for artifact in wanted)
    return Published(
        repository=where.url,
        uploaded=uploaded,
        present=tuple(name for name in names if name not in uploaded),
        targets={artifact.model: manifest.target_model(artifact.model) for artifact in wanted},
    )


def read_manifest(repository: Repository, *, s3: S3Client) -> Manifest:
    """A repository's manifest; an empty one before the first publication.

    Raises:
        FleetError: The object is not a manifest, or S3 refuses.
    """
    with aws_errors(repository.url):
        return _manifest_and_tag(repository, s3)[0]


def run(arguments: argparse.Namespace) -> Published:
    """`fleet publish ARTIFACT... [--repository URL]`."""
    if not arguments.repository:
        raise FleetError.of(
            what="no model repository is given",
            where="the command line",
            expected=f"--repository s3://bucket/prefix/, or the environment variable {REPOSITORY_VARIABLE}",
            fix="the models stack puts it out as RepositoryUrl",
            rule="repository-url",
        )
    artifacts: list[Artifact] = []
    problems: list[Problem] = []
    for path in arguments.artifacts:
        try:
            artifacts.append(Artifact.read(path))
        except FleetError as error:
            problems.extend(error.problems)
    raise_if_any(problems)
    return publish(artifacts, repository=arguments.repository)


@contextlib.contextmanager
def aws_errors(repository: str) -> Iterator[None]:
    """What AWS and its SDK raise for a user's mistake, as a FleetError about that repository."""
    import botocore.exceptions as aws

    try:
        yield
    except aws.ClientError as error:
        code = error.response["Error"].get("Code", "")
        message = error.response["Error"].get("Message", "")
        what, fix = _CLIENT_ERRORS.get(
            code, (f"S3 refused: {code} {message}", "look the code up in the S3 API reference")
        )
        raise _aws_error(what, repository=repository, why=f"{code}: {message}", fix=fix) from None
    except (aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError) as error:
        raise _aws_error(
            "no usable AWS credentials",
            repository=repository,
            why=str(error),
            fix="sign in (`aws sso login`), or set AWS_PROFILE or AWS_ACCESS_KEY_ID and its companions",
        ) from None
    except (aws.ConnectionError, aws.HTTPClientError) as error:
        raise _aws_error(
            "S3 does not answer",
            repository=repository,
            why=str(error),
            fix="check the network, the region, and AWS_ENDPOINT_URL if it is set",
        ) from None
    except aws.BotoCoreError as error:
        raise _aws_error(
            "the AWS SDK refuses its configuration",
            repository=repository,
            why=str(error),
            fix="check the AWS_* environment variables and ~/.aws/config",
        ) from None


_CLIENT_ERRORS = {
    "NoSuchBucket": (
        "there is no such bucket",
        "deploy the models stack, and give the RepositoryUrl that it puts out",
    ),
    "AccessDenied": (
        "access to the repository is denied",
        "use a role that may list the bucket, read and write its prefix, and use its KMS key",
    ),
    "403": (
        "access to the repository is denied",
        "use a role that may list the bucket, read and write its prefix, and use its KMS key",
    ),
    "InvalidAccessKeyId": ("AWS does not know these credentials", "sign in again"),
    "SignatureDoesNotMatch": ("AWS does not accept these credentials", "check the secret key"),
    "ExpiredToken": ("the AWS credentials have expired", "sign in again"),
    "PermanentRedirect": ("the bucket is in another region", "set AWS_REGION to the models stack's region"),
    "301": ("the bucket is in another region", "set AWS_REGION to the models stack's region"),
}


def _aws_error(what: str, *, repository: str, why: str, fix: str) -> FleetError:
    return FleetError.of(
        what=what,
        where=repository,
        expected="a model repository that can be read and written",
        why=why,
        fix=fix,
        rule="repository",
    )


def _client() -> S3Client:
    import boto3.session

    # A session of its own: boto3's shared one would keep the credentials it met first.
    return boto3.session.Session().client("s3")


def _refuse_unfit(artifacts: Sequence[Artifact]) -> None:
    problems = [problem for artifact in artifacts for problem in check_path(artifact.path)]
    by_model: dict[str, set[str]] = defaultdict(set)
    for artifact in artifacts:
        by_model[artifact.model].add(artifact.path.name)
        if artifact.size > MAX_OBJECT_BYTES:
            problems.append(
                Problem(
                    what=f"an artifact of {artifact.size / 1024**3:.1f} GiB",
                    where=str(artifact.path),
                    expected="at most 5 GiB",
                    why="S3 takes no more in one conditional request",
                    fix="store the weights in a smaller type, or split the model",
                )
            )
    for model, names in by_model.items():
        if len(names) > 1:
            problems.append(
                Problem(
                    what=f"{len(names)} artifacts of the model {model!r}: {', '.join(sorted(names))}",
                    where="the artifacts to publish",
                    expected="one artifact of each model",
                    why="the model's name can stand for only one of them",
                    fix="publish them one after the other; the last one becomes current",
                )
            )
    raise_if_any(problems)


def _upload(artifact: Artifact, repository: Repository, s3: S3Client) -> bool:
    """Bring one artifact into the repository; False if it was there."""
    from botocore.exceptions import ClientError

    key = repository.key(artifact.path.name)
    for _ in range(_OBJECT_ROUNDS):
        stored = _stored_sha256(s3, bucket=repository.bucket, key=key)
        if stored == artifact.sha256:
            return False
        if stored is not None:
            raise FleetError.of(
                what=f"an object of that name holds something else: SHA-256 {stored or 'unknown'}",
                where=f"{repository.url}{artifact.path.name}",
                expected=artifact.sha256,
                why="an object is never overwritten: instances may hold the old content",
                fix="find out who wrote it, and delete it only if nothing uses it",
                rule="artifact-changed",
            )
        progress(f"uploading {artifact.path.name} ({artifact.size / 1e6:.1f} MB)")
        try:
            with artifact.path.open("rb") as body:
                s3.put_object(
                    Bucket=repository.bucket,
                    Key=key,
                    Body=body,
                    ContentType="application/gzip",
                    ChecksumAlgorithm="SHA256",
                    ChecksumSHA256=base64.b64encode(bytes.fromhex(artifact.sha256)).decode(),
                    Metadata={_SHA256: artifact.sha256},
                    IfNoneMatch="*",
                )
        except ClientError as error:
            if _code(error) in _LOST_RACE:
                continue  # another publisher was faster: see what it wrote
            raise
        return True
    raise _contended(f"{repository.url}{artifact.path.name}")


def _stored_sha256(s3: S3Client, *, bucket: str, key: str) -> str | None:
    """The SHA-256 that an object was stored with; "" if it has none, None if there is no object."""
    from botocore.exceptions import ClientError

    try:
        return s3.head_object(Bucket=bucket, Key=key)["Metadata"].get(_SHA256, "")
    except ClientError as error:
        if _code(error) in _NOT_FOUND:
            return None
        raise


def _make_current(artifacts: Sequence[Artifact], repository: Repository, s3: S3Client) -> Manifest:
    """Make each artifact its model's current one, on top of whatever other publishers wrote meanwhile."""
    from botocore.exceptions import ClientError

    for _ in range(_MANIFEST_ROUNDS):
        old, tag = _manifest_and_tag(repository, s3)
        new = old
        for artifact in artifacts:
            record = ArtifactRecord(size=artifact.size, sha256=artifact.sha256, build=artifact.build)
            new = new.with_current(model=artifact.model, artifact=artifact.path.name, record=record)
        if new is old:
            return old
        try:
            _put_manifest(new, tag, repository, s3)
        except ClientError as error:
            if _code(error) in _LOST_RACE | _NOT_FOUND:
                continue  # another publisher wrote or removed it: start from that
            raise
        return new
    raise _contended(repository.manifest_url)


def _put_manifest(manifest: Manifest, tag: str | None, repository: Repository, s3: S3Client) -> None:
    key, body = repository.key(MANIFEST_NAME), manifest.to_json().encode()
    if tag is None:
        s3.put_object(
            Bucket=repository.bucket, Key=key, Body=body, ContentType="application/json", IfNoneMatch="*"
        )
    else:
        s3.put_object(
            Bucket=repository.bucket, Key=key, Body=body, ContentType="application/json", IfMatch=tag
        )


def _manifest_and_tag(repository: Repository, s3: S3Client) -> tuple[Manifest, str | None]:
    """The manifest with its entity tag; None instead of the tag while there is no manifest."""
    from botocore.exceptions import ClientError

    try:
        answer = s3.get_object(Bucket=repository.bucket, Key=repository.key(MANIFEST_NAME))
    except ClientError as error:
        if _code(error) in _NOT_FOUND:
            return Manifest(where=repository.manifest_url), None
        raise
    return Manifest.from_json(answer["Body"].read(), where=repository.manifest_url), answer["ETag"]


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _contended(where: str) -> FleetError:
    return FleetError.of(
        what="other publishers were faster every time",
        where=where,
        expected="a moment without other publishers",
        why="what they wrote must not be lost",
        fix="publish again; if it goes on, find out what writes there all the time",
        rule="contended",
    )
