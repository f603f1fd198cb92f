"""Every check with what it accepts, up to the edge, and all that it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, timezone
from typing import TypeAlias

from aws_cdk import CfnParameter, Duration, Size, Stack

from triton_fleet.arguments import checks as arguments
from triton_fleet.builds import checks as builds
from triton_fleet.builds import machine_checks
from triton_fleet.delivery import checks as delivery
from triton_fleet.endpoint import checks as endpoint
from triton_fleet.endpoint import instance_checks, multi_model_checks
from triton_fleet.fleet import checks as fleet
from triton_fleet.functions import checks as functions
from triton_fleet.hosting import checks as hosting
from triton_fleet.hosting import deployment_checks
from triton_fleet.images import checks as images
from triton_fleet.network import checks as network
from triton_fleet.operations import checks as operations
from triton_fleet.repository import checks as repository
from triton_fleet.repository import portability_checks
from triton_fleet.repository.portability_checks import PlanTarget
from triton_fleet.scaling import capacity_checks
from triton_fleet.scaling import checks as scaling
from triton_models.base.errors import Problem
from triton_models.facts.instances import INSTANCE_TYPES, InstanceType, gpu, instance_type
from triton_models.facts.releases import release

_PAST_PROXY = {"NO_PROXY": "169.254.169.254, 169.254.170.2,.amazonaws.com"}
_REGISTRY = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"

Arguments: TypeAlias = Mapping[str, object]
CheckFunction: TypeAlias = Callable[..., Iterator[Problem]]


@dataclass(frozen=True)
class Case:
    """A check by example.

    Attributes:
        function: Yields the problems. One that passes on problems of another check has a case for each id.
        id: The id of the check.
        good: Arguments without a problem, as near to the edge as may be.
        bad: Arguments with one problem each, and together all that there can be.
    """

    function: CheckFunction
    id: str
    _: KW_ONLY
    good: tuple[Arguments, ...]
    bad: tuple[Arguments, ...]

    def problems(self, arguments: Arguments) -> list[Problem]:
        """Return the problems with these arguments."""
        return list(self.function(**arguments, where="here"))

    def __str__(self) -> str:
        return f"{self.function.__name__}: {self.id}"


def given(**arguments: object) -> Arguments:
    """Arguments of a check; `where` is the test's."""
    return arguments


def _target(name: str, gpu_name: str | None, *plans: str, **more: bool) -> PlanTarget:
    """Return the target of a build job or an endpoint; a build job for a GPU has plans by default."""
    found = None if gpu_name is None else gpu(gpu_name)
    return PlanTarget(
        gpu=found, release=release(name), path="Fleet/Somewhere", plans=plans or ("this-gpu",), **more
    )


def _completing(release: str, gpu: str) -> PlanTarget:
    return replace(_target(release, gpu), completes=True)


def _strict(release: str, gpu: str) -> PlanTarget:
    return replace(_target(release, gpu), strict=True)


def _completed(release: str, gpu: str) -> PlanTarget:
    return replace(_target(release, gpu), plans=(), completed=True)


def _forests(release: str, gpu: str | None) -> PlanTarget:
    return replace(_target(release, gpu), plans=(), forests=True)


def _with_pool(mib: float | None) -> PlanTarget:
    return replace(_planless("25.09", "A10G"), pool=mib)


def _with_plugins(*plugins: str) -> PlanTarget:
    return replace(_target("25.09", "A10G"), plugins=plugins)


def _ml(name: str) -> InstanceType:
    return instance_type(f"ml.{name}")


def _planless(name: str, gpu_name: str, **more: bool) -> PlanTarget:
    return replace(_target(name, gpu_name, **more), plans=())


# Of CloudWatch: held against its own pattern in test_checks_and_services.
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
_LATER = CfnParameter(Stack(), "Later", type="Number")
_LATER_TEXT = CfnParameter(Stack(), "Later")
_LATER_LIST = CfnParameter(Stack(), "Later", type="CommaDelimitedList")
_COMMIT = "0123456789abcdef0123456789abcdef01234567"
_DIGEST = "sha256:" + 64 * "0"
_AMI_12 = "al2-ami-sagemaker-inference-gpu-3-1"
_AMI_13 = "al2023-ami-sagemaker-inference-gpu-4-1"


