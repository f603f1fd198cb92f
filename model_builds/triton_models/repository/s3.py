"""The S3 client of a publisher, requests in parallel, and AWS errors as `FleetError`."""

from __future__ import annotations

import contextlib
import getpass
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError, raise_if_any

if TYPE_CHECKING:
    import mypy_boto3_s3

S3Client: TypeAlias = "mypy_boto3_s3.S3Client"
_T = TypeVar("_T")
_R = TypeVar("_R")

REPOSITORY_VARIABLE = "FLEET_REPOSITORY"
REPOSITORY = Check(id="repository", source="the answer of AWS or its SDK")
CONTENDED = Check(id="contended", source=FROM_ARGUMENTS)
"""The check of the error that other publishers were always faster."""

# Parallel requests and connections. S3 accepts 3,500 writes per second and prefix; a client
# in Python is the bottleneck long before. Read 2026-11-21:
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
THREADS = 16

BUILD_AUTHOR = "CodeBuild "
"""The beginning of an author that is a build job; its id follows."""

# Attempts of a request that S3 throttles or does not answer. AWS_MAX_ATTEMPTS overrides it.
_ATTEMPTS = 8

# Another writer was faster: S3 documents 412 for a completed write, 409 for one in progress.
LOST_RACE = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
NOT_FOUND = frozenset({"NoSuchKey", "404", "NotFound"})


def repository_client(*, profile: str | None = None, region: str | None = None) -> S3Client:
    """Return an S3 client, safe for threads."""
    import boto3.session
    from botocore.config import Config
    from botocore.exceptions import InvalidConfigError

    retries: Any = {"mode": "standard", "total_max_attempts": _ATTEMPTS}
    if "AWS_MAX_ATTEMPTS" in os.environ:
        del retries["total_max_attempts"]
    config = Config(retries=retries, max_pool_connections=THREADS)
    # A separate session, because boto3's default session keeps its first credentials.
    session = boto3.session.Session(profile_name=profile, region_name=region)
    try:
        return session.client("s3", config=config)
    except ValueError as error:  # an endpoint of an empty region, for example
        raise InvalidConfigError(error_msg=str(error)) from error


def in_parallel(function: Callable[[_T], _R], items: Iterable[_T], *, threads: int = THREADS) -> list[_R]:
    """Call a function with each item, and return its results in order.

    After an error no new call starts, and active ones are awaited.
    """
    pool = ThreadPoolExecutor(threads)
    try:
        return list(pool.map(function, items))
    finally:
        pool.shutdown(cancel_futures=True)


def caught(function: Callable[[_T], _R]) -> Callable[[_T], _R | FleetError]:
    """Return a function that returns its FleetError."""

    def call(item: _T) -> _R | FleetError:
        try:
            return function(item)
        except FleetError as error:
            return error

    return call


