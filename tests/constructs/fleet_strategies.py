"""Arguments for everything public: mostly such as fit together, now and then one that nothing fits.

Nothing is made while arguments are chosen: values, constructs and tokens are written down as `Made`, and come
to be in a stack of the example's own. So a refusal of any of them is part of the example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from aws_cdk import App, CfnParameter, Duration, RemovalPolicy, Size, Stack, TimeZone
from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from hypothesis import strategies as st

from triton_fleet import (
    AllAtOnce,
    AsyncInference,
    BacklogPerInstance,
    Canary,
    CapacitySize,
    ConcurrentRequests,
    Cooldowns,
    CoreDumps,
    CpuUtilization,
    CustomImage,
    DataCapture,
    GpuMemoryUtilization,
    GpuUtilization,
    InferenceType,
    InstancePool,
    InvocationsPerGpu,
    InvocationsPerInstance,
    Linear,
    MetricTarget,
    ModelLatency,
    OnDemandMachine,
    PingMode,
    ProcessingJob,
    ReservedMachines,
    Rolling,
    Routing,
    S3Folder,
    ScalingDirection,
    ScalingStep,
    ScheduledCapacity,
    StepScaling,
    Thresholds,
    TritonMetrics,
    TritonServer,
    Variant,
    VpcService,
    WarmUpRequest,
)
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.facts.releases import RELEASES

Arguments = st.SearchStrategy[dict[str, Any]]


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

    def parameter(self, kind: str) -> CfnParameter:
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
        return value.by(**realised(value.given, world))
    if isinstance(value, InStack):
        return value.make(world)
    if isinstance(value, (list, tuple)):
        return type(value)(realised(each, world) for each in value)
    if isinstance(value, dict):
        return {name: realised(each, world) for name, each in value.items()}
    return value


_ALARM_ARN = "arn:aws:cloudwatch:us-east-1:123456789012:alarm:errors"
NUMBER = InStack("a number token", lambda world: world.parameter("Number").value_as_number)
TEXT = InStack("a text token", lambda world: world.parameter("String").value_as_string)
TEXTS = InStack("a list token", lambda world: world.parameter("CommaDelimitedList").value_as_list)
UNTYPED = InStack("an untyped token", lambda world: world.parameter("String").value)
LATER = InStack("a duration token", lambda world: Duration.seconds(world.parameter("Number").value_as_number))
LATER_MINUTES = InStack(
    "minutes later", lambda world: Duration.minutes(world.parameter("Number").value_as_number)
)
KEY = InStack("a key", lambda world: kms.Key(world.stack, world.id()))
BUCKET = InStack("a bucket", lambda world: s3.Bucket(world.stack, world.id()))
TOPIC = InStack("a topic", lambda world: sns.Topic(world.stack, world.id()))
LOG_GROUP = InStack("a log group", lambda world: logs.LogGroup(world.stack, world.id()))
ROLE = InStack(
    "a role",
    lambda world: iam.Role(world.stack, world.id(), assumed_by=iam.ServicePrincipal("ec2.amazonaws.com")),
)
IMAGES = InStack("an image repository", lambda world: ecr.Repository(world.stack, world.id()))
ALARM = InStack(
    "an alarm", lambda world: cloudwatch.Alarm.from_alarm_arn(world.stack, world.id(), _ALARM_ARN)
)
METRIC = InStack("a metric", lambda _: cloudwatch.Metric(namespace="Queue", metric_name="Depth"))

ODD = st.sampled_from(
    [
        *(None, True, 0, -1, 1.5, 7, 10**6, 2**31, 10**30, -(10**30), float("nan"), float("inf")),
        *("", " ", "a_b", "-a", "x" * 64, "x" * 300, "\ud800", "a\nb", "aws:x", "#{x}", b"x"),
        *([], {}, (), [None], [""], {"": ""}, {"a": 1}, {"aws:a": "b"}, Routing.RANDOM),
        *(NUMBER, TEXT, TEXTS, UNTYPED, LATER, LATER_MINUTES, KEY, METRIC, [TEXT], (TEXT,), {"A": TEXT}),
        Made(Duration.millis, {"amount": 1500}),
        Made(Duration.seconds, {"amount": 0}),
        Made(Duration.days, {"amount": 4000}),
        Made(Size.bytes, {"amount": 1.5}),
        Made(dict, {"a": TEXT}),
    ]
)
"""What hardly any argument can be."""


@st.composite
def sometimes_odd(draw: st.DrawFn, arguments: Arguments, *, one_in: int = 6) -> dict[str, Any]:
    """Arguments of which, in one of so many cases, one is odd."""
    given = draw(arguments)
    if given and draw(st.integers(0, one_in)) == min(_RARE, one_in):
        given = {**given, draw(st.sampled_from(sorted(given))): draw(ODD)}
    return given


def values(by: Callable[..., Any], /, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Made]:
    """A value with some of these arguments, those that have to be given among them."""
    required = {name: each for name, each in arguments.items() if name.endswith("_")}
    optional = {name: each for name, each in arguments.items() if name not in required}
    given = st.fixed_dictionaries(
        {name.removesuffix("_"): each for name, each in required.items()}, optional=optional
    )
    return sometimes_odd(given, one_in=30).map(lambda chosen: Made(by, chosen))


_RARE = 5  # no number that the search prefers


def mostly(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The usual, and one time in eight the rare."""
    return st.integers(0, 7).flatmap(lambda number: rare if number == _RARE else usual)


