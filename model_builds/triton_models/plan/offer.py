"""What an instance type offers to models: room and a price."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from triton_models.artifact.profile import Range
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.check.fits import Room, multi_model_types, room_of
from triton_models.facts.cost import PRICES, Price
from triton_models.facts.instances import InstanceType, instance_type

OFFER = Check(id="plan-types", source=FROM_ARGUMENTS)

STARTS_S = (720.0, 900.0)
"""Seconds until the first and the last instance that scaling adds serve, with an image of 2025 or later: as
in rehearsals."""

FIRST_LOAD_S = Range(values=(1.0, 2.0, 3.1), source="public notebooks of multi-model endpoints on GPUs")
"""The additional time of the first load of an instance."""

OVERHEAD_S = 0.0015
"""Seconds of a small request in the platform: 1.45 ms, and 6 ms per MB, in a public benchmark of 2020."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An instance type, with its price and its room for the models of a plan."""

    type: InstanceType
    price: Price
    room: Room


def offers(
    names: Sequence[str] | None,
    *,
    backends: Collection[str],
    usd_per_hour: float | None = None,
    region: str | None = None,
) -> Sequence[Offer]:
    """Return the instance types with GPUs that AWS documents for multi-model endpoints, or those of names.

    Args:
        names: The instance types.
        backends: The backends of the models: the first model of each brings its libraries.
        usd_per_hour: The price of the only type, instead of the known one.
        region: That of the prices; None for whichever is known.

    Raises:
        FleetError: A type is unknown, has no GPU, or no price is known.
    """
    prices = {name: each for name, each in PRICES.items() if region in (None, each.region)}
    if names is None:
        names = [each for each in multi_model_types() if each in prices]
    if not names:
        fix = "name a type and its price with --types TYPE --price USD, or plan with those of us-east-1"
        raise OFFER.error(what=f"no prices of {region} are known", where="--region", fix=fix)
    if usd_per_hour is not None and len(names) > 1:
        fix = "name one type"
        raise OFFER.error(what="one price for several types", where="--price", fix=fix)
    given = None if usd_per_hour is None else Price(usd_per_hour=usd_per_hour, source="given")
    return [_offer(name, given or prices.get(name), backends, region) for name in names]


def _offer(name: str, price: Price | None, backends: Collection[str], region: str | None) -> Offer:
    about = instance_type(name)
    room = room_of(about, backends=backends, where="--types")
    if price is None:
        fix = "give its price per hour with --price USD"
        what = f"no price of {name}{f' in {region}' if region else ''} is known"
        raise OFFER.error(what=what, where="--types", fix=fix)
    return Offer(type=about, price=price, room=room)
