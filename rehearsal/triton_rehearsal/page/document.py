"""All that a page shows, as one JSON document."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from triton_rehearsal.hosting.metrics import Started
from triton_rehearsal.hosting.model_figures import percentile
from triton_rehearsal.hosting.service import Hosting
from triton_rehearsal.page import alarms, timeline, widgets

if TYPE_CHECKING:
    from embedded_aws import EmbeddedAws

_DURATION = re.compile(
    r"-P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?)?"
)
_DEFAULT = timedelta(hours=3)


def in_json(document: Mapping[str, Any]) -> str:
    """Return a document as JSON, with null for infinity and NaN, which JSON does not have."""
    try:
        return json.dumps(document, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(document), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read(aws: EmbeddedAws, hosting: Hosting | None) -> dict[str, Any]:
    """Return the document.

    Args:
        aws: The embedded AWS with the deployed stacks.
        hosting: The hosting of its endpoints; None before they are served.
    """
    now, speed = aws.clock.now(), aws.clock.speed
    return {
        "now": now.timestamp(),
        "speed": None if math.isinf(speed) else speed,
        "endpoints": list(_endpoints(aws)),
        "instances": list(_instances(hosting)) if hosting else [],
        "models": list(_models(hosting)) if hosting else [],
        "counts_as": aws.clock.requests,
        "dashboards": list(_dashboards(aws, now)),
        "alarms": list(alarms.read(aws.client("cloudwatch"))),
        "timeline": timeline.read(aws, hosting),
    }


def _endpoints(aws: EmbeddedAws) -> Iterator[dict[str, Any]]:
    sagemaker = aws.client("sagemaker")
    for row in sagemaker.list_endpoints()["Endpoints"]:
        described = sagemaker.describe_endpoint(EndpointName=row["EndpointName"])
        yield {
            "name": described["EndpointName"],
            "status": described["EndpointStatus"],
            "variants": [
                {
                    "name": variant["VariantName"],
                    "instances": variant.get("CurrentInstanceCount"),
                    "wanted": variant.get("DesiredInstanceCount"),
                }
                for variant in described.get("ProductionVariants", ())
            ],
        }


def _instances(hosting: Hosting) -> Iterator[dict[str, Any]]:
    started = {
        moment.instance: moment.at for moment in list(hosting.timeline) if isinstance(moment.event, Started)
    }
    for fleet, instance in hosting.running():
        yield {
            "id": instance.id,
            "endpoint": fleet.endpoint,
            "variant": fleet.variant,
            "started": started.get(instance.id),
            "models": instance.loaded[::-1],
        }


def _models(hosting: Hosting) -> Iterator[dict[str, Any]]:
    """Yield the figures of each model, those with the most failed requests first."""
    memory: Counter[str] = Counter()
    for _, instance in hosting.running():
        memory |= Counter(instance.gpu_memory())
    rows = sorted(dict(hosting.figures).items(), key=lambda row: (-row[1].failed, -row[1].requests, row[0]))
    for (endpoint, target), figures in rows:
        seconds = list(figures.seconds)
        yield {
            "endpoint": endpoint,
            "target": target,
            "requests": figures.requests,
            "failed": figures.failed,
            "error": figures.error,
            "p50_ms": 1000 * percentile(seconds, 50) if seconds else None,
            "p99_ms": 1000 * percentile(seconds, 99) if seconds else None,
            "cold_percent": figures.cold_percent,
            "loads": figures.loads,
            "unloads": figures.unloads,
            "longest_load_ms": 1000 * figures.longest_load_s if figures.loads else None,
            "gpu_mib": memory[target] / (1 << 20) if target in memory else None,
        }


def _dashboards(aws: EmbeddedAws, now: datetime) -> Iterator[dict[str, Any]]:
    cloudwatch = aws.client("cloudwatch")
    for entry in cloudwatch.list_dashboards()["DashboardEntries"]:
        name = entry["DashboardName"]
        body = json.loads(cloudwatch.get_dashboard(DashboardName=name)["DashboardBody"])
        shown, drawn, queries = widgets.Range(start=now - _DEFAULT, end=now), [], 0
        try:
            shown = _range(body, now)
            given = [widget for widget in body.get("widgets", ()) if not widgets.is_query(widget)]
            drawn = [widgets.read(cloudwatch, widget, shown) for widget in given]
            queries = len(body.get("widgets", ())) - len(given)
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            drawn = [widgets.failed(f"The dashboard's body is wrong: {error}.")]
        yield {
            "name": name,
            "start": shown.start.timestamp(),
            "end": shown.end.timestamp(),
            "queries": queries,
            "widgets": sorted(drawn, key=lambda widget: (widget["y"], widget["x"])),
        }


def _range(body: Mapping[str, Any], now: datetime) -> widgets.Range:
    start, end = str(body.get("start", "")), body.get("end")
    if relative := _DURATION.fullmatch(start):
        length = timedelta(**{unit: int(count or 0) for unit, count in relative.groupdict().items()})
        return widgets.Range(start=now - (length or _DEFAULT), end=now)
    if not start:
        return widgets.Range(start=now - _DEFAULT, end=now)
    return widgets.Range(start=widgets.moment(start), end=widgets.moment(end) if end else now)
