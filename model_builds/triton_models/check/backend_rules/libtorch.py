"""How the PyTorch backend takes a TorchScript network.

ValidateBooleanSequenceControl, ValidateTypedSequenceControl, GetNamingConvention, ValidateInputs,
ValidateOutputs, SetInputTensors, Execute and ReadOutputTensors of pytorch_backend (src/libtorch.cc of r24.03,
r24.09 and r25.09; src/pt/model_instance_state.cc of r26.05), and ConvertDataTypeToTorchType of
src/libtorch_utils.cc. They are the same in the four releases; read 2026-11-28.

Types are as TorchScript writes them: "Tensor", "Dict[str, Tensor]", "Optional[Tensor]".
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .refusal import Config, Refusal, served_dims  # noqa: TID252  also found outside this repository

TENSOR, STRINGS, TENSORS = "Tensor", "List[str]", "Dict[str, Tensor]"

TYPES = frozenset(
    f"TYPE_{name}"
    for name in ("BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "STRING")
)
"""The data types that the backend converts. STRING becomes List[str]."""

# What registers operators in C++, so that they exist without the Python package, in 2.13 or before; and the
# libraries that the backend links: TRITON_PYTORCH_ENABLE_TORCHVISION and _TORCHTRT of its CMakeLists.txt
# (r24.03 to r26.05). Read 2026-11-29.
_NAMESPACES = frozenset(
    [
        *("_c10d_functional", "_quantized", "aten", "c10d", "inductor", "mkl", "mkldnn", "mkldnn_prepacked"),
        *("onednn", "onnx", "prepacked", "prim", "profiler", "quantization", "quantized", "sparse"),
        *("static_runtime", "symm_mem", "tensorrt", "torchvision"),
    ]
)
_CONTROLS = ("CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_READY")
_FAILURE = "PyTorch execute failure: "
_CORRELATION = "CONTROL_SEQUENCE_CORRID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The signature of a forward(): its arguments' types by name, in order, and the type that it returns."""

    arguments: Mapping[str, str]
    returns: str

    @property
    def takes_dictionary(self) -> bool:
        """Return True if all inputs are entries of one dictionary."""
        return len(self.arguments) == 1 and _is_dictionary(next(iter(self.arguments.values())))


def unknown_operators(operators: Iterable[str]) -> list[str]:
    """Return operators, such as "my::mish", that only the process that exported the file has."""
    return [operator for operator in operators if operator.partition("::")[0] not in _NAMESPACES]


def load_refusals(config: Config, script: Script) -> list[Refusal]:
    """Return why the backend does not load the model, its first reason first."""
    return [
        *_refused_controls(config),
        *_refused_arguments(config, script),
        *_refused_tensors(config, "input"),
        *_refused_names(config, script),
        *_refused_tensors(config, "output"),
    ]


def request_failures(config: Config, script: Script) -> list[Refusal]:
    """Return why the model loads and then fails every request."""
    return [*_failing_inputs(config, script), *_failing_outputs(config, script)]


def input_positions(config: Config, script: Script) -> dict[str, int]:
    """Return the argument to which the backend passes each tensor: its input_index_map_."""
    inputs = _names(config, "input")
    if script.takes_dictionary:
        return {name: position for position, name in enumerate(inputs)}
    convention, arguments = _input_convention(config, script), list(script.arguments)
    positions = {name: _index(name) or 0 for name, _ in _controls(config).values()}
    batch_inputs = [name for batch in config.get("batch_input", ()) for name in batch["target_name"]]
    states = [state["input_name"] for state in _states(config)]
    for position, name in (*enumerate(inputs), *enumerate(states), *enumerate(batch_inputs, len(inputs))):
        if convention == "index":
            positions[name] = _index(name) or 0
        elif convention == "order":
            positions[name] = position
        else:
            # The backend looks up a name that it did not store, which creates the position 0.
            positions[name] = arguments.index(name) if name in arguments else 0
    return positions


def output_positions(config: Config) -> dict[str, int]:
    """Return which of the returned tensors the backend takes for each output: its output_index_map_."""
    states = {state["output_name"]: _index(state["output_name"]) or 0 for state in _states(config)}
    return positions_of(_names(config, "output")) | states


