"""The report on every pair of neighboring commits of a sample fleet, as a reviewer reads it."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest
from commits import HISTORY, make_repository
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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a-comment", "Nothing changes in the deployment"),
        ("more-instances", "Capacity 1 to 4 → 1 to 6"),
        ("a-larger-instance", "Instance type ml.g5.2xlarge → ml.g5.4xlarge"),
        ("a-newer-release", "Release 25.09 → 26.05"),
        ("a-second-model", "Models + writer"),
        ("a-changed-model", "Model reader changed"),
        ("a-removed-model", "Models - writer"),
        ("later-alarms", "without risk"),
        ("a-wide-permission", "1 wider permission"),
        ("another-id", "replaced"),
        ("another-name-of-the-endpoint", "13 resources replaced"),
        ("no-more-capture", "1 risk to data"),
        ("no-alarms", "10 alarms removed"),
        ("another-stack", "1 orphaned stack"),
    ],
)
def test_the_headline_says_what_was_changed_and_otherwise_what_results(
    name: str, said: str, reports: dict[str, Comparison]
) -> None:
    assert said in headline(reports[name])
    assert "USD" not in headline(reports[name])


def test_going_back_narrows_what_was_widened(revisions: dict[str, Revision]) -> None:
    back = Comparison(revisions["a-wide-permission"], revisions["later-alarms"]).permissions

    assert [grant.action for grant in back.narrowed] == ["sagemaker:*"]
    assert back.widened == ()


def test_a_revision_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    make_repository(tmp_path)

    with pytest.raises(FleetError, match="there is no commit 'nonsense'"):
        committed(tmp_path, "nonsense")


def test_a_project_outside_of_git_has_no_revision(tmp_path: Path) -> None:
    with pytest.raises(FleetError) as raised:
        committed(tmp_path, "HEAD")

    (problem,) = raised.value.problems
    assert (problem.rule, problem.where) == ("revision", str(tmp_path))
    assert problem.what == "the project is not in a git repository"


def test_a_revision_that_cannot_be_synthesised_says_why(tmp_path: Path) -> None:
    make_repository(tmp_path)
    (tmp_path / "app.py").write_text("raise SystemExit('the fleet is no more')\n")

    with pytest.raises(FleetError, match="the fleet is no more"):
        working_tree(tmp_path)


def test_nothing_is_left_of_a_checkout_that_failed(tmp_path: Path) -> None:
    make_repository(tmp_path)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=test", "-c", "user.email=test@example.org"]
    (tmp_path / "app.py").write_text("raise SystemExit(1)\n")
    subprocess.run([*git, "commit", "--quiet", "--all", "--message", "broken"], check=True)

    with pytest.raises(FleetError, match="cannot be synthesised"):
        committed(tmp_path, "HEAD")
    listed = subprocess.run([*git, "worktree", "list"], capture_output=True, text=True, check=True)
    assert len(listed.stdout.splitlines()) == 1
