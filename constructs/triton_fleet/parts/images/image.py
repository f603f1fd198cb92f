"""The container image: the one AWS publishes for a release in the region of the stack, or one of your own.

The labels of an image of your own are read from what describes it on this machine.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_cdk import CfnMapping, Stack, Token
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from constructs import Construct

from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.errors import FleetError
from triton_models.facts.releases import IMAGE_ACCOUNTS, IMAGE_REPOSITORY, Release, image_account

# The registry pulled from was read in API_ContainerDefinition.html of the same reference.
OWN_IMAGE_VERSION = Check(
    id="own-image-version",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html",
)
OWN_IMAGE_REGION = Check(
    id="own-image-region",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html",
)
OWN_IMAGE_LABEL = Check(
    id="own-image-label",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/mms-container-apis.html",
)

IMAGE_DESCRIPTION = Check(id="image-description", source=FROM_ARGUMENTS)

_LABEL = "com.amazonaws.sagemaker.capabilities.multi-models"
_TAG, _DIGEST = r"\w[\w.-]{0,127}", "sha256:[0-9a-f]{64}"
_URI = re.compile(
    r"(?P<account>[0-9]{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/"
    rf"(?P<name>[a-z0-9][a-z0-9._/-]{{0,254}})(:(?P<tag>{_TAG})|@(?P<digest>{_DIGEST}))",
    re.ASCII,
)
_CONTINUED = re.compile(r"\\[ \t]*\n")
_COMMENT = re.compile(r"^[ \t]*#.*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonImage:
    """A container image, as AWS publishes one for each release."""

    uri: str  # for SageMaker and CodeBuild
    account: str  # that owns it; of AWS's images an attribute of the region
    repository_name: str
    repository_arn: str  # to grant pulling exactly this
    tag: str  # such as "25.09-py3", or a digest such as "sha256:..."

    @classmethod
    def of(cls, scope: Construct, *, release: Release, cpu: bool = False) -> TritonImage:
        """The image that AWS publishes of a release, for the stack that `scope` is in.

        Where the stack leaves its region open, the account comes from a mapping in the template that holds
        just the regions that have the image, so any other region fails before the first resource is made.
        AWS's SDK makes the tag that ends in "-cpu", for instance types without a GPU, for every release. Its
        container repository has listed none since 23.12, so it is used only where `cpu_image` asks for it.
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

        Such as 123456789012.dkr.ecr.eu-west-1.amazonaws.com/triton:25.09-py3, or with @sha256:...
        """
        parts = _URI.fullmatch(uri)
        if parts is None:
            raise OWN_IMAGE_VERSION.error(
                what=f"the image is {uri!r}",
                where=f"uri of {scope.node.path}",
                fix="copy it from ECR: ACCOUNT.dkr.ecr.REGION.amazonaws.com/NAME with :TAG or @sha256:DIGEST",
                why="every new instance and every build pulls the image by it",
            )
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
        self._check_version(report)
        own, endpoint = known(self.repository.env.region), region and known(region)
        if own and endpoint and own != endpoint:
            report(
                OWN_IMAGE_REGION,
                f"the image is in {own}",
                fix=f"replicate the repository to {endpoint}, and use the replica",
                why="SageMaker pulls images only from its own region",
            )
        if multi_model:
            self._check_label(report)

    def _check_version(self, report: Report) -> None:
        tag, digest = known(self.tag), known(self.digest)
        if tag is not None and digest is not None:
            what = f"both tag {tag!r} and digest {digest!r} are given"
        elif self.tag is None and self.digest is None:
            what = "neither a tag nor a digest is given"
        elif tag is not None and not re.fullmatch(_TAG, tag, re.ASCII):
            what = f"the tag is {tag!r}"
        elif digest is not None and not re.fullmatch(_DIGEST, digest):
            what = f"the digest is {digest!r}"
        else:
            return
        report(
            OWN_IMAGE_VERSION,
            what,
            fix="use a tag of up to 128 letters, digits, _ . and -, or the digest of sha256: that docker "
            "inspect prints as RepoDigests",
            why="every new instance pulls the image by it",
        )

    def _resolved(self) -> TritonImage:
        """Return the image to pull, if its check has found nothing."""
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
        if self.described_by is None:
            if self.has_multi_model_label:
                return
            what = f"it is not known if the image has the label {_LABEL}"
            fix = "add described_by, or has_multi_model_label=True if docker inspect shows the label"
        else:
            try:
                value = image_labels(self.described_by).get(_LABEL)
            except FleetError as error:
                report.add(error.problems)
                return
            if value == "true":
                return
            what = f"{self.described_by} does not have the label {_LABEL}"
            if value is not None:
                what = f"{self.described_by} has {_LABEL}={value!r}"
            fix = f"add LABEL {_LABEL}=true to the Dockerfile, then build and push the image"
        report(
            OWN_IMAGE_LABEL,
            what,
            fix=fix,
            why="without this label SageMaker refuses the image for multi-model endpoints",
        )


def _account(stack: Stack, release: Release) -> str:
    if not Token.is_unresolved(stack.region):
        return image_account(region=stack.region, release=release)
    mapping_id = f"TritonImage{release.name.replace('.', '')}"
    mapping = stack.node.try_find_child(mapping_id)
    if not isinstance(mapping, CfnMapping):
        accounts = {region: {"account": IMAGE_ACCOUNTS[region]} for region in release.regions}
        mapping = CfnMapping(stack, mapping_id, mapping=accounts)
    return mapping.find_in_map(stack.region, "account")


def image_labels(path: Path) -> Mapping[str, str]:
    """Return the labels that an image has.

    The path is that of a Dockerfile, of the folder of an OCI image layout with one image, or of the JSON that
    `docker inspect` and `skopeo inspect --config` print. Any other raises a FleetError.
    """
    try:
        if path.is_dir():
            return _labels_in(_layout_config(path))
        text = path.read_text()
        return _labels_in(json.loads(text)) if text.lstrip().startswith(("{", "[")) else _dockerfile(text)
    except (OSError, UnicodeDecodeError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise IMAGE_DESCRIPTION.error(
            what=f"no image description can be read from {path}: {error or type(error).__name__}",
            where=str(path),
            why="the labels of the image are checked before anything is deployed",
            fix="give a Dockerfile, the folder of an OCI layout, or the output of docker inspect IMAGE",
        ) from None


def _labels_in(described: Any) -> Mapping[str, str]:
    """The labels in an image's configuration, alone or in the list that `docker inspect` prints."""
    image = described[0] if isinstance(described, list) else described
    config = image.get("config", image.get("Config"))
    return dict(config.get("Labels") or {})


