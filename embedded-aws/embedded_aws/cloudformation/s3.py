"""AWS::S3: buckets with their settings, and bucket policies."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from embedded_aws.cloudformation.request import refuse_unknown
from embedded_aws.cloudformation.resource import Call, Client, ConfiguredType, Identity, Properties, PutType

_NAME_LIMIT = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """A property of a bucket with the call that sets it and the call that removes it."""

    put: Callable[[Client, str, Any], object]
    remove: Callable[[Client, str], object]


def _put_encryption(s3: Client, bucket: str, value: Any) -> None:
    rules = [
        {
            "ApplyServerSideEncryptionByDefault": rule["ServerSideEncryptionByDefault"],
            "BucketKeyEnabled": _true(rule.get("BucketKeyEnabled", False)),
        }
        for rule in value["ServerSideEncryptionConfiguration"]
    ]
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": rules})


def _put_logging(s3: Client, bucket: str, value: Any) -> None:
    target = {
        "TargetBucket": value.get("DestinationBucketName", bucket),
        "TargetPrefix": value.get("LogFilePrefix", ""),
    }
    s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={"LoggingEnabled": target})


def _put_lifecycle(s3: Client, bucket: str, value: Any) -> None:
    rules = [_lifecycle_rule(rule) for rule in value["Rules"]]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})


def _lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a lifecycle rule in the API's terms; CloudFormation uses older ones."""
    refuse_unknown(rule, _LIFECYCLE)
    expiration = {
        api: rule[cfn]
        for cfn, api in (
            ("ExpirationInDays", "Days"),
            ("ExpirationDate", "Date"),
            ("ExpiredObjectDeleteMarker", "ExpiredObjectDeleteMarker"),
        )
        if cfn in rule
    }
    converted: dict[str, Any] = {
        "Status": rule["Status"],
        "Filter": _lifecycle_filter(rule),
        **({"ID": rule["Id"]} if "Id" in rule else {}),
        **({"Expiration": expiration} if expiration else {}),
    }
    for name in ("AbortIncompleteMultipartUpload", "NoncurrentVersionExpiration"):
        if name in rule:
            converted[name] = rule[name]
    if "NoncurrentVersionExpirationInDays" in rule:
        days = int(rule["NoncurrentVersionExpirationInDays"])
        converted["NoncurrentVersionExpiration"] = {"NoncurrentDays": days}
    if "Transitions" in rule:
        converted["Transitions"] = [
            _transition(item, "TransitionInDays", "Days") for item in rule["Transitions"]
        ]
    if "NoncurrentVersionTransitions" in rule:
        converted["NoncurrentVersionTransitions"] = [
            _transition(item, "TransitionInDays", "NoncurrentDays")
            for item in rule["NoncurrentVersionTransitions"]
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


def _transition(item: Mapping[str, Any], cfn: str, api: str) -> dict[str, Any]:
    return {api if key == cfn else key: value for key, value in item.items()}


_LIFECYCLE = frozenset(
    {
        "Id",
        "Status",
        "Prefix",
        "TagFilters",
        "ObjectSizeGreaterThan",
        "ObjectSizeLessThan",
        "ExpirationInDays",
        "ExpirationDate",
        "ExpiredObjectDeleteMarker",
        "AbortIncompleteMultipartUpload",
        "NoncurrentVersionExpiration",
        "NoncurrentVersionExpirationInDays",
        "NoncurrentVersionTransitions",
        "Transitions",
    }
)


def _put_notifications(s3: Client, bucket: str, value: Any) -> None:
    refuse_unknown(value, {"EventBridgeConfiguration"})
    s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"EventBridgeConfiguration": {}}
    )


_CANNED_ACLS: Mapping[str, str] = {
    "Private": "private",
    "PublicRead": "public-read",
    "PublicReadWrite": "public-read-write",
    "AuthenticatedRead": "authenticated-read",
    "LogDeliveryWrite": "log-delivery-write",
    "BucketOwnerRead": "bucket-owner-read",
    "BucketOwnerFullControl": "bucket-owner-full-control",
}

