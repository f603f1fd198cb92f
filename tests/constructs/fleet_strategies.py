"""Arguments for everything public, by its type hints: mostly such as fit together, now and then an odd one.

Nothing is made while arguments are chosen: values, constructs and tokens are written down as `Made`, and come
to be in a stack of the example's own. So a refusal of any of them is part of the example.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from functools import cache, partial
from types import UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from aws_cdk import App, CfnParameter, Duration, Size, Stack, TimeZone
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_sns as sns
from constructs import Construct
from hypothesis import strategies as st

import triton_fleet
from triton_fleet import CapacitySize, EndpointNetwork, Routing
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.facts.releases import RELEASES

Strategy: TypeAlias = st.SearchStrategy[Any]
# As in cdk.json: a bucket of logs has a policy, not the access control list of old.
_CONTEXT = {"@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": True}


@dataclass
class World:
    """The stack of one example, which counts the ids in it."""

    stack: Stack = field(default_factory=lambda: Stack(App(context=_CONTEXT), "Fleet"))
    made: int = 0

    def id(self) -> str:
        """An id that is not taken."""
        self.made += 1
        return f"Given{self.made}"

    def later(self, kind: str) -> CfnParameter:
        """Return a parameter, which is known only at deployment."""
        return CfnParameter(self.stack, self.id(), type=kind)


@dataclass(frozen=True)
class Made:
    """A value that is made of others when its example runs."""

    by: Callable[..., Any]
    given: Mapping[str, Any]


@dataclass(frozen=True)
class InStack:
    """Something that is made in the example's stack."""

    name: str
    make: Callable[[World], Any]

    def __repr__(self) -> str:
        return f"<{self.name}>"


def realised(value: Any, world: World) -> Any:
    """A value with everything in it made."""
    if isinstance(value, Made):
        given = realised(value.given, world)
        return value.by(world.stack, world.id(), **given) if _is_construct(value.by) else value.by(**given)
    if isinstance(value, InStack):
        return value.make(world)
    if isinstance(value, (list, tuple)):
        return type(value)(realised(each, world) for each in value)
    if isinstance(value, dict):
        return {name: realised(each, world) for name, each in value.items()}
    return value


def _is_construct(make: Any) -> bool:
    return isinstance(make, type) and issubclass(make, Construct)


def _construct(make: Callable[..., Any], *positional: Any, **given: Any) -> InStack:
    name = getattr(make, "__qualname__", str(make))
    return InStack(name, lambda world: make(world.stack, world.id(), *positional, **given))


def _vpc(**more: Any) -> InStack:
    return _construct(
        ec2.Vpc.from_vpc_attributes,
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["us-east-1a", "us-east-1b"],
        isolated_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
        **more,
    )


