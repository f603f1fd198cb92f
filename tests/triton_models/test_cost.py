"""The cost of a fleet: the arithmetic, and the table of prices."""

from __future__ import annotations

import re

import pytest

from triton_models.facts.cost import PRICES, Estimate, Price, dollars
from triton_models.facts.instances import INSTANCE_TYPES

OF_THE_POST = PRICES["ml.g4dn.4xlarge"]


def estimate(*, least: int = 1, most: int = 4, models: int = 2, price: Price = OF_THE_POST) -> Estimate:
    return Estimate(
        instance_type="ml.g4dn.4xlarge", price=price, min_instances=least, max_instances=most, models=models
    )


def test_every_price_is_of_an_instance_type_that_can_host_and_says_where_and_when() -> None:
    assert set(PRICES) <= set(INSTANCE_TYPES)
    for price in PRICES.values():
        assert re.fullmatch(r"[a-z]{2}-[a-z]+-\d", price.region or "")
        assert re.fullmatch(r"20\d\d(-\d\d-\d\d)?", price.dated or "")


def test_more_gpus_of_a_family_cost_more() -> None:
    known = [
        (name.split(".")[1], INSTANCE_TYPES[name].gpu_count, PRICES[name].usd_per_hour) for name in PRICES
    ]
    wrong = [
        (family, few, many)
        for family, few, low in known
        for other, many, high in known
        if family == other and few < many and low >= high
    ]
    assert wrong == []


def test_the_claim_of_the_post_is_half_and_more_than_13_000_dollars_a_year() -> None:
    two = estimate(models=2)
    assert two.saving == pytest.approx(0.5)
    assert (two.apart - two.floor) * 12 == pytest.approx(13_184, abs=1)


def test_without_models_nothing_is_said_of_them() -> None:
    made = estimate(models=0)
    assert (made.per_model, made.saving) == (None, None)
    assert not [line for line in made.lines() if "model" in line]


def test_a_fleet_that_scales_from_nothing_costs_nothing_without_requests() -> None:
    made = estimate(least=0, models=3)
    assert (made.floor, made.per_model, made.saving) == (0, 0, None)


def test_the_lines_show_the_arithmetic() -> None:
    assert list(estimate().lines()) == [
        "1,099 to 4,395 USD per month: 1 to 4 x ml.g4dn.4xlarge x 1.505 USD/h x 730 h",
        "549 USD per month for each of 2 models, at the minimum capacity; on separate endpoints 2,197 USD, "
        "so sharing saves 50%",
        "Price: us-east-1, published by a third party, 2024. Storage, requests, logs and builds cost extra",
    ]


@pytest.mark.parametrize(
    ("amount", "text"), [(0.2197, "0.22 USD"), (9.5, "9.50 USD"), (1234.4, "1,234 USD"), (-42.0, "-42 USD")]
)
def test_small_amounts_keep_their_cents(amount: float, text: str) -> None:
    assert dollars(amount) == text