HARDWARE_AND_IMAGES = (
    Case(
        multi_model_checks.multi_model_type,
        "multi-model-type",
        good=(
            given(instance=_ml("g5.2xlarge"), asked=False),
            given(instance=_ml("g4dn.xlarge"), asked=False),
            given(instance=_ml("c7i.2xlarge"), asked=False),
            given(instance=_ml("g6.2xlarge"), asked=True),
        ),
        bad=(given(instance=_ml("g6.2xlarge"), asked=False), given(instance=_ml("p5.4xlarge"), asked=False)),
    ),
    Case(
        multi_model_checks.multi_model_gpu,
        "multi-model-one-gpu",
        good=(
            given(instance=_ml("g5.16xlarge")),
            given(instance=_ml("m5.24xlarge")),
            *(given(instance=each) for each in INSTANCE_TYPES.values() if each.gpu_count <= 1),
        ),
        bad=(
            given(instance=_ml("g5.12xlarge")),
            given(instance=_ml("g7.12xlarge")),
            *(given(instance=each) for each in INSTANCE_TYPES.values() if each.gpu_count > 1),
        ),
    ),
    Case(
        images.gpu_generation,
        "gpu-generation-supported",
        good=(
            given(gpu=gpu("V100"), release=release("24.09")),
            given(gpu=gpu("T4"), release=release("25.09")),
            given(gpu=gpu("A10G"), release=release("26.05")),
        ),
        bad=(
            given(gpu=gpu("V100"), release=release("25.04")),
            given(gpu=gpu("V100"), release=release("25.09")),
        ),
    ),
    Case(
        images.cpu_image,
        "cpu-image",
        good=(
            given(instance=_ml("c7i.2xlarge"), asked=True),
            given(instance=_ml("c7i.2xlarge"), asked=False, own=True),
            given(instance=_ml("g5.2xlarge"), asked=False),
        ),
        bad=(
            given(instance=_ml("g5.2xlarge"), asked=True),
            given(instance=_ml("c7i.2xlarge"), asked=True, own=True),
        ),
    ),
    Case(
        instance_checks.host_ami,
        "host-ami",
        good=(
            given(ami=None, instance=_ml("g7.2xlarge"), release=release("25.09")),
            given(ami=_AMI_12, instance=_ml("g5.2xlarge"), release=release("25.04")),
            given(ami=_AMI_13, instance=_ml("g7e.2xlarge"), release=release("25.09")),
            given(
                ami="al2023-ami-sagemaker-inference-gpu-5-1",
                instance=_ml("g7.2xlarge"),
                release=release("25.09"),
            ),
        ),
        bad=(
            given(ami="gpu-4-1", instance=_ml("g5.2xlarge"), release=release("25.09")),
            given(ami=_AMI_13, instance=_ml("c7i.xlarge"), release=release("25.09")),
            given(ami=_AMI_12, instance=_ml("g5.2xlarge"), release=release("25.09")),
            given(ami=_AMI_13, instance=_ml("g5.2xlarge"), release=release("25.04")),
            given(ami=_AMI_13, instance=_ml("g7.2xlarge"), release=release("25.09")),
            given(ami=_AMI_12, instance=_ml("g7e.2xlarge"), release=release("25.04")),
        ),
    ),
    Case(
        instance_checks.local_storage,
        "local-storage-no-volume",
        good=(
            given(instance=_ml("m5.xlarge"), has_volume_size=True, has_key=True),
            given(instance=_ml("p3.2xlarge"), has_volume_size=True, has_key=True),
            given(instance=_ml("g5.2xlarge"), has_volume_size=False, has_key=False),
        ),
        bad=(
            given(instance=_ml("g5.2xlarge"), has_volume_size=True, has_key=False),
            given(instance=_ml("g5.2xlarge"), has_volume_size=False, has_key=True),
        ),
    ),
    Case(
        instance_checks.instance_pools,
        "instance-pools",
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
        instance_checks.multi_model_pools,
        "multi-model-pools",
        good=(
            given(types=["ml.g5.xlarge"], asked=False),
            given(types=["ml.g5.xlarge", "ml.g5.2xlarge"], asked=True),
        ),
        bad=(given(types=["ml.g5.xlarge", "ml.g5.2xlarge"], asked=False),),
    ),
    Case(
        repository.same_gpu,
        "instance-pools",
        good=(
            given(preferred=_ml("g5.2xlarge"), other=_ml("g5.48xlarge")),
            given(preferred=_ml("m5.xlarge"), other=_ml("c7i.xlarge")),
        ),
        bad=(
            given(preferred=_ml("g6.2xlarge"), other=_ml("g6e.2xlarge")),
            given(preferred=_ml("m5.xlarge"), other=_ml("g5.xlarge")),
        ),
    ),
    Case(
        instance_checks.same_image,
        "instance-pools",
        good=(given(preferred=_ml("g5.2xlarge"), other=_ml("g6.2xlarge")),),
        bad=(given(preferred=_ml("g5.xlarge"), other=_ml("m5.xlarge")),),
    ),
    Case(
        images.image_published,
        "release-not-on-sagemaker",
        good=(given(release=release("25.09")),),
        bad=(given(release=release("24.12")),),
    ),
    Case(
        images.image_region,
        "release-not-in-region",
        good=(
            given(release=release("25.04"), region="cn-north-1"),
            given(release=release("25.09"), region=None),
            given(release=release("24.12"), region="eu-west-1"),  # reported by image_published
        ),
        bad=(
            given(release=release("25.09"), region="cn-north-1"),
            given(release=release("25.09"), region="eu-west-9"),
        ),
    ),
    Case(
        images.image_version,
        "own-image-version",
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
            *(given(tag=each, digest=None) for each in ("-v7", "repo:v7", "")),
            given(tag=None, digest=f"{_DIGEST}00"),
        ),
    ),
    Case(
        images.image_beside_endpoint,
        "own-image-region",
        good=(
            given(image="eu-west-1", endpoint="eu-west-1"),
            given(image="eu-west-1", endpoint=None),
            given(image=None, endpoint="eu-west-1"),
        ),
        bad=(given(image="us-east-1", endpoint="eu-west-1"),),
    ),
    Case(
        images.multi_model_label,
        "own-image-label",
        good=(
            given(labels={images.MULTI_MODEL_LABEL: "true"}, source="Dockerfile", stated=False),
            given(labels=None, source="", stated=True),
        ),
        bad=(
            given(labels=None, source="", stated=False),
            given(labels={}, source="Dockerfile", stated=True),
            given(labels={images.MULTI_MODEL_LABEL: "True"}, source="Dockerfile", stated=True),
            given(labels={images.MULTI_MODEL_LABEL: "false"}, source="Dockerfile", stated=True),
        ),
    ),
    Case(
        endpoint.container_environment,
        "container-environment",
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
            given(server={}, extra={f"OPTION_{number}": "1" for number in range(101)}),
            given(server={}, extra={f"T_{number:02}": 1024 * "1" for number in range(32)}),
        ),
    ),
    Case(
        multi_model_checks.multi_model_arguments,
        "multi-model-argument",
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
        multi_model_checks.multi_model_features,
        "multi-model-excludes",
        good=(given(arguments=[]),),
        bad=tuple(given(arguments=[argument]) for argument in multi_model_checks.EXCLUDED),
    ),
    Case(
        endpoint.single_model_artifact,
        "single-model-artifact",
        good=(
            given(artifact="resnet50-0123456789ab.tar.gz"),
            given(artifact=None),
            given(artifact="a.tar.gz"),
        ),
        bad=(
            given(artifact="models/resnet50-0123456789ab.tar.gz"),
            given(artifact="resnet50-0123456789ab.zip"),
            *(given(artifact=each) for each in ("", "a", "a.tar", "*.tar.gz", "a b.tar.gz", ".tar.gz")),
        ),
    ),
    Case(
        endpoint.variant_set,
        "variant-set",
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
            given(names=["A", "A"], weights=[1], has_shadow=True),
        ),
    ),
    Case(
        endpoint.async_features,
        "async-excludes",
        good=(given(variants=1, has_shadow=False, has_capture=False),),
        bad=(
            given(variants=2, has_shadow=False, has_capture=False),
            given(variants=1, has_shadow=True, has_capture=False),
            given(variants=1, has_shadow=False, has_capture=True),
        ),
    ),
    Case(
        hosting.async_topics,
        "async-topics",
        good=(given(included=["success", "error"], given=["success", "error"]), given(included=[], given=[])),
        bad=(
            given(included=["success", "error"], given=["error"]),
            given(included=["error", "error"], given=["success", "error"]),
        ),
    ),
    Case(
        hosting.content_types,
        "content-types",
        good=(
            given(types=["application/vnd.sagemaker-triton.binary"], name="json_content_types"),
            given(types=["application/" + 244 * "x"], name="json_content_types"),
            given(types=["application/json"] * 10, name="json_content_types"),
        ),
        bad=(
            given(types=["application/ld+json"], name="json_content_types"),
            given(types=["application/" + 245 * "x"], name="json_content_types"),
            given(types=["text/csv"] * 11, name="csv_content_types"),
            given(types=["a/" + 255 * "b"], name="csv_content_types"),
        ),
    ),
    Case(
        network.network_id,
        "network-id",
        good=(
            given(given="vpc-0123456789abcdef0", kind="vpc"),
            given(given="subnet-01234567", kind="subnet"),
            given(given=None, kind="sg"),
        ),
        bad=(
            given(given="my-vpc", kind="vpc"),
            given(given="vpc-0123456789abcdef0", kind="subnet"),
            given(given="arn:aws:ec2:eu-west-1:123456789012:security-group/sg-01234567", kind="sg"),
        ),
    ),
    Case(builds.s3_of_builds, "build-network", good=(given(narrowed=False),), bad=(given(narrowed=True),)),
    Case(
        builds.build_environment,
        "build-environment",
        good=(
            given(variables={}, weights=()),
            given(variables={"PIP_INDEX_URL": "https://index.example.com/simple"}, weights=("T5_WEIGHTS",)),
            given(variables={"HTTPS_PROXY": "http://proxy.example.com:3128", **_PAST_PROXY}, weights=()),
            given(variables={"all_proxy": "proxy.example.com:1080", **_PAST_PROXY}, weights=()),
        ),
        bad=(
            given(variables={"FLEET_MODELS": "a"}, weights=()),
            given(variables={"PIP_USER": "0"}, weights=()),
            given(variables={"A-B": "c"}, weights=()),
            given(variables={"T5_WEIGHTS": "s3://bucket/t5.pt"}, weights=("T5_WEIGHTS",)),
            given(variables={"PIP_INDEX_URL": "https://ann:secret@index.example.com/"}, weights=()),
            given(variables={"NOTE": "x" * 257}, weights=()),
            given(variables={"HTTPS_PROXY": "http://proxy.example.com:3128"}, weights=()),
            given(variables={"https_proxy": "http://proxy.example.com", **_PAST_PROXY}, weights=()),
            given(variables={"PIP_INDEX_URL": "https://index.example.com:simple"}, weights=()),
        ),
    ),
    Case(
        arguments.role_arn,
        "role-arn",
        good=(
            given(arn="arn:aws:iam::123456789012:role/deploy"),
            given(arn="arn:aws-cn:iam::123456789012:role/path/to/deploy"),
            given(arn=None),
        ),
        bad=(
            given(arn="deploy"),
            given(arn="arn:aws:iam::123456789012:user/ann"),
            given(arn="arn:aws:iam::123:role/deploy"),
            given(arn="arn:aws:iam::123456789012:role/*"),
            given(arn="arn:aws:sts::123456789012:assumed-role/deploy/session"),
        ),
    ),
    Case(
        arguments.secret_arn,
        "secret-arn",
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
    Case(repository.own_policies, "existing-bucket", good=(given(owned=True),), bad=(given(owned=False),)),
    Case(
        delivery.github_repository,
        "github-repository",
        good=(
            given(repository=None),
            given(repository=f"{39 * 'o'}/{100 * 'n'}"),
            given(repository="octo-org/.github"),
            given(repository="octo_company/my_models.v2"),
        ),
        bad=(
            given(repository="search"),
            given(repository="octo-org/*"),
            given(repository="octo-org/.."),
            given(repository=f"{40 * 'o'}/search"),
            given(repository=f"o/{101 * 'n'}"),
            given(repository="https://github.com/octo-org/search"),
            given(repository="octo-org@583231/search@1296269"),
        ),
    ),
    Case(
        delivery.github_ids,
        "github-ids",
        good=(given(owner=None, repository=None), given(owner="583231", repository="1296269")),
        bad=(
            given(owner="583231", repository=None),
            given(owner=None, repository="1296269"),
            given(owner="583231", repository="0"),
            given(owner="octo-org", repository="1296269"),
        ),
    ),
    Case(
        delivery.github_environment,
        "github-environment",
        good=(
            given(environment=None),
            given(environment="production"),
            given(environment="eu west/1"),
            given(environment=255 * "e"),
        ),
        bad=(
            given(environment=""),
            given(environment="*"),
            given(environment="prod?"),
            given(environment="production:v1"),
            given(environment="production "),
            given(environment=256 * "e"),
        ),
    ),
    Case(
        delivery.github_provider,
        "github-provider",
        good=(
            given(arn=None),
            given(arn="arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"),
            given(arn="arn:aws-cn:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"),
        ),
        bad=(
            given(arn="token.actions.githubusercontent.com"),
            given(arn="arn:aws:iam::123456789012:oidc-provider/gitlab.com"),
        ),
    ),
    Case(
        repository.existing_bucket,
        "existing-bucket",
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
        repository.bucket_name,
        "existing-bucket",
        good=(given(name="my.models-1"), given(name=63 * "m"), given(name=None)),
        bad=tuple(given(name=each) for each in ("s3://models/", "Models", "a", 64 * "m", "a..b", "")),
    ),
    Case(
        arguments.key_arn,
        "key-arn",
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
        arguments.topic_arn,
        "topic-arn",
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
        arguments.reservation_arn,
        "reservation-arn",
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
        endpoint.metric_interval,
        "metric-interval",
        good=(given(seconds=10), given(seconds=30), given(seconds=60), given(seconds=None)),
        bad=(given(seconds=45), given(seconds=120)),
    ),
)


