"""The evaluation of policies by IAM, as far as the policies of this project need it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

# The actions of S3's operations that have another name.
_S3 = {
    "HeadBucket": "ListBucket",
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "HeadObject": "GetObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "ListMultipartUploads": "ListBucketMultipartUploads",
    "DeleteObjects": "DeleteObject",
}
# A multipart upload creates the object when it is completed.
_PARTS = frozenset({"CreateMultipartUpload", "UploadPart"})
_KMS = {"GetObject": ["Decrypt"], "PutObject": ["Decrypt", "GenerateDataKey"]}


@dataclass(frozen=True, kw_only=True)
class Access:
    """One use of a permission."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)


def recorded(*clients: Any) -> list[Access]:
    """Return a list that grows by what each call of the clients needs."""
    found: list[Access] = []

    def note(params: Mapping[str, Any], model: Any, **_: Any) -> None:
        found.extend(needed(model.service_model.service_name, model.name, params))

    for client in clients:
        client.meta.events.register_last("before-parameter-build", note)
    return found


def needed(service: str, operation: str, params: Mapping[str, Any]) -> Iterator[Access]:
    """Yield what a call needs: in S3 also the use of the bucket's key."""
    if service != "s3":
        named = {"cloudwatch:namespace": params["Namespace"]} if "Namespace" in params else {}
        yield Access(action=f"{service}:{operation}", resource="*", context=named)
        return
    action, bucket = _S3.get(operation, operation), f"arn:aws:s3:::{params['Bucket']}"
    keys = [each["Key"] for each in params.get("Delete", {}).get("Objects", ())] or [params.get("Key")]
    context = {name: str(params[given]) for name, given in _CONTEXT.items() if given in params}
    if action == "PutObject":
        context["s3:ObjectCreationOperation"] = str(operation not in _PARTS).lower()
    for key in keys:
        resource = bucket if key is None else f"{bucket}/{key}"
        yield Access(action=f"s3:{action}", resource=resource, context=context)
        for used in _KMS.get(action, ()):
            named = {"kms:EncryptionContext:aws:s3:arn": bucket}
            yield Access(action=f"kms:{used}", resource=f"key of {bucket}", context=named)


_CONTEXT = {"s3:prefix": "Prefix", "s3:if-none-match": "IfNoneMatch"}


def refused(accesses: Iterable[Access], *policies: Mapping[str, Any], keys: Mapping[str, str]) -> set[str]:
    """Return actions and resources that the policies do not allow.

    Args:
        accesses: The uses of permissions.
        *policies: The documents, of the role and of the resources.
        keys: The ARN of the key of each bucket, by "key of ARN".
    """
    statements = [each for policy in policies for each in _listed(policy["Statement"])]
    found = set()
    for access in accesses:
        resource = keys.get(access.resource, access.resource)
        effects = {
            each["Effect"]
            for each in statements
            if any(fnmatchcase(access.action.lower(), one.lower()) for one in _listed(each["Action"]))
            and any(fnmatchcase(resource, one) for one in _listed(each.get("Resource", "*")))
            and all(_holds(*condition, access.context) for condition in each.get("Condition", {}).items())
        }
        if effects != {"Allow"}:
            found.add(f"{access.action} {resource}")
    return found


def _holds(operator: str, conditions: Mapping[str, Any], context: Mapping[str, str]) -> bool:
    name = operator.removesuffix("IfExists")
    for key, values in conditions.items():
        given = context.get(key)
        if name == "Null":
            holds = (given is None) == (values == "true")
        elif given is None:
            holds = operator.endswith("IfExists")
        elif name == "Bool":
            holds = given == str(values).lower()
        elif name in {"StringLike", "StringEquals"}:
            holds = any(
                fnmatchcase(given, each) if name == "StringLike" else given == each
                for each in _listed(values)
            )
        else:
            raise NotImplementedError(operator)
        if not holds:
            return False
    return True


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
