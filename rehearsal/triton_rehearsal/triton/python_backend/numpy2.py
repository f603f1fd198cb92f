"""Lets the server's Python stub work with NumPy 2. Imported inside the stub, before its first tensor.

The stub of the bundled server (Triton 24.10) was compiled against NumPy 1 and reads an element's size where
NumPy 1 stored it. NumPy 2 stores the data type's flags there, which are 0: inputs arrive with their first
element repeated and outputs are empty, both with status 200. Two places are patched, and other code does not
notice:

* Inputs: the stub creates arrays through NumPy's table of C functions. It gets a copy of the table in which
  "new array" computes the strides itself if they are zero.
* Outputs: while a tensor is created, its array has its own data type whose flags contain the element's size.

Triton 24.12 and later do not need this patch. Sources of the layouts:
numpy/_core/include/numpy/ndarraytypes.h and __multiarray_api.h of NumPy 2.0. The entries that pybind11 uses
end at 282.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

import numpy as np

_BROKEN_SINCE = 2

# struct _PyArray_Descr of NumPy 2: the flags, at the place of NumPy 1's size.
_FLAGS_OFFSET = 32

_NEW_FROM_DESCR, _ENTRIES = 94, 283
_POINTER = ctypes.c_void_p
_NewFromDescr = ctypes.PYFUNCTYPE(
    _POINTER, _POINTER, _POINTER, ctypes.c_int, _POINTER, _POINTER, _POINTER, ctypes.c_int, _POINTER
)

# Keeps objects alive to which C code points.
_kept: list[Any] = []
_in_thread = threading.local()


def patch(utilities: dict[str, Any]) -> None:
    """Patch this stub process and triton_python_backend_utils, its utilities, if its NumPy needs it."""
    if int(np.__version__.split(".")[0]) < _BROKEN_SINCE:
        return
    from c_python_backend_utils import Tensor  # type: ignore[import-not-found]

    construct = Tensor.__init__
    with _table_that_computes_strides():
        # The stub looks up the table once, at its first array.
        construct(Tensor.__new__(Tensor), "first", np.zeros(1, dtype=np.uint8))

    def construct_sized(tensor: Any, name: str, array: Any) -> None:
        with ExitStack() as sizes:
            _in_thread.sizes = sizes
            numbers = isinstance(array, np.ndarray) and array.dtype.kind not in "OSU"
            construct(tensor, name, sizes.enter_context(_sized(array)) if numbers else array)

    def serialize_sized(array: Any) -> Any:
        serialized = serialize(array)
        if not isinstance(serialized, bytes) or not serialized:
            return serialized
        return _in_thread.sizes.enter_context(_sized(np.frombuffer(serialized, dtype=np.uint8)))

    serialize: Callable[[Any], Any] = utilities["serialize_byte_tensor"]
    utilities["serialize_byte_tensor"] = serialize_sized
    Tensor.__init__ = construct_sized


@contextmanager
def _sized(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the array with a data type that has the element's size where the stub reads it."""
    contiguous = np.ascontiguousarray(array).reshape(array.shape)
    # With metadata the data type is a separate object: the process shares the usual ones.
    kind = np.dtype(contiguous.dtype, metadata={"sized": True})
    view = contiguous.view(kind)
    flags = ctypes.c_uint64.from_address(id(view.dtype) + _FLAGS_OFFSET)
    usual = flags.value
    flags.value = kind.itemsize
    try:
        yield view
    finally:
        flags.value = usual


@contextmanager
def _table_that_computes_strides() -> Iterator[None]:
    """Replace NumPy's table of C functions by our copy inside the `with`."""
    # The version of pybind11 determines which of the two it uses.
    homes: list[Any] = [import_module(f"numpy.{core}.multiarray") for core in ("_core", "core")]

    address, wrap = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
    address.restype, address.argtypes = _POINTER, [ctypes.py_object, ctypes.c_char_p]
    wrap.restype, wrap.argtypes = ctypes.py_object, [_POINTER, ctypes.c_char_p, _POINTER]

    usual = homes[0]._ARRAY_API
    table = (_POINTER * _ENTRIES)(*(_POINTER * _ENTRIES).from_address(address(usual, None)))
    new_from_descr = _NewFromDescr(table[_NEW_FROM_DESCR] or 0)

    def compute_strides(*arguments: Any) -> Any:
        kind, descr, rank, dims, strides, *rest = arguments
        given = strides and any((ctypes.c_ssize_t * rank).from_address(strides))
        return new_from_descr(kind, descr, rank, dims, strides if given else None, *rest)

    callback = _NewFromDescr(compute_strides)
    table[_NEW_FROM_DESCR] = ctypes.cast(callback, _POINTER).value
    _kept.extend([table, callback])
    ours = wrap(ctypes.addressof(table), None, None)
    for home in homes:
        home._ARRAY_API = ours
    try:
        yield
    finally:
        for home in homes:
            home._ARRAY_API = usual
