"""The declaration of a model: BUILD in its build.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from triton_models.base.errors import FleetError
from triton_models.declare.backends import LibTorch, OnnxRuntime, TensorRt
from triton_models.declare.ensembles import Interface, connect
from triton_models.declare.mistakes import Mistake
from triton_models.declare.models import (
    Ensemble,
    Model,
    OnnxFile,
    PythonModel,
    TensorFlowGraph,
    unknown_steps,
)
from triton_models.declare.tensors import Tensor
from triton_models.declare.weights import HubWeights, LocalWeights, PackageWeights, S3Weights, Weights
from triton_models.facts.tensorrt import Precision

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Tensors: TypeAlias = Mapping[str, NDArray[Any]]
else:
    Tensors = Mapping[str, Any]
"""Tensors by name. The first dimension is the batch; BYTES tensors are object arrays of `bytes`."""

# The name becomes a folder, an S3 key and a Triton model. "OOM" is left out because Triton's SageMaker port
# takes any error text with that word for "out of memory" and answers 507 (sagemaker_server.cc of the Triton
# server).
_NAME = re.compile(r"(?!.*OOM)[A-Za-z0-9][A-Za-z0-9_.-]*")
NAME_RULE = "letters, digits, '_', '.' and '-', without 'OOM'"


def is_name(text: str) -> bool:
    """Return whether a model can have a name."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One request: what the rehearsal sends and what the reference is computed for.

    Attributes:
        name: A few words for the table, such as "longer than the limit".
        inputs: The tensors of the request.
    """

    name: str
    inputs: Tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDefinition:
    """The declaration of a model: what it consists of, and what it must answer.

    Attributes:
        name: The model's name: its folder, its artifact and what applications ask for.
        description: One line on what it does.
        examples: Requests that any build of it must answer.
        reference: The source framework's answer to the inputs of a request: the outputs to compare, by
            their names. Without one a build is only seen to load and to answer in the declared shapes.
        output: The output that is shown and described first.
        tolerance: Largest absolute difference allowed between an answer and the reference, per component:
            one for all, or one for each precision that it is built in: "fp32", "tf32" or "fp16", as its
            backends declare. A reference needs one.
        models: The Triton models it consists of: one of its name, or an ensemble of its name and its steps.
        weights: The source of the weights, which build.json records.
        write: Instead of `models`, or after them: makes more model directories with `BuildJob.model` and
            fills them, for what no class of `triton_models.spec` says. Plans come from
            `BuildJob.compile_plan`: where the folder's code calls it, the model is tied to the GPU.
        requires: Python modules beyond requirements.txt that its build or its reference imports, such as
            "nvidia.dali". Where one is missing, `fleet build` says what to install.
        custom_image_adds: Backends, agents of the model repository and modules of Python that an image of
            your own adds to those of the release's image, for what `write` makes and what model.py imports.
    """

    name: str
    description: str
    examples: Callable[[], list[Example]]
    reference: Callable[[Tensors], Tensors] | None = None
    output: str
    tolerance: float | Mapping[Precision, float] | None = None
    models: Sequence[Model] = ()
    weights: Weights | None = None
    write: Callable[[Any], None] | None = None
    requires: Sequence[str] = ()
    custom_image_adds: Sequence[str] = ()

    @property
    def precisions(self) -> frozenset[Precision]:
        """The precisions of a build for a GPU besides FP32: those of its plans, and TF32."""
        backends = [model.backend for model in self.models if not isinstance(model, Ensemble)]
        coarse = (each for each in backends if isinstance(each, OnnxRuntime | LibTorch) and each.tf32)
        return frozenset(each.precision for each in (*coarse, *_plans(backends)))

    def allowed(self, precision: Precision = "fp32") -> float:
        """The largest difference allowed at a precision; of a build without plans, that is FP32.

        Raises:
            FleetError: The declaration does not say.
        """
        if isinstance(self.tolerance, int | float):
            return self.tolerance
        if self.tolerance is not None and precision in self.tolerance:
            return self.tolerance[precision]
        raise FleetError.of(
            what=f"no tolerance for {precision}, only for {', '.join(self.tolerance or ()) or 'nothing'}",
            where=f"the declaration of {self.name!r}",
            expected=f"one for {precision}, which it is built in; a build without plans calculates in fp32",
            why="the built model could not be verified",
            fix=f'add "{precision}" to tolerance={{...}}, with the difference that applications can bear',
            rule="no-tolerance",
        )

    def check_tolerance(self, precisions: Iterable[Precision]) -> None:
        """See that a build in these precisions can be compared with its source, where there is one.

        Raises:
            FleetError: One of them has no tolerance.
        """
        if self.reference is not None:
            for precision in precisions:
                self.allowed(precision)

    def mistakes(self) -> Iterator[Mistake]:
        """The models have names and fit together."""
        if not self.models and self.write is None:
            yield Mistake(
                field="models",
                what=f"{self.name!r} has neither models nor write",
                expected="models=[...], or write=a function of the BuildJob",
                fix="say what it consists of; the folders of the other models show how",
            )
        yield from self._tolerances()
        yield from self._names()
        yield from self._ensembles()
        yield from self._weights()

    def _weights(self) -> Iterator[Mistake]:
        for model in self.models:
            if isinstance(model, PythonModel) and model.weights_files and not _is_folder(self.weights):
                names = ", ".join(model.weights_files)
                yield _bad_weights(f"{model.name!r} takes {names} from the weights", "a folder or repository")
            if isinstance(model, OnnxFile) and not _is_file(model.weights or self.weights):
                yield _bad_weights(f"{model.name!r} is the ONNX file of the weights", "one file")
            if isinstance(model, TensorFlowGraph) and not _is_file(model.weights or self.weights):
                yield _bad_weights(f"{model.name!r} is the frozen graph of the weights", "one file")

    def _tolerances(self) -> Iterator[Mistake]:
        if self.tolerance is None:
            if self.reference is not None:
                yield Mistake(
                    field="tolerance",
                    what=f"{self.name!r} has a reference and no tolerance",
                    expected="0 or more, or such a number for each precision",
                    fix="write the largest difference that an application can bear",
                )
            return
        given = {"": self.tolerance} if isinstance(self.tolerance, int | float) else dict(self.tolerance)
        if not given or not all(value >= 0 for value in given.values()):
            yield Mistake(
                field="tolerance",
                what=f"the tolerance {self.tolerance!r}",
                expected="0 or more, or such a number for each precision",
                fix="write the largest difference that an application can bear",
            )
        for precision in sorted(self.precisions):
            if "" not in given and precision not in given:
                yield Mistake(
                    field="tolerance",
                    what=f"no tolerance for {precision}, which {self.name!r} calculates in",
                    expected=f"one for {precision} too",
                    fix="add it",
                )

    def _names(self) -> Iterator[Mistake]:
        names = [model.name for model in self.models]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield _bad_models(f"two models are called {name!r}", "a name of its own for each", "rename one")
        for model in self.models:
            if not is_name(model.name):
                what = f"the model's name {model.name!r}"
                yield Mistake(field="name", what=what, expected=NAME_RULE, fix="rename it", owner=model)
        if not names or self.write is not None:
            return
        top = next((model for model in self.models if model.name == self.name), None)
        if top is None:
            yield _bad_models(
                f"no model is called {self.name!r}, only {', '.join(names)}",
                "one with the declaration's own name, which applications ask for",
                "rename the model that answers",
            )
        elif len(names) > 1 and not isinstance(top, Ensemble):
            yield _bad_models(
                f"{len(names)} models, and {self.name!r} is no ensemble",
                "one model, or an Ensemble of that name with the others as its steps",
                "add the Ensemble: SageMaker loads one model of an artifact, and what that depends on",
            )

    def _ensembles(self) -> Iterator[Mistake]:
        names = [model.name for model in self.models]
        for ensemble in (model for model in self.models if isinstance(model, Ensemble)):
            unknown = list(unknown_steps(ensemble, [name for name in names if name != ensemble.name]))
            yield from unknown
            known = {model.name: interface_of(model) for model in self.models}
            if unknown or not all(known.values()):
                continue
            connected = connect(ensemble, {name: each for name, each in known.items() if each})
            yield from connected.mistakes
            answered = [tensor.name for tensor in connected.outputs]
            if ensemble.name == self.name and self.output not in answered:
                yield Mistake(
                    field="output",
                    what=f"the output {self.output!r}",
                    expected=f"one of {', '.join(answered)}",
                    fix="name an output of the ensemble",
                )


def _plans(backends: Iterable[Any]) -> list[TensorRt]:
    return [each for each in backends if isinstance(each, TensorRt)]


def interface_of(model: Model) -> Interface | None:
    """Return the known interface of a model that is not built yet; None if only a file says it."""
    if isinstance(model, OnnxFile):
        return None
    if isinstance(model, Ensemble):
        return Interface(inputs=(), outputs=(), batches=True)
    outputs = [each if isinstance(each, Tensor) else Tensor(each, "", ()) for each in model.outputs]
    return Interface(inputs=model.inputs, outputs=outputs, batches=model.max_batch_size != 0)


def _bad_models(what: str, expected: str, fix: str) -> Mistake:
    return Mistake(field="models", what=what, expected=expected, fix=fix)


def _is_folder(weights: Weights | None) -> bool:
    whole_repository = isinstance(weights, HubWeights) and weights.file is None
    return whole_repository or isinstance(weights, LocalWeights | PackageWeights)


def _is_file(weights: Weights | None) -> bool:
    one_file = isinstance(weights, HubWeights) and weights.file is not None
    return one_file or isinstance(weights, LocalWeights | S3Weights)


def _bad_weights(what: str, expected: str) -> Mistake:
    return Mistake(
        field="weights",
        what=what,
        expected=f"weights that are {expected}: HubWeights, S3Weights, LocalWeights or PackageWeights",
        fix="say where the weights come from",
    )
