"""The report of a repository that requires another version of the library than its base."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from commits import commit_all, git

from triton_models.base.errors import FleetError
from triton_report.comparison import Comparison
from triton_report.markdown import markdown
from triton_report.revisions import committed, working_tree

pytestmark = pytest.mark.story

# The template names the library's version, as any of its changes would show.
APP = """
import json, os
from importlib.metadata import version
from pathlib import Path

folder = Path(os.environ["CDK_OUTDIR"])
topic = {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": version("triton-fleet")}}
stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "Fleet.template.json"}}
(folder / "Fleet.template.json").write_text(json.dumps({"Resources": {"Topic": topic}}))
(folder / "manifest.json").write_text(json.dumps({"artifacts": {"Fleet": stack}}))
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that was upgraded from version 0.0.9, whose wheel it had committed."""
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "cdk.json").write_text('{"app": "python3 app.py"}')
    (folder / "requirements.txt").write_text("triton-fleet[constructs]==0.0.9\n")
    _wheel(folder / "wheels", "0.0.9")
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit_all(folder, "start")
    (folder / "requirements.txt").write_text("triton-fleet[constructs]==0.1.0  # newer\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


def _wheel(folder: Path, version: str) -> None:
    folder.mkdir()
    info = f"triton_fleet-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: triton-fleet\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"triton_fleet-{version}-py3-none-any.whl", "w") as archive:
        for name, text in (*files.items(), (f"{info}/RECORD", "".join(f"{each},,\n" for each in files))):
            archive.writestr(name, text)


def compared(repository: Path, *, install: bool) -> Comparison:
    return Comparison(committed(repository, "main", install=install), working_tree(repository))


def test_what_the_library_changes_shows_if_the_base_has_its_own(repository: Path) -> None:
    found = compared(repository, install=True)

    [change] = found.changes
    assert [(each.before, each.after) for each in change.properties] == [("0.0.9", "0.1.0")]
    assert not found.one_library


def test_otherwise_the_upgrade_is_named_first_and_the_report_says_what_does_not_show(
    repository: Path,
) -> None:
    found = compared(repository, install=False)

    assert found.changes == []
    assert found.one_library
    assert markdown(found).startswith("### Triton-fleet 0.0.9 → 0.1.0\n")
    assert "`--install-base`" in markdown(found)


def test_a_base_with_the_same_version_needs_no_environment_and_the_library_itself_requires_none(
    repository: Path,
) -> None:
    commit_all(repository, "upgraded")
    (repository / "requirements.txt").write_text("triton-fleet==0.1.0\npytest\n")
    assert committed(repository, "upgraded", install=True).python == working_tree(repository).python

    (repository / "requirements.txt").write_text("{}")
    assert working_tree(repository).declared.library == ""


def test_a_version_that_no_index_has_is_reported(repository: Path) -> None:
    (repository / "requirements.txt").write_text("triton-fleet==0.0.1\n")
    commit_all(repository, "unknown")
    (repository / "requirements.txt").write_text("triton-fleet==0.1.0\n")

    with pytest.raises(FleetError) as raised:
        committed(repository, "unknown", install=True)
    assert [problem.rule for problem in raised.value.problems] == ["revision-requirements"]