def positions_of(names: Sequence[str]) -> dict[str, int]:
    """Return the positions that names like X__1 have, or those of their order if one is not like that."""
    indices = [_index(name) for name in names]
    by_index = None not in indices
    return {
        name: (index or 0) if by_index else position
        for position, (name, index) in enumerate(zip(names, indices, strict=True))
    }


# What refuses to load


def _refused_controls(config: Config) -> Iterator[Refusal]:
    at = "sequence_batching: control_input"
    for kind, (name, data_type) in _controls(config).items():
        if _index(name) is None:
            yield Refusal(
                message=f"input '{name}' does not follow <name>__<index> naming convention.",
                what=f"the control input {name!r} does not say which argument of forward() it is",
                at=at,
                fix=f"name it {name}__1, with the position of its argument, counted from 0",
            )
        if kind == _CORRELATION and data_type not in TYPES - {"TYPE_STRING"}:
            message = f"input '{name}' type '{data_type}' is not supported by PyTorch."
            what, fix = f"the control input {name!r} is {data_type}", "write data_type: TYPE_INT64"
            yield Refusal(message=message, what=what, at=at, fix=fix)


def _refused_arguments(config: Config, script: Script) -> Iterator[Refusal]:
    if script.takes_dictionary:
        return
    types = list(script.arguments.items())
    dictionaries = [entry for entry in types[1:] if _is_dictionary(entry[1])]
    others = [entry for entry in types if entry[1] != TENSOR and not entry[1].startswith("List[")]
    for name, kind in [*dictionaries, *others][:1]:
        message = f"An input of type '{_spell(kind)}' was detected in the model. Only a single input of type "
        message += "Dict(str, Tensor) or input(s) of type Tensor are supported."
        if dictionaries:
            message = "Multiple inputs of kind DictType were detected. Only a single input of type "
            message += "Dict(str, Tensor) is supported."
        fix = "export a forward() that takes one tensor (Tensor or List[str]) per argument, or a single "
        fix += f"Dict[str, Tensor]: set {name!r} inside, or make it a tensor"
        what = f"forward()'s argument {name!r} is {kind}"
        yield Refusal(message=message, what=what, at="input", fix=fix)
        return
    count = len([*config["input"], *config.get("batch_input", ()), *_controls(config), *_states(config)])
    if types and count != len(types):
        message = f"unable to load model '{config['name']}', configuration expects {count} inputs, model "
        what = f"{count} inputs for forward({', '.join(script.arguments)})"
        fix = f"list its {len(types)} arguments, in order"
        yield Refusal(message=f"{message}provides {len(types)}", what=what, at="input", fix=fix)


def _refused_tensors(config: Config, side: str) -> Iterator[Refusal]:
    if not config[side]:
        message = f"model configuration must contain at least one {side}, none were specified."
        fix = f"add every {side} with name, data_type and dims"
        yield Refusal(message=message, what=f"no {side} is listed", at=side, fix=fix)
    for tensor in config[side]:
        yield from _refused_tensor(config, tensor, side, at=f"{side} {tensor['name']!r}")
    for state in _states(config):
        # The backend forgets to read the dims of an input's state.
        tensor = {**state, "name": state[f"{side}_name"]} | ({"reshape": {}} if side == "input" else {})
        role = "input state" if side == "input" else "state"
        yield from _refused_tensor(config, tensor, side, at="sequence_batching: state", role=role)


def _refused_tensor(
    config: Config, tensor: Mapping[str, Any], side: str, *, at: str, role: str = ""
) -> Iterator[Refusal]:
    name, data_type = tensor["name"], tensor["data_type"]
    of, batches = f"'{name}' for model '{config['name']}'", int(config.get("max_batch_size", 0)) > 0
    if data_type not in TYPES:
        message = f"unsupported datatype {data_type} for {role or side} {of}"
        fix = f"use one of {', '.join(sorted(TYPES))}, and cast inside the network"
        yield Refusal(message=message, what=f"{side} {name!r} is {data_type}", at=at, fix=fix)
    if data_type == "TYPE_STRING" and len(served_dims(tensor)) + batches > 1:
        message = f"Triton only supports 1 dimensional List of String as {side} for {of}"
        what = f"the strings of {side} {name!r} have more than one dimension, with the batch"
        fix = "write dims: [ 1 ] and reshape { shape: [ ] }, which leaves the batch; or max_batch_size: 0"
        yield Refusal(message=message, what=what, at=at, fix=fix if batches else "write dims: [ -1 ]")


