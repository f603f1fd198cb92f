"""The checks that concern all stages of a fleet together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from triton_fleet.app.config import FleetConfig
from triton_fleet.fleet.github_role import ISSUER
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.json_text import check_stage

STAGE_CHOICE = Check(id="stage-choice", source=FROM_ARGUMENTS)
STAGE_NAME = Check(
    id="stage-name",
    # Two stacks of one name are one stack; SageMaker compares names of endpoints without their case.
    source="2026-11-23: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html",
)
STAGE_PROVIDER = Check(
    id="stage-provider",
    source="2026-11-23: "
    "https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateOpenIDConnectProvider.html",
)
REPEATED_KEY = Check(
    id="repeated-key",
    source="2026-11-23: https://tc39.es/ecma262/#sec-json.parse, with which the CDK reads cdk.json",
)

STAGES = "stages"
"""The key of all stages, next to the shared settings."""

STAGE = "stage"
"""The key on the command line that selects one of them."""

EVERY_STAGE = "*"


def chosen_stages(report: Report, given: object, declared: Collection[str]) -> Collection[str | None]:
    """Return the stages that `-c stage=` selects; the stage None of a fleet without stages."""
    if given == EVERY_STAGE or (given is None and not declared):
        return declared or [None]
    if given is not None:
        check_stage(report, str(given), declared)
    else:
        report(
            STAGE_CHOICE,
            f"no stage is selected, and there are {', '.join(declared)}",
            fix=f"add -c {STAGE}={next(iter(declared))}, or -c {STAGE}='{EVERY_STAGE}' for all of them",
        )
    return [each for each in declared if each == given]


def check_together(report: Report, configs: Sequence[FleetConfig], *, chosen: Collection[str | None]) -> None:
    """Report stages that would be the same stacks, and those that would create one provider twice."""
    for one, other in combinations(configs, 2):
        both = f"the stages {one.stage!r} and {other.stage!r}"
        same_place = (one.account, one.region) == (other.account, other.region)
        together = {one.stage, other.stage} <= {*chosen}
        if one.name.casefold() == other.name.casefold() and (same_place or together):
            report(
                STAGE_NAME,
                f"{both} are both named {one.name!r}",
                fix="leave `name` out of the stages, so that each is named after itself",
                why=f"the second would replace the first in {one.region} of account {one.account}"
                if same_place
                else "stacks of one synthesis need unique names",
            )
        creating = [each for each in (one, other) if each.github_repository and not each.github_provider]
        if len(creating) > 1 and one.account == other.account:
            report(
                STAGE_PROVIDER,
                f"{both} both create a provider for GitHub in account {one.account}",
                fix=f"in the stage {other.stage!r}, set github_provider to "
                f"arn:aws:iam::{one.account}:oidc-provider/{ISSUER}",
                why="IAM accepts one provider per issuer",
            )


def check_keys_once(report: Report, path: Path) -> None:
    """Report duplicate keys of cdk.json, if that is JSON."""

    def pairs(found: Sequence[tuple[str, Any]]) -> Mapping[str, Any]:
        for name, count in Counter(name for name, _ in found).items():
            if count > 1:
                values = " and ".join(json.dumps(value)[:80] for key, value in found if key == name)
                report(
                    REPEATED_KEY,
                    f"duplicate key {name!r}, with the values {values}",
                    fix="rename or remove one of the two",
                    why="only the last one counts",
                )
        return dict(found)

    try:
        json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=pairs)
    except (OSError, ValueError, RecursionError):
        return
