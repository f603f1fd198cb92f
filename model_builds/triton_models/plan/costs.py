"""`fleet costs`: what the instances of an endpoint cost, divided among its models or their tenants."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from triton_models.artifact.profile import LIKELY
from triton_models.base import options as opt
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.tables import Column, numbers, table
from triton_models.load.account import deployed
from triton_models.repository.alias import endpoint_of
from triton_models.repository.manifest import Manifest, some_of
from triton_models.repository.objects import opened
from triton_models.repository.stored_manifest import read_manifest
from triton_models.signals.counts import Artifact, Counts, added
from triton_models.signals.stored import Signals, read

COSTS = Check(id="costs", source=FROM_ARGUMENTS)

_HOUR_S = 3600.0
_IDLE = "(idle)"
_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a model or a tenant, in USD, and the seconds by which the bill was divided."""

    name: str
    requests: int
    seconds: float
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The result of `fleet costs`: the rows add up to the bill.

    Attributes:
        idle: What no request took.
        source: Where the bill is from.
        measure: What the seconds of the rows are.
    """

    endpoint: str
    signals: Signals
    bill: float
    source: str
    measure: str
    rows: tuple[Cost, ...]
    idle: float
    exit_code: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready data."""
        return {
            "endpoint": self.endpoint,
            "since": self.signals.since,
            "seconds": self.signals.seconds,
            "usd": self.bill,
            "source": self.source,
            "idle_usd": self.idle,
            "measure": self.measure,
            "costs": [asdict(each) for each in self.rows],
            "doubts": list(self.signals.doubts()),
        }

    def lines(self) -> Iterator[str]:
        """Yield the bill, and the share of each."""
        since = datetime.fromtimestamp(self.signals.since, timezone.utc)
        hours = self.signals.seconds / _HOUR_S
        yield f"{self.endpoint}, {hours:,.1f} h from {since:%Y-%m-%d}: {self.bill:,.2f} USD, {self.source}."
        yield f"Divided by {self.measure}."
        yield ""
        rows = [*self.rows[:_SHOWN], Cost(name=_IDLE, requests=0, seconds=0, usd=self.idle)]
        cells = {
            "requests": lambda each: f"{each.requests:,}",
            "seconds": lambda each: f"{each.seconds:,.0f}",
            "USD": lambda each: f"{each.usd:,.2f}",
            "share": lambda each: f"{each.usd / (self.bill or 1):.1%}",
        }
        yield from table([Column(title="", cells=[each.name for each in rows]), *numbers(rows, cells)])
        if len(self.rows) > _SHOWN:
            yield f"{len(self.rows) - _SHOWN:,} more: --json for all."
        yield from self.signals.doubts()


def divided(
    counts: Mapping[str, Counts], *, bill: float, capacity_s: float
) -> tuple[tuple[Cost, ...], float]:
    """Return what each costs, the dearest first, and the rest.

    Args:
        counts: The requests of each.
        bill: What the instances cost.
        capacity_s: The seconds of all their GPUs. If the requests took longer, because they waited for each
            other, nothing is idle.
    """
    together = max(capacity_s, sum(each.seconds for each in counts.values())) or 1.0
    rows = [
        Cost(name=name, requests=each.requests, seconds=each.seconds, usd=bill * each.seconds / together)
        for name, each in counts.items()
    ]
    rows.sort(key=lambda each: (-each.usd, each.name))
    return tuple(rows), max(0.0, bill - sum(each.usd for each in rows))