NAMES_AND_NUMBERS = (
    Case(
        arguments.whole_quantity,
        "whole-time",
        good=(
            given(given=Duration.seconds(90), name="timeout"),
            given(given=Duration.minutes(2), name="timeout", unit="minutes"),
        ),
        bad=(
            given(given=Duration.millis(1500), name="timeout"),
            given(given=Duration.seconds(90), name="timeout", unit="minutes"),
            given(given=Duration.seconds(_LATER.value_as_number), name="latency", unit="milliseconds"),
        ),
    ),
    Case(
        arguments.whole_quantity,
        "whole-size",
        good=(
            given(given=Size.mebibytes(1), name="shared_memory", unit="bytes"),
            given(given=Size.bytes(_LATER.value_as_number), name="shared_memory", unit="bytes"),
        ),
        bad=(
            given(given=Size.bytes(1.5), name="shared_memory", unit="bytes"),
            given(given=Size.mebibytes(1), name="volume_size", unit="gibibytes"),
            given(given=Size.mebibytes(_LATER.value_as_number), name="shared_memory", unit="bytes"),
        ),
    ),
    Case(
        arguments.quantity_range,
        "number-range",
        good=(
            given(given=None, least=1, most=512, name="volume_size", unit="gibibytes"),
            given(given=Size.gibibytes(512), least=1, most=512, name="volume_size", unit="gibibytes"),
        ),
        bad=(given(given=Size.gibibytes(513), least=1, most=512, name="volume_size", unit="gibibytes"),),
    ),
    Case(
        arguments.quantity_range,
        "whole-size",
        good=(given(given=Size.mebibytes(1024), least=1, most=512, name="volume_size", unit="gibibytes"),),
        bad=(given(given=Size.gibibytes(0.5), least=1, most=512, name="volume_size", unit="gibibytes"),),
    ),
    Case(
        arguments.quantity_range,
        "number-range",
        good=(
            given(given=None, least=60, most=3600, name="timeout"),
            given(given=Duration.seconds(60), least=60, most=3600, name="timeout"),
            given(given=Duration.seconds(_LATER.value_as_number), least=60, most=3600, name="timeout"),
        ),
        bad=(
            given(given=Duration.seconds(59), least=60, most=3600, name="timeout"),
            given(given=Duration.hours(9), least=5, most=480, name="timeout", unit="minutes"),
        ),
    ),
    Case(
        arguments.quantity_range,
        "whole-time",
        good=(given(given=Duration.minutes(5), least=5, most=480, name="timeout", unit="minutes"),),
        bad=(given(given=Duration.millis(60_500), least=60, most=3600, name="timeout"),),
    ),
    Case(
        arguments.literal_list,
        "literal-needed",
        good=(
            given(given=[], name="models"),
            given(given=["minilm"], name="models"),
            given(given=[_LATER_TEXT.value_as_string], name="models"),
        ),
        bad=(given(given=_LATER_LIST.value_as_list, name="models"),),
    ),
    Case(
        hosting.resource_name,
        "resource-name",
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
        arguments.number_range,
        "number-range",
        good=(
            given(value=1, least=1, most=10, name="instances"),
            given(value=10, least=1, most=10, name="instances"),
            given(value=None, least=1, most=10, name="instances"),
        ),
        bad=(
            given(value=0, least=1, most=None, name="instances"),
            given(value=0, least=1, most=2**31 - 1, name="instances"),
            given(value=2**31, least=1, most=2**31 - 1, name="instances"),
            given(value=3601, least=60, most=3600, name="startup_timeout", unit="s"),
        ),
    ),
    Case(
        network.account_id,
        "account-id",
        good=(given(account="123456789012"), given(account=None)),
        bad=(given(account="12345678901"), given(account="production")),
    ),
    Case(
        operations.email_address,
        "email-address",
        good=(given(address="oncall@example.com"), given(address=None)),
        bad=(given(address="oncall"), given(address="on call@example.com")),
    ),
    Case(
        scaling.alias_endpoint_name,
        "alias-endpoint-name",
        good=(
            given(name="search-g5-2xlarge", expected="search-g5-2xlarge"),
            given(name="search-g5-2xlarge-0f1e2d", expected="search-g5-2xlarge"),
        ),
        bad=(given(name="search", expected="search-g5-2xlarge"),),
    ),
    Case(
        scaling.alias_name_length,
        "alias-endpoint-name",
        good=(given(name=52 * "a" + "-g5-2xlarge", fleet=52 * "a"),),
        bad=(given(name=53 * "a" + "-g5-2xlarge", fleet=53 * "a"),),
    ),
)


