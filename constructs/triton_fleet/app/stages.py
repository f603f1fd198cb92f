"""The stages of a fleet: which of them are selected, and the checks that concern all of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from triton_fleet.app.config import FleetConfig
from triton_fleet.delivery.checks import ISSUER
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean

STAGE_CHOICE = Check(id="stage-choice", source=FROM_ARGUMENTS)
UNKNOWN_STAGE = Check(id="unknown-stage", source=FROM_ARGUMENTS)
STAGE_ENVIRONMENT = Check(id="stage-environment", source=FROM_ARGUMENTS)
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


def selected(given: object, declared: Collection[str | None]) -> tuple[str | None, ...]:
    """Return the stages that the command line selects; none if it selects an unknown one, or no stage.

    A fleet without stages is the stage None.
    """
    return tuple(declared) if given == EVERY_STAGE else tuple(each for each in declared if each == given)


def in_order(configs: Sequence[FleetConfig]) -> Iterator[FleetConfig]:
    """Yield the settings of each stage, with those of the stage before it if both share an account."""
    before = None
    for each in configs:
        shared = before is not None and before.account == each.account
        yield replace(each, follows=before) if shared else each
        before = each


def stage_choice(given: object, declared: Collection[str], *, where: str) -> Iterator[Problem]:
    """Yield the problem with the selection of a stage.

    Args:
        given: The value of `-c stage=`; None without one.
        declared: The names of the declared stages.
        where: The place of the stages.
    """
    if given == EVERY_STAGE or given in declared or (given is None and not declared):
        return
    names = ", ".join(declared)
    if given is None:
        first = next(iter(declared))
        yield STAGE_CHOICE.problem(
            what=f"no stage is selected, and there are {names}",
            where=where,
            expected=f"one of {names}, or {EVERY_STAGE!r} for all of them",
            why="each has settings of its own, and a deployment without a stage would be a guess",
            fix=f"add -c {STAGE}={first}, or -c {STAGE}='{EVERY_STAGE}'",
        )
        return
    yield UNKNOWN_STAGE.problem(
        what=f"unknown stage {given!r}",
        where=f"-c {STAGE}",
        expected=f"one of {names}, or {EVERY_STAGE!r} for all of them" if declared else "no stage",
        why="there are no settings to deploy" if declared else f"{where} declares none",
        fix=did_you_mean(str(given), declared, otherwise=f"declare it in {STAGES!r}")
        if declared
        else f"remove it, or declare the stage in {STAGES!r}",
    )


def stage_environment(config: FleetConfig, *, where: str) -> Iterator[Problem]:
    """Yield the problem with a stage of which it is not known where to deploy it.

    Args:
        config: The settings of the stage.
        where: The place of the stage.
    """
    missing = [key for key in ("account", "region") if getattr(config, key) is None]
    if missing:
        yield STAGE_ENVIRONMENT.problem(
            what=f"the stage {config.stage!r} has no {' and no '.join(missing)}",
            where=where,
            expected="an account and a region, in the stage or in the shared settings",
            why="it would go wherever the AWS profile of the day points",
            fix='add "account": "123456789012"' if "account" in missing else 'add "region": "eu-west-1"',
        )


def stage_names(
    configs: Sequence[FleetConfig], *, together: Collection[str | None], where: str
) -> Iterator[Problem]:
    """Yield a problem per pair of stages that would be the same stacks.

    Args:
        configs: The settings of each stage.
        together: The stages of this synthesis.
        where: The place of the stages.
    """
    for one, other in combinations(configs, 2):
        if one.name.casefold() != other.name.casefold():
            continue
        place = f"{one.region} of account {one.account}"
        if (one.account, one.region) == (other.account, other.region):
            why = f"both are in {place}, where the second deployed would replace the first"
        elif {one.stage, other.stage} <= set(together):
            why = "stacks of one synthesis need names of their own"
        else:
            continue
        yield STAGE_NAME.problem(
            what=f"the stages {one.stage!r} and {other.stage!r} are both named {one.name!r}",
            where=where,
            expected="a name for each stage",
            why=why,
            fix="leave `name` out of the stages, so that each is named after itself",
        )


def new_providers(configs: Sequence[FleetConfig], *, where: str) -> Iterator[Problem]:
    """Yield a problem per pair of stages that would create the identity provider of one account.

    Args:
        configs: The settings of each stage.
        where: The place of the stages.
    """
    creating = [each for each in configs if each.github_repository and not each.github_provider]
    for one, other in combinations(creating, 2):
        if one.account == other.account:
            yield STAGE_PROVIDER.problem(
                what=f"the stages {one.stage!r} and {other.stage!r} both create a provider for GitHub",
                where=where,
                expected=f"one per account, and both are in {one.account}",
                why="IAM refuses a second provider for the same issuer",
                fix=f"in the stage {other.stage!r}, set github_provider to "
                f"arn:aws:iam::{one.account}:oidc-provider/{ISSUER}",
            )


def repeated_keys(path: Path, *, below: str) -> Iterator[Problem]:
    """Yield a problem per key that stands twice in an object of `cdk.json`.

    The command line of the CDK reads the file, and hands on the last of them only.

    Args:
        path: The file. Without it, or if it is no JSON, there is no problem to yield.
        below: The key of the context to look at, with everything in it.
    """
    try:
        context = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_Object)["context"]
    except (OSError, ValueError, LookupError, TypeError):
        return
    if isinstance(context, _Object):
        if below in context.repeated:
            yield _repeated(below, f"the context of {path.name}")
        yield from _repeated_in(context.get(below), f"{below} of {path.name}")


class _Object(dict[str, Any]):
    """An object of JSON, with the keys that it has more than once."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.repeated = sorted({name for name in names if names.count(name) > 1})


def _repeated_in(value: object, where: str) -> Iterator[Problem]:
    if isinstance(value, _Object):
        for key in value.repeated:
            yield _repeated(key, where)
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _repeated_in(each, f"{key} of {where}")


def _repeated(key: str, where: str) -> Problem:
    return REPEATED_KEY.problem(
        what=f"{key!r} stands twice",
        where=where,
        expected="each key once",
        why="the last one would win, and the others would be ignored",
        fix="rename or remove one of the two",
    )
