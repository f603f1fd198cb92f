"""Small declarations of Python models, which need no framework: as they should be, or broken."""

from __future__ import annotations

from pathlib import Path

_DECLARATION = """
import functools
import os
import sys
import time

from triton_models.spec import Example, ModelDefinition, PythonModel, Tensor

{top}

def write(job):
{body}

def examples():
    import numpy as np

    return [Example(name="one", inputs={{"X": np.array({value}, dtype=np.float32)}})]

def reference(inputs):
    return {{"Y": inputs["X"] * {factor}}}

BUILD = ModelDefinition(
    name={name!r},
    description="doubles",
    models=[
        PythonModel(
            name={name!r},
            code="code.py",
            inputs=[Tensor("X", "FP32", [1])],
            outputs=[Tensor("Y", "FP32", [1])],
            max_batch_size={rows},
            parameters={parameters!r},
        )
    ],
    weights={weights},
    write=write,
    examples=examples,
    reference=reference,
    output="Y",
    tolerance=0.001,
)
"""

CODE = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(each, "X").as_numpy() * 2)]
            )
            for each in requests
        ]
"""


def declare(
    models: Path,
    name: str,
    *,
    top: str = "",
    body: str = "pass",
    factor: float | str = 2,
    code: str = CODE,
    weights: str = "None",
    parameters: dict[str, int] | None = None,
    rows: int = 0,
) -> Path:
    folder = models / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "code.py").write_text(code)
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    path = folder / "build.py"
    path.write_text(
        _DECLARATION.format(
            name=name,
            top=top,
            body=indented,
            factor=factor,
            weights=weights,
            parameters=parameters or {},
            rows=rows,
            value="[[1.5]]" if rows else "[1.5]",
        )
    )
    return path
