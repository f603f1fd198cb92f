"""Where Python decides by values of a network's inputs: a trace would keep what one example decides.

The tracer of PyTorch 2.13 records the values in the arguments of operators, such as sizes and slices, and
calls of scripted functions (tried on 2026-11-28). Only what Python itself gets is lost.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any
from unittest import mock

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from triton_models.builds.export.checks import use_of_line

Line = tuple[str, int]

_SIZES = frozenset({"__len__", "nbytes", "nelement", "numel", "shape", "size", "stride"})
# What hands Python values without an operator, or within a constructor that hides its operators.
_NUMBERS = {"__bool__", "__complex__", "__float__", "__index__", "__int__", "item", "tolist"}
_TEXTS = {"__format__", "__repr__"}
_ARRAYS = {"__array__", "__array_interface__", "__cuda_array_interface__", "__dlpack__", "numpy"}
_COPIES = {"__deepcopy__", "__reduce_ex__", "_typed_storage", "data_ptr", "storage", "untyped_storage"}
_CALLBACKS = frozenset({"apply_", "map2_", "map_"})
_VALUES = frozenset(_NUMBERS | _TEXTS | _ARRAYS | _COPIES)
# What makes a constant of a list of tensors.
_FROM_LISTS = frozenset({"as_tensor", "asarray", "new", "new_tensor", "tensor"})
# Operators that take only sizes and types from their arguments, or answer by sizes alone.
_LIKE = ("empty_like", "full_like", "ones_like", "zeros_like", "new_", "rand")
_BY_SIZES = (*_LIKE, "is_same_size", "_fused_sdp_choice")
_TORCH = str(Path(torch.__file__).parent)
# What raises if the size of a first state is not that of the first batch, which is a value.
_SIZE_CHECKS = (torch.nn.RNNBase.check_forward_args.__code__, torch.nn.LSTM.check_forward_args.__code__)


def trace(network: torch.nn.Module, example: Sequence[torch.Tensor]) -> tuple[Any, list[Line]]:
    """Trace a network, and return the lines where Python gets values of its inputs, but for checks.

    A second trace is watched and dropped, because the watch changes names in it. Neither takes the path of
    nn.TransformerEncoder for masks that hide only the last tokens, which is wrong for other masks.
    """
    watch = _Watch(example)
    with mock.patch("torch._nested_tensor_from_mask_left_aligned", return_value=False):
        traced = torch.jit.trace(network, tuple(example), check_trace=False)  # type: ignore[no-untyped-call]
        # Without this, nn avoids its fast paths for tensors that a mode watches.
        unseen = mock.patch("torch.overrides.has_torch_function", return_value=False)
        with unseen, _Operators(watch), _Functions(watch):
            torch.jit.trace(network, tuple(example), check_trace=False)  # type: ignore[no-untyped-call]
    return traced, sorted(watch.lines)


class _Watch:
    """Which tensors have values of inputs, which have sizes that depend on them, and what Python got."""

    def __init__(self, example: Iterable[torch.Tensor]) -> None:
        self.values = set(map(_storage, example))
        self.sizes: dict[StorageWeakRef | None, int] = {None: 0}  # and the call that made them
        self.calls = 0
        self.operating = False
        self.read: list[Line] | None = None
        self.parts: set[StorageWeakRef | None] | None = None  # tensors whose number depends on values
        self.lines = set[Line]()

    def has_values(self, tensors: Iterable[torch.Tensor]) -> bool:
        return any((key := _storage(tensor)) is None or key in self.values for tensor in tensors)

    def has_sizes(self, tensors: Iterable[torch.Tensor]) -> bool:
        return any(_storage(tensor) in self.sizes for tensor in tensors)

    def add(self, tensors: Iterable[torch.Tensor], *, sizes: bool = False) -> None:
        for key in map(_storage, tensors):
            self.values.add(key)
            if sizes:
                self.sizes.setdefault(key, self.calls)


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows values of inputs, by storage, through all operators, also those of scripted functions."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        watch, outer = self.watch, self.watch.operating
        watch.operating = True
        try:
            answer = func(*args, **(kwargs or {}))
        finally:
            watch.operating = outer
        tensors = _tensors([args, kwargs])
        by_sizes = func._schema.name.removeprefix("aten::").startswith(_BY_SIZES)
        has_values = watch.has_values(tensors) and (not by_sizes or watch.has_sizes(tensors))
        if watch.read is not None or has_values:
            self._follow(func, args, kwargs or {}, tensors, answer)
        return answer

    def _follow(self, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor], answer: Any) -> None:
        watch, schema = self.watch, func._schema
        kinds = [str(value.type) for value in schema.returns]
        if kinds and not any("Tensor" in kind for kind in kinds):
            if lines := _decisions():
                watch.read = [*(watch.read or ()), *lines]
            return
        calls = [watch.sizes[key] for key in map(_storage, tensors) if key in watch.sizes]
        if "List[Tensor]" in kinds and any(call < watch.calls for call in calls):
            watch.parts = {*(watch.parts or ()), *map(_storage, _tensors(answer))}
        depends = bool(calls) or watch.read is not None or _sizes_depend(func, args)
        watch.add(_tensors(answer), sizes=depends)
        named = {**dict(zip((one.name for one in schema.arguments), args, strict=False)), **kwargs}
        written = [one.name for one in schema.arguments if one.alias_info and one.alias_info.is_write]
        watch.add(_tensors([named.get(name) for name in written]))


class _Functions(TorchFunctionMode):
    """Sees which functions hand Python what they read."""

    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        watch, kwargs = self.watch, kwargs or {}
        if watch.operating:  # an operator of a scripted function
            return func(*args, **kwargs)
        watch.calls, watch.read, watch.parts = watch.calls + 1, None, None
        name, tensors = _name(func), _tensors([args, kwargs])
        if name.startswith("conv"):  # a mode would hide its operators from the tracer
            with _disable_current_modes():
                answer = func(*args, **kwargs)
            if watch.has_values(tensors):
                watch.add(_tensors(answer), sizes=watch.has_sizes(tensors))
            return answer
        answer = func(*args, **kwargs)
        answers, in_python = _tensors(answer), isinstance(func, FunctionType)
        if watch.parts is not None and (
            in_python or not answers or not watch.parts.isdisjoint(map(_storage, answers))
        ):
            watch.lines.update(_decisions())  # otherwise it only uses them, as aten::lstm does
        if watch.read is not None:
            watch.add(answers, sizes=True)
            if in_python or not (answers or answer is None):
                watch.lines.update(watch.read)
            watch.read = None
        elif self._hands_over(name, [*args, *kwargs.values()], tensors, answers):
            watch.lines.update(_decisions())
        return answer

    def _hands_over(
        self, name: str, arguments: list[Any], tensors: list[torch.Tensor], answers: list[torch.Tensor]
    ) -> bool:
        """Return whether Python gets values, or the trace keeps them, without an operator that reads them."""
        watch = self.watch
        if name in _SIZES and watch.has_sizes(tensors[:1]):
            watch.add(answers)
            return not answers
        if name == "tensor_split" and watch.has_values(tensors[1:]):
            watch.add(answers, sizes=True)
        if name in _VALUES | _CALLBACKS:
            return watch.has_values(tensors if name in _CALLBACKS else tensors[:1])
        lists = [one for one in arguments if isinstance(one, list | tuple)]
        if name in _FROM_LISTS and watch.has_values(_tensors(lists)):
            return True
        return watch.has_values(answers) and not all(map(_is_traced, answers))


def _name(func: Callable[..., Any]) -> str:
    owner = getattr(func, "__self__", None)  # the property of a __get__
    return str(getattr(owner if func.__name__ == "__get__" else func, "__name__", ""))


def _tensors(value: Any) -> list[torch.Tensor]:
    leaves = tree_leaves(tuple(value) if isinstance(value, torch.Size) else value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> StorageWeakRef | None:
    """Return a reference that is unique also after the storage is freed; None for sparse tensors."""
    with torch._C.DisableTorchFunction():
        try:
            return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        except (NotImplementedError, RuntimeError):
            return None


def _sizes_depend(func: Any, args: Sequence[Any]) -> bool:
    """Return whether the sizes of an operator's answers depend on values."""
    if func is torch.ops.aten.index.Tensor:
        return any(one.dtype in {torch.bool, torch.uint8} for one in _tensors(args[1:]))
    return torch.Tag.dynamic_output_shape in func.tags


def _is_traced(tensor: torch.Tensor) -> bool:
    """Return whether the trace computes a tensor, rather than keeps its values."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor) or torch._C._get_tracing_state() is None:
        return True
    value = torch._C._get_value_trace(tensor)  # type: ignore[attr-defined]
    return bool(value.node().kind() != "prim::Constant")


def _decisions() -> list[Line]:
    """Return the line that gets a value, the innermost outside PyTorch; none if it only checks the value."""
    frame: FrameType | None = sys._getframe(1)
    lines: list[Line] = []
    size_checks: set[int] = set()
    while frame is not None and frame.f_code is not trace.__code__:
        if frame.f_code.co_filename != __file__:
            size_checks |= {len(lines)} if frame.f_code in _SIZE_CHECKS else set()
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    own = [not file.startswith(_TORCH) for file, _ in lines]
    for position, line in enumerate(lines):
        use = "check" if position in size_checks else use_of_line(*line)[0]
        if use == "check":
            outer = zip(lines[position:], own[position:], strict=True)
            if not any(mine and use_of_line(*one)[1] for one, mine in outer):
                return []
        if own[position] and use != "return":
            break
    return [lines[own.index(True) if True in own else 0]]