NETWORK = (
    Case(
        network.some_subnets,
        "network-private-subnets",
        good=(given(chosen=1, vpc_has_public=True),),
        bad=(given(chosen=0, vpc_has_public=True), given(chosen=0, vpc_has_public=False)),
    ),
    Case(
        network.no_public_subnet,
        "network-private-subnets",
        good=(given(public=[]),),
        bad=(given(public=["Fleet/Vpc/PublicSubnet1"]),),
    ),
    Case(
        network.stated_once,
        "network-endpoint-twice",
        good=(given(created=["s3"], existing=["ecr.api", "ecr.dkr"]),),
        bad=(given(created=["s3", "ecr.api"], existing=["s3"]),),
    ),
    Case(
        network.models_reachable,
        "network-models-unreachable",
        good=(given(reached=["s3"], isolated=True), given(reached=[], isolated=False)),
        bad=(given(reached=["ecr.api", "ecr.dkr"], isolated=True),),
    ),
    Case(
        network.route_tables_known,
        "network-route-tables",
        good=(given(unknown=[]),),
        bad=(given(unknown=["subnet-0123456789abcdef0"]),),
    ),
)


DEPLOYMENTS = (
    Case(
        deployment_checks.deployment_portion,
        "deployment-portion",
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
                (11, False, 21),
                (2, False, 3),
            )
        ),
    ),
    Case(
        deployment_checks.deployment_times,
        "deployment-times",
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
        deployment_checks.rollback_alarms,
        "rollback-alarms",
        good=(
            given(names=[f"alarm-{number}" for number in range(10)], has_deployment=True),
            given(names=[], has_deployment=False),
        ),
        bad=(
            given(names=[f"alarm-{number}" for number in range(11)], has_deployment=True),
            given(names=["latency", "latency"], has_deployment=True),
            given(names=["latency"], has_deployment=False),
            given(names=["latency", "errors"], has_deployment=False),
        ),
    ),
    Case(
        deployment_checks.rolling_one_variant,
        "rolling-one-variant",
        good=(given(variants=1),),
        bad=(given(variants=2),),
    ),
    Case(
        operations.warm_up_interval,
        "warm-up-interval",
        good=(given(seconds=1), given(seconds=300)),
        bad=(given(seconds=None), given(seconds=0.5), given(seconds=301), given(seconds=0.9)),
    ),
    Case(
        operations.warm_up_models,
        "warm-up-requests",
        good=(given(models=["minilm", "resnet50", None, None]),),
        bad=(given(models=[]), given(models=["minilm", "resnet50", "minilm"])),
    ),
    Case(
        operations.warm_up_request,
        "warm-up-requests",
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
        operations.warm_up_size,
        "warm-up-requests",
        good=(given(characters=8192),),
        bad=(given(characters=8193),),
    ),
)