def all_in_parallel(function: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """Call a function with each item, also after a FleetError, and return its results in order.

    Raises:
        FleetError: The function raised it for some items; their problems are reported together.
    """
    results = in_parallel(caught(function), items)
    raise_if_any(problem for each in results if isinstance(each, FleetError) for problem in each.problems)
    return [each for each in results if not isinstance(each, FleetError)]


def publisher() -> str:
    """Return the author for the manifest: the build of a build job, otherwise the local user."""
    build = os.environ.get("CODEBUILD_BUILD_ID")
    if build:
        return f"{BUILD_AUTHOR}{build}"
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user may have no name
        return "unknown"


def error_code(error: Any) -> str:
    """Return the code in botocore's ClientError."""
    return str(error.response.get("Error", {}).get("Code") or "")


def error_message(error: Any) -> str:
    """Return the message in botocore's ClientError; throttling, for one, may have none."""
    return str(error.response.get("Error", {}).get("Message") or "")


@contextlib.contextmanager
def absent_is_none() -> Iterator[None]:
    """Pass over the error of an object that does not exist."""
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        if error_code(error) not in NOT_FOUND:
            raise


@contextlib.contextmanager
def aws_errors(repository: str) -> Iterator[None]:
    """Convert errors of AWS and its SDK to a FleetError about a repository."""
    import botocore.exceptions as aws

    try:
        yield
    except aws.ClientError as error:
        code, message = error_code(error), error_message(error)
        refused = (f"AWS refused: {code} {message}", "look the code up in the service's API reference")
        what, fix = _denied(error) or _CLIENT_ERRORS.get(code, refused)
        why = f"{error.operation_name}: {code}: {message}"
        raise REPOSITORY.error(what=what, where=repository, why=why, fix=fix) from None
    except (aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError) as error:
        what = "AWS credentials are missing or invalid"
        fix = "sign in (`aws sso login`), or set AWS_PROFILE, or an access key in the environment"
        raise REPOSITORY.error(what=what, where=repository, why=str(error), fix=fix) from None
    except (aws.ConnectionError, aws.HTTPClientError) as error:
        raise _no_answer("S3 does not answer", str(error), repository) from None
    except (aws.IncompleteReadError, aws.FlexibleChecksumError) as error:
        raise _no_answer("S3's response is incomplete", str(error), repository) from None
    except aws.BotoCoreError as error:
        what = "the AWS configuration is invalid"
        fix = "check --profile, --region, the AWS_* environment variables and ~/.aws/config"
        raise REPOSITORY.error(what=what, where=repository, why=str(error), fix=fix) from None


def _denied(error: Any) -> tuple[str, str] | None:
    """Return what was denied, if that is not the repository itself, and what to do."""
    if not error_code(error).startswith("AccessDenied"):
        return None
    if error.operation_name.startswith("AssumeRole"):
        fix = "name another profile, or let the role's trust policy name your identity"
        return "the role cannot be assumed", fix
    if "kms:" in error_message(error):
        fix = (
            "allow the action named above in the role's policy, and in the key's if it is of another account"
        )
        return "the role cannot use the repository's KMS key", fix
    return None


_DENIED = (
    "access to the repository is denied",
    "use a role with permission to list the bucket, read and write its prefix, and use its KMS key",
)
_ELSEWHERE = ("the bucket is in another region", "set the models stack's region with --region or AWS_REGION")
_CHANGED = (
    "the file changed or was damaged during the upload",
    "publish again; if the error persists, pack the model again",
)
_BUSY = ("S3 throttles the requests", "wait a minute, then publish again, which resumes the upload")
_CLOCK = (
    "this machine's clock differs from AWS's by more than 15 minutes",
    "set the clock: `timedatectl set-ntp true`, or the clock of the virtual machine's host",
)
_CLIENT_ERRORS = {
    "NoSuchBucket": ("the bucket does not exist", "deploy the models stack and use its RepositoryUrl output"),
    "AccessDeniedException": ("an action is denied", "use a role with permission for the action named above"),
    "InvalidAccessKeyId": ("AWS does not recognize these credentials", "sign in again"),
    "SignatureDoesNotMatch": ("AWS does not accept these credentials", "check the secret key"),
    "ExpiredToken": ("the AWS credentials have expired", "sign in again"),
    "KMS.DisabledException": (
        "the repository's KMS key is disabled",
        "enable it, or restore the models stack",
    ),
    "RequestTimeTooSkewed": _CLOCK,
    **dict.fromkeys(("AccessDenied", "403"), _DENIED),
    **dict.fromkeys(("PermanentRedirect", "301", "AuthorizationHeaderMalformed"), _ELSEWHERE),
    "IllegalLocationConstraintException": _ELSEWHERE,
    **dict.fromkeys(("BadDigest", "InvalidDigest", "IncompleteBody"), _CHANGED),
    **dict.fromkeys(("XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"), _CHANGED),
    **dict.fromkeys(("SlowDown", "503", "ServiceUnavailable"), _BUSY),
}


def field(answer: Mapping[str, Any], name: str, *, where: str) -> Any:
    """Return a field that AWS always sends.

    Raises:
        FleetError: It is missing: the SDK reads the beginning of a JSON document as an empty response.
    """
    if name in answer:
        return answer[name]
    raise _no_answer("a response of AWS is incomplete", f"{name} is missing", where)


def _no_answer(what: str, why: str, repository: str) -> FleetError:
    fix = "check the network, the region, and AWS_ENDPOINT_URL if it is set; then try again"
    return REPOSITORY.error(what=what, where=repository, why=why, fix=fix)


def contended(where: str) -> FleetError:
    """Return the error of a publisher that lost every race to others."""
    return CONTENDED.error(
        what="other publishers were always faster",
        where=where,
        why="their changes must not be lost",
        fix="publish again; if the error persists, find out what writes there continuously",
    )
