"""AWS::S3: buckets with their settings, and bucket policies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from embedded_aws.cloudformation.resource import (
    Call,
    ConfiguredType,
    Identity,
    Properties,
    PutType,
    changed,
    refuse_unknown,
    true,
)


def _encryption(value: Any, _: str) -> dict[str, Any]:
    rules = [
        {
            "ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"],
            "BucketKeyEnabled": true(rule.get("BucketKeyEnabled", False)),
        }
        for rule in value["ServerSideEncryptionConfiguration"]
    ]
    return {"Rules": rules}


def _logging(value: Any, bucket: str) -> dict[str, Any]:
    target = value.get("DestinationBucketName", bucket)
    return {"LoggingEnabled": {"TargetBucket": target, "TargetPrefix": value.get("LogFilePrefix", "")}}


def _lifecycle(value: Any, _: str) -> dict[str, Any]:
    return {"Rules": [_lifecycle_rule(rule) for rule in value["Rules"]]}


# Parts of a lifecycle rule with another name in the API; those that are not named here have the same one.
_EXPIRATION = {"ExpirationInDays": "Days", "ExpirationDate": "Date", "ExpiredObjectDeleteMarker": None}
_SAME = ("Status", "AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration")


def _lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a lifecycle rule in the API's terms; CloudFormation uses older ones."""
    refuse_unknown(rule, set(_LIFECYCLE.split()))
    expiration = {api or cfn: rule[cfn] for cfn, api in _EXPIRATION.items() if cfn in rule}
    converted: dict[str, Any] = {name: rule[name] for name in _SAME if name in rule}
    converted |= {"Filter": _lifecycle_filter(rule)} | ({"ID": rule["Id"]} if "Id" in rule else {})
    if expiration:
        converted["Expiration"] = expiration
    if "NoncurrentVersionExpirationInDays" in rule:
        days = int(rule["NoncurrentVersionExpirationInDays"])
        converted["NoncurrentVersionExpiration"] = {"NoncurrentDays": days}
    for name, api in (("Transitions", "Days"), ("NoncurrentVersionTransitions", "NoncurrentDays")):
        if name in rule:
            converted[name] = [
                {api if key == "TransitionInDays" else key: value for key, value in item.items()}
                for item in rule[name]
            ]
    return converted


def _lifecycle_filter(rule: Mapping[str, Any]) -> dict[str, Any]:
    conditions: dict[str, Any] = {name: rule[name] for name in ("Prefix",) if name in rule}
    conditions |= {
        name: int(rule[name]) for name in ("ObjectSizeGreaterThan", "ObjectSizeLessThan") if name in rule
    }
    tags = rule.get("TagFilters", [])
    if len(conditions) + len(tags) > 1:
        return {"And": {**conditions, **({"Tags": tags} if tags else {})}}
    if tags:
        return {"Tag": tags[0]}
    return conditions or {"Prefix": ""}


_LIFECYCLE = (
    "Id Status Prefix TagFilters ObjectSizeGreaterThan ObjectSizeLessThan ExpirationInDays ExpirationDate "
    "ExpiredObjectDeleteMarker AbortIncompleteMultipartUpload NoncurrentVersionExpiration "
    "NoncurrentVersionExpirationInDays NoncurrentVersionTransitions Transitions"
)


def _notifications(value: Any, _: str) -> dict[str, Any]:
    refuse_unknown(value, {"EventBridgeConfiguration"})
    return {"EventBridgeConfiguration": {}}


_CANNED_ACLS: Mapping[str, str] = {
    "Private": "private",
    "PublicRead": "public-read",
    "PublicReadWrite": "public-read-write",
    "AuthenticatedRead": "authenticated-read",
    "LogDeliveryWrite": "log-delivery-write",
    "BucketOwnerRead": "bucket-owner-read",
    "BucketOwnerFullControl": "bucket-owner-full-control",
}


class Setting(NamedTuple):
    """A property of a bucket: the operation `put_NAME` takes it as a member, in the form of the API.

    `empty` is the value that removes it; None if `delete_NAME` does.
    """

    name: str
    member: str
    form: Callable[[Any, str], Any] = lambda value, _: value
    empty: Any = None


_SETTINGS: Mapping[str, Setting] = {
    "BucketEncryption": Setting("bucket_encryption", "ServerSideEncryptionConfiguration", _encryption),
    # Versioning cannot be removed, only suspended.
    "VersioningConfiguration": Setting(
        "bucket_versioning", "VersioningConfiguration", empty={"Status": "Suspended"}
    ),
    "PublicAccessBlockConfiguration": Setting(
        "public_access_block",
        "PublicAccessBlockConfiguration",
        lambda value, _: {key: true(item) for key, item in value.items()},
    ),
    "OwnershipControls": Setting("bucket_ownership_controls", "OwnershipControls"),
    "LifecycleConfiguration": Setting("bucket_lifecycle_configuration", "LifecycleConfiguration", _lifecycle),
    "AccessControl": Setting("bucket_acl", "ACL", lambda value, _: _CANNED_ACLS[value], empty="private"),
    "LoggingConfiguration": Setting("bucket_logging", "BucketLoggingStatus", _logging, empty={}),
    "NotificationConfiguration": Setting(
        "bucket_notification_configuration", "NotificationConfiguration", _notifications, empty={}
    ),
    "Tags": Setting("bucket_tagging", "Tagging", lambda value, _: {"TagSet": list(value)}),
}


class Bucket(ConfiguredType):
    name, service, keys = "AWS::S3::Bucket", "s3", "Bucket"
    reads, deletes, naming = "head_bucket", "delete_bucket", "BucketName"
    supports = " ".join(_SETTINGS)

    def begin(self, call: Call, properties: Properties) -> Identity:
        bucket = properties.get("BucketName") or call.unique_name(limit=63).lower()
        # us-east-1 is the only region that a request must not name.
        place = {} if call.region == "us-east-1" else {"LocationConstraint": call.region}
        options = {"CreateBucketConfiguration": place} if place else {}
        call.client("s3").create_bucket(Bucket=bucket, **options)
        return Identity(
            physical_id=bucket,
            attributes={
                "Arn": f"arn:aws:s3:::{bucket}",
                "DomainName": f"{bucket}.s3.amazonaws.com",
                "RegionalDomainName": f"{bucket}.s3.{call.region}.amazonaws.com",
                "DualStackDomainName": f"{bucket}.s3.dualstack.{call.region}.amazonaws.com",
                "WebsiteURL": f"http://{bucket}.s3-website-{call.region}.amazonaws.com",
            },
        )

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        s3, bucket, differing = call.client("s3"), identity.physical_id, changed(before, after)
        for name in (name for name in _SETTINGS if name in differing):
            setting = _SETTINGS[name]
            value = setting.form(after[name], bucket) if name in after else setting.empty
            if value is None:
                removed = setting.name.removesuffix("_configuration")
                getattr(s3, f"delete_{removed}")(Bucket=bucket)
            else:
                getattr(s3, f"put_{setting.name}")(Bucket=bucket, **{setting.member: value})


class BucketPolicy(PutType):
    name, service, keys = "AWS::S3::BucketPolicy", "s3", "Bucket"
    reads, deletes = "get_bucket_policy", "delete_bucket_policy"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        document = json.dumps(properties["PolicyDocument"])
        call.client("s3").put_bucket_policy(Bucket=properties["Bucket"], Policy=document)
        return Identity(physical_id=properties["Bucket"])


TYPES = (Bucket(), BucketPolicy())