def _refused_names(config: Config, script: Script) -> Iterator[Refusal]:
    """Yield names that the states of sequences do not allow."""
    by_index = {
        "input": _input_convention(config, script) == "index",
        "output": None not in map(_index, _names(config, "output")),
    }
    prefix = f"PyTorch model '{config['name']}' is using sequence batching with state but "
    for side, follows in by_index.items() if _states(config) else ():
        if not follows:
            names = _names(config, side)
            message = "not all inputs and outputs follow the <name>__<index> naming convention. "
            what = f"a state needs {side}s called <name>__<index>, and they are {', '.join(names)}"
            fix = f"rename the {side}s to end with __ and their position, such as {names[0]}__0"
            yield Refusal(message=prefix + message, what=what, at=side, fix=fix)
        for name in (state[f"{side}_name"] for state in _states(config)):
            if _index(name) is None:
                message = f"state '{name}' does not follow the <name>__<index> naming convention. "
                what, at = f"the state {name!r} does not say its position", "sequence_batching: state"
                fix = f"name it {name}__1, with its position among forward()'s {side}s, counted from 0"
                yield Refusal(message=prefix + message, what=what, at=at, fix=fix)


# What loads, and then fails every request


def _failing_inputs(config: Config, script: Script) -> Iterator[Refusal]:
    if script.takes_dictionary:
        [(argument, kind)] = script.arguments.items()
        if kind != TENSORS:
            # Execute builds a Dict(str, Tensor) for every network whose only argument is a dictionary.
            message, what = _other_type(argument, kind, TENSORS), f"forward()'s {argument!r} is {kind}"
            fix = f"export a forward() that takes a {TENSORS}"
            yield Refusal(message=message, what=what, at="input", fix=fix)
        for at in (f"input {name!r}" for name in _names(config, "input", "TYPE_STRING")):
            message = f"{_FAILURE}Expected Tensor but got GenericList"
            what = f"{at} is TYPE_STRING, for a dictionary of tensors"
            fix = "use a number's type, or export a forward() that takes List[str]"
            yield Refusal(message=message, what=what, at=at, fix=fix)
        return
    positions = input_positions(config, script)
    types = list(script.arguments.items())
    if sorted(positions.values()) != list(range(len(types))):
        places = ", ".join(f"{name} to {position}" for name, position in positions.items())
        left = next((name for at, (name, _) in enumerate(types) if at not in positions.values()), "")
        what = f"the names assign {places}, and forward() has the positions 0 to {len(types) - 1}"
        if not types:
            what = f"forward() takes nothing, and {len(positions)} inputs are listed"
        # An index beyond the inputs is written past the end of a list; the argument stays undefined.
        message = f"{_FAILURE}forward()'s argument '{left}' is an undefined Tensor"
        fix = f"name the inputs like forward()'s arguments ({', '.join(script.arguments)}), or end each name "
        fix += "with __ and a position of its own"
        yield Refusal(message=message, what=what, at="input", fix=fix)
        return
    for tensor in config["input"]:
        at = f"input {tensor['name']!r}"
        argument, kind = types[positions[tensor["name"]]]
        passed = STRINGS if tensor["data_type"] == "TYPE_STRING" else TENSOR
        if kind != passed:
            what = f"{at} is {tensor['data_type']}, and forward()'s {argument!r} is {kind}"
            fix = f"export a forward() that takes a {TENSOR} (numbers) or a {STRINGS} (TYPE_STRING) there"
            yield Refusal(message=_other_type(argument, kind, passed), what=what, at=at, fix=fix)


def _other_type(argument: str, expected: str, passed: str) -> str:
    message = f"{_FAILURE}forward() Expected a value of type '{expected}' for argument '{argument}' but "
    return f"{message}instead found type '{passed}'."


