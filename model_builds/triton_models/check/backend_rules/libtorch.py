"""How the PyTorch backend takes a TorchScript network.

ValidateBooleanSequenceControl, ValidateTypedSequenceControl, GetNamingConvention, ValidateInputs,
ValidateOutputs, SetInputTensors, Execute and ReadOutputTensors of pytorch_backend (src/libtorch.cc of r24.03,
r24.09 and r25.09; src/pt/model_instance_state.cc of r26.05), and ConvertDataTypeToTorchType of
src/libtorch_utils.cc. They are the same in the four releases; read 2026-11-28.

Types are as TorchScript writes them: "Tensor", "Dict[str, Tensor]", "Optional[Tensor]".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .refusal import Config, Refusal, served_dims  # noqa: TID252  also found outside this repository

TENSOR, STRINGS, TENSORS = "Tensor", "List[str]", "Dict[str, Tensor]"

TYPES = frozenset(
    f"TYPE_{name}"
    for name in ("BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "STRING")
)
"""The data types that the backend converts. STRING becomes List[str]."""

_CONTROLS = ("CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_READY")
_CORRELATION = "CONTROL_SEQUENCE_CORRID"
_SUPPORTED = "one tensor (Tensor or List[str]) per argument, or a single Dict[str, Tensor]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The signature of a forward(): its arguments' types by name, in order, and the type that it returns."""

    arguments: Mapping[str, str]
    returns: str

    @property
    def takes_dictionary(self) -> bool:
        """Return True if all inputs are entries of one dictionary."""
        return len(self.arguments) == 1 and _is_dictionary(next(iter(self.arguments.values())))


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
    inputs = [tensor["name"] for tensor in config["input"]]
    if script.takes_dictionary:
        return {name: position for position, name in enumerate(inputs)}
    positions = {name: _index(name) or 0 for name in _controls_of(config).values()}
    convention = _input_convention(config, script)
    given = [*enumerate(inputs), *enumerate(_states(config, "input_name"))]
    given += enumerate(_batch_inputs(config), start=len(inputs))
    arguments = list(script.arguments)
    for position, name in given:
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
    positions = positions_of([tensor["name"] for tensor in config["output"]])
    return {**positions, **{name: _index(name) or 0 for name in _states(config, "output_name")}}


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
    for kind, name in _controls_of(config).items():
        if _index(name) is None:
            yield Refusal(
                message=f"input '{name}' does not follow <name>__<index> naming convention.",
                what=f"the control input {name!r} does not say which argument of forward() it is",
                at="sequence_batching: control_input",
                fix=f"name it {name}__1, with the position of its argument, counted from 0",
            )
        data_type = _control_type(config, kind)
        if kind == _CORRELATION and data_type not in TYPES - {"TYPE_STRING"}:
            yield Refusal(
                message=f"input '{name}' type '{data_type}' is not supported by PyTorch.",
                what=f"the control input {name!r} is {data_type}",
                at="sequence_batching: control_input",
                fix="write data_type: TYPE_INT64",
            )


def _refused_arguments(config: Config, script: Script) -> Iterator[Refusal]:
    if script.takes_dictionary:
        return
    types = list(script.arguments.items())
    if any(map(_is_dictionary, [kind for _, kind in types[1:]])):
        message = "Multiple inputs of kind DictType were detected. Only a single input of type "
        message += "Dict(str, Tensor) is supported."
        yield _unsupported(message, next(each for each in types[1:] if _is_dictionary(each[1])))
        return
    for name, kind in types:
        if kind != TENSOR and not kind.startswith("List["):
            message = f"An input of type '{_spelled(kind)}' was detected in the model. Only a single input "
            message += "of type Dict(str, Tensor) or input(s) of type Tensor are supported."
            yield _unsupported(message, (name, kind))
            return
    count = len(config["input"]) + len(config.get("batch_input", ())) + len(_controls_of(config))
    count += len(_states(config, "input_name"))
    if types and count != len(types):
        yield Refusal(
            message=f"unable to load model '{config['name']}', configuration expects {count} inputs, model "
            f"provides {len(types)}",
            what=f"{count} inputs for forward({', '.join(script.arguments)})",
            at="input",
            fix=f"list its {len(types)} arguments, in order",
        )


def _unsupported(message: str, argument: tuple[str, str]) -> Refusal:
    name, kind = argument
    fix = f"export a forward() that takes {_SUPPORTED}: set {name!r} inside, or make it a tensor"
    return Refusal(message=message, what=f"forward()'s argument {name!r} is {kind}", at="input", fix=fix)


