"""FORMS of a declaration: other forms of one network, each a model of its own name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.reported import refused
from triton_models.base.errors import FleetError
from triton_models.builds.build import build
from triton_models.spec import folder_of, forms_of, load_build, load_builds, model_names

TWO_FORMS = """
import dataclasses
from triton_models.spec import Ensemble, ModelDefinition, OnnxRuntime, PythonModel, Tensor

def declared(name, description):
    return ModelDefinition(
        name=name,
        description=description,
        models=[
            PythonModel(
                name=name,
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

BUILD = declared(NAME, "as it is served")
FORMS = {"plain": declared(PLAIN, "as it was"), "fast": declared(FAST, "as it may be")}
"""


@pytest.fixture
def declare_forms(models):
    """Add a folder with the forms `plain` and `fast`."""

    def add(folder: str = "net", *, plain: str = "net_plain", fast: str = "net_fast", more: str = "") -> Path:
        (models / folder).mkdir()
        (models / folder / "code.py").write_text("# what runs\n")
        path = models / folder / "build.py"
        names = f"NAME, PLAIN, FAST = {folder!r}, {plain!r}, {fast!r}\n"
        path.write_text(names + TWO_FORMS + more)
        return path

    return add


def test_a_folder_alone_is_its_build_and_folder_colon_form_a_form_with_a_name_of_its_own(
    declare_forms, models
):
    declare_forms()
    assert [load_build(name, models).name for name in ("net", "net:plain", "net:fast")] == [
        "net",
        "net_plain",
        "net_fast",
    ]
    assert [each.description for each in load_builds(["net:fast", "net"], models)] == [
        "as it may be",
        "as it is served",
    ]


def test_the_names_of_models_are_folders_and_a_folders_forms_are_listed_as_they_are_asked_for(
    declare_forms, models
):
    declare_forms()
    assert model_names(models) == ["net"]
    assert forms_of("net", models) == ["net", "net:plain", "net:fast"]
    assert forms_of("net:fast", models) == forms_of("net", models)
    assert folder_of("net:fast", models) == models / "net"


def test_a_change_of_the_same_size_in_the_same_second_is_read(declare_forms, models, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = declare_forms()
    load_build("net", models)
    written = path.stat()

    path.write_text(path.read_text().replace("as it is served", "as it now stood"))
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))

    assert load_build("net", models).description == "as it now stood"
    assert not (path.parent / "__pycache__").exists()


def test_an_unknown_form_is_answered_with_the_close_name(declare_forms, models):
    path = declare_forms()
    problem = refused(load_build, "net:plane", models)
    assert (problem.rule, problem.where) == ("unknown-form", str(path))
    assert problem.fix == "did you mean plain?"


def test_a_forms_own_name_is_answered_with_how_it_is_asked_for(declare_forms, models):
    declare_forms()
    problem = refused(load_build, "net_fast", models)
    assert problem.what == "unknown model 'net_fast'"
    assert problem.fix.endswith("(a form would be net:fast)")


@pytest.mark.parametrize("name", ["", ":fast", "net/:fast", "../models/net:fast"])
def test_a_name_that_is_no_folders_is_unknown(name, declare_forms, models):
    declare_forms()
    assert refused(load_build, name, models).rule == "unknown-model"


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        ({"plain": "net"}, "the form 'plain' is called 'net', the name of BUILD too"),
        ({"fast": "net_plain"}, "the form 'fast' is called 'net_plain', the name of the form 'plain' too"),
        ({"fast": "single"}, "the form 'fast' is called 'single', a folder's too"),
    ],
)
def test_a_form_with_another_models_name_is_refused(names, taken, declare_forms, declare, models):
    declare("single")
    declare_forms(**names)
    for name in ("net", "net:plain", "net:fast"):
        assert refused(load_build, name, models).what == taken


def test_forms_of_two_folders_with_one_name_are_refused_together(declare_forms, models):
    declare_forms()
    declare_forms("other", plain="other_plain")
    assert (
        "'net_fast', the name of net:fast too"
        in refused(load_builds, ["net:fast", "other:fast"], models).what
    )


@pytest.mark.parametrize("forms", ["FORMS = [BUILD]", "FORMS = {'fast': 1}", "FORMS = None"])
def test_forms_that_are_no_declarations_by_name_are_refused(forms, declare_forms, models):
    declare_forms(more=forms)
    assert refused(load_build, "net", models).fix == "write FORMS = {name: ModelDefinition(...)}"


def test_a_mistake_in_a_form_is_reported_with_its_line(declare_forms, models):
    path = declare_forms(
        more="FORMS = {'fast': dataclasses.replace(FORMS['fast'], models=[Ensemble(name='x', steps=[])])}"
    )
    last = len(path.read_text().splitlines())
    with pytest.raises(FleetError, match="has no steps") as caught:
        load_build("net", models)
    assert caught.value.problems[0].where == f"{path}:{last}"


def test_a_form_is_built_under_its_own_name_with_the_files_of_its_folder(declare_forms, models, tmp_path):
    declare_forms()
    root = build("net:fast", output=tmp_path / "out", models=models)
    assert root == tmp_path / "out" / "net_fast"
    assert (root / "net_fast" / "1" / "model.py").read_text() == "# what runs\n"
    assert '"model": "net_fast"' in (root / "build.json").read_text()


def test_every_form_in_the_repository_reads_without_a_mistake():
    for name in model_names():
        load_builds(forms_of(name))
