"""Many small model builds in the source folder of a build job, some of them broken."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

_DECLARATION = '''\
"""Multiplies."""

import os

from triton_models.spec import Example, ModelDefinition, PythonModel, Tensor


def examples():
    import numpy as np

    return [Example(name="one row", inputs={{"X": np.ones((1, 3), np.float32)}})]


def reference(inputs):
    return {{"Y": inputs["X"] * {expected}}}


def write(job):
    {body}


BUILD = ModelDefinition(
    name="{name}",
    description="Multiplies by {factor}",
    models=[
        PythonModel(
            name="{name}",
            code="model.py",
            inputs=[Tensor("X", "FP32", [3])],
            outputs=[Tensor("Y", "FP32", [3])],
            max_batch_size=8,
        )
    ],
    examples=examples,
    reference=reference,
    output="Y",
    tolerance=1e-6,
    write=write,
)
'''
_CODE = """\
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x * {factor})]) for x in inputs]
"""

BROKEN: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "unloadable": {"code": "1 / 0"},
        "mistyped": {"code": "def ("},
        "raises": {"body": "raise RuntimeError('no such layer')"},
        "refused": {"body": "(job.root / 'refused' / '1' / 'model.py').unlink()"},
        "wrong": {"expected": "99"},
        "killed": {"body": "os.kill(os.getpid(), 9)"},
    }
)
"""The defect of each broken model."""


def declare(
    models: Path, name: str, number: int, *, code: str = "", body: str = "pass", expected: str = ""
) -> None:
    """Write the build of a model that multiplies by a number."""
    folder = models / name
    folder.mkdir(parents=True, exist_ok=True)
    factor = f"{number}.0"
    text = _DECLARATION.format(name=name, body=body, factor=factor, expected=expected or factor)
    (folder / "build.py").write_text(text)
    (folder / "model.py").write_text(_CODE.format(factor=factor) + code)
