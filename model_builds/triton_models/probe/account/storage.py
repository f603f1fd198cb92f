"""Probes of S3: conditional writes, checksums, and a narrow role's view of a bucket."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

from triton_models.probe.account import trouble
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import Verdict, decide

_TAKEN_KEY = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_WRONG_SUM = (
    "BadDigest",
    "InvalidRequest",
    "XAmzContentSHA256Mismatch",
    "InvalidPart",
    "InvalidDigest",
    "400",
)


def _writes(work: Work) -> Steps:
    """Complete an upload to an existing object's key, and send content that contradicts its checksum."""
    yield
    s3, bucket = work.clients("s3"), work.bucket()
    where = {"Bucket": bucket, "Key": "writes/object"}
    s3.put_object(**where, Body=b"first")
    taken = _refusal(lambda: _upload(s3, where, b"second", {"IfNoneMatch": "*"}))
    put = _refusal(lambda: s3.put_object(**where, Body=b"second", IfNoneMatch="*"))
    kept = s3.get_object(**where)["Body"].read() == b"first"
    wrong = {"ChecksumSHA256": _sum(b"another")}
    part = _refusal(lambda: _upload(s3, where | {"Key": "writes/part"}, b"content", {}, part=wrong))
    single = _refusal(lambda: s3.put_object(**where | {"Key": "writes/single"}, Body=b"content", **wrong))
    answers = {"complete": taken, "put": put, "part": part, "object": single}
    for what, answered in answers.items():
        work.observe(f"s3-{what}", {"taken": what in {"complete", "put"}}, {"code": answered})
    refused = taken in _TAKEN_KEY and put in _TAKEN_KEY and kept
    compared = part in _WRONG_SUM and single in _WRONG_SUM
    seen = "; ".join(f"{what}: {answered or 'accepted'}" for what, answered in answers.items())
    return [decide("s3-refuses-taken-key", seen, holds=refused and compared)]


def _upload(
    s3: Any,
    where: dict[str, str],
    body: bytes,
    conditions: dict[str, str],
    *,
    part: dict[str, str] | None = None,
) -> None:
    upload = {
        **where,
        "UploadId": s3.create_multipart_upload(**where, ChecksumAlgorithm="SHA256")["UploadId"],
    }
    sums = part or {"ChecksumSHA256": _sum(body)}
    etag = s3.upload_part(**upload, PartNumber=1, Body=body, **sums)["ETag"]
    parts = [{"ETag": etag, "PartNumber": 1, **sums}]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **conditions)


def _sum(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def _refusal(call: Callable[[], Any]) -> str:
    """Return the error code of a call; empty if it succeeds.

    Raises:
        botocore.exceptions.ClientError: The caller may not make the call.
    """
    from botocore.exceptions import ClientError

    try:
        call()
    except ClientError as error:
        if trouble.denied(error) or trouble.signed_out(error):
            raise
        return trouble.code(error)
    return ""


def _narrow_role(work: Work) -> Steps:
    """Request a bucket's region with a role that may list one prefix."""
    bucket = work.bucket()
    arn = f"arn:{work.place.partition}:s3:::{bucket}"
    list_prefix = {
        "Effect": "Allow",
        "Action": "s3:ListBucket",
        "Resource": arn,
        "Condition": {"StringLike": {"s3:prefix": "models/*"}},
    }
    credentials = yield from work.assume("narrow", [list_prefix])
    s3 = work.clients.assumed("s3", credentials)
    yield from work.until(lambda: _knows_policy(s3, bucket), minutes=3, what="the role's permission")
    return [_head(s3, bucket, work)]


def _head(s3: Any, bucket: str, work: Work) -> Verdict:
    from botocore.exceptions import ClientError

    try:
        answer = s3.head_bucket(Bucket=bucket)
    except ClientError as error:
        answer = error.response
    details = answer["ResponseMetadata"]
    region = details["HTTPHeaders"].get("x-amz-bucket-region")
    work.observe("head-bucket", {"listed": False}, {"status": details["HTTPStatusCode"], "region": region})
    seen = f"status {details['HTTPStatusCode']}, x-amz-bucket-region {region}"
    return decide("head-bucket-returns-region", seen, holds=region == work.place.region)


def _knows_policy(s3: Any, bucket: str) -> bool | None:
    """Return True once the role may list the prefix; a new policy takes seconds to propagate."""
    from botocore.exceptions import ClientError

    try:
        s3.list_objects_v2(Bucket=bucket, Prefix="models/", MaxKeys=1)
    except ClientError as error:
        if trouble.denied(error):
            return None
        raise
    return True


PROBES = (
    AccountProbe(
        id="writes",
        what="writes objects that S3 must refuse",
        decides=("s3-refuses-taken-key",),
        run=_writes,
        creates="a bucket",
        allowed=("s3:CreateBucket", "s3:PutObject", "s3:GetObject", "s3:AbortMultipartUpload"),
        cheap=True,
    ),
    AccountProbe(
        id="narrow-role",
        what="requests a bucket's region with a role that may list one prefix",
        decides=("head-bucket-returns-region",),
        run=_narrow_role,
        creates="a bucket, a role",
        allowed=("iam:CreateRole", "iam:PutRolePolicy", "sts:AssumeRole", "s3:CreateBucket"),
        minutes=2,
        cheap=True,
    ),
)
