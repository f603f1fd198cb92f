"""The workflows, here and of `fleet init`: actions are pinned, and a pull request reaches no token."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
STARTER = ROOT / "model_builds" / "triton_models" / "cli" / "starter" / "files"
WORKFLOWS = [
    path for place in (ROOT, STARTER) for path in sorted((place / ".github" / "workflows").glob("*.yml"))
]
DEPLOY = ROOT / ".github" / "workflows" / "deploy.yml"
PINNED = re.compile(r"uses: [\w-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")

every_workflow = pytest.mark.parametrize(
    "workflow", WORKFLOWS, ids=lambda path: f"{path.parts[-4]}-{path.stem}"
)


def jobs(workflow: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


def steps(job: dict[str, Any], action: str) -> Iterator[dict[str, Any]]:
    return (step for step in job["steps"] if step.get("uses", "").startswith(f"{action}@"))


@every_workflow
def test_every_action_is_pinned_by_commit_with_its_version_in_a_comment(workflow: Path) -> None:
    uses = [line.strip().removeprefix("- ") for line in workflow.read_text().splitlines() if "uses:" in line]

    assert uses
    assert [line for line in uses if not PINNED.fullmatch(line)] == []


@every_workflow
def test_no_checkout_leaves_its_token_behind(workflow: Path) -> None:
    for job in jobs(workflow).values():
        for step in steps(job, "actions/checkout"):
            assert step["with"]["persist-credentials"] is False


@every_workflow
def test_a_workflow_may_read_the_repository_and_no_more(workflow: Path) -> None:
    assert yaml.safe_load(workflow.read_text())["permissions"] == {"contents": "read"}


@every_workflow
def test_a_job_that_may_write_runs_nothing_of_the_repository(workflow: Path) -> None:
    for job in jobs(workflow).values():
        if "write" in {**job.get("permissions", {}), "id-token": ""}.values():
            assert not any("uses" in step or "make" in step["run"] for step in job["steps"])


@every_workflow
def test_what_a_pull_request_says_reaches_a_script_as_a_variable_only(workflow: Path) -> None:
    scripts = [step.get("run", "") for job in jobs(workflow).values() for step in job["steps"]]

    assert [script for script in scripts if "${{" in script] == []


@every_workflow
def test_only_a_job_in_an_environment_gets_a_token_for_aws_and_never_for_a_pull_request(
    workflow: Path,
) -> None:
    document = yaml.safe_load(workflow.read_text())
    asking = [job for job in document["jobs"].values() if "id-token" in job.get("permissions", {})]

    assert all(job["environment"] for job in asking)
    # YAML reads the key `on` as True.
    assert not asking or document[True] == {"push": {"branches": ["main"]}, "workflow_dispatch": None}


@every_workflow
def test_a_comment_says_that_the_pull_request_made_it(workflow: Path) -> None:
    for job in jobs(workflow).values():
        for step in (each for each in job["steps"] if "gh pr comment" in each.get("run", "")):
            assert "code of this pull request made this report" in step["env"]["NOTE"]
            assert '"$NOTE"' in step["run"]


def test_a_new_repository_deploys_with_the_same_workflow() -> None:
    assert (STARTER / ".github" / "workflows" / "deploy.yml").read_text() == DEPLOY.read_text()


def test_each_job_deploys_the_stage_of_its_environment_and_production_follows_staging() -> None:
    for job in jobs(DEPLOY).values():
        scripts = " ".join(each.get("run", "") for each in job["steps"])
        assert f"--context stage={job['environment']} " in scripts
    production = jobs(DEPLOY)["production"]
    assert (production["environment"], production["needs"]) == ("production", "staging")


def test_a_deployment_is_never_cut_off_by_the_next() -> None:
    assert yaml.safe_load(DEPLOY.read_text())["concurrency"] == {
        "group": "deploy",
        "cancel-in-progress": False,
    }


@pytest.mark.parametrize("place", [ROOT, STARTER], ids=["here", "fleet init"])
def test_a_deployment_makes_what_the_makefile_has(place: Path) -> None:
    makefile = (place / "Makefile").read_text().replace("$(STAMPS)", ".venv/.installed")
    wanted = {
        word
        for job in jobs(DEPLOY).values()
        for step in job["steps"]
        for word in step.get("run", "").removeprefix("make ").split()
        if step.get("run", "").startswith("make ")
    }

    assert wanted
    assert [each for each in wanted if f"\n{each}:" not in makefile] == []


def test_production_promotes_the_file_of_the_test_on_staging() -> None:
    staging, production = (jobs(DEPLOY)[name] for name in ("staging", "production"))
    (sent,) = (step["with"] for step in steps(staging, "actions/upload-artifact"))
    (got,) = (step["with"] for step in steps(production, "actions/download-artifact"))
    smoke, promote = (
        [step["run"] for step in job["steps"] if f"fleet {verb}" in step.get("run", "")]
        for job, verb in ((staging, "smoke"), (production, "promote"))
    )

    assert (sent["name"], sent["overwrite"]) == (got["name"], True)
    assert [f"--tested {sent['path']}" in script for script in smoke] == [True]
    assert [f"promote --only {sent['path']} " in script for script in promote] == [True]


@pytest.mark.parametrize(
    ("watch", "expected"), [("", []), ("15m", ["--watch", "15m", "--endpoint", "served"])]
)
def test_production_watches_the_endpoint_of_the_alias_if_it_says_for_how_long(
    watch: str, expected: list[str], tmp_path: Path
) -> None:
    (script,) = (
        step["run"] for step in jobs(DEPLOY)["production"]["steps"] if "fleet promote" in step.get("run", "")
    )
    for name, said in {
        ".venv/bin/fleet": 'printf "%s\\n" "$@"',
        "aws": """echo '{"endpoint": "served"}'""",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{said}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "jq").write_text(
        f"#!{sys.executable}\nimport json, sys\nprint(json.load(sys.stdin)['endpoint'])\n"
    )
    (tmp_path / "jq").chmod(0o755)
    given = {
        "STAGING": "s3://a/",
        "STAGING_REGION": "r",
        "REPOSITORY": "s3://b/",
        "ALIAS": "/a",
        "WATCH": watch,
    }

    ended = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **given},
        capture_output=True,
        text=True,
        check=True,
    )

    words = ended.stdout.splitlines()
    assert words[words.index("s3://b/") + 1 :] == expected
