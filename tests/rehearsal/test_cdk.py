"""The real CDK command line on a small app: deployed, changed, destroyed, and its errors."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from embedded_aws import EmbeddedAws
from tests.rehearsal.cdk_apps import cdk_of, write_app
from triton_models.base.errors import FleetError
from triton_rehearsal.cdk import Cdk

# Two stacks with a reference between them, and an output that depends on the context.
APP = """
import os
from aws_cdk import App, CfnOutput, Stack, aws_sagemaker as sagemaker, aws_sns as sns

app = App()
first = Stack(app, "First")
topic = sns.Topic(first, "Topic", display_name=app.node.try_get_context("shown") or "before")
second = Stack(app, "Second")
mail = {"protocol": "email", "endpoint": "a@example.com"}
sns.CfnSubscription(second, "Subscription", topic_arn=topic.topic_arn, **mail)
CfnOutput(second, "TopicArn", value=topic.topic_arn)
if app.node.try_get_context("broken"):
    variant = {"variantName": "v", "modelName": "missing", "instanceType": "ml.g5.xlarge"}
    sagemaker.CfnEndpointConfig(second, "Broken", production_variants=[variant])
if app.node.try_get_context("crash"):
    raise SystemExit("the app says no")
app.synth()
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    context = {"@aws-cdk/core:defaultCrossStackReferences": "strong"}
    return write_app(tmp_path / "app", APP, context=context)


@pytest.mark.story
def test_stacks_are_deployed_changed_and_destroyed_and_the_app_folder_stays_clean(
    aws: EmbeddedAws, app: Path
) -> None:
    lines: list[str] = []
    command = cdk_of(aws, app, lines.append)
    sns = aws.client("sns")
    files = sorted(path.name for path in app.rglob("*"))

    def shown(topic: str) -> str:
        name: str = sns.get_topic_attributes(TopicArn=topic)["Attributes"]["DisplayName"]
        return name

    outputs = command.bootstrap_and_deploy()
    topic = outputs["Second"]["TopicArn"]

    assert list(outputs) == ["First", "Second"]
    assert [aws.missing_resources(stack) for stack in ("CDKToolkit", "First", "Second")] == [[], [], []]
    assert [row["TopicArn"] for row in sns.list_subscriptions()["Subscriptions"]] == [topic]
    assert shown(topic) == "before"
    assert any("CREATE_COMPLETE" in line for line in lines)

    assert command.deploy("-c", "shown=after")["Second"]["TopicArn"] == topic
    assert shown(topic) == "after"

    with pytest.raises(FleetError, match=r"Could not find model .*missing"):
        command.deploy("-c", "broken=1")
    assert shown(topic) == "before"

    command.destroy()
    left = [stack["StackName"] for stack in aws.client("cloudformation").describe_stacks()["Stacks"]]
    assert left == ["CDKToolkit"]
    assert sns.list_topics()["Topics"] == []
    assert sorted(path.name for path in app.rglob("*")) == files


@pytest.mark.story
def test_what_a_failed_deployment_without_rollback_has_made_stays_and_the_next_one_goes_on(
    aws: EmbeddedAws, app: Path
) -> None:
    command, sns = cdk_of(aws, app), aws.client("sns")
    command.bootstrap()

    with pytest.raises(FleetError, match=r"Could not find model .*missing"):
        command.deploy("--no-rollback", "-c", "broken=1")
    failed = aws.client("cloudformation").describe_stacks(StackName="Second")["Stacks"][0]["StackStatus"]
    kept = [row["SubscriptionArn"] for row in sns.list_subscriptions()["Subscriptions"]]
    command.deploy("--no-rollback")

    assert failed == "CREATE_FAILED"
    assert len(kept) == 1
    assert [row["SubscriptionArn"] for row in sns.list_subscriptions()["Subscriptions"]] == kept


def test_an_app_that_fails_is_one_error_with_its_own_words(aws: EmbeddedAws, app: Path) -> None:
    lines: list[str] = []
    with pytest.raises(FleetError, match="the app says no") as raised:
        cdk_of(aws, app, lines.append).deploy("-c", "crash=1")

    assert lines[0] == "synthesizing"
    assert raised.value.problems[0].what == "cdk deploy failed with status 1"


def test_an_app_that_fails_while_the_account_is_bootstrapped_is_the_same_error(
    aws: EmbeddedAws, app: Path
) -> None:
    with pytest.raises(FleetError, match="the app says no") as raised:
        cdk_of(aws, app).bootstrap_and_deploy("-c", "crash=1")

    assert raised.value.problems[0].what == "cdk synth failed with status 1"


def test_the_command_line_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    cli = tmp_path / "cdk"
    cli.write_text("console.log(process.pid); setInterval(() => {}, 1000)", encoding="utf-8")
    program = f"""
import os
from pathlib import Path
from triton_rehearsal.cdk import Cdk
folder = Path({str(tmp_path)!r})
show = lambda line: print(line, flush=True)
cdk = Cdk(environment=os.environ, directory=folder, output=folder / "out", on_line=show, cli=folder / "cdk")
cdk.destroy()
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))

    parent.kill()
    parent.wait()

    ended, _, _ = select.select([child], [], [], 10)
    os.close(child)
    assert ended


def test_a_missing_command_line_is_one_error_that_says_how_to_get_it(aws: EmbeddedAws, app: Path) -> None:
    with pytest.raises(FleetError, match="is not installed") as raised:
        Cdk(environment=aws.environment(), directory=app, output=app.parent / "output")

    assert "`make rehearse`" in raised.value.problems[0].fix
