"""DALI pipelines: from a declaration to model.dali, and run here for what a build is compared with."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from triton_models.base.errors import FleetError
from triton_models.builds.job import BuildJob
from triton_models.declare.models import DaliPipeline
from triton_models.declare.requires import (
    IMAGE_MODULES,
    IMAGE_MODULES_SINCE,
    brings,
    check_requires,
)
from triton_models.facts.releases import Release
from triton_models.pack.dali import without_origin

if TYPE_CHECKING:
    from triton_models.declare.declaration import Tensors

_MODULE = "nvidia.dali"
_GPU = 0  # which one serves is said by Triton, as the batch size and the threads are

# The DALI of each Triton release: the file DALI_VERSION of triton-inference-server/dali_backend on the
# release's branch, read 2026-11-22. NVIDIA's release notes do not say it; in an image, its own DALI is taken.
VERSIONS: Mapping[str, str] = MappingProxyType(
    {
        "23.12": "1.31",
        "24.01": "1.31",
        "24.03": "1.31",
        "24.05": "1.36",
        "24.09": "1.39.0",
        "24.10": "1.42.0",
        "24.12": "1.44.0",
        "25.04": "1.47.0",
        "25.06": "1.49.0",
        "25.09": "1.51.2",
        "25.12": "1.51.2",
        "26.03": "2.0.0",
        "26.04": "2.0.0",
        "26.05": "2.1.0",
        "26.06": "2.1.1",
    }
)


def loads_pipelines_of(built: Release, *, served: Release) -> bool:
    """Whether the DALI of a release is not older than that of the release that pipelines were built for."""
    return _numbers(VERSIONS[built.name]) <= _numbers(VERSIONS[served.name])


def make_pipeline(model: DaliPipeline, path: Path, job: BuildJob) -> None:
    """Serialize a pipeline: equal pipelines give equal bytes, wherever they were made.

    A build for an endpoint wants a DALI that is not newer than the one that serves: NVIDIA promises nothing
    about files of a newer one. In the Triton image it is the image's own. A portable build takes what is here
    and says what it took.

    Raises:
        FleetError: DALI is missing or newer than the release's, or the pipeline is not as it is declared.
    """
    dali = _imported()
    job.sources["dali"] = dali.__version__
    if _is_newer(dali, job.release):
        if not job.portable:
            raise _too_new(dali, model, job.release)
        job.left_out.append(
            f"a pipeline of {model.name} by DALI {VERSIONS[job.release.name]} (it is by {dali.__version__})"
        )
    content = without_origin(_defined(model, on_gpu=job.gpu is not None and not job.rehearsed).serialize())
    for tensor in model.inputs:
        if tensor.name.encode() not in content:
            raise FleetError.of(
                what=f"the pipeline of {model.name!r} has no input {tensor.name!r}",
                where=f"the inputs of {model.name!r}",
                expected=f"fn.external_source(name={tensor.name!r}, ...) in its pipeline",
                why="DALI takes what a request brings by the name of an external source",
                fix="give the external source the input's name",
                rule="dali-input",
            )
    path.write_bytes(content)


def run_pipeline(model: DaliPipeline, inputs: Tensors) -> Tensors:
    """What a pipeline makes of a batch, on the CPU.

    Args:
        model: The pipeline.
        inputs: Each of its inputs, by name.

    Returns:
        Each of its outputs, by name.

    Raises:
        FleetError: DALI is missing.
        RuntimeError: DALI's own words about data that it cannot use.
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
        num_threads=model.backend.num_threads,
        device_id=_GPU if on_gpu else None,
    )
    return define(model.pipeline)("mixed" if on_gpu else "cpu")


def _imported() -> Any:
    check_requires([_MODULE])
    return importlib.import_module(_MODULE)


def _is_newer(dali: Any, release: Release) -> bool:
    if Path(dali.__file__).is_relative_to(IMAGE_MODULES[_MODULE]):
        return False
    return _numbers(dali.__version__) > _numbers(VERSIONS[release.name])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def _too_new(dali: Any, model: DaliPipeline, release: Release) -> FleetError:
    has = VERSIONS[release.name]
    image = (
        f"build in the Triton image of {release.name}, which has its own"
        if brings(release, _MODULE)
        else f"build for release {IMAGE_MODULES_SINCE[_MODULE]} or newer, whose image has its own"
    )
    return FleetError.of(
        what=f"DALI {dali.__version__} would make the pipeline of {model.name!r}",
        where=f"a build for release {release.name}, whose DALI is {has}",
        expected=f"DALI {has} or older",
        why="an older DALI may not read the file of a newer one, and then the model does not load",
        fix=f"{image}; or install DALI {has}: pip install --no-deps nvidia-dali-cuda120=={has} "
        "--extra-index-url https://pypi.nvidia.com",
        rule="dali-version",
    )


@contextlib.contextmanager
def _without_chatter() -> Iterator[None]:
    """Keep from the terminal what DALI's libraries write there about GPU decoders that are not installed.

    They write past Python's sys.stderr. If the work fails, what they wrote is told.
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
