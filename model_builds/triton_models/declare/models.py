"""The kinds of Triton models that a declaration can have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from triton_models.base.suggest import did_you_mean
from triton_models.declare.backends import (
    Dali,
    Fil,
    LibTorch,
    OnnxRuntime,
    PythonBackend,
    TensorFlow,
    TensorRt,
)
from triton_models.declare.environments import Environment
from triton_models.declare.mistakes import Mistake
from triton_models.declare.scheduling import (
    Batching,
    Control,
    DynamicBatching,
    Instances,
    SequenceBatching,
    WarmUp,
)
from triton_models.declare.tensors import Between, DynamicDim, ShapeRange, Tensor, between_mistakes
from triton_models.declare.weights import Weights

# Source: ConvertDataTypeToTorchType of pytorch_backend (src/libtorch_utils.cc, main of 2026-05-13), read on
# 2026-11-21.
_NOT_IN_LIBTORCH = ("UINT16", "UINT32", "UINT64", "BF16")

_MIDDLE = 0.5

Answer: TypeAlias = Literal["scores", "class"]
"""What a forest answers with: scores, or the number of a class."""
Iterations: TypeAlias = Literal["best", "all"]
"""Which iterations of a forest that was stopped early answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PyTorchNetwork:
    """A PyTorch network, exported to ONNX, or to TorchScript for LibTorch.

    Types and shapes of the outputs come from the ONNX file, or from running the exported network.

    ```python
    PyTorchNetwork(
        name="encoder",
        network=network,
        inputs=[Tensor("input_ids", "INT32", [DynamicDim(name="tokens", min=16, max=256)])],
        outputs=["vectors"],
        backend=TensorRt(precision="fp16"),
        max_batch_size=32,
        batching=DynamicBatching(),
        warm_up=WarmUp(),
    )
    ```

    Attributes:
        name: The Triton model's name.
        network: Returns the network with its weights. Import torch in this function, not in the declaration.
        inputs: The arguments of its `forward`, in order, without the batch dimension. Without them, names,
            types and shapes are those of the first example.
        outputs: Names for its return values, in order.
        backend: The backend that runs it.
        max_batch_size: 0 if its tensors have no batch dimension.
        instances: Copies that run at the same time.
        batching: None sends every request by itself. The controls of sequences are inputs of the network too.
        warm_up: Requests that run while it loads.
        labels: For outputs of scores, the file next to the declaration with the names of the classes, one per
            line: `{"SCORES": "classes.txt"}`. Requests get them with Triton's parameter `classification`.
        inputs_between: The values that come, where not all do: `{"X": Between(0, 1, why="pixels")}`.
            The build compares the model with its source on inputs that it draws, and draws only from here.
            Outside nothing is promised, and examples outside are an error.
    """

    name: str
    network: Callable[[], Any]
    outputs: Sequence[str]
    max_batch_size: int
    inputs: Sequence[Tensor] = ()
    backend: OnnxRuntime | TensorRt | LibTorch = field(default_factory=OnnxRuntime)
    instances: Instances = field(default_factory=Instances)
    batching: Batching | None = None
    warm_up: WarmUp | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    inputs_between: Mapping[str, Between] = field(default_factory=dict)

    def mistakes(self) -> Iterator[Mistake]:
        """Yield the mistakes in fields that are wrong only together."""
        yield from _served(self)
        if isinstance(self.backend, LibTorch):
            yield from _for_libtorch(self)
        names = [tensor.name for tensor in self.inputs] + list(self.outputs)
        yield from _repeated(names, field="outputs")
        yield from _controls_of_network(self)
        if not self.outputs:
            what = f"{self.name!r} has no outputs"
            yield Mistake("outputs", what, fix="name the return values of forward()")
        for tensor in self.inputs:
            if tensor.full_type == "TYPE_STRING":
                yield _bad(tensor, "is a string", fix="tokenize it in a model before this one")
            if -1 in tensor.dims:
                yield _bad(tensor, "has the size -1", fix="declare the range of the size as a DynamicDim")
        yield from _unequal_sizes(self.inputs)
        known = [tensor.name for tensor in self.inputs]
        yield from between_mistakes(self.inputs_between, known, owner=self.name)
        yield from _for_tensorrt(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxFile:
    """An existing ONNX file. Its inputs and outputs are read from the file.

    ```python
    OnnxFile(name="churn", weights=S3Weights(url="s3://bucket/churn.onnx"), max_batch_size=64)
    ```

    Attributes:
        name: The Triton model's name.
        weights: The source of the file; by default the declaration's weights.
        profile: For TensorRT, the shapes of every input, batch dimension first.
        optimize: True to optimize it ahead of time, like exported networks, so that it loads faster: fold
            constants and batch normalizations, and remove unused parts. Standard operators stay standard, so
            the file still runs wherever it did.
        backend: The backend that runs it.
        max_batch_size: 0 if its tensors have no batch dimension.
        instances: Copies that run at the same time.
        batching: None sends every request by itself.
        warm_up: Requests that run while it loads.
        labels: For outputs of scores, the file next to the declaration with the names of the classes, one per
            line: `{"SCORES": "classes.txt"}`. Requests get them with Triton's parameter `classification`.
        inputs_between: The values that come, where not all do: `{"X": Between(0, 1, why="pixels")}`.
            The build compares the model with its source on inputs that it draws, and draws only from here.
            Outside nothing is promised, and examples outside are an error.
    """

    name: str
    max_batch_size: int
    weights: Weights | None = None
    profile: Mapping[str, ShapeRange] = field(default_factory=dict)
    optimize: bool = False
    backend: OnnxRuntime | TensorRt = field(default_factory=OnnxRuntime)
    instances: Instances = field(default_factory=Instances)
    batching: Batching | None = None
    warm_up: WarmUp | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    inputs_between: Mapping[str, Between] = field(default_factory=dict)

    def mistakes(self) -> Iterator[Mistake]:
        """Yield the mistakes in fields that are wrong only together."""
        yield from _served(self)
        if self.profile and not isinstance(self.backend, TensorRt):
            fix = "remove it: only TensorRt has one, and other backends accept any shape"
            yield Mistake("profile", "a profile for another backend", fix=fix)
        yield from _for_tensorrt(self)
        for name, shapes in self.profile.items():
            if self.max_batch_size and shapes.max[:1] > (self.max_batch_size,):
                what = f"the profile of {name!r} ends at a batch of {shapes.max[0]}"
                fix = f"end it at max_batch_size, {self.max_batch_size}: larger batches only cost GPU memory"
                yield Mistake("profile", what, fix=fix)
            elif self.max_batch_size and shapes.max[:1] < (self.max_batch_size,):
                what = f"the profile of {name!r} ends at {list(shapes.max)}"
                fix = f"end it at a batch of max_batch_size, {self.max_batch_size}: larger ones would fail"
                yield Mistake("profile", what, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonModel:
    """A model.py for Triton's Python backend.

    ```python
    PythonModel(
        name="tokenizer",
        code="tokenizer.py",
        inputs=[Tensor("TEXT", "STRING", [1])],
        outputs=[Tensor("input_ids", "INT32", [-1])],
        packages=["tokenizers"],
        max_batch_size=32,
    )
    ```

    Attributes:
        name: The Triton model's name.
        code: The file next to the declaration that becomes model.py.
        inputs: Its inputs, without the batch dimension.
        outputs: Its outputs.
        max_batch_size: 0 if its tensors have no batch dimension.
        calls: Models of the declaration that its code calls with `CalledModels`. Triton calls this business
            logic scripting (BLS). Such a model has one instance.
        files: More files next to the declaration.
        weights_files: Paths in the folder of the declaration's weights; of weights of one file, its name.
        packages: Installed Python packages to copy into the artifact; the Triton images only have numpy.
        environment: The environment that replaces the image's packages: `Wheels`, or a `PackedEnvironment`.
        parameters: Parameters of the configuration that its code reads.
        backend: Options of the backend.
        instances: Copies that run at the same time; by default on the CPU, where Python code runs.
        batching: None sends every request by itself.
        warm_up: Requests that run while it loads.
    """

    name: str
    code: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    max_batch_size: int
    calls: Sequence[str] = ()
    files: Sequence[str] = ()
    weights_files: Sequence[str] = ()
    packages: Sequence[str] = ()
    environment: Environment | None = None
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)
    backend: PythonBackend = field(default_factory=PythonBackend)
    instances: Instances = field(default_factory=lambda: Instances(kind="KIND_CPU"))
    batching: Batching | None = None
    warm_up: WarmUp | None = None

    def mistakes(self) -> Iterator[Mistake]:
        """Yield the mistakes in fields that are wrong only together."""
        yield from _served(self)
        filled = [each.name for each in controls_of(self)]
        yield from _repeated([*(tensor.name for tensor in self.inputs), *filled], field="inputs")
        yield from _repeated([tensor.name for tensor in self.outputs], field="outputs")
        if self.environment is not None and self.backend.environment is not None:
            what = f"{self.name!r} has an environment, and its backend names another"
            fix = "remove the backend's: the build writes the environment's path into the configuration"
            yield Mistake("environment", what, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class DaliPipeline:
    """A DALI pipeline, which is serialized into model.dali.

    A GPU build decodes on the GPU ("mixed": the CPU reads the stream, and the GPU does the rest). Any other
    build decodes on the CPU, so the same declaration can also be served without a GPU. Both give the same
    result for a JPEG only with `fn.decoders.image(..., jpeg_fancy_upsampling=True)`, which DALI has in every
    release.

    ```python
    DaliPipeline(
        name="images",
        pipeline=pipeline,
        inputs=[Tensor("ENCODED", "UINT8", [-1])],
        outputs=[Tensor("IMAGE", "FP32", [224, 224, 3])],
        max_batch_size=64,
    )
    ```

    Attributes:
        name: The Triton model's name.
        pipeline: Takes the device that decodes, "mixed" or "cpu", and returns the pipeline's outputs. Each
            input is a `fn.external_source` on the CPU with the input's name. Import nvidia.dali in this
            function, not in the declaration.
        inputs: Its inputs, without the batch dimension. All samples of a request must have the same shape;
            pad them.
        outputs: Its outputs, in the pipeline's order.
        max_batch_size: The largest batch, 1 or more: DALI always works on batches.
        backend: Options of the backend.
        instances: Copies that run at the same time. NVIDIA recommends one, because each uses separate memory.
        batching: None sends every request by itself. With it, requests are joined whatever the lengths of
            their files: on an H200, 8 photographs at once were 1.9 times as many per second. But a file that
            cannot be decoded then fails all requests of its batch, so declare it for files of your own, not
            for those of strangers.
        warm_up: Requests that run while it loads. They need an example, because zeros are not a valid image.
    """

    name: str
    pipeline: Callable[[str], Any]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    max_batch_size: int
    backend: Dali = field(default_factory=Dali)
    instances: Instances = field(default_factory=Instances)
    batching: DynamicBatching | None = None
    warm_up: WarmUp | None = None

    def mistakes(self) -> Iterator[Mistake]:
        """Yield the mistakes in fields that are wrong only together."""
        yield from _served(self)
        yield from _repeated([tensor.name for tensor in self.inputs], field="inputs")
        yield from _repeated([tensor.name for tensor in self.outputs], field="outputs")
        if not self.inputs or not self.outputs:
            what = f"{self.name!r} has {len(self.inputs)} inputs and {len(self.outputs)} outputs"
            yield Mistake("inputs", what, fix="name its external sources and its outputs")
        yield from _batched(self, "DALI works on batches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A forest of decision trees: XGBoost, LightGBM, scikit-learn or Treelite, on a GPU or a CPU.

    Its input is `input__0`, FP32, one number per feature; a missing value is NaN. Its output is `output__0`,
    FP32. The build writes the forest as a checkpoint of Treelite, which every release from 24.03 on reads,
    whichever version of the framework trained it.

    On a GPU, all forests of an instance share the server's pool (`TritonServer.cuda_memory_pool`). Some
    forests cannot be loaded there: those with `num_parallel_tree` and several classes, and before release
    25.09 those whose scores are neither plain sums nor probabilities, such as Poisson's. The build places
    them on the CPU, with a note; the answers are the same.

    ```python
    Forest(name="churn", weights=S3Weights(url="s3://bucket/churn.ubj"), max_batch_size=4096)
    ```

    Attributes:
        name: The Triton model's name.
        weights: The source of the file: XGBoost's .json, .ubj or (of versions before 3.1) .bin, LightGBM's
            .txt or .lgb, or Treelite's .tl. By default the declaration's weights.
        estimator: Instead of a file, a function that returns a fitted forest of scikit-learn, XGBoost or
            LightGBM. Import the framework in it.
        answer: "scores" answers with the probability of each class, and of a regression with its value.
            "class" answers with the number of the class.
        iterations: For a forest that was stopped early: "best" answers with the iterations up to the best
            one, "all" with all of them. By default those with which its own predict() answers. XGBoost's
            Booster may be called both ways, so its file needs one of them.
        threshold: The probability above which a classifier of two classes answers with class 1.
        known_categories: A promise that requests have no categories that training had not, which
            scikit-learn takes for missing and the backend does not. The build then compares without them.
        max_batch_size: The largest batch, 1 or more. Rows are cheap: thousands are common.
        backend: Options of the backend.
        instances: Copies that run at the same time. kind="KIND_CPU" is often faster for a few rows.
        batching: None sends every request by itself.
        warm_up: Requests that run while it loads.
    """

    name: str
    max_batch_size: int
    weights: Weights | None = None
    estimator: Callable[[], Any] | None = None
    answer: Answer = "scores"
    iterations: Iterations | None = None
    threshold: float = _MIDDLE
    known_categories: bool = False
    backend: Fil = field(default_factory=Fil)
    instances: Instances = field(default_factory=Instances)
    batching: DynamicBatching | None = None
    warm_up: WarmUp | None = None

    def mistakes(self) -> Iterator[Mistake]:
        """Yield the mistakes in fields that are wrong only together."""
        yield from _served(self)
        yield from _batched(self, "the backend works on batches")
        if self.weights is not None and self.estimator is not None:
            what = f"{self.name!r} has weights and an estimator"
            yield Mistake("estimator", what, fix="remove the one that is not served")
        if not 0 < self.threshold < 1 or (self.threshold != _MIDDLE and self.answer != "class"):
            what = f'threshold {self.threshold} of {self.name!r}, whose answer is "{self.answer}"'
            fix = 'use a number between 0 and 1, with answer="class", or remove it'
            yield Mistake("threshold", what, fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFlowGraph:
    """A frozen TensorFlow graph, for Triton up to release 25.02. The graph is not read: declare its tensors.

    ```python
    TensorFlowGraph(
        name="inception",
        inputs=[Tensor("input", "FP32", [299, 299, 3])],
        outputs=[Tensor("InceptionV3/Predictions/Softmax", "FP32", [1001])],
        max_batch_size=64,
    )
    ```

    Attributes:
        name: The Triton model's name.
        inputs: The graph's inputs with their names in the graph, without the batch dimension.
        outputs: The graph's outputs with their names in the graph, without the batch dimension.
        max_batch_size: 0 if its tensors have no batch dimension.
        weights: The source of the file; by default the declaration's weights.
        backend: The backend that runs it.
        instances: Copies that run at the same time.
        batching: None sends every request by itself.
        warm_up: Requests that run while it loads.
        labels: For outputs of scores, the file next to the declaration with the names of the classes, one per
            line: `{"SCORES": "classes.txt"}`. Requests get them with Triton's parameter `classification`.
    """

    name: str
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    max_batch_size: int
    weights: Weights | None = None
    backend: TensorFlow = field(default_factory=TensorFlow)
    instances: Instances = field(default_factory=Instances)
    batching: DynamicBatching | None = None
    warm_up: WarmUp | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def mistakes(self) -> Iterator[Mistake]:
        """Yield the mistakes in fields that are wrong only together."""
        yield from _served(self)
        yield from _repeated([tensor.name for tensor in (*self.inputs, *self.outputs)], field="outputs")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleStep:
    """One composing model of an ensemble.

    ```python
    EnsembleStep(model_name="images", inputs={"ENCODED": "INPUT"}, outputs={"IMAGE": "pixels"})
    ```

    Attributes:
        model_name: The composing model's name, which is also the name of its directory.
        inputs: The ensemble's tensor for each of the composing model's inputs, by input name.
        outputs: The ensemble's tensor for each of the composing model's outputs, by output name.
    """

    model_name: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ensemble:
    """Models that pass tensors on by name. Its inputs, outputs, types and shapes are derived from its steps.

    ```python
    Ensemble(name="sentences", steps=["tokenizer", "encoder", "pooling"])
    ```

    Attributes:
        name: The Triton model's name.
        steps: The names of its models. Tensors with equal names are connected; use an EnsembleStep to map
            names that differ.
        outputs: Its outputs; by default every tensor that no step reads.
    """

    name: str
    steps: Sequence[str | EnsembleStep]
    outputs: Sequence[str] = ()

    def mistakes(self) -> Iterator[Mistake]:
        """Check that it has steps."""
        if not self.steps:
            yield Mistake("steps", f"the ensemble {self.name!r} has no steps", fix="name its models")


Network: TypeAlias = PyTorchNetwork | OnnxFile
ServedModel: TypeAlias = Network | PythonModel | DaliPipeline | Forest | TensorFlowGraph
Model: TypeAlias = ServedModel | Ensemble


def controls_of(model: ServedModel) -> Sequence[Control]:
    """Return the inputs that the server fills."""
    return model.batching.controls if isinstance(model.batching, SequenceBatching) else ()


def steps_of(ensemble: Ensemble) -> list[EnsembleStep]:
    """Return the steps of an ensemble, with an EnsembleStep for steps given by name."""
    return [EnsembleStep(model_name=step) if isinstance(step, str) else step for step in ensemble.steps]


def unknown_steps(ensemble: Ensemble, known: Sequence[str]) -> Iterator[Mistake]:
    """Yield a mistake per step that is not a model of the declaration."""
    for step in steps_of(ensemble):
        if step.model_name not in known:
            what = f"the ensemble {ensemble.name!r} has the step {step.model_name!r}"
            fix = did_you_mean(step.model_name, known, otherwise="declare that model too")
            yield Mistake("steps", what, fix=fix, owner=ensemble)


def _served(model: ServedModel) -> Iterator[Mistake]:
    if model.max_batch_size < 0:
        fix = "write the largest batch, or 0 if the tensors have no batch dimension"
        yield Mistake("max_batch_size", f"max_batch_size {model.max_batch_size} of {model.name!r}", fix=fix)
        return
    if isinstance(model.batching, DynamicBatching) and model.max_batch_size == 0:
        what = f"{model.name!r} joins requests, with max_batch_size 0"
        yield Mistake("batching", what, fix="raise max_batch_size, or remove batching")
    if controls_of(model) and model.warm_up is not None:
        fix = "remove the warm-up: its requests have no controls, so it fails and nothing loads"
        yield Mistake("warm_up", f"{model.name!r} has a warm-up and controls of sequences", fix=fix)
    largest = max(model.max_batch_size, 1)
    preferred = model.batching.preferred if isinstance(model.batching, DynamicBatching) else ()
    warm = model.warm_up.batch_sizes if model.warm_up is not None else ()
    for name, given in (("batching", preferred), ("warm_up", warm)):
        if given and max(given) > largest:
            what = f"{name} of {model.name!r} has a batch of {max(given)}"
            yield Mistake(name, what, fix=f"use at most {largest}, or raise max_batch_size")


def _batched(model: ServedModel, why: str) -> Iterator[Mistake]:
    if model.max_batch_size == 0:
        what = f"max_batch_size 0 of {model.name!r}"
        yield Mistake("max_batch_size", what, fix=f"write the largest batch, 1 or more: {why}")


def _for_tensorrt(network: Network) -> Iterator[Mistake]:
    if not isinstance(network.backend, TensorRt):
        return
    best, small, largest = network.backend.opt_batch, network.backend.small_batch, network.max_batch_size
    if best is not None and not 1 <= best <= largest:
        fix = f"use 1 to max_batch_size, {largest}, or remove it"
        yield Mistake("backend", f"opt_batch {best} for TensorRT", fix=fix)
    if small and small >= largest:
        fix = f"use less than max_batch_size, {largest}, or remove it"
        yield Mistake("backend", f"small_batch {small} for TensorRT", fix=fix)


def _for_libtorch(network: PyTorchNetwork) -> Iterator[Mistake]:
    for tensor in network.inputs:
        if tensor.full_type.removeprefix("TYPE_") in _NOT_IN_LIBTORCH:
            yield _bad(tensor, f"is {tensor.data_type}, for LibTorch", fix="cast it inside")
    inputs = [tensor.name for tensor in network.inputs]
    for field_name, names in (("inputs", inputs), ("outputs", list(network.outputs))):
        for position, name in enumerate(names):
            word, mark, index = name.partition("__")
            usual = f"{field_name[:-1].upper()}__{position}"
            if not (word and mark and index == str(position)):
                yield Mistake(
                    field_name,
                    f"{network.name!r} has the tensor {name!r} at position {position}, for LibTorch",
                    fix=f"call it {usual}, or any name that ends with __{position}",
                )


def _controls_of_network(network: PyTorchNetwork) -> Iterator[Mistake]:
    known = {tensor.name: tensor.full_type for tensor in network.inputs}
    for control in controls_of(network):
        if known and known.get(control.name) != f"TYPE_{control.data_type}":
            what = f"{network.name!r} has no input {control.name!r} of {control.data_type}"
            yield Mistake("inputs", what, fix=f'add Tensor("{control.name}", "{control.data_type}", [1])')


def _bad(tensor: Tensor, what: str, *, fix: str) -> Mistake:
    return Mistake("inputs", f"input {tensor.name!r} {what}", fix=fix)


def _repeated(names: Sequence[str], *, field: str) -> Iterator[Mistake]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Mistake(field, f"two tensors are called {name!r}", fix="rename one")


def _unequal_sizes(inputs: Sequence[Tensor]) -> Iterator[Mistake]:
    sizes: dict[str, DynamicDim] = {}
    for size in (size for tensor in inputs for size in tensor.dims if isinstance(size, DynamicDim)):
        if sizes.setdefault(size.name, size) != size:
            what = f"two sizes are called {size.name!r}: {sizes[size.name]} and {size}"
            yield Mistake("inputs", what, fix="rename one, or use the same one in both places")