def _layout_config(layout: Path) -> Any:
    """The image's configuration in an OCI layout: the index leads to the manifest, and that to it."""
    described = json.loads((layout / "index.json").read_text())
    while "manifests" in described:  # an index may lead to another one
        described = json.loads(_blob(layout, described["manifests"][0]).read_text())
    return json.loads(_blob(layout, described["config"]).read_text())


def _blob(layout: Path, descriptor: Mapping[str, str]) -> Path:
    algorithm, _, digest = descriptor["digest"].partition(":")
    return layout / "blobs" / algorithm / digest


def _dockerfile(text: str) -> Mapping[str, str]:
    """The labels of a Dockerfile's last stage, with those of the stages it is made from.

    Those of a base image from elsewhere are not known; and a variable is left as it is written.
    """
    stages: dict[str, dict[str, str]] = {}
    labels: dict[str, str] = {}
    started = False
    for instruction, rest in _instructions(text):
        if instruction == "FROM":
            started = True
            words = [word for word in rest.split() if not word.startswith("--")]
            labels = dict(stages.get(words[0].lower(), {}))
            if len(words) > 2:  # noqa: PLR2004 -- FROM image AS name
                stages[words[2].lower()] = labels
        elif instruction == "LABEL":
            labels.update(_pairs(rest))
    if not started:
        msg = "it has no FROM"
        raise ValueError(msg)
    return labels


def _instructions(text: str) -> Iterator[tuple[str, str]]:
    joined = _CONTINUED.sub(" ", _COMMENT.sub("", text.replace("\r\n", "\n")))
    for line in joined.splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction:
            yield instruction.upper(), rest.strip()


def _pairs(rest: str) -> Iterator[tuple[str, str]]:
    words = shlex.split(rest)
    if words and "=" not in words[0]:  # the old form, LABEL key value
        yield words[0], " ".join(words[1:])
        return
    for word in words:
        key, _, value = word.partition("=")
        yield key, value
