"""`fleet probe account` against the embedded AWS: the right verdict for true and for false beliefs."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from docs.generate.ledger import TRANSCRIPTS
from embedded_aws import EmbeddedAws
from tests.rehearsal.probed_account import Account, on_path
from tests.rehearsal.replays import account_disagreements
from triton_fleet.functions.code import deployment_build, endpoint_start
from triton_fleet.functions.code.warm_up import REFUSED_INPUT
from triton_models.builds.locked import torch_version
from triton_models.builds.tensorrt.machine import IMAGE_TRTEXEC
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.probe.account import costs, source_build
from triton_models.probe.account.endpoint import START
from triton_models.probe.account.probe import AccountProbe
from triton_models.probe.account.probes import PROBES
from triton_models.probe.transcript import Transcript, read_transcripts
from triton_rehearsal.assumptions import ASSUMPTIONS, holds
from triton_rehearsal.aws import open_aws
from triton_rehearsal.builds.environment import NOWHERE
from triton_rehearsal.builds.runner import BuildRunner
from triton_rehearsal.hosting.service import Hosting

DECIDED = [belief for probe in PROBES for belief in probe.decides]

# The beliefs that no run with true beliefs can decide: the account has a quota, and with one GPU there is no
# sum. The container of the rehearsal does not have its own /dev/shm.
UNDECIDED = {"start-build-without-quota", "gpu-metrics-sum"}
OF_THIS_MACHINE = {"shared-memory-64-mb"}

# If one of these is false, the probes cannot ask about the others. Each has its own test.
ALONE = {
    "alarms_read_with_execution_role",
    "ami_with_multi_model",
    "build_role_propagation",
    "endpoint_creating_not_deletable",
    "gpu_ami_on_cpu_refused",
    "gpu_image_without_gpu",
    "guardrails_with_multi_model",
    "list_bucket_by_prefix",
    "not_ready_answer",
    "registry_answers_any_account",
    "s3_source_permissions",
    "step_functions_rule_name",
    "unpacker_takes_stored_blocks",
}
BY_HAND = {"hung_instance_replaced", "rollback_of_undone_update", "routing_to_loaded", "undone_update_fails"}
OF_BUILDS = {
    "build_host_driver",
    "codebuild_image_python",
    "exit_message",
    "processing_host_driver",
    "processing_job_log",
    "pytorch_index",
    "result_names_log",
}
OF_THE_CPU_ENDPOINT = {
    "alarm_before_update_ends_it",
    "configuration_in_use_refused",
    "metric_publication_interval",
    "retained_instance_count",
    "scaling_blocked_in_updates",
}
OF_THE_ENDPOINT = {
    "bake_announcement",
    "endpoint_arn_lower_case",
    "endpoint_config_dimension",
    "endpoint_logs_after_rollback",
    "error_wording",
    "eviction_order",
    "executable_bits_kept",
    "log_agent_creates_group",
    "object_overwritten",
    "old_endpoint_deletion",
    "payload_limit",
    "refused_input_text",
    "session_not_pinned",
    "start_script_variables",
    "update_with_scaling_refused",
}
# The probes that need neither hosting nor builds.
ASKING = [
    *("images", "empty-prefix", "configurations", "writes", "narrow-role", "quotas", "prices"),
    *("alarm-topic", "state-machine", "failed-stack", "replaced", "custom-resource"),
]


@pytest.fixture(scope="module")
def aws() -> Iterator[EmbeddedAws]:
    with open_aws() as opened:
        yield opened


@pytest.fixture
def account(aws: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Account(aws, tmp_path)


@pytest.fixture
def hosted(aws: EmbeddedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    """An account in which endpoints serve, builds and jobs run, and CloudWatch gets the metrics of a GPU."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", on_path(tmp_path / "programs", ls=f"echo {IMAGE_TRTEXEC}", curl=INDEX))
    with Hosting(aws, lookup_s=0.0, load_wait_s=0.7) as hosting, BuildRunner(aws):
        account = Account(aws, tmp_path, runtime=hosting.url)
        account.start_minutes = 12.0
        account.meanwhile = lambda: report(account)
        yield account


