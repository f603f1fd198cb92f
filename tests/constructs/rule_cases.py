"""Every rule with what it still allows, up to the edge, and all that it refuses: the rules, by example."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TypeAlias

from triton_fleet.rules.account_id import account_id
from triton_fleet.rules.alarm_thresholds import alarm_threshold
from triton_fleet.rules.alias_name import alias_endpoint_name, alias_name_length
from triton_fleet.rules.artifact_timeout import artifact_timeout
from triton_fleet.rules.async_features import async_features, target_published
from triton_fleet.rules.async_topics import async_topics
from triton_fleet.rules.build_gpu import build_gpu, build_region
from triton_fleet.rules.build_machine import nowhere_to_build
from triton_fleet.rules.build_processing import processing_gpu, processing_instance
from triton_fleet.rules.build_reserved import reserved_gpu, reserved_region
from triton_fleet.rules.build_runs import build_runs
from triton_fleet.rules.build_weights import build_weights
from triton_fleet.rules.capacity import capacity
from triton_fleet.rules.container_environment import container_environment
from triton_fleet.rules.content_types import content_types
from triton_fleet.rules.cpu_image import cpu_image
from triton_fleet.rules.deployed_model import deployed_model
from triton_fleet.rules.deployment_portion import deployment_portion
from triton_fleet.rules.deployment_times import deployment_times
from triton_fleet.rules.email_address import email_address
from triton_fleet.rules.existing_bucket import bucket_name, existing_bucket
from triton_fleet.rules.gpu_generation import gpu_generation
from triton_fleet.rules.host_ami import host_ami, host_ami_reported
from triton_fleet.rules.hourly_price import hourly_price
from triton_fleet.rules.image_published import image_published, image_region
from triton_fleet.rules.inline_code import inline_code
from triton_fleet.rules.instance_pools import instance_pools, multi_model_pools, same_gpu, same_image
from triton_fleet.rules.local_storage import local_storage
from triton_fleet.rules.metric_interval import metric_interval
from triton_fleet.rules.multi_model_arguments import multi_model_arguments
from triton_fleet.rules.multi_model_features import EXCLUDED, multi_model_features
from triton_fleet.rules.multi_model_gpu import multi_model_gpu
from triton_fleet.rules.multi_model_type import multi_model_type
from triton_fleet.rules.network_services import models_reachable, route_tables_known, stated_once
from triton_fleet.rules.network_subnets import no_public_subnet, some_subnets
from triton_fleet.rules.number_range import number_range
from triton_fleet.rules.one_scaling import one_scaling
from triton_fleet.rules.own_image import (
    MULTI_MODEL_LABEL,
    image_beside_endpoint,
    image_version,
    multi_model_label,
)
from triton_fleet.rules.plan_portability import PlanTarget, endpoint_fits, plan_portability
from triton_fleet.rules.policy_name import policy_name
from triton_fleet.rules.regional_arn import key_arn, topic_arn
from triton_fleet.rules.repository_prefix import repository_prefix
from triton_fleet.rules.reservation_arn import reservation_arn
from triton_fleet.rules.resource_name import resource_name
from triton_fleet.rules.rollback_alarms import rollback_alarms
from triton_fleet.rules.rolling_one_variant import rolling_one_variant
from triton_fleet.rules.same_variant import same_variant
from triton_fleet.rules.scaling_hardware import scaling_hardware
from triton_fleet.rules.scaling_names import scaling_names
from triton_fleet.rules.scaling_numbers import scaling_number, scaling_number_now
from triton_fleet.rules.scaling_steps import scaling_steps
from triton_fleet.rules.scaling_target import scaling_target
from triton_fleet.rules.scheduled_capacity import (
    scheduled_names,
    scheduled_period,
    scheduled_range,
    scheduled_something,
    scheduled_zone,
)
from triton_fleet.rules.secret_arn import secret_arn
from triton_fleet.rules.sequences import sequences
from triton_fleet.rules.single_model_artifact import single_model_artifact
from triton_fleet.rules.statistic_name import statistic_name
from triton_fleet.rules.tag_set import tag_set
from triton_fleet.rules.unload_stall import unload_stall
from triton_fleet.rules.variant_set import variant_set
from triton_fleet.rules.warm_up_interval import warm_up_interval
from triton_fleet.rules.warm_up_requests import warm_up_models, warm_up_request, warm_up_size
from triton_models.base.errors import Problem
from triton_models.facts.instances import gpu, instance_type
from triton_models.facts.releases import release

Arguments: TypeAlias = Mapping[str, object]
Rule: TypeAlias = Callable[..., Problem | Iterator[Problem | None] | str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A rule by example.

    Attributes:
        rule: The function. One that passes on problems of another rule has a case for each id.
        breaks: The id of what is broken.
        good: Arguments that break nothing, as near to the edge as may be.
        bad: Arguments that break it, one problem each, and together all that there can be.
    """

    rule: Rule
    breaks: str
    good: tuple[Arguments, ...]
    bad: tuple[Arguments, ...]


def given(**arguments: object) -> Arguments:
    """Arguments of a rule; `where` is the test's."""
    return arguments


def _target(name: str, gpu_name: str | None, *plans: str, **more: bool) -> PlanTarget:
    """What a build job or an endpoint is; a build job for a GPU has plans for that model unless said."""
    found = None if gpu_name is None else gpu(gpu_name)
    return PlanTarget(
        gpu=found, release=release(name), path="Fleet/Somewhere", plans=plans or ("this-gpu",), **more
    )


def _planless(name: str, gpu_name: str, **more: bool) -> PlanTarget:
    return replace(_target(name, gpu_name, **more), plans=())


