"""A promotion that is watched: all names go back when an alarm fires, and otherwise stay."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3.session
import pytest
from botocore.config import Config

from aws_for_tests.fixture import aws_fixture
from embedded_aws import EmbeddedAws
from tests.reported import reported
from tests.triton_models.faulty_s3 import Fault, FaultyS3, Request
from tests.triton_models.own_clock import OwnClock
from tests.triton_models.publishing_aws import artifact, consistent_manifest, new_repository, objects
from triton_models.artifact.pack.pack import Artifact
from triton_models.cli.main import main
from triton_models.repository.promote import Promoted, promote
from triton_models.repository.publish import publish
from triton_models.repository.rollback import rollback_run
from triton_models.repository.watch import Watch

ALARMS = ["errors", "slow", "any"]
MINUTE = 60.0

aws = aws_fixture(scope="module")


class Clock(OwnClock):
    """Does something at the end of a wait, by its number from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.at: dict[int, Callable[[], object]] = {}

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        self.at.get(len(self.waited), lambda: None)()


@dataclass
class Stages:
    """Staging with newer artifacts of two models and a new one, production with the older ones; alarms."""

    aws: EmbeddedAws
    made: dict[str, Artifact]
    staging: str = ""
    production: str = ""
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.s3, self.cloudwatch = self.aws.client("s3"), self.aws.client("cloudwatch")
        self.staging, self.production = new_repository(self.s3), new_repository(self.s3)
        self.publish("a1", "b1", by="earlier")
        publish(
            [self.made[each] for each in ("a2", "b2", "new")], repository=self.staging, s3=self.s3, by="ann"
        )
        for name in ALARMS[:2]:
            self.cloudwatch.put_metric_alarm(
                AlarmName=name,
                ComparisonOperator="GreaterThanThreshold",
                EvaluationPeriods=1,
                MetricName="Invocation5XXErrors",
                Namespace="AWS/SageMaker",
                Period=60,
                Statistic="Average",
                Threshold=0.1,
                TreatMissingData="ignore",
            )
        self.cloudwatch.put_composite_alarm(AlarmName=ALARMS[2], AlarmRule='ALARM("slow")')
        self.set("OK")

    def set(self, state: str, *alarms: str, reason: str = "a test") -> None:
        for name in alarms or ALARMS[:2]:
            self.cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason=reason)

    def publish(self, *names: str, by: str) -> None:
        publish([self.made[each] for each in names], repository=self.production, s3=self.s3, by=by)

    def watch(self, *alarms: str, cloudwatch: Any = None, seconds: float = MINUTE) -> Watch:
        return Watch(
            alarms=list(alarms or ALARMS),
            seconds=seconds,
            cloudwatch=cloudwatch or self.cloudwatch,
            clock=self.clock,
        )

    def promote(self, *models: str, s3: Any = None, watch: Watch | None = None, **more: Any) -> Promoted:
        return promote(
            list(models) or None,
            source=self.staging,
            repository=self.production,
            source_s3=self.s3,
            s3=s3 or self.s3,
            by="ann",
            watch=watch or self.watch(),
            **more,
        )

    def current(self) -> dict[str, str]:
        """Return the version of each model, such as {"a": "a1"}."""
        versions = {each.name: version for version, each in self.made.items()}
        manifest = consistent_manifest(self.production, self.s3)
        return {name: versions[manifest.target_model(name)] for name in manifest.models}


