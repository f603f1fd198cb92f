"""The probes on a machine with a GPU: cheap and decisive ones first."""

from __future__ import annotations

from triton_models.probe.gpu import compiler, host, image, models
from triton_models.probe.gpu.situation import GpuProbe

PROBES: tuple[GpuProbe, ...] = (*host.PROBES, *image.PROBES, *compiler.PROBES, *models.PROBES)