# Of CloudWatch: held against its own pattern in test_rules_and_services.
STATISTICS = (
    *("Average", "Minimum", "Maximum", "Sum", "SampleCount", "IQM"),
    *("p0", "p90", "p99.95", "p100", "tm90", "wm98.5", "tc1", "ts99.9999999999"),
    *("TM(10%:90%)", "WM(:99.5%)", "TC(0%:)", "TS(80%:100.0%)"),
    *("PR(:300)", "PR(100.5:)", "TM(150:1000)", "WM(1e3:2.5E+5)", "TC(:10)", "TS(0:1)"),
)
NO_STATISTICS = (
    *("", "average", "avg", "iqm", "Median"),
    *("p", "p.5", "p100.5", "p101", "p99.12345678901", "p-1", "p\uff19\uff10", "P90", "tm100.1", "pr300"),
    *("TM90", "TM(10:90%)", "TM(:)", "TM(101%:)", "tm(10%:90%)", "PR(10%:90%)", "PR(300)", "PR(-1:1)"),
    *("p90 ", "p90_E", "o90"),
)
_UTC = timezone.utc
_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_DIGEST = "sha256:" + 64 * "0"
_AMI_12 = "al2-ami-sagemaker-inference-gpu-3-1"
_AMI_13 = "al2023-ami-sagemaker-inference-gpu-4-1"


HARDWARE_AND_IMAGES = (
    Case(
        rule=multi_model_type,
        breaks="multi-model-type",
        good=(
            given(instance=instance_type("ml.g5.2xlarge"), asked=False),
            given(instance=instance_type("ml.g4dn.xlarge"), asked=False),
            given(instance=instance_type("ml.c7i.2xlarge"), asked=False),
            given(instance=instance_type("ml.g6.2xlarge"), asked=True),
        ),
        bad=(
            given(instance=instance_type("ml.g6.2xlarge"), asked=False),
            given(instance=instance_type("ml.p5.4xlarge"), asked=False),
        ),
    ),
    Case(
        rule=multi_model_gpu,
        breaks="multi-model-one-gpu",
        good=(
            given(instance=instance_type("ml.g5.16xlarge")),
            given(instance=instance_type("ml.m5.24xlarge")),
        ),
        bad=(
            given(instance=instance_type("ml.g5.12xlarge")),
            given(instance=instance_type("ml.g7.12xlarge")),
        ),
    ),
    Case(
        rule=gpu_generation,
        breaks="gpu-generation-supported",
        good=(
            given(gpu=gpu("V100"), release=release("24.09")),
            given(gpu=gpu("T4"), release=release("25.09")),
        ),
        bad=(given(gpu=gpu("V100"), release=release("25.04")),),
    ),
    Case(
        rule=cpu_image,
        breaks="cpu-image",
        good=(
            given(instance=instance_type("ml.c7i.2xlarge"), asked=True),
            given(instance=instance_type("ml.c7i.2xlarge"), asked=False, own=True),
            given(instance=instance_type("ml.g5.2xlarge"), asked=False),
        ),
        bad=(
            given(instance=instance_type("ml.g5.2xlarge"), asked=True),
            given(instance=instance_type("ml.c7i.2xlarge"), asked=True, own=True),
        ),
    ),
    Case(
        rule=host_ami,
        breaks="host-ami",
        good=(
            given(ami=None, instance=instance_type("ml.g7.2xlarge"), release=release("25.09")),
            given(ami=_AMI_12, instance=instance_type("ml.g5.2xlarge"), release=release("25.04")),
            given(ami=_AMI_13, instance=instance_type("ml.g7e.2xlarge"), release=release("25.09")),
            given(
                ami="al2023-ami-sagemaker-inference-gpu-5-1",
                instance=instance_type("ml.g7.2xlarge"),
                release=release("25.09"),
            ),
        ),
        bad=(
            given(ami="gpu-4-1", instance=instance_type("ml.g5.2xlarge"), release=release("25.09")),
            given(ami=_AMI_13, instance=instance_type("ml.c7i.xlarge"), release=release("25.09")),
            given(ami=_AMI_12, instance=instance_type("ml.g5.2xlarge"), release=release("25.09")),
            given(ami=_AMI_13, instance=instance_type("ml.g5.2xlarge"), release=release("25.04")),
            given(ami=_AMI_13, instance=instance_type("ml.g7.2xlarge"), release=release("25.09")),
            given(ami=_AMI_12, instance=instance_type("ml.g7e.2xlarge"), release=release("25.04")),
        ),
    ),
    Case(
        rule=local_storage,
        breaks="local-storage-no-volume",
        good=(
            given(instance=instance_type("ml.m5.xlarge"), volume_size_gb=100, has_key=True),
            given(instance=instance_type("ml.p3.2xlarge"), volume_size_gb=100, has_key=True),
            given(instance=instance_type("ml.g5.2xlarge"), volume_size_gb=None, has_key=False),
        ),
        bad=(
            given(instance=instance_type("ml.g5.2xlarge"), volume_size_gb=100, has_key=False),
            given(instance=instance_type("ml.g5.2xlarge"), volume_size_gb=None, has_key=True),
        ),
    ),
    Case(
        rule=instance_pools,
        breaks="instance-pools",
        good=(
            given(types=["ml.g5.xlarge"]),
            given(
                types=["ml.g5.xlarge", "ml.g5.2xlarge", "ml.g5.4xlarge", "ml.g5.8xlarge", "ml.g5.16xlarge"]
            ),
        ),
        bad=(
            given(types=[f"ml.c7i.{size}xlarge" for size in (2, 4, 8, 12, 16, 24)]),
            given(types=["ml.g5.xlarge", "ml.g5.2xlarge", "ml.g5.xlarge"]),
        ),
    ),
    Case(
        rule=multi_model_pools,
        breaks="multi-model-pools",
        good=(
            given(types=["ml.g5.xlarge"], asked=False),
            given(types=["ml.g5.xlarge", "ml.g5.2xlarge"], asked=True),
        ),
        bad=(given(types=["ml.g5.xlarge", "ml.g5.2xlarge"], asked=False),),
    ),
    Case(
        rule=same_gpu,
        breaks="instance-pools",
        good=(
            given(preferred=instance_type("ml.g5.2xlarge"), other=instance_type("ml.g5.48xlarge")),
            given(preferred=instance_type("ml.m5.xlarge"), other=instance_type("ml.c7i.xlarge")),
        ),
        bad=(
            given(preferred=instance_type("ml.g6.2xlarge"), other=instance_type("ml.g6e.2xlarge")),
            given(preferred=instance_type("ml.m5.xlarge"), other=instance_type("ml.g5.xlarge")),
        ),
    ),
    Case(
        rule=same_image,
        breaks="instance-pools",
        good=(given(preferred=instance_type("ml.g5.2xlarge"), other=instance_type("ml.g6.2xlarge")),),
        bad=(given(preferred=instance_type("ml.g5.xlarge"), other=instance_type("ml.m5.xlarge")),),
    ),
    Case(
        rule=image_published,
        breaks="release-not-on-sagemaker",
        good=(given(release=release("25.09")),),
        bad=(given(release=release("24.12")),),
    ),
    Case(
        rule=image_region,
        breaks="release-not-in-region",
        good=(
            given(release=release("25.04"), region="cn-north-1"),
            given(release=release("25.09"), region=None),
            given(release=release("24.12"), region="eu-west-1"),  # told by image_published
        ),
        bad=(
            given(release=release("25.09"), region="cn-north-1"),
            given(release=release("25.09"), region="eu-west-9"),
        ),
    ),
    Case(
        rule=image_version,
        breaks="own-image-version",
        good=(
            given(tag="v1", digest=None),
            given(tag=None, digest=_DIGEST),
            given(tag=128 * "a", digest=None),
        ),
        bad=(
            given(tag=None, digest=None),
            given(tag="v1", digest=_DIGEST),
            given(tag=129 * "a", digest=None),
            given(tag=None, digest="sha256:0123456789ab"),
        ),
    ),
    Case(
        rule=image_beside_endpoint,
        breaks="own-image-region",
        good=(given(image="eu-west-1", endpoint="eu-west-1"), given(image="eu-west-1", endpoint=None)),
        bad=(given(image="us-east-1", endpoint="eu-west-1"),),
    ),
    Case(
        rule=multi_model_label,
        breaks="own-image-label",
        good=(
            given(labels={MULTI_MODEL_LABEL: "true"}, source="Dockerfile", stated=False),
            given(labels=None, source="", stated=True),
        ),
        bad=(
            given(labels=None, source="", stated=False),
            given(labels={}, source="Dockerfile", stated=True),
            given(labels={MULTI_MODEL_LABEL: "True"}, source="Dockerfile", stated=True),
        ),
    ),
    Case(
        rule=container_environment,
        breaks="container-environment",
        good=(
            given(server={"SAGEMAKER_TRITON_LOG_INFO": "1"}, extra={"T5_BEAMS": 1024 * "4", "TOKEN": None}),
            given(server={}, extra={f"OPTION_{number}": "1" for number in range(100)}),
            given(server={}, extra={f"T_{number:02}": 1020 * "1" for number in range(32)}),
        ),
        bad=(
            given(server={"LOG": "1"}, extra={"LOG": "0"}),
            given(server={}, extra={"T5_BEAMS": 1025 * "4"}),
            given(server={}, extra={"5_BEAMS": "4"}),
            given(server={"LOG": "1"}, extra={f"OPTION_{number}": "1" for number in range(100)}),
            given(server={"L": ""}, extra={f"T_{number:02}": 1020 * "1" for number in range(32)}),
        ),
    ),
    Case(
        rule=multi_model_arguments,
        breaks="multi-model-argument",
        good=(given(arguments=[]), given(arguments=["--pinned-memory-pool-byte-size=0"])),
        bad=(
            given(arguments=["--model-load-gpu-limit=0:0.8"]),
            given(arguments=["--cache-config=local,size=1048576"]),
            given(arguments=["--response-cache-byte-size=1048576"]),
        ),
    ),
)