def report(account: Account, *, metrics: tuple[str, ...] = ()) -> None:
    """Put AWS's metrics of instances into CloudWatch, and let alarms react to them."""
    report_gpus(account, metrics=metrics)
    cloudwatch = account.aws.client("cloudwatch")
    for alarm in cloudwatch.describe_alarms(AlarmNamePrefix="fleet-probe-")["MetricAlarms"]:
        if alarm.get("TreatMissingData") == "breaching":
            cloudwatch.set_alarm_state(
                AlarmName=alarm["AlarmName"], StateValue="ALARM", StateReason="no data"
            )
    seconds = 10 if holds("metric_publication_interval") else 60
    # Rounded, so that a later call puts its data points where the earlier ones are.
    last = datetime.fromtimestamp(time.time() // seconds * seconds, tz=timezone.utc)
    for endpoint in account.aws.client("sagemaker").list_endpoints(NameContains="-Cpu")["Endpoints"]:
        times = [last - timedelta(seconds=seconds * back) for back in range(6)]
        data = [{**datum(endpoint["EndpointName"], "CPUUtilization"), "Timestamp": each} for each in times]
        cloudwatch.put_metric_data(Namespace=OF_INSTANCES, MetricData=data)


def datum(endpoint: str, metric: str) -> dict[str, Any]:
    of = {"EndpointName": endpoint, "VariantName": "AllTraffic"}
    dimensions = [{"Name": name, "Value": value} for name, value in of.items()]
    return {"MetricName": metric, "Dimensions": dimensions, "Value": 40.0}


def report_gpus(account: Account, *, metrics: tuple[str, ...] = ()) -> None:
    """Put AWS's metrics of a GPU into CloudWatch, and let the alarms of scaling policies react to them."""
    cloudwatch = account.aws.client("cloudwatch")
    for target in account.aws.client("application-autoscaling").describe_scalable_targets(
        ServiceNamespace="sagemaker"
    )["ScalableTargets"]:
        alarm = f"TargetTracking-{target['ResourceId']}-AlarmHigh"
        cloudwatch.put_metric_alarm(AlarmName=alarm, **ALARM)
        cloudwatch.set_alarm_state(AlarmName=alarm, StateValue="OK", StateReason="the test says so")
    for endpoint in account.aws.client("sagemaker").list_endpoints()["Endpoints"]:
        data = [datum(endpoint["EndpointName"], name) for name in metrics or OF_A_GPU]
        cloudwatch.put_metric_data(Namespace=OF_INSTANCES, MetricData=data)


OF_INSTANCES = "/aws/sagemaker/Endpoints"
# PyTorch's index, for builds that can reach it.
INDEX = f"""\
if [ "$https_proxy" = {NOWHERE} ]; then
  echo 'curl: (7) Failed to connect' >&2
  exit 7
fi
echo '<a href="x">torch-{torch_version()}+cpu-cp312-cp312-linux_x86_64.whl</a>'
"""
OF_A_GPU = ("GPUUtilization", "GPUMemoryUtilization", "ConcurrentRequestsPerModel")
ALARM: dict[str, Any] = {
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": 1,
    "MetricName": "GPUUtilization",
    "Namespace": "/aws/sagemaker/Endpoints",
    "Period": 60,
    "Statistic": "Average",
    "Threshold": 60.0,
}


def beliefs(assumptions: set[str]) -> set[str]:
    return {each.replace("_", "-") for each in assumptions}


@pytest.mark.parametrize(
    ("chosen", "minutes", "usd"),
    [([probe for probe in PROBES if probe.cheap], 15, 2), (list(PROBES), 60, 10)],
)
def test_probes_take_and_cost_no_more_than_is_promised(
    chosen: list[AccountProbe], minutes: float, usd: float
) -> None:
    assert costs.minutes(chosen) < minutes
    assert (
        sum(costs.usd(probe, INSTANCE_TYPES["ml.g5.2xlarge"]) or 1e9 * bool(probe.pays) for probe in chosen)
        < usd
    )


@pytest.mark.story
def test_all_probes_find_what_is_believed_and_leave_nothing(hosted: Account) -> None:
    verdicts = hosted.verdicts(all=True)

    assert list(verdicts) == DECIDED
    others = {belief: outcome for belief, outcome in verdicts.items() if outcome != "true"}
    assert {each: others[each] for each in others.keys() - OF_THIS_MACHINE} == dict.fromkeys(
        UNDECIDED, "undecided"
    )
    assert (hosted.left(), hosted.journals()) == ([], [])
    text = (hosted.folder / "transcript.json").read_text()
    assert "123456789012" not in text
    assert "fleet-probe-" not in text
    rehearsed = Transcript.of(json.loads(text))
    assert rehearsed.place == "us-east-1"
    records = [record for _, record in read_transcripts(TRANSCRIPTS) if record.kind == "account"]
    assert [line for record in records for line in account_disagreements(record, rehearsed)] == []


@pytest.mark.story
def test_probes_without_an_endpoint_find_what_is_false(account: Account) -> None:
    false = set(ASSUMPTIONS) - ALONE - BY_HAND - OF_THE_ENDPOINT - OF_THE_CPU_ENDPOINT - OF_BUILDS
    with account.assume(**dict.fromkeys(false, False)):
        verdicts = account.verdicts(*ASKING)

    assert {each for each, outcome in verdicts.items() if outcome == "false"} == beliefs(false)
    assert account.left() == []


@pytest.mark.story
def test_probes_of_an_endpoint_find_what_is_false(hosted: Account) -> None:
    hosted.start_minutes = 30.0
    hosted.meanwhile = lambda: report(hosted, metrics=("Other",))
    asked = {probe.id for probe in PROBES if START in probe.needs} - {"scaling", "metrics"}
    with hosted.assume(**dict.fromkeys(OF_THE_ENDPOINT, False)):
        verdicts = hosted.verdicts(*asked)

    false = {each for each, outcome in verdicts.items() if outcome == "false"}
    assert false >= beliefs(OF_THE_ENDPOINT) - {"endpoint-config-dimension", "update-with-scaling-refused"}
    assert "start-takes-twelve-minutes" in false
    assert hosted.left() == []


@pytest.mark.story
def test_probes_of_updates_find_what_is_false(hosted: Account) -> None:
    with hosted.assume(**dict.fromkeys(OF_THE_CPU_ENDPOINT, False)):
        verdicts = hosted.verdicts("cpu-endpoint", "updates", "same-configuration", "undone")

    assert {each for each, outcome in verdicts.items() if outcome == "false"} == beliefs(OF_THE_CPU_ENDPOINT)
    assert hosted.left() == []


@pytest.mark.story
def test_probes_of_builds_find_what_is_false(hosted: Account) -> None:
    with hosted.assume(**dict.fromkeys(OF_BUILDS - {"exit_message"}, False)):
        verdicts = hosted.verdicts("source-build", "build-host", "processing-host")

    false = {each for each, outcome in verdicts.items() if outcome == "false"}
    assert false == beliefs(OF_BUILDS - {"exit_message"})
    assert hosted.left() == []


@pytest.mark.story
@pytest.mark.parametrize(
    ("assumption", "expected"),
    [
        ("ami_with_multi_model", {"ami-with-multi-model": "false", "list-bucket-by-prefix": "undecided"}),
        ("list_bucket_by_prefix", {"ami-with-multi-model": "true", "list-bucket-by-prefix": "false"}),
        (
            "unpacker_takes_stored_blocks",
            {"unpacker-takes-stored-blocks": "false", "ami-driver": "undecided"},
        ),
        ("not_ready_answer", {"not-ready-answer": "false"}),
        ("gpu_ami_on_cpu_refused", {"gpu-ami-on-cpu-refused": "false", "ami-fits-instance-family": "true"}),
        ("exit_message", {"exit-message": "false", "processing-host-driver": "undecided"}),
        (
            "alarms_read_with_execution_role",
            {"alarms-read-with-execution-role": "false", "retained-instance-count": "true"},
        ),
        ("registry_answers_any_account", {"cpu-images-exist": "undecided"}),
        ("s3_source_permissions", {"s3-source-permissions": "false", "pytorch-index": "undecided"}),
        (
            "gpu_image_without_gpu",
            {"gpu-image-without-gpu": "false", "metric-publication-interval": "undecided"},
        ),
        (
            "endpoint_creating_not_deletable",
            {"endpoint-creating-not-deletable": "false", "alarm-before-update-ends-it": "undecided"},
        ),
        (
            "guardrails_with_multi_model",
            {"guardrails-with-multi-model": "false", "bake-announcement": "undecided"},
        ),
    ],
)
def test_a_false_belief_that_ends_a_probe_is_found(
    hosted: Account, assumption: str, expected: dict[str, str]
) -> None:
    with hosted.assume(**{assumption: False}):
        verdicts = hosted.verdicts(assumption.replace("_", "-"))

    assert {belief: verdicts[belief] for belief in expected} == expected
    assert hosted.left() == []


@pytest.mark.story
@pytest.mark.parametrize("assumption", ["step_functions_rule_name", "build_role_propagation"])
def test_a_permission_that_never_comes_is_found_when_the_time_is_up(assumption: str, hosted: Account) -> None:
    pauses = itertools.count()

    def pass_for_a_while() -> None:
        hosted.minutes_a_pause = 0.5 if next(pauses) < 24 else 0.0

    hosted.meanwhile = pass_for_a_while
    with hosted.assume(**{assumption: False}):
        (belief,) = beliefs({assumption})
        verdicts = hosted.verdicts(belief)

    assert verdicts[belief] == "false"
    assert hosted.left() == []


def test_the_grace_that_is_measured_is_that_of_the_functions() -> None:
    assert {each.REFUSED_S for each in (deployment_build, endpoint_start)} == {source_build.GRACE_S}


@pytest.mark.story
def test_what_the_probe_takes_for_a_refusal_the_warm_up_does_too(hosted: Account) -> None:
    hosted.verdicts("refused-input-text")

    observed = json.loads((hosted.folder / "transcript.json").read_text())["observations"]
    (said,) = (
        each["answered"]["original_message"] for each in observed if each["id"] == "refused-input-text"
    )
    assert [REFUSED_INPUT.match(each) is not None for each in said] == [True, False]
