"""Builds of probes in CodeBuild: a temporary project, one build, and the output of its commands."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from triton_models.probe.account.journal import Entry
from triton_models.probe.account.work import Work

BUILDS = (
    "codebuild:CreateProject",
    "codebuild:StartBuild",
    "codebuild:BatchGetBuilds",
    "codebuild:ListBuildsForProject",
    "codebuild:StopBuild",
    "codebuild:DeleteProject",
    "iam:CreateRole",
    "iam:PutRolePolicy",
    "iam:PassRole",
)
"""The permissions that the caller needs."""

_LOOK_MINUTES = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A build.

    Attributes:
        suffix: The end of the project's name.
        image: The image to run in.
        machine: The type of its environment, such as "LINUX_CONTAINER".
        compute: Its compute type.
        commands: The commands to run, by the exported variable that receives the output.
        role: The ARN of the service role.
        own_image: True if the image is one of CodeBuild's own, which are not pulled with the role.
        source: The location of the source in S3; empty by default, for none.
        log_group: The log group; empty by default, for no log.
    """

    suffix: str
    image: str
    machine: str
    compute: str
    commands: Mapping[str, str]
    role: str
    own_image: bool = False
    source: str = ""
    log_group: str = ""

    def project(self, work: Work) -> dict[str, Any]:
        """Return the request of CreateProject."""
        exports = [f'export {each}="$({command} 2>&1)"' for each, command in self.commands.items()]
        spec = {
            "version": "0.2",
            "env": {"exported-variables": list(self.commands)},
            "phases": {"build": {"commands": exports}},
        }
        where = {"type": "S3", "location": self.source} if self.source else {"type": "NO_SOURCE"}
        logs = (
            {"status": "ENABLED", "groupName": self.log_group} if self.log_group else {"status": "DISABLED"}
        )
        return {
            "name": work.name(self.suffix),
            "source": {**where, "buildspec": json.dumps(spec)},
            "artifacts": {"type": "NO_ARTIFACTS"},
            "environment": {
                "type": self.machine,
                "image": self.image,
                "computeType": self.compute,
                "imagePullCredentialsType": "CODEBUILD" if self.own_image else "SERVICE_ROLE",
            },
            "serviceRole": self.role,
            "timeoutInMinutes": 20,
            "queuedTimeoutInMinutes": 10,
            "logsConfig": {"cloudWatchLogs": logs},
            "tags": [{"key": each["Key"], "value": each["Value"]} for each in work.tags],
        }


def run_build(work: Work, order: Order) -> Generator[None, None, Any]:
    """Run a build as the caller, and return it as BatchGetBuilds shows it."""
    project = yield from create_project(work, order)
    if "build" not in project.detail:
        codebuild = work.clients("codebuild")
        started = yield from work.when_role_is_known(
            lambda: codebuild.start_build(**start_request(project.name))
        )
        work.journal.made(project, build=started["build"]["id"])
    return (yield from finished(work, project))


def create_project(work: Work, order: Order) -> Generator[None, None, Entry]:
    """Create a build's project, unless an earlier process has done so."""
    codebuild, request = work.clients("codebuild"), order.project(work)

    def make() -> None:
        codebuild.create_project(**request)

    return (yield from work.when_role_is_known(lambda: work.create("project", work.name(order.suffix), make)))


def start_request(project: str) -> dict[str, str]:
    """Return the request of StartBuild, which starts a single build even if it is repeated."""
    return {"projectName": project, "idempotencyToken": project}


def finished(work: Work, project: Entry) -> Generator[None, None, Any]:
    """Wait for the end of a project's build, whose id is in the journal."""
    codebuild, build = work.clients("codebuild"), project.detail["build"]

    def ended() -> Any:
        [shown] = codebuild.batch_get_builds(ids=[build])["builds"]
        return shown if shown.get("buildComplete") else None

    return (yield from work.until(ended, minutes=_LOOK_MINUTES, what="the build"))


def said(build: Mapping[str, Any]) -> str:
    """Return CodeBuild's reason for a failed build."""
    contexts = [context for phase in build.get("phases", ()) for context in phase.get("contexts") or ()]
    why = [f"{each.get('statusCode')}: {each.get('message')}" for each in contexts if each.get("message")]
    return f"the build {build['buildStatus']}: {'; '.join(why) or 'without a reason'}"


def exported(build: Mapping[str, Any]) -> dict[str, str]:
    """Return the output of a build's commands, by variable."""
    return {each["name"]: each.get("value", "") for each in build.get("exportedEnvironmentVariables") or ()}