SCALING = (
    Case(
        capacity_checks.capacity,
        "capacity-range",
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
        scaling.one_scaling,
        "one-scaling-a-variant",
        good=(given(resource="endpoint/search/variant/AllTraffic", already=None),),
        bad=(given(resource="endpoint/search/variant/AllTraffic", already="Fleet/Scaling"),),
    ),
    Case(
        scaling.scaling_hardware,
        "scaling-target-hardware",
        good=(
            given(instance=_ml("g5.xlarge"), per_gpu=True, policy="GpuUtilization"),
            given(instance=_ml("m5.large"), per_gpu=False, policy="CpuUtilization"),
        ),
        bad=(given(instance=_ml("m5.large"), per_gpu=True, policy="GpuUtilization"),),
    ),
    Case(
        scaling.target_published,
        "scaling-target-published",
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
        scaling.scaling_target,
        "scaling-target-reachable",
        good=(
            given(value=100, limit=100),
            given(value=1, limit=100),
            given(value=0.1, limit=None, per="instance"),
            given(value=None, limit=100),
        ),
        bad=(
            given(value=0, limit=None, per="instance"),
            given(value=101, limit=100),
            given(value=-1, limit=None),
            given(value=0, limit=1),
            given(value=0.6, limit=100),
        ),
    ),
    Case(
        scaling.scaling_names,
        "one-target-a-metric",
        good=(given(names=["Invocations", "GpuUtilization"]), given(names=[])),
        bad=(
            given(names=["Invocations", "GpuUtilization", "Invocations"]),
            given(names=["Target"]),
            given(names=["FromZero"]),
        ),
    ),
    Case(
        scaling.policy_name,
        "policy-name",
        good=(given(name="Q"), given(name=100 * "q"), given(name="Queue.Depth_2-a")),
        bad=(given(name=""), given(name=101 * "q"), given(name="-Queue")),
    ),
    Case(
        scaling.statistic_name,
        "statistic-name",
        good=tuple(given(statistic=each) for each in STATISTICS),
        bad=tuple(given(statistic=each) for each in NO_STATISTICS),
    ),
    Case(
        scaling.scaling_number,
        "scaling-number",
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
            given(value=float("nan"), deferred=False, whole=True, name="change"),
            given(value=float("inf"), deferred=False, whole=True, name="change"),
            given(value=None, deferred=False, whole=True, name="change"),
            given(value="2", deferred=False, whole=True, name="change"),
        ),
    ),
    Case(
        scaling.scaling_number_now,
        "scaling-number",
        good=(given(deferred=False, name="at"),),
        bad=(given(deferred=True, name="at"),),
    ),
    Case(
        capacity_checks.scaling_steps,
        "scaling-steps",
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
        capacity_checks.scheduled_range,
        "capacity-range",
        good=(
            given(bounds=(4, None), standing=(1, 4)),
            given(bounds=(None, 1), standing=(1, 4)),
            given(bounds=(0, None), standing=(1, 4), has_queue=True),
        ),
        bad=(given(bounds=(5, None), standing=(1, 4)), given(bounds=(0, None), standing=(1, 4))),
    ),
    Case(
        capacity_checks.scheduled_something,
        "scheduled-capacity",
        good=(given(sets_any=True),),
        bad=(given(sets_any=False),),
    ),
    Case(
        capacity_checks.scheduled_period,
        "scheduled-capacity",
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
        capacity_checks.scheduled_zone,
        "scheduled-capacity",
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
        capacity_checks.scheduled_names,
        "scheduled-capacity",
        good=(given(names=["Morning", "Evening"]),),
        bad=(given(names=["Morning", "Evening", "Morning"]),),
    ),
)


