"""Tensors that a TorchScript network creates on the CPU, and mixes with those of a GPU.

The backend moves the file's tensors and the inputs to the instance's GPU. A device that a trace has kept, and
the CPU of a creation without one, stay. PyTorch's operators refuse tensors of two devices, unless that on the
CPU has no dimension: TensorIteratorBase::compute_types of aten/src/ATen/TensorIterator.cpp (2.13, read
2026-11-29). Code with branches or loops, and operators that are not listed, are not judged.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

_CPU, _GPU, _INPUT = "cpu", "gpu", "input"  # on the CPU, and inputs, have a dimension or more
_RANGES = frozenset({"arange", "eye", "linspace", "logspace", "tril_indices", "triu_indices"})
_FILLED = frozenset({"empty", "full", "ones", "rand", "randn", "zeros"})
_SAME = frozenset(
    [
        *("abs", "bitwise_not", "clamp", "clone", "contiguous", "cos", "cumsum", "detach", "dropout"),
        *("empty_like", "exp", "expand", "flip", "full_like", "gelu", "layer_norm", "log"),
        *("logical_not", "neg", "ones_like", "permute", "rand_like", "relu", "repeat", "rsub"),
        *("sigmoid", "silu", "sin", "slice", "softmax", "sqrt", "tanh", "transpose", "tril", "triu"),
        *("unsqueeze", "zeros_like"),
    ]
)
_RESHAPES = frozenset({"reshape", "view"})
_OF_FIRST = frozenset({"batch_norm", "conv1d", "conv2d", "mean", "select", "squeeze", "sum"})
_MIXES = frozenset(
    [
        *("__and__", "__or__", "__xor__", "add", "add_", "bitwise_and", "bitwise_or", "bmm", "cat"),
        *("div", "div_", "embedding", "eq", "ge", "gt", "le", "linear", "logical_and", "logical_or"),
        *("lt", "masked_fill", "masked_fill_", "matmul", "maximum", "minimum", "mm", "mul", "mul_"),
        *("ne", "scaled_dot_product_attention", "stack", "sub", "sub_", "where"),
    ]
)
_DEEPEST = 64
_MOST = 3  # arguments by position, before a device


class MixedError(Exception):
    """An operator, whose name this has, gets tensors of two devices."""


def mixed_devices(network: str, classes: Mapping[str, ast.ClassDef]) -> str:
    """Return the operator at which forward() of a network fails on a GPU; empty if that is not sure."""
    try:
        _Module(network, classes, 0).forward([_INPUT] * _DEEPEST, is_network=True)
    except MixedError as error:
        return str(error)
    except RecursionError:
        return ""
    return ""


class _Module:
    """A class of the file, whose forward() is read with the devices of its arguments."""

    def __init__(self, name: str, classes: Mapping[str, ast.ClassDef], depth: int) -> None:
        self.classes, self.depth, self.body = classes, depth, classes[name].body
        self.values = {"self": name}

    def forward(self, values: list[str], *, method: str = "forward", is_network: bool = False) -> str:
        """Return the device of the answer; empty if it is not known."""
        for function in self.body:
            if isinstance(function, ast.FunctionDef) and function.name == method:
                for argument, value in zip(function.args.args[1:], values, strict=False):
                    kind = "Tensor" if argument.annotation is None else ast.unparse(argument.annotation)
                    self.values[argument.arg] = value if kind == "Tensor" or not is_network else ""
                return self._run(function.body)
        return ""

    def _run(self, body: list[ast.stmt]) -> str:
        for statement in body:
            if isinstance(statement, ast.Return):
                return self._value(statement.value)
            if isinstance(statement, ast.Assign):
                value = self._value(statement.value)
                for target in statement.targets:
                    names = [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
                    self.values.update(dict.fromkeys(names, value if isinstance(target, ast.Name) else ""))
            elif isinstance(statement, ast.Expr):
                self._value(statement.value)
            else:
                break
        return ""

    def _value(self, node: ast.expr | None) -> str:
        """Return the device of an expression, or those of a list; empty if it is not known, or no tensor."""
        if entries := _entries(node):
            return ",".join(map(self._value, entries))
        if isinstance(node, ast.Name):
            return self.values.get(node.id, "")
        if isinstance(node, ast.Attribute):
            return self._attribute(self._value(node.value), node.attr)
        return self._called(node) if isinstance(node, ast.Call) else ""

    def _attribute(self, owner: str, name: str) -> str:
        """Return the class of a module's part, or the device of its tensor."""
        for node in self.classes[owner].body if owner in self.classes else ():
            kind = node.annotation if isinstance(node, ast.AnnAssign) else None
            if isinstance(node, ast.Assign):  # of numbered parts: __annotations__["0"] = ...
                kind = node.value
            target = node.target if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [None])[0]
            names = {name, f"__annotations__[{name!r}]"}
            if kind is not None and target is not None and ast.unparse(target) in names:
                return _GPU if ast.unparse(kind) == "Tensor" else ast.unparse(kind)
        return ""

    def _called(self, call: ast.Call) -> str:
        if ast.unparse(call.func) == "getattr" and isinstance(call.args[1], ast.Constant):
            return self._attribute(self._value(call.args[0]), str(call.args[1].value))
        owner = self._value(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if isinstance(call.func, ast.Attribute) and owner in self.classes:
            values = [self._value(argument) for argument in call.args]
            callee = _Module(owner, self.classes, self.depth + 1)
            return callee.forward(values, method=call.func.attr) if self.depth < _DEEPEST else ""
        values = [value for argument in call.args for value in self._value(argument).split(",")]
        owner, _, operator = ast.unparse(call.func).rpartition(".")
        return _answer(operator, call, values) if owner == "torch" else ""


def _entries(node: ast.expr | None) -> list[ast.expr]:
    """Return what is in a list, also in annotate(List[Tensor], [a, b]); nothing for others."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "annotate" and node.args:
        node = node.args[-1]
    return node.elts if isinstance(node, ast.List) else []


def _answer(operator: str, call: ast.Call, values: list[str]) -> str:
    """Return the device of what an operator of PyTorch returns.

    Raises:
        MixedError: It gets tensors of both.
    """
    first, devices, device = values[0] if values else "", set(values), _device(call)
    sized = len(call.args) > 0 and bool(_entries(call.args[-1]))
    answer = ""
    if operator in _RANGES or (operator in _FILLED and call.args and _entries(call.args[0])):
        answer = _CPU if device in {"", "None", _CPU} and len(call.args) <= _MOST else ""
    elif operator == "to":
        plain = all(isinstance(node, ast.Constant) or _is_device(node) for node in call.args[1:])
        moved = _CPU if device == _CPU and first in {_CPU, _INPUT} else ""
        answer = (first if device in {"", "None"} else moved) if plain else ""
    elif operator in _SAME or (operator in _RESHAPES and sized):
        answer = first if device in {"", "None"} else ""
    elif operator in _OF_FIRST | _RESHAPES:
        answer = _GPU if first in {_GPU, _INPUT} else ""
    elif operator == "index":
        answer = _CPU if first == _CPU and _CPU in values[1:] else ""
    elif operator in _MIXES:
        if _CPU in devices and devices & {_GPU, _INPUT}:
            raise MixedError(operator)
        answer = _CPU if _CPU in devices else _GPU if devices & {_GPU, _INPUT} else ""
    return answer


def _device(call: ast.Call) -> str:
    """Return the device that a call names, such as "cpu" or "None"; empty without one."""
    keywords = [keyword.value for keyword in call.keywords if keyword.arg == "device"]
    nodes = [*filter(_is_device, call.args), *keywords]
    names = {_CPU if ast.unparse(node) == "torch.device('cpu')" else ast.unparse(node) for node in nodes}
    return " ".join(names)


def _is_device(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.device"
