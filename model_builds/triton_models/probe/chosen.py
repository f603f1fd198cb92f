"""The common handling of `fleet probe`'s arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from triton_models.base.errors import FleetError, Problem, raise_if_any
from triton_models.base.suggest import did_you_mean
from triton_models.probe.probes import Probe

_P = TypeVar("_P", bound=Probe)


def chosen(probes: Sequence[_P], only: Sequence[str] | None) -> tuple[_P, ...]:
    """Return the probes that `--only` selects, by their ids or their beliefs' ids; all without `--only`.

    Raises:
        FleetError: An id is neither that of a probe nor that of a belief that one decides.
    """
    if only is None:
        return tuple(probes)
    known = {probe.id for probe in probes} | {belief for probe in probes for belief in probe.decides}
    raise_if_any(_unknown(each, known) for each in only if each not in known)
    wanted = set(only)
    return tuple(probe for probe in probes if probe.id in wanted or wanted & set(probe.decides))


def _unknown(given: str, known: set[str]) -> Problem:
    (problem,) = FleetError.of(
        what=f"no probe has the id {given!r} or decides a belief with it",
        where="--only",
        expected="the id of a probe or of a belief that one decides",
        fix=did_you_mean(given, sorted(known), otherwise=f"choose from {', '.join(sorted(known))}"),
        rule="unknown-probe",
    ).problems
    return problem
