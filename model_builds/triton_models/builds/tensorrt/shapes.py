"""Checks of a plan's shape ranges against the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from triton_models.base.errors import Problem, raise_if_any
from triton_models.declare.tensors import ShapeRange


def check_shapes(onnx: Path, shapes: Mapping[str, ShapeRange]) -> None:
    """Compare shape ranges with the inputs of an ONNX file.

    Raises:
        FleetError: An input has no range, a range has no input, or a range contradicts the input or itself;
            all problems are reported together.
    """
    raise_if_any(
        Problem(
            what=what,
            where=f"compile_plan(..., shapes=...) for {onnx.parent.parent.name}/1/{onnx.name}",
            expected=expected,
            why="trtexec refuses such ranges, and a plan refuses shapes outside its ranges",
            fix="give every input a ShapeRange of its rank, with min <= opt <= max in every dimension",
            rule="plan-shapes",
        )
        for what, expected in _shape_mistakes(_inputs(onnx), shapes)
    )


def open_shapes(onnx: Path, shapes: Mapping[str, ShapeRange]) -> dict[str, ShapeRange]:
    """Return the ranges of the inputs with open dimensions; the ONNX file fixes all others."""
    return {name: shapes[name] for name, sizes in _inputs(onnx).items() if 0 in sizes}


def _inputs(onnx: Path) -> dict[str, tuple[int, ...]]:
    """Return the sizes of each input; 0 for an open dimension."""
    import onnx as onnx_format

    graph = onnx_format.load(str(onnx), load_external_data=False).graph
    return {
        value.name: tuple(dimension.dim_value for dimension in value.type.tensor_type.shape.dim)
        for value in graph.input
    }


def _shape_mistakes(
    inputs: Mapping[str, tuple[int, ...]], shapes: Mapping[str, ShapeRange]
) -> Iterator[tuple[str, str]]:
    if missing := inputs.keys() - shapes.keys():
        yield f"no range for {', '.join(sorted(missing))}", f"ranges for {', '.join(inputs)}"
    if unknown := shapes.keys() - inputs.keys():
        yield f"a range for {', '.join(sorted(unknown))}", f"ranges for {', '.join(inputs)}"
    for name in sorted(inputs.keys() & shapes.keys()):
        size, range_ = inputs[name], shapes[name]
        given = f"{name}: {range_.min} to {range_.max}, best {range_.opt}"
        if {len(range_.min), len(range_.opt), len(range_.max)} != {len(size)}:
            yield given, f"{len(size)} dimensions in each"
            continue
        for fixed, *ordered in zip(size, range_.min, range_.opt, range_.max, strict=True):
            if ordered != sorted(ordered) or ordered[0] < 1:
                yield given, "1 <= min <= opt <= max in every dimension"
            elif fixed and set(ordered) != {fixed}:
                yield given, f"{fixed} in the dimension that the network fixes to {fixed}"