def durations(least: int, most: int) -> st.SearchStrategy[Made]:
    """Whole seconds, mostly in a range."""
    return st.integers(least, most).map(lambda amount: Made(Duration.seconds, {"amount": amount}))


def sizes(unit: Callable[..., Size], least: int, most: int) -> st.SearchStrategy[Made]:
    """Whole units of a size."""
    return st.integers(least, most).map(lambda amount: Made(unit, {"amount": amount}))


NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,8}(-[a-z0-9]{1,8}){0,2}", fullmatch=True)
# Mostly what fits, so that the search gets past the first refusal.
TYPES = mostly(
    st.sampled_from(["ml.g5.2xlarge", "ml.g4dn.xlarge", "ml.m5.xlarge", "ml.c7i.xlarge"]),
    st.sampled_from(sorted(INSTANCE_TYPES)),
)
_SIBLINGS = mostly(st.just(["ml.g5.xlarge", "ml.g5.4xlarge"]), st.lists(TYPES, max_size=5))
ARTIFACTS = mostly(
    st.sampled_from(["resnet50-0123456789ab.tar.gz", "ensemble-0a.tar.gz"]), st.just("no archive")
)
_releases = mostly(st.just("25.09"), st.sampled_from(sorted(RELEASES)))
_portions = values(CapacitySize.percent, value_=st.integers(5, 60)) | values(
    CapacitySize.instances, value_=st.integers(1, 20)
)
_waits = mostly(durations(0, 3600), durations(3600, 4000))
_deployments = st.one_of(
    st.none(),
    values(AllAtOnce, wait=_waits, termination_wait=_waits, maximum_time=durations(500, 30_000)),
    values(Canary, size=_portions, wait=_waits, termination_wait=_waits),
    values(Linear, step=_portions, wait=_waits, maximum_time=durations(500, 30_000)),
    values(Rolling, batch=_portions, rollback_batch=_portions, wait=_waits),
)
_servers = values(
    TritonServer,
    ping_mode=st.sampled_from(PingMode),
    log_verbose=st.booleans(),
    log_info=st.booleans(),
    shared_memory=sizes(Size.bytes, 2**20, 2**26),
    shared_memory_growth=sizes(Size.bytes, 1, 2**20),
    auto_complete_config=st.booleans(),
    request_threads=st.integers(0, 64),
    load_threads=st.integers(0, 256),
    cuda_memory_pool=sizes(Size.mebibytes, 0, 2**15),
    buffer_manager_threads=st.integers(0, 64),
    metrics=values(TritonMetrics, namespace=NAMES, port=st.integers(22_990, 24_010)),
    inference_type=st.sampled_from(InferenceType),
    allow_grpc=st.booleans(),
    grpc_port=st.integers(22_990, 24_010),
    model_namespacing=st.booleans(),
    tensorrt_plugins=st.lists(
        mostly(st.sampled_from(["/opt/a.so", "/opt/b.so"]), st.just("a.so")), max_size=2
    ).map(tuple),
    extra_arguments=st.lists(
        mostly(st.sampled_from(["--a=b", "--c"]), st.sampled_from(["with space", "x" * 600])), max_size=3
    ).map(tuple),
)
_images = values(
    CustomImage,
    repository_=st.just(IMAGES),
    tag_=mostly(st.just("25.09-py3"), st.sampled_from(["a b", None])),
    has_multi_model_label=mostly(st.just(True), st.just(False)),
)
_folders = values(
    S3Folder, bucket_=st.just(BUCKET), prefix=mostly(st.sampled_from(["a/", "a/b", ""]), st.just("/a//b"))
)
_shared: dict[str, st.SearchStrategy[Any]] = {
    "server": _servers,
    "metric_interval": st.sampled_from([10, 30, 45, 60, 300]).map(
        lambda amount: Made(Duration.seconds, {"amount": amount})
    ),
    "log_retention": st.sampled_from(logs.RetentionDays),
    "deployment": _deployments,
    "rollback_alarms": st.lists(mostly(NAMES, st.just(ALARM)), max_size=12),
    "network_isolation": st.booleans(),
    "image": _images,
    "environment": st.dictionaries(
        mostly(st.sampled_from(["A", "B_C", "SAGEMAKER_X"]), st.just("1a")), st.text("ab=", max_size=5)
    ),
    "encryption_key": st.just(KEY),
    "role": st.just(ROLE),
}
_hosting: dict[str, st.SearchStrategy[Any]] = {
    "routing": st.sampled_from(Routing),
    "volume_size": mostly(st.none(), sizes(Size.gibibytes, 0, 600)),
    "container_start_timeout": durations(60, 3600),
    "model_download_timeout": durations(60, 3600),
    "inference_ami": st.sampled_from(
        ["al2023-ami-sagemaker-inference-gpu-4-1", "al2-ami-sagemaker-inference-gpu-3-1", "gpu-4-1"]
    ),
    "core_dumps": values(CoreDumps, folder_=_folders, encryption_key=st.just(KEY)),
}
multi_model = sometimes_odd(
    st.fixed_dictionaries(
        {
            "instance_type": TYPES,
            "release": _releases,
            "endpoint_name": NAMES,
            "initial_instance_count": st.integers(1, 10),
        },
        optional={
            **_shared,
            **_hosting,
            "keep_models_cached": st.booleans(),
            "cpu_image": mostly(st.just(False), st.just(True)),
            "instance_pools": _SIBLINGS,
            "allow_unlisted_instance_pools": mostly(st.just(True), st.just(False)),
            "data_capture": st.just(True),
        },
    )
)
_pools = values(InstancePool, instance_type_=TYPES, artifact=ARTIFACTS)
_variants = values(
    Variant,
    name_=mostly(st.sampled_from(["Blue", "Green", "Grey"]), st.just("a_b")),
    artifact_=ARTIFACTS,
    instance_type=TYPES,
    initial_instance_count=mostly(st.integers(2, 10), st.integers(0, 2)),
    weight=st.floats(0, 10),
    default_model=NAMES,
    instance_pools=mostly(st.just(()), st.lists(_pools, max_size=3)),
    **_hosting,
)
_captures = values(
    DataCapture,
    bucket_=st.just(BUCKET),
    prefix=st.sampled_from(["captured/", "", "/a/b"]),
    sampling_percent=mostly(st.integers(0, 100), st.integers(-1, 101)),
    inputs=st.booleans(),
    outputs=st.booleans(),
    encryption_key=st.just(KEY),
    csv_content_types=st.lists(mostly(st.just("text/csv"), st.sampled_from(["", "a b"])), max_size=2),
    json_content_types=st.lists(st.sampled_from(["application/json"]), max_size=2),
)
_queues = values(
    AsyncInference,
    requests_=_folders,
    output_=_folders,
    failure=_folders,
    success_topic=st.just(TOPIC),
    error_topic=st.just(TOPIC),
    include_inference_in=st.lists(st.sampled_from(["success", "error"]), max_size=2),
    max_concurrent_invocations=mostly(st.integers(1, 1000), st.integers(-1, 1001)),
    encryption_key=st.just(KEY),
)
_many = st.lists(_variants, min_size=1, max_size=3)
single_model = sometimes_odd(
    st.fixed_dictionaries(
        {"variants": mostly(_variants.map(lambda one: [one]), _many), "endpoint_name": NAMES},
        optional={
            **_shared,
            "release": _releases,
            "shadow_variant": _variants,
            "cpu_image": mostly(st.just(False), st.just(True)),
            "data_capture": _captures,
            "async_inference": _queues,
            "artifact_timeout": mostly(durations(60, 3600), st.none() | durations(0, 4000)),
        },
    )
)

