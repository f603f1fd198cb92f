"""A probe in an AWS account: its beliefs, its resources, its duration and its cost."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from triton_models.probe.probes import Probe
from triton_models.probe.verdict import Verdict

if TYPE_CHECKING:
    from triton_models.probe.account.work import Work

Steps: TypeAlias = Generator[None, None, Sequence[Verdict]]
"""The steps of a probe. It yields while it waits, so that other probes can continue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountProbe(Probe):
    """A probe in an account.

    Attributes:
        run: The steps: takes the run's `Work`, returns the verdicts.
        creates: A short list of the resources that it creates; empty if none.
        minutes: The usual duration.
        pays: The billed items: a name of `costs.RATES` with the hours or the number.
        allowed: The IAM actions that the caller needs.
        needs: Probes that must run before it, even if they are not selected.
        after: Probes that must end before it begins, if they are selected.
        cheap: True if it is selected without --all.
    """

    run: Callable[[Work], Steps]
    creates: str = ""
    minutes: float = 1.0
    pays: tuple[tuple[str, float], ...] = ()
    allowed: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    cheap: bool = False
