"""The report on every pair of neighboring commits of a sample fleet, as a reviewer reads it."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest
from commits import HISTORY, commit_all, make_repository
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation

from triton_models.base.errors import FleetError
from triton_report.comparison import Comparison
from triton_report.markdown import headline, markdown
from triton_report.revisions import Revision, committed, working_tree

pytestmark = pytest.mark.story

ROOT = Path(__file__).parents[2]
_DIGEST = re.compile("/[0-9a-f]+(?=….zip)")


class _Markdown(SingleFileSnapshotExtension):
    """One file per report in tests/snapshots, readable in the form in which it is shown."""

    _write_mode = WriteMode.TEXT
    file_extension = "md"

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        return str(ROOT / "tests" / "snapshots" / test_location.basename)


@pytest.fixture(scope="module")
def revisions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Revision]:
    """Every commit of the sample, synthesized from its own checkout."""
    folder = tmp_path_factory.mktemp("sample")
    made = {name: committed(folder, name) for name in make_repository(folder)}
    names = list(made)
    return {
        name: Revision(name=name, assembly=each.assembly, declared=each.declared)  # no hashes of commits
        for name, each in zip(names, made.values(), strict=True)
    }


@pytest.fixture(scope="module")
def reports(revisions: dict[str, Revision]) -> dict[str, Comparison]:
    """Each commit compared with the one before it."""
    names = list(revisions)
    return {
        name: Comparison(revisions[before], revisions[name]) for before, name in itertools.pairwise(names)
    }


@pytest.mark.parametrize("name", [commit.name for commit in HISTORY])
def test_a_report_is_as_it_was_reviewed(
    name: str, reports: dict[str, Comparison], snapshot: SnapshotAssertion
) -> None:
    report = _DIGEST.sub("/<digest>", markdown(reports[name]))  # digests of sources change with every edit

    assert report == snapshot(extension_class=_Markdown)
    assert "USD" not in headline(reports[name])


def test_going_back_narrows_what_was_widened(revisions: dict[str, Revision]) -> None:
    back = Comparison(revisions["a-wide-permission"], revisions["later-alarms"]).permissions

    assert [grant.action for grant in back.narrowed] == ["sagemaker:*"]
    assert back.widened == ()


def test_what_is_no_revision_is_reported(tmp_path: Path) -> None:
    with pytest.raises(FleetError) as raised:
        committed(tmp_path, "HEAD")
    (problem,) = raised.value.problems
    assert (problem.rule, problem.where) == ("revision", str(tmp_path))
    assert problem.what == "the project is not in a git repository"

    make_repository(tmp_path)
    with pytest.raises(FleetError, match="there is no commit 'nonsense'"):
        committed(tmp_path, "nonsense")


def test_a_revision_that_cannot_be_synthesised_says_why_and_leaves_no_checkout(tmp_path: Path) -> None:
    make_repository(tmp_path)
    (tmp_path / "app.py").write_text("raise SystemExit('the fleet is no more')\n")
    with pytest.raises(FleetError, match="the fleet is no more"):
        working_tree(tmp_path)

    commit_all(tmp_path, "broken")
    with pytest.raises(FleetError, match="cannot be synthesised"):
        committed(tmp_path, "HEAD")
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "worktree", "list"], capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.splitlines()) == 1