def in_gpu_seconds(
    counts: Mapping[Artifact, Counts], manifest: Manifest
) -> tuple[Mapping[Artifact, Counts], str]:
    """Return counts whose seconds are those for which they kept a GPU busy, by profiles; and their sources.

    Raises:
        FleetError: The manifest has no profile of an artifact that has answered.
    """
    found, unknown, sources = {}, [], Counter[str]()
    for (model, artifact), each in counts.items():
        record, answered = manifest.record(model=model, artifact=artifact), each.requests - each.failed
        busy = record.profile.busy_s if record is not None and record.profile is not None else None
        if busy is None and answered:
            unknown.append(artifact)
        elif busy is not None:
            sources[busy.source] += 1
        found[model, artifact] = replace(each, seconds=answered * busy.values[LIKELY] if busy else 0.0)
    if unknown:
        raise COSTS.error(
            what=f"there is no profile of {some_of(sorted(unknown))}",
            where=manifest.where,
            fix="measure them with `fleet census`, or leave --gpu-seconds out",
        )
    listed = ", ".join(f"{source} ({number:,})" for source, number in sources.most_common())
    return found, f"the seconds for which a request keeps a GPU busy: {listed}"


@dataclass(frozen=True, kw_only=True)
class CostsOptions(opt.RepositoryOptions):
    """Options of `fleet costs`."""

    signals: opt.Url = opt.option("where clients write, such as s3://bucket/signals/", required=True)
    alias: opt.Name | None = opt.option(opt.ALIAS, within=opt.ONE)
    endpoint: opt.Name | None = opt.option(opt.ENDPOINT, within=opt.ONE)
    month: datetime | None = opt.option("a month (default: this one)", type=opt.month, metavar="YYYY-MM")
    bill: opt.Usd | None = opt.option("what the instances cost then")
    tenants: opt.File | None = opt.option("a CSV file with the columns model and tenant: sum these")
    gpu_seconds: bool = opt.flag(
        "divide by the seconds for which a request keeps a GPU busy, by the profiles in the repository"
    )


def run(options: CostsOptions) -> Costs:
    """Run `fleet costs --signals URL (--alias NAME | --endpoint NAME)`."""
    now = datetime.now(timezone.utc)
    start = options.month or now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if start > now:
        fix = "name a month that has begun"
        raise COSTS.error(what=f"{start:%Y-%m} has not begun", where="--month", fix=fix)
    end = min(time.time(), _next_month(start).timestamp())
    endpoint = endpoint_of(alias=options.alias, endpoint=options.endpoint).endpoint
    with opened(options.signals) as store:
        signals = read(store, endpoint, since=start.timestamp(), until=end)
    instances = deployed(endpoint)
    usd_per_hour = [each.usd_per_hour(each.count) for each in instances.variants]
    bill, source = options.bill, "as given"
    if bill is None:
        if None in usd_per_hour:
            fix = "give what they cost with --bill USD"
            raise COSTS.error(what="the price of the instances is unknown", where=endpoint, fix=fix)
        bill = sum(each or 0.0 for each in usd_per_hour) * signals.seconds / _HOUR_S
        source = "the price of the instances that it has now"
    counts, measure = signals.counts, "the time of the requests, which includes that in queues and networks"
    if options.gpu_seconds:
        with opened(options.repository) as store:
            counts, measure = in_gpu_seconds(signals.counts, read_manifest(store.repository, s3=store.s3))
    tenants = {} if options.tenants is None else _tenants(options.tenants)
    by_tenant = added({tenants.get(model, model): each} for (model, _), each in counts.items())
    capacity_s = (instances.gpus or sum(each.count for each in instances.variants)) * signals.seconds
    rows, idle = divided(by_tenant, bill=bill, capacity_s=capacity_s)
    return Costs(
        endpoint=endpoint, signals=signals, bill=bill, source=source, measure=measure, rows=rows, idle=idle
    )


def _next_month(start: datetime) -> datetime:
    return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)


def _tenants(path: Path) -> Mapping[str, str]:
    """Read the tenant of each model; models without one stand for themselves."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if not {"model", "tenant"} <= set(rows.fieldnames or ()):
            raise COSTS.error(
                what=f"its columns are {', '.join(rows.fieldnames or ()) or 'missing'}",
                where=str(path),
                fix="give a CSV file with the columns model and tenant",
            )
        return {row["model"]: row["tenant"] for row in rows if row["tenant"]}
