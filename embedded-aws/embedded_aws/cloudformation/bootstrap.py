"""Types that only `cdk bootstrap` uses: the repository for images, and the parameter with its version."""

# ruff: noqa: ARG002 (a type's verbs all take the same arguments, whether or not it needs them)

from __future__ import annotations

import json

from embedded_aws.cloudformation.request import refuse_unknown
from embedded_aws.cloudformation.resource import (
    Call,
    ConfiguredType,
    Identity,
    Properties,
    PutType,
    ResourceType,
    changed_tags,
)

_REPOSITORY_NAME_LIMIT = 256
_PARAMETER_NAME_LIMIT = 512


class Repository(ConfiguredType):
    """AWS::ECR::Repository. Its id is its name."""

    name = "AWS::ECR::Repository"

    def begin(self, call: Call, properties: Properties) -> Identity:
        """Create the repository."""
        refuse_unknown(properties, _REPOSITORY_PROPERTIES)
        name = properties.get("RepositoryName") or call.unique_name(limit=_REPOSITORY_NAME_LIMIT).lower()
        repository = call.client("ecr").create_repository(repositoryName=name)["repository"]
        return Identity(
            physical_id=name,
            attributes={"Arn": repository["repositoryArn"], "RepositoryUri": repository["repositoryUri"]},
        )

    def configure(self, call: Call, identity: Identity, before: Properties, after: Properties) -> None:
        """Update scanning, the mutability of tags, and policies to match the properties."""
        ecr, name = call.client("ecr"), identity.physical_id
        if before.get("ImageTagMutability") != after.get("ImageTagMutability"):
            mutability = after.get("ImageTagMutability", "MUTABLE")
            ecr.put_image_tag_mutability(repositoryName=name, imageTagMutability=mutability)
        if before.get("ImageScanningConfiguration") != after.get("ImageScanningConfiguration"):
            wanted = after.get("ImageScanningConfiguration", {}).get("ScanOnPush", False)
            scanning = {"scanOnPush": str(wanted).lower() == "true"}
            ecr.put_image_scanning_configuration(repositoryName=name, imageScanningConfiguration=scanning)
        lifecycle = after.get("LifecyclePolicy", {}).get("LifecyclePolicyText")
        if lifecycle and before.get("LifecyclePolicy") != after["LifecyclePolicy"]:
            ecr.put_lifecycle_policy(repositoryName=name, lifecyclePolicyText=lifecycle)
        policy = after.get("RepositoryPolicyText")
        if policy and before.get("RepositoryPolicyText") != policy:
            ecr.set_repository_policy(repositoryName=name, policyText=_json(policy))
        put, removed = changed_tags(before, after)
        if put:
            ecr.tag_resource(resourceArn=identity.attributes["Arn"], tags=put)
        if removed:
            ecr.untag_resource(resourceArn=identity.attributes["Arn"], tagKeys=removed)

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the repository; with its images if the template requests it."""
        force = str(properties.get("EmptyOnDelete", False)).lower() == "true"
        call.client("ecr").delete_repository(repositoryName=identity.physical_id, force=force)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the repository."""
        call.client("ecr").describe_repositories(repositoryNames=[identity.physical_id])


_REPOSITORY_PROPERTIES = frozenset(
    {
        "RepositoryName",
        "ImageTagMutability",
        "ImageScanningConfiguration",
        "LifecyclePolicy",
        "RepositoryPolicyText",
        "EmptyOnDelete",
        "Tags",
    }
)


class Parameter(PutType):
    """AWS::SSM::Parameter. Its id is its name."""

    name = "AWS::SSM::Parameter"

    def put(self, call: Call, physical_id: str | None, properties: Properties) -> Identity:
        """Write the parameter; a new one must not exist yet."""
        refuse_unknown(properties, {"Name", "Type", "Value", "Description", "Tier", "DataType", "Tags"})
        name = physical_id or properties.get("Name") or call.unique_name(limit=_PARAMETER_NAME_LIMIT)
        optional = {key: properties[key] for key in ("Description", "Tier", "DataType") if key in properties}
        value = str(properties["Value"])
        ssm, tagged = call.client("ssm"), {"ResourceType": "Parameter", "ResourceId": name}
        ssm.put_parameter(
            Name=name, Value=value, Type=properties["Type"], Overwrite=physical_id is not None, **optional
        )
        tags = properties.get("Tags", {})
        before = {tag["Key"] for tag in ssm.list_tags_for_resource(**tagged)["TagList"]}
        ssm.remove_tags_from_resource(**tagged, TagKeys=sorted(before - tags.keys()))
        ssm.add_tags_to_resource(**tagged, Tags=[{"Key": key, "Value": tags[key]} for key in tags])
        return Identity(physical_id=name, attributes={"Type": properties["Type"], "Value": value})

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Delete the parameter."""
        call.client("ssm").delete_parameter(Name=identity.physical_id)

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Read the parameter."""
        call.client("ssm").get_parameter(Name=identity.physical_id)


class CdkMetadata(ResourceType):
    """AWS::CDK::Metadata: a resource without an effect."""

    name = "AWS::CDK::Metadata"

    def create(self, call: Call, properties: Properties) -> Identity:
        """Return an id; nothing is created."""
        return Identity(physical_id=call.unique_name(limit=_PARAMETER_NAME_LIMIT))

    def update(self, call: Call, identity: Identity, before: Properties, after: Properties) -> Identity:
        """Return the same identity; nothing changes."""
        return identity

    def delete(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Do nothing."""

    def confirm(self, call: Call, identity: Identity, properties: Properties) -> None:
        """Do nothing: no service has this resource."""


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
