"""DALI pipelines: serialized to model.dali, and run locally to get reference outputs."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.artifact.pack.dali import without_origin
from triton_models.base.errors import FleetError
from triton_models.builds.job import Job
from triton_models.declare.models import DaliPipeline
from triton_models.declare.requires import IMAGE_MODULES, IMAGE_MODULES_SINCE, brings, check_requires
from triton_models.facts.dali import dali_version, version_numbers
from triton_models.facts.instances import Gpu, least_vcpus
from triton_models.facts.releases import Release

if TYPE_CHECKING:
    from triton_models.declare.declaration import Tensors

_MODULE = "nvidia.dali"
_THREADS, _MOST_THREADS = 4, 8
_GPU = 0  # Triton overrides the device, the batch size and the threads when it serves


def make_pipeline(model: DaliPipeline, path: Path, job: Job) -> None:
    """Serialize a pipeline; equal pipelines give equal bytes on any machine.

    A build for an endpoint requires a DALI no newer than the one that serves, because NVIDIA does not promise
    that an older DALI reads the file. The Triton image has the right one. A portable build uses the installed
    DALI and records its version.

    Raises:
        FleetError: DALI is missing or newer than the release's, or the pipeline contradicts its declaration.
    """
    dali = _imported()
    job.sources["dali"] = dali.__version__
    if _is_newer(dali, job.release):
        if not job.portable:
            raise _too_new(dali, model, job.release)
        job.left_out.append(
            f"a pipeline of {model.name} by DALI {dali_version(job.release)} (it is by {dali.__version__})"
        )
    content = without_origin(_defined(model, on_gpu=job.gpu is not None and not job.rehearsed).serialize())
    for tensor in model.inputs:
        if tensor.name.encode() not in content:
            raise FleetError.of(
                what=f"the pipeline of {model.name!r} has no input {tensor.name!r}",
                where=f"the inputs of {model.name!r}",
                why="DALI matches request tensors to external sources by name",
                fix="name the external source after the input",
                rule="dali-input",
            )
    path.write_bytes(content)


def threads(gpu: Gpu | None) -> int:
    """Return how many threads decode for a GPU, or without one."""
    return min(least_vcpus(gpu), _MOST_THREADS) if gpu else _THREADS


def run_pipeline(model: DaliPipeline, inputs: Tensors) -> Tensors:
    """Run a batch through a pipeline on the CPU.

    Returns:
        Its outputs, by name.

    Raises:
        FleetError: DALI is missing.
        RuntimeError: DALI cannot process the data.
    """
    batch = len(next(iter(inputs.values())))
    with _without_chatter():
        pipeline = _defined(model, on_gpu=False, batch=batch)
        pipeline.build()
        for name, rows in inputs.items():
            pipeline.feed_input(name, list(rows))
        made = pipeline.run()
    return {tensor.name: each.as_array() for tensor, each in zip(model.outputs, made, strict=True)}


def _defined(model: DaliPipeline, *, on_gpu: bool, batch: int | None = None) -> Any:
    define = _imported().pipeline_def(
        batch_size=batch or model.max_batch_size,
        num_threads=model.backend.num_threads or _THREADS,
        device_id=_GPU if on_gpu else None,
    )
    return define(model.pipeline)("mixed" if on_gpu else "cpu")


def _imported() -> Any:
    check_requires([_MODULE])
    return importlib.import_module(_MODULE)


def _is_newer(dali: Any, release: Release) -> bool:
    if Path(dali.__file__).is_relative_to(IMAGE_MODULES[_MODULE]):
        return False
    return version_numbers(dali.__version__) > version_numbers(dali_version(release))


def _too_new(dali: Any, model: DaliPipeline, release: Release) -> FleetError:
    has = dali_version(release)
    image = (
        f"build in the Triton image of {release.name}, which contains DALI"
        if brings(release, _MODULE)
        else f"build for release {IMAGE_MODULES_SINCE[_MODULE]} or newer, whose image contains DALI"
    )
    return FleetError.of(
        what=f"the pipeline of {model.name!r} would be built with DALI {dali.__version__}",
        where=f"a build for release {release.name}, whose DALI is {has}",
        why="DALI may fail to load a file from a newer version",
        fix=f"{image}; or install DALI {has}: pip install --no-deps nvidia-dali-cuda120=={has} "
        "--extra-index-url https://pypi.nvidia.com",
        rule="dali-version",
    )


@contextlib.contextmanager
def _without_chatter() -> Iterator[None]:
    """Suppress the messages of DALI's libraries about GPU decoders that are not installed.

    The libraries bypass Python's sys.stderr. If the work fails, their output is shown.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            said.seek(0)
            os.write(kept, said.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
