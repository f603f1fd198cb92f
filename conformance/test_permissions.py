"""Beliefs about what services require of alarms and roles."""

from __future__ import annotations

import json

from conformance.account import Account, allow, refusal
from conformance.beliefs import account
from conformance.records import Asked

# Two regions of each partition.
REGIONS = {
    "aws": ("us-east-1", "us-west-2"),
    "aws-cn": ("cn-north-1", "cn-northwest-1"),
    "aws-us-gov": ("us-gov-west-1", "us-gov-east-1"),
}
RULE = "rule/StepFunctionsGetEventForCodeBuildStartBuildRule"


@account(cheap=True, creates="an alarm, if it is accepted")
def test_an_alarm_with_a_topic_of_another_region_is_refused(aws: Account, ask: Asked) -> None:
    region = next(each for each in REGIONS[aws.partition] if each != aws.region)
    topic = aws.arn("sns", aws.name("topic"), region)  # which need not exist
    assert ask(lambda: refusal(lambda: aws.alarm("topic", AlarmActions=[topic])))


@account(cheap=True, minutes=2, creates="a role, a state machine")
def test_a_state_machine_that_waits_for_builds_needs_one_rule(aws: Account, ask: Asked) -> None:
    build = {
        "Type": "Task",
        "Resource": f"arn:{aws.partition}:states:::codebuild:startBuild.sync",
        "Parameters": {"ProjectName": aws.name("waits")},
        "End": True,
    }
    definition = json.dumps({"StartAt": "Build", "States": {"Build": build}})
    role = aws.new_role(
        "states",
        {"Service": "states.amazonaws.com"},
        allow(["events:PutRule", "events:PutTargets", "events:DescribeRule"], aws.arn("events", RULE)),
        allow(["codebuild:StartBuild", "codebuild:StopBuild", "codebuild:BatchGetBuilds"]),
    )
    asked = {"name": aws.name("waits"), "definition": definition, "roleArn": role}
    states = aws.client("stepfunctions")

    # Step Functions sees a new role first, and its policy later.
    def created() -> str:
        def create() -> None:
            aws.with_new_role(lambda: states.create_state_machine(**asked, tags=aws.lower_tags))

        return refusal(lambda: aws.with_new_role(create, "managed-rule"))

    assert ask(created) == ""
