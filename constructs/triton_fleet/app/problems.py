"""Checks of the configuration: those of the constructs, and its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from triton_fleet.app.config import EVERY_MODEL, FleetConfig
from triton_fleet.app.updates import update_problems
from triton_fleet.arguments.checks import key_arn, number_range, role_arn, secret_arn, topic_arn
from triton_fleet.arguments.collector import ProblemCollector
from triton_fleet.builds.checks import MOST_BUILDS, build_environment, build_weights, weights_prefixes
from triton_fleet.builds.machine_checks import nowhere_to_build
from triton_fleet.delivery.checks import github_ids, github_provider, github_repository
from triton_fleet.endpoint.instance_checks import host_ami
from triton_fleet.endpoint.multi_model_checks import multi_model_gpu, multi_model_type
from triton_fleet.images.checks import cpu_image, gpu_generation, image_published, image_region, image_uri
from triton_fleet.network.checks import network_id
from triton_fleet.operations.checks import budget_destination, hourly_price, monthly_limit
from triton_fleet.repository.checks import bucket_name, existing_bucket
from triton_fleet.scaling.capacity_checks import capacity
from triton_fleet.scaling.checks import SCALING_TARGET_HARDWARE, scaling_target
from triton_models.artifact.layout import MODEL_NAME
from triton_models.base.checks import FROM_ARGUMENTS, Check
from triton_models.base.errors import Problem
from triton_models.declare.reading import published_name
from triton_models.facts.instances import InstanceType, instance_type
from triton_models.facts.releases import Release, release

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
WAIT_FOR_BUILD = Check(id="wait-for-build", source=FROM_ARGUMENTS)
ACCOUNT_ID = Check(
    id="account-id",
    source="2026-11-23: https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-identifiers.html",
)


_ACCOUNT = re.compile(r"[0-9]{12}")
_NAME = re.compile(r"[A-Za-z](-*[A-Za-z0-9])*")
_LONGEST_NAME = 63


def problems(config: FleetConfig, collector: ProblemCollector, *, region: str | None) -> Iterator[Problem]:
    """Everything that is wrong with the values, alone and together.

    Args:
        config: The configuration.
        collector: Says where a value is.
        region: The region of the deployment; None if it is not known.
    """
    where = collector.where
    where_region = where("region") if config.region else "CDK_DEFAULT_REGION, the region of your AWS profile"
    instance = collector.look_up("instance_type", config.instance_type, instance_type)
    triton = collector.look_up("release", config.release, release)
    if instance is not None:
        yield from _target_keys(config, instance, collector)
        yield from multi_model_gpu(instance, where=where("instance_type"))
        yield from multi_model_type(
            instance, asked=config.allow_unlisted_instance_type, where=where("instance_type")
        )
        own = bool(config.image)
        yield from cpu_image(instance, asked=config.cpu_image, own=own, where=where("cpu_image"))
        if triton is not None:
            ami = config.inference_ami or None
            yield from host_ami(ami, instance, triton, where=where("inference_ami"))
    if triton is not None:
        yield from _image(config, triton, where=where, where_region=where_region, region=region)
    if instance is not None and instance.gpu is not None:
        if triton is not None:
            yield from gpu_generation(instance.gpu, triton, where=where("instance_type"))
        if config.models:
            yield from nowhere_to_build(instance, region, where=where("instance_type"))
    if EVERY_MODEL in config.models and len(config.models) > 1:
        yield from _every_model_and_more(config.models, where=where("models"))
    yield from _retired_and_built(config, where=where("retired_models"))
    yield from _retired_forms(config, where=where("retired_models"))
    yield from build_weights(config.weights, read=None, where=where("weights"))
    yield from weights_prefixes(config.weights_from, where=where("weights_from"))
    yield from secret_arn(config.hub_token or None, where=where("hub_token"))
    yield from _repository(config, where=where, region=region)
    yield from _existing(config, where=where)
    yield from number_range(
        config.parallel_builds,
        least=1,
        most=MOST_BUILDS,
        name="parallel_builds",
        where=where("parallel_builds"),
    )
    yield from _no_build_to_wait_for(config, where=where("wait_for_build"))
    yield from _name(config.name, where=where("name"))
    yield from _account(config.account, where=where("account"))
    yield from _github(config, where=where)
    yield from monthly_limit(config.monthly_budget_usd, where=where("monthly_budget_usd"))
    yield from budget_destination(
        given=config.monthly_budget_usd is None or bool(config.alarm_topic or config.alarm_email),
        where=where("monthly_budget_usd"),
    )
    yield from hourly_price(config.hourly_price_usd, where=where("hourly_price_usd"))
    yield from update_problems(config, where=where)
    yield from topic_arn(config.alarm_topic or None, region=region, where=where("alarm_topic"))
    if config.alarm_topic and config.alarm_email:
        yield from _two_destinations(config.alarm_email, where=where("alarm_topic"))
    yield from capacity(config.min_capacity, config.max_capacity, where=where("min_capacity"))
    for key, (per, limit) in _TARGETS.items():
        yield from scaling_target(getattr(config, key), limit=limit, per=per, where=where(key))


def _image(
    config: FleetConfig,
    triton: Release,
    *,
    where: Callable[[str], str],
    where_region: str,
    region: str | None,
) -> Iterator[Problem]:
    if config.image:
        yield from image_uri(config.image, region=region, where=where("image"))
        return
    yield from image_published(triton, where=where("release"))
    yield from image_region(triton, region, where=where_region)


def _repository(config: FleetConfig, *, where: Callable[[str], str], region: str | None) -> Iterator[Problem]:
    yield from bucket_name(config.bucket or None, where=where("bucket"))
    yield from key_arn(config.encryption_key or None, region=region, where=where("encryption_key"))
    yield from key_arn(config.asset_key or None, region=region, where=where("asset_key"))
    yield from key_arn(config.log_encryption_key or None, region=region, where=where("log_encryption_key"))
    yield from existing_bucket(
        bucket=bool(config.bucket),
        key=bool(config.encryption_key),
        access_logs=False,
        where=where("encryption_key"),
    )
    for arn in config.promoted_by:
        yield from role_arn(arn, where=where("promoted_by"))
        if config.account and f":iam::{config.account}:" in arn:
            yield PROMOTED_BY.problem(
                what=f"promoted_by names {arn}, a role of the account of this stage",
                where=where("promoted_by"),
                expected="roles of other accounts",
                why="in one account, the policy of the role itself is enough",
                fix="remove it",
            )


def _existing(config: FleetConfig, *, where: Callable[[str], str]) -> Iterator[Problem]:
    """Yield the problems of roles, network and variables that the company has."""
    for key in ("endpoint_role", "build_role"):
        yield from role_arn(getattr(config, key) or None, where=where(key))
    yield from build_environment(
        config.build_environment, weights=config.weights, where=where("build_environment")
    )
    if config.vpc is not None:
        yield from network_id(config.vpc.id, kind="vpc", where=where("vpc"))
        for kind, ids in (("subnet", config.vpc.subnets), ("sg", config.vpc.security_groups)):
            for each in ids:
                yield from network_id(each, kind=kind, where=where("vpc"))


# The keys of auto scaling's targets: what each is given for, and the most that its metric can reach.
_TARGETS: Mapping[str, tuple[str, float | None]] = {
    "invocations_per_gpu_per_minute": ("GPU", None),
    "gpu_utilization_percent": ("GPU", 100),
    "invocations_per_instance_per_minute": ("instance", None),
    "cpu_utilization_percent": ("vCPU", 100),
}


def _target_keys(
    config: FleetConfig, instance: InstanceType, collector: ProblemCollector
) -> Iterator[Problem]:
    """Targets for hardware that the instance type does not have; those at their default are no problem."""
    defaults = type(config)()
    fitting = [key for key, (per, _) in _TARGETS.items() if (per == "GPU") == (instance.gpu is not None)]
    for key, (per, _) in _TARGETS.items():
        if key not in fitting and getattr(config, key) != getattr(defaults, key):
            yield SCALING_TARGET_HARDWARE.problem(
                what=f"{key} is {getattr(config, key):g}, and {instance.name} has "
                f"{f'no {per}' if instance.gpu is None else f'a {instance.gpu.name}'}",
                where=collector.where(key),
                expected=f"the targets of its hardware: {', '.join(fitting)}",
                why="auto scaling follows the GPUs, and the vCPUs of a type without a GPU: "
                "the value would be ignored",
                fix=f"remove {key}",
            )


def _two_destinations(email: str, *, where: str) -> Iterator[Problem]:
    yield ALARM_DESTINATION.problem(
        what=f"alarm_topic, and alarm_email is {email!r}",
        where=where,
        expected="one of the two",
        why="a topic sends to any number of addresses itself",
        fix=f"subscribe {email} to the topic, and remove alarm_email",
    )


def _every_model_and_more(models: Sequence[str], *, where: str) -> Iterator[Problem]:
    yield EVERY_MODEL_ALONE.problem(
        what=f"models is {', '.join(models)}",
        where=where,
        expected=f"{EVERY_MODEL!r} alone, or names",
        why=f"{EVERY_MODEL!r} is the folder of every model, and a name next to it would say nothing, or be a "
        "form that no build would make",
        fix=f"leave out {EVERY_MODEL!r}, or all other names",
    )


def _retired_and_built(config: FleetConfig, *, where: str) -> Iterator[Problem]:
    both = sorted(set(config.models) & set(config.retired_models))
    if not both:
        return
    yield RETIRED_MODEL.problem(
        what=f"models and retired_models both name {', '.join(both)}",
        where=where,
        expected="models that are no longer built",
        why="a model that is built has to be ready before the fleet moves",
        fix=f"remove {', '.join(both)} from one of the two",
    )


def _retired_forms(config: FleetConfig, *, where: str) -> Iterator[Problem]:
    """Yield a problem per name that no published model has; those in `models` have one already."""
    for name in config.retired_models:
        if not MODEL_NAME.fullmatch(name) and name not in config.models:
            published = published_name(name)
            form = published != name and MODEL_NAME.fullmatch(published)
            yield RETIRED_FORM.problem(
                what=f"retired_models has {name!r}",
                where=where,
                expected="published names",
                why="it would match no model, and the deployment would stop",
                fix=f"write {published}, the name under which the form is published" if form else "remove it",
            )


def _github(config: FleetConfig, *, where: Callable[[str], str]) -> Iterator[Problem]:
    """The problems of the repository that deploys."""
    yield from github_repository(config.github_repository or None, where=where("github_repository"))
    ids = (str(each) or None for each in (config.github_owner_id, config.github_repository_id))
    yield from github_ids(*ids, where=where("github_owner_id"))
    yield from github_provider(config.github_provider or None, where=where("github_provider"))
    if config.github_repository and config.stage is None:
        yield GITHUB_STAGE.problem(
            what=f"github_repository is {config.github_repository!r}, and there are no stages",
            where=where("github_repository"),
            expected="stages, such as staging and production",
            why="the role of a stage trusts the environment of the same name alone",
            fix="declare `stages`",
        )


def _no_build_to_wait_for(config: FleetConfig, *, where: str) -> Iterator[Problem]:
    if not config.wait_for_build or (config.build_on_deployment and config.models):
        return
    yield WAIT_FOR_BUILD.problem(
        what="wait_for_build, and no deployment starts a build",
        where=where,
        expected="models, and build_on_deployment",
        why="there would be nothing to wait for",
        fix="remove wait_for_build" if config.models else "name the models that the deployment builds",
    )


def _name(name: str, *, where: str) -> Iterator[Problem]:
    if len(name) <= _LONGEST_NAME and _NAME.fullmatch(name):
        return
    yield FLEET_NAME.problem(
        what=f"the name is {name!r}",
        where=where,
        expected=f"1 to {_LONGEST_NAME} letters, digits and hyphens, a letter first and no hyphen last",
        why="CloudFormation and SageMaker accept no other name for a stack and an endpoint",
        fix="name the fleet like TritonFleet or search-prod",
    )


def _account(account: str | None, *, where: str) -> Iterator[Problem]:
    if account is None or _ACCOUNT.fullmatch(account):
        return
    yield ACCOUNT_ID.problem(
        what=f"account is {account!r}",
        where=where,
        expected="12 digits, such as 123456789012",
        why="the CDK's command line finds no credentials for any other",
        fix="copy the account's id; it is no alias, and keeps the zeros at its beginning",
    )
