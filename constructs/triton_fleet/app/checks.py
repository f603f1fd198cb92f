"""The checks of settings that no construct can make: of a stage alone, and of all stages together."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from triton_fleet.app.config import EVERY_MODEL, OFF, FleetConfig
from triton_fleet.fleet.github_role import ISSUER
from triton_fleet.operations.scaling.target import SCALING_TARGET_HARDWARE
from triton_fleet.parts.arguments.checks import account_id, key_arn, role_arn, secret_arn, topic_arn
from triton_fleet.parts.repository.model_repository import bucket_name
from triton_fleet.parts.serving import image_region
from triton_models.artifact.layout import MODEL_NAME
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.json_text import check_stage
from triton_models.declare.reading import published_name
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.facts.releases import RELEASES

EVERY_MODEL_ALONE = Check(id="every-model", source=FROM_ARGUMENTS)
ALARM_DESTINATION = Check(id="alarm-destination", source=FROM_ARGUMENTS)
RETIRED_MODEL = Check(id="retired-model", source=FROM_ARGUMENTS)
RETIRED_FORM = Check(id="retired-form", source=FROM_ARGUMENTS)
FLEET_NAME = Check(
    id="fleet-name",
    source="2026-11-22: CreateStack of CloudFormation and CreateEndpoint of SageMaker in botocore 1.44.5",
)
PROMOTED_BY = Check(
    id="promoted-by",
    source="2026-11-25: "
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-basics.html",
)
GITHUB_STAGE = Check(id="github-stage", source=FROM_ARGUMENTS)
DEPLOYMENT_SIZE = Check(id="deployment-size", source=FROM_ARGUMENTS)
WARM_UP_WITHOUT_WAIT = Check(id="warm-up-without-wait", source=FROM_ARGUMENTS)

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

_NAME = re.compile(r"(?=.{1,63}$)[A-Za-z](-*[A-Za-z0-9])*")
_TARGETS: Mapping[str, str] = {
    "invocations_per_gpu_per_minute": "GPU",
    "gpu_utilization_percent": "GPU",
    "invocations_per_instance_per_minute": "instance",
    "cpu_utilization_percent": "vCPU",
}
"""The targets of auto scaling, and what each is given for."""

At = Callable[[str], Report]
"""Returns the report of a setting."""


def check_settings(config: FleetConfig, at: At) -> None:
    """Report the mistakes that no construct sees."""
    if not _NAME.fullmatch(config.name):
        at("name")(
            FLEET_NAME,
            f"the name is {config.name!r}",
            fix="use 1 to 63 letters, digits and hyphens, a letter first and no hyphen last, "
            "such as search-prod",
            why="it names CloudFormation's stacks and SageMaker's endpoint",
        )
    account_id(at("account"), config.account)
    release = RELEASES.get(config.release)
    if release is not None and release.on_sagemaker and not config.image:
        image_region(at("region" if config.region else "deployed_in"), release, config.deployed_in)
    _check_models(config, at)
    _check_existing(config, at)
    if config.github_repository and config.stage is None:
        at("github_repository")(
            GITHUB_STAGE,
            f"github_repository is {config.github_repository!r}, and there are no stages",
            fix="declare `stages`, such as staging and production",
            why="the role of a stage trusts the environment of the same name alone",
        )
    _check_targets(config, at)
    _check_updates(config, at)


def _check_models(config: FleetConfig, at: At) -> None:
    if EVERY_MODEL in config.models and len(config.models) > 1:
        at("models")(
            EVERY_MODEL_ALONE,
            f"models is {', '.join(config.models)}",
            fix=f"leave out {EVERY_MODEL!r}, or all other names",
            why=f"{EVERY_MODEL!r} already includes every model",
        )
    if both := ", ".join(sorted({*config.models} & {*config.retired_models})):
        at("retired_models")(
            RETIRED_MODEL,
            f"models and retired_models both name {both}",
            fix=f"remove {both} from one of the two",
            why="a model that is built has to be ready before the fleet moves",
        )
    for name in config.retired_models:
        if not MODEL_NAME.fullmatch(name) and name not in config.models:
            form = published_name(name)
            is_form = form != name and MODEL_NAME.fullmatch(form)
            at("retired_models")(
                RETIRED_FORM,
                f"retired_models has {name!r}",
                fix=f"write {form}, the name under which the form is published" if is_form else "remove it",
                why="no model is published under this name, and the deployment would stop",
            )


def _check_existing(config: FleetConfig, at: At) -> None:
    """Check the names of what exists already, from which the stacks import it."""
    region = config.deployed_in
    for key in ("encryption_key", "asset_key", "log_encryption_key"):
        key_arn(at(key), getattr(config, key) or None, region=region)
    for key in ("endpoint_role", "build_role"):
        role_arn(at(key), getattr(config, key) or None)
    secret_arn(at("hub_token"), config.hub_token or None)
    bucket_name(at("bucket"), config.bucket or None)
    topic = at("alarm_topic")
    topic_arn(topic, config.alarm_topic or None, region=region)
    if config.alarm_topic and config.alarm_email:
        topic(
            ALARM_DESTINATION,
            f"alarm_topic is given, and alarm_email is {config.alarm_email!r}",
            fix=f"subscribe {config.alarm_email} to the topic, and remove alarm_email",
        )
    for arn in config.promoted_by:
        if config.account and f":iam::{config.account}:" in arn:
            at("promoted_by")(
                PROMOTED_BY,
                f"promoted_by names {arn}, a role of the account of this stage",
                fix="remove it",
                why="in one account, the policy of the role itself is enough",
            )


def _check_targets(config: FleetConfig, at: At) -> None:
    """Check for targets of hardware that the instance type does not have."""
    instance = INSTANCE_TYPES.get(config.instance_type)
    if instance is None:
        return
    hardware = "no GPU" if instance.gpu is None else f"a {instance.gpu.name}"
    fitting = [key for key, per in _TARGETS.items() if (per == "GPU") == (instance.gpu is not None)]
    for key in _TARGETS.keys() - fitting:
        value = getattr(config, key)
        if value != FleetConfig.model_fields[key].default:
            at(key)(
                SCALING_TARGET_HARDWARE,
                f"{key} is {value:g}, and {instance.name} has {hardware}",
                fix=f"remove {key}",
                why=f"the value would be ignored: auto scaling follows {' and '.join(fitting)}",
            )


def _check_updates(config: FleetConfig, at: At) -> None:
    if config.deployment_size is not None and config.deployment in {"all_at_once", "replace"}:
        at("deployment_size")(
            DEPLOYMENT_SIZE,
            f"deployment_size is given, and the deployment is {config.deployment}",
            fix="remove deployment_size, or choose canary, linear or rolling",
            why="all instances change at once, and the size would be ignored",
        )
    given = {} if isinstance(config.warm_up, str) else config.warm_up
    watched = config.deployment_wait_minutes > 0 or config.deployment == "replace"
    if not watched and any(body != OFF for body in given.values()):
        at("warm_up")(
            WARM_UP_WITHOUT_WAIT,
            "warm_up is given, and deployment_wait_minutes is 0",
            fix="set deployment_wait_minutes to 1 or more, or remove warm_up",
            why="models are loaded while a new fleet is watched, and it never is",
        )


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
