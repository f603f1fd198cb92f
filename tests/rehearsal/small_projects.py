"""CodeBuild projects without a source, for tests of builds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from aws_for_tests.executions import ROLE
from embedded_aws import EmbeddedAws

_NONE: Mapping[str, str] = MappingProxyType({})


def create_project(
    aws: EmbeddedAws, name: str, buildspec: str, *, variables: Mapping[str, str] = _NONE, **more: Any
) -> None:
    aws.client("codebuild").create_project(
        name=name,
        source={"type": "NO_SOURCE", "buildspec": buildspec},
        artifacts={"type": "NO_ARTIFACTS"},
        environment={
            "type": "LINUX_CONTAINER",
            "image": "any",
            "computeType": "BUILD_GENERAL1_SMALL",
            "environmentVariables": [{"name": key, "value": value} for key, value in variables.items()],
        },
        serviceRole=ROLE,
        **more,
    )
