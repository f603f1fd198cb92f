"""The configuration of the app, read from CDK context and the environment: here and nowhere else.

`cdk.json` holds it under one key, `tritonFleet`. On the command line every entry can be given on its own:
`cdk deploy --all -c instance_type=ml.g5.4xlarge -c max_capacity=8`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from constructs import Node

from triton_fleet.arguments.findings import Findings
from triton_fleet.rules.build_machine import nowhere_to_build
from triton_fleet.rules.build_runs import MOST_BUILDS
from triton_fleet.rules.build_weights import build_weights
from triton_fleet.rules.capacity import capacity
from triton_fleet.rules.gpu_generation import gpu_generation
from triton_fleet.rules.hourly_price import hourly_price
from triton_fleet.rules.image_published import image_published, image_region
from triton_fleet.rules.multi_model_gpu import multi_model_gpu
from triton_fleet.rules.multi_model_type import multi_model_type
from triton_fleet.rules.number_range import number_range
from triton_fleet.rules.scaling_target import scaling_target
from triton_fleet.rules.secret_arn import secret_arn
from triton_models.errors import Problem
from triton_models.instances import DEFAULT_INSTANCE_TYPE, InstanceType, instance_type
from triton_models.releases import DEFAULT_RELEASE, release
from triton_models.suggest import did_you_mean

CONTEXT_KEY = "tritonFleet"
EVERY_MODEL = "*"
_NAME = re.compile(r"[A-Za-z](-*[A-Za-z0-9])*")
_LONGEST_NAME = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetConfig:
    """What differs between one fleet and the next.

    Attributes:
        name: Prefix of the stacks' names and name of the endpoint: 1 to 63 letters, digits and hyphens.
        region: The region of the stacks; None leaves it to the deployment, so that one template serves all.
        instance_type: The endpoint's instance type; it decides the GPU that models are compiled on, and on a
            type without one, such as ml.c7i.2xlarge, that they are not.
        undocumented_instance_type: Whether to try a type that AWS does not list for multi-model endpoints.
        release: The Triton release that serves and compiles.
        models: The model builds that the build job makes; `*` alone stands for every one that is declared.
            Empty: no build job, artifacts come from elsewhere.
        weights: Trained weights by the environment variable in which a model's build.py looks for their
            address: s3://bucket/key of one object, or hf://owner/name@commit. On the command line
            `-c weights=T5_WEIGHTS=s3://bucket/t5.pt,BERT_WEIGHTS=hf://owner/name@commit`.
        hub_token: The ARN of the secret with a token of the Hugging Face hub, for weights in a private
            repository; empty for none.
        build_on_deployment: Whether a deployment starts a build when it changes what a build would make.
        parallel_builds: How many builds at a time: 1 is one build of all models, more are a state machine
            that divides those that changed among them.
        min_capacity: The fewest instances.
        max_capacity: The most instances.
        invocations_per_gpu_per_minute: Requests a minute for each GPU that auto scaling keeps.
        gpu_utilization_percent: How busy auto scaling keeps each GPU, 0 to 100.
        invocations_per_instance_per_minute: Of instance types without a GPU: requests a minute that auto
            scaling keeps for each instance. None for no such target: what one sustains depends on its size.
        cpu_utilization_percent: Of instance types without a GPU: how busy auto scaling keeps each vCPU.
        latency_p99_ms: The latency of the slowest hundredth above which to page, in milliseconds.
        alarm_email: Who is told about alarms; empty for nobody.
        hourly_price_usd: What an instance costs you for an hour; None for the price on demand that is known.
    """

    name: str = "TritonFleet"
    region: str | None = None
    instance_type: str = DEFAULT_INSTANCE_TYPE
    undocumented_instance_type: bool = False
    release: str = DEFAULT_RELEASE
    models: tuple[str, ...] = ()
    weights: Mapping[str, str] = field(default_factory=dict)
    hub_token: str = ""
    build_on_deployment: bool = True
    parallel_builds: int = 1
    min_capacity: int = 1
    max_capacity: int = 4
    invocations_per_gpu_per_minute: float = 600
    gpu_utilization_percent: float = 60
    invocations_per_instance_per_minute: float | None = None
    cpu_utilization_percent: float = 60
    latency_p99_ms: float = 1000
    alarm_email: str = ""
    hourly_price_usd: float | None = None

    @classmethod
    def read(cls, node: Node, *, environment: Mapping[str, str] = os.environ) -> FleetConfig:
        """The configuration in the app's context.

        Args:
            node: The app's node.
            environment: The process environment. Only CDK_DEFAULT_REGION is read: the CLI sets it to where it
                would deploy, so a region that cannot work is found before that.

        Raises:
            FleetError: Unknown keys, values of the wrong kind, unknown or unfitting instance type, release or
                region, and an impossible capacity range: all of them together.
        """
        findings = Findings(f"the context {CONTEXT_KEY!r} (cdk.json, or -c KEY=VALUE)")
        config = cls(**_values(node, findings))
        findings.extend(
            _problems(config, findings, region=config.region or environment.get("CDK_DEFAULT_REGION"))
        )
        findings.raise_if_any()
        return config


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value.strip()


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value) or None


def _whole(value: object) -> int:
    if isinstance(value, (bool, float)) or not isinstance(value, (int, str)):
        raise ValueError
    return int(value)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    return float(value)


def _optional_number(value: object) -> float | None:
    return None if value in (None, "") else _number(value)


def _names(value: object) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise ValueError
    return tuple(name for name in map(_text, listed) if name)


def _truth(value: object) -> bool:
    known = {"true": True, "false": False}
    if isinstance(value, str):
        value = known.get(value.strip().lower())
    if not isinstance(value, bool):
        raise ValueError
    return value


def _addresses(value: object) -> dict[str, str]:
    if isinstance(value, str):
        pairs = [each.partition("=") for each in value.split(",") if each.strip()]
        if not all(mark for _, mark, _ in pairs):
            raise ValueError
        value = {name.strip(): address.strip() for name, _, address in pairs}
    if not isinstance(value, dict):
        raise ValueError
    return {_text(name): _text(address) for name, address in value.items()}


# For each type of a field: how to read it from JSON or from `-c`, which gives text, and what to ask for.
_READERS: Mapping[str, tuple[Callable[[object], Any], str]] = {
    "str": (_text, "a text"),
    "str | None": (_optional_text, "a text"),
    "int": (_whole, "a whole number"),
    "float": (_number, "a number"),
    "float | None": (_optional_number, "a number"),
    "bool": (_truth, "true or false"),
    "Mapping[str, str]": (
        _addresses,
        "an object of variables and addresses, or NAME=ADDRESS with commas between",
    ),
    "tuple[str, ...]": (_names, "a list of names, or names with commas between them"),
}


def _values(node: Node, findings: Findings) -> dict[str, Any]:
    """What the context gives for each field; fields it does not mention keep their defaults."""
    types = {field.name: str(field.type) for field in fields(FleetConfig)}
    nested = node.try_get_context(CONTEXT_KEY) or {}
    if not isinstance(nested, dict):
        findings.add(_wrong_kind(CONTEXT_KEY, nested, "an object of keys and values", findings))
        nested = {}
    findings.extend(_unknown_keys(nested, node.get_all_context(), types, findings))
    values = {}
    for key, kind in types.items():
        given = node.try_get_context(key)
        given = nested.get(key) if given is None else given
        if given is None:
            continue
        read, expected = _READERS[kind]
        try:
            values[key] = read(given)
        except ValueError:
            findings.add(_wrong_kind(key, given, expected, findings))
    return values


def _unknown_keys(
    nested: Mapping[str, object], flat: Mapping[str, object], known: Mapping[str, str], findings: Findings
) -> Iterator[Problem]:
    """Keys that nothing reads. The context holds the CDK's own as well, so there only lookalikes count."""
    misread = [key for key in nested if key not in known]
    misread += [key for key in flat if _resembles(key, (*known, CONTEXT_KEY))]
    for key in misread:
        yield Problem(
            what=f"unknown key {key!r}",
            where=findings.where(key),
            expected=f"one of {', '.join(known)}",
            why="it would be ignored, and the default deployed in its place",
            fix=did_you_mean(key, (*known, CONTEXT_KEY), otherwise="remove it"),
            rule="unknown-config-key",
        )