ENDPOINTS_AND_VARIANTS = (
    Case(
        rule=multi_model_features,
        breaks="multi-model-excludes",
        good=(given(arguments=[]),),
        bad=tuple(given(arguments=[argument]) for argument in EXCLUDED),
    ),
    Case(
        rule=single_model_artifact,
        breaks="single-model-artifact",
        good=(given(artifact="resnet50-0123456789ab.tar.gz"), given(artifact=None)),
        bad=(
            given(artifact="models/resnet50-0123456789ab.tar.gz"),
            given(artifact="resnet50-0123456789ab.zip"),
        ),
    ),
    Case(
        rule=variant_set,
        breaks="variant-set",
        good=(
            given(names=["AllTraffic"], weights=[None], has_shadow=False),
            given(names=["AllTraffic", "Candidate"], weights=[1], has_shadow=True),
            given(names=[f"V{each}" for each in range(10)], weights=[0] * 9 + [0.1], has_shadow=False),
        ),
        bad=(
            given(names=[], weights=[], has_shadow=False),
            given(names=[f"V{each}" for each in range(11)], weights=[1] * 11, has_shadow=False),
            given(names=["Current", "Current"], weights=[1, 1], has_shadow=False),
            given(names=["Current", "Candidate"], weights=[0, 0], has_shadow=False),
            given(names=["Current", "Candidate", "Shadow"], weights=[1, 1], has_shadow=True),
        ),
    ),
    Case(
        rule=async_features,
        breaks="async-excludes",
        good=(given(variants=1, has_shadow=False, has_capture=False),),
        bad=(
            given(variants=2, has_shadow=False, has_capture=False),
            given(variants=1, has_shadow=True, has_capture=False),
            given(variants=1, has_shadow=False, has_capture=True),
        ),
    ),
    Case(
        rule=async_topics,
        breaks="async-topics",
        good=(given(included=["success", "error"], given=["success", "error"]), given(included=[], given=[])),
        bad=(
            given(included=["success", "error"], given=["error"]),
            given(included=["error", "error"], given=["success", "error"]),
        ),
    ),
    Case(
        rule=content_types,
        breaks="content-types",
        good=(
            given(types=["application/vnd.sagemaker-triton.binary"], name="json_content_types"),
            given(types=["application/" + 244 * "x"], name="json_content_types"),
            given(types=["application/json"] * 10, name="json_content_types"),
        ),
        bad=(
            given(types=["application/ld+json"], name="json_content_types"),
            given(types=["application/" + 245 * "x"], name="json_content_types"),
            given(types=["text/csv"] * 11, name="csv_content_types"),
        ),
    ),
    Case(
        rule=secret_arn,
        breaks="secret-arn",
        good=(
            given(arn="arn:aws:secretsmanager:us-east-1:123456789012:secret:hub/token-a1B2c3"),
            given(arn="arn:aws-cn:secretsmanager:cn-north-1:123456789012:secret:t-a1B2c3"),
            given(arn=None),
        ),
        bad=(
            given(arn="hub/token"),
            given(arn="hf_abcdefghijklmnop"),
            given(arn="arn:aws:secretsmanager:us-east-1:123456789012:secret:hub/token"),
            given(arn="arn:aws:secretsmanager:us-east-1:123456789012:secret:hub-*"),
            given(arn="arn:aws:secretsmanager:us-east-1:123:secret:hub/token-a1B2c3"),
        ),
    ),
    Case(
        rule=existing_bucket,
        breaks="existing-bucket",
        good=(
            given(bucket=True, key=True, access_logs=False),
            given(bucket=False, key=True, access_logs=True),
        ),
        bad=(
            given(bucket=True, key=False, access_logs=False),
            given(bucket=True, key=True, access_logs=True),
        ),
    ),
    Case(
        rule=bucket_name,
        breaks="existing-bucket",
        good=(given(name="my.models-1"), given(name=63 * "m"), given(name=None)),
        bad=tuple(given(name=each) for each in ("s3://models/", "Models", "a", 64 * "m", "a..b", "")),
    ),
    Case(
        rule=key_arn,
        breaks="key-arn",
        good=(
            given(arn=None, region="eu-west-1"),
            given(arn="arn:aws-cn:kms:cn-north-1:123456789012:key/mrk-1", region=None),
            given(arn="arn:aws:kms:eu-west-1:123456789012:key/1234-abcd", region="eu-west-1"),
        ),
        bad=(
            given(arn="1234-abcd", region=None),
            given(arn="arn:aws:kms:eu-west-1:123456789012:alias/models", region=None),
            given(arn="arn:aws:kms:us-east-1:123456789012:key/1234-abcd", region="eu-west-1"),
        ),
    ),
    Case(
        rule=topic_arn,
        breaks="topic-arn",
        good=(
            given(arn=None, region="eu-west-1"),
            given(arn="arn:aws-cn:sns:cn-north-1:123456789012:alarms", region=None),
            given(arn="arn:aws:sns:eu-west-1:123456789012:on_call-1.fifo", region="eu-west-1"),
        ),
        bad=(
            given(arn="alarms", region=None),
            given(arn="arn:aws:sqs:eu-west-1:123456789012:alarms", region=None),
            given(arn="arn:aws:sns:eu-west-1:123456789012:alarms", region="eu-central-1"),
        ),
    ),
    Case(
        rule=reservation_arn,
        breaks="reservation-arn",
        good=(
            given(arn="arn:aws-us-gov:sagemaker:us-gov-west-1:123456789012:training-plan/name"),
            given(arn="arn:aws:sagemaker:us-east-1:123456789012:training-plan/" + 203 * "n"),
            given(arn=None),
        ),
        bad=(
            given(arn="name"),
            given(arn="arn:aws:sagemaker:us-east-1:123456789012:training-plan/" + 204 * "n"),
        ),
    ),
    Case(
        rule=metric_interval,
        breaks="metric-interval",
        good=(given(seconds=10), given(seconds=30), given(seconds=60), given(seconds=None)),
        bad=(given(seconds=45), given(seconds=120)),
    ),
)


