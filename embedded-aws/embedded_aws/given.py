"""What the user of the embedded AWS supplies: images in other accounts' registries, and AWS's price list.

moto has neither. The price list is what GetProducts shows: the hourly price of an instance behind an
endpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, Protocol


class Images(Protocol):
    """Facts about images, given by the user of the embedded AWS."""

    def published(self, repository: str, tag: str, region: str) -> bool:
        """Return True if another account's registry in a region has an image."""


class _Given:
    images: Images | None = None


def connect(images: Images | None) -> None:
    _Given.images = images


def published(repository: str, tag: str, region: str) -> bool:
    """Return True if another account's registry in a region has an image."""
    return _Given.images is None or _Given.images.published(repository, tag, region)


Prices = Callable[[str, str], float | None]
"""Returns US dollars per hour of an instance type in a region, or None if it has no price there."""

_TARGET = "AWSPriceListService.GetProducts"
_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def before(application: _Application, prices: Prices) -> _Application:
    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("HTTP_X_AMZ_TARGET") != _TARGET:
            return application(environ, start_response)
        request = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
        wanted = {each["Field"]: each["Value"] for each in request.get("Filters", ())}
        body = json.dumps({"FormatVersion": "aws_v1", "PriceList": _listed(wanted, prices)}).encode()
        headers = [("Content-Type", "application/x-amz-json-1.1"), ("Content-Length", str(len(body)))]
        start_response("200 OK", headers)
        return [body]

    return serve


def _listed(wanted: dict[str, str], prices: Prices) -> list[str]:
    usd = prices(wanted.get("instanceName", ""), wanted.get("regionCode", ""))
    if usd is None:
        return []
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": f"{usd:.10f}"}}
    terms = {"OnDemand": {"term": {"priceDimensions": {"dimension": dimension}}}}
    return [json.dumps({"product": {"attributes": wanted}, "terms": terms})]
