"""Rules about one config.pbtxt: what Triton's core refuses in it, whatever the other models are.

They follow ValidateModelConfig and ValidateIOShape of Triton core (src/model_config_utils.cc), as read on
2026-11-21.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from triton_models.config import ModelConfig, schema
from triton_models.errors import Problem
from triton_models.rules.subject import PLATFORM_BACKENDS, Model, Rule, Subject


def ensemble_undetected(subject: Subject) -> Iterator[Problem]:
    """An ensemble is declared so that SageMaker sees it."""
    for model in subject.ensembles:
        if not model.looks_like_ensemble:
            yield Problem(
                what=f"{model.folder!r} is an ensemble that SageMaker does not recognise as one",
                where=subject.place(model, "platform"),
                expected='exactly platform: "ensemble", in double quotes and with no space before the colon',
                why="SageMaker would serve one of the composing models instead, without an error",
                fix='write platform: "ensemble" and leave backend out',
            )


def ensemble_in_comment(subject: Subject) -> Iterator[Problem]:
    """A plain model's text is not taken for an ensemble's."""
    for model, _ in subject.parsed():
        if model.looks_like_ensemble and not model.is_ensemble and len(subject.models) > 1:
            yield Problem(
                what=f'{model.folder!r} is no ensemble but its text holds platform: "ensemble"',
                where=subject.place(model),
                expected="that text only in the ensemble's configuration, not even in a comment elsewhere",
                why="SageMaker searches the raw text, and may serve this model instead of the ensemble",
                fix="reword the comment",
            )


def composing_name(subject: Subject) -> Iterator[Problem]:
    """A composing model is called what its folder is."""
    if not subject.ensembles:
        return  # SageMaker gives a plain model, and the ensemble itself, the target model's name
    for model, config in subject.parsed():
        if not model.is_ensemble and config.name and config.name != model.folder:
            yield Problem(
                what=f"the model in folder {model.folder!r} says its name is {config.name!r}",
                where=subject.place(model, "name"),
                expected=f"name: {model.folder!r}, or no name",
                why='Triton refuses the ensemble: the composing model is "not available or ambiguous"',
                fix="make folder and name equal, or leave the name out",
            )


def backend_missing(subject: Subject) -> Iterator[Problem]:
    """It can be told which backend runs a model."""
    for model, config in subject.parsed():
        if model.is_ensemble:
            continue
        if not subject.backend(model):
            yield Problem(
                what=f"neither backend nor platform for {model.folder!r}",
                where=subject.place(model),
                expected='a line such as backend: "onnxruntime"',
                why="Triton cannot tell from the files in the version folder how to run the model",
                fix="name the backend",
            )
        known = PLATFORM_BACKENDS.get(config.platform)
        if config.backend and known is not None and known != config.backend:
            yield Problem(
                what=f"platform {config.platform!r} with backend {config.backend!r}",
                where=subject.place(model, "platform"),
                expected=f"backend {known!r} for that platform, or no platform",
                why="Triton refuses the pair",
                fix="leave platform out",
            )


def max_batch_size(subject: Subject) -> Iterator[Problem]:
    """The batch size is not negative."""
    for model, config in subject.parsed():
        if config.max_batch_size < 0:
            yield Problem(
                what=f"max_batch_size: {config.max_batch_size}",
                where=subject.place(model, "max_batch_size"),
                expected="0 for a model without a batch dimension, else the largest batch",
                why="Triton refuses the model",
                fix="set it to 0 or more",
            )


def preferred_batch_size(subject: Subject) -> Iterator[Problem]:
    """Preferred batch sizes are batches that the model takes."""
    for model, config in subject.parsed():
        preferred = {
            "dynamic_batching": config.dynamic_batching.preferred_batch_size,
            "sequence_batching.oldest": config.sequence_batching.oldest.preferred_batch_size,
        }
        for part, sizes in preferred.items():
            wrong = [size for size in sizes if not 0 < size <= max(config.max_batch_size, 0)]
            if wrong:
                yield Problem(
                    what=f"preferred_batch_size {wrong} with max_batch_size {config.max_batch_size}",
                    where=subject.place(model, part),
                    expected="every preferred size from 1 to max_batch_size",
                    why="Triton refuses the model",
                    fix="raise max_batch_size or drop the size",
                )


def tensors_missing(subject: Subject) -> Iterator[Problem]:
    """Inputs and outputs are listed."""
    for model, config in subject.parsed():
        for part, tensors in (("input", config.input), ("output", config.output)):
            if not tensors:
                yield Problem(
                    what=f"{model.folder!r} lists no {part}",
                    where=subject.place(model, part),
                    expected=f"every {part} with name, data_type and dims",
                    why="the endpoint loads with configuration auto-complete off, so nothing fills them in",
                    fix=f"add the {part}s",
                )


def tensor_name(subject: Subject) -> Iterator[Problem]:
    """Every tensor has a name of its own."""
    for model, config in subject.parsed():
        for part, tensors in (("input", config.input), ("output", config.output)):
            for name, count in Counter(tensor.name for tensor in tensors).items():
                if count > 1 or not name:
                    yield Problem(
                        what=f"{count} {part}s called {name!r}" if name else f"an {part} without a name",
                        where=subject.place(model, part),
                        expected="a name that no other has",
                        why="Triton refuses the model or keeps only one of them",
                        fix="name it as the model does",
                    )


def tensor_type(subject: Subject) -> Iterator[Problem]:
    """Every tensor has a data type."""
    for model, part, tensor in _tensors(subject):
        if tensor.data_type == schema().DataType.Value("TYPE_INVALID"):
            yield Problem(
                what=f"{part} {tensor.name!r} has no data_type",
                where=subject.place(model, f"{part} {tensor.name!r}"),
                expected="a line such as data_type: TYPE_FP32",
                why="Triton refuses the model",
                fix="add the data type",
            )


def tensor_dims(subject: Subject) -> Iterator[Problem]:
    """Every tensor has a shape."""
    for model, part, tensor in _tensors(subject):
        wrong = [size for size in (*tensor.dims, *tensor.reshape.shape) if size < 1 and size != -1]
        if wrong or not tensor.dims:
            yield Problem(
                what=f"{part} {tensor.name!r} has dims {list(tensor.dims)}"
                if not wrong
                else f"{part} {tensor.name!r} has a size of {wrong[0]}",
                where=subject.place(model, f"{part} {tensor.name!r}"),
                expected="sizes of at least 1, or -1 for a variable one, without the batch dimension",
                why="Triton refuses the model",
                fix="write the shape of one item, such as dims: [ -1 ]",
            )


def decoupled(subject: Subject) -> Iterator[Problem]:
    """A model answers once, because SageMaker's multi-model hosting cannot stream."""
    served = subject.step_names() | {model.folder for model in subject.ensembles or subject.models}
    for model, config in subject.parsed():
        if config.model_transaction_policy.decoupled and model.folder in served:
            yield Problem(
                what=f"{model.folder!r} is decoupled",
                where=subject.place(model, "model_transaction_policy"),
                expected="one response for each request",
                why="the model loads, and then every invocation is answered with 400",
                fix="leave model_transaction_policy out, or host the model on an endpoint of its own",
            )


def _tensors(subject: Subject) -> Iterator[tuple[Model, str, Any]]:
    for model, config in subject.parsed():
        tensors: ModelConfig
        for part, tensors in (("input", config.input), ("output", config.output)):
            for tensor in tensors:
                yield model, part, tensor


RULES = (
    Rule(id="ensemble-undetected", find=ensemble_undetected),
    Rule(id="ensemble-in-comment", find=ensemble_in_comment),
    Rule(id="composing-name", find=composing_name),
    Rule(id="backend-missing", find=backend_missing),
    Rule(id="max-batch-size", find=max_batch_size),
    Rule(id="preferred-batch-size", find=preferred_batch_size),
    Rule(id="tensors-missing", find=tensors_missing),
    Rule(id="tensor-name", find=tensor_name),
    Rule(id="tensor-type", find=tensor_type),
    Rule(id="tensor-dims", find=tensor_dims),
    Rule(id="decoupled", find=decoupled),
)
