"""`fleet plan`: read models and requests, and search for the cheapest fleet."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from triton_models.artifact.pbtxt import GPU_MEMORY
from triton_models.artifact.profile import Profile, Range
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import raise_if_any
from triton_models.base.outcome import progress
from triton_models.check.estimate import PROFILE, alike, of_folder
from triton_models.check.fits import unknown_memory
from triton_models.load.account import deployed
from triton_models.load.schedule import read
from triton_models.load.streams import read_scenario
from triton_models.plan.logs import read_logs
from triton_models.plan.offer import offers
from triton_models.plan.options import PlanOptions
from triton_models.plan.page import page
from triton_models.plan.planning import Fleet, Limits, Planner
from triton_models.plan.result import PlanResult, write
from triton_models.plan.traffic import REQUESTS, Recorded, Steady, Traffic, read_counts
from triton_models.repository.objects import opened
from triton_models.repository.stored_manifest import read as read_manifest

ARGUMENTS = Check(id="plan-arguments", source=FROM_ARGUMENTS)

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_ALIKE = re.compile(r"(\d[\d,]{0,11}) ?[x\u00d7] ?(\d{1,12}(?:\.\d{1,6})?) ?([KMG]i?B)", re.ASCII)
_MOST_MODELS = 20_000

# The length of random requests, unless one is given: as many as say enough, but an hour, and a day at most.
_ENOUGH = 2_000_000
_HOUR_S, _DAY_S = 3600.0, 86_400.0
_LONGEST_S = 31 * _DAY_S


def run(options: PlanOptions) -> PlanResult:
    """Run `fleet plan --models NxSIZE|DIR` with `--requests` or `--trace`."""
    if options.report is not None and not options.report.parent.is_dir():
        what, fix = f"there is no folder {options.report.parent}", "name a file in a folder that exists"
        raise ARGUMENTS.error(what=what, where="--report", fix=fix)
    models = _models(options)
    raise_if_any(unknown_memory(each) for each in models if each.memory.is_unknown)
    if options.busy is not None:
        given = Range.measured(options.busy, "given")
        models = [replace(each, busy_s=given) for each in models]
    traffic = _traffic(options, models)
    backends = frozenset().union(*(each.backends for each in models))
    region = options.region
    offered = offers(options.types, backends=backends, usd_per_hour=options.price, region=region)
    limits = Limits(waiting=options.waiting, p99_s=options.p99)
    progress("The first plan on a machine takes some seconds longer: the simulation is compiled.")
    today = None if options.compare is None else _today(options.compare, backends)
    plan = Planner(models, traffic, limits).plan(offered, pinned=_pinned(options, models), today=today)
    if options.report is not None:
        options.report.write_text(page(plan), encoding="utf-8")
    hot = plan.hot if _named(options) else ()
    written = options.write if plan.best is not None else None
    if plan.best is not None and written is not None:
        write(plan.best, hot, written)
    return PlanResult(plan=plan, hot=hot, written=written, page=options.report)


def _today(endpoint: str, backends: Collection[str]) -> Fleet:
    """Return the instances that an endpoint of the account has now."""
    variants = deployed(endpoint).variants
    if len(variants) > 1:
        what, fix = f"{endpoint} has {len(variants)} variants", "name an endpoint with one variant"
        raise ARGUMENTS.error(what=what, where="--compare", fix=fix)
    [variant] = variants
    [offer] = offers([variant.instance_type], backends=backends)
    return Fleet(offer=offer, least=variant.count, most=variant.count)


def _models(options: PlanOptions) -> Sequence[Profile]:
    if options.models is None and not options.repository:
        fix = "give --models 300x200MB, --models DIR, or --repository URL"
        raise PROFILE.error(what="the models are missing", where="the command line", fix=fix)
    if options.models is None:
        return _published(options.repository)
    found = _ALIKE.fullmatch(options.models)
    if found is None:
        return of_folder(Path(options.models))
    count, size = int(found[1].replace(",", "")), float(found[2]) * _UNITS[found[3]]
    if not (1 <= count <= _MOST_MODELS and size > 0):
        fix = f"give 1 to {_MOST_MODELS:,} models, such as 300x200MB"
        raise PROFILE.error(what=f"there are {count:,} models", where="--models", fix=fix)
    return alike(count, size=size, backend=options.backend)


def _named(options: PlanOptions) -> bool:
    """Return whether the models are those of a fleet, with their names."""
    return options.models is None or _ALIKE.fullmatch(options.models) is None


def _published(repository: str | None) -> Sequence[Profile]:
    """Return what the models of a repository need, by the last publication of each."""
    with opened(repository) as store:
        manifest = read_manifest(store).manifest
    models = {name: manifest.model(name) for name in manifest.names}
    last = {name: each.by_publication()[-1:] for name, each in models.items()}
    artifacts = {name: models[name].artifacts[each] for name, newest in last.items() for each in newest}
    unknown = [name for name, each in artifacts.items() if each.profile is None]
    if unknown or not artifacts:
        some = f"{unknown[0]} and {len(unknown) - 1:,} more" if len(unknown) > 1 else "".join(unknown)
        raise PROFILE.error(
            what=f"nothing is recorded about {some}" if unknown else "there are no models",
            where=store.url,
            fix=f"publish them again, with {GPU_MEMORY} in the configurations of unknown backends",
        )
    return [each.profile for each in artifacts.values() if each.profile is not None]


def _traffic(options: PlanOptions, models: Sequence[Profile]) -> Traffic:
    names = [each.name for each in models]
    if options.trace is not None:
        return Recorded(schedule=read(options.trace, names, longest_s=_LONGEST_S, named=_named(options)))
    if options.scenario is not None:
        return Recorded(schedule=read_scenario(options.scenario, names))
    if options.counts is not None:
        return Recorded(schedule=read_counts(options.counts, names, seed=options.seed))
    if options.from_logs is not None:
        found = read_logs(options.from_logs, names, days=options.days, named=_named(options))
        return Recorded(schedule=found)
    if options.requests is None:
        fix = "give --requests 50/s, --scenario FILE, --trace FILE, --counts FILE or --from-logs ENDPOINT"
        raise REQUESTS.error(what="the requests are missing", where="the command line", fix=fix)
    if len(options.requests) > 1:
        fix = "give one rate, or a trace with --trace"
        raise REQUESTS.error(what="several rates", where="--requests", fix=fix)
    [rate] = options.requests
    return Steady(
        rate=rate,
        seconds=options.duration or min(_DAY_S, max(_HOUR_S, _ENOUGH / rate)),
        models=len(models),
        popularity=options.popularity,
        seed=options.seed,
    )


def _pinned(options: PlanOptions, models: Sequence[Profile]) -> int:
    pin: int | float = options.pin
    count = pin if isinstance(pin, int) else math.floor(pin * len(models))
    if count <= len(models):
        return count
    raise ARGUMENTS.error(
        what=f"{count:,} pinned models of {len(models):,}", where="--pin", fix="pin fewer, such as --pin 20%"
    )