NAMES_AND_NUMBERS = (
    Case(
        rule=resource_name,
        breaks="resource-name",
        good=(
            given(name="a", what="the endpoint"),
            given(name=63 * "a", what="the endpoint"),
            given(name="-".join(32 * "a"), what="the endpoint"),
            given(name="search-g5", what="the variant"),
        ),
        bad=(
            given(name="", what="the endpoint"),
            given(name=64 * "a", what="the endpoint"),
            given(name="-".join(33 * "a"), what="the endpoint"),  # the pattern alone counts no hyphens
            given(name="search_g5", what="the variant"),
            given(name="search-", what="the variant"),
        ),
    ),
    Case(
        rule=number_range,
        breaks="number-range",
        good=(
            given(value=1, least=1, most=10, name="instances"),
            given(value=10, least=1, most=10, name="instances"),
            given(value=None, least=1, most=10, name="instances"),
        ),
        bad=(
            given(value=0, least=1, most=None, name="instances"),
            given(value=3601, least=60, most=3600, name="startup_timeout", unit="s"),
        ),
    ),
    Case(
        rule=tag_set,
        breaks="tags",
        good=(
            given(tags={f"team-{number}": 256 * "x" for number in range(50)}),
            given(tags={128 * "k": None, "cost centre": "a_b.c:/=+-@"}),
            given(tags={"Größe": "\u00bd\u00a0m\u3000"}),
        ),
        bad=(
            given(tags={f"team-{number}": "" for number in range(51)}),
            given(tags={"AWS:team": "search"}),
            given(tags={"": "search"}),
            given(tags={129 * "k": "search"}),
            given(tags={"team": 257 * "x"}),
            given(tags={"cost\tcentre": "search"}),
            given(tags={"team": "search\n"}),
            given(tags={"team": "search & find"}),
        ),
    ),
    Case(
        rule=account_id,
        breaks="account-id",
        good=(given(account="123456789012"), given(account=None)),
        bad=(given(account="12345678901"), given(account="production")),
    ),
    Case(
        rule=email_address,
        breaks="email-address",
        good=(given(address="oncall@example.com"), given(address=None)),
        bad=(given(address="oncall"), given(address="on call@example.com")),
    ),
    Case(
        rule=alias_endpoint_name,
        breaks="alias-endpoint-name",
        good=(given(name="search-g5-2xlarge", expected="search-g5-2xlarge"),),
        bad=(given(name="search", expected="search-g5-2xlarge"),),
    ),
    Case(
        rule=alias_name_length,
        breaks="alias-endpoint-name",
        good=(given(name=52 * "a" + "-g5-2xlarge", fleet=52 * "a"),),
        bad=(given(name=53 * "a" + "-g5-2xlarge", fleet=53 * "a"),),
    ),
)


