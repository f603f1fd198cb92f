"""The Triton image that AWS publishes for a release, in the region of the stack."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import CfnMapping, Stack, Token
from aws_cdk import aws_iam as iam
from constructs import Construct

from triton_models.releases import IMAGE_ACCOUNTS, IMAGE_REPOSITORY, Release, image_account


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonImage:
    """The container image of one release.

    Attributes:
        uri: What SageMaker and CodeBuild pull.
        account: The AWS account that owns it, an attribute of the region.
        repository_name: Its name in ECR.
        repository_arn: Its ARN in ECR, to grant pulling exactly this.
        tag: Such as "25.09-py3".
    """

    uri: str
    account: str
    repository_name: str
    repository_arn: str
    tag: str

    @classmethod
    def of(cls, scope: Construct, *, release: Release) -> TritonImage:
        """The image of a release for the stack that `scope` is in.

        Where the stack leaves its region open, the account comes from a mapping in the template that holds
        just the regions that have the image, so any other region fails before the first resource is made.

        Raises:
            FleetError: The stack names a region that does not have the image.
        """
        stack = Stack.of(scope)
        account = _account(stack, release)
        registry = f"{account}.dkr.ecr.{stack.region}.{stack.url_suffix}"
        return cls(
            uri=f"{registry}/{IMAGE_REPOSITORY}:{release.image_tag}",
            account=account,
            repository_name=IMAGE_REPOSITORY,
            repository_arn=stack.format_arn(
                service="ecr", account=account, resource="repository", resource_name=IMAGE_REPOSITORY
            ),
            tag=release.image_tag,
        )

    def pull_statements(self) -> list[iam.PolicyStatement]:
        """What a role needs to pull this image and nothing else."""
        return [
            iam.PolicyStatement(
                sid="ImageLogin",  # a token is for the whole registry: ECR has no narrower resource
                actions=["ecr:GetAuthorizationToken"],
                resources=["*"],
            ),
            iam.PolicyStatement(
                sid="ImagePull",
                actions=[
                    "ecr:BatchCheckLayerAvailability",
                    "ecr:BatchGetImage",
                    "ecr:GetDownloadUrlForLayer",
                ],
                resources=[self.repository_arn],
            ),
        ]


def _account(stack: Stack, release: Release) -> str:
    if not Token.is_unresolved(stack.region):
        return image_account(region=stack.region, release=release)
    mapping_id = f"TritonImage{release.name.replace('.', '')}"
    mapping = stack.node.try_find_child(mapping_id)
    if not isinstance(mapping, CfnMapping):
        accounts = {region: {"account": IMAGE_ACCOUNTS[region]} for region in release.regions}
        mapping = CfnMapping(stack, mapping_id, mapping=accounts)
    return mapping.find_in_map(stack.region, "account")
