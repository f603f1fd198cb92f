from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match, Template
from synthesised import Resources

from tests.reported import reported
from triton_fleet import BuildRuns, ModelBuildProject, ModelRepository


def _role(stack: Stack) -> iam.Role:
    return iam.Role(stack, "Reader", assumed_by=iam.AccountRootPrincipal())


def _statements(resources: Resources) -> list[dict[str, Any]]:
    (policy,) = resources("AWS::IAM::Policy")
    return list(policy["PolicyDocument"]["Statement"])


def test_a_prefix_gets_exactly_one_final_slash(stack: Stack) -> None:
    assert ModelRepository(stack, "Repository", prefix="/team/models").prefix == "team/models/"


def test_models_of_a_throw_away_repository_do_not(stack: Stack) -> None:
    ModelRepository(stack, "Repository", removal_policy=RemovalPolicy.DESTROY)

    Template.from_stack(stack).has_resource("AWS::S3::Bucket", {"DeletionPolicy": "Delete"})


def test_a_bucket_has_no_snapshot_that_could_be_taken_when_its_stack_goes(stack: Stack) -> None:
    with reported("removal-policy"):
        ModelRepository(stack, "Repository", removal_policy=RemovalPolicy.SNAPSHOT)


KEPT_KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd"


def _kept(stack: Stack) -> ModelRepository:
    bucket = s3.Bucket.from_bucket_name(stack, "Kept", "kept-models")
    key = kms.Key.from_key_arn(stack, "KeptKey", KEPT_KEY)
    return ModelRepository(stack, "Repository", bucket=bucket, encryption_key=key)


def test_a_bucket_that_exists_is_used_with_its_key_and_left_as_it_is(
    stack: Stack, resources: Resources
) -> None:
    kept = _kept(stack)
    kept.grant_publish(_role(stack))
    statements = _statements(resources)
    reads = next(each for each in statements if each["Action"] == "s3:ListBucket")

    assert (kept.url, kept.owned) == ("s3://kept-models/models/", False)
    assert reads["Resource"]["Fn::Join"][1][-1] == ":s3:::kept-models"
    assert [each["Resource"] for each in statements if "kms:Decrypt" in each["Action"]] == [KEPT_KEY]
    for kind in ("AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::KMS::Key"):
        assert resources(kind) == []


@pytest.mark.parametrize(("key", "logs"), [(False, False), (True, True)])
def test_a_bucket_that_exists_needs_its_key_and_has_access_logs_of_its_own(
    key: bool, logs: bool, stack: Stack
) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Kept", "kept-models")

    with reported("existing-bucket"):
        ModelRepository(
            stack,
            "Repository",
            bucket=bucket,
            encryption_key=kms.Key.from_key_arn(stack, "KeptKey", KEPT_KEY) if key else None,
            access_logs=s3.Bucket(stack, "Logs") if logs else None,
        )


def test_runs_in_a_bucket_that_exists_are_not_expired_behind_its_owners_back(
    stack: Stack, source: Path
) -> None:
    builds = ModelBuildProject(stack, "Builds", repository=_kept(stack), source=source)
    BuildRuns(stack, "Runs", builds=builds)

    Annotations.from_stack(stack).has_info(
        "/Fleet/Repository", Match.string_like_regexp("models-builds/runs/")
    )


def test_a_new_bucket_can_be_encrypted_with_a_key_that_exists(stack: Stack, resources: Resources) -> None:
    key = kms.Key.from_key_arn(stack, "KeptKey", KEPT_KEY)
    ModelRepository(stack, "Repository", encryption_key=key)
    (bucket,) = resources("AWS::S3::Bucket")
    (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]

    assert rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == KEPT_KEY


PROMOTER = "arn:aws:iam::222222222222:role/deploy"


def test_a_role_of_another_account_may_read_the_artifacts_and_use_the_key(
    repository: ModelRepository, resources: Resources
) -> None:
    repository.allow_reading(PROMOTER)
    (bucket,) = resources("AWS::S3::BucketPolicy")
    (key,) = resources("AWS::KMS::Key")
    given = [
        each
        for each in (*bucket["PolicyDocument"]["Statement"], *key["KeyPolicy"]["Statement"])
        if each.get("Condition", {}).get("ArnEquals") == {"aws:PrincipalArn": PROMOTER}
    ]

    assert [each["Action"] for each in given] == ["s3:ListBucket", "s3:GetObject", "kms:Decrypt"]
    assert given[0]["Condition"]["StringLikeIfExists"] == {"s3:prefix": ["models", "models/*"]}
    assert given[1]["Resource"]["Fn::Join"][1][-1] == "/models/*"
    assert {json.dumps(each["Principal"]) for each in given} == {
        '{"AWS": {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":iam::222222222222:root"]]}}'
    }


def test_the_policies_of_an_existing_bucket_cannot_be_changed(stack: Stack) -> None:
    with reported("existing-bucket"):
        _kept(stack).allow_reading(PROMOTER)


def test_pruning_writes_nothing_but_the_manifest(
    stack: Stack, repository: ModelRepository, resources: Resources
) -> None:
    repository.grant_prune(_role(stack))
    statements = _statements(resources)

    [writing] = [each for each in statements if each["Action"] == "s3:PutObject"]
    assert "manifest.json" in str(writing["Resource"])