NETWORK = (
    Case(
        rule=some_subnets,
        breaks="network-private-subnets",
        good=(given(chosen=1, vpc_has_public=True),),
        bad=(given(chosen=0, vpc_has_public=True), given(chosen=0, vpc_has_public=False)),
    ),
    Case(
        rule=no_public_subnet,
        breaks="network-private-subnets",
        good=(given(public=[]),),
        bad=(given(public=["Fleet/Vpc/PublicSubnet1"]),),
    ),
    Case(
        rule=stated_once,
        breaks="network-endpoint-twice",
        good=(given(created=["s3"], existing=["ecr.api", "ecr.dkr"]),),
        bad=(given(created=["s3", "ecr.api"], existing=["s3"]),),
    ),
    Case(
        rule=models_reachable,
        breaks="network-models-unreachable",
        good=(given(reached=["s3"], isolated=True), given(reached=[], isolated=False)),
        bad=(given(reached=["ecr.api", "ecr.dkr"], isolated=True),),
    ),
    Case(
        rule=route_tables_known,
        breaks="network-route-tables",
        good=(given(unknown=[]),),
        bad=(given(unknown=["subnet-0123456789abcdef0"]),),
    ),
)


DEPLOYMENTS = (
    Case(
        rule=deployment_portion,
        breaks="deployment-portion",
        good=(
            given(value=5, by_percent=True, lowest_percent=5, highest_percent=50, capacity=None),
            given(value=50, by_percent=True, lowest_percent=5, highest_percent=50, capacity=None),
            given(value=1, by_percent=False, lowest_percent=5, highest_percent=50, capacity=2),
            given(value=1, by_percent=False, lowest_percent=5, highest_percent=50, capacity=20),
            given(value=9, by_percent=False, lowest_percent=5, highest_percent=50, capacity=None),
            given(value=None, by_percent=True, lowest_percent=5, highest_percent=50, capacity=1),
        ),
        bad=tuple(
            given(
                value=value, by_percent=by_percent, lowest_percent=5, highest_percent=50, capacity=instances
            )
            for value, by_percent, instances in (
                (0, False, None),
                (0, True, 4),
                (float("inf"), True, 4),
                (12.5, True, 4),
                (0.5, False, 4),
                (4, True, 4),
                (51, True, 4),
                (1, False, 1),
                (3, False, 5),
                (1, False, 21),
            )
        ),
    ),
    Case(
        rule=deployment_times,
        breaks="deployment-times",
        good=(
            given(waits={"wait": 3600, "termination_wait": 0}, maximum=28_800, total_wait=28_799),
            given(waits={"wait": None}, maximum=600, total_wait=None),
            given(waits={}, maximum=None, total_wait=86_400),
        ),
        bad=(
            given(waits={"wait": 3601}, maximum=None, total_wait=3601),
            given(waits={}, maximum=599, total_wait=0),
            given(waits={}, maximum=28_801, total_wait=0),
            given(waits={"wait": 600}, maximum=600, total_wait=600),
        ),
    ),
    Case(
        rule=rollback_alarms,
        breaks="rollback-alarms",
        good=(
            given(names=[f"alarm-{number}" for number in range(10)], has_deployment=True),
            given(names=[], has_deployment=False),
        ),
        bad=(
            given(names=[f"alarm-{number}" for number in range(11)], has_deployment=True),
            given(names=["latency", "latency"], has_deployment=True),
            given(names=["latency"], has_deployment=False),
        ),
    ),
    Case(
        rule=rolling_one_variant,
        breaks="rolling-one-variant",
        good=(given(variants=1),),
        bad=(given(variants=2),),
    ),
    Case(
        rule=warm_up_interval,
        breaks="warm-up-interval",
        good=(given(seconds=1), given(seconds=300)),
        bad=(given(seconds=None), given(seconds=0.5), given(seconds=301)),
    ),
    Case(
        rule=warm_up_models,
        breaks="warm-up-requests",
        good=(given(models=["minilm", "resnet50", None, None]),),
        bad=(given(models=[]), given(models=["minilm", "resnet50", "minilm"])),
    ),
    Case(
        rule=warm_up_request,
        breaks="warm-up-requests",
        good=(
            given(model="minilm", body='{"inputs": []}', content_type="application/json"),
            given(model="resnet50", body="0 1 2", content_type="text/csv"),
        ),
        bad=(
            given(model=None, body="{}", content_type="application/json"),
            given(model="minilm", body="", content_type="application/json"),
            given(model="minilm", body="{'inputs': []}", content_type="Application/JSON; charset=utf-8"),
        ),
    ),
    Case(
        rule=warm_up_size,
        breaks="warm-up-requests",
        good=(given(characters=8192),),
        bad=(given(characters=8193),),
    ),
)


