"""Checks of models that the openvino backend runs.

They follow src/openvino.cc and src/openvino_utils.cc of openvino_backend (main), read 2026-11-24.
"""

from __future__ import annotations

from collections.abc import Iterator

from triton_models.base.errors import Problem
from triton_models.check.subject import ArtifactCheck, Model, Subject, type_name
from triton_models.config.pbtxt import ModelConfig, schema
from triton_models.facts.openvino import OPENVINO_TYPES

_SOURCE = "2026-11-24: src/openvino.cc and src/openvino_utils.cc of openvino_backend"


def openvino_kind(subject: Subject) -> Iterator[Problem]:
    """Check that all instances are on the CPU."""
    group = schema().ModelInstanceGroup
    for model, config in _served(subject):
        kinds = {group.Kind.Name(each.kind) for each in config.instance_group}
        for kind in sorted(kinds - {"KIND_AUTO", "KIND_CPU"}):
            yield subject.refuse(
                model,
                "instance_group",
                f"{kind} of a model for OpenVINO",
                expected="KIND_CPU",
                why="the backend supports only the CPU, also on a machine with GPUs",
                fix="write KIND_CPU",
            )


def openvino_batches(subject: Subject) -> Iterator[Problem]:
    """Check that the backend joins no requests.

    Without padding it answers only requests of exactly max_batch_size rows. With padding, a smaller request
    after a full one is written into the full one's memory, which has been freed.
    """
    for model, config in _served(subject):
        if config.max_batch_size > 1:
            yield subject.refuse(
                model,
                "max_batch_size",
                f"max_batch_size {config.max_batch_size} of a model for OpenVINO",
                expected="0 or 1",
                why="the backend answers full batches alone, and ENABLE_BATCH_PADDING writes to freed memory",
                fix="write 0, and the batch as the first of the dims, as -1",
            )


def openvino_type(subject: Subject) -> Iterator[Problem]:
    """Check that the backend supports the types of the tensors."""
    for model, config in _served(subject):
        for part, tensors in (("input", config.input), ("output", config.output)):
            for tensor in tensors:
                kind = type_name(tensor.data_type)
                if kind not in OPENVINO_TYPES:
                    yield subject.refuse(
                        model,
                        part,
                        f"{part} {tensor.name!r} is {kind}",
                        expected=f"one of {', '.join(sorted(OPENVINO_TYPES))}",
                        why="the openvino backend does not support that type",
                        fix="cast it inside the network, or serve the model with ONNX Runtime",
                    )


def _served(subject: Subject) -> Iterator[tuple[Model, ModelConfig]]:
    return ((model, config) for model, config in subject.served() if model.backend.name == "openvino")


CHECKS = (
    ArtifactCheck(id="openvino-kind", source=_SOURCE, find=openvino_kind),
    ArtifactCheck(id="openvino-batches", source=_SOURCE, find=openvino_batches),
    ArtifactCheck(id="openvino-type", source=_SOURCE, find=openvino_type),
)
