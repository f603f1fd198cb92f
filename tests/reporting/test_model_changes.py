"""Changes of model builds, and the number of builds."""

from __future__ import annotations

from triton_report.declared import Declared, ModelChange, model_changes


def declared(*built: str, folders: str = "reader writer") -> Declared:
    """Return a revision with these model folders, some of which are built."""
    return Declared(
        folders={name: {"build.py": "1"} for name in folders.split()}, built=built, toolkit="the same"
    )


def test_the_models_are_counted_that_the_configuration_names() -> None:
    assert declared("reader").count == 1
    assert declared("reader", "reader:small").count == 2


def test_a_star_stands_for_every_folder() -> None:
    assert declared("*").count == 2
    assert model_changes(declared("reader", "writer"), declared("*")) == []
    assert model_changes(declared("reader"), declared("*")) == [ModelChange(name="writer", what="built")]


def test_a_folder_that_comes_or_goes_is_reported_whoever_builds_it() -> None:
    before, after = declared("*", folders="reader writer"), declared("*", folders="reader speaker")

    assert [(each.name, each.what) for each in model_changes(before, after)] == [
        ("speaker", "added"),
        ("writer", "removed"),
    ]


def test_a_new_folder_that_the_configuration_does_not_name_is_not_built() -> None:
    before, after = declared("reader", folders="reader"), declared("reader", folders="reader speaker")

    assert model_changes(before, after) == [ModelChange(name="speaker", what="added", built=False)]


def test_a_new_folder_that_the_configuration_names_is_built() -> None:
    before, after = (
        declared("reader", folders="reader"),
        declared("reader", "speaker:small", folders="reader speaker"),
    )

    assert model_changes(before, after) == [ModelChange(name="speaker", what="added", built=True)]