SCALING = (
    Case(
        rule=capacity,
        breaks="capacity-range",
        good=(
            given(minimum=1, maximum=1),
            given(minimum=0, maximum=4, has_queue=True),
            given(minimum=None, maximum=0),
            given(minimum=3, maximum=None),
        ),
        bad=(
            given(minimum=0, maximum=4),
            given(minimum=-1, maximum=4, has_queue=True),
            given(minimum=5, maximum=4),
        ),
    ),
    Case(
        rule=one_scaling,
        breaks="one-scaling-a-variant",
        good=(given(resource="endpoint/search/variant/AllTraffic", already=None),),
        bad=(given(resource="endpoint/search/variant/AllTraffic", already="Fleet/Scaling"),),
    ),
    Case(
        rule=scaling_hardware,
        breaks="scaling-target-hardware",
        good=(
            given(instance=instance_type("ml.g5.xlarge"), per_gpu=True, policy="GpuUtilization"),
            given(instance=instance_type("ml.m5.large"), per_gpu=False, policy="CpuUtilization"),
        ),
        bad=(given(instance=instance_type("ml.m5.large"), per_gpu=True, policy="GpuUtilization"),),
    ),
    Case(
        rule=target_published,
        breaks="scaling-target-published",
        good=(
            given(policy="Backlog", of_queue=True, of_answers=False, has_queue=True),
            given(policy="Invocations", of_queue=False, of_answers=True, has_queue=False),
            given(policy="GpuUtilization", of_queue=False, of_answers=False, has_queue=True),
        ),
        bad=(
            given(policy="Backlog", of_queue=True, of_answers=False, has_queue=False),
            given(policy="Invocations", of_queue=False, of_answers=True, has_queue=True),
        ),
    ),
    Case(
        rule=scaling_target,
        breaks="scaling-target-reachable",
        good=(
            given(value=100, limit=100),
            given(value=0.1, limit=None, per="instance"),
            given(value=None, limit=100),
        ),
        bad=(given(value=0, limit=None, per="instance"), given(value=101, limit=100)),
    ),
    Case(
        rule=scaling_names,
        breaks="one-target-a-metric",
        good=(given(names=["Invocations", "GpuUtilization"]), given(names=[])),
        bad=(
            given(names=["Invocations", "GpuUtilization", "Invocations"]),
            given(names=["Target"]),
            given(names=["FromZero"]),
        ),
    ),
    Case(
        rule=policy_name,
        breaks="policy-name",
        good=(given(name="Q"), given(name=100 * "q"), given(name="Queue.Depth_2-a")),
        bad=(given(name=""), given(name=101 * "q"), given(name="-Queue")),
    ),
    Case(
        rule=statistic_name,
        breaks="statistic-name",
        good=tuple(given(statistic=each) for each in STATISTICS),
        bad=tuple(given(statistic=each) for each in NO_STATISTICS),
    ),
    Case(
        rule=scaling_number,
        breaks="scaling-number",
        good=(
            given(value=0.5, deferred=False, name="change"),
            given(value=2, deferred=False, whole=True, name="change"),
            given(value="${Token[TOKEN.1]}", deferred=True, name="change"),
        ),
        bad=(
            given(value="2", deferred=False, name="change"),
            given(value=True, deferred=False, name="change"),
            given(value=float("nan"), deferred=False, name="change"),
            given(value=0.5, deferred=False, whole=True, name="change"),
        ),
    ),
    Case(
        rule=scaling_number_now,
        breaks="scaling-number",
        good=(given(deferred=False, name="at"),),
        bad=(given(deferred=True, name="at"),),
    ),
    Case(
        rule=scaling_steps,
        breaks="scaling-steps",
        good=(
            given(bounds=[80, 95], changes=[1, 2], grows=True, adjustment="ChangeInCapacity"),
            given(bounds=[20], changes=[-0.1], grows=False, adjustment="PercentChangeInCapacity"),
            given(bounds=[20], changes=[1], grows=False, adjustment="ExactCapacity"),
            given(bounds=[20], changes=[0], grows=False, adjustment="ExactCapacity", has_queue=True),
            given(bounds=[80], changes=[None], grows=True, adjustment="ChangeInCapacity"),
        ),
        bad=(
            given(bounds=[], changes=[], grows=True, adjustment="ChangeInCapacity"),
            given(bounds=[80, 80], changes=[1, 2], grows=True, adjustment="ChangeInCapacity"),
            given(bounds=[80], changes=[0], grows=True, adjustment="ChangeInCapacity"),
            given(bounds=[20], changes=[0], grows=False, adjustment="ChangeInCapacity"),
            given(bounds=[20], changes=[0], grows=False, adjustment="ExactCapacity"),
            given(bounds=[20], changes=[-1], grows=False, adjustment="ExactCapacity", has_queue=True),
        ),
    ),
    Case(
        rule=scheduled_range,
        breaks="capacity-range",
        good=(
            given(bounds=(4, None), standing=(1, 4)),
            given(bounds=(None, 1), standing=(1, 4)),
            given(bounds=(0, None), standing=(1, 4), has_queue=True),
        ),
        bad=(given(bounds=(5, None), standing=(1, 4)), given(bounds=(0, None), standing=(1, 4))),
    ),
    Case(
        rule=scheduled_something,
        breaks="scheduled-capacity",
        good=(given(sets_any=True),),
        bad=(given(sets_any=False),),
    ),
    Case(
        rule=scheduled_period,
        breaks="scheduled-capacity",
        good=(
            given(start=datetime(2026, 12, 1, 7, tzinfo=_UTC), end=datetime(2026, 12, 1, 8, tzinfo=_UTC)),
            given(start=None, end=None),
        ),
        bad=(
            given(start=datetime(2026, 12, 1), end=None),
            given(start=datetime(2026, 12, 1, tzinfo=_UTC), end=datetime(2026, 12, 1, tzinfo=_UTC)),
            given(start=datetime(2026, 12, 2, tzinfo=_UTC), end=datetime(2026, 12, 1, tzinfo=_UTC)),
        ),
    ),
    Case(
        rule=scheduled_zone,
        breaks="scheduled-capacity",
        good=(
            given(expression="cron(0 7 ? * MON-FRI *)", zoned=True),
            given(expression="rate(1 day)", zoned=False),
            given(expression=None, zoned=True),
        ),
        bad=(
            given(expression="rate(1 day)", zoned=True),
            given(expression="at(2026-12-01T07:00:00)", zoned=True),
        ),
    ),
    Case(
        rule=scheduled_names,
        breaks="scheduled-capacity",
        good=(given(names=["Morning", "Evening"]),),
        bad=(given(names=["Morning", "Evening", "Morning"]),),
    ),
)


ALARMS_AND_COST = (
    Case(
        rule=alarm_threshold,
        breaks="alarm-threshold",
        good=(
            given(value=0, lowest=0, below=100, unit="%"),
            given(value=99.9, lowest=0, below=100, unit="%"),
            given(value=1, lowest=1, below=None, unit="ms"),
            given(value=None, lowest=1, below=None, unit="ms"),
        ),
        bad=(
            given(value=100, lowest=0, below=100, unit="%"),
            given(value=0, lowest=1, below=None, unit="ms"),
        ),
    ),
    Case(
        rule=same_variant,
        breaks="same-variant",
        good=(given(watched="search AllTraffic", given="search AllTraffic", what="scaling"),),
        bad=(given(watched="search AllTraffic", given="search Candidate", what="scaling"),),
    ),
    Case(
        rule=hourly_price,
        breaks="hourly-price",
        good=(given(usd=0.001), given(usd=None)),
        bad=(given(usd=0), given(usd=float("inf")), given(usd=float("nan"))),
    ),
)


