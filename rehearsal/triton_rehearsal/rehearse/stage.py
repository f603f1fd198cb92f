"""The stage that a rehearsal deploys, moved to the account of the embedded AWS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_aws import ACCOUNT
from triton_models.base.errors import FleetError
from triton_models.base.json_text import read_cdk_json
from triton_models.base.suggest import did_you_mean

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
        return [*chosen, *(["-c", f"account={ACCOUNT}"] if self.fixed else [])]


def read_stage(project: Path, name: str | None = None) -> Stage:
    """Read the environment of a stage.

    Args:
        project: The repository's root, which contains cdk.json.
        name: The stage; None for the first one that is declared, if any.

    Raises:
        FleetError: The file is not what the CDK reads, or does not declare the stage.
    """
    settings = _object(read_cdk_json(project / "cdk.json")["context"].get("tritonFleet"))
    declared = settings.get("stages", _NONE)
    stages = _object(declared)
    if name and settings and declared is stages and name not in stages:  # other types are left to the app
        raise _unknown(name, list(stages))
    name = name or next(iter(stages), None)
    values = {**settings, **_object(stages.get(name or ""))}
    region = values.get("region")  # one of another type is left to the app as well
    return Stage(
        name=name, region=region if isinstance(region, str) else None, fixed=values.get("account") is not None
    )


def _unknown(name: str, stages: list[str]) -> FleetError:
    return FleetError.of(
        what=f"unknown stage {name!r}",
        where="--stage",
        expected=f"one of {', '.join(stages)}" if stages else "no stage",
        why="`stages` in cdk.json does not have it" if stages else "cdk.json declares no `stages`",
        fix=did_you_mean(name, stages, otherwise="declare it in `stages`") if stages else "remove --stage",
        rule="unknown-stage",
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else _NONE
