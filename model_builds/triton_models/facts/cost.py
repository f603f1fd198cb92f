"""The cost of a fleet, as an explicit calculation from instances, hours and a price.

Blog post 004 of AWS says that two ensembles on one ml.g4dn.4xlarge cost half as much as on separate endpoints
and save "over $13,000" a year: the endpoint that is not needed costs 1.505 USD x 8,760 h = 13,184 USD.
With n models on one endpoint of the same size, the saving is (n - 1) / n. GPU memory and traffic limit n, not
money.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from triton_models.facts.prices import Price

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
