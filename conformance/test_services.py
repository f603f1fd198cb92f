"""Beliefs about S3, alarms and state machines, and what AWS publishes: images, quotas and prices."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from conformance.account import Account, allow, lists, refusal
from conformance.beliefs import account
from conformance.records import Asked
from triton_models.facts import quotas
from triton_models.facts.cost import PRICES
from triton_models.facts.quotas import needs
from triton_models.facts.releases import IMAGE_ACCOUNTS, IMAGE_REPOSITORY

TAKEN = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
WRONG_SUM = {
    *("BadDigest", "InvalidDigest", "InvalidPart", "InvalidRequest"),
    *("XAmzContentSHA256Mismatch", "400"),
}
# Two regions of each partition.
REGIONS = {
    "aws": ("us-east-1", "us-west-2"),
    "aws-cn": ("cn-north-1", "cn-northwest-1"),
    "aws-us-gov": ("us-gov-west-1", "us-gov-east-1"),
}
RULE = "rule/StepFunctionsGetEventForCodeBuildStartBuildRule"
NEWER = ("25.12-py3", "26.03-py3", "26.04-py3")
published = account(cheap=True, alone="the contents of AWS's registries and lists")


@account(cheap=True, creates="a bucket")
def test_a_taken_key_and_a_wrong_checksum_are_refused(aws: Account, ask: Asked) -> None:
    s3, where = aws.client("s3"), {"Bucket": aws.bucket, "Key": "writes/object"}
    s3.put_object(**where, Body=b"first")
    second = base64.b64encode(hashlib.sha256(b"second").digest()).decode()

    def upload(where: dict[str, str], body: bytes, **conditions: str) -> None:
        began = s3.create_multipart_upload(**where, ChecksumAlgorithm="SHA256")
        to, part = {**where, "UploadId": began["UploadId"]}, {"PartNumber": 1, "ChecksumSHA256": second}
        part["ETag"] = s3.upload_part(**to, Body=body, **part)["ETag"]
        s3.complete_multipart_upload(**to, MultipartUpload={"Parts": [part]}, **conditions)

    completed = ask(
        lambda: refusal(lambda: upload(where, b"second", IfNoneMatch="*")), "complete a taken key"
    )
    assert completed in TAKEN
    again = {**where, "Body": b"second", "IfNoneMatch": "*"}
    assert ask(lambda: refusal(lambda: s3.put_object(**again)), "put") in TAKEN
    assert s3.get_object(**where)["Body"].read() == b"first"
    part, single = ({**where, "Key": f"writes/{each}"} for each in ("part", "single"))
    assert ask(lambda: refusal(lambda: upload(part, b"content")), "a part's sum") in WRONG_SUM
    wrong = {**single, "Body": b"content", "ChecksumSHA256": second}
    assert ask(lambda: refusal(lambda: s3.put_object(**wrong)), "an object's sum") in WRONG_SUM


@account(cheap=True, minutes=2, creates="a bucket, a role")
def test_head_bucket_names_the_region_to_a_role_that_lists_one_prefix(aws: Account, ask: Asked) -> None:
    bucket = aws.bucket
    s3 = aws.as_role("s3", "narrow", lists(f"arn:{aws.partition}:s3:::{bucket}", "models/*"))

    def listed() -> bool | None:
        try:
            s3.list_objects_v2(Bucket=bucket, Prefix="models/", MaxKeys=1)
        except ClientError as error:
            if error.response["Error"]["Code"] != "AccessDenied":
                raise
            return None
        return True

    aws.until(listed, minutes=3, what="the role's permission")

    def region() -> bool:
        try:
            answer: Any = s3.head_bucket(Bucket=bucket)
        except ClientError as error:
            answer = error.response
        headers: Any = answer["ResponseMetadata"]["HTTPHeaders"]
        return bool(headers.get("x-amz-bucket-region") == aws.region)

    assert ask(region, "names the region")


@account(cheap=True, creates="an alarm, if it is accepted")
def test_an_alarm_with_a_topic_of_another_region_is_refused(aws: Account, ask: Asked) -> None:
    region = next(each for each in REGIONS[aws.partition] if each != aws.region)
    topic = aws.arn("sns", aws.name("topic"), region)  # which need not exist
    assert ask(lambda: refusal(lambda: aws.alarm("topic", AlarmActions=[topic])))


@account(cheap=True, minutes=2, creates="a role, a state machine")
def test_a_state_machine_that_waits_for_builds_needs_one_rule(aws: Account, ask: Asked) -> None:
    build = {
        "Type": "Task",
        "Resource": f"arn:{aws.partition}:states:::codebuild:startBuild.sync",
        "Parameters": {"ProjectName": aws.name("waits")},
        "End": True,
    }
    role = aws.new_role(
        "states",
        {"Service": "states.amazonaws.com"},
        allow(["events:PutRule", "events:PutTargets", "events:DescribeRule"], aws.arn("events", RULE)),
        allow(["codebuild:StartBuild", "codebuild:StopBuild", "codebuild:BatchGetBuilds"]),
    )
    definition = json.dumps({"StartAt": "Build", "States": {"Build": build}})
    asked = {"name": aws.name("waits"), "definition": definition, "roleArn": role}
    states = aws.client("stepfunctions")

    # Step Functions sees a new role first, and its policy later.
    def create() -> None:
        aws.with_new_role(lambda: states.create_state_machine(**asked, tags=aws.lower_tags))

    assert ask(lambda: refusal(lambda: aws.with_new_role(create, "managed-rule"))) == ""


@published
def test_the_images_of_releases_are_in_their_regions(aws: Account, ask: Asked) -> None:
    def tags_in(region: str, *tags: str) -> list[str] | None:
        """Return those of the tags that a region's registry has; None if it does not answer this account."""
        asked = {
            "registryId": IMAGE_ACCOUNTS[region],
            "repositoryName": IMAGE_REPOSITORY,
            "imageIds": [{"imageTag": each} for each in tags],
        }
        try:
            found = aws.client("ecr", region).batch_get_image(**asked)
        except ClientError as error:
            if "RepositoryNotFound" in str(error):
                return []
            if region == aws.region and "resource-based policy" not in str(error):
                raise
            return None
        except BotoCoreError:  # a region that is not enabled
            return None
        return sorted({each["imageId"]["imageTag"] for each in found.get("images") or ()})

    tags = sorted(f"{aws.release.image_tag}{suffix}" for suffix in ("", "-cpu"))
    found = ask(lambda: {each: tags_in(each, *tags) for each in aws.release.regions}, "by region")
    assert found[aws.region] == tags
    assert [region for region, each in found.items() if each not in (None, tags)] == []
    assert ask(lambda: tags_in(aws.region, *NEWER), "newer releases") == list(NEWER)


