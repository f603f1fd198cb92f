"""Beliefs about S3: conditional writes, checksums, and a narrow role's view of a bucket."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from botocore.exceptions import ClientError

from conformance.account import Account, lists, refusal
from conformance.beliefs import account
from conformance.records import Asked

TAKEN = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
WRONG_SUM = {
    *("BadDigest", "InvalidDigest", "InvalidPart", "InvalidRequest"),
    *("XAmzContentSHA256Mismatch", "400"),
}


def sha256(content: bytes) -> str:
    return base64.b64encode(hashlib.sha256(content).digest()).decode()


def upload(s3: Any, where: dict[str, str], body: bytes, checksum: str, **conditions: str) -> None:
    began = s3.create_multipart_upload(**where, ChecksumAlgorithm="SHA256")
    to, part = {**where, "UploadId": began["UploadId"]}, {"PartNumber": 1, "ChecksumSHA256": checksum}
    part["ETag"] = s3.upload_part(**to, Body=body, **part)["ETag"]
    s3.complete_multipart_upload(**to, MultipartUpload={"Parts": [part]}, **conditions)


@account(cheap=True, creates="a bucket")
def test_a_taken_key_and_a_wrong_checksum_are_refused(aws: Account, ask: Asked) -> None:
    s3, where = aws.client("s3"), {"Bucket": aws.bucket, "Key": "writes/object"}
    s3.put_object(**where, Body=b"first")
    second = sha256(b"second")

    def completed() -> str:
        return refusal(lambda: upload(s3, where, b"second", second, IfNoneMatch="*"))

    assert ask(completed, "complete a taken key") in TAKEN
    again = {**where, "Body": b"second", "IfNoneMatch": "*"}
    assert ask(lambda: refusal(lambda: s3.put_object(**again)), "put") in TAKEN
    assert s3.get_object(**where)["Body"].read() == b"first"
    part, single = ({**where, "Key": f"writes/{each}"} for each in ("part", "single"))
    assert ask(lambda: refusal(lambda: upload(s3, part, b"content", second)), "a part's sum") in WRONG_SUM
    wrong = {**single, "Body": b"content", "ChecksumSHA256": second}
    assert ask(lambda: refusal(lambda: s3.put_object(**wrong)), "an object's sum") in WRONG_SUM


@account(cheap=True, minutes=2, creates="a bucket, a role")
def test_head_bucket_names_the_region_to_a_role_that_lists_one_prefix(aws: Account, ask: Asked) -> None:
    bucket = aws.bucket
    s3 = aws.as_role("s3", "narrow", lists(f"arn:{aws.partition}:s3:::{bucket}", "models/*"))

    def listed() -> bool | None:
        try:
            s3.list_objects_v2(Bucket=bucket, Prefix="models/", MaxKeys=1)
        except ClientError as error:
            if error.response["Error"]["Code"] != "AccessDenied":
                raise
            return None
        return True

    aws.until(listed, minutes=3, what="the role's permission")

    def region() -> bool:
        try:
            answer: Any = s3.head_bucket(Bucket=bucket)
        except ClientError as error:
            answer = error.response
        headers: Any = answer["ResponseMetadata"]["HTTPHeaders"]
        return bool(headers.get("x-amz-bucket-region") == aws.region)

    assert ask(region, "names the region")
