"""A probe in an AWS account: what it decides, what it creates, how long it takes and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from triton_models.probe.probes import Probe
from triton_models.probe.verdict import Verdict

if TYPE_CHECKING:
    from triton_models.probe.account.work import Work

Steps: TypeAlias = Generator[None, None, Sequence[Verdict]]
"""The course of a probe. It yields where it has to wait, so that others go on meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountProbe(Probe):
    """A probe in an account.

    Attributes:
        run: Its course: takes the run's `Work`, returns its verdicts.
        creates: What it creates, in a few words; empty if nothing.
        minutes: How long it takes.
        pays: What is paid for: a name of `costs.RATES` with the hours or the number.
        allowed: The IAM actions that the caller needs for it.
        needs: Probes without which it cannot run: they are run before it, asked for or not.
        after: Probes that must end before it begins, if they are run.
        cheap: Whether it is asked for without --all.
    """

    run: Callable[[Work], Steps]
    creates: str = ""
    minutes: float = 1.0
    pays: tuple[tuple[str, float], ...] = ()
    allowed: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    cheap: bool = False
