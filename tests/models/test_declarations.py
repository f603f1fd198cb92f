"""Declarations: those of the repository and of the documentation, what is refused, and many at once."""

from __future__ import annotations

import inspect
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from buildable import every_model
from recipes import BLOCKS

from tests.reported import reported
from triton_models import spec
from triton_models.artifact.pbtxt import read_config, schema
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.check.check import check_path
from triton_models.declare.mistakes import find_mistakes
from triton_models.spec import Tensor, load_build, model_names, models_folder

DTYPES = {
    "TYPE_FP32": np.float32,
    "TYPE_UINT8": np.uint8,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_STRING": np.object_,
}
EXAMPLES = {
    name: code
    for name in spec.__all__
    if inspect.isclass(each := getattr(spec, name)) and each.__module__.startswith("triton_models.")
    for code in re.findall(r"```python\n(.*?)```", inspect.getdoc(each) or "", flags=re.DOTALL)
}
GIVEN = {"model", "network", "pipeline", "examples", "reference", "from_mlflow"}
"""The functions that the examples name and do not define."""


@pytest.mark.parametrize("name", every_model())
def test_every_example_is_a_request_that_the_configuration_accepts(name, built_model):
    declared = load_build(name)
    config = read_config(built_model(name) / name / "config.pbtxt")
    assert declared.output in {output.name for output in config.output}
    for example in declared.examples():
        assert {tensor.name for tensor in config.input} == example.inputs.keys()
        for tensor in config.input:
            given = example.inputs[tensor.name]
            assert given.dtype == DTYPES[schema().DataType.Name(tensor.data_type)]
            assert 1 <= given.shape[0] <= config.max_batch_size
            assert len(given.shape) == 1 + len(tensor.dims)
            assert all(
                wanted in (-1, size) for size, wanted in zip(given.shape[1:], tensor.dims, strict=True)
            )


@pytest.mark.parametrize("name", model_names())
def test_examples_are_the_same_every_time_and_fit_the_six_megabytes_of_an_invocation(name):
    first, second = load_build(name).examples(), load_build(name).examples()
    assert [example.name for example in first] == [example.name for example in second]
    for one, other in zip(first, second, strict=True):
        assert sum(tensor.nbytes for tensor in one.inputs.values()) < 5_000_000
        for tensor in one.inputs:
            np.testing.assert_array_equal(one.inputs[tensor], other.inputs[tensor])


def test_an_unknown_model_is_answered_with_the_close_name():
    with reported("unknown-model") as problems:
        load_build("minlm")
    assert problems[0].fix == "did you mean minilm?"


@pytest.mark.parametrize(
    ("declaration", "line", "what"),
    [
        ("import a_package_that_nobody_has\n", 1, "No module named 'a_package_that_nobody_has'"),
        ("\nBUILD = (\n", 2, "'(' was never closed"),
    ],
)
def test_a_declaration_that_cannot_be_read_is_named_with_its_line(declaration, line, what, declare, models):
    path = declare("broken", declaration=declaration)
    with reported("bad-declaration") as problems:
        load_build("broken", models)
    assert problems[0].where == f"{path}:{line}"
    assert what in problems[0].what


@pytest.mark.parametrize("text", ["", "BUILD = 1", "BUILD = None"])
def test_a_file_without_a_declaration_is_refused(text, declare, models):
    declare("empty", declaration=text)
    with reported("bad-declaration") as problems:
        load_build("empty", models)
    assert problems[0].fix == "write BUILD = ModelDefinition(...)"


def test_a_copied_folder_must_be_renamed_inside_too(declare, models):
    path = declare("original")
    (models / "copy").mkdir()
    (models / "copy" / "build.py").write_text(path.read_text())
    with pytest.raises(FleetError, match=r"BUILD\.name is 'original'"):
        load_build("copy", models)


@pytest.mark.parametrize(
    ("given", "meant"), [("float32", "FP32"), ("torch.long", "INT64"), ("FP3", "FP32"), ("int8", "INT8")]
)
def test_a_data_type_by_another_name_is_answered_with_tritons(given, meant):
    (mistake,) = Tensor("scores", given, [1]).mistakes()
    assert mistake.fix.startswith(f"did you mean {meant}")


def test_the_complete_model_is_built_and_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(BLOCKS[0])

    root = build("tiny", models=tmp_path / "models", output=tmp_path / "built")

    assert check_path(root) == []


@pytest.mark.parametrize("code", EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_is_a_valid_declaration(code: str) -> None:
    names = {name: getattr(spec, name) for name in spec.__all__} | dict.fromkeys(GIVEN, lambda *_: None)

    declared = eval(code, {**names, "np": np, "os": os})  # noqa: S307  our own docstring

    assert find_mistakes(declared) == []


@pytest.fixture
def many(models: Path) -> Path:
    """A folder of 200 model builds, copies of the two declared ones under names of their own."""
    for number in range(200):
        source = ("minilm", "resnet50")[number % 2]
        folder = models / f"{source}-{number}"
        shutil.copytree(models_folder() / source, folder, ignore=shutil.ignore_patterns("__pycache__"))
        path = folder / "build.py"
        path.write_text(path.read_text().replace(f'name="{source}"', f'name="{folder.name}"'))
    return models