REPOSITORY_AND_BUILDS = (
    Case(
        rule=repository_prefix,
        breaks="repository-prefix",
        good=tuple(given(prefix=each) for each in ("models/", "model.tar.gz/models/", 512 * "m", None)),
        bad=tuple(
            given(prefix=each)
            for each in (
                *("", "/", "search//models/", "models/*/", 513 * "m", 600 * "*"),
                *("models/model.tar.gz", "/Model.TGZ/"),
            )
        ),
    ),
    Case(
        rule=plan_portability,
        breaks="plan-fits-endpoint",
        good=(
            given(build=_target("23.12", "A10G"), endpoint=_target("24.01", "A10G")),
            given(build=_target("25.04", None), endpoint=_target("25.09", "L4")),
            given(build=_target("25.09", "L4", "same-compute-capability"), endpoint=_target("25.09", "L40S")),
            given(build=_target("25.09", "A10G", "ampere+"), endpoint=_target("25.09", "L4")),
            given(build=_planless("25.04", "A10G"), endpoint=_target("25.09", "T4")),
            given(build=_planless("25.09", "A10G", environments=True), endpoint=_target("25.09", None)),
            given(
                build=_planless("25.04", "A10G", pipelines=True, any_gpu=True),
                endpoint=_target("25.09", "T4"),
            ),
            given(build=_planless("26.04", "A10G", pipelines=True), endpoint=_target("26.05", None)),
            given(build=_planless("25.09", "A10G"), endpoint=_target("25.04", "T4")),
        ),
        bad=(
            given(build=_target("25.09", "A10G", "same-compute-capability"), endpoint=_target("25.09", "L4")),
            given(build=_target("25.09", "A10G", "ampere+"), endpoint=_target("25.09", "T4")),
            given(build=_target("25.09", "A10G", "ampere+", "this-gpu"), endpoint=_target("25.09", "L4")),
            given(build=_target("25.04", "A10G", "ampere+"), endpoint=_target("25.09", "L4")),
            given(build=_planless("24.09", "A10G"), endpoint=_target("25.09", "A10G")),  # another Python
            given(build=_planless("25.04", "A10G", environments=True), endpoint=_target("25.09", "A10G")),
            given(build=_target("25.09", "L4"), endpoint=_target("25.09", "L40S")),
            given(build=_target("25.04", "A10G"), endpoint=_target("25.09", "A10G")),
            given(build=_target("25.09", "A10G"), endpoint=_target("25.09", None)),
            given(build=_target("24.09", None), endpoint=_target("25.09", None)),  # another Python
            given(build=_planless("25.09", "A10G", any_gpu=True), endpoint=_target("25.09", None)),
            given(build=_planless("25.09", "A10G", pipelines=True), endpoint=_target("25.04", "A10G")),
            # of two releases with one TensorRT
            given(build=_target("26.05", "A10G", pipelines=True), endpoint=_target("26.04", "A10G")),
        ),
    ),
    Case(
        rule=endpoint_fits,
        breaks="plan-fits-endpoint",
        good=(
            given(models={}, endpoint=[_target("25.09", "L4")]),
            given(
                models={"m": [_target("25.09", "A10G"), _target("25.09", "L4")]},
                endpoint=[_target("25.09", "L4")],
            ),
            given(
                models={"m": [_target("25.09", "A10G", "ampere+")]},
                endpoint=[_target("25.09", "A10G"), _target("25.09", "L4")],
            ),
            given(  # each model by its own job
                models={"m": [_target("25.09", "L4")], "n": [_planless("25.09", "A10G")]},
                endpoint=[_target("25.09", "L4")],
            ),
        ),
        bad=(
            given(
                models={"m": [_target("25.09", "A10G"), _target("25.04", "L4")]},
                endpoint=[_target("25.09", "L4")],
            ),
            given(  # one name stands for one artifact, whichever of its instances answers
                models={"m": [_target("25.09", "A10G"), _target("25.09", "L4")]},
                endpoint=[_target("25.09", "A10G"), _target("25.09", "L4")],
            ),
            given(  # one model's job does not make another's
                models={"m": [_target("25.09", "L4")], "n": [_target("25.09", "A10G")]},
                endpoint=[_target("25.09", "L4")],
            ),
        ),
    ),
    Case(
        rule=build_gpu,
        breaks="build-gpu-is-serving-gpu",
        good=(
            given(instance=instance_type("ml.g5.xlarge"), region=None),
            given(instance=instance_type("ml.m5.large"), region=None),  # compiles nothing
        ),
        bad=(
            given(instance=instance_type("ml.g4dn.xlarge"), region=None),
            given(instance=instance_type("ml.p4d.24xlarge"), region="eu-north-1"),
        ),
    ),
    Case(
        rule=build_region,
        breaks="build-gpu-is-serving-gpu",
        good=(
            given(instance=instance_type("ml.g5.xlarge"), region="us-west-2"),
            given(instance=instance_type("ml.g5.xlarge"), region=None),
            given(instance=instance_type("ml.g4dn.xlarge"), region="us-west-2"),  # told by build_gpu
            given(instance=instance_type("ml.m5.large"), region="us-east-2"),  # compiles nothing
        ),
        bad=(given(instance=instance_type("ml.g5.xlarge"), region="us-east-2"),),
    ),
    Case(
        rule=nowhere_to_build,
        breaks="build-gpu-is-serving-gpu",
        good=(
            given(instance=instance_type("ml.g5.xlarge"), region="us-west-2"),
            given(instance=instance_type("ml.g5.xlarge"), region="eu-north-1"),  # as a Processing job
            given(instance=instance_type("ml.p5.48xlarge"), region=None),  # on the smaller ml.p5.4xlarge
            given(instance=instance_type("ml.m5.large"), region="us-west-2"),
        ),
        bad=(
            given(instance=instance_type("ml.p4d.24xlarge"), region="eu-west-1"),  # could be reserved
            given(instance=instance_type("ml.p6-b200.48xlarge"), region="us-east-1"),
        ),
    ),
    Case(
        rule=processing_gpu,
        breaks="build-gpu-is-serving-gpu",
        good=(
            given(instance=instance_type("ml.g6.48xlarge"), region=None),
            given(instance=instance_type("ml.p5.48xlarge"), region=None),
            given(instance=instance_type("ml.m5.large"), region=None),  # compiles nothing
        ),
        bad=(
            given(instance=instance_type("ml.p4d.24xlarge"), region="us-east-1"),
            given(instance=instance_type("ml.p6-b200.48xlarge"), region="us-east-1"),
        ),
    ),
    Case(
        rule=processing_instance,
        breaks="build-gpu-is-serving-gpu",
        good=(
            given(name="ml.g5.xlarge", instance=instance_type("ml.g5.48xlarge")),
            given(name="ml.g5.xlarge", instance=instance_type("ml.p4d.24xlarge")),  # told by processing_gpu
        ),
        bad=(
            given(name="ml.g6.xlarge", instance=instance_type("ml.g5.48xlarge")),
            given(name="ml.p5.48xlarge", instance=instance_type("ml.p5.48xlarge")),  # for hosting only
        ),
    ),
    Case(
        rule=reserved_gpu,
        breaks="build-gpu-is-serving-gpu",
        good=(
            given(instance=instance_type("ml.p4d.24xlarge"), region=None),
            given(instance=instance_type("ml.m5.large"), region=None),  # compiles nothing
        ),
        bad=(
            given(instance=instance_type("ml.p4de.24xlarge"), region=None),
            given(instance=instance_type("ml.g7e.2xlarge"), region=None),
        ),
    ),
    Case(
        rule=reserved_region,
        breaks="build-gpu-is-serving-gpu",
        good=(
            given(instance=instance_type("ml.g5.xlarge"), region="ap-southeast-2"),
            given(instance=instance_type("ml.g5.xlarge"), region=None),
        ),
        bad=(
            given(instance=instance_type("ml.g5.xlarge"), region="ca-central-1"),
            given(instance=instance_type("ml.p4d.24xlarge"), region="ca-central-1"),
        ),
    ),
    Case(
        rule=build_runs,
        breaks="number-range",
        good=(
            given(models_per_build=1, max_concurrency=1, reserved=None),
            given(models_per_build=1000, max_concurrency=10_000, reserved=None),
        ),
        bad=(
            given(models_per_build=0, max_concurrency=1, reserved=None),
            given(models_per_build=1001, max_concurrency=1, reserved=None),
            given(models_per_build=1, max_concurrency=0, reserved=None),
            given(models_per_build=1, max_concurrency=10_001, reserved=None),
        ),
    ),
    Case(
        rule=build_runs,
        breaks="build-runs",
        good=(given(models_per_build=1, max_concurrency=2, reserved=2),),
        bad=(given(models_per_build=1, max_concurrency=3, reserved=2),),
    ),
    Case(
        rule=build_weights,
        breaks="build-weights",
        good=(
            given(weights={"T5_WEIGHTS": f"hf://google-t5/t5-small@{_COMMIT}"}, read={"T5_WEIGHTS"}),
            given(weights={"T5_WEIGHTS": "s3://weights/" + 243 * "k"}, read=None),
        ),
        bad=(
            given(weights={"t5_weights": "s3://weights/t5"}, read=None),
            given(weights={"HF_HOME": "s3://weights/t5"}, read={"HF_HOME"}),
            given(weights={"T5_WEIGHT": "s3://weights/t5"}, read={"T5_WEIGHTS"}),
            given(weights={"T5_WEIGHTS": "s3://weights/t5"}, read=set()),
            given(weights={"T5_WEIGHTS": "/home/me/t5"}, read=None),
            given(weights={"T5_WEIGHTS": "s3://weights/" + 244 * "k"}, read=None),
            given(weights={"T5_WEIGHTS": "s3://weights/t5*"}, read=None),
            given(weights={"T5_WEIGHTS": "hf://google-t5/t5-small@main"}, read=None),
        ),
    ),
    Case(
        rule=deployed_model,
        breaks="deployed-model",
        good=(
            given(model="minilm", models=["minilm"], declared=["minilm", "resnet50"]),
            given(model="minilm:int8", models=["minilm:int8"], declared=["minilm"]),
            given(model="minilm:int8", models=None, declared=["minilm"]),
        ),
        bad=(
            given(model="resnet50", models=["minilm"], declared=["minilm", "resnet50"]),
            given(model="minilm:int8", models=["minilm"], declared=["minilm"]),
            given(model="t5", models=None, declared=["minilm"]),
        ),
    ),
    Case(
        rule=artifact_timeout,
        breaks="artifact-timeout",
        good=(given(seconds=60), given(seconds=3600)),
        bad=(given(seconds=None), given(seconds=59), given(seconds=3601)),
    ),
    Case(
        rule=inline_code,
        breaks="inline-code",
        good=(given(size=1), given(size=999_999)),
        bad=(given(size=0), given(size=1_000_000)),
    ),
)