ALARMS_AND_COST = (
    Case(
        operations.alarm_threshold,
        "alarm-threshold",
        good=(
            given(value=0, lowest=0, below=100, unit="%"),
            given(value=99.9, lowest=0, below=100, unit="%"),
            given(value=1, lowest=1, below=None, unit="ms"),
            given(value=None, lowest=1, below=None, unit="ms"),
        ),
        bad=(
            given(value=100, lowest=0, below=100, unit="%"),
            given(value=0, lowest=1, below=None, unit="ms"),
            given(value=-1, lowest=0, below=100, unit="%"),
        ),
    ),
    Case(
        operations.same_variant,
        "same-variant",
        good=(given(watched="search AllTraffic", given="search AllTraffic", what="scaling"),),
        bad=(given(watched="search AllTraffic", given="search Candidate", what="scaling"),),
    ),
    Case(
        operations.hourly_price,
        "hourly-price",
        good=(given(usd=0.001), given(usd=None)),
        bad=(given(usd=0), given(usd=float("inf")), given(usd=float("nan"))),
    ),
)


REPOSITORY_AND_BUILDS = (
    Case(
        repository.repository_prefix,
        "repository-prefix",
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
        portability_checks.plan_portability,
        "plan-fits-endpoint",
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
        portability_checks.plan_portability,
        "tensorrt-plugins",
        good=(
            given(build=_with_plugins("/a.so"), endpoint=_with_plugins("/b.so", "/a.so")),
            given(build=_target("25.09", "A10G"), endpoint=_with_plugins("/a.so")),
        ),
        bad=(given(build=_with_plugins("/a.so", "/b.so"), endpoint=_with_plugins("/a.so")),),
    ),
    Case(
        portability_checks.plan_portability,
        "forests-fit-release",
        good=(
            given(build=_forests("25.09", "A10G"), endpoint=_forests("26.06", "A10G")),
            given(build=_forests("25.04", "A10G"), endpoint=_forests("25.09", "A10G")),
            given(build=_forests("25.09", "A10G"), endpoint=_forests("25.04", None)),
            given(build=_planless("25.09", "A10G"), endpoint=_target("25.04", "A10G")),
        ),
        bad=(given(build=_forests("25.09", None), endpoint=_target("25.04", "A10G")),),
    ),
    Case(
        portability_checks.plan_portability,
        "forests-fit-pool",
        good=(
            given(build=_with_pool(1024), endpoint=_with_pool(1024)),
            given(build=_with_pool(0), endpoint=_with_pool(64)),
            given(build=_with_pool(1025), endpoint=_with_pool(None)),
        ),
        bad=(given(build=_with_pool(1025), endpoint=_with_pool(1024)),),
    ),
    Case(
        portability_checks.plan_portability,
        "plan-auto-complete",
        good=(
            given(build=_target("25.09", "A10G"), endpoint=_target("25.09", "A10G")),
            given(build=_planless("25.09", "A10G"), endpoint=_completing("25.09", "A10G")),
        ),
        bad=(given(build=_target("25.09", "A10G"), endpoint=_completing("25.09", "A10G")),),
    ),
    Case(
        portability_checks.plan_portability,
        "auto-complete",
        good=(
            given(build=_completed("25.09", "A10G"), endpoint=_planless("25.09", "A10G")),
            given(build=_planless("25.09", "A10G"), endpoint=_strict("25.09", "A10G")),
        ),
        bad=(given(build=_completed("25.09", "A10G"), endpoint=_strict("25.09", "A10G")),),
    ),
    Case(
        portability_checks.endpoint_fits,
        "plan-fits-endpoint",
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
        machine_checks.build_gpu,
        "build-gpu-is-serving-gpu",
        good=(
            given(instance=_ml("g5.xlarge"), region=None),
            given(instance=_ml("m5.large"), region=None),  # compiles nothing
        ),
        bad=(
            given(instance=_ml("g4dn.xlarge"), region=None),
            given(instance=_ml("p4d.24xlarge"), region="eu-north-1"),
        ),
    ),
    Case(
        machine_checks.build_region,
        "build-gpu-is-serving-gpu",
        good=(
            given(instance=_ml("g5.xlarge"), region="us-west-2"),
            given(instance=_ml("g5.xlarge"), region=None),
            given(instance=_ml("g4dn.xlarge"), region="us-west-2"),  # reported by build_gpu
            given(instance=_ml("m5.large"), region="us-east-2"),  # compiles nothing
        ),
        bad=(given(instance=_ml("g5.xlarge"), region="us-east-2"),),
    ),
    Case(
        machine_checks.nowhere_to_build,
        "build-gpu-is-serving-gpu",
        good=(
            given(instance=_ml("g5.xlarge"), region="us-west-2"),
            given(instance=_ml("g5.xlarge"), region="eu-north-1"),  # as a Processing job
            given(instance=_ml("p5.48xlarge"), region=None),  # on the smaller ml.p5.4xlarge
            given(instance=_ml("m5.large"), region="us-west-2"),
        ),
        bad=(
            given(instance=_ml("p4d.24xlarge"), region="eu-west-1"),  # could be reserved
            given(instance=_ml("p6-b200.48xlarge"), region="us-east-1"),
        ),
    ),
    Case(
        machine_checks.processing_gpu,
        "build-gpu-is-serving-gpu",
        good=(
            given(instance=_ml("g6.48xlarge"), region=None),
            given(instance=_ml("p5.48xlarge"), region=None),
            given(instance=_ml("m5.large"), region=None),  # compiles nothing
        ),
        bad=(
            given(instance=_ml("p4d.24xlarge"), region="us-east-1"),
            given(instance=_ml("p6-b200.48xlarge"), region="us-east-1"),
        ),
    ),
    Case(
        machine_checks.processing_instance,
        "build-gpu-is-serving-gpu",
        good=(
            given(name="ml.g5.xlarge", instance=_ml("g5.48xlarge")),
            given(name="ml.g5.xlarge", instance=_ml("p4d.24xlarge")),  # reported by processing_gpu
        ),
        bad=(
            given(name="ml.g6.xlarge", instance=_ml("g5.48xlarge")),
            given(name="ml.p5.48xlarge", instance=_ml("p5.48xlarge")),  # for hosting only
        ),
    ),
    Case(
        machine_checks.reserved_gpu,
        "build-gpu-is-serving-gpu",
        good=(
            given(instance=_ml("p4d.24xlarge"), region=None),
            given(instance=_ml("m5.large"), region=None),  # compiles nothing
        ),
        bad=(
            given(instance=_ml("p4de.24xlarge"), region=None),
            given(instance=_ml("g7e.2xlarge"), region=None),
        ),
    ),
    Case(
        machine_checks.reserved_region,
        "build-gpu-is-serving-gpu",
        good=(
            given(instance=_ml("g5.xlarge"), region="ap-southeast-2"),
            given(instance=_ml("g5.xlarge"), region=None),
        ),
        bad=(
            given(instance=_ml("g5.xlarge"), region="ca-central-1"),
            given(instance=_ml("p4d.24xlarge"), region="ca-central-1"),
        ),
    ),
    Case(
        builds.build_runs,
        "number-range",
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
        builds.build_runs,
        "build-runs",
        good=(given(models_per_build=1, max_concurrency=2, reserved=2),),
        bad=(given(models_per_build=1, max_concurrency=3, reserved=2),),
    ),
    Case(
        builds.build_weights,
        "build-weights",
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
            given(weights={"FLEET_GPU": "s3://weights/t5"}, read=None),
            given(weights={"T5_WEIGHTS": ""}, read=None),
            given(weights={"T5_WEIGHTS": "s3://weights"}, read=None),
        ),
    ),
    Case(
        images.image_uri,
        "own-image-version",
        good=(
            given(uri=f"{_REGISTRY}/mirror/triton:25.09-py3", region=None),
            given(uri=f"{_REGISTRY}/triton@sha256:{64 * '0'}", region=None),
        ),
        bad=(
            given(uri="triton:25.09-py3", region=None),
            given(uri=f"{_REGISTRY}/triton", region=None),
            given(uri=f"{_REGISTRY}/triton@sha256:12", region=None),
            given(uri="https://hub.example.com/triton:25.09-py3", region=None),
        ),
    ),
    Case(
        images.image_uri,
        "own-image-region",
        good=(given(uri=f"{_REGISTRY}/triton:1", region="eu-west-1"),),
        bad=(given(uri=f"{_REGISTRY}/triton:1", region="us-east-1"),),
    ),
    Case(
        operations.monthly_limit,
        "monthly-limit",
        good=(given(usd=None), given(usd=0.5)),
        bad=(given(usd=0), given(usd=-1), given(usd=float("inf"))),
    ),
    Case(
        operations.budget_destination,
        "budget-destination",
        good=(given(given=True),),
        bad=(given(given=False),),
    ),
    Case(
        builds.weights_uploaded,
        "build-weights",
        good=(given(elsewhere=()),),
        bad=(given(elsewhere=("/data/t5.pt",)),),
    ),
    Case(
        builds.weights_prefixes,
        "build-weights",
        good=(given(prefixes=()), given(prefixes=("s3://data/", "s3://data/checkpoints/"))),
        bad=(given(prefixes=("s3://data/checkpoints",)), given(prefixes=("s3://data/*/",))),
    ),
    Case(
        builds.weights_unreadable,
        "build-weights",
        good=(
            given(objects=("s3://data/t5.pt",), weights=("s3://data/t5.pt",), prefixes=()),
            given(objects=("s3://data/t5/",), weights=(), prefixes=("s3://data/",)),
        ),
        bad=(given(objects=("s3://data/t5/net.pt",), weights=(), prefixes=("s3://data/bert/",)),),
    ),
    Case(
        functions.deployed_model,
        "deployed-model",
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
        functions.artifact_timeout,
        "artifact-timeout",
        good=(given(seconds=60), given(seconds=3600), given(seconds=90.5)),
        bad=(given(seconds=None), given(seconds=59), given(seconds=3601)),
    ),
    Case(
        functions.inline_code,
        "inline-code",
        good=(given(size=1), given(size=999_999)),
        bad=(given(size=0), given(size=1_000_000)),
    ),
    Case(
        fleet.built_from_source,
        "fleet-models",
        good=(
            given(models=None, has_source=False),
            given(models=[], has_source=False),
            given(models=["minilm"], has_source=True),
        ),
        bad=(given(models=["minilm", "resnet50"], has_source=False),),
    ),
    Case(
        fleet.one_library,
        "fleet-models",
        good=(given(given=[]),),
        bad=(given(given=["source"]), given(given=["source", "models"])),
    ),
)