def _refused_tensors(config: Config, side: str) -> Iterator[Refusal]:
    if not config[side]:
        article = "input" if side == "input" else "output"
        yield Refusal(
            message=f"model configuration must contain at least one {article}, none were specified.",
            what=f"no {side} is listed",
            at=side,
            fix=f"add every {side} with name, data_type and dims",
        )
    tensors = [(side, each, "") for each in config[side]]
    tensors += [(side, each, f"{side}_name") for each in _all_states(config)]
    for _, tensor, state in tensors:
        name, data_type = tensor[state or "name"], tensor["data_type"]
        at = f"{side} {name!r}" if not state else "sequence_batching: state"
        if data_type not in TYPES:
            called = side if not state else "input state" if side == "input" else "state"
            yield Refusal(
                message=f"unsupported datatype {data_type} for {called} '{name}' for model "
                f"'{config['name']}'",
                what=f"{side} {name!r} is {data_type}",
                at=at,
                fix=f"use one of {', '.join(sorted(TYPES))}, and cast inside the network",
            )
        # The backend forgets to read the dims of an input's state.
        dims = () if state and side == "input" else served_dims(tensor)
        if data_type == "TYPE_STRING" and len(dims) + (int(config.get("max_batch_size", 0)) > 0) > 1:
            fix = "write dims: [ 1 ] and reshape { shape: [ ] }, which leaves the batch; or max_batch_size: 0"
            yield Refusal(
                message=f"Triton only supports 1 dimensional List of String as {side} for '{name}' for "
                f"model '{config['name']}'",
                what=f"the strings of {side} {name!r} have more than one dimension, with the batch",
                at=at,
                fix=fix if int(config.get("max_batch_size", 0)) else "write dims: [ -1 ]",
            )


def _refused_names(config: Config, script: Script) -> Iterator[Refusal]:
    """Yield names that the states of sequences do not allow."""
    if not _all_states(config):
        return
    names = {"input": [tensor["name"] for tensor in config["input"]]}
    names["output"] = [tensor["name"] for tensor in config["output"]]
    sides = {"input": _input_convention(config, script) == "index"}
    sides["output"] = None not in map(_index, names["output"])
    for side, by_index in sides.items():
        if not by_index:
            message = f"PyTorch model '{config['name']}' is using sequence batching with state but not all "
            message += "inputs and outputs follow the <name>__<index> naming convention. "
            what = f"a state needs {side}s called <name>__<index>, and they are {', '.join(names[side])}"
            fix = f"rename the {side}s to end with __ and their position, such as {names[side][0]}__0"
            yield Refusal(message=message, what=what, at=side, fix=fix)
        for name in _states(config, f"{side}_name"):
            if _index(name) is None:
                message = f"PyTorch model '{config['name']}' is using sequence batching with state but state "
                message += f"'{name}' does not follow the <name>__<index> naming convention. "
                fix = f"name it {name}__1, with its position among forward()'s {side}s, counted from 0"
                what = f"the state {name!r} does not say its position"
                yield Refusal(message=message, what=what, at="sequence_batching: state", fix=fix)


# What loads, and then fails every request


def _failing_inputs(config: Config, script: Script) -> Iterator[Refusal]:
    if script.takes_dictionary:
        [(argument, kind)] = script.arguments.items()
        if kind != TENSORS:
            # Execute builds a Dict(str, Tensor) for every network whose only argument is a dictionary.
            message = f"PyTorch execute failure: forward() Expected a value of type '{kind}' for argument "
            message += f"'{argument}' but instead found type '{TENSORS}'."
            what, fix = f"forward()'s {argument!r} is {kind}", f"export a forward() that takes a {TENSORS}"
            yield Refusal(message=message, what=what, at="input", fix=fix)
        for tensor in config["input"]:
            if tensor["data_type"] == "TYPE_STRING":
                message = "PyTorch execute failure: Expected Tensor but got GenericList"
                what = f"input {tensor['name']!r} is TYPE_STRING, for a dictionary of tensors"
                fix = "use a number's type, or export a forward() that takes List[str]"
                yield Refusal(message=message, what=what, at=f"input {tensor['name']!r}", fix=fix)
        return
    positions = input_positions(config, script)
    types = list(script.arguments.items())
    if sorted(positions.values()) != list(range(len(types))):
        places = ", ".join(f"{name} to {position}" for name, position in positions.items())
        left = next((name for at, (name, _) in enumerate(types) if at not in positions.values()), "")
        # An index beyond the inputs is written past the end of a list; the argument stays undefined.
        message = f"PyTorch execute failure: forward()'s argument '{left}' is an undefined Tensor"
        what = f"the names assign {places}, and forward() has the positions 0 to {len(types) - 1}"
        if not types:
            what = f"forward() takes nothing, and {len(positions)} inputs are listed"
        fix = f"name the inputs like forward()'s arguments ({', '.join(script.arguments)}), or end each name "
        fix += "with __ and a position of its own"
        yield Refusal(message=message, what=what, at="input", fix=fix)
        return
    for tensor in config["input"]:
        argument, kind = types[positions[tensor["name"]]]
        passed = STRINGS if tensor["data_type"] == "TYPE_STRING" else TENSOR
        if kind != passed:
            message = f"PyTorch execute failure: forward() Expected a value of type '{kind}' for argument "
            message += f"'{argument}' but instead found type '{passed}'."
            given = f"input {tensor['name']!r} is {tensor['data_type']}"
            what = f"{given}, and forward()'s {argument!r} is {kind}"
            fix = f"export a forward() that takes a {TENSOR} (numbers) or a {STRINGS} (TYPE_STRING) there"
            yield Refusal(message=message, what=what, at=f"input {tensor['name']!r}", fix=fix)


