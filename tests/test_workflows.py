"""The workflows: actions are pinned to commits, and code of a pull request cannot reach a token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).parent.parent / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"uses: [\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")

every_workflow = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)


def steps(job: dict[str, Any], action: str) -> Iterator[dict[str, Any]]:
    return (step for step in job["steps"] if step.get("uses", "").startswith(f"{action}@"))


@every_workflow
def test_every_action_is_pinned_by_commit_with_its_version_in_a_comment(workflow: Path) -> None:
    uses = [line.strip().removeprefix("- ") for line in workflow.read_text().splitlines() if "uses:" in line]

    assert uses
    assert [line for line in uses if not PINNED.fullmatch(line)] == []


def test_the_long_stories_run_every_night() -> None:
    nightly = yaml.safe_load((WORKFLOWS[0].parent / "nightly.yml").read_text())["jobs"]

    assert "make test-all" in [step.get("run") for job in nightly.values() for step in job["steps"]]


@every_workflow
def test_no_checkout_leaves_its_token_behind(workflow: Path) -> None:
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        for step in steps(job, "actions/checkout"):
            assert step["with"]["persist-credentials"] is False


@every_workflow
def test_a_workflow_may_read_the_repository_and_no_more(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}


@every_workflow
def test_a_job_that_may_write_runs_nothing_of_the_repository(workflow: Path) -> None:
    for job in yaml.safe_load(workflow.read_text())["jobs"].values():
        if "write" in job.get("permissions", {}).values():
            assert not any("uses" in step or "make" in step["run"] for step in job["steps"])


@every_workflow
def test_what_a_pull_request_says_reaches_a_script_as_a_variable_only(workflow: Path) -> None:
    scripts = [
        step.get("run", "")
        for job in yaml.safe_load(workflow.read_text())["jobs"].values()
        for step in job["steps"]
    ]

    assert [script for script in scripts if "${{" in script] == []
