"""The signature of a TorchScript file, read without PyTorch from the source of its forward()."""

from __future__ import annotations

import ast
import pickletools
import zipfile
from dataclasses import dataclass
from pathlib import Path

_TENSOR = "Tensor"
_TUPLE = "Tuple"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """The signature of a network's forward().

    Attributes:
        inputs: The names of its arguments; None if one of them is not a tensor.
        outputs: The number of tensors it returns; None if it is not fixed.
    """

    inputs: tuple[str, ...] | None
    outputs: int | None


def read_forward(path: Path) -> Forward | None:
    """Return the signature of a TorchScript file's forward(); None if it cannot be read."""
    try:
        with zipfile.ZipFile(path) as archive:
            top = archive.namelist()[0].partition("/")[0]
            # The first class in the pickle is that of the network itself.
            said = pickletools.genops(archive.read(f"{top}/data.pkl"))
            module, name = next(str(given) for opcode, given, _ in said if opcode.name == "GLOBAL").split()
            source = archive.read(f"{top}/code/{module.replace('.', '/')}.py")
        classes = (each for each in ast.parse(source).body if isinstance(each, ast.ClassDef))
        network = next(each for each in classes if each.name == name)
    except (OSError, zipfile.BadZipFile, KeyError, IndexError, ValueError, SyntaxError, StopIteration):
        return None
    for method in network.body:
        if isinstance(method, ast.FunctionDef) and method.name == "forward":
            arguments = method.args.args[1:]
            tensors = all(_name(each.annotation) == _TENSOR for each in arguments)
            return Forward(
                inputs=tuple(each.arg for each in arguments) if tensors else None,
                outputs=_count(method.returns),
            )
    return None


def _count(returned: ast.expr | None) -> int | None:
    if _name(returned) == _TENSOR:
        return 1
    if isinstance(returned, ast.Subscript) and _name(returned.value) == _TUPLE:
        parts = returned.slice.elts if isinstance(returned.slice, ast.Tuple) else [returned.slice]
        return len(parts) if all(_name(each) == _TENSOR for each in parts) else None
    return None


def _name(annotation: ast.expr | None) -> str:
    return annotation.id if isinstance(annotation, ast.Name) else ""