_percents = mostly(st.floats(0.5, 99), st.floats(0, 150))
_rates = st.floats(0.5, 1e6)
_cooldowns = values(Cooldowns, scale_out_=_waits, scale_in_=_waits)
_common: dict[str, st.SearchStrategy[Any]] = {"cooldowns": _cooldowns, "disable_scale_in": st.booleans()}
_targets = st.one_of(
    values(InvocationsPerGpu, per_minute=_rates, **_common),
    values(InvocationsPerGpu.from_load_test, requests_per_second_=_rates, safety_factor=st.floats(0, 2)),
    values(InvocationsPerInstance, per_minute_=_rates, **_common),
    values(GpuUtilization, percent=_percents, **_common),
    values(GpuMemoryUtilization, percent_=_percents, **_common),
    values(CpuUtilization, percent=_percents, **_common),
    values(
        ModelLatency,
        latency_=durations(0, 3600),
        statistic=st.sampled_from(["Average", "p90", "p", ""]),
        **_common,
    ),
    values(ConcurrentRequests, per_model_=_percents, **_common),
    values(BacklogPerInstance, requests=_percents, **_common),
    values(MetricTarget, name_=NAMES, metric_=st.just(METRIC), target_=_rates, **_common),
)
_steps = values(
    StepScaling,
    name_=NAMES,
    metric_=st.just(METRIC),
    steps_=st.lists(values(ScalingStep, at_=st.floats(0, 100), change_=st.integers(-3, 3)), max_size=3),
    direction=st.sampled_from(ScalingDirection),
    adjustment=st.sampled_from(autoscaling.AdjustmentType),
    minimum_change=st.integers(0, 3),
    cooldown=_waits,
    minutes=st.integers(0, 20),
    out_of=st.integers(0, 20),
)
_moments = st.sampled_from([datetime(2027, 1, 1, tzinfo=timezone.utc), datetime(2028, 1, 1)])
_schedules = values(
    ScheduledCapacity,
    name_=NAMES,
    schedule_=st.sampled_from(
        [
            Made(autoscaling.Schedule.cron, {"hour": "7", "minute": "0"}),
            Made(autoscaling.Schedule.rate, {"duration": Duration.hours(1)}),
            Made(autoscaling.Schedule.expression, {"expression": "never"}),
        ]
    ),
    min_capacity=st.integers(0, 12),
    max_capacity=st.integers(0, 12),
    time_zone=st.just(TimeZone.EUROPE_BERLIN),
    start=_moments,
    end=_moments,
)
scaling = sometimes_odd(
    st.fixed_dictionaries(
        {},
        optional={
            "variant": st.sampled_from(["Blue", "AllTraffic"]),
            "min_capacity": st.integers(0, 12),
            "max_capacity": st.integers(3, 12),
            "targets": st.lists(_targets, max_size=3),
            "steps": st.lists(_steps, max_size=2),
            "schedules": st.lists(_schedules, max_size=2),
            "cooldowns": _cooldowns,
        },
    )
)
thresholds = values(
    Thresholds,
    server_error_percent=_percents,
    model_error_percent=_percents,
    latency_p99=durations(0, 3600),
    cache_hit_percent=_percents,
    disk_percent=_percents,
    gpu_memory_percent=_percents,
    busy_percent=_percents,
    minimum_requests=_rates,
)
alarms = sometimes_odd(
    st.fixed_dictionaries(
        {},
        optional={
            "thresholds": thresholds,
            "log_group": st.just(LOG_GROUP),
            "topic": st.just(TOPIC),
            "ticket_topic": st.just(TOPIC),
        },
    )
)
dashboard = sometimes_odd(
    st.fixed_dictionaries({}, optional={"hourly_price_usd": mostly(st.floats(0.1, 100), st.floats(-1, 0))})
)
rollback = sometimes_odd(
    st.fixed_dictionaries(
        {"endpoint_name": NAMES}, optional={"variant_name": NAMES, "thresholds": thresholds}
    )
)
_greetings = values(
    WarmUpRequest,
    model_=mostly(st.sampled_from(["minilm", "resnet50"]), st.just("a b")),
    body_=mostly(st.just('{"inputs": []}'), st.sampled_from(["", "{", "x" * 9000])),
    content_type=st.sampled_from(["application/json", "application/octet-stream", ""]),
)
watched = st.fixed_dictionaries(
    {
        "warm_up": st.none()
        | sometimes_odd(
            st.fixed_dictionaries(
                {"requests": st.lists(_greetings, max_size=3)}, optional={"every": durations(0, 400)}
            )
        ),
        "new_fleet": st.none()
        | sometimes_odd(st.fixed_dictionaries({}, optional={"thresholds": thresholds, "variant": NAMES})),
    }
)
repository = sometimes_odd(
    st.fixed_dictionaries(
        {},
        optional={
            "prefix": mostly(st.sampled_from(["models/", "a/b"]), st.sampled_from(["", "/a//b/", "*"])),
            "access_logs": st.just(BUCKET),
            "encryption_key": st.just(KEY),
            "removal_policy": st.sampled_from([RemovalPolicy.RETAIN, RemovalPolicy.DESTROY]),
        },
    ),
    one_in=8,
)