def _resembles(key: str, known: Sequence[str]) -> bool:
    """Whether a key was surely meant to be one of the known keys, and is not."""
    close = difflib.get_close_matches(key.replace("-", "_"), known, n=1, cutoff=0.8)
    return bool(close) and key not in known


def _wrong_kind(key: str, given: object, expected: str, findings: Findings) -> Problem:
    return Problem(
        what=f"{key} is {given!r}",
        where=findings.where(key),
        expected=expected,
        fix=f"give {expected}",
        rule="config-value-kind",
    )


def _problems(config: FleetConfig, findings: Findings, *, region: str | None) -> Iterator[Problem | None]:
    """Everything that can be wrong between the values, with the same rules that the constructs apply."""
    where = findings.where
    where_region = where("region") if config.region else "CDK_DEFAULT_REGION, the region of your AWS profile"
    instance = findings.look_up("instance_type", config.instance_type, instance_type)
    triton = findings.look_up("release", config.release, release)
    if instance is not None:
        yield from _target_keys(config, instance, findings)
        yield multi_model_gpu(instance, where=where("instance_type"))
        yield multi_model_type(
            instance, asked=config.undocumented_instance_type, where=where("instance_type")
        )
    if triton is not None:
        yield image_published(triton, where=where("release"))
        yield image_region(triton, region, where=where_region)
    if instance is not None and instance.gpu is not None:
        if triton is not None:
            yield gpu_generation(instance.gpu, triton, where=where("instance_type"))
        if config.models:
            yield nowhere_to_build(instance, region, where=where("instance_type"))
    if EVERY_MODEL in config.models and len(config.models) > 1:
        yield _every_model_and_more(config.models, where=where("models"))
    yield from build_weights(config.weights, read=None, where=where("weights"))
    yield secret_arn(config.hub_token or None, where=where("hub_token"))
    yield number_range(
        config.parallel_builds,
        least=1,
        most=MOST_BUILDS,
        name="parallel_builds",
        where=where("parallel_builds"),
    )
    yield _name(config.name, where=where("name"))
    yield hourly_price(config.hourly_price_usd, where=where("hourly_price_usd"))
    yield capacity(config.min_capacity, config.max_capacity, where=where("min_capacity"))
    for key, (per, limit) in _TARGETS.items():
        yield scaling_target(getattr(config, key), limit=limit, per=per, where=where(key))