def _failing_outputs(config: Config, script: Script) -> Iterator[Refusal]:
    kinds = _returned(script.returns)
    if kinds is None:
        return
    for kind in kinds:
        if kind not in (TENSOR, STRINGS) and not kind.startswith(("Optional[", "__torch__")):
            message = "output must be of type Tensor, List[str] or Tuple containing one of these two types. "
            message += "It should not be a List / Dictionary of Tensors or a Scalar"
            if kind.startswith("List["):
                of = _spelled(kind.removeprefix("List[").removesuffix("]"))
                message = f"output must be of type Tensor or List[str], received List[{of}]"
            yield Refusal(
                message=f"PyTorch execute failure: {message}",
                what=f"forward() returns {script.returns}",
                at="output",
                fix="export a forward() that returns a Tensor, a List[str], or a tuple of them",
            )
            return
    for name, position in output_positions(config).items():
        if position >= len(kinds):
            many = f"{len(kinds)} output{'s' * (len(kinds) != 1)}"
            message = f"The output {name} in the model configuration refers to an output index which doesn't "
            yield Refusal(
                message=f"{message}exist. This model has {len(kinds)} outputs",
                what=f"output {name!r} is number {position}, counted from 0, of a forward() with {many}",
                at="output",
                fix="list only the outputs of forward(), in order, or end their names with __ and "
                f"{'0' if len(kinds) == 1 else f'0 to {len(kinds) - 1}'}",
            )
    for tensor in config["output"]:
        position = output_positions(config)[tensor["name"]]
        if position < len(kinds) and kinds[position] == TENSOR and tensor["data_type"] == "TYPE_STRING":
            message = f"configuration expects datatype TYPE_INT32 for output '{tensor['name']}', model "
            what = f"output {tensor['name']!r} is TYPE_STRING, and forward() returns a Tensor there"
            fix = "write the tensor's type, or return a List[str]"
            at = f"output {tensor['name']!r}"
            yield Refusal(message=f"{message}provides another", what=what, at=at, fix=fix)


# Names and types


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
    names = [tensor["name"] for tensor in config["input" if known else "output"]]
    if known and all(name in known for name in names):
        return "argument"
    return "order" if None in map(_index, names) else "index"


def _all_states(config: Config) -> Sequence[Mapping[str, Any]]:
    return tuple(config.get("sequence_batching", {}).get("state", ()))


def _states(config: Config, name: str) -> list[str]:
    return [state[name] for state in _all_states(config)]


def _batch_inputs(config: Config) -> list[str]:
    return [name for batch in config.get("batch_input", ()) for name in batch["target_name"]]


def _controls_of(config: Config) -> dict[str, str]:
    """Return the control inputs of sequences that the backend knows, by kind."""
    inputs = config.get("sequence_batching", {}).get("control_input", ())
    names = {control["kind"]: each["name"] for each in inputs for control in each["control"]}
    return {kind: names[kind] for kind in (*_CONTROLS, _CORRELATION) if kind in names}


def _control_type(config: Config, kind: str) -> str:
    inputs = config.get("sequence_batching", {}).get("control_input", ())
    controls = [control for each in inputs for control in each["control"] if control["kind"] == kind]
    return str(controls[0].get("data_type", "TYPE_INVALID"))


def _is_dictionary(kind: str) -> bool:
    return kind.startswith("Dict[")


def _returned(kind: str) -> list[str] | None:
    """Return the types of what forward() returns, one by one; None if they are unknown."""
    if kind == "Any" or kind.startswith("__torch__"):
        return None
    tree = ast.parse(kind, mode="eval").body
    if isinstance(tree, ast.Subscript) and ast.unparse(tree.value) == "Tuple":
        parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        return [ast.unparse(part) for part in parts]
    return [kind]


def _spelled(kind: str) -> str:
    """Return a type as libtorch prints it, such as "Tensor?" for Optional[Tensor]."""
    tree = ast.parse(kind, mode="eval").body
    if not isinstance(tree, ast.Subscript):
        return kind
    parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    inner = [_spelled(ast.unparse(part)) for part in parts]
    name = ast.unparse(tree.value)
    if name in {"Optional", "List"}:
        return inner[0] + ("?" if name == "Optional" else "[]")
    return f"{'' if name == 'Tuple' else name}({', '.join(inner)})"
