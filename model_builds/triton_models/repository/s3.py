"""The S3 client of a publisher, and S3's errors in the words of this project."""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from triton_models.base.errors import FleetError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REPOSITORY_VARIABLE = "FLEET_REPOSITORY"

# Requests under way at once, and as many connections. S3 takes 3,500 writes a second for a prefix; a client
# in Python is busy long before. Read 2026-11-21:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
THREADS = 16

CONTENDED = "contended"
"""The rule of the error that other publishers were faster, every time."""

# Of a request that S3 answers with "slow down" or not at all. AWS_MAX_ATTEMPTS replaces it.
_ATTEMPTS = 8

# Another writer was faster: S3 documents 412 for one that is done, 409 for one under way.
LOST_RACE = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
NOT_FOUND = frozenset({"NoSuchKey", "404", "NotFound"})


def repository_client() -> S3Client:
    """A client of S3 for many threads, from the environment."""
    import boto3.session
    from botocore.config import Config

    # A session of its own: boto3's shared one would keep the credentials it met first.
    return boto3.session.Session().client(
        "s3", config=Config(retries=_retries(), max_pool_connections=THREADS)
    )


def _retries() -> Any:
    attempts = {} if "AWS_MAX_ATTEMPTS" in os.environ else {"total_max_attempts": _ATTEMPTS}
    return {"mode": "standard", **attempts}


@contextlib.contextmanager
def workers(threads: int = THREADS) -> Iterator[ThreadPoolExecutor]:
    """Threads for requests. After an error nothing new begins, and what is under way is waited for."""
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def publisher() -> str:
    """Who publishes, as the manifest notes it: the build of a build job, else the user's name here."""
    build = os.environ.get("CODEBUILD_BUILD_ID")
    if build:
        return f"CodeBuild {build}"
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may run as a user that has no name
        return "unknown"


def wanted_repository(url: str | None) -> str:
    """The repository that a verb was given.

    Raises:
        FleetError: None was.
    """
    if url:
        return url
    raise FleetError.of(
        what="no model repository is given",
        where="the command line",
        expected=f"--repository s3://bucket/prefix/, or the environment variable {REPOSITORY_VARIABLE}",
        fix="see the RepositoryUrl output of the models stack",
        rule="repository-url",
    )


def error_code(error: Any) -> str:
    """The code in botocore's ClientError."""
    return str(error.response.get("Error", {}).get("Code", ""))


@contextlib.contextmanager
def aws_errors(repository: str) -> Iterator[None]:
    """What AWS and its SDK raise for a user's mistake, as a FleetError about that repository."""
    import botocore.exceptions as aws

    try:
        yield
    except aws.ClientError as error:
        code = error_code(error)
        message = error.response.get("Error", {}).get("Message", "")
        what, fix = _CLIENT_ERRORS.get(
            code, (f"AWS refused: {code} {message}", "look the code up in the service's API reference")
        )
        why = f"{error.operation_name}: {code}: {message}"
        raise _aws_error(what, repository=repository, why=why, fix=fix) from None
    except (aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError) as error:
        raise _aws_error(
            "no usable AWS credentials",
            repository=repository,
            why=str(error),
            fix="sign in (`aws sso login`), or set AWS_PROFILE or AWS_ACCESS_KEY_ID and its companions",
        ) from None
    except (aws.ConnectionError, aws.HTTPClientError) as error:
        raise _no_answer("S3 does not answer", str(error), repository) from None
    except (aws.IncompleteReadError, aws.FlexibleChecksumError) as error:
        raise _no_answer("S3's answer did not come whole", str(error), repository) from None
    except aws.BotoCoreError as error:
        raise _aws_error(
            "the AWS SDK refuses its configuration",
            repository=repository,
            why=str(error),
            fix="check --profile, --region, the AWS_* environment variables and ~/.aws/config",
        ) from None


_DENIED = (
    "access to the repository is denied",
    "use a role that may list the bucket, read and write its prefix, and use its KMS key",
)
_ELSEWHERE = (
    "the bucket is in another region",
    "give the models stack's region with --region, or in AWS_REGION",
)
_CHANGED = (
    "the file changed while it was sent, or was damaged on the way",
    "publish again; if it goes on, pack the model again",
)
_BUSY = (
    "S3 asks to slow down, again and again",
    "wait a minute, then publish again: it goes on where it was",
)
_CLIENT_ERRORS = {
    "NoSuchBucket": (
        "there is no such bucket",
        "deploy the models stack, and give the RepositoryUrl that it puts out",
    ),
    "AccessDenied": _DENIED,
    "AccessDeniedException": (
        "an action is denied",
        "use a role that is allowed the action named above",
    ),
    "403": _DENIED,
    "InvalidAccessKeyId": ("AWS does not know these credentials", "sign in again"),
    "SignatureDoesNotMatch": ("AWS does not accept these credentials", "check the secret key"),
    "ExpiredToken": ("the AWS credentials have expired", "sign in again"),
    "RequestTimeTooSkewed": (
        "this machine's clock differs from AWS's by more than 15 minutes",
        "set the clock: `timedatectl set-ntp true`, or the clock of the virtual machine's host",
    ),
    "PermanentRedirect": _ELSEWHERE,
    "301": _ELSEWHERE,
    "AuthorizationHeaderMalformed": _ELSEWHERE,
    "IllegalLocationConstraintException": _ELSEWHERE,
    "BadDigest": _CHANGED,
    "InvalidDigest": _CHANGED,
    "XAmzContentChecksumMismatch": _CHANGED,
    "XAmzContentSHA256Mismatch": _CHANGED,
    "IncompleteBody": _CHANGED,
    "SlowDown": _BUSY,
    "503": _BUSY,
    "ServiceUnavailable": _BUSY,
    "KMS.DisabledException": (
        "the repository's KMS key is disabled",
        "enable it, or restore the models stack",
    ),
}


def _no_answer(what: str, why: str, repository: str) -> FleetError:
    return _aws_error(
        what,
        repository=repository,
        why=why,
        fix="check the network, the region, and AWS_ENDPOINT_URL if it is set; then do it again",
    )


def _aws_error(what: str, *, repository: str, why: str, fix: str) -> FleetError:
    return FleetError.of(
        what=what,
        where=repository,
        expected="a model repository that can be read and written",
        why=why,
        fix=fix,
        rule="repository",
    )


def contended(where: str) -> FleetError:
    """The error of a publisher that lost to others every time."""
    return FleetError.of(
        what="other publishers were faster every time",
        where=where,
        expected="a moment without other publishers",
        why="what they wrote must not be lost",
        fix="publish again; if it goes on, find out what writes there all the time",
        rule=CONTENDED,
    )
