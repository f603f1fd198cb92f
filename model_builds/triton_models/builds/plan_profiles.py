"""The profiles of a TensorRT plan: the shapes that it accepts, and those that it is tuned for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from triton_models.declare.backends import TensorRt
from triton_models.declare.models import Network, OnnxFile, PyTorchNetwork
from triton_models.declare.tensors import DynamicDim, ShapeRange, Tensor
from triton_models.facts.releases import Release
from triton_models.facts.tensorrt import SMALL_BATCH

if TYPE_CHECKING:
    from triton_models.artifact.pbtxt import ModelConfig

BATCH = "batch"


def profile_shapes(model: Network, backend: TensorRt, release: Release) -> list[Mapping[str, ShapeRange]]:
    """Return the shapes of a plan's profiles: of all batches, and maybe of the small ones.

    A server that is given no profile uses the first.
    """
    if isinstance(model, OnnxFile):
        shapes = dict(model.profile)
    else:
        shapes = {tensor.name: _range(tensor, model) for tensor in model.inputs}
    small = backend.small_batch
    if small is None:
        pays = release.sizes_contexts and all(shape.opt[:1] > (SMALL_BATCH,) for shape in shapes.values())
        small = SMALL_BATCH if pays else 0
    if not model.max_batch_size or not shapes or any(shape.min[:1] > (small,) for shape in shapes.values()):
        return [shapes]
    smaller = {
        name: replace(shape, opt=(*shape.min[:1], *shape.opt[1:]), max=(small, *shape.max[1:]))
        for name, shape in shapes.items()
    }
    return [shapes, smaller]


def use_profiles(config: ModelConfig, profiles: int, backend: TensorRt, release: Release) -> None:
    """Give each instance all profiles of its plan: the backend selects one for each batch.

    It takes the profile whose tuned shape is closest (GetMostOptimizedProfile in src/instance_state.cc of
    tensorrt_backend, r24.03 to r25.09, read 2026-11-26). The scheduler ignores profiles, so an instance with
    the small one alone would get batches that it must refuse.
    """
    if profiles > 1:
        config.instance_group[0].profile.extend(map(str, range(profiles)))
        if backend.context_memory is None and release.sizes_contexts:
            config.parameters["execution_context_allocation_strategy"].string_value = "ON_PROFILE_CHANGE"


def _range(tensor: Tensor, model: PyTorchNetwork) -> ShapeRange:
    """Return the shapes of one input that a plan accepts: every batch size, and every declared size."""
    sizes = [
        size if isinstance(size, DynamicDim) else DynamicDim(name="fixed", min=size, max=size)
        for size in tensor.dims
    ]
    if model.max_batch_size:
        largest, backend = model.max_batch_size, model.backend
        best = backend.tuned_batch(largest, model.batching) if isinstance(backend, TensorRt) else None
        sizes.insert(0, DynamicDim(name=BATCH, opt=best, max=largest))
    return ShapeRange(
        min=tuple(size.min for size in sizes),
        opt=tuple(size.usual for size in sizes),
        max=tuple(size.max for size in sizes),
    )
