"""AWS's price list, as GetProducts shows it: what an hour of an instance behind an endpoint costs.

moto has no such service. The prices are those of the price table, so that they can be compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from triton_models.facts.prices import PRICES
from triton_rehearsal.assumptions import holds

_TARGET = "AWSPriceListService."
_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def before(application: _Application) -> _Application:
    """An application that answers for the price list itself and leaves everything else to another one."""

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not environ.get("HTTP_X_AMZ_TARGET", "").startswith(_TARGET):
            return application(environ, start_response)
        asked = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        wanted = {each["Field"]: each["Value"] for each in asked.get("Filters", ())}
        body = json.dumps({"FormatVersion": "aws_v1", "PriceList": _listed(wanted)}).encode()
        headers = [("Content-Type", "application/x-amz-json-1.1"), ("Content-Length", str(len(body)))]
        start_response("200 OK", headers)
        return [body]

    return serve


def _listed(wanted: dict[str, str]) -> list[str]:
    price = PRICES.get(wanted.get("instanceName", ""))
    if price is None or price.region != wanted.get("regionCode"):
        return []
    usd = price.usd_per_hour if holds("prices") else 2 * price.usd_per_hour
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": f"{usd:.10f}"}}
    terms = {"OnDemand": {"term": {"priceDimensions": {"dimension": dimension}}}}
    return [json.dumps({"product": {"attributes": wanted}, "terms": terms})]
