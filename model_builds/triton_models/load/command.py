"""`fleet load`: compute a schedule, send it, and print what was found."""

from __future__ import annotations

import asyncio
import csv
import importlib.util
import json
import math
import secrets
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import FleetError
from triton_models.base.outcome import live, progress
from triton_models.client.asynchronous import AsyncClient
from triton_models.client.invoke import named
from triton_models.load.account import Deployed, confirm, costs_money, deployed
from triton_models.load.generator import ANSWERED, Run, undisturbed
from triton_models.load.generator import run as generate
from triton_models.load.knee import Growth, Knee, find_knee
from triton_models.load.options import LoadOptions
from triton_models.load.page import page
from triton_models.load.result import Loaded, loaded
from triton_models.load.schedule import Schedule, Traffic, read, scheduled
from triton_models.load.streams import read_scenario
from triton_models.load.targets import EndpointTarget, Target, TritonTarget
from triton_models.repository.objects import opened
from triton_models.repository.stored_manifest import read as read_manifest

T = TypeVar("T")

LOAD = Check(id="load", source=FROM_ARGUMENTS)

_SEEDS = 1 << 31


def run(options: LoadOptions) -> Loaded | Knee:
    """Run `fleet load [NAME...]` with `--rate` and `--for`, `--trace`, `--scenario` or `--find-knee`."""
    _refuse_both(options)
    target, models = _target(options, named(options.input))
    seed = options.seed if options.seed is not None else secrets.randbelow(_SEEDS)
    if options.find_knee:
        at, limit_s = _allowed(options, target, seconds=None)
        return _in_a_loop(lambda: _knee(options, target, models, seed=seed, at=at, limit_s=limit_s))
    schedule = _schedule(options, models, seed)
    length_s = float(schedule.at[-1])
    _, limit_s = _allowed(options, target, seconds=length_s)
    if limit_s < length_s:
        progress(f"The budget ends the run after {limit_s / 60:,.1f} minutes.")
        schedule = schedule.until(limit_s)
    done = _in_a_loop(lambda: _measured(schedule, target))
    found = loaded(done, target=target.name, seed=None if options.trace or options.scenario else seed)
    if options.output is None:
        return found
    found = replace(found, files=options.output)
    write(done, found, options.output)
    return found


def _refuse_both(options: LoadOptions) -> None:
    """Refuse options of which one would be ignored."""
    planned = [name for name in ("trace", "scenario") if getattr(options, name) is not None]
    drawn = {"--rate": options.rate, "--for": options.duration, "--find-knee": options.find_knee}
    both = [name for name, value in drawn.items() if value]
    if planned and both:
        raise LOAD.error(
            what=f"--{planned[0]} has the moments of all requests, and {', '.join(both)} asks for others",
            where="the command line",
            fix="give one or the other",
        )
    if options.find_knee and len(options.rate or ()) > 1:
        fix = "give the first rate of the search alone"
        raise LOAD.error(what="--find-knee with several rates", where="the command line", fix=fix)


def _allowed(options: LoadOptions, target: Target, *, seconds: float | None) -> tuple[Deployed | None, float]:
    """Show the price of a run in an account, and ask; return the endpoint, and how long it may take."""
    if not isinstance(target, EndpointTarget):
        return None, math.inf
    paid = costs_money(target.host)
    try:
        at = deployed(target.endpoint)
    except FleetError:
        if paid and not (options.yes and options.budget is None):
            raise
        return None, math.inf
    if options.find_knee and not options.scaling:
        at.refuse_scaling()
    limit_s = math.inf if options.budget is None else at.within(options.budget)
    if paid and not options.yes:
        confirm(at.lines(None if seconds is None else min(seconds, limit_s)))
    return at, limit_s


