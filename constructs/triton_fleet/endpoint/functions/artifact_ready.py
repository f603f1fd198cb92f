"""Lets a deployment wait until artifacts are in their repository."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_logs as logs
from constructs import Construct

from triton_fleet.endpoint.functions.inline_function import InlineFunction
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_models.base.checks import Check, Report

# ServiceTimeout: a deployment waits at most as long as CloudFormation waits for a custom resource.
ARTIFACT_TIMEOUT = Check(
    id="artifact-timeout",
    source="2026-11-21: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-requests.html",
)
_SHORTEST_S, _LONGEST_S = 60, 3600
# Left of CloudFormation's hour when a function gives up: for its answer, which names what is missing, to come
# before CloudFormation's own, which names nothing.
_SPARE_S = 60


class ArtifactReady(Construct):
    """A custom resource that is complete once every artifact is in the repository.

    What depends on it is created after that. Another list of artifacts is waited for again; deleting it does
    nothing. If an artifact is still missing when the time is up, the deployment fails, and says which one.

    It asks S3 every ten seconds, from a Lambda function that starts its own successor before its fifteen
    minutes are over: at most five times, far below the sixteen at which Lambda stops a function that invokes
    itself. So that guard stays on.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: ModelRepository,
        artifacts: Sequence[str],
        timeout: Duration,
        log_retention: logs.RetentionDays,
    ) -> None:
        super().__init__(scope, construct_id)
        self.function = InlineFunction(
            self,
            "Function",
            source="artifact_ready",
            description="Waits for artifacts in a model repository",
            log_retention=log_retention,
        )
        bucket, prefix = repository.bucket, repository.prefix
        # Listing shows whether one is there; reading models is not for this role.
        self.function.allow("Artifacts", ["s3:ListBucket"], [bucket.bucket_arn], prefixes=f"{prefix}*")
        properties = {
            "Bucket": bucket.bucket_name,
            "Prefix": prefix,
            "Artifacts": list(dict.fromkeys(artifacts)),
        }
        self.resource = self.function.resource(self, "Resource", "Artifact", **waiting(properties, timeout))
        self.resource.node.add_dependency(self.function.allow_successor(self))


def artifact_timeout(report: Report, timeout: Duration) -> None:
    """Report problems with the time to wait for an artifact."""
    seconds = None if timeout.is_unresolved() else timeout.to_seconds(integral=False)
    if seconds is not None and _SHORTEST_S <= seconds <= _LONGEST_S:
        return
    given = "known only when the stack is deployed" if seconds is None else f"{seconds:g} s"
    report(
        ARTIFACT_TIMEOUT,
        f"artifact_timeout is {given}",
        fix=f"use {_SHORTEST_S} to {_LONGEST_S} s, or artifact_timeout=None",
        why="CloudFormation gives up on a custom resource after an hour",
    )


def waiting(properties: dict[str, Any], timeout: Duration) -> dict[str, Any]:
    """Arguments of a custom resource whose function gives up before CloudFormation does."""
    seconds = int(timeout.to_seconds(integral=False))
    return {
        "properties": {**properties, "WaitSeconds": min(seconds, _LONGEST_S - _SPARE_S)},
        "timeout": Duration.seconds(min(seconds + _SPARE_S, _LONGEST_S)),
    }
