"""The plan of a run, shown before it starts: its resources, duration and cost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

from triton_models.base.errors import FleetError
from triton_models.facts import prices
from triton_models.probe.account import costs
from triton_models.probe.account.probe import AccountProbe
from triton_models.probe.account.probes import PROBES
from triton_models.probe.account.work import Place
from triton_models.probe.chosen import chosen


def wanted(only: Sequence[str] | None, *, everything: bool) -> tuple[AccountProbe, ...]:
    """Return the selected probes, and those that they need.

    Raises:
        FleetError: `--only` names neither a probe nor a belief that one decides.
    """
    if only is None:
        return tuple(probe for probe in PROBES if probe.cheap or everything)
    ids = {probe.id for probe in chosen(PROBES, only)}
    while missing := {need for probe in PROBES if probe.id in ids for need in probe.needs} - ids:
        ids |= missing
    return tuple(probe for probe in PROBES if probe.id in ids)


def lines(probes: Sequence[AccountProbe], place: Place, *, run: str) -> Iterator[str]:
    """Yield the lines of a run's plan."""
    yield f"{len(probes)} probes in {place.region}, release {place.release.name}, {place.instance.name}:"
    for probe in probes:
        amount = costs.usd(probe, place.instance)
        price = "price unknown" if amount is None else f"{amount:.2f} USD"
        creates = f"; creates {probe.creates}" if probe.creates else ""
        yield f"  {probe.id:16} {probe.minutes:4g} min  {price:>9}  {probe.what}{creates}"
    amounts = [costs.usd(probe, place.instance) for probe in probes]
    known = sum(amount for amount in amounts if amount is not None)
    more = " plus probes of unknown price" if None in amounts else ""
    yield f"Together about {costs.minutes(probes):.0f} minutes and {known:.2f} USD{more}."
    yield f"Prices of {prices.SOURCE_DATE}, most of us-east-1; a region may cost more."
    yield f"Everything is named fleet-probe-{run}-* and removed at the end, even after Ctrl-C."


def agree(said: Sequence[str], question: str, *, yes: bool, read: Callable[[], str] | None = None) -> None:
    """Print the lines and ask for confirmation, unless the command already confirmed.

    Raises:
        FleetError: The answer is no, or there is no terminal to ask on.
    """
    for line in said:
        sys.stderr.write(f"{line}\n")
    if yes:
        return
    if read is None:
        if not sys.stdin.isatty():
            raise FleetError.of(
                what="cannot ask for confirmation: this is not a terminal",
                where="`fleet probe account`",
                expected="a terminal, or --yes",
                why="the resources that it creates cost money",
                fix="add --yes to confirm the above",
                rule="probe-consent",
            )
        read = sys.stdin.readline
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if read().strip().lower() not in {"y", "yes"}:
        raise FleetError.of(
            what="nothing was done",
            where="`fleet probe account`",
            expected="y",
            fix="answer y, or choose probes with --only",
            rule="probe-consent",
        )
