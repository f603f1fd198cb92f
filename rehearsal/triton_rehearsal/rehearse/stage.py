"""The stage that a rehearsal deploys, moved to the account of the embedded AWS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded_aws import EmbeddedAws
from triton_models.base.checks import Report
from triton_models.base.errors import FleetError
from triton_models.base.json_text import check_stage, read_cdk_json

_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The environment of a deployment, as `cdk.json` says.

    Attributes:
        name: The stage; None without stages.
        region: The region; None if the project leaves it to the AWS profile.
        fixed: True if the project names an account, which is not that of the embedded AWS.
    """

    name: str | None = None
    region: str | None = None
    fixed: bool = False

    def context(self) -> list[str]:
        """Return the arguments of the CDK's command line that deploy this stage to the embedded AWS."""
        chosen = ["-c", f"stage={self.name}"] if self.name else []
        return [*chosen, *(["-c", f"account={EmbeddedAws.account}"] if self.fixed else [])]


def read_stage(project: Path, name: str | None = None) -> Stage:
    """Read the environment of a stage.

    Args:
        project: The repository's root, which contains cdk.json.
        name: The stage; None for the first one that is declared, if any.

    Raises:
        FleetError: The file is not what the CDK reads, its settings or stages are not objects, or it does not
            declare the stage.
    """
    settings = _object("tritonFleet", read_cdk_json(project / "cdk.json")["context"].get("tritonFleet"))
    stages = _object("stages", settings.get("stages"))
    if name and settings:
        report = Report("--stage")
        check_stage(report, name, stages)
        report.raise_if_any()
    name = name or next(iter(stages), None)
    values = {**settings, **_object(f"stage {name!r}", stages.get(name or ""))}
    region = values.get("region")  # one of another type is left to the app
    return Stage(
        name=name, region=region if isinstance(region, str) else None, fixed=values.get("account") is not None
    )


def _object(name: str, given: object) -> Mapping[str, Any]:
    """Return an object of cdk.json, empty if it is omitted.

    Raises:
        FleetError: It is something else.
    """
    if given is None or isinstance(given, Mapping):
        return given or _NONE
    raise FleetError.of(
        what=f"{name} is {given!r}",
        where="the context of cdk.json",
        fix="give an object of keys and values",
        rule="config-value-kind",
    )