async def _knee(
    options: LoadOptions,
    target: Target,
    models: Sequence[str],
    *,
    seed: int,
    at: Deployed | None,
    limit_s: float,
) -> Knee:
    traffic, began = _traffic(options), time.monotonic()

    async def measure(rate: float) -> Loaded | None:
        if time.monotonic() - began + traffic.seconds > limit_s:
            return None
        schedule = scheduled(replace(traffic, rates=(rate,)), models, seed=seed)
        return loaded(await _interruptible(schedule, target), target=target.name, seed=seed)

    try:
        await target.prepare(models)
        rate, steps, limit = await find_knee(
            measure,
            start=traffic.rates[0],
            seconds=traffic.seconds,
            p99_s=options.p99,
            say=lambda step: progress(step.line()),
        )
    finally:
        await target.close()
    return Knee(
        target=target.name,
        rate=rate,
        steps=steps,
        gpus=options.gpus or (at.gpus if at else None),
        growth=Growth(share=options.growth / 100, start_s=options.start),
        limit=limit,
    )


def _target(options: LoadOptions, written: Mapping[str, str]) -> tuple[Target, Sequence[str]]:
    """Return what is asked, and the models: all of a repository, if none is named."""
    if options.triton is not None:
        if not options.names:
            fix = "name them, fleet load NAME --triton URL"
            raise LOAD.error(what="no models are named", where="the command line", fix=fix)
        return TritonTarget(options.triton, written=written, limit_s=options.deadline), options.names
    with opened(options.repository) as store:
        client = AsyncClient(
            alias=options.alias, endpoint_name=options.endpoint, target=options.target, repository=store.url
        )
        names = options.names or read_manifest(store).manifest.names
    if not names:
        fix = "publish models, or name them"
        raise LOAD.error(what="the repository has no models", where=store.url, fix=fix)
    return EndpointTarget(client, written=written, limit_s=options.deadline), names


def _schedule(options: LoadOptions, models: Sequence[str], seed: int) -> Schedule:
    if options.trace is not None:
        return read(options.trace, models)
    if options.scenario is not None:
        return read_scenario(options.scenario, models)
    return scheduled(_traffic(options), models, seed=seed)


def _traffic(options: LoadOptions) -> Traffic:
    if not options.rate or options.duration is None:
        raise LOAD.error(
            what="the requests are missing",
            where="the command line",
            fix="give --rate 50/s and --for 5m, or --trace FILE, or --scenario FILE",
        )
    return Traffic(
        rates=tuple(options.rate),
        seconds=options.duration,
        burstiness=options.burstiness,
        popularity=options.popularity,
        present_s=options.present,
    )


async def _measured(schedule: Schedule, target: Target) -> Run:
    try:
        await target.prepare(schedule.models)
        return await _interruptible(schedule, target)
    finally:
        await target.close()


async def _interruptible(schedule: Schedule, target: Target) -> Run:
    """Send all requests until Ctrl-C, which ends the run with what was found until then."""
    going = asyncio.ensure_future(generate(schedule, target, say=lambda found: live(found.line())))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, going.cancel)
    try:
        with undisturbed():
            return await going
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        live("")


def write(run: Run, result: Loaded, folder: Path) -> None:
    """Write the schedule as a trace, all requests, the figures and a page about them into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    run.schedule.write(folder / "trace.csv")
    with (folder / "requests.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["seconds", "model", "sent", "answered", "error"])
        kinds = {-1: "no answer", ANSWERED: "", **dict(enumerate(run.kinds, start=1))}
        for at, model, sent, done, kind in zip(
            run.schedule.at, run.schedule.model, run.sent, run.done, run.kind, strict=True
        ):
            name = run.schedule.models[model]
            rows.writerow([f"{at:.6f}", name, f"{sent:.6f}", f"{done:.6f}", kinds[int(kind)]])
    (folder / "result.json").write_text(json.dumps(result.as_dict(), indent=1) + "\n")
    (folder / "report.html").write_text(page(run, result))


def _in_a_loop(begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in uvloop, if it is installed, which leaves the generator more time."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.run(begin())
    import uvloop

    found: T = uvloop.run(begin())
    return found
