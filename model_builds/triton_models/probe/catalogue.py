"""Every probe of `fleet probe`, for the documentation and the tests."""

from __future__ import annotations

from collections.abc import Mapping

from triton_models.probe.account.probes import PROBES as ACCOUNT_PROBES
from triton_models.probe.gpu.probes import PROBES as GPU_PROBES
from triton_models.probe.probes import Probe
from triton_models.probe.transcript import Kind


def catalogue() -> Mapping[Kind, tuple[Probe, ...]]:
    """Return the probes by the place where they run."""
    return {"gpu": GPU_PROBES, "account": ACCOUNT_PROBES}


def commands() -> dict[str, str]:
    """Return the command that decides a belief, by the belief's id."""
    return {
        decided: f"fleet probe {kind} --only {probe.id}"
        for kind, probes in catalogue().items()
        for probe in probes
        for decided in probe.decides
    }
