"""Warm-up requests derived from declarations: the smallest request of each model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_fleet.operations.checks import LONGEST_INPUT
from triton_fleet.operations.warm_up import WarmUpRequest, passed_on
from triton_models.base.errors import FleetError
from triton_models.declare.reading import load_build
from triton_models.declare.smallest_request import smallest_request
from triton_models.declare.variables import environment_of_a_build

MOST_MODELS = 50
"""Models that are warmed up without being named: a deployment waits for each."""

_NAMED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRequests:
    """Requests derived from declarations.

    Attributes:
        requests: One for each model that is warmed up.
        underivable: Models whose declaration does not say what a request consists of.
        too_many: Models beyond what is sent in one warm-up.
    """

    requests: Sequence[WarmUpRequest]
    underivable: Sequence[str]
    too_many: Sequence[str]

    @property
    def advice(self) -> str:
        """The text of the warning of models that load on first use; empty without such a model."""
        reasons = [
            f"{_listed(names)} ({why})"
            for names, why in (
                (self.underivable, "no request can be derived from the declaration"),
                (self.too_many, f"more than {MOST_MODELS} models or {LONGEST_INPUT} characters of requests"),
            )
            if names
        ]
        if not reasons:
            return ""
        return (
            f"A new fleet loads these models at their first requests: {'; '.join(reasons)}. Give warm_up "
            "a request for each model that must not be slow."
        )


def declared_requests(built: Sequence[str], models: Path) -> DeclaredRequests:
    """The smallest request of each model, of the first that fit into a warm-up.

    A declaration with a mistake is skipped here: the build job reports it, with every other mistake.
    """
    with environment_of_a_build({}):
        return _declared_requests(built, models)


def _declared_requests(built: Sequence[str], models: Path) -> DeclaredRequests:
    found: list[WarmUpRequest] = []
    underivable: list[str] = []
    for position, name in enumerate(built):
        try:
            build = load_build(name, models)
        except FleetError:
            continue
        body = smallest_request(build)
        if body is None:
            underivable.append(name)
            continue
        more = [*found, WarmUpRequest(model=build.name, body=body)]
        if len(more) > MOST_MODELS or len(passed_on(more)) > LONGEST_INPUT:
            return DeclaredRequests(requests=found, underivable=underivable, too_many=built[position:])
        found = more
    return DeclaredRequests(requests=found, underivable=underivable, too_many=())


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
