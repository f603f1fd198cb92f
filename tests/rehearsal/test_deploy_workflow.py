"""The steps of deploy.yml one by one, as GitHub runs them, against an embedded AWS with two stages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from aws_for_tests.callers import token
from embedded_aws import EmbeddedAws
from tests.rehearsal import generated_models
from tests.rehearsal.stayed import ROOT, clone_with
from triton_models.repository.manifest import Repository
from triton_models.repository.stored_manifest import read_manifest
from triton_rehearsal.aws import open_aws
from triton_rehearsal.builds.runner import BuildRunner
from triton_rehearsal.cdk import Cdk
from triton_rehearsal.hosting.service import Hosting

pytestmark = pytest.mark.story

WORKFLOW = ROOT / ".github" / "workflows" / "deploy.yml"
STAGES = ("staging", "production")
REGION = "eu-west-1"
PROVIDER = f"arn:aws:iam::{EmbeddedAws.account}:oidc-provider/token.actions.githubusercontent.com"
SETTINGS: dict[str, Any] = {
    "models": ["double"],
    "github_repository": "octo-org/search",
    "github_owner_id": 583231,
    "github_repository_id": 1296269,
    "stages": {
        "staging": {"account": EmbeddedAws.account, "region": REGION, "wait_for_build": True},
        "production": {
            "account": EmbeddedAws.account,
            "region": REGION,
            "build_on_deployment": False,
            "github_provider": PROVIDER,
        },
    },
}


@dataclass
class GitHub:
    """A runner of GitHub Actions, as far as deploy.yml needs one, with the variables of each environment."""

    aws: EmbeddedAws
    project: Path
    environment: Mapping[str, str]
    variables: Mapping[str, dict[str, str]]
    ran: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    def run(self, job: str) -> subprocess.CompletedProcess[str] | None:
        """Run the steps of a job. Returns the first that fails, or None."""
        described = yaml.safe_load(WORKFLOW.read_text())["jobs"][job]
        environment = dict(self.environment)
        for step in described["steps"]:
            if step.get("uses", "").startswith("aws-actions/configure-aws-credentials@"):
                environment |= self._credentials(described["environment"], step["with"])
            self._pass_file(step)
            if "run" not in step or step["run"].startswith("make "):  # installed already
                continue
            self.ran.append(step.get("name", step["run"]))
            given = {name: self._value(text, described) for name, text in step.get("env", {}).items()}
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
                cwd=self.project,
                env=environment | given,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                return done
        return None

    def _pass_file(self, step: Mapping[str, Any]) -> None:
        """Upload or download a file, as the actions do; another job has no other file of this one."""
        action, given = step.get("uses", "").partition("@")[0], step.get("with", {})
        if action == "actions/upload-artifact":
            self.files[given["name"]] = (self.project / given["path"]).read_bytes()
            (self.project / given["path"]).unlink()
        elif action == "actions/download-artifact":
            (self.project / f"{given['name']}.json").write_bytes(self.files[given["name"]])

    def _value(self, text: str, job: Mapping[str, Any]) -> str:
        """Evaluate an expression in a step of a job."""
        found = re.fullmatch(r"\$\{\{ (.+) \}\}", text)
        if found is None:
            return text
        kind, *rest = found[1].split(".")
        if kind == "vars":
            return self.variables[job["environment"]].get(rest[0], "")  # as GitHub does without a variable
        assert (kind, rest[1]) == ("needs", "outputs")
        needed = yaml.safe_load(WORKFLOW.read_text())["jobs"][rest[0]]
        return self._value(needed["outputs"][rest[2]], needed)

    def _credentials(self, environment: str, given: Mapping[str, Any]) -> dict[str, str]:
        """Assume the role as the action does, with a token as GitHub makes it."""
        arn = self.variables[environment]["DEPLOY_ROLE"]
        assert self._value(given["role-to-assume"], {"environment": environment}) == arn
        role = self.aws.client("iam").get_role(RoleName=arn.rpartition("/")[2])["Role"]
        assert given["role-duration-seconds"] <= role["MaxSessionDuration"]
        subject = f"repo:octo-org@583231/search@1296269:environment:{environment}"
        answer = self.aws.client("sts").assume_role_with_web_identity(
            RoleArn=arn, RoleSessionName="GitHubActions", WebIdentityToken=token(sub=subject)
        )
        found = answer["Credentials"]
        return {
            "AWS_ACCESS_KEY_ID": found["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"],
            "AWS_SESSION_TOKEN": found["SessionToken"],
            "AWS_REGION": self._value(given["aws-region"], {"environment": environment}),
        }


@dataclass
class World:
    """Two stages that an administrator has deployed, and GitHub."""

    aws: EmbeddedAws
    project: Path
    github: GitHub
    projects: Mapping[str, str]

    def artifact(self, stage: str) -> str | None:
        """Return the current artifact of the model in a stage."""
        place = Repository.parse(self.github.variables[stage]["REPOSITORY"])
        model = read_manifest(place, s3=self.aws.client("s3")).models.get("double")
        return next(iter(model.current.values())) if model else None

    def builds(self) -> list[str]:
        """Return the stage of each build."""
        projects = [each.partition(":")[0] for each in self.aws.client("codebuild").list_builds()["ids"]]
        return [stage for each in projects for stage in STAGES if self.projects[stage] == each]

    def merge(self, factor: int, *, expected: str = "") -> None:
        """Change the model, as a merge does."""
        generated_models.declare(
            self.project / "model_builds" / "models", "double", factor, expected=expected
        )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("delivery")
    project = clone_with(folder / "fleet", {"double": 2})
    (project / ".venv").symlink_to(ROOT / ".venv")
    settings = json.loads((project / "cdk.json").read_text())
    settings["context"]["tritonFleet"] = SETTINGS
    (project / "cdk.json").write_text(json.dumps(settings))
    with (
        open_aws(region=REGION) as aws,
        BuildRunner(aws),
        Hosting(aws, directory=folder / "hosting") as hosting,
    ):
        aws.serve_elsewhere("sagemaker-runtime", hosting.url)
        cdk = Cdk(environment=aws.environment(), directory=project, output=folder / "cdk.out")
        cdk.bootstrap()
        variables = {stage: _deployed(cdk, stage) for stage in STAGES}
        projects = {stage: each.pop("PROJECT") for stage, each in variables.items()}
        for each in variables.values():
            hosting.start(each.pop("ENDPOINT"))
        environment = aws.environment(
            PATH=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME=hosting.url,
            FLEET_PORTABLE="1",  # nothing here has a GPU
            CDK_HOME=str(folder / "home"),
        )
        github = GitHub(aws=aws, project=project, environment=environment, variables=variables)
        yield World(aws=aws, project=project, github=github, projects=projects)


def _deployed(cdk: Cdk, stage: str) -> dict[str, str]:
    """Deploy a stage as an administrator. Returns what is set on GitHub, the endpoint, and the build job."""
    outputs = {
        key: value for each in cdk.deploy("-c", f"stage={stage}").values() for key, value in each.items()
    }
    return {
        "AWS_REGION": REGION,
        "DEPLOY_ROLE": outputs["DeployRole"],
        "REPOSITORY": outputs["RepositoryUrl"],
        "ALIAS": outputs["EndpointAlias"],
        "ENDPOINT": outputs["EndpointName"],
        "PROJECT": outputs["BuildProjectName"],
    }


def test_a_merge_reaches_production_as_the_artifact_that_staging_tested(world: World) -> None:
    before = world.artifact("staging")
    world.merge(3)

    failed = world.github.run("staging")
    assert failed is None, failed.stdout + failed.stderr
    tested = world.artifact("staging")
    assert tested not in {before, None}
    assert world.artifact("production") is None  # until someone approves

    failed = world.github.run("production")
    assert failed is None, failed.stdout + failed.stderr
    assert world.artifact("production") == tested
    assert world.builds() == ["staging", "staging"]
    assert world.github.ran == [
        "Deploy",
        "Test every model with its examples",
        "Promote the artifacts that were tested",
        "Deploy",
        "Test every model with its examples",
    ]


def test_a_model_that_cannot_be_built_fails_the_deployment_of_staging_and_nothing_follows(
    world: World,
) -> None:
    served = world.artifact("staging")
    world.merge(4, expected="99")
    world.github.ran.clear()
    failed = world.github.run("staging")

    assert failed is not None
    assert "double failed in the step verify" in failed.stdout + failed.stderr
    assert world.github.ran == ["Deploy"]
    assert world.artifact("staging") == served
