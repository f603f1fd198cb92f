"""AWS errors that stop a probe, each described in a sentence without a full stop."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from triton_models.base.errors import FleetError

_DENIED = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403", "NotAuthorized", "Forbidden"}
)
_QUOTA = frozenset(
    {
        "ResourceLimitExceeded",
        "AccountLimitExceededException",
        "LimitExceededException",
        "LimitExceeded",
        "ServiceQuotaExceededException",
        "TooManyBuckets",
    }
)
_TAKEN = frozenset(
    {
        "BucketAlreadyExists",
        "BucketAlreadyOwnedByYou",
        "EntityAlreadyExists",
        "ResourceAlreadyExistsException",
        "ResourceInUse",
        "QueueAlreadyExists",
        "QueueNameExists",
        "AlreadyExistsException",
        "StateMachineAlreadyExists",
    }
)
_ABSENT = frozenset(
    {
        "NoSuchBucket",
        "NoSuchEntity",
        "NoSuchKey",
        "NoSuchUpload",
        "NotFound",
        "404",
        "ResourceNotFound",
        "ResourceNotFoundException",
        "ObjectNotFoundException",
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "StateMachineDoesNotExist",
    }
)
_SIGNED_OUT = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "RequestExpired",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "AuthFailure",
        "IncompleteSignature",
    }
)
_ACTION = re.compile(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)")
_NO_CAPACITY = re.compile(r"InsufficientInstanceCapacity|insufficient capacity|Unable to provision", re.I)
_ASSUME = re.compile(r"assume", re.I)
_NOT_THERE = re.compile(r"Could not find|does not exist|No scalable target found")
_GOES_ON = re.compile(r"in-progress|_IN_PROGRESS state")


def refusal(call: Callable[[], Any]) -> str:
    """Return why AWS refuses a call; empty if it accepts.

    Raises:
        ClientError: The caller lacks the permission or is signed out, which says nothing about the request.
    """
    from botocore.exceptions import ClientError

    try:
        call()
    except ClientError as error:
        if denied(error) or signed_out(error):
            raise
        return f"{code(error)}: {message(error)}"
    return ""


def code(error: Any) -> str:
    """Return the code of a ClientError."""
    return str(error.response.get("Error", {}).get("Code", ""))


def message(error: Any) -> str:
    """Return the message of a ClientError."""
    return str(error.response.get("Error", {}).get("Message", "")) or str(error)


def absent(error: Any) -> bool:
    """Return whether an error reports that a resource does not exist."""
    return code(error) in _ABSENT or (
        code(error) in {"ValidationException", "ValidationError"}
        and _NOT_THERE.search(message(error)) is not None
    )


def taken(error: Any) -> bool:
    """Return whether an error reports that a resource of that name exists."""
    return code(error) in _TAKEN or "already exist" in message(error)


def asked_again(error: Any) -> bool:
    """Return whether the SDK retried the call: an earlier attempt may have succeeded without a response."""
    return int(error.response.get("ResponseMetadata", {}).get("RetryAttempts", 0)) > 0


def busy(error: Any) -> bool:
    """Return whether an error reports that an operation in progress prevents a removal."""
    return _GOES_ON.search(message(error)) is not None or code(error) in {
        "ResourceInUse",
        "ConflictException",
    }


def denied(error: Any) -> bool:
    """Return whether an error reports a missing permission."""
    return code(error) in _DENIED or _ACTION.search(message(error)) is not None


def role_is_new(error: Any) -> bool:
    """Return whether an error reports that a role cannot be assumed, as before a new role has propagated."""
    return _ASSUME.search(message(error)) is not None


def reason(error: Any) -> str:
    """Return the reason for an undecided probe, from a ClientError."""
    if denied(error):
        action = _ACTION.search(message(error))
        return f"missing permission: {action[1] if action else error.operation_name}"
    if code(error) in _QUOTA:
        return f"a quota is too low: {message(error)}"
    if taken(error):
        return f"a name is taken: {message(error)}"
    return failure(f"{error.operation_name}: {code(error)}: {message(error)}")


def failure(text: str) -> str:
    """Return the reason for a failed AWS operation, with its most common cause."""
    return f"no capacity: {text}" if _NO_CAPACITY.search(text) else text


def signed_out(error: Any) -> bool:
    """Return whether an error reports invalid or expired credentials."""
    return code(error) in _SIGNED_OUT


@contextlib.contextmanager
def as_one_error(region: str | None) -> Iterator[None]:
    """Raise errors that prevent the run from continuing as a FleetError."""
    import botocore.exceptions as aws

    try:
        yield
    except (aws.NoCredentialsError, aws.PartialCredentialsError, aws.CredentialRetrievalError) as error:
        raise _no_credentials(str(error)) from None
    except aws.ProfileNotFound as error:
        raise _mistake(str(error), "--profile", "a profile of the AWS configuration", "name one") from None
    except aws.ClientError as error:
        if signed_out(error):
            raise _no_credentials(message(error)) from None
        raise _mistake(
            f"AWS refused {error.operation_name}: {code(error)}",
            "the account",
            "permission to run the probes",
            "use a role with the permissions on the page about probes, which `make docs` builds",
            why=message(error),
        ) from None
    except aws.BotoCoreError as error:
        raise _mistake(
            "AWS cannot be reached",
            f"region {region}",
            "a network that reaches AWS",
            "check --region, the network and the AWS_* environment variables",
            why=str(error),
        ) from None


def _no_credentials(why: str) -> FleetError:
    return _mistake(
        "no usable AWS credentials",
        "the AWS configuration",
        "valid credentials",
        "sign in (`aws sso login`) or set AWS_PROFILE; after an interrupted run, add --clean",
        why=why,
    )


def _mistake(what: str, where: str, expected: str, fix: str, *, why: str = "") -> FleetError:
    return FleetError.of(what=what, where=where, expected=expected, fix=fix, why=why, rule="probe-account")