builds = sometimes_odd(
    st.fixed_dictionaries(
        {"models": mostly(st.just(["minilm"]), st.sampled_from([["minilm", "resnet"], []]))},
        optional={
            "instance_type": TYPES,
            "release": _releases,
            "machine": mostly(
                values(ProcessingJob, instance_type=st.sampled_from(["ml.g5.xlarge", "ml.g4dn.xlarge"])),
                values(OnDemandMachine) | values(ReservedMachines, base_capacity=st.integers(0, 3)),
            ),
            "cpu_image": mostly(st.just(False), st.just(True)),
            "timeout": durations(200, 30_000),
            "log_retention": st.sampled_from(logs.RetentionDays),
            "weights": mostly(
                st.just({}),
                st.dictionaries(
                    st.sampled_from(["T5_WEIGHTS", "weights", "AWS_REGION"]),
                    st.sampled_from(["s3://weights/t5.pt", "s3://weights/*", "t5.pt", ""]),
                    max_size=2,
                ),
            ),
        },
    )
)
runs = sometimes_odd(
    st.fixed_dictionaries(
        {},
        optional={
            "models_per_build": st.integers(0, 2000),
            "max_concurrency": st.integers(0, 20_000),
            "timeout": durations(30, 90_000),
        },
    ),
    one_in=8,
)
deployment_build = sometimes_odd(
    st.fixed_dictionaries({}, optional={"artifact_timeout": durations(30, 4000)}), one_in=8
)


