"""Checks of model_warmup, whose requests are created and run while a model loads.

They follow GenerateWarmupData of Triton core (src/backend_model_instance.cc) and InferenceRequest::Normalize
(src/infer_request.cc), release 24.10, read 2026-11-21. The content of data files is not checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from triton_models.base.errors import Problem
from triton_models.check.configuration import dims_count
from triton_models.check.scheduling import data_file, least_bytes
from triton_models.check.subject import ArtifactCheck, Model, Subject, type_name
from triton_models.config.pbtxt import ModelConfig

_SOURCE = "2026-11-21: Triton core 24.10, src/backend_model_instance.cc and src/infer_request.cc"

# These backends refuse to run a batch above max_batch_size: "max allowed is" in onnxruntime.cc, tensorrt.cc,
# libtorch.cc and tensorflow.cc of their repositories, read 2026-11-21.
_LIMIT_BATCHES = frozenset({"onnxruntime", "pytorch", "tensorflow", "tensorrt"})


def warm_up(subject: Subject) -> Iterator[Problem]:
    """Check that the model accepts its warm-up requests."""
    for model, config in subject.having("model_warmup"):
        passive = config.instance_group and all(group.passive for group in config.instance_group)
        if model.is_ensemble or passive:
            continue  # passive models run no warm-up, and another check refuses it in ensembles
        for sample in config.model_warmup:
            if not sample.batch_size:
                continue
            where = f"model_warmup {sample.name!r}"
            for name in sorted(sample.inputs):
                yield from _input(subject, model, where, name, sample.inputs[name])
            if config.input or not model.completes:
                yield from _request(subject, model, config, where, sample)
            if model.backend.name in _LIMIT_BATCHES and sample.batch_size > max(config.max_batch_size, 1):
                yield subject.refuse(
                    model,
                    where,
                    f"batch_size {sample.batch_size} with max_batch_size {config.max_batch_size}",
                    expected=f"at most {max(config.max_batch_size, 1)}",
                    fix="lower the batch_size of the warm-up",
                )


def _input(subject: Subject, model: Model, where: str, name: str, tensor: Any) -> Iterator[Problem]:
    choice = tensor.WhichOneof("input_data_type")
    if dims_count(list(tensor.dims)) == -1:
        yield subject.refuse(
            model,
            where,
            f"input {name!r} has the dims {list(tensor.dims)}",
            expected="a number for every size",
            fix="write the size of the warm-up request",
        )
    elif choice is None:
        yield subject.refuse(
            model,
            where,
            f"input {name!r} has no data",
            expected="zero_data: true, random_data: true or input_data_file",
            fix="add one of them",
        )
    elif choice == "input_data_file":
        least = 0 if type_name(tensor.data_type) == "TYPE_STRING" else least_bytes(tensor)
        yield from data_file(subject, model, "warmup", tensor.input_data_file, least=least, where=where)


def _request(
    subject: Subject, model: Model, config: ModelConfig, where: str, sample: Any
) -> Iterator[Problem]:
    known = {tensor.name: tensor for tensor in reversed(config.input)}  # the first of a name counts
    given = [name for name in sample.inputs if name in known]
    required = sum(not tensor.optional for tensor in config.input)
    missing = sorted({t.name for t in config.input if not t.optional and t.name not in sample.inputs})
    if len(given) < required and missing:
        yield subject.refuse(
            model,
            where,
            f"it lacks the inputs {', '.join(map(repr, missing))}",
            expected="every input that is not optional",
            fix="add them",
        )
    elif len(given) < required and subject.target.endpoint is None:
        # On an endpoint `config.tensor_twice` reports it; a plain server only refuses it in a warm-up.
        yield subject.refuse(
            model,
            where,
            f"{len(given)} of {required} inputs, because several inputs of the model have the same name",
            expected="as many inputs as the model requires, with different names",
            fix="list each input of the model once",
        )
    for name in sorted(given):
        own, tensor = sample.inputs[name], known[name]
        if tensor.data_type and own.data_type != tensor.data_type:
            yield subject.refuse(
                model,
                where,
                f"input {name!r} is {type_name(own.data_type)}",
                expected=f"{type_name(tensor.data_type)}, the type of the input",
                fix="make the data types equal",
            )
        if tensor.dims and not _fits(list(own.dims), list(tensor.dims)):
            yield subject.refuse(
                model,
                where,
                f"input {name!r} has the dims {list(own.dims)}",
                expected=f"dims that fit {list(tensor.dims)}, without the batch dimension",
                fix="correct the dims",
            )


def _fits(dims: Sequence[int], declared: Sequence[int]) -> bool:
    if -1 in dims:
        return True  # already reported
    return len(dims) == len(declared) and all(
        size in {-1, own} for own, size in zip(dims, declared, strict=True)
    )


CHECKS = (ArtifactCheck(id="warm-up", source=_SOURCE, find=warm_up),)
