"""Lists whose order and pages moto alone does not have."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from embedded_aws import EmbeddedAws


def builds(aws: EmbeddedAws, count: int) -> tuple[Any, list[str]]:
    """Start builds; return a client of CodeBuild and their ids."""
    codebuild = aws.client("codebuild")
    codebuild.create_project(
        name="builds",
        source={"type": "S3", "location": "bucket/source.zip", "buildspec": "version: 0.2"},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={"type": "LINUX_CONTAINER", "image": "i", "computeType": "BUILD_GENERAL1_SMALL"},
        serviceRole="arn:aws:iam::123456789012:role/any",
    )
    return codebuild, [codebuild.start_build(projectName="builds")["build"]["id"] for _ in range(count)]


def test_builds_are_listed_with_the_newest_first_unless_asked_otherwise(aws: EmbeddedAws) -> None:
    codebuild, started = builds(aws, 3)

    usual = codebuild.list_builds_for_project(projectName="builds")["ids"]
    ascending = codebuild.list_builds_for_project(projectName="builds", sortOrder="ASCENDING")["ids"]

    assert usual == started[::-1]
    assert ascending == started
    assert codebuild.list_builds(sortOrder="ASCENDING")["ids"] == started


def test_more_than_a_hundred_builds_have_pages(aws: EmbeddedAws) -> None:
    codebuild, started = builds(aws, 101)

    pages = [
        page["ids"]
        for page in codebuild.get_paginator("list_builds_for_project").paginate(projectName="builds")
    ]

    assert [len(page) for page in pages] == [100, 1]
    assert [build for page in pages for build in page] == started[::-1]


def test_the_quotas_of_an_account_have_pages(aws: EmbeddedAws) -> None:
    quotas = aws.client("service-quotas")

    pages = list(quotas.get_paginator("list_service_quotas").paginate(ServiceCode="sagemaker"))
    listed = [quota for page in pages for quota in page["Quotas"]]
    endpoint = next(q for q in listed if q["QuotaName"] == "ml.g5.xlarge for endpoint usage")
    got = quotas.get_service_quota(ServiceCode="sagemaker", QuotaCode=endpoint["QuotaCode"])["Quota"]

    assert len(pages) > 1
    assert len({quota["QuotaCode"] for quota in listed}) == len(listed)
    assert got == endpoint
    assert (endpoint["Adjustable"], endpoint["ServiceName"]) == (True, "Amazon SageMaker")


def test_a_token_of_no_page_is_refused(aws: EmbeddedAws) -> None:
    with pytest.raises(ClientError, match="InvalidPaginationTokenException"):
        aws.client("service-quotas").list_service_quotas(ServiceCode="sagemaker", NextToken="elsewhere")