def _vpc(world: World) -> ec2.Vpc:
    return ec2.Vpc(
        world.stack,
        world.id(),
        max_azs=2,
        nat_gateways=0,
        subnet_configuration=[
            ec2.SubnetConfiguration(name="Isolated", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
        ],
    )


def _imported_vpc(*, route_tables: bool) -> Callable[[World], ec2.IVpc]:
    return lambda world: ec2.Vpc.from_vpc_attributes(
        world.stack,
        world.id(),
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=["us-east-1a", "us-east-1b"],
        isolated_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
        isolated_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"]
        if route_tables
        else None,
    )


_services = mostly(st.just(list(VpcService)), st.lists(st.sampled_from(VpcService), unique=True))
network = sometimes_odd(
    st.fixed_dictionaries(
        {
            "vpc": st.sampled_from(
                [
                    InStack("a VPC", _vpc),
                    InStack("an imported VPC", _imported_vpc(route_tables=True)),
                    InStack("an imported VPC again", _imported_vpc(route_tables=True)),
                    InStack("a VPC without route tables", _imported_vpc(route_tables=False)),
                ]
            )
        },
        optional={
            "create_vpc_endpoints": _services,
            "existing_vpc_endpoints": mostly(st.just([]), _services),
            "vpc_owner": st.sampled_from(["123456789012", "me"]),
            "security_groups": st.lists(
                st.just(
                    InStack(
                        "a security group",
                        lambda world: ec2.SecurityGroup.from_security_group_id(
                            world.stack, world.id(), "sg-0123456789abcdef0"
                        ),
                    )
                ),
                max_size=6,
            ),
        },
    ),
    one_in=6,
)
around_an_endpoint = st.fixed_dictionaries(
    {"scaling": st.none() | scaling, "alarms": alarms, "dashboard": dashboard}
)
beside_an_endpoint = st.fixed_dictionaries(
    {
        "fleet": st.fixed_dictionaries({"fleet": NAMES}),
        "types": mostly(st.just(["ml.g5.2xlarge"]), st.lists(TYPES, min_size=1, max_size=2)),
        "rollback": rollback,
        "builds": builds,
        "runs": st.none() | runs,
        "deployment_build": st.none() | deployment_build,
        "topic": sometimes_odd(st.just({"email": "oncall@example.com"})),
        "imported": sometimes_odd(st.just({"endpoint_name": "search"})),
        "patterns": st.just({"target_models": ["minilm-*"]}),
    }
)
