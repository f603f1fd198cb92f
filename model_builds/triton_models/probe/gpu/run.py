"""`fleet probe gpu`: run the probes on this machine, and write a transcript of the verdicts."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from triton_models.base.errors import FleetError
from triton_models.base.outcome import progress
from triton_models.base.processes import stopped_by_sigterm
from triton_models.builds.tensorrt.machine import is_model
from triton_models.declare.reading import load_builds, model_names, models_folder
from triton_models.deliver.worker import Worker
from triton_models.facts.instances import GPUS, Gpu
from triton_models.facts.instances import gpu as gpu_named
from triton_models.facts.releases import DEFAULT_RELEASE, Release
from triton_models.facts.releases import release as release_named
from triton_models.probe.chosen import chosen
from triton_models.probe.gpu.image import NUMPY
from triton_models.probe.gpu.machine import (
    IMAGE_VARIABLE,
    SeenGpu,
    image_release,
    python_says,
    ran,
    seen_gpus,
)
from triton_models.probe.gpu.probes import PROBES
from triton_models.probe.gpu.situation import GpuProbe, Situation
from triton_models.probe.result import Probed
from triton_models.probe.transcript import Transcript, today, tool_version
from triton_models.probe.verdict import Verdict, undecided

NO_GPU = "no GPU"


def run(arguments: argparse.Namespace) -> Probed:
    """Run `fleet probe gpu [--release R] [--gpu GPU] [--only ID...] [--transcript FILE]`.

    Raises:
        FleetError: The image is of another release, the machine has another GPU than the given one, or a name
            is unknown. No probe has run.
    """
    image, seen = image_release(), seen_gpus()
    release = _release(arguments.release, image)
    gpu = _gpu(arguments.gpu, seen)
    probes = chosen(PROBES, arguments.only)
    names = _names(arguments)
    place = gpu.name if gpu else seen[0].name if seen else NO_GPU
    with (
        stopped_by_sigterm(),
        tempfile.TemporaryDirectory(prefix="fleet-probe-", ignore_cleanup_errors=True) as folder,
        Worker() as worker,
    ):
        situation = Situation(
            release=release,
            gpus=seen,
            gpu=gpu,
            environment=dict(os.environ),
            image=image,
            folder=Path(folder),
            worker=worker,
            names=names,
            models=arguments.models,
        )
        verdicts = tuple(verdict for probe in probes for verdict in verdicts_of(probe, situation))
    transcript = Transcript(
        kind="gpu",
        date=today(),
        release=release.name,
        place=place,
        tool=tool_version(),
        verdicts=verdicts,
        observations=tuple(situation.observations),
    )
    path = arguments.transcript or Path(f"probe-gpu-{place.replace(' ', '-').lower()}-{release.name}.json")
    transcript.write(path)
    return Probed(transcript=transcript, path=path, facts=_facts(image, seen))


def verdicts_of(probe: GpuProbe, situation: Situation) -> Iterator[Verdict]:
    """Yield a verdict on each belief that a probe decides, even if the probe fails."""
    progress(f"{probe.id}: {probe.what} ...")
    open_beliefs = dict.fromkeys(probe.decides)
    reason = _hindrance(probe, situation)
    begun = time.monotonic()
    if reason is None:
        reason = "the probe gave no verdict"
        try:
            for verdict in probe.ask(situation):
                open_beliefs.pop(verdict.belief, None)
                yield _timed(verdict, begun)
                begun = time.monotonic()
        except FleetError as error:
            reason = f"{error.problems[0].what} [{error.problems[0].rule}]"
        except Exception as error:  # noqa: BLE001  one probe's failure leaves the others their verdicts
            reason = f"the probe fails: {type(error).__name__}: {error}"
    for belief in open_beliefs:
        yield _timed(undecided(belief, reason), begun)


def _hindrance(probe: GpuProbe, situation: Situation) -> str | None:
    """Return the reason why a probe cannot run here; None if it can."""
    if probe.needs_image and situation.image is None:
        return f"this is not a Triton image: {IMAGE_VARIABLE} is not set"
    if probe.needs_gpu and not situation.gpus:
        return "this machine has no NVIDIA GPU: nvidia-smi shows none"
    if probe.needs_gpu and probe.needs_image and situation.gpu is None:
        return f"{situation.gpus[0].name} is not in the GPU table"
    return None


def _names(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the selected models, by default all declared ones; none without a folder of models.

    Raises:
        FleetError: A selected declaration has a mistake, or the given folder is missing.
    """
    if arguments.names:
        load_builds(arguments.names, arguments.models)
        return tuple(dict.fromkeys(arguments.names))
    if arguments.models is None and not models_folder().is_dir():
        return ()
    return tuple(model_names(arguments.models))


def _timed(verdict: Verdict, begun: float) -> Verdict:
    return Verdict(
        belief=verdict.belief,
        outcome=verdict.outcome,
        evidence=verdict.evidence,
        seconds=time.monotonic() - begun,
    )


def _release(wanted: str | None, image: str | None) -> Release:
    """Return the given release, by default the image's."""
    release = release_named(wanted or image or DEFAULT_RELEASE)
    if image is None or image == release.name:
        return release
    raise FleetError.of(
        what=f"this container is of release {image}",
        where=f"{IMAGE_VARIABLE}, and --release {release.name}",
        expected=f"the image of release {release.name}",
        why="findings in one image say nothing about another",
        fix=f"run it in the image of {release.name}, or omit --release",
        rule="other-release",
    )


def _gpu(wanted: str | None, seen: Sequence[SeenGpu]) -> Gpu | None:
    """Return the GPU of the table that all of the machine's GPUs are; None without one."""
    for gpu in [gpu_named(wanted)] if wanted else GPUS.values():
        if seen and all(is_model(each.name, gpu) for each in seen):
            return gpu
    if wanted is None:
        return None
    raise FleetError.of(
        what=f"this machine has {', '.join(each.name for each in seen) or 'no NVIDIA GPU'}, not {wanted}",
        where=f"--gpu {wanted}, and `nvidia-smi --query-gpu=name`",
        expected=f"every GPU of the machine to be {wanted}",
        fix="omit --gpu, or run it on such a machine",
        rule="gpu-absent",
    )


def _facts(image: str | None, seen: Sequence[SeenGpu]) -> Mapping[str, str]:
    """Return the most important facts about the machine."""
    numpy = python_says(NUMPY)
    listed = ran("dpkg-query", "-W", "-f", "${Package} ${Version}\\n", "libnvinfer*")
    packages = [
        line for line in listed.output.splitlines() if line.startswith("libnvinfer") and line.count(" ")
    ]
    gpus = [f"{each.name}, {each.capability}, {each.memory_mib} MiB, driver {each.driver}" for each in seen]
    return {
        "image": f"Triton {image}" if image else "not a Triton image",
        "GPU": "; ".join(gpus) or NO_GPU,
        "TensorRT": "; ".join(packages) or "not installed",
        "NumPy": "not installed" if numpy.status else numpy.last,
    }
