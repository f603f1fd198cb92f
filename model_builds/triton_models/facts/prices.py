"""Hourly prices of instances: SageMaker real-time hosting on demand, in US dollars.

Every price has a date. Those of the AWS price list were read from its public files, which need no account:
https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws/AmazonSageMaker/current/us-east-1/index.json,
usage types USE1-Host:ml.*. The others were published by third parties and not compared with that list. Other
regions cost more, and savings plans less: you can pass your own price wherever a price is used.
"""

from __future__ import annotations

from collections.abc import Mapping
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