# The keys of auto scaling's targets: what each is given for, and the most that its metric can reach.
_TARGETS: Mapping[str, tuple[str, float | None]] = {
    "invocations_per_gpu_per_minute": ("GPU", None),
    "gpu_utilization_percent": ("GPU", 100),
    "invocations_per_instance_per_minute": ("instance", None),
    "cpu_utilization_percent": ("vCPU", 100),
}


def _target_keys(config: FleetConfig, instance: InstanceType, findings: Findings) -> Iterator[Problem]:
    """Targets for hardware that the instance type does not have; those at their default are nobody's wish."""
    defaults = FleetConfig()
    fitting = [key for key, (per, _) in _TARGETS.items() if (per == "GPU") == (instance.gpu is not None)]
    for key, (per, _) in _TARGETS.items():
        if key not in fitting and getattr(config, key) != getattr(defaults, key):
            yield Problem(
                what=f"{key} is {getattr(config, key):g}, and {instance.name} has "
                f"{f'no {per}' if instance.gpu is None else f'a {instance.gpu.name}'}",
                where=findings.where(key),
                expected=f"the targets of its hardware: {', '.join(fitting)}",
                why="auto scaling follows the GPUs where there are some, and the vCPUs where there are none: "
                "the value would be ignored",
                fix=f"remove {key}",
                rule="scaling-target-hardware",
            )


def _every_model_and_more(models: Sequence[str], *, where: str) -> Problem:
    return Problem(
        what=f"models is {', '.join(models)}",
        where=where,
        expected=f"{EVERY_MODEL!r} alone, or names",
        why=f"{EVERY_MODEL!r} is the folder of every model, and a name beside it would say nothing, or be a "
        "form that no build would make",
        fix=f"leave out {EVERY_MODEL!r}, or all that is beside it",
        rule="every-model",
    )


def _name(name: str, *, where: str) -> Problem | None:
    if len(name) <= _LONGEST_NAME and _NAME.fullmatch(name):
        return None
    return Problem(
        what=f"the name is {name!r}",
        where=where,
        expected=f"1 to {_LONGEST_NAME} letters, digits and hyphens, a letter first and no hyphen last",
        why="CloudFormation and SageMaker accept no other name for a stack and an endpoint",
        fix="name the fleet like TritonFleet or search-prod",
        rule="fleet-name",
    )