REFUSALS = (
    *HARDWARE_AND_IMAGES,
    *ENDPOINTS_AND_VARIANTS,
    *NAMES_AND_NUMBERS,
    *NETWORK,
    *DEPLOYMENTS,
    *SCALING,
    *ALARMS_AND_COST,
    *REPOSITORY_AND_BUILDS,
)


WARNINGS = (
    Case(
        instance_checks.host_ami_reported,
        "triton-fleet:host-ami-refused",
        good=(
            given(ami=None, instance=_ml("g5.2xlarge"), release=release("25.09")),
            given(ami=None, instance=_ml("g5.12xlarge"), release=release("25.04")),
            given(ami=None, instance=_ml("c7i.2xlarge"), release=release("25.09")),
        ),
        bad=(given(ami=None, instance=_ml("g5.12xlarge"), release=release("25.09")),),
    ),
    Case(
        endpoint.sequences,
        "triton-fleet:sequences-spread",
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
        images.release_unlisted,
        "triton-fleet:release-unlisted",
        good=(given(release=release("25.09")),),
        bad=(given(release=release("26.10")),),
    ),
    Case(
        multi_model_checks.unload_stall,
        "triton-fleet:unload-stall",
        good=(given(release=release("25.09")),),
        bad=(given(release=release("25.12")),),
    ),
)
CASES: tuple[Case, ...] = (*REFUSALS, *WARNINGS)