@published
def test_quotas_have_the_names_and_codes_of_the_table(aws: Account, ask: Asked) -> None:
    client = aws.client("service-quotas")
    machines = ("on-demand", "processing-job")
    wanted = [need for each in machines for need in needs(aws.instance, region=aws.region, machine=each)]

    def names() -> list[list[str]]:
        found = quotas.read(wanted, client)  # by name where the table has no code
        return [[each.need.name, name_of(each)] for each in found if each.need.code]

    def name_of(quota: quotas.Quota) -> str:
        asked = {"ServiceCode": quota.need.service, "QuotaCode": quota.code}
        return str(client.get_aws_default_service_quota(**asked)["Quota"]["QuotaName"])

    assert [pair for pair in ask(names) if pair[0] != pair[1]] == []


@published
def test_the_price_list_says_what_the_table_says(aws: Account, ask: Asked) -> None:
    price = PRICES[aws.instance.name]
    fields = {"regionCode": price.region, "instanceName": aws.instance.name, "component": "Hosting"}
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in fields.items()]

    def listed() -> list[float]:
        client = aws.client("pricing", "us-east-1")  # which has the prices of all regions
        answer = client.get_products(ServiceCode="AmazonSageMaker", Filters=filters)
        rows = [json.loads(row).get("terms", {}).get("OnDemand", {}) for row in answer["PriceList"]]
        rates = [rate for row in rows for term in row.values() for rate in term["priceDimensions"].values()]
        return sorted({float(each["pricePerUnit"].get("USD", 0)) for each in rates} - {0.0})

    assert any(abs(each - price.usd_per_hour) < 0.01 for each in ask(listed))
