"""Probes of service quotas and list prices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from triton_models.base.errors import FleetError
from triton_models.facts import quotas as service_quotas
from triton_models.facts.prices import PRICES
from triton_models.facts.quota_needs import needs
from triton_models.facts.quotas import Quota
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import decide, undecided

_PRICES_IN = "us-east-1"  # the price list API's region, for prices of all regions
_NEAR = 0.01


def _quotas(work: Work) -> Steps:
    """Look up every quota that `fleet check-quotas` reads, by its name and, if known, by its code."""
    yield
    belief = "quota-names"
    wanted = [
        need
        for machine in ("on-demand", "processing-job")
        for need in needs(work.place.instance, region=work.place.region, machine=machine)
    ]
    try:
        found = service_quotas.read(wanted, work.clients("service-quotas"))
    except FleetError as error:
        return [decide(belief, "; ".join(each.what for each in error.problems), holds=False)]
    renamed = [each for each in found if each.need.code and _name(work, each) != each.need.name]
    if renamed:
        codes = ", ".join(f"{each.code} is {_name(work, each)!r}" for each in renamed)
        return [decide(belief, f"another quota has the code: {codes}", holds=False)]
    seen = "; ".join(f"{each.need.name} {each.code}: {each.value:g}" for each in found)
    return [decide(belief, seen, holds=True)]


def _name(work: Work, quota: Quota) -> str:
    """Return the name of a quota code; empty if Service Quotas has no such code."""
    client = work.clients("service-quotas")
    asked = {"ServiceCode": quota.need.service, "QuotaCode": quota.code}
    try:
        return str(client.get_aws_default_service_quota(**asked)["Quota"]["QuotaName"])
    except client.exceptions.NoSuchResourceException:
        return ""


def _prices(work: Work) -> Steps:
    """Compare the price table with the price list for the endpoint's instance type in us-east-1."""
    yield
    belief, name = "prices", work.place.instance.name
    price = PRICES.get(name)
    if price is None or price.region is None:
        return [undecided(belief, f"prices.py has no price for {name}")]
    answer = work.clients("pricing", _PRICES_IN).get_products(
        ServiceCode="AmazonSageMaker",
        Filters=[
            {"Type": "TERM_MATCH", "Field": "regionCode", "Value": price.region},
            {"Type": "TERM_MATCH", "Field": "instanceName", "Value": name},
            {"Type": "TERM_MATCH", "Field": "component", "Value": "Hosting"},
        ],
    )
    listed = sorted({usd for row in answer["PriceList"] for usd in _hourly(json.loads(row))} - {0.0})
    if not listed:
        return [undecided(belief, f"the price list has no hosting price for {name} in {price.region}")]
    seen = (
        f"{name} in {price.region}: the list says {listed[0]:g} USD an hour, the table {price.usd_per_hour:g}"
    )
    return [decide(belief, seen, holds=any(abs(each - price.usd_per_hour) < _NEAR for each in listed))]


def _hourly(product: Mapping[str, Any]) -> list[float]:
    return [
        float(dimension["pricePerUnit"]["USD"])
        for term in product.get("terms", {}).get("OnDemand", {}).values()
        for dimension in term["priceDimensions"].values()
        if "USD" in dimension["pricePerUnit"]
    ]


PROBES = (
    AccountProbe(
        id="quotas",
        what="looks up the quotas that `fleet check-quotas` reads",
        decides=("quota-names",),
        run=_quotas,
        allowed=(
            "servicequotas:GetServiceQuota",
            "servicequotas:GetAWSDefaultServiceQuota",
            "servicequotas:ListAWSDefaultServiceQuotas",
        ),
        cheap=True,
    ),
    AccountProbe(
        id="prices",
        what="compares the price table with AWS's price list",
        decides=("prices",),
        run=_prices,
        allowed=("pricing:GetProducts",),
        cheap=True,
    ),
)
