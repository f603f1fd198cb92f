"""A model that is declared, for a source folder of tests."""

from __future__ import annotations

from pathlib import Path

_DECLARATION = """
from triton_models.spec import ModelBuild, PythonModel, Tensor

BUILD = ModelBuild(
    name={name!r},
    description="made up",
    models=[
        PythonModel(
            name={name!r},
            code="code.py",
            inputs=[Tensor("X", "FP32", [1])],
            outputs=[Tensor("Y", "FP32", [1])],
            max_batch_size=0,
        )
    ],
    examples=list,
    reference=dict,
    output="Y",
    tolerance=0.0,
)
"""


def declare(source: Path, *names: str) -> Path:
    """Make a source folder with these models, or add them to it."""
    source.mkdir(parents=True, exist_ok=True)
    (source / "requirements.txt").write_text("boto3\n")
    for name in names:
        folder = source / "models" / name
        folder.mkdir(parents=True)
        (folder / "build.py").write_text(_DECLARATION.format(name=name))
        (folder / "code.py").touch()
    return source
