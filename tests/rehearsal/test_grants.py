"""The permissions of a role, compared with the calls of the command for which it has them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from aws_cdk import CfnOutput, Fn
from aws_cdk import aws_iam as iam
from moto.s3 import models

from embedded_aws import EmbeddedAws
from tests.granted import Access, needed, recorded, refused
from tests.rehearsal.synthesised_stacks import deploy_stack, small_stack
from tests.triton_models.publisher_nursery import PART_BYTES
from tests.triton_models.publishing_aws import artifact
from triton_fleet import GitHubDeployRole, ModelRepository
from triton_models.artifact.pack.pack import Artifact
from triton_models.repository.manifest import Repository
from triton_models.repository.promote import promote
from triton_models.repository.prune import prune
from triton_models.repository.publish import publish


@dataclass(frozen=True)
class Account:
    """An account with the repositories of two stages and roles for production."""

    aws: EmbeddedAws
    outputs: Mapping[str, str]

    def serve(self, repository: str) -> None:
        """Create an endpoint that serves a repository."""
        sagemaker = self.aws.client("sagemaker")
        container = {
            "Image": "007439368137.dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:25.09-py3",
            "Mode": "MultiModel",
            "ModelDataUrl": self.outputs[repository],
        }
        variant = {
            "VariantName": "all",
            "ModelName": "served",
            "InstanceType": "ml.g5.2xlarge",
            "InitialInstanceCount": 1,
        }
        sagemaker.create_model(
            ModelName="served", PrimaryContainer=container, ExecutionRoleArn=self.outputs["PruneRole"]
        )
        sagemaker.create_endpoint_config(EndpointConfigName="served", ProductionVariants=[variant])
        sagemaker.create_endpoint(EndpointName="served", EndpointConfigName="served")

    def refused(self, accesses: list[Access], role: str) -> set[str]:
        """Return what a role may not do."""
        accesses = [*accesses]  # before the calls below
        iam_client, s3 = self.aws.client("iam"), self.aws.client("s3")
        name = self.outputs[role].rpartition("/")[2]
        (policy,) = iam_client.list_role_policies(RoleName=name)["PolicyNames"]
        own = iam_client.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"]
        buckets = {each: self.outputs[each].split("/")[2] for each in ("Staging", "Production")}
        denied = [json.loads(s3.get_bucket_policy(Bucket=each)["Policy"]) for each in buckets.values()]
        return refused(
            accesses,
            own,
            *denied,
            keys={f"key of arn:aws:s3:::{name}": self.outputs[f"{key}Key"] for key, name in buckets.items()},
        )


@pytest.fixture(scope="module")
def account() -> Iterator[Account]:
    with EmbeddedAws() as aws:
        stack = small_stack()
        staging, production = (ModelRepository(stack, each) for each in ("Before", "After"))
        # As the stack of the delivery passes it: the bucket is known only at deployment.
        source = f"s3://{Fn.select(2, Fn.split('/', staging.url))}/{staging.prefix}"
        deploy = GitHubDeployRole(
            stack, "Deploy", repository="octo-org/search", environment="production", promoted_from=source
        ).role
        pruner = iam.Role(stack, "Pruner", assumed_by=iam.AccountRootPrincipal())
        production.grant_publish(deploy)
        production.grant_prune(pruner)
        for name, value in {
            "Staging": staging.url,
            "Production": production.url,
            "StagingKey": staging.key.key_arn,
            "ProductionKey": production.key.key_arn,
            "DeployRole": deploy.role_arn,
            "PruneRole": pruner.role_arn,
        }.items():
            CfnOutput(stack, name, value=value)
        assert deploy_stack(aws, stack, "create") == "CREATE_COMPLETE"
        (described,) = aws.client("cloudformation").describe_stacks()["Stacks"]
        yield Account(aws, {each["OutputKey"]: each["OutputValue"] for each in described["Outputs"]})


@pytest.fixture
def tested(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Artifact]:
    """Artifacts that staging has published: a small one, and one that is uploaded in parts."""
    monkeypatch.setattr(models, "S3_UPLOAD_PART_MIN_SIZE", 1)
    noise = random.Random(1).randbytes(9000)  # noqa: S311 -- it does not compress
    made = [
        artifact(tmp_path, name="small", weights=b"small"),
        artifact(tmp_path, name="large", weights=noise),
    ]
    s3 = account.aws.client("s3")
    publish(made, repository=account.outputs["Staging"], s3=s3, by="ann", part_bytes=PART_BYTES)
    return made


@pytest.fixture
def calls(account: Account) -> list[Access]:
    """Permissions for the calls to S3 and SageMaker from now on."""
    return recorded(account.aws.client("s3"), account.aws.client("sagemaker"))


@pytest.mark.usefixtures("tested")
def test_the_role_of_production_may_do_what_the_promotion_from_staging_does(
    account: Account, calls: list[Access]
) -> None:
    s3, outputs = account.aws.client("s3"), account.outputs
    promoted = promote(
        None,
        source=outputs["Staging"],
        repository=outputs["Production"],
        source_s3=s3,
        s3=s3,
        by="ann",
        part_bytes=PART_BYTES,
    )

    assert len(promoted.copied) == 2
    assert {"s3:GetObject", "s3:PutObject", "kms:Decrypt"} <= {each.action for each in calls}
    assert account.refused(calls, "DeployRole") == set()
    assert account.refused(calls, "PruneRole") != set()


@pytest.mark.usefixtures("tested")
def test_the_role_that_prunes_may_do_what_pruning_does(account: Account, calls: list[Access]) -> None:
    s3, sagemaker = account.aws.client("s3"), account.aws.client("sagemaker")
    account.serve("Production")
    calls.clear()
    prune(repository=account.outputs["Production"], keep=1, s3=s3, sagemaker=sagemaker)

    assert {each.action for each in calls} >= {"sagemaker:ListEndpoints", "sagemaker:DescribeEndpointConfig"}
    assert account.refused(calls, "PruneRole") == set()


@pytest.mark.parametrize(
    ("operation", "key", "condition", "denied"),
    [
        ("PutObject", "small-0123456789abcdef.tar.gz", {}, True),
        ("PutObject", "small-0123456789abcdef.tar.gz", {"IfNoneMatch": "*"}, False),
        ("CompleteMultipartUpload", "small-0123456789abcdef.tar.gz", {}, True),
        ("CompleteMultipartUpload", "small-0123456789abcdef.tar.gz", {"IfNoneMatch": "*"}, False),
        ("UploadPart", "small-0123456789abcdef.tar.gz", {}, False),
        ("PutObject", "requests/0123.json", {}, True),
        ("PutObject", "manifest.json", {"IfMatch": "tag"}, False),
    ],
)
def test_nobody_who_may_publish_can_overwrite_an_artifact(
    account: Account, operation: str, key: str, condition: dict[str, str], denied: bool
) -> None:
    where = Repository.parse(account.outputs["Production"])
    given = {"Bucket": where.bucket, "Key": where.key(key), **condition}

    assert bool(account.refused(list(needed("s3", operation, given)), "DeployRole")) is denied
