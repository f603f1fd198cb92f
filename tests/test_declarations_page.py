"""The page about declarations: its model can be built and checked, and every example is valid."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from docs.generate import declarations
from triton_models import spec
from triton_models.builds.build import build
from triton_models.check.check import check_path
from triton_models.declare.mistakes import find_mistakes

COMPLETE, *EXAMPLES = re.findall(r"```python\n(.*?)```", declarations.PAGE.read_text(), flags=re.DOTALL)
GIVEN = {"network", "pipeline", "examples", "reference", "from_mlflow"}
"""The functions that the examples name and do not define."""


def test_the_complete_model_fits_in_25_lines() -> None:
    assert len(COMPLETE.splitlines()) <= 25


def test_the_complete_model_is_built_and_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(COMPLETE)

    root = build("tiny", models=tmp_path / "models", output=tmp_path / "built")

    assert check_path(root) == []


@pytest.mark.parametrize("code", [pytest.param(code, id=code.partition("(")[0]) for code in EXAMPLES])
def test_an_example_is_a_valid_declaration(code: str) -> None:
    names = {name: getattr(spec, name) for name in spec.__all__} | dict.fromkeys(GIVEN, lambda *_: None)

    declared = eval(code, {**names, "np": np, "os": os})  # noqa: S307  our own page

    assert find_mistakes(declared) == []


def test_each_class_has_an_example() -> None:
    sections = re.findall(
        r"^### (\w+)\n(.*?)(?=^##|\Z)", declarations.PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    without = [name for name, text in sections if f"```python\n{name}(" not in text]

    assert without == ["BuildJob"]  # which `write` is given
