"""The shared state of a run's probes: the machine, the release, and the built models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triton_models.base.outcome import progress
from triton_models.deliver.building import Order
from triton_models.deliver.worker import Ended, Worker
from triton_models.facts.instances import Gpu
from triton_models.facts.releases import Release
from triton_models.probe.gpu.machine import SeenGpu
from triton_models.probe.gpu.making import Made, make
from triton_models.probe.probes import Probe
from triton_models.probe.transcript import Observation
from triton_models.probe.verdict import Verdict

MODEL_SECONDS = 3600.0
"""The time limit for building and verifying one model, in seconds."""


@dataclass(slots=True, kw_only=True)
class Situation:
    """The shared state of a run's probes.

    Attributes:
        release: The release of the image.
        gpus: The machine's GPUs as nvidia-smi shows them.
        gpu: The table's entry for these GPUs; None without one.
        environment: The variables of the process.
        image: The release of the Triton image that this runs in; None outside of one.
        folder: An empty folder, removed after the run.
        worker: The worker that builds models.
        names: The models to build and verify.
        models: The folder of model builds; None for the one next to this package.
        observations: The observations so far.
    """

    release: Release
    gpus: tuple[SeenGpu, ...]
    gpu: Gpu | None
    environment: Mapping[str, str]
    image: str | None
    folder: Path
    worker: Worker
    names: tuple[str, ...] = ()
    models: Path | None = None
    observations: list[Observation] = field(default_factory=list)
    _made: dict[str, Ended[Made]] = field(default_factory=dict)

    def observe(self, observation: str, asked: Mapping[str, Any], answered: Mapping[str, Any]) -> None:
        """Record a question with its answer for the transcript."""
        self.observations.append(Observation(id=observation, asked=asked, answered=answered))

    def made(self, name: str) -> Ended[Made]:
        """Return a model, built, checked and verified on this machine once per run."""
        if name not in self._made:
            progress(f"building and verifying {name} ...")
            order = Order(
                name=name,
                release=self.release.name,
                gpu=self.gpu.name if self.gpu else None,
                models=self.models,
                output=self.folder / name.replace(":", "_"),
            )
            order.output.mkdir()
            self._made[name] = self.worker.do(
                make, order, name=name, seconds=MODEL_SECONDS, log=order.output / "build.log"
            )
        return self._made[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProbe(Probe):
    """A probe on a machine with a GPU.

    Attributes:
        ask: Yields a verdict on each belief that it decides.
        needs_gpu: True if it is undecided without a GPU of the table.
        needs_image: True if it is undecided outside of the release's image.
    """

    ask: Callable[[Situation], Iterator[Verdict]]
    needs_gpu: bool = False
    needs_image: bool = True
