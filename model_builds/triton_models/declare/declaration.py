"""The declaration of a model: BUILD in its build.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.suggest import did_you_mean
from triton_models.declare.backends import OnnxRuntime, TensorRt
from triton_models.declare.ensembles import Interface, call_mistakes, connect, unused_models
from triton_models.declare.mistakes import Mistake
from triton_models.declare.models import (
    Ensemble,
    Forest,
    Model,
    Network,
    OnnxFile,
    PythonModel,
    PyTorchNetwork,
    TensorFlowGraph,
    unknown_steps,
)
from triton_models.declare.tensors import Tensor
from triton_models.declare.weights import (
    HubWeights,
    LocalWeights,
    PackageWeights,
    RegistryWeights,
    S3Weights,
    Weights,
    is_archive,
)
from triton_models.facts.tensorrt import QUANTIZED, Precision

NO_TOLERANCE = Check(id="no-tolerance", source=FROM_ARGUMENTS)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Tensors: TypeAlias = Mapping[str, NDArray[Any]]
else:
    Tensors = Mapping[str, Any]
"""Tensors by name. The first dimension is the batch; BYTES tensors are object arrays of `bytes`."""

# The name becomes a folder, an S3 key and a Triton model. "OOM" is not allowed, because Triton's SageMaker
# port takes every error message with these letters for "out of memory" and answers 507 (sagemaker_server.cc
# of the Triton server).
_NAME = re.compile(r"(?!.*OOM)[A-Za-z0-9][A-Za-z0-9_.-]*")
_FILES: Mapping[type[Model], str] = {OnnxFile: "ONNX file", Forest: "forest", TensorFlowGraph: "frozen graph"}

NAME_RULE = "letters, digits, '_', '.' and '-', without 'OOM'"


def is_name(text: str) -> bool:
    """Return True if a string is a valid name of a model."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An example request, sent by the rehearsal and used to compute the reference.

    ```python
    Example(name="two rows", inputs={"FEATURES": np.zeros((2, 4), np.float32)})
    ```

    Attributes:
        name: A short description for the table, such as "longer than the limit".
        inputs: The tensors of the request; of a sequence, with the requests as the first dimension.
        sequence: True sends a sequence, for a model with `SequenceBatching`: one request after the other,
            each with its part of the inputs. The answers are compared together, so the reference returns them
            with the requests as the first dimension too.
        generated: True if a tool made up the values, as `fleet new` does. Such an example shows that a model
            answers; it proves nothing about FP16. Replace the values with real ones, and remove this.
    """

    name: str
    inputs: Tensors
    sequence: bool = False
    generated: bool = False

    @property
    def first(self) -> Tensors:
        """The tensors of its first request."""
        return {name: each[0] for name, each in self.inputs.items()} if self.sequence else self.inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a new version gets before it becomes current: a share of the requests, or copies of a share.

    Attributes:
        share: Above 0 and below 1; at most 1 for a shadow.
        shadow: True for copies of requests, whose answers are only compared with the current ones.
        tolerance: The largest difference of a shadow's answers; None for that of the declaration.
    """

    share: float
    shadow: bool = False
    tolerance: float | None = None

    @property
    def is_possible(self) -> bool:
        """Whether it has some requests, and not all of them."""
        return 0 < self.share < 1 or (self.shadow and self.share == 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDefinition:
    """The declaration of a model: its parts, and the answers it must give.

    ```python
    ModelDefinition(
        name="tiny",
        description="4 numbers to 2 scores",
        weights=RandomWeights(seed=7),
        models=[
            PyTorchNetwork(
                name="tiny",
                network=network,
                inputs=[Tensor("FEATURES", "FP32", [4])],
                outputs=["SCORES"],
                max_batch_size=32,
            )
        ],
        examples=examples,
        reference=reference,
        output="SCORES",
        tolerance=1e-4,
    )
    ```

    Attributes:
        name: The model's name, also used for its folder, its artifact and by applications.
        description: A description in one line.
        examples: Returns requests that every build of the model must answer.
        reference: Returns the source framework's answer to the inputs of a request: the outputs to compare,
            by name. Without a reference, verification only checks that the model loads and answers with the
            declared shapes.
        output: The output that is shown and described first.
        tolerance: The largest allowed absolute difference between answer and reference, per element: one
            number for all builds, or one for each precision that the backends declare: "fp32", "tf32",
            "fp16", "bf16", "int8" or "fp8". Required with a reference.
        models: The Triton models it consists of: one with its name, or an ensemble with its name, the steps
            of that ensemble, and the models that these call.
        weights: The source of the weights, which build.json records.
        write: A function that creates and fills more model directories with `BuildJob.model`, instead of
            `models` or after them, for models that no class of `triton_models.spec` can declare. It compiles
            plans with `BuildJob.compile_plan`; a model whose folder has a call of it is tied to the GPU.
        requires: Python modules that the build or the reference imports and requirements.txt does not
            install, such as "nvidia.dali". `fleet build` reports how to install a missing one.
        custom_image_adds: Backends, repository agents and Python modules that a custom image adds to those of
            the release's image, for models from `write` and imports of model.py.
        auto_complete: True if the server completes the configurations that `write` makes, which needs
            `TritonServer(auto_complete_config=True)`.
        trial: What each new version gets when it is published: see `fleet rollout`. None makes it current.
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
    auto_complete: bool = False
    trial: Trial | None = None

    def as_sent(self, example: Example) -> Example:
        """Return an example as requests send it: the rows of a forest in FP32, which its backend reads."""
        if not any(isinstance(model, Forest) and model.name == self.name for model in self.models):
            return example
        inputs = {
            name: value.astype("float32") if str(getattr(value, "dtype", "")) == "float64" else value
            for name, value in example.inputs.items()
        }
        return replace(example, inputs=inputs)

    @property
    def precisions(self) -> frozenset[Precision]:
        """The precisions of its plans, and those below FP32 of other backends."""
        return frozenset(
            self.precision(each)
            for each in self._networks
            if isinstance(each.backend, TensorRt) or self.precision(each) != "fp32"
        )

    @property
    def _networks(self) -> list[Network]:
        return [model for model in self.models if isinstance(model, Network)]

    def precisions_without_gpu(self, *, cpu: bool = False) -> frozenset[Precision]:
        """Return the precisions of a build without a GPU, which is portable or for CPUs."""
        return frozenset(self.precision_without_gpu(each, cpu=cpu) for each in self._networks)

    def precision_without_gpu(self, network: Network, *, cpu: bool) -> Precision:
        """Return the precision of a network in such a build: plans are files in FP32, unless quantized.

        For CPUs, no network is in FP16.
        """
        precision, backend = self.precision(network), network.backend
        if precision in QUANTIZED:
            return precision
        return "fp16" if precision == "fp16" and isinstance(backend, OnnxRuntime) and not cpu else "fp32"

    def precision(self, network: Network) -> Precision:
        """Return the precision of a network on a GPU.

        A file keeps its own unless the declaration says otherwise. A network of PyTorch is in FP16 by default
        if there is a tolerance for it.
        """
        if network.backend.precision is not None:
            return network.backend.precision
        if isinstance(network, OnnxFile):
            return "fp32"
        given = self.tolerance if isinstance(self.tolerance, Mapping) else {}
        return "fp16" if "fp16" in given and network.instances.kind != "KIND_CPU" else "fp32"

    def allowed(self, precision: Precision = "fp32") -> float:
        """Return the largest difference allowed at a precision; a build without plans computes in FP32.

        Raises:
            FleetError: The declaration has no tolerance for the precision.
        """
        if isinstance(self.tolerance, int | float):
            return self.tolerance
        if self.tolerance is not None and precision in self.tolerance:
            return self.tolerance[precision]
        what = f"no tolerance for {precision}, only for {', '.join(self.tolerance or ()) or 'nothing'}"
        why = "the built model could not be verified"
        fix = f'add "{precision}" to tolerance={{...}}, with the difference that applications can tolerate'
        raise NO_TOLERANCE.error(what=what, where=f"the declaration of {self.name!r}", why=why, fix=fix)

    def allowed_of(self, precisions: Collection[Precision]) -> float | None:
        """Return the difference allowed in the coarsest precision of a build; None without a reference."""
        return max(map(self.allowed, precisions or ("fp32",))) if self.reference is not None else None

    def widest(self, *, on_gpu: bool = True) -> float:
        """Return the largest difference allowed on an endpoint: on a GPU, plans compute in their precision.

        Raises:
            FleetError: A precision has no tolerance.
        """
        precisions = self.precisions if on_gpu else self.precisions_without_gpu()
        return max(map(self.allowed, precisions or ("fp32",)))

    def check_tolerance(self, precisions: Iterable[Precision]) -> None:
        """Check that there is a tolerance for each of these precisions, if there is a reference.

        Raises:
            FleetError: A precision has no tolerance.
        """
        if self.reference is not None:
            for precision in precisions:
                self.allowed(precision)

    def mistakes(self) -> Iterator[Mistake]:
        """Check that the models have valid names and fit together."""
        if not self.models and self.write is None:
            what = f"{self.name!r} has neither models nor write"
            yield Mistake("models", what, fix="write models=[...], or write=a function of the BuildJob")
        yield from self._tolerances()
        yield from self._names()
        yield from self._ensembles()
        yield from self._output()
        yield from call_mistakes(self.models)
        yield from self._weights()
        if self.trial is not None and not self.trial.is_possible:
            fix = "write more than 0 and less than 1, such as Trial(share=0.05)"
            yield Mistake("trial", f"a share of {self.trial.share!r}", fix=fix)

    def _weights(self) -> Iterator[Mistake]:
        for model in self.models:
            if isinstance(model, PythonModel):
                if model.weights_files and not _is_folder(self.weights):
                    names = ", ".join(model.weights_files)
                    yield _bad_weights(f"{model.name!r} takes {names} from", "a folder or repository")
            elif isinstance(model, OnnxFile | Forest | TensorFlowGraph):
                estimated = isinstance(model, Forest) and model.estimator is not None
                if not estimated and not _is_file(model.weights or self.weights):
                    yield _bad_weights(f"{model.name!r} is the {_FILES[type(model)]} of", "one file")

    def _tolerances(self) -> Iterator[Mistake]:
        fix = "write the largest difference that an application bears, or one for each precision"
        if self.tolerance is None:
            if self.reference is not None:
                yield Mistake("tolerance", f"{self.name!r} has a reference and no tolerance", fix=fix)
            return
        given = {"": self.tolerance} if isinstance(self.tolerance, int | float) else dict(self.tolerance)
        if not given or not all(value >= 0 for value in given.values()):
            yield Mistake("tolerance", f"the tolerance {self.tolerance!r}", fix=fix)
        may_stay = {"fp32" for each in self._networks if each.backend.precision is None}
        for precision in sorted(self.precisions | may_stay):
            if "" not in given and precision not in given:
                what = f"no tolerance for {precision}, a precision of {self.name!r}"
                yield Mistake("tolerance", what, fix=f"add one for {precision}")

    def _names(self) -> Iterator[Mistake]:
        names = [model.name for model in self.models]
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield Mistake("models", f"two models are called {name!r}", fix="rename one")
        for model in self.models:
            if not is_name(model.name):
                what = f"the model's name {model.name!r}"
                yield Mistake("name", what, fix=f"rename it: {NAME_RULE}", owner=model)
        if not names or self.write is not None:
            return
        top = next((model for model in self.models if model.name == self.name), None)
        if top is None:
            fix = "rename the model that answers: applications use the declaration's name"
            yield Mistake("models", f"no model is called {self.name!r}, only {', '.join(names)}", fix=fix)
        elif len(names) > 1 and not isinstance(top, Ensemble):
            fix = "add the Ensemble: SageMaker loads one model per artifact, and the models it depends on"
            yield Mistake("models", f"{len(names)} models, and {self.name!r} is not an ensemble", fix=fix)
        elif unused := unused_models(self.models, self.name):
            what = f"no request to {self.name!r} reaches {', '.join(unused)}"
            yield Mistake("models", what, fix="add them to steps or calls, or remove them")

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
            if ensemble.name == self.name:
                yield from self._unknown_output([tensor.name for tensor in connected.outputs])

    def _output(self) -> Iterator[Mistake]:
        for model in self.models:
            if model.name == self.name and not isinstance(model, Ensemble | OnnxFile | Forest):
                yield from self._unknown_output(
                    [each if isinstance(each, str) else each.name for each in model.outputs]
                )

    def _unknown_output(self, known: Sequence[str]) -> Iterator[Mistake]:
        if known and self.output not in known:
            fix = did_you_mean(self.output, known, otherwise=f"use one of {', '.join(known)}")
            yield Mistake("output", f"the output {self.output!r}", fix=fix)


def interface_of(model: Model) -> Interface | None:
    """Return the interface of a model before it is built; None if only its file has it."""
    if isinstance(model, OnnxFile | Forest) or (isinstance(model, PyTorchNetwork) and not model.inputs):
        return None
    if isinstance(model, Ensemble):
        return Interface(inputs=(), outputs=(), batches=True)
    outputs = [each if isinstance(each, Tensor) else Tensor(each, "", ()) for each in model.outputs]
    return Interface(inputs=model.inputs, outputs=outputs, batches=model.max_batch_size != 0)


def _is_folder(weights: Weights | None) -> bool:
    if isinstance(weights, S3Weights) and not (weights.is_prefix or is_archive(weights.url)):
        return False
    return isinstance(weights, PackageWeights) or (
        isinstance(weights, HubWeights | S3Weights | LocalWeights | RegistryWeights) and weights.file is None
    )


def _is_file(weights: Weights | None) -> bool:
    if isinstance(weights, S3Weights):
        return weights.file is not None or not (weights.is_prefix or is_archive(weights.url))
    if isinstance(weights, LocalWeights):
        return weights.file is not None or not is_archive(weights.path)
    return isinstance(weights, RegistryWeights) or (
        isinstance(weights, HubWeights) and weights.file is not None
    )


def _bad_weights(what: str, kind: str) -> Mistake:
    fix = f"set weights that are {kind}, such as HubWeights, S3Weights or LocalWeights"
    return Mistake("weights", f"{what} the weights", fix=fix)
