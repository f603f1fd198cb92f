"""Probes of the requirements of services on alarms and roles."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from types import MappingProxyType

from triton_models.probe.account import trouble
from triton_models.probe.account.probe import AccountProbe, Steps
from triton_models.probe.account.work import Work
from triton_models.probe.verdict import decide

_RULE = "StepFunctionsGetEventForCodeBuildStartBuildRule"
_MANAGED = "managed-rule"
# The maximum time until Step Functions sees a new policy.
_KNOWN_MINUTES = 2.0
# Two regions of each partition.
_REGIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "aws": ("us-east-1", "us-west-2"),
        "aws-cn": ("cn-north-1", "cn-northwest-1"),
        "aws-us-gov": ("us-gov-west-1", "us-gov-east-1"),
    }
)


def _topic(work: Work) -> Steps:
    """Create an alarm that names a topic in another region. The topic need not exist."""
    yield
    belief, name, place = "topic-same-region", work.name("topic"), work.place
    region = next(each for each in _REGIONS[place.partition] if each != place.region)
    topic = f"arn:{place.partition}:sns:{region}:{place.account}:{name}"
    request = {
        "AlarmName": name,
        "AlarmActions": [topic],
        "Namespace": "fleet-probe",
        "MetricName": "none",
        "Statistic": "Maximum",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1.0,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    cloudwatch = work.clients("cloudwatch")
    refused = trouble.refusal(
        lambda: work.create("alarm", name, lambda: cloudwatch.put_metric_alarm(**request))
    )
    seen = refused or f"an alarm was accepted with a topic of {region}"
    return [decide(belief, seen, holds=bool(refused))]


def _state_machine(work: Work) -> Steps:
    """Create a state machine that waits for a build, with a role that may write only one rule."""
    from botocore.exceptions import ClientError

    belief = "step-functions-rule-name"
    try:
        yield from _created(work)
    except ClientError as error:
        if _MANAGED not in trouble.message(error):
            raise
        return [decide(belief, f"{trouble.code(error)}: {trouble.message(error)}", holds=False)]
    return [decide(belief, f"accepted with a role that may write the rule {_RULE} alone", holds=True)]


def _created(work: Work) -> Generator[None, None, None]:
    """Create the state machine as soon as Step Functions sees its role and the role's policy."""
    from botocore.exceptions import ClientError

    states, name, place = work.clients("stepfunctions"), work.name("waits"), work.place
    rule = f"arn:{place.partition}:events:{place.region}:{place.account}:rule/{_RULE}"
    build = {
        "Type": "Task",
        "Resource": f"arn:{place.partition}:states:::codebuild:startBuild.sync",
        "Parameters": {"ProjectName": name},
        "End": True,
    }
    definition = json.dumps({"StartAt": "Build", "States": {"Build": build}})
    allowed = (
        (["events:PutRule", "events:PutTargets", "events:DescribeRule"], rule),
        (["codebuild:StartBuild", "codebuild:StopBuild", "codebuild:BatchGetBuilds"], "*"),
    )
    statements = [{"Effect": "Allow", "Action": actions, "Resource": where} for actions, where in allowed]
    role = work.new_role("states", {"Service": "states.amazonaws.com"}, statements)

    def make() -> None:
        states.create_state_machine(name=name, definition=definition, roleArn=role)

    end = work.clock.now() + _KNOWN_MINUTES * 60
    while True:
        try:
            yield from work.when_role_is_known(lambda: work.create("state-machine", name, make))
        except ClientError as error:
            if _MANAGED not in trouble.message(error) or work.clock.now() > end:
                raise
        else:
            return
        yield


PROBES = (
    AccountProbe(
        id="alarm-topic",
        what="creates an alarm with a topic of another region",
        decides=("topic-same-region",),
        run=_topic,
        creates="an alarm, if it is accepted",
        allowed=("cloudwatch:PutMetricAlarm", "cloudwatch:DeleteAlarms"),
        cheap=True,
    ),
    AccountProbe(
        id="state-machine",
        what="creates a state machine that waits for a build",
        decides=("step-functions-rule-name",),
        run=_state_machine,
        creates="a role, a state machine",
        allowed=(
            "iam:CreateRole",
            "iam:PutRolePolicy",
            "iam:PassRole",
            "states:CreateStateMachine",
            "states:DeleteStateMachine",
        ),
        minutes=2,
        cheap=True,
    ),
)