CASES: tuple[Case, ...] = (
    *HARDWARE_AND_IMAGES,
    *ENDPOINTS_AND_VARIANTS,
    *NAMES_AND_NUMBERS,
    *NETWORK,
    *DEPLOYMENTS,
    *SCALING,
    *ALARMS_AND_COST,
    *REPOSITORY_AND_BUILDS,
)
"""Rules that refuse."""

WARNINGS: tuple[Case, ...] = (
    Case(
        rule=host_ami_reported,
        breaks="triton-fleet:host-ami-refused",
        good=(
            given(ami=None, instance=instance_type("ml.g5.2xlarge"), release=release("25.09")),
            given(ami=None, instance=instance_type("ml.g5.12xlarge"), release=release("25.04")),
            given(ami=None, instance=instance_type("ml.c7i.2xlarge"), release=release("25.09")),
        ),
        bad=(given(ami=None, instance=instance_type("ml.g5.12xlarge"), release=release("25.09")),),
    ),
    Case(
        rule=sequences,
        breaks="triton-fleet:sequences-spread",
        good=(
            given(models=[], instances=4, setting="max_capacity=1"),
            given(models=["dialogue"], instances=1, setting="max_capacity=1"),
            given(models=["dialogue"], instances=0, setting="max_capacity=1"),
        ),
        bad=(
            given(models=["dialogue"], instances=2, setting="max_capacity=1"),
            given(models=["a", "b", "c", "d"], instances=None, setting="max_capacity=1"),
        ),
    ),
    Case(
        rule=unload_stall,
        breaks="triton-fleet:unload-stall",
        good=(given(release=release("25.09")),),
        bad=(given(release=release("25.12")),),
    ),
)
"""Rules that refuse nothing, and say a text of their own."""
