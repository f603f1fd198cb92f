"""Each rule accepts what the services accept and refuses what they refuse, up to the edge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pytest
from aws_cdk import CfnParameter, Duration, Size, Stack
from aws_cdk import aws_ecr as ecr

from triton_fleet import ConcurrentRequests, CpuUtilization, ScalingTarget
from triton_fleet.builds import inputs as builds
from triton_fleet.endpoint import instance_checks as instances
from triton_fleet.endpoint import multi_model, shared, single_model
from triton_fleet.endpoint.functions import artifact_ready, deployment_build
from triton_fleet.endpoint.hosting import deployment, variants
from triton_fleet.fleet import github_role as delivery
from triton_fleet.operations import budget, dashboard, notifications, thresholds, warm_up
from triton_fleet.operations.scaling import endpoint_scaling, schedules, target, tracking
from triton_fleet.parts import serving as images
from triton_fleet.parts.arguments import checks as arguments
from triton_fleet.parts.images.image import CustomImage
from triton_fleet.parts.repository import model_repository as repository
from triton_fleet.parts.repository.endpoint_fit import PlanTarget, endpoint_fits, plan_portability, same_gpu
from triton_models.base.checks import Report
from triton_models.facts.instances import InstanceType, gpu, instance_type
from triton_models.facts.releases import Release, release


def scaling_target(report: Report, given: ScalingTarget) -> None:
    given._check_amount(report)


class Named(dict[str, object]):
    """Arguments by name."""


def given(**arguments: object) -> Named:
    return Named(arguments)


Row: TypeAlias = object
"""The arguments of a check by name, or its first argument alone."""


@dataclass(frozen=True)
class Rule:
    """A check by example."""

    id: str
    check: Callable[..., None]
    accepts: Sequence[Row]
    refuses: Sequence[Row]
    common: Mapping[str, object]

    def found(self, row: Row) -> list[tuple[str, str]]:
        """Return rule and place of each problem with these arguments."""
        report = Report("here")
        if isinstance(row, Named):
            self.check(report, **row, **self.common)
        else:
            self.check(report, row, **self.common)
        return [(problem.rule, problem.where) for problem in report.problems]


def rule(
    id: str,  # noqa: A002 -- as the problem has it
    check: Callable[..., None],
    accepts: Sequence[Row],
    refuses: Sequence[Row],
    **common: object,
) -> Rule:
    return Rule(id, check, accepts, refuses, common)


def ml(name: str) -> InstanceType:
    return instance_type(f"ml.{name}")


def built(name: str, gpu_name: str | None, *plans: str, **more: Any) -> PlanTarget:
    """Return the target of a build job or an endpoint; a build job for a GPU has plans by default."""
    found = None if gpu_name is None else gpu(gpu_name)
    return PlanTarget(
        gpu=found, release=release(name), path="Fleet/Somewhere", plans=plans or ("this-gpu",), **more
    )


def planless(name: str, gpu_name: str | None, **more: Any) -> PlanTarget:
    return replace(built(name, gpu_name, **more), plans=())


def on_a_v100(report: Report, found: Release) -> None:
    images.Serving()._fits(report, report, ml("p3.2xlarge"), found)


def own_image(report: Report, **version: str | None) -> None:
    image = CustomImage(repository=REGISTRY, has_multi_model_label=True, **version)  # type: ignore[arg-type]
    image._check(report, region=None, multi_model=True)


ROLE, SECRET = "arn:aws:iam::123456789012:role", "arn:aws-cn:secretsmanager:cn-north-1:123456789012:secret"
TOPIC, KEY = "arn:aws-cn:sns:cn-north-1:123456789012", "arn:aws-cn:kms:cn-north-1:123456789012"
PROVIDER = "oidc-provider/token.actions.githubusercontent.com"
DIGEST = "sha256:" + 64 * "0"
AMI_12, AMI_13 = "al2-ami-sagemaker-inference-gpu-3-1", "al2023-ami-sagemaker-inference-gpu-4-1"
AMI_NEWER = "al2023-ami-sagemaker-inference-gpu-5-1"
PAST_PROXY = {"NO_PROXY": "169.254.169.254, 169.254.170.2,.amazonaws.com"}
REGISTRY = ecr.Repository.from_repository_name(Stack(), "Images", "triton")
LATER = CfnParameter(Stack(), "Later", type="Number").value_as_number
A10G, L4, T4 = built("25.09", "A10G"), built("25.09", "L4"), built("25.09", "T4")

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

# A rule reads as a row: id, check, what it accepts, what it refuses, and what all of these have in common.
# fmt: off
RULES = (
    # names, identifiers and requests
    rule("role-arn", arguments.role_arn, ["arn:aws-cn:iam::123456789012:role/path/to/deploy", None],
         ["deploy", "arn:aws:iam::123456789012:user/ann", "arn:aws:iam::123:role/deploy", f"{ROLE}/*"]),
    rule("secret-arn", arguments.secret_arn, [f"{SECRET}:hub/token-a1B2c3", f"{SECRET}:t-a1B2c3", None],
         ["hub/token", "hf_abcdefghijklmnop", f"{SECRET}:hub/token", f"{SECRET}:hub-*"]),
    rule("key-arn", arguments.key_arn,
         [given(arn=None, region="cn-north-1"), given(arn=f"{KEY}:key/mrk-1", region=None)],
         [given(arn="1234-abcd", region=None), given(arn=f"{KEY}:alias/models", region=None),
          given(arn=f"{KEY}:key/1234-abcd", region="us-east-1")]),
    rule("topic-arn", arguments.topic_arn,
         [given(arn=f"{TOPIC}:alarms", region=None),
          given(arn=f"{TOPIC}:on_call-1.fifo", region="cn-north-1")],
         [given(arn="alarms", region=None), given(arn=f"{TOPIC}:alarms", region="eu-central-1")]),
    rule("resource-name", variants.resource_name, [63 * "a", "search-g5"],
         ["", 64 * "a", "-".join(33 * "a"), "a_b", "a-"], what="the endpoint"),
    rule("policy-name", target.policy_name, ["Q", 100 * "q", "Queue.Depth_2-a"], ["", 101 * "q", "-Queue"]),
    rule("statistic-name", tracking.statistic_name, STATISTICS, NO_STATISTICS),
    rule("account-id", arguments.account_id, ["123456789012", None], ["12345678901", "production"]),
    rule("email-address", notifications.email_address, ["oncall@example.com", None],
         ["oncall", "on call@example.com"]),
    rule("repository-prefix", repository._check_prefix,
         ["models/", "model.tar.gz/models/", 512 * "m", None],
         ["", "/", "search//models/", "models/*/", 513 * "m", "models/model.tar.gz", "/Model.TGZ/"]),
    rule("existing-bucket", repository.bucket_name, ["my.models-1", 63 * "m", None],
         ["s3://models/", "Models", "a", 64 * "m", "a..b"]),
    rule("single-model-artifact", single_model.single_model_artifact, ["resnet50-0123456789ab.tar.gz", None],
         ["models/a.tar.gz", "a.zip", "*.tar.gz", "a b.tar.gz", ".tar.gz"]),
    rule("warm-up-requests", warm_up.warm_up_models, [["minilm", "resnet50", None, None]],
         [[], ["minilm", "minilm"]]),
    # a role for GitHub trusts one repository, and one environment of it
    rule("github-repository", delivery.github_repository,
         [None, f"{39 * 'o'}/{100 * 'n'}", "octo-org/.github", "octo_company/my_models.v2"],
         ["search", "octo-org/*", "octo-org/..", f"{40 * 'o'}/a", f"o/{101 * 'n'}",
          "https://github.com/octo-org/search"]),
    rule("github-ids", delivery.github_ids,
         [given(owner=None, repository=None), given(owner="583231", repository="1296269")],
         [given(owner="583231", repository=None), given(owner="583231", repository="0"),
          given(owner="octo-org", repository="1")]),
    rule("github-environment", delivery.github_environment, [None, "eu west/1", 255 * "e"],
         ["", "*", "prod?", "production:v1", "production ", 256 * "e"]),
    rule("github-provider", delivery.github_provider, [None, f"arn:aws-cn:iam::123456789012:{PROVIDER}"],
         ["token.actions.githubusercontent.com", "arn:aws:iam::123456789012:oidc-provider/gitlab.com"]),
    # numbers
    rule("whole-time", arguments.whole_quantity, [Duration.minutes(2)],
         [Duration.seconds(90), Duration.seconds(LATER)], name="timeout", unit="minutes"),
    rule("whole-size", arguments.whole_quantity, [Size.mebibytes(1), Size.bytes(LATER)],
         [Size.bytes(1.5), Size.mebibytes(LATER)], name="shared_memory", unit="bytes"),
    rule("number-range", arguments.quantity_range, [None, Size.gibibytes(512)],
         [Size.gibibytes(513)], least=1, most=512, name="volume_size", unit="gibibytes"),
    rule("whole-size", arguments.quantity_range, [Size.mebibytes(1024)],
         [Size.gibibytes(0.5)], least=1, most=512, name="volume_size", unit="gibibytes"),
    rule("number-range", arguments.quantity_range, [Duration.seconds(60), Duration.seconds(LATER)],
         [Duration.seconds(59)], least=60, most=3600, name="timeout"),
    rule("number-range", arguments.number_range, [1, 10, None], [0, 11], least=1, most=10, name="instances"),
    rule("number-range", arguments.number_range, [1], [0], least=1, most=None, name="instances"),
    rule("alarm-threshold", thresholds.alarm_threshold, [0, 99.9, None],
         [100, -1], lowest=0, below=100, unit="%"),
    rule("alarm-threshold", thresholds.alarm_threshold, [1], [0], lowest=1, below=None, unit="ms"),
    rule("hourly-price", dashboard.hourly_price, [0.001, None], [0]),
    rule("monthly-limit", budget.monthly_limit, [0.5, None], [0]),
    rule("warm-up-interval", warm_up.warm_up_interval, [Duration.seconds(1), Duration.minutes(5)],
         [Duration.seconds(LATER), Duration.millis(900), Duration.seconds(301)]),
    rule("metric-interval", shared.metric_interval,
         [Duration.seconds(10), Duration.minutes(1), Duration.minutes(LATER), None],
         [Duration.seconds(45), Duration.minutes(2)]),
    rule("artifact-timeout", artifact_ready.artifact_timeout, [Duration.minutes(1), Duration.hours(1)],
         [Duration.seconds(LATER), Duration.seconds(59), Duration.seconds(3601)]),
    # hardware and images
    rule("host-ami", instances.host_ami,
         [given(ami=None, instance=ml("g7.2xlarge"), release=release("25.09")),
          given(ami=AMI_12, instance=ml("g5.2xlarge"), release=release("25.04")),
          given(ami=AMI_NEWER, instance=ml("g7.2xlarge"), release=release("25.09"))],
         [given(ami="gpu-4-1", instance=ml("g5.2xlarge"), release=release("25.09")),
          given(ami=AMI_13, instance=ml("c7i.xlarge"), release=release("25.09")),
          given(ami=AMI_12, instance=ml("g5.2xlarge"), release=release("25.09")),
          given(ami=AMI_13, instance=ml("g7.2xlarge"), release=release("25.09"))]),
    rule("triton-fleet:host-ami-refused", instances.host_ami_reported,
         [given(instance=ml("g5.2xlarge"), release=release("25.09")),
          given(instance=ml("g5.12xlarge"), release=release("25.04"))],
         [given(instance=ml("g5.12xlarge"), release=release("25.09"))], ami=None),
    rule("gpu-generation-supported", on_a_v100, [release("24.09")], [release("25.04")]),
    rule("release-not-in-region", images.image_region, [given(release=release("25.04"))],
         [given(release=release("25.09"))], region="cn-north-1"),
    rule("release-not-in-region", images.image_region, [given(region="eu-west-1"), given(region=None)],
         [given(region="eu-west-9")], release=release("25.09")),
    rule("release-not-on-sagemaker", images.image_region, [release("25.09")], [release("24.12")],
         region=None),
    rule("triton-fleet:unload-stall", multi_model.unload_stall, [release("25.09")], [release("25.12")]),
    rule("triton-fleet:release-unlisted", images.release_unlisted, [release("25.09")], [release("26.10")]),
    rule("own-image-version", own_image,
         [given(tag=128 * "a", digest=None), given(tag=None, digest=DIGEST)],
         [given(tag=None, digest=None), given(tag="v1", digest=DIGEST), given(tag=129 * "a", digest=None),
          given(tag="repo:v7", digest=None), given(tag=None, digest="sha256:0123456789ab"),
          given(tag=None, digest=f"{DIGEST}00")]),
    rule("instance-pools", instances.instance_pools, [[f"ml.c7i.{size}xlarge" for size in (2, 4, 8, 12, 16)]],
         [[f"ml.c7i.{size}xlarge" for size in (2, 4, 8, 12, 16, 24)],
          ["ml.g5.xlarge", "ml.g5.2xlarge", "ml.g5.xlarge"]]),
    rule("instance-pools", same_gpu, [given(preferred=ml("g5.2xlarge"), other=ml("g5.48xlarge"))],
         [given(preferred=ml("g6.2xlarge"), other=ml("g6e.2xlarge"))]),
    rule("container-environment", shared.container_environment,
         [given(server={"LOG": "1"}, extra={"BEAMS": 1024 * "4", "TOKEN": None}),
          given(server={}, extra={f"T_{n:02}": 1020 * "1" for n in range(32)})],
         [given(server={"LOG": "1"}, extra={"LOG": "0"}),
          given(server={"L": ""}, extra={f"T_{n:02}": 1020 * "1" for n in range(32)}),
          given(server={}, extra={f"T_{n:02}": 1024 * "1" for n in range(32)})]),
    rule("multi-model-argument", multi_model.multi_model_arguments, [["--pinned-memory-pool-byte-size=0"]],
         [["--model-load-gpu-limit=0:0.8"], ["--cache-config=local,size=1048576"],
          ["--response-cache-byte-size=1048576"]]),
    # variants, their deployment and scaling
    rule("variant-set", single_model.variant_set,
         [given(names=["AllTraffic"], weights=[None], has_shadow=False),
          given(names=["AllTraffic", "Candidate"], weights=[1], has_shadow=True),
          given(names=[f"V{n}" for n in range(10)], weights=[0] * 9 + [0.1], has_shadow=False)],
         [given(names=[], weights=[], has_shadow=False),
          given(names=["A", "A"], weights=[1, 1], has_shadow=False),
          given(names=["A", "B"], weights=[0, 0], has_shadow=False),
          given(names=["A", "B", "Shadow"], weights=[1, 1], has_shadow=True)]),
    rule("rollback-alarms", deployment.rollback_alarm_problems,
         [given(names=[f"alarm-{n}" for n in range(10)], has_deployment=True),
          given(names=[], has_deployment=False)],
         [given(names=["a", "a"], has_deployment=True), given(names=["a", "b"], has_deployment=False)]),
    rule("capacity-range", schedules.capacity,
         [given(minimum=1, maximum=1), given(minimum=3, maximum=None), given(minimum=None, maximum=0)],
         [given(minimum=0, maximum=4), given(minimum=5, maximum=4)]),
    rule("capacity-range", schedules.capacity, [0], [-1], maximum=4, has_queue=True),
    rule("scaling-target-reachable", scaling_target,
         [CpuUtilization(percent=99), CpuUtilization(percent=1), ConcurrentRequests(per_model=0.1)],
         [CpuUtilization(percent=101), CpuUtilization(percent=100), CpuUtilization(percent=0),
          CpuUtilization(percent=0.6), ConcurrentRequests(per_model=0), ConcurrentRequests(per_model=-1)]),
    rule("one-target-per-metric", endpoint_scaling.scaling_names, [["Invocations", "GpuUtilization"], []],
         [["Invocations", "GpuUtilization", "Invocations"], ["Target"], ["FromZero"]]),
    # builds: where they run, and what they read
    rule("build-environment", builds.check_environment,
         [{"PIP_INDEX_URL": "https://index.example.com/simple"},
          {"HTTPS_PROXY": "http://proxy.example.com:3128", **PAST_PROXY}],
         [{"FLEET_MODELS": "a"}, {"PIP_USER": "0"}, {"A-B": "c"}, {"T5_WEIGHTS": "s3://bucket/t5.pt"},
          {"NOTE": "x" * 257}, {"PIP_INDEX_URL": "https://ann:secret@index.example.com/"},
          {"PIP_INDEX_URL": "https://index.example.com:simple"},
          {"HTTPS_PROXY": "http://proxy.example.com:3128"},
          {"https_proxy": "http://proxy.example.com", **PAST_PROXY}], weights=("T5_WEIGHTS",)),
    rule("build-weights", builds.build_weights,
         [given(weights={"T5_WEIGHTS": f"hf://google-t5/t5-small@{40 * 'a'}"}, read={"T5_WEIGHTS"})],
         [given(weights={"T5_WEIGHT": "s3://weights/t5"}, read={"T5_WEIGHTS"}),
          given(weights={"HF_HOME": "s3://weights/t5"}, read={"HF_HOME"})]),
    rule("build-weights", builds.build_weights, [{"T5_WEIGHTS": "s3://weights/" + 243 * "k"}],
         [{"t5_weights": "s3://weights/t5"}, {"FLEET_GPU": "s3://weights/t5"}, {"T5_WEIGHTS": ""},
          {"T5_WEIGHTS": "s3://weights"}, {"T5_WEIGHTS": "s3://weights/" + 244 * "k"},
          {"T5_WEIGHTS": "s3://weights/t5*"}, {"T5_WEIGHTS": "/home/me/t5"},
          {"T5_WEIGHTS": "hf://google-t5/t5-small@main"}], read=None),
    rule("build-weights", builds.weights_uploaded, [given(elsewhere=())],
         [given(elsewhere=("/data/t5.pt",))]),
    rule("build-weights", builds.weights_prefixes, [("s3://data/", "s3://data/checkpoints/")],
         [("s3://data/checkpoints",), ("s3://data/*/",)]),
    rule("build-weights", builds.weights_unreadable,
         [given(objects=("s3://data/t5.pt",), weights=("s3://data/t5.pt",), prefixes=()),
          given(objects=("s3://data/t5/",), weights=(), prefixes=("s3://data/",))],
         [given(objects=("s3://data/t5/net.pt",), weights=(), prefixes=("s3://data/bert/",))]),
    rule("deployed-model", deployment_build.deployed_model,
         [given(model="minilm:int8", models=None), given(model="minilm", models=["minilm"])],
         [given(model="minilm:int8", models=["minilm"]), given(model="t5", models=None)],
         declared=["minilm"]),
    # an artifact loads on the endpoint
    rule("plan-fits-endpoint", plan_portability,
         [given(build=built("23.12", "A10G"), endpoint=built("24.01", "A10G")),
          given(build=built("25.04", None), endpoint=L4),
          given(build=built("25.09", "L4", "same-compute-capability"), endpoint=built("25.09", "L40S")),
          given(build=built("25.09", "A10G", "ampere+"), endpoint=L4),
          given(build=planless("25.04", "A10G"), endpoint=T4),
          given(build=planless("25.09", "A10G", environments=True), endpoint=built("25.09", None)),
          given(build=planless("25.04", "A10G", pipelines=True, any_gpu=True), endpoint=T4),
          given(build=planless("26.04", "A10G", pipelines=True), endpoint=built("26.05", None))],
         [given(build=built("25.09", "A10G", "same-compute-capability"), endpoint=L4),
          given(build=built("25.09", "A10G", "ampere+"), endpoint=T4),
          given(build=built("25.09", "A10G", "ampere+", "this-gpu"), endpoint=L4),
          given(build=built("25.04", "A10G", "ampere+"), endpoint=L4),
          given(build=L4, endpoint=built("25.09", "L40S")),
          given(build=built("25.04", "A10G"), endpoint=A10G),
          given(build=planless("24.09", "A10G"), endpoint=A10G),
          given(build=planless("25.04", "A10G", environments=True), endpoint=A10G),
          given(build=A10G, endpoint=built("25.09", None)),
          given(build=planless("25.09", "A10G", any_gpu=True), endpoint=built("25.09", None)),
          given(build=built("26.05", "A10G", pipelines=True), endpoint=built("26.04", "A10G")),
          given(build=planless("25.09", "A10G", pipelines=True), endpoint=built("25.04", "A10G"))]),
    rule("tensorrt-plugins", plan_portability, [given(build=replace(A10G, plugins=("/a.so",)))],
         [given(build=replace(A10G, plugins=("/a.so", "/b.so")))],
         endpoint=replace(A10G, plugins=("/a.so",))),
    rule("forests-fit-release", plan_portability,
         [given(build=planless("25.09", "A10G", forests=True), endpoint=built("26.06", "A10G")),
          given(build=planless("25.04", "A10G", forests=True), endpoint=A10G),
          given(build=planless("25.09", "A10G", forests=True), endpoint=built("25.04", None)),
          given(build=planless("25.09", "A10G"), endpoint=built("25.04", "A10G"))],
         [given(build=planless("25.09", None, forests=True), endpoint=built("25.04", "A10G"))]),
    rule("fits-pool", plan_portability,
         [given(endpoint=replace(A10G, pool=1025)), given(endpoint=replace(A10G, pool=None))],
         [given(endpoint=replace(A10G, pool=1024))], build=planless("25.09", "A10G", pool=1025)),
    rule("auto-complete", plan_portability,
         [given(build=planless("25.09", "A10G", completed=True), endpoint=A10G),
          given(build=planless("25.09", "A10G"), endpoint=replace(A10G, strict=True))],
         [given(build=planless("25.09", "A10G", completed=True), endpoint=replace(A10G, strict=True))]),
    rule("plan-auto-complete", plan_portability,
         [given(build=A10G, endpoint=A10G),
          given(build=planless("25.09", "A10G"), endpoint=replace(A10G, completes=True))],
         [given(build=A10G, endpoint=replace(A10G, completes=True))]),
    rule("plan-fits-endpoint", endpoint_fits,
         [given(models={}, endpoint=[L4]), given(models={"m": [A10G, L4]}, endpoint=[L4]),
          given(models={"m": [built("25.09", "A10G", "ampere+")]}, endpoint=[A10G, L4]),
          given(models={"m": [L4], "n": [planless("25.09", "A10G")]}, endpoint=[L4])],
         [given(models={"m": [A10G, built("25.04", "L4")]}, endpoint=[L4]),
          given(models={"m": [A10G, L4]}, endpoint=[A10G, L4]),
          given(models={"m": [L4], "n": [A10G]}, endpoint=[L4])]),
)
# fmt: on


@pytest.mark.parametrize("each", RULES, ids=lambda each: each.id)
def test_a_rule_accepts_what_is_right_and_refuses_what_is_wrong(each: Rule) -> None:
    assert [row for row in each.accepts if each.found(row)] == []
    assert [row for row in each.refuses if each.found(row) != [(each.id, "here")]] == []


def test_what_may_be_the_secret_itself_is_not_shown() -> None:
    report = Report("here")
    arguments.secret_arn(report, "hf_abc")

    assert "hf_abc" not in str(report.problems[0])
