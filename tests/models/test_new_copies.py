"""`fleet new NAME --like FOLDER`: a model of one's own begins as a copy under new names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reported import reported
from triton_models.base.errors import FleetError
from triton_models.cli.starter.init import starter_models
from triton_models.cli.starter.new import begin_like as begin
from triton_models.spec import load_build, model_names, models_folder

DECLARATION = '''"""Made up.

    fleet build old  # and old_reader; but an-old-thing and golden stay
"""

import os

from triton_models.spec import *  # old

ADDRESS = os.environ.get("SOME_WEIGHTS")
PACKAGE = "my-old-package"
LABEL = f"old {ADDRESS}"

def network():
    return "old"

BUILD = ModelDefinition(
    name="old",
    description="an old thing",
    models=[
        PythonModel(
            name="old_reader", code="reader.py", max_batch_size=0,
            inputs=[Tensor("X", "FP32", [1])], outputs=[Tensor("Y", "FP32", [1])],
        ),
        PythonModel(
            name="writer", code="reader.py", max_batch_size=0,
            inputs=[Tensor("Y", "FP32", [1])], outputs=[Tensor("Z", "FP32", [1])],
        ),
        Ensemble(name="old", steps=["old_reader", "writer"]),
    ],
    examples=list, reference=dict, output="Z", tolerance=0.0,
)
'''


@pytest.fixture
def old(models: Path) -> Path:
    (models / "old" / "__pycache__").mkdir(parents=True)
    (models / "old" / "__pycache__" / "build.pyc").touch()
    (models / "old" / "build.py").write_text(DECLARATION)
    (models / "old" / "reader.py").write_text("old = 1\n")
    return models


@pytest.mark.parametrize("like", model_names())
def test_a_copy_of_every_model_here_is_a_declaration_of_its_own(like: str, tmp_path: Path) -> None:
    for folder in models_folder().iterdir():
        (tmp_path / folder.name).symlink_to(folder)

    begin("news", like=like, models=tmp_path)

    own = {model.name for model in load_build("news", tmp_path).models}
    assert own.isdisjoint(model.name for model in load_build(like, tmp_path).models)


@pytest.mark.parametrize("like", starter_models())
def test_a_model_that_the_repository_lacks_is_copied_from_the_library(like: str, old: Path) -> None:
    begin("news", like=like, models=old)

    assert load_build("news", old).name == "news"
    assert sorted(folder.name for folder in old.iterdir()) == ["news", "old"]


def test_a_model_of_the_repository_comes_before_one_of_the_library(old: Path) -> None:
    (old / "old").rename(old / "resnet50")
    text = DECLARATION.replace('name="old"', 'name="resnet50"').replace("an old thing", "mine")
    (old / "resnet50" / "build.py").write_text(text)

    begin("news", like="resnet50", models=old)

    assert load_build("news", old).description == "mine"


def test_a_copy_has_new_names_in_its_models_docstrings_and_comments_alone(old: Path) -> None:
    begin("new", like="old", models=old)

    names = [model.name for model in load_build("new", old).models]
    assert names == ["new_reader", "new_writer", "new"]
    text = (old / "new" / "build.py").read_text()
    assert "fleet build new  # and new_reader; but an-old-thing and golden stay" in text
    assert "import *  # new" in text
    for kept in ('PACKAGE = "my-old-package"', 'LABEL = f"old {ADDRESS}"', 'description="an old thing"'):
        assert kept in text
    assert (old / "new" / "reader.py").read_text() == "old = 1\n"
    assert sorted(file.name for file in (old / "new").iterdir()) == ["build.py", "reader.py"]
    assert (old / "old" / "build.py").read_text() == DECLARATION


@pytest.mark.parametrize(
    ("name", "variable"),
    [("my-news.v2", "MY_NEWS_V2_WEIGHTS"), ("3d", "MODEL_3D_WEIGHTS"), ("a" * 200, f"{'A' * 200}_WEIGHTS")],
    ids=["a hyphen", "a digit", "the longest name"],
)
def test_its_weights_come_from_a_variable_of_its_own(old: Path, name: str, variable: str) -> None:
    kind = variable.rpartition("_")[2]
    (old / "old" / "build.py").write_text(DECLARATION.replace("SOME_WEIGHTS", f"SOME_{kind}"))

    begin(name, like="old", models=old)

    assert f'os.environ.get("{variable}")' in (old / name / "build.py").read_text()
    assert load_build(name, old).name == name


@pytest.mark.parametrize(
    ("name", "like", "rule"),
    [
        ("a b", "old", "model-name"),
        ("a" * 201, "old", "model-name"),
        ("Old", "old", "model-taken"),
        ("new", "odl", "unknown-model"),
    ],
)
def test_a_wrong_name_is_refused_and_leaves_nothing(old: Path, name: str, like: str, rule: str) -> None:
    with reported(rule):
        begin(name, like=like, models=old)
    assert [folder.name for folder in old.iterdir()] == ["old"]


def test_a_declaration_that_cannot_be_read_is_not_copied(old: Path) -> None:
    (old / "old" / "build.py").write_text("BUILD = 1\n")

    with pytest.raises(FleetError, match="BUILD is 1"):
        begin("new", like="old", models=old)

    assert [folder.name for folder in old.iterdir()] == ["old"]
