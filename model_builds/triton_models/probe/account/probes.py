"""The probes in an AWS account."""

from __future__ import annotations

from triton_models.probe.account import (
    answers,
    builds,
    cpu_endpoint,
    deletion,
    endpoint,
    images,
    models,
    permissions,
    quotas,
    scaling,
    serving,
    source_build,
    stacks,
    storage,
    updates,
    watching,
)
from triton_models.probe.account.probe import AccountProbe

PROBES: tuple[AccountProbe, ...] = (
    *images.PROBES,
    *models.PROBES,
    *storage.PROBES,
    *quotas.PROBES,
    *permissions.PROBES,
    *stacks.PROBES,
    *source_build.PROBES,
    *builds.PROBES,
    *endpoint.PROBES,
    *answers.PROBES,
    *serving.PROBES,
    *scaling.PROBES,
    *deletion.PROBES,
    *watching.PROBES,
    *cpu_endpoint.PROBES,
    *updates.PROBES,
)
"""Every probe, in the order of a transcript."""
