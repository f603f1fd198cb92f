"""Beliefs about what AWS publishes: images of releases, quotas and prices."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from conformance.account import Account
from conformance.beliefs import account
from conformance.records import Asked
from triton_models.facts import quotas
from triton_models.facts.prices import PRICES
from triton_models.facts.quota_needs import needs
from triton_models.facts.releases import IMAGE_ACCOUNTS, IMAGE_REPOSITORY

pytestmark = account(cheap=True, alone="the contents of AWS's registries and lists")

NEWER = ("25.12-py3", "26.03-py3", "26.04-py3")


def tags_in(aws: Account, region: str, *tags: str) -> list[str] | None:
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


def in_every_region(aws: Account, suffix: str = "") -> dict[str, list[str] | None]:
    return {each: tags_in(aws, each, f"{aws.release.image_tag}{suffix}") for each in aws.release.regions}


def test_a_registry_answers_any_account(aws: Account, ask: Asked) -> None:
    assert ask(lambda: tags_in(aws, aws.region, aws.release.image_tag)) is not None


def test_the_image_is_in_every_region(aws: Account, ask: Asked) -> None:
    assert [region for region, tags in ask(lambda: in_every_region(aws)).items() if tags == []] == []


def test_the_image_for_cpus_is_in_every_region(aws: Account, ask: Asked) -> None:
    assert [region for region, tags in ask(lambda: in_every_region(aws, "-cpu")).items() if tags == []] == []


def test_releases_after_those_in_the_sdk_are_published(aws: Account, ask: Asked) -> None:
    assert ask(lambda: tags_in(aws, aws.region, *NEWER)) == list(NEWER)


def test_quotas_have_the_names_and_codes_of_the_table(aws: Account, ask: Asked) -> None:
    client = aws.client("service-quotas")
    wanted = [
        need
        for machine in ("on-demand", "processing-job")
        for need in needs(aws.instance, region=aws.region, machine=machine)
    ]

    def names() -> list[list[str]]:
        found = quotas.read(wanted, client)  # by name where the table has no code
        return [[each.need.name, name_of(each)] for each in found if each.need.code]

    def name_of(quota: quotas.Quota) -> str:
        asked = {"ServiceCode": quota.need.service, "QuotaCode": quota.code}
        return str(client.get_aws_default_service_quota(**asked)["Quota"]["QuotaName"])

    assert [pair for pair in ask(names) if pair[0] != pair[1]] == []


def test_the_price_list_says_what_the_table_says(aws: Account, ask: Asked) -> None:
    price = PRICES[aws.instance.name]
    fields = {"regionCode": price.region, "instanceName": aws.instance.name, "component": "Hosting"}
    filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in fields.items()]

    def listed() -> list[float]:
        client = aws.client("pricing", "us-east-1")  # which has the prices of all regions
        answer = client.get_products(ServiceCode="AmazonSageMaker", Filters=filters)
        return sorted({usd for row in answer["PriceList"] for usd in hourly(json.loads(row))} - {0.0})

    assert any(abs(each - price.usd_per_hour) < 0.01 for each in ask(listed))


def hourly(product: Mapping[str, Any]) -> Iterator[float]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            if "USD" in dimension["pricePerUnit"]:
                yield float(dimension["pricePerUnit"]["USD"])
