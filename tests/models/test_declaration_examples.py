"""The complete declaration of docs/bring_models.md, and the examples in the docstrings of declarations."""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

import numpy as np
import pytest

from triton_models import spec
from triton_models.builds.build import build
from triton_models.check.check import check_path
from triton_models.declare.mistakes import find_mistakes

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "bring_models.md").read_text()
EXAMPLES = {
    name: code
    for name in spec.__all__
    if inspect.isclass(each := getattr(spec, name)) and each.__module__.startswith("triton_models.")
    for code in re.findall(r"```python\n(.*?)```", inspect.getdoc(each) or "", flags=re.DOTALL)
}
GIVEN = {"network", "pipeline", "examples", "reference", "from_mlflow"}
"""The functions that the examples name and do not define."""


def test_the_complete_model_is_built_and_accepted(tmp_path: Path) -> None:
    complete = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(complete)

    root = build("tiny", models=tmp_path / "models", output=tmp_path / "built")

    assert check_path(root) == []


@pytest.mark.parametrize("code", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_a_valid_declaration(code: str) -> None:
    names = {name: getattr(spec, name) for name in spec.__all__} | dict.fromkeys(GIVEN, lambda *_: None)

    declared = eval(code, {**names, "np": np, "os": os})  # noqa: S307  our own docstring

    assert find_mistakes(declared) == []