KEY, BUCKET, TOPIC = _construct(kms.Key), _construct(s3.Bucket), _construct(sns.Topic)
ROLE = _construct(iam.Role, assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
METRIC = InStack("a metric", lambda _: cloudwatch.Metric(namespace="Queue", metric_name="Depth"))
NUMBER = InStack("a number token", lambda world: world.later("Number").value_as_number)
TEXT = InStack("a text token", lambda world: world.later("String").value_as_string)
TEXTS = InStack("a list token", lambda world: world.later("CommaDelimitedList").value_as_list)
LATER = InStack("a duration token", lambda world: Duration.minutes(world.later("Number").value_as_number))
ODD = st.sampled_from(
    [
        *(None, True, 0, -1, 1.5, 7, 10**6, 2**31, 10**30, -(10**30), float("nan"), float("inf")),
        *("", " ", "a_b", "-a", "x" * 64, "x" * 300, "\ud800", "a\nb", "aws:x", "#{x}", b"x"),
        *([], {}, (), [None], [""], {"": ""}, {"a": 1}, {"aws:a": "b"}, Routing.RANDOM),
        *(NUMBER, TEXT, TEXTS, LATER, KEY, METRIC, [TEXT], (TEXT,), {"A": TEXT}),
        *(Made(Duration.millis, {"amount": 1500}), Made(Duration.days, {"amount": 4000})),
        *(Made(Duration.seconds, {"amount": 0}), Made(Size.bytes, {"amount": 1.5})),
    ]
)
"""What hardly any argument can be."""
_CLASSES = [each for name in triton_fleet.__all__ if isinstance(each := getattr(triton_fleet, name), type)]
_RARE = 5  # no number that the search prefers


def mostly(usual: Any, *rare: Any) -> Strategy:
    """The usual, and one time in eight one of the rare."""
    usually = usual if isinstance(usual, st.SearchStrategy) else st.just(usual)
    return st.integers(0, 7).flatmap(lambda number: st.sampled_from(rare) if number == _RARE else usually)


def _durations(least: int, most: int) -> Strategy:
    return st.integers(least, most).map(lambda amount: Made(Duration.seconds, {"amount": amount}))


def _sizes(unit: Callable[..., Size], least: int, most: int) -> Strategy:
    return st.integers(least, most).map(lambda amount: Made(unit, {"amount": amount}))


def _portions(unit: Callable[..., CapacitySize], most: int) -> Strategy:
    return st.integers(1, most).map(lambda value: Made(unit, {"value": value}))


NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,8}(-[a-z0-9]{1,8}){0,2}", fullmatch=True)
TYPES = mostly(
    st.sampled_from(["ml.g5.2xlarge", "ml.g4dn.xlarge", "ml.m5.xlarge", "ml.c7i.xlarge"]),
    *sorted(INSTANCE_TYPES),
)
_WAITS = mostly(_durations(0, 3600), Made(Duration.seconds, {"amount": 3700}))
_MINUTES = st.integers(4, 500).map(lambda amount: Made(Duration.minutes, {"amount": amount}))
_PORTS = st.integers(22_990, 24_010)
_PREFIXES = mostly(st.sampled_from(["models/", "a/b"]), "", "/a//b/", "*")
_SCHEDULES = [
    Made(autoscaling.Schedule.cron, {"hour": "7", "minute": "0"}),
    Made(autoscaling.Schedule.rate, {"duration": Duration.hours(1)}),
    Made(autoscaling.Schedule.expression, {"expression": "never"}),
]
_BY_TYPE: Mapping[Any, Strategy] = {
    bool: st.booleans(),
    int: st.integers(0, 12),
    float: st.floats(0.5, 99),
    str: NAMES,
    datetime: st.sampled_from([datetime(2027, 1, 1, tzinfo=timezone.utc), datetime(2028, 1, 1)]),
    Duration: _durations(60, 3600),
    Size: _sizes(Size.mebibytes, 1, 64),
    TimeZone: st.just(TimeZone.EUROPE_BERLIN),
    CapacitySize: _portions(CapacitySize.percent, 60) | _portions(CapacitySize.instances, 20),
    autoscaling.Schedule: st.sampled_from(_SCHEDULES),
    cloudwatch.IMetric: st.just(METRIC),
    cloudwatch.IAlarm: st.just(
        _construct(cloudwatch.Alarm.from_alarm_arn, "arn:aws:cloudwatch:us-east-1:123456789012:alarm:errors")
    ),
    ec2.IVpc: mostly(
        _vpc(isolated_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"]), _vpc()
    ),
    ec2.ISecurityGroup: st.just(_construct(ec2.SecurityGroup.from_security_group_id, "sg-0123456789abcdef0")),
    ecr.IRepository: st.just(_construct(ecr.Repository)),
    iam.IRole: st.just(ROLE),
    kms.IKey: st.just(KEY),
    logs.ILogGroup: st.just(_construct(logs.LogGroup)),
    s3.IBucket: st.just(BUCKET),
    secretsmanager.ISecret: st.just(_construct(secretsmanager.Secret)),
    sns.ITopic: st.just(TOPIC),
}
# Where the type alone says too little. None: the argument is left out.
_BY_NAME: Mapping[str, Strategy | None] = {
    "instance_type": TYPES,
    "release": mostly("25.09", *sorted(RELEASES)),
    "inference_ami": mostly("al2023-ami-sagemaker-inference-gpu-4-1", "gpu-4-1"),
    "cpu_image": mostly(False, True),
    "allow_unlisted_instance_type": mostly(True, False),
    "allow_unlisted_instance_pools": mostly(True, False),
    "MultiModelEndpoint.instance_pools": mostly(["ml.g5.xlarge", "ml.g5.4xlarge"], [], ["ml.m5.xlarge"]),
    "artifact": mostly(st.sampled_from(["resnet50-0123456789ab.tar.gz", "ensemble-0a.tar.gz"]), "no archive"),
    "Variant.name": st.sampled_from(["Blue", "Green", "Grey"]),
    "variant": mostly(None, "Blue", "AllTraffic"),
    "initial_instance_count": mostly(st.integers(2, 10), 0, 1),
    "max_capacity": st.integers(3, 12),
    "bucket": st.just(BUCKET),
    "ModelRepository.bucket": None,
    "prefix": _PREFIXES,
    "tag": mostly("25.09-py3", "a b", None),
    "digest": None,
    "has_multi_model_label": mostly(True, False),
    "namespace": mostly(NAMES, "AWS/Triton"),
    "port": _PORTS,
    "grpc_port": _PORTS,
    "request_threads": st.integers(0, 64),
    "load_threads": st.integers(0, 256),
    "cuda_memory_pool": _sizes(Size.mebibytes, 0, 2**15),
    "volume_size": mostly(None, *(Made(Size.gibibytes, {"amount": amount}) for amount in (0, 100, 600))),
    "tensorrt_plugins": st.just(("/opt/a.so", "/opt/b.so")),
    "extra_arguments": mostly(("--a=b", "--c"), ("with space",), ("x" * 600, "x" * 600)),
    "environment": st.dictionaries(
        mostly(st.sampled_from(["A", "B_C"]), "1a", "SAGEMAKER_X"), st.text("ab=", max_size=5)
    ),
    "wait": _WAITS,
    "termination_wait": _WAITS,
    "maximum_time": _durations(500, 30_000),
    "metric_interval": st.sampled_from([10, 45, 60]).map(lambda n: Made(Duration.seconds, {"amount": n})),
    "every": _durations(0, 400),
    "timeout": _MINUTES,
    "network_isolation": st.booleans(),
    "sampling_percent": st.integers(-1, 101),
    "csv_content_types": mostly(["text/csv"], [""], ["a b"]),
    "json_content_types": st.just(["application/json"]),
    "max_concurrent_invocations": mostly(st.integers(1, 1000), -1, 1001),
    "content_type": mostly("application/json", ""),
    "body": mostly('{"inputs": []}', "", "{", "x" * 9000),
    "change": st.integers(-3, 3),
    "statistic": mostly("p90", "p", ""),
    "email": st.just("oncall@example.com"),
    "vpc_owner": mostly("123456789012", "me"),
    "source": None,
    "expected_region": None,
    "models": mostly(["minilm"], ["minilm", "resnet"], []),
    "EndpointDashboard.models": None,
    "weights": mostly({}, {"T5_WEIGHTS": "s3://weights/t5.pt"}, {"weights": "t5.pt"}),
    "weights_from": mostly(["s3://data/"], ["t5"]),
    "models_per_build": st.integers(0, 2000),
    "max_concurrency": st.integers(0, 20_000),
}


@cache
def arguments(make: Any, one_in: int = 30) -> Strategy:
    """Arguments by name: those that are required, a few others, and once in a while one that is odd.

    What cannot be derived, such as the endpoint of an alarm, is left to the caller.
    """
    constructor = make.__init__
    hints = get_type_hints(constructor if _is_construct(make) else make)
    required: dict[str, Strategy] = {}
    optional: dict[str, Strategy] = {}
    for name, parameter in inspect.signature(constructor).parameters.items():
        if name not in hints or name in ("scope", "construct_id", "excluded"):
            continue
        own = f"{make.__name__}.{name}"
        names = [each for each in (own, name) if each in _BY_NAME]
        derived = _BY_NAME[names[0]] if names else _of(hints[name])
        if derived is not None:
            (required if parameter.default is parameter.empty else optional)[name] = derived
    return _chosen(required, optional, one_in)


@st.composite
def _chosen(
    draw: st.DrawFn, required: Mapping[str, Strategy], optional: Mapping[str, Strategy], one_in: int
) -> dict[str, Any]:
    few = draw(st.lists(st.sampled_from(sorted(optional)), max_size=5, unique=True)) if optional else []
    given = {name: draw({**required, **optional}[name]) for name in [*required, *few]}
    if given and draw(st.integers(0, one_in)) == _RARE:
        given[draw(st.sampled_from(sorted(given)))] = draw(ODD)
    return given


def _of(hint: Any) -> Strategy | None:
    """Return values of a type; None if they cannot be derived."""
    origin, of = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        derived = [found for each in of if (found := _of(each)) is not None]
        none = [st.none()] if type(None) in of else []
        return st.one_of(*none, *derived) if derived else None
    if origin in (tuple, Sequence):
        each = _of(of[0])
        return None if each is None else st.lists(each, max_size=3).map(tuple if origin is tuple else list)
    if origin is Literal or (isinstance(hint, type) and issubclass(hint, Enum)):
        return st.sampled_from(of or hint)
    return _BY_TYPE[hint] if hint in _BY_TYPE else _of_public(hint)


def _of_public(hint: Any) -> Strategy | None:
    """Return values of the public classes of a kind, and constructs of one kind alone."""
    if not hint.__module__.startswith("triton_fleet") or (
        _is_construct(hint) and hint is not EndpointNetwork
    ):
        return None
    kinds = [each for each in _CLASSES if issubclass(each, hint) and not inspect.isabstract(each)]
    return st.one_of([arguments(each).map(partial(Made, each)) for each in kinds])
