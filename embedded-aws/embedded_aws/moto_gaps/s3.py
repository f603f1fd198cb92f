"""S3's conditional writes and bucket policies.

moto's gaps:
- A Deny statement applies even if its condition does not hold. In AWS it then has no effect. The usual policy
  that denies everything without TLS would lock everybody out here.
- Logging to a bucket is refused until that bucket's policy allows it. AWS checks the policy on delivery: the
  policy that the CDK writes names the logged bucket, so it can only be created after that bucket.
- It checks a condition such as If-None-Match and then writes: another writer may come in between. In AWS
  exactly one of several conditional writers wins.
- It stores the SHA-256 of a request without comparing it to the content.
- It takes an operation on a subresource that it lacks, such as a bucket's analytics, for the operation on
  the bucket or object. Here that operation is refused.
- HeadBucket answers every caller. Here a role that may not list the bucket gets 403, with the region in a
  header. Other permissions are not enforced.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Mapping
from typing import Any

from moto.iam.access_control import IAMPolicy, PermissionResult
from moto.s3.exceptions import S3ClientError
from moto.s3.models import FakeBucket
from moto.s3.responses import S3Response

from embedded_aws.moto_gaps import patch
from embedded_aws.moto_gaps.iam import assumed_role

# The loopback connection counts as TLS, which a client of AWS uses.
_HOLDS = {"Bool": {"aws:SecureTransport": "true"}}


_writing = threading.RLock()
_moto_put_object = S3Response.put_object
_moto_upload_part = S3Response.upload_part
_moto_post = S3Response._key_response_post
_moto_head_bucket = S3Response.head_bucket

_moto_bucket = S3Response._bucket_response
_moto_key = S3Response._key_response

_SHA256 = "x-amz-checksum-sha256"
# The names in the query of a URL, from the API model.
UNSUPPORTED = {
    *("abac", "analytics", "annotation", "intelligent-tiering", "metadataAnnotationTable"),
    *("metadataConfiguration", "metadataInventoryTable", "metadataJournalTable", "metadataTable"),
    *("metrics", "renameObject", "requestPayment", "session", "torrent"),
}
_LISTS = {"s3:ListBucket", "s3:List*", "s3:*", "*"}


class _BadDigestError(S3ClientError):
    code = 400  # type: ignore[assignment]  # as in moto's own errors

    def __init__(self) -> None:
        super().__init__("BadDigest", "The SHA256 you specified did not match the calculated checksum.")


@patch.replaces(S3Response, "put_object")
def _put_object(self: S3Response) -> Any:
    _compare_checksum(self)
    with _writing:
        return _moto_put_object(self)


@patch.replaces(S3Response, "upload_part")
def _upload_part(self: S3Response) -> Any:
    _compare_checksum(self)
    return _moto_upload_part(self)


@patch.replaces(S3Response, "_key_response_post")
def _key_response_post(self: S3Response, *arguments: Any) -> Any:
    with _writing:
        return _moto_post(self, *arguments)


def _compare_checksum(response: S3Response) -> None:
    stated = response.headers.get(_SHA256)
    if stated is None:
        return
    if stated != base64.b64encode(hashlib.sha256(response.body).digest()).decode():
        raise _BadDigestError


@patch.replaces(S3Response, "_bucket_response")
def _bucket(self: S3Response, request: Any, full_url: str) -> Any:
    _refuse_unsupported(request)
    return _moto_bucket(self, request, full_url)


@patch.replaces(S3Response, "_key_response")
def _key(self: S3Response, request: Any, full_url: str) -> Any:
    _refuse_unsupported(request)
    if "encryption" in request.args or ("retention" in request.args and request.method == "GET"):
        raise NotImplementedError
    return _moto_key(self, request, full_url)


def _refuse_unsupported(request: Any) -> None:
    if not UNSUPPORTED.isdisjoint(request.args):
        raise NotImplementedError


@patch.replaces(S3Response, "head_bucket")
def _head_bucket(self: S3Response) -> Any:
    if _may_list(self):
        return _moto_head_bucket(self)
    _, headers, _ = _moto_head_bucket(self)
    return 403, {"x-amz-bucket-region": headers["x-amz-bucket-region"]}, ""


def _may_list(response: S3Response) -> bool:
    role = assumed_role(response.headers, response.current_account, response.partition)
    if role is None:
        return True
    documents = [json.loads(each) for each in role.policies.values()]
    return any(_allows_listing(each) for document in documents for each in document["Statement"])


def _allows_listing(statement: Mapping[str, Any]) -> bool:
    actions = statement["Action"]
    listed = {actions} if isinstance(actions, str) else set(actions)
    return statement["Effect"] == "Allow" and bool(listed & _LISTS) and "Condition" not in statement


@patch.replaces(FakeBucket, "get_permission")
def _get_permission(self: FakeBucket, action: str, resource: str) -> PermissionResult:
    """Return the policy's effect on an action, based on the statements whose conditions hold.

    Only conditions on TLS are evaluated. A statement with any other condition has no effect here.
    """
    if self.policy is None:
        return PermissionResult.NEUTRAL
    document = json.loads(self.policy)
    declared = document["Statement"]
    statements = declared if isinstance(declared, list) else [declared]
    holding = [
        {key: value for key, value in statement.items() if key != "Condition"}
        for statement in statements
        if statement.get("Condition") in (None, {}, _HOLDS)
    ]
    policy = IAMPolicy(json.dumps({**document, "Statement": holding}))
    return policy.is_action_permitted(action, resource)


patch.replace(FakeBucket, _log_permissions_enabled_policy=staticmethod(lambda *_: True))
