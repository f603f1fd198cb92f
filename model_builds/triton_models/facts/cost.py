"""Hourly prices of instances, and the cost of a fleet as a calculation from instances, hours and a price.

The prices are those of SageMaker real-time hosting on demand, in US dollars, each with a date. Those of the
AWS price list were read from its public files, which need no account:
https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonSageMaker/current/us-east-1/index.json,
usage types USE1-Host:ml.*. The others were published by third parties and not compared with that list. Other
regions cost more, and savings plans less: you can pass your own price wherever a price is used.

Blog post 004 of AWS says that two ensembles on one ml.g4dn.4xlarge cost half as much as on separate endpoints
and save "over $13,000" a year: the endpoint that is not needed costs 1.505 USD x 8,760 h = 13,184 USD.
With n models on one endpoint of the same size, the saving is (n - 1) / n. GPU memory and traffic limit n, not
money.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_PRICE_LIST = "AWS price list"
_PUBLISHED = "published by a third party"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The hourly price of an instance type on demand, with its publisher, and region and date if stated."""

    usd_per_hour: float
    source: str
    region: str | None = None
    dated: str | None = None


_Row = tuple[str, str, str, Mapping[str, float]]  # region, source, date, USD per hour by instance type

_ROWS: tuple[_Row, ...] = (
    ("us-east-1", _PRICE_LIST, "2026-08-17", {"ml.g5.xlarge": 1.408, "ml.g5.2xlarge": 1.515}),
    ("us-east-1", _PRICE_LIST, "2026-07-30", {"ml.g6.xlarge": 1.1267, "ml.g6.12xlarge": 5.752}),
    ("us-east-1", _PRICE_LIST, "2026-09-20", {"ml.g6e.2xlarge": 2.8026}),
    (
        "us-east-1",
        _PUBLISHED,
        "2024",
        {
            "ml.g4dn.xlarge": 0.7364,
            "ml.g4dn.2xlarge": 0.94,
            "ml.g4dn.4xlarge": 1.505,
            "ml.g4dn.8xlarge": 2.72,
            "ml.g4dn.12xlarge": 4.89,
            "ml.p3.2xlarge": 3.825,
            "ml.p3.8xlarge": 14.688,
            "ml.p3.16xlarge": 28.152,
        },
    ),
    ("us-east-1", _PUBLISHED, "2025", {"ml.m5.xlarge": 0.269}),
    (
        "us-east-1",
        _PUBLISHED,
        "2026",
        {"ml.g6e.xlarge": 2.61, "ml.g6e.4xlarge": 3.76, "ml.g6e.8xlarge": 5.6607, "ml.g6e.12xlarge": 13.12},
    ),
    (
        "us-west-2",
        _PUBLISHED,
        "2026",
        {
            "ml.g5.4xlarge": 2.03,
            "ml.g5.8xlarge": 3.06,
            "ml.g5.12xlarge": 7.09,
            "ml.g5.16xlarge": 5.12,
            "ml.g5.24xlarge": 10.18,
            "ml.g5.48xlarge": 20.36,
            "ml.g6.2xlarge": 1.222,
            "ml.g6.4xlarge": 1.654,
            "ml.g6.8xlarge": 2.518,
            "ml.g6.24xlarge": 8.344,
            "ml.g6.48xlarge": 16.688,
            "ml.g6e.24xlarge": 18.832,
            "ml.g6e.48xlarge": 37.664,
            "ml.p4d.24xlarge": 25.251,
            "ml.p5.48xlarge": 63.296,
        },
    ),
)

PRICES: Mapping[str, Price] = {
    name: Price(usd_per_hour=usd, region=region, source=source, dated=dated)
    for region, source, dated, row in _ROWS
    for name, usd in row.items()
}
"""The known prices, by instance type."""


_CURRENCY = " USD"
_WHOLE_FROM = 10

HOURS_PER_MONTH = 730
"""A twelfth of a year, as in AWS's calculator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The monthly cost of an endpoint's instances, without storage, requests, logs and builds.

    Attributes:
        region: The region of the endpoint; None if it is known only at deployment.
    """

    instance_type: str
    price: Price
    min_instances: int
    max_instances: int
    models: int
    region: str | None = None

    @property
    def other_region(self) -> str:
        """The region of the endpoint if the price is that of another one; otherwise empty."""
        return self.region if self.region and self.price.region not in (None, self.region) else ""

    @property
    def instance(self) -> float:
        """USD per month for one instance."""
        return self.price.usd_per_hour * HOURS_PER_MONTH

    @property
    def floor(self) -> float:
        """USD per month at the minimum capacity: the cost without any requests."""
        return self.instance * self.min_instances

    @property
    def ceiling(self) -> float:
        """USD per month at the maximum capacity all the time: the upper limit."""
        return self.instance * self.max_instances

    @property
    def per_model(self) -> float | None:
        """USD per month and model at the minimum capacity; None without models."""
        return self.floor / self.models if self.models else None

    @property
    def apart(self) -> float:
        """USD per month if each model had a separate endpoint with the same minimum capacity."""
        return self.floor * self.models

    @property
    def saving(self) -> float | None:
        """The share of the cost of separate endpoints that is saved, from 0 to 1; None without models."""
        return 1 - self.floor / self.apart if self.apart else None

    def lines(self) -> Iterator[str]:
        """Return the estimate as sentences, with its inputs."""
        price = self.price
        instances, amount = str(self.min_instances), dollars(self.ceiling)
        if self.min_instances != self.max_instances:
            instances = f"{instances} to {self.max_instances}"
            amount = f"{dollars(self.floor).removesuffix(_CURRENCY)} to {amount}"
        hours = f"{price.usd_per_hour:g} USD/h x {HOURS_PER_MONTH} h"
        yield f"{amount} per month: {instances} x {self.instance_type} x {hours}"
        if self.models > 1 and self.per_model is not None and self.saving is not None:
            yield (
                f"{dollars(self.per_model)} per month for each of {counted(self.models)}, at the "
                f"minimum capacity; on separate endpoints {dollars(self.apart)}, so sharing saves "
                f"{self.saving:.0%}"
            )
        origin = ", ".join(each for each in (price.region, price.source, price.dated) if each)
        if self.other_region:
            origin += f"; {self.other_region} may differ: set hourly_price_usd"
        yield f"Price: {origin}. Storage, requests, logs and builds cost extra"


def dollars(amount: float) -> str:
    """Return a readable amount, without cents if it is ten dollars or more."""
    digits = 0 if abs(amount) >= _WHOLE_FROM else 2
    return f"{amount:,.{digits}f}{_CURRENCY}"


def counted(models: int) -> str:
    """Return a number of models in words."""
    return "1 model" if models == 1 else f"{models:,} models"