_SETTINGS: Mapping[str, _Setting] = {
    "BucketEncryption": _Setting(
        put=_put_encryption, remove=lambda s3, bucket: s3.delete_bucket_encryption(Bucket=bucket)
    ),
    "VersioningConfiguration": _Setting(
        put=lambda s3, bucket, value: s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=value),
        # Versioning cannot be removed, only suspended.
        remove=lambda s3, bucket: s3.put_bucket_versioning(
            Bucket=bucket, VersioningConfiguration={"Status": "Suspended"}
        ),
    ),
    "PublicAccessBlockConfiguration": _Setting(
        put=lambda s3, bucket, value: s3.put_public_access_block(
            Bucket=bucket, PublicAccessBlockConfiguration={key: _true(item) for key, item in value.items()}
        ),
        remove=lambda s3, bucket: s3.delete_public_access_block(Bucket=bucket),
    ),
    "OwnershipControls": _Setting(
        put=lambda s3, bucket, value: s3.put_bucket_ownership_controls(
            Bucket=bucket, OwnershipControls=value
        ),
        remove=lambda s3, bucket: s3.delete_bucket_ownership_controls(Bucket=bucket),
    ),
    "LifecycleConfiguration": _Setting(
        put=_put_lifecycle, remove=lambda s3, bucket: s3.delete_bucket_lifecycle(Bucket=bucket)
    ),
    "AccessControl": _Setting(
        put=lambda s3, bucket, value: s3.put_bucket_acl(Bucket=bucket, ACL=_CANNED_ACLS[value]),
        remove=lambda s3, bucket: s3.put_bucket_acl(Bucket=bucket, ACL="private"),
    ),
    "LoggingConfiguration": _Setting(
        put=_put_logging,
        remove=lambda s3, bucket: s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={}),
    ),
    "NotificationConfiguration": _Setting(
        put=_put_notifications,
        remove=lambda s3, bucket: s3.put_bucket_notification_configuration(
            Bucket=bucket, NotificationConfiguration={}
        ),
    ),
    "Tags": _Setting(
        put=lambda s3, bucket, value: s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": list(value)}),
        remove=lambda s3, bucket: s3.delete_bucket_tagging(Bucket=bucket),
    ),
}


class Bucket(ConfiguredType):
    """A bucket. Its id is its name."""

    name = "AWS::S3::Bucket"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the bucket in the stack's region."""
        refuse_unknown(properties, {"BucketName", *_SETTINGS})
        bucket = properties.get("BucketName") or call.unique_name(limit=_NAME_LIMIT).lower()
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
        """Set and remove the properties that differ, one at a time."""
        refuse_unknown(after, {"BucketName", *_SETTINGS})
        s3 = call.client("s3")
        for name, setting in _SETTINGS.items():
            if name in after and before.get(name) != after[name]:
                setting.put(s3, identity.physical_id, after[name])
            elif name in before and name not in after:
                setting.remove(s3, identity.physical_id)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the bucket. S3 refuses if it is not empty."""
        call.client("s3").delete_bucket(Bucket=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Send HeadBucket."""
        call.client("s3").head_bucket(Bucket=identity.physical_id)


class BucketPolicy(PutType):
    """A bucket's policy. Its id is the bucket's name."""

    name = "AWS::S3::BucketPolicy"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the policy."""
        document = json.dumps(properties["PolicyDocument"])
        call.client("s3").put_bucket_policy(Bucket=properties["Bucket"], Policy=document)
        return Identity(physical_id=properties["Bucket"])

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Remove the policy."""
        call.client("s3").delete_bucket_policy(Bucket=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the policy."""
        call.client("s3").get_bucket_policy(Bucket=identity.physical_id)


def _true(value: Any) -> bool:
    return str(value).lower() == "true"
