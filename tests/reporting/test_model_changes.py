"""Changes of model builds, and the number of builds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from templates import of, resource

from triton_report.comparison import Comparison
from triton_report.declared import Declared, ModelChange, model_changes
from triton_report.markdown import markdown
from triton_report.revisions import Revision


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

    assert model_changes(before, after) == [ModelChange(name="speaker:small", what="added", built=True)]


def test_forms_that_come_and_go_are_rows_of_their_own() -> None:
    before, after = declared("reader:acme", "reader:globex"), declared("reader:globex", "reader:initech")

    assert model_changes(before, after) == [
        ModelChange(name="reader:acme", what="not built", built=False),
        ModelChange(name="reader:initech", what="built"),
    ]


def test_a_form_next_to_every_folder_of_another_stage_is_a_row_too() -> None:
    assert model_changes(declared("*"), declared("*", "reader:acme")) == [
        ModelChange(name="reader:acme", what="built")
    ]


def test_a_folder_that_is_no_longer_built_itself_is_not_its_forms() -> None:
    assert model_changes(declared("reader"), declared("reader:acme")) == [
        ModelChange(name="reader", what="not built", built=False),
        ModelChange(name="reader:acme", what="built"),
    ]


def test_the_forms_of_a_removed_folder_are_removed() -> None:
    before = declared("reader", "writer:acme", "writer:globex")

    assert model_changes(before, declared("reader", folders="reader")) == [
        ModelChange(name="writer:acme", what="removed", built=False),
        ModelChange(name="writer:globex", what="removed", built=False),
    ]


def test_a_changed_folder_is_one_row_whose_forms_are_built() -> None:
    before = declared("reader:acme", "reader:globex")
    changed = replace(before, folders={**before.folders, "reader": {"build.py": "2"}})

    assert model_changes(before, changed) == [
        ModelChange(name="reader", what="changed", only_forms=True, files=("build.py",))
    ]


def test_the_table_has_forms_with_their_published_artifacts() -> None:
    before = moving("old", "reader:acme", "reader:globex")
    after = moving("old", "reader:globex", "reader:initech")

    text = markdown(Comparison(before, after, published={"reader_acme": "9 MB"}))

    assert text.startswith("### Models + reader:initech - reader:acme\n")
    assert [line for line in text.splitlines() if line.startswith("| `reader")] == [
        "| `reader:acme` | the build job no longer builds it; its published artifact stays and can be called "
        "| nothing | 9 MB |",
        "| `reader:initech` | the build job now builds it | nothing | nothing |",
    ]


def moving(target: str, *built: str, retired: tuple[str, ...] = ()) -> Revision:
    """A revision of a fleet that is served on a target."""
    names = {"Alias": "/a", "Target": target, "NotNeeded": list(retired)}
    assembly = of(
        resource("Before", "Custom::TritonNames", names), resource("After", "Custom::TritonNames", names)
    )
    return Revision(name=target, assembly=assembly, declared=declared(*built))


BEFORE = moving("old", "reader", "writer", "reader:small")


@pytest.mark.parametrize(
    ("after", "stops_for"),
    [
        (moving("new", "reader"), ("writer", "reader:small")),
        (moving("new", "*", "reader:small"), ("reader:small",)),
        (moving("new", "reader", retired=("writer", "reader_small")), ()),
        (moving("new", "reader", retired=("writer", "reader:small")), ("reader:small",)),
        (moving("new", "reader", retired=("writer", "reader_large")), ("reader:small",)),
        (moving("old", "reader"), ()),
        (moving("new", "reader", "writer", "reader:small"), ()),
    ],
)
def test_a_model_that_is_no_longer_built_stops_the_move_to_another_target(
    after: Revision, stops_for: tuple[str, ...]
) -> None:
    compared = Comparison(BEFORE, after)

    assert [each.models for each in compared.moves_without] == ([stops_for] if stops_for else [])
    assert ("🛑 deployment stops" in markdown(compared)) is bool(stops_for)


def test_a_deployment_that_stops_names_what_to_retire_as_it_is_published() -> None:
    text = markdown(Comparison(BEFORE, moving("new", "reader", "writer")))

    assert "`reader:small` leaves `models`" in text
    assert "add the published name `reader_small` to `retired_models`" in text


def test_a_model_that_was_never_published_stops_nothing() -> None:
    assert Comparison(BEFORE, moving("new", "reader", "reader:small"), published={}).moves_without == []