OLD = {"a": "a1", "b": "b1"}
PROMOTED = {"a": "a2", "b": "b2", "new": "new"}
BACK = {**OLD, "new": "new"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    folder = tmp_path_factory.mktemp("artifacts")
    names = {"a1": "a", "a2": "a", "a3": "a", "b1": "b", "b2": "b", "new": "new"}
    return {version: artifact(folder, name=name, weights=version.encode()) for version, name in names.items()}


@pytest.fixture
def stages(aws: EmbeddedAws, made: dict[str, Artifact]) -> Stages:
    return Stages(aws, made)


def through(aws: EmbeddedAws, url: str, service: str, *, attempts: int = 1) -> Any:
    """Return a client that reaches the AWS through a proxy."""
    exports = aws.exports()
    return boto3.session.Session().client(
        service,
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id=exports["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=exports["AWS_SECRET_ACCESS_KEY"],
        config=Config(retries={"mode": "standard", "total_max_attempts": attempts}),
    )


@pytest.fixture
def proxy(aws: EmbeddedAws) -> Iterator[FaultyS3]:
    with FaultyS3(aws.url) as proxy:
        yield proxy


def test_without_an_alarm_the_names_stay_and_the_alarms_were_read_every_15_seconds(stages: Stages) -> None:
    stages.set("INSUFFICIENT_DATA", "errors")

    done = stages.promote(watch=stages.watch(seconds=50))

    assert stages.current() == PROMOTED
    assert stages.clock.waited == [15, 15, 15, 5]
    assert list(done.lines())[-1] == "No alarm fired for 50 s."


@pytest.mark.parametrize(("fires", "named"), [("errors", ["errors"]), ("slow", ["slow", "any"])])
def test_an_alarm_that_fires_takes_all_names_back_in_one_write(
    aws: EmbeddedAws, stages: Stages, proxy: FaultyS3, fires: str, named: list[str]
) -> None:
    proxy.expect()
    stages.clock.at[2] = lambda: stages.set("ALARM", fires, reason="5 % failed")

    with reported(*["alarm"] * len(named)) as problems:
        stages.promote(s3=through(aws, proxy.url, "s3"))

    assert stages.current() == BACK
    assert proxy.requests.count("PUT manifest.json") == 2
    assert stages.clock.waited == [15, 15]
    assert problems[0].what == f"the alarm {fires!r} is in ALARM: 5 % failed"
    assert [each.what.split("'")[1] for each in problems] == named
    assert "a, b went back in one write; new stay" in problems[0].why


def test_a_composite_alarm_alone_takes_the_names_back(stages: Stages) -> None:
    stages.clock.at[1] = lambda: stages.set("ALARM", "slow")

    with reported("alarm") as problems:
        stages.promote(watch=stages.watch("any"))

    assert stages.current() == BACK
    assert "'any'" in problems[0].what


def test_an_alarm_at_the_last_reading_counts(stages: Stages) -> None:
    stages.clock.at[4] = lambda: stages.set("ALARM", "errors")

    with reported("alarm"):
        stages.promote()

    assert stages.current() == BACK


@pytest.mark.parametrize(("fires", "rules"), [("errors", ["alarm"]), ("slow", ["alarm", "alarm"])])
def test_an_alarm_that_fires_before_refuses_the_promotion(
    stages: Stages, fires: str, rules: list[str]
) -> None:
    stages.set("ALARM", fires)
    before = objects(stages.production, stages.s3)

    with reported(*rules) as problems:
        stages.promote()

    assert {each.why for each in problems} == {"nothing was promoted"}
    assert stages.current() == OLD
    assert objects(stages.production, stages.s3) == before


def test_an_alarm_that_fires_during_the_copies_refuses_the_promotion(
    aws: EmbeddedAws, stages: Stages, proxy: FaultyS3
) -> None:
    def fire(request: Request) -> None:
        if request.what.startswith("PUT a-"):
            stages.set("ALARM", "errors")

    proxy.expect(before=fire)
    with reported("alarm"):
        stages.promote(s3=through(aws, proxy.url, "s3"))

    assert stages.current() == OLD


def test_unknown_alarms_refuse_the_promotion(stages: Stages) -> None:
    with reported("watch") as problems:
        stages.promote(watch=stages.watch("errors", "missing", "absent"))

    assert problems[0].what == "unknown alarms: missing, absent"
    assert stages.current() == OLD


def test_alarms_that_cannot_be_read_before_refuse_the_promotion(
    aws: EmbeddedAws, stages: Stages, proxy: FaultyS3
) -> None:
    proxy.expect({1: "lost"})

    with reported("watch"):
        stages.promote(watch=stages.watch(cloudwatch=through(aws, proxy.url, "cloudwatch")))

    assert stages.current() == OLD


def test_alarms_that_cannot_be_read_for_a_while_are_watched_on(
    aws: EmbeddedAws, stages: Stages, proxy: FaultyS3
) -> None:
    cloudwatch = through(aws, proxy.url, "cloudwatch")
    proxy.expect({3: "lost", 4: "slow down", 5: "half"})  # the first two are those before
    stages.promote(watch=stages.watch(cloudwatch=cloudwatch))
    assert stages.current() == PROMOTED

    stages.publish("a1", "b1", by="earlier")
    proxy.expect({3: "lost"})
    stages.clock.at[len(stages.clock.waited) + 1] = lambda: stages.set("ALARM", "errors")
    with reported("alarm"):
        stages.promote(watch=stages.watch(cloudwatch=cloudwatch))
    assert stages.current() == BACK


def test_alarms_that_cannot_be_read_at_the_end_are_an_error_and_the_names_stay(
    aws: EmbeddedAws, stages: Stages, proxy: FaultyS3
) -> None:
    proxy.expect(dict.fromkeys(range(5, 20), "lost"))

    with reported("watch", "watch") as problems:
        stages.promote(watch=stages.watch(cloudwatch=through(aws, proxy.url, "cloudwatch")))

    assert stages.current() == PROMOTED
    assert problems[0].why == "the names stay as they are"
    _take_back(problems[0].fix, stages)


def test_an_alarm_that_is_deleted_meanwhile_is_as_one_that_cannot_be_read(stages: Stages) -> None:
    stages.clock.at[2] = lambda: stages.cloudwatch.delete_alarms(AlarmNames=["errors"])

    with reported("watch", "watch") as problems:
        stages.promote()

    assert problems[1].what == "unknown alarms: errors"
    assert stages.current() == PROMOTED


def _take_back(fix: str, stages: Stages) -> None:
    """Run the command that an error names."""
    run = fix.split("--run ")[1].split(maxsplit=1)[0]
    rollback_run(run, repository=stages.production, s3=stages.s3)
    assert stages.current() == BACK


def test_an_interrupt_says_that_the_names_stay_and_how_they_go_back(
    stages: Stages, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    stages.clock.at[2] = interrupt
    with pytest.raises(KeyboardInterrupt):
        stages.promote()

    error = capsys.readouterr().err
    assert "the watch was interrupted" in error
    assert "the names stay as they are" in error
    assert stages.current() == PROMOTED
    _take_back(error, stages)


def test_names_that_others_have_moved_meanwhile_stay_and_the_rest_goes_back(stages: Stages) -> None:
    def meanwhile() -> None:
        stages.publish("a3", by="emil")
        stages.set("ALARM", "errors")

    stages.clock.at[1] = meanwhile
    with reported("alarm") as problems:
        stages.promote()

    assert stages.current() == {"a": "a3", "b": "b1", "new": "new"}
    assert "b went back in one write; a, new stay" in problems[0].why


def test_names_that_cannot_go_back_are_said_with_the_reason(stages: Stages) -> None:
    def lost() -> None:
        bucket = stages.production.split("/")[2]
        stages.s3.delete_object(Bucket=bucket, Key=f"models/{stages.made['a1'].name}")
        stages.set("ALARM", "errors")

    stages.clock.at[1] = lost
    with reported("alarm", "artifact-gone") as problems:
        stages.promote()

    assert problems[0].why == "the names could not go back and stay as they are"
    assert "fleet rollback --run" in problems[0].fix


def test_lost_answers_of_the_promotion_and_of_the_way_back_change_nothing(
    aws: EmbeddedAws, stages: Stages, proxy: FaultyS3
) -> None:
    stages.clock.at[1] = lambda: stages.set("ALARM", "errors")
    lost: dict[int, Fault] = {8: "lost", 17: "lost"}
    proxy.expect(lost)

    with reported("alarm") as problems:
        stages.promote(s3=through(aws, proxy.url, "s3", attempts=2))

    assert [proxy.requests[number - 1] for number in lost] == ["PUT manifest.json"] * 2
    assert "a, b went back in one write" in problems[0].why
    assert stages.current() == BACK
    models = consistent_manifest(stages.production, stages.s3).models
    assert {name: len(each.history) for name, each in models.items()} == {"a": 3, "b": 3, "new": 1}


def test_a_promotion_that_moves_nothing_is_not_watched(stages: Stages) -> None:
    stages.promote()
    stages.clock.waited.clear()

    done = stages.promote()

    assert (done.run, done.watched_s, stages.clock.waited) == (None, None, [])


def endpoint(aws: EmbeddedAws, name: str, *alarms: str) -> None:
    sagemaker = aws.client("sagemaker")
    sagemaker.create_model(
        ModelName=name,
        PrimaryContainer={
            "Image": "007439368137.dkr.ecr.us-east-1.amazonaws.com/sagemaker-tritonserver:25.09-py3",
            "Mode": "MultiModel",
            "ModelDataUrl": "s3://bucket/models/",
        },
        ExecutionRoleArn="arn:aws:iam::123456789012:role/r",
    )
    variant = {"VariantName": "all", "ModelName": name, "InstanceType": "ml.g5.2xlarge"}
    sagemaker.create_endpoint_config(
        EndpointConfigName=name, ProductionVariants=[{**variant, "InitialInstanceCount": 1}]
    )
    rollback = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": each} for each in alarms]}}
    sagemaker.create_endpoint(
        EndpointName=name, EndpointConfigName=name, **({"DeploymentConfig": rollback} if alarms else {})
    )


@pytest.fixture
def command(stages: Stages, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    for name, value in stages.aws.exports().items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_PROFILE", "FLEET_PORTABLE"):
        monkeypatch.delenv(name, raising=False)
    given = ["promote", "--all", "--from", stages.staging, "--to", stages.production]
    return lambda *more: main([*given, *more])


def test_the_command_watches_the_rollback_alarms_of_an_endpoint(
    aws: EmbeddedAws, stages: Stages, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint(aws, "served", "errors")
    stages.set("ALARM", "errors", reason="too many")
    assert command("--watch", "1ms", "--endpoint", "served") == 1
    assert "the alarm 'errors' is in ALARM: too many" in capsys.readouterr().err

    stages.set("OK")
    assert command("--watch", "1ms", "--endpoint", "served", "--alarms", "any", "--json") == 0
    assert json.loads(capsys.readouterr().out)["watched_s"] == 0.001
    assert stages.current() == PROMOTED


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--watch", "1ms"], "no alarms are named"),
        (["--alarms", "errors"], "no time is given"),
        (["--watch", "1ms", "--endpoint", "bare"], "the endpoint 'bare' has no rollback alarms"),
        (["--watch", "1ms", "--endpoint", "gone"], "the endpoint 'gone' cannot be described"),
        (["--watch", "1ms", "--alarms", "missing"], "unknown alarms: missing"),
    ],
)
def test_a_watch_without_alarms_refuses_the_promotion(
    stages: Stages,
    command: Callable[..., int],
    capsys: pytest.CaptureFixture[str],
    given: list[str],
    expected: str,
) -> None:
    if "bare" in given:
        endpoint(stages.aws, "bare")

    assert command(*given) == 1

    error = capsys.readouterr().err
    assert expected in error
    assert error.count("error:") == 1
    assert stages.current() == OLD


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize(("state", "code", "current"), [("OK", 0, "a2"), ("ALARM", 1, "a1")])
def test_a_run_goes_back_afterwards_only_if_an_alarm_fires(
    stages: Stages, capsys: pytest.CaptureFixture[str], state: str, code: int, current: str
) -> None:
    stages.publish("a2", by="build")
    run = consistent_manifest(stages.production, stages.s3).models["a"].history[-1].run
    stages.set(state, "errors")
    given = ["--run", run, "--repository", stages.production, "--watch", "1ms", "--alarms", "errors"]
    assert main(["rollback", *given]) == code
    assert stages.current()["a"] == current
    said = capsys.readouterr()
    assert ("stays" in said.out, "went back" in said.err) == (not code, bool(code))


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("given", [["a"], ["--run", "last", "--dry-run"]])
def test_only_a_run_is_watched(stages: Stages, capsys: pytest.CaptureFixture[str], given: list[str]) -> None:
    more = ["--repository", stages.production, "--watch", "1ms", "--alarms", "errors"]
    assert main(["rollback", *given, *more]) == 1
    assert "rollback-options" in capsys.readouterr().err
