"""What the backend of ONNX Runtime accepts: its completion and validation of a configuration, ported whole.

Source: onnxruntime_backend, src/onnxruntime.cc and src/onnxruntime_utils.cc, r24.03 to r26.05, which agree on
all of this except BF16 (from r26.03 on); GetBooleanSequenceControlProperties and the typed one of `backend`,
src/backend_common.cc; the default of AutoCompleteMaxBatch in `core`, src/backend_model.cc. Read 2026-11-28.

The backend stops at its first error. These functions return all of them, in its order.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .refusal import Config, Refusal, served_dims  # noqa: TID252  stand-ins import this folder by itself

DEFAULT_MAX_BATCH_SIZE = 4
"""What the server writes for a network that can batch, if it completes the configuration."""

_ONNX_TYPES = {
    kind: f"ONNX_TYPE_{kind.replace('_', '').upper()}" for kind in ("sequence", "map", "sparse_tensor")
}

# ONNX Runtime's names of element types, and Triton's (ConvertFromOnnxDataType).
_ELEMENTS = {
    "float": "FP32",
    "double": "FP64",
    "float16": "FP16",
    "bfloat16": "BF16",
    **{f"{sign}int{bits}": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bool": "BOOL",
    "string": "STRING",
}
_TYPES = frozenset(f"TYPE_{name}" for name in _ELEMENTS.values())
_BF16 = "TYPE_BF16"

# OnnxDataTypeName of types whose name differs from Triton's.
_ONNX_NAMES = {"FP32": "FLOAT", "FP64": "DOUBLE", "FP16": "FLOAT16", "BF16": "BFLOAT16"}

# The controls that the backend counts, and whether their type is in their values.
_CONTROLS = {
    "CONTROL_SEQUENCE_START": True,
    "CONTROL_SEQUENCE_END": True,
    "CONTROL_SEQUENCE_READY": True,
    "CONTROL_SEQUENCE_CORRID": False,
}
_OPEN_ALL = "export the network with an open first size in all inputs and outputs"
_VALUES = {"int32_false_true": "TYPE_INT32", "fp32_false_true": "TYPE_FP32", "bool_false_true": "TYPE_BOOL"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An input, output or overridable initializer, as ONNX Runtime describes it.

    Attributes:
        data_type: As in config.pbtxt; otherwise ONNX's name, such as "COMPLEX64".
        dims: -1 for an open size; () for a scalar, and for a tensor whose number of dimensions ONNX Runtime
            does not know. None is a size that only ONNX Runtime knows, or all of them.
        kind: "tensor", otherwise such as "sequence".
    """

    name: str
    data_type: str
    dims: tuple[int | None, ...] | None
    kind: str = "tensor"

    @property
    def can_batch(self) -> bool:
        """Return True if its first size is open, or if only ONNX Runtime knows it."""
        return self.dims is None or self.dims[:1] in {(-1,), (None,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What a session of ONNX Runtime says of its file."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    initializers: tuple[Tensor, ...] = ()

    def tensors(self, side: str) -> dict[str, Tensor]:
        """Return the tensors that a configuration may list as "input" or "output", by name."""
        tensors = (*self.inputs, *self.initializers) if side == "input" else self.outputs
        return {tensor.name: tensor for tensor in tensors}

    @property
    def fixed(self) -> list[Tensor]:
        """The inputs and outputs that cannot batch, as AutoCompleteMaxBatch decides."""
        return [tensor for tensor in (*self.inputs, *self.outputs) if not tensor.can_batch]


def network_of(session: Any) -> Network:
    """Return what an `onnxruntime.InferenceSession` says of its file."""
    return Network(
        inputs=tuple(map(_described, session.get_inputs())),
        outputs=tuple(map(_described, session.get_outputs())),
        initializers=tuple(map(_described, session.get_overridable_initializers())),
    )


def _described(entry: Any) -> Tensor:
    kind, _, element = str(entry.type).removesuffix(")").partition("(")
    if kind != "tensor":
        return Tensor(name=entry.name, data_type=kind, dims=(), kind="sequence" if kind == "seq" else kind)
    known = _ELEMENTS.get(element)
    sizes = (size if isinstance(size, int) and size >= 0 else -1 for size in entry.shape)
    data_type = f"TYPE_{known}" if known else element.upper()
    return Tensor(name=entry.name, data_type=data_type, dims=tuple(sizes))


def refusals(
    config: Config, network: Network, *, model: str, completes: bool = False, has_bf16: bool = True
) -> list[Refusal]:
    """Return why the backend refuses a configuration before its completion; nothing if it loads the model.

    Args:
        config: The configuration.
        network: What ONNX Runtime says of the file.
        model: The model's name, in the messages.
        completes: True if the server completes configurations.
        has_bf16: True for releases from 26.03 on.
    """
    unsupported = list(_unsupported(network))
    if unsupported:
        return unsupported
    is_complete = bool(config.get("input") or config.get("batch_input")) and bool(config.get("output"))
    if completes and not is_complete:
        if config.get("max_batch_size") and network.fixed:
            return [
                Refusal(
                    message=f"autofill failed for model '{model}': model does not support batching while "
                    "non-zero max_batch_size is specified",
                    what=_no_batch(network.fixed),
                    at="max_batch_size",
                    fix=f"write max_batch_size: 0, or {_OPEN_ALL}",
                )
            ]
        config = complete(config, network)
    rule = _Rule(config=config, network=network, model=model, has_bf16=has_bf16)
    return [
        *_undescribed(config),
        *rule.controls(),
        *rule.counts(),
        *rule.tensors("input"),
        *rule.tensors("output"),
        *rule.batches(),
    ]


def request_refusals(config: Config, network: Network) -> Iterator[Refusal]:
    """Yield what the backend loads and then fails with at every request: unknown states and batch inputs."""
    for side in ("input", "output"):
        known = list(network.tensors(side))
        for name in (state[f"{side}_name"] for state in _sequences(config).get("state", ())):
            if name not in known:
                yield Refusal(
                    message=f"Invalid {side.title()} Name:{name}",
                    what=f"the network has no {side} {name!r}, which a state names",
                    at="sequence_batching: state",
                    fix=_suggest(name, known),
                )


# AutoCompleteConfig


def complete(config: Config, network: Network) -> dict[str, Any]:
    """Return the configuration as the backend completes it, if a side is empty and the server lets it."""
    completed = dict(config)
    if not (network.fixed or config.get("max_batch_size")):
        completed["max_batch_size"] = DEFAULT_MAX_BATCH_SIZE
    batches = completed.get("max_batch_size", 0) > 0
    if not (config.get("input") or config.get("batch_input")):
        completed["input"] = [complete_tensor(tensor, batches=batches) for tensor in network.inputs]
    if not config.get("output"):
        completed["output"] = [complete_tensor(tensor, batches=batches) for tensor in network.outputs]
    return completed


def complete_tensor(tensor: Tensor, *, batches: bool) -> dict[str, Any]:
    """Return an input or output of config.pbtxt as AutoCompleteIO writes it."""
    sizes = (tensor.dims or ())[1 if batches else 0 :]
    reshape: dict[str, Any] = {"reshape": {"shape": []}} if batches and not sizes else {}
    dims = [-1 if size is None else size for size in sizes] or [1]
    return {"name": tensor.name, "data_type": tensor.data_type, "dims": dims, "optional": False, **reshape}


# ValidateInputs, ValidateOutputs, the sequence controls, and CompareDimsSupported


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """One complete configuration against one network."""

    config: Config
    network: Network
    model: str
    has_bf16: bool

    @property
    def is_batched(self) -> bool:
        return int(self.config.get("max_batch_size", 0)) > 0

    @property
    def unable(self) -> str:
        return f"unable to load model '{self.model}'"

    @property
    def filled(self) -> set[str]:
        """The outputs of which a batch_output has the shape."""
        return {name for entry in self.listed("batch_output") for name in entry.get("target_name", ())}

    def listed(self, side: str) -> Sequence[Mapping[str, Any]]:
        entries: Sequence[Mapping[str, Any]] = self.config.get(side, ())
        return entries

    def controls(self) -> Iterator[Refusal]:
        """ValidateBooleanSequenceControl and ValidateTypedSequenceControl."""
        inputs = {tensor.name: tensor for tensor in self.network.inputs}
        for name, data_type in _controls(self.config):
            own, at = inputs.get(name), f"control_input {name!r}"
            if own is None:
                message = f"configuration specified sequence control '{name}', but model does not provide "
                what, fix = f"the network has no input {name!r} for a sequence control", list(inputs)
                yield Refusal(message=f"{message}that input", what=what, at=at, fix=_suggest(name, fix))
                continue
            sizes = None if own.dims is None else own.dims[self.is_batched :]
            if sizes not in {None, (1,)}:
                shape = "[batch, 1]" if self.is_batched else "[1]"
                yield Refusal(
                    message=f"{self.unable}, sequence control '{name}' in model has dims {_shape(sizes)} "
                    "but dims [1] is expected",
                    what=f"the network's input {name!r}, a control, has the shape {_sizes(own.dims)}",
                    at=at,
                    fix=f"export the network with the shape {shape} for {name!r}",
                )
            if data_type != own.data_type:
                element = own.data_type.removeprefix("TYPE_")
                yield Refusal(
                    message=f"{self.unable}, sequence control '{name}', the model expects data-type "
                    f"{_ONNX_NAMES.get(element, element)} but the model configuration specifies data-type "
                    f"{data_type}",
                    what=f"the sequence control {name!r} is {data_type}",
                    at=at,
                    fix=_control_fix(own),
                )

    def counts(self) -> Iterator[Refusal]:
        """Yield what makes the number of inputs differ from the network's."""
        controls = [name for name, _ in _controls(self.config)]
        states = [state["input_name"] for state in _sequences(self.config).get("state", ())]
        required = [entry for entry in self.listed("input") if not entry.get("optional")]
        count = len([*required, *self.listed("batch_input"), *controls, *states])
        needed = [tensor.name for tensor in self.network.inputs]
        if count == len(needed):
            return
        fed = {name for entry in self.listed("batch_input") for name in entry.get("target_name", ())}
        problems = list(self._miscounted(needed, fed.union(controls, states)))
        if not problems:
            what = f"{count} inputs are configured, and the network has {len(needed)}"
            problems.append((what, "input", f"list each input once: {', '.join(needed) or 'there is none'}"))
        message = f"{self.unable}, configuration expects {count} inputs, model provides {len(needed)}"
        for what, at, fix in problems:
            yield Refusal(message=message, what=what, at=at, fix=fix)

    def _miscounted(self, needed: Sequence[str], fed: set[str]) -> Iterator[tuple[str, str, str]]:
        names, known = {entry["name"] for entry in self.listed("input")}, self.network.tensors("input")
        for name in needed:
            if name not in names | fed:
                what = f"the network's input {name!r} is missing"
                yield what, "input", f"list every input of the network: {', '.join(needed)}"
        for entry in self.listed("input"):
            name, optional = entry["name"], bool(entry.get("optional"))
            at = f"input {name!r}"
            if name in fed:
                what = f"{at} is also filled by the server"
                yield what, at, "remove it: a batch_input, a control or a state provides it"
            elif optional and name in needed and not self.is_batched:
                yield f"{at} is optional, and the network has no value for it", at, "remove optional"
            elif not optional and name in known and name not in needed:
                fix = "remove it" if self.is_batched else "add optional: true, or remove it"
                yield f"{at} is an initializer: the file has a value for it", at, fix
        for index, entry in enumerate(self.listed("batch_input")):
            targets = entry.get("target_name", ())
            if len(targets) != 1:
                what, at = f"a batch_input with {len(targets)} targets", f"batch_input {index}"
                yield what, at, "write one batch_input for each target_name: the backend counts them"

    def tensors(self, side: str) -> Iterator[Refusal]:
        """ValidateInputs and ValidateOutputs.

        The check of states in the latter never runs: it takes the lookup's success for its absence.
        """
        known = self.network.tensors(side)
        for entry in self.listed(side):
            name = entry["name"]
            at, own = f"{side} {name!r}", known.get(name)
            if entry.get("optional") and self.is_batched:
                has_value = own in self.network.initializers
                yield Refusal(
                    message=f"{self.unable}, optional input '{name}' is not supported for models that "
                    "support batching",
                    what=f"{at} is optional, in a model with max_batch_size {self.config['max_batch_size']}",
                    at=at,
                    fix="remove the input: the file has a value for it" if has_value else "remove optional",
                )
            if own is None:
                message = f"unexpected inference {side} '{name}', allowed {side}s are: "
                message += ", ".join(sorted(known))
                what, fix = f"the network has no {side} {name!r}", _suggest(name, list(known))
                yield Refusal(message=message, what=what, at=at, fix=fix)
                continue
            yield from self._type(side, entry, own)
            if entry.get("allow_ragged_batch"):
                yield from self._ragged(name, own)
            elif side == "input" or name not in self.filled:
                yield from self._dims(side, entry, own)

    def _type(self, side: str, entry: Mapping[str, Any], own: Tensor) -> Iterator[Refusal]:
        name, data_type, has_type = entry["name"], str(entry["data_type"]), own.data_type in _TYPES
        what, fix = f"{side} {name!r} is {data_type}", f"write data_type: {own.data_type}, as in the network"
        if data_type not in _TYPES or (data_type == _BF16 and not self.has_bf16):
            message = f"unsupported datatype {data_type} for {side} '{name}' for model '{self.model}'"
            if own.data_type == data_type:
                fix = "cast it to FP32 inside the network, or serve it with release 26.03 or newer"
        elif data_type != own.data_type:
            provides = own.data_type.replace("STRING", "BYTES") if has_type else "TYPE_<invalid>"
            message = f"{self.unable}, configuration expects datatype {data_type} for {side} '{name}', model "
            message += f"provides {provides}"
            if not has_type:
                fix = f"cast it inside the network: Triton has no {own.data_type}"
        else:
            return
        yield Refusal(message=message, what=what, at=f"{side} {name!r}", fix=fix)

    def _ragged(self, name: str, own: Tensor) -> Iterator[Refusal]:
        if own.dims not in {None, (-1,)}:
            yield Refusal(
                message=f"{self.unable}, configuration expects model provides input with shape [-1]  for "
                f"ragged input '{name}', model provides {_shape(own.dims)}",
                what=f"input {name!r} is ragged, and the network takes the shape {_sizes(own.dims)}",
                at=f"input {name!r}",
                fix="remove allow_ragged_batch, or export the network with one open dimension for it",
            )

    def _dims(self, side: str, entry: Mapping[str, Any], own: Tensor) -> Iterator[Refusal]:
        """CompareDimsSupported, and the rule for scalars; `batches` names tensors that cannot batch."""
        dims, name = list(served_dims(entry)), entry["name"]
        if not entry["dims"] or own.dims is None:
            return
        if not own.dims:
            if all(size == 1 for size in dims):
                return
            message = (
                f"{self.unable}, scalar tensor '{name}', should only provide 1 in the model configuration "
                f"when the model doesn't support batching. Model configuration provided: {_shape(dims)}."
            )
        else:
            full = [-1, *dims] if self.is_batched else dims
            is_input = side == "input"  # its open sizes fit any
            fits = len(full) == len(own.dims) and all(
                size in {None, listed} or (size == -1 and is_input)
                for size, listed in zip(own.dims, full, strict=True)
            )
            if fits or (self.is_batched and not own.can_batch):
                return
            message = self._mismatch(name, own.dims, full)
        where = "reshape" if entry.get("reshape") else "dims"
        yield Refusal(
            message=message,
            what=f"{where} of {side} {name!r} are {dims}, and the network has the shape {_sizes(own.dims)}",
            at=f"{side} {name!r}",
            fix=_dims_fix(entry, own, is_batched=self.is_batched),
        )

    def _mismatch(self, name: str, own: Sequence[int | None], full: Sequence[int]) -> str:
        shape = f"shape {_shape(full)}"
        if self.is_batched:
            shape = "an initial batch dimension because max_batch_size > 0 followed by the explicit tensor "
            shape += f"shape, making complete shape {_shape(full)}"
        return (
            f"model '{self.model}', tensor '{name}': the model expects {len(own)} dimensions (shape "
            f"{_shape(own)}) but the model configuration specifies {len(full)} dimensions ({shape})"
        )

    def batches(self) -> Iterator[Refusal]:
        """Yield one refusal for all listed tensors with a fixed first size, if the model batches."""
        listed = [
            self.network.tensors(side)[entry["name"]]
            for side in ("input", "output")
            for entry in self.listed(side)
            if entry["name"] in self.network.tensors(side) and not entry.get("allow_ragged_batch")
        ]
        fixed = [
            tensor
            for tensor in listed
            if tensor.dims and not tensor.can_batch and tensor.name not in self.filled
        ]
        if not (self.is_batched and fixed):
            return
        sizes = "; ".join(
            f"{tensor.name} {_as_dims(tensor.dims or (1,))}" for tensor in listed if tensor.dims is not None
        )
        yield Refusal(
            message=f"model '{self.model}', tensor '{fixed[0].name}': for the model to support batching the "
            "shape should have at least 1 dimension and the first dimension must be -1; but shape expected "
            f"by the model is {_shape(fixed[0].dims)}",
            what=_no_batch(fixed),
            at="max_batch_size",
            fix=f"write max_batch_size: 0, and all sizes as dims, without reshape: {sizes}; or {_OPEN_ALL}",
        )


def _undescribed(config: Config) -> Iterator[Refusal]:
    """Yield listed tensors that have no dims, or a completed size of 0 (ValidateIOShape of Triton core)."""
    for side in ("input", "output"):
        for entry in config.get(side, ()):
            at = f"{side} {entry['name']!r}"
            message, what = "must specify 'dims'", f"{at} has no dims"
            fix = f"write its dims, or remove every {side}: the backend completes an empty list alone"
            if entry["dims"]:
                message = "dimension must be integer >= 1, or -1 to indicate a variable-size dimension"
                what, fix = f"{at} has a size of 0", "export the network with a size of 1 or more"
            if not entry["dims"] or 0 in map(int, entry["dims"]):
                message = f"model {side} '{entry['name']}' {message}"
                yield Refusal(message=message, what=what, at=at, fix=fix)


def _unsupported(network: Network) -> Iterator[Refusal]:
    """Yield the inputs and outputs that are no tensors, listed or not (InputOutputInitializerInfos)."""
    sides = (("input", network.inputs), ("output", network.outputs), ("input", network.initializers))
    for side, tensor in ((side, tensor) for side, tensors in sides for tensor in tensors):
        if tensor.kind == "tensor":
            continue
        onnx_type = _ONNX_TYPES.get(tensor.kind, "ONNX_TYPE_UNKNOWN")
        fix = f"remove the {side} from the network, or export it as a tensor"
        if tensor.kind == "sequence" and side == "output":
            fix += ": scikit-learn's exporters do with zipmap=False"
        yield Refusal(
            message=f"Unsupported ONNX Type '{onnx_type}' for I/O '{tensor.name}', expected "
            "'ONNX_TYPE_TENSOR'.",
            what=f"the network's {side} {tensor.name!r} is a {tensor.kind}, not a tensor",
            at=f"{side} {tensor.name!r}",
            fix=fix,
        )


def _sequences(config: Config) -> Mapping[str, Any]:
    sequences: Mapping[str, Any] = config.get("sequence_batching") or {}
    return sequences


def _controls(config: Config) -> Iterator[tuple[str, str]]:
    """Yield the input and the data type of each control that the backend validates, once per kind."""
    inputs = _sequences(config).get("control_input", ())
    controls = [(entry["name"], control) for entry in inputs for control in entry.get("control", ())]
    for kind, is_boolean in _CONTROLS.items():
        for name, control in [entry for entry in controls if entry[1]["kind"] == kind][:1]:
            types = (data_type for field, data_type in _VALUES.items() if control.get(field))
            yield name, next(types, "") if is_boolean else str(control.get("data_type"))


def _control_fix(own: Tensor) -> str:
    field = next((field for field, data_type in _VALUES.items() if data_type == own.data_type), None)
    if field is None:
        return f"write data_type: {own.data_type}, or export the input as another type"
    values = "false, true" if field.startswith("bool") else "0, 1"
    return f"write {field}: [ {values} ], or data_type: {own.data_type} for a correlation id"


def _no_batch(tensors: Sequence[Tensor]) -> str:
    names = ", ".join(f"{tensor.name!r} {_sizes(tensor.dims)}" for tensor in tensors)
    return f"the network cannot batch: the first size of {names} is not open"


def _dims_fix(entry: Mapping[str, Any], own: Tensor, *, is_batched: bool) -> str:
    """Return what to write so that the backend accepts the tensor's sizes."""
    sizes, remove = (own.dims or ())[is_batched:], "remove reshape, and " if entry.get("reshape") else ""
    if sizes:
        return f"{remove}write dims: {_as_dims(sizes)}{', without the batch' * is_batched}"
    if is_batched and own.dims:
        return "write dims: [ 1 ] and reshape { shape: [ ] }: the network has no dimension besides the batch"
    return f"{remove}write dims: [ 1 ]"


def _shape(dims: Iterable[int | None] | None, *, separator: str = ",") -> str:
    """Return ShapeToString."""
    return f"[{separator.join('-1' if size is None else str(size) for size in dims or ())}]"


def _sizes(dims: Iterable[int | None] | None) -> str:
    return _shape(dims, separator=", ")


def _as_dims(sizes: Iterable[int | None]) -> str:
    return f"[ {_sizes(sizes)[1:-1]} ]"


def _suggest(name: str, known: Sequence[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1)
    if matches:
        return f"did you mean {matches[0]!r}?"
    return f"use one of {', '.join(known)}" if known else "remove it: the network has none"
