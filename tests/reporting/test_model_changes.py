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


def test_the_models_are_counted_that_the_configuration_names_and_a_star_is_every_folder() -> None:
    assert declared("reader").count == 1
    assert declared("reader", "reader:small").count == 2
    assert declared("*").count == 2


ONE = "reader"


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        (declared("reader", "writer"), declared("*"), []),
        (declared("reader"), declared("*"), [("writer", "built", True)]),
        (
            declared("*"),
            declared("*", folders="reader speaker"),
            [("speaker", "added", True), ("writer", "removed", False)],
        ),
        (
            declared("reader", folders=ONE),
            declared("reader", folders="reader speaker"),
            [("speaker", "added", False)],
        ),
        (
            declared("reader", folders=ONE),
            declared("reader", "speaker:small", folders="reader speaker"),
            [("speaker:small", "added", True)],
        ),
        (
            declared("reader:acme", "reader:globex"),
            declared("reader:globex", "reader:initech"),
            [("reader:acme", "not built", False), ("reader:initech", "built", True)],
        ),
        (declared("*"), declared("*", "reader:acme"), [("reader:acme", "built", True)]),
        (
            declared("reader"),
            declared("reader:acme"),
            [("reader", "not built", False), ("reader:acme", "built", True)],
        ),
        (
            declared("reader", "writer:acme", "writer:globex"),
            declared("reader", folders=ONE),
            [("writer:acme", "removed", False), ("writer:globex", "removed", False)],
        ),
    ],
    ids=[
        *("a star", "a star builds more", "folders come and go", "a folder that is not named", "a form"),
        *("forms come and go", "a form next to a star", "forms alone", "forms of a removed folder"),
    ],
)
def test_folders_and_forms_that_come_and_go_are_rows(
    before: Declared, after: Declared, changed: list[tuple[str, str, bool]]
) -> None:
    assert [(each.name, each.what, each.built) for each in model_changes(before, after)] == changed


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
