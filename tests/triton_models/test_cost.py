"""The cost of a fleet: the arithmetic, and the table of prices."""

from __future__ import annotations

import re

from triton_models.facts.cost import PRICES, Estimate
from triton_models.facts.instances import INSTANCE_TYPES

OF_THE_POST = PRICES["ml.g4dn.4xlarge"]


def estimate(*, least: int = 1, models: int = 2) -> Estimate:
    return Estimate(
        instance_type="ml.g4dn.4xlarge",
        price=OF_THE_POST,
        min_instances=least,
        max_instances=4,
        models=models,
    )


def test_every_price_is_of_an_instance_type_that_can_host_and_says_where_and_when() -> None:
    assert set(PRICES) <= set(INSTANCE_TYPES)
    for price in PRICES.values():
        assert re.fullmatch(r"[a-z]{2}-[a-z]+-\d", price.region or "")
        assert re.fullmatch(r"20\d\d(-\d\d-\d\d)?", price.dated or "")


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
