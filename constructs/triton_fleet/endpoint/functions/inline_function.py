"""Lambda functions for what has to happen in AWS while a stack is deployed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aws_cdk import CustomResource, Duration, RemovalPolicy
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from triton_models import signals

LONGEST_RUN_S = 900
"""Seconds that Lambda allows one invocation."""

RUNTIME = lambda_.Runtime.PYTHON_3_14
"""The newest there is, as AwsSolutions-L1 asks for; its boto3 is what the functions use."""

_NOTHING: Mapping[str, str] = MappingProxyType({})

_CODE = Path(__file__).with_name("code")
_FOLDERS = {f"{__package__}.code": _CODE, signals.__name__: Path(str(signals.__file__)).parent}
_SHARED = re.compile(
    rf"^from ({'|'.join(map(re.escape, _FOLDERS))})\.(\w+) import (?:\([^)]*\)|[^\n]*)\n", re.MULTILINE
)
_BEGINNING = re.compile(r'\A"""[^"]*"""\n+from __future__ import annotations\n+')


def function_code(source: str) -> str:
    """The code of a function: a file of the folder code, with those that it imports in it, each once."""
    return _code(_CODE / f"{source}.py", set())


def _code(path: Path, written: set[Path]) -> str:
    def shared(found: re.Match[str]) -> str:
        file = _FOLDERS[found[1]] / f"{found[2]}.py"
        if file in written:
            return ""
        written.add(file)
        return _BEGINNING.sub("", _code(file, written))

    return _SHARED.sub(shared, path.read_text(encoding="utf-8"))


class InlineFunction(Construct):
    """A Lambda function whose code is one Python file of this library, carried by the template.

    What the file imports from its own folder, or from the signals, is written in the place of the import. So
    the code is reviewed and versioned with the template, and no archive is uploaded for it. Its role may
    write its own log, and nothing else until its user adds to it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        source: str,
        description: str,
        environment: Mapping[str, str] = _NOTHING,
        memory_mb: int = 128,
        timeout_s: int = LONGEST_RUN_S,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
    ) -> None:
        super().__init__(scope, construct_id)
        # It stays: a rollback would delete the reason for itself. Its name is generated, so nothing collides.
        self.log_group = logs.LogGroup(
            self, "Logs", retention=log_retention, removal_policy=RemovalPolicy.RETAIN
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"For a function: {description}",
        )
        self.allow("Logs", ["logs:CreateLogStream", "logs:PutLogEvents"], [self.log_group.log_group_arn])
        function = lambda_.CfnFunction
        self.function = function(
            self,
            "Resource",
            description=description,
            runtime=RUNTIME.name,
            handler="index.handler",  # CloudFormation names the file of inline code index.py
            code=function.CodeProperty(zip_file=function_code(source)),
            role=self.role.role_arn,
            logging_config=function.LoggingConfigProperty(log_group=self.log_group.log_group_name),
            environment=function.EnvironmentProperty(variables=dict(environment)) if environment else None,
            memory_size=memory_mb,
            timeout=timeout_s,
        )
        # Once there is a function, what it needs is allowed.
        self.function.node.add_dependency(self.role.node.find_child("DefaultPolicy"))

    def allow(
        self,
        sid: str,
        actions: Sequence[str],
        resources: Sequence[str],
        *,
        prefixes: str | Sequence[str] = (),
    ) -> None:
        """Add to what the function may do; `prefixes` of keys limit what it may list."""
        statement = iam.PolicyStatement(
            sid=sid,
            actions=list(actions),
            resources=list(resources),
            conditions={"StringLike": {"s3:prefix": prefixes}} if prefixes else None,
        )
        self.role.add_to_policy(statement)

    def allow_rule(self, scope: Construct, rule: events.CfnRule) -> lambda_.CfnPermission:
        """Let a rule of EventBridge invoke the function."""
        return lambda_.CfnPermission(
            scope,
            "Permission",
            action="lambda:InvokeFunction",
            function_name=self.function.attr_arn,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
        )

    def allow_successor(self, scope: Construct) -> iam.Policy:
        """Let the function invoke itself: what it waits for takes longer than its fifteen minutes.

        In a policy of its own, made after the function: the function needs the role's first policy to be
        there, and a policy that names the function needs the function.
        """
        invoke = iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[self.function.attr_arn])
        return iam.Policy(scope, "Successor", roles=[self.role], statements=[invoke])

    def resource(
        self,
        scope: Construct,
        construct_id: str,
        kind: str,
        properties: Mapping[str, Any],
        *,
        timeout: Duration,
    ) -> CustomResource:
        """A custom resource `Custom::Triton<kind>` that the function answers for."""
        return CustomResource(
            scope,
            construct_id,
            resource_type=f"Custom::Triton{kind}",
            service_token=self.function.attr_arn,
            service_timeout=timeout,
            properties=properties,
        )