def _failing_outputs(config: Config, script: Script) -> Iterator[Refusal]:
    kinds = _returned(script.returns)
    if kinds is None:
        return
    for kind in kinds:
        if kind not in (TENSOR, STRINGS) and not kind.startswith(("Optional[", "__torch__")):
            message = "output must be of type Tensor, List[str] or Tuple containing one of these two types. "
            message += "It should not be a List / Dictionary of Tensors or a Scalar"
            if kind.startswith("List["):
                element = _spell(kind.removeprefix("List[").removesuffix("]"))
                message = f"output must be of type Tensor or List[str], received List[{element}]"
            fix = "export a forward() that returns a Tensor, a List[str], or a tuple of them"
            what = f"forward() returns {script.returns}"
            yield Refusal(message=_FAILURE + message, what=what, at="output", fix=fix)
            return
    count, positions = len(kinds), output_positions(config)
    for name, position in positions.items():
        if position >= count:
            message = f"The output {name} in the model configuration refers to an output index which doesn't "
            message += f"exist. This model has {count} outputs"
            what = f"output {name!r} is number {position}, counted from 0, of a forward() with {count} "
            what += f"output{'s' * (count != 1)}"
            fix = "list only the outputs of forward(), in order, or end their names with __ and "
            fix += "0" if count == 1 else f"0 to {count - 1}"
            yield Refusal(message=message, what=what, at="output", fix=fix)
    for name in _names(config, "output", "TYPE_STRING"):
        if positions[name] < count and kinds[positions[name]] == TENSOR:
            message = f"configuration expects datatype TYPE_INT32 for output '{name}', model provides another"
            what = f"output {name!r} is TYPE_STRING, and forward() returns a Tensor there"
            fix, at = "write the tensor's type, or return a List[str]", f"output {name!r}"
            yield Refusal(message=message, what=what, at=at, fix=fix)


# Names and types


def _names(config: Config, side: str, data_type: str = "") -> list[str]:
    """Return the names of inputs or outputs, of one data type or of all."""
    return [tensor["name"] for tensor in config[side] if data_type in {"", tensor["data_type"]}]


def _index(name: str) -> int | None:
    """Return the position in a name like X__1; None without one. After the first __, nothing is 0."""
    _, separator, digits = name.partition("__")
    if not separator or (digits and not (digits.isascii() and digits.isdigit())):
        return None
    return int(digits or 0)


def _input_convention(config: Config, script: Script) -> str:
    """Return how names assign inputs to arguments: by "argument", "index" or "order"."""
    # Without arguments, or with a dictionary, the backend reads the names of the outputs instead.
    known = {} if script.takes_dictionary else script.arguments
    names = _names(config, "input" if known else "output")
    if known and all(name in known for name in names):
        return "argument"
    return "order" if None in map(_index, names) else "index"


def _states(config: Config) -> Sequence[Mapping[str, Any]]:
    return tuple(config.get("sequence_batching", {}).get("state", ()))


def _controls(config: Config) -> dict[str, tuple[str, str]]:
    """Return the input and the data type of each control that the backend knows, by kind."""
    inputs = config.get("sequence_batching", {}).get("control_input", ())
    controls = {
        control["kind"]: (entry["name"], str(control.get("data_type", "TYPE_INVALID")))
        for entry in inputs
        for control in entry["control"]
    }
    return {kind: controls[kind] for kind in (*_CONTROLS, _CORRELATION) if kind in controls}


def _is_dictionary(kind: str) -> bool:
    return kind.startswith("Dict[")


def _split(kind: str) -> tuple[str, list[str] | None]:
    """Return a type's name, and the types in its brackets; None without brackets."""
    tree = ast.parse(kind, mode="eval").body
    if not isinstance(tree, ast.Subscript):
        return kind, None
    parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    return ast.unparse(tree.value), [ast.unparse(part) for part in parts]


def _returned(kind: str) -> list[str] | None:
    """Return the types of what forward() returns, one by one; None if they are unknown."""
    if kind == "Any" or kind.startswith("__torch__"):
        return None
    name, parts = _split(kind)
    return parts if name == "Tuple" else [kind]


def _spell(kind: str) -> str:
    """Return a type as libtorch prints it, such as "Tensor?" for Optional[Tensor]."""
    name, parts = _split(kind)
    if parts is None:
        return kind
    inner = ", ".join(map(_spell, parts))
    if name in {"Optional", "List"}:
        return inner + ("?" if name == "Optional" else "[]")
    return f"{'' if name == 'Tuple' else name}({inner})"
