"""The container image: the one AWS publishes for a release in the region of the stack, or one of your own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from aws_cdk import CfnMapping, Stack, Token
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from constructs import Construct

from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.images.checks import (
    URI,
    image_beside_endpoint,
    image_uri,
    image_version,
    multi_model_label,
)
from triton_fleet.parts.images.labels import image_labels
from triton_models.base.checks import Report
from triton_models.base.errors import FleetError
from triton_models.facts.releases import IMAGE_ACCOUNTS, IMAGE_REPOSITORY, Release, image_account


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonImage:
    """A container image, as AWS publishes one for each release.

    Attributes:
        uri: The URI for SageMaker and CodeBuild.
        account: The AWS account that owns it; of AWS's images an attribute of the region.
        repository_name: Its name in ECR.
        repository_arn: Its ARN in ECR, to grant pulling exactly this.
        tag: Such as "25.09-py3", or a digest such as "sha256:...".
    """

    uri: str
    account: str
    repository_name: str
    repository_arn: str
    tag: str

    @classmethod
    def of(cls, scope: Construct, *, release: Release, cpu: bool = False) -> TritonImage:
        """The image that AWS publishes of a release, for the stack that `scope` is in.

        Where the stack leaves its region open, the account comes from a mapping in the template that holds
        just the regions that have the image, so any other region fails before the first resource is made.

        Args:
            scope: The construct that uses the image.
            release: The release.
            cpu: The image for instance types without a GPU, whose tag ends in "-cpu". AWS's SDK makes that
                tag for every release; its container repository has listed none since 23.12, so it is used
                only where `cpu_image` asks for it.

        Raises:
            FleetError: The stack names a region that does not have the image.
        """
        stack = Stack.of(scope)
        account = _account(stack, release)
        registry = f"{account}.dkr.ecr.{stack.region}.{stack.url_suffix}"
        tag = f"{release.image_tag}-cpu" if cpu else release.image_tag
        return cls(
            uri=f"{registry}/{IMAGE_REPOSITORY}:{tag}",
            account=account,
            repository_name=IMAGE_REPOSITORY,
            repository_arn=stack.format_arn(
                service="ecr", account=account, resource="repository", resource_name=IMAGE_REPOSITORY
            ),
            tag=tag,
        )

    def pull_statements(self) -> list[iam.PolicyStatement]:
        """Return the statements with which a role can pull this image and nothing else."""
        return [
            iam.PolicyStatement(
                sid="ImageLogin",  # a token is for the registry: ECR has no narrower resource
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


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class CustomImage:
    """An image in your ECR repository, based on Triton with SageMaker's interface.

    The endpoint's `release` says what it holds: plans and host driver are checked against that. The
    image has to be built from it, with the start script at /usr/bin/serve.

    A multi-model endpoint needs the label com.amazonaws.sagemaker.capabilities.multi-models=true. It is read
    from `described_by` where that is given; otherwise `has_multi_model_label` says that you have looked. Put
    the label into your own Dockerfile: of a base image from elsewhere nothing is known here.

    Attributes:
        repository: The ECR repository, in the endpoint's region. In another account, it needs a policy that
            lets the endpoint's role pull.
        tag: Its tag. A tag that moves makes instances that scaling adds differ from those that run.
        digest: Its digest, "sha256:...", instead of a tag.
        described_by: A Dockerfile, the output of `docker inspect`, or the folder of an OCI image layout.
        has_multi_model_label: You have checked that it has the label.
    """

    repository: ecr.IRepository
    tag: str | None = None
    digest: str | None = None
    described_by: Path | None = None
    has_multi_model_label: bool = False

    @classmethod
    def from_uri(cls, scope: Construct, construct_id: str, uri: str) -> CustomImage:
        """Return the image with a URI, which has the label for multi-model endpoints.

        Args:
            scope: The parent construct.
            construct_id: The id of the imported repository.
            uri: Such as 123456789012.dkr.ecr.eu-west-1.amazonaws.com/triton:25.09-py3, or with @sha256:...

        Raises:
            FleetError: It is no URI of an image in ECR.
        """
        report = Report(scope.node.path)
        image_uri(report.at("uri"), uri, region=None)
        report.raise_if_any()
        parts = URI.fullmatch(uri)
        assert parts is not None  # noqa: S101 -- what is no URI was raised
        arn = Stack.of(scope).format_arn(
            service="ecr",
            region=parts["region"],
            account=parts["account"],
            resource="repository",
            resource_name=parts["name"],
        )
        return cls(
            repository=ecr.Repository.from_repository_attributes(
                scope, construct_id, repository_arn=arn, repository_name=parts["name"]
            ),
            tag=parts["tag"],
            digest=parts["digest"],
            has_multi_model_label=True,
        )

    def _check(self, report: Report, *, region: str | None, multi_model: bool) -> None:
        """Report problems with serving from it."""
        tag, digest = self.tag and known(self.tag), self.digest and known(self.digest)
        if bool(self.tag) == bool(tag) and bool(self.digest) == bool(digest):
            image_version(report, tag, digest)
        image_beside_endpoint(
            report, image=known(self.repository.env.region), endpoint=region and known(region)
        )
        if multi_model:
            self._check_label(report)

    def _resolved(self) -> TritonImage:
        """Return the image to pull; call it after `problems` has found nothing."""
        repository = self.repository
        return TritonImage(
            uri=repository.repository_uri_for_digest(self.digest)
            if self.digest
            else repository.repository_uri_for_tag(self.tag),
            account=repository.env.account,
            repository_name=repository.repository_name,
            repository_arn=repository.repository_arn,
            tag=self.digest or self.tag or "",
        )

    def _check_label(self, report: Report) -> None:
        labels = None
        if self.described_by is not None:
            try:
                labels = image_labels(self.described_by)
            except FleetError as error:
                report.add(error.problems)
                return
        multi_model_label(report, labels, source=str(self.described_by), stated=self.has_multi_model_label)


def _account(stack: Stack, release: Release) -> str:
    if not Token.is_unresolved(stack.region):
        return image_account(region=stack.region, release=release)
    mapping_id = f"TritonImage{release.name.replace('.', '')}"
    mapping = stack.node.try_find_child(mapping_id)
    if not isinstance(mapping, CfnMapping):
        accounts = {region: {"account": IMAGE_ACCOUNTS[region]} for region in release.regions}
        mapping = CfnMapping(stack, mapping_id, mapping=accounts)
    return mapping.find_in_map(stack.region, "account")
