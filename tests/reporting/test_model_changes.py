"""Changes of model builds, and the number of builds."""

from __future__ import annotations

import pytest
from templates import of, resource

from triton_report.comparison import compare
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

    assert model_changes(before, after) == [ModelChange(name="speaker", what="added", built=True)]


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
        (moving("old", "reader"), ()),
        (moving("new", "reader", "writer", "reader:small"), ()),
    ],
)
def test_a_model_that_is_no_longer_built_stops_the_move_to_another_target(
    after: Revision, stops_for: tuple[str, ...]
) -> None:
    compared = compare(BEFORE, after)

    assert [each.models for each in compared.moves_without] == ([stops_for] if stops_for else [])
    assert ("🛑 deployment stops" in markdown(compared)) is bool(stops_for)


def test_a_model_that_was_never_published_stops_nothing() -> None:
    assert compare(BEFORE, moving("new", "reader", "reader:small"), published={}).moves_without == []
