"""Lambda functions for what has to happen in AWS while a stack is deployed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from aws_cdk import RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from triton_fleet.endpoint.functions.checks import inline_code
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Report

LONGEST_RUN_S = 900
"""Seconds that Lambda allows one invocation."""

RUNTIME = lambda_.Runtime.PYTHON_3_14
"""The newest there is, as AwsSolutions-L1 asks for; its boto3 is what the functions use."""

_SOURCES = Path(__file__).with_name("code")
_NOTHING: Mapping[str, str] = MappingProxyType({})

_SHARED = re.compile(
    rf"^from {re.escape(__package__)}\.code\.(\w+) import (?:\([^)]*\)|[^\n]*)\n", re.MULTILINE
)
_BEGINNING = re.compile(r'\A"""[^"]*"""\n+from __future__ import annotations\n+')


def function_code(source: str) -> str:
    """The code of a function: a file of the folder code, with those that it imports from there in it."""
    text = (_SOURCES / f"{source}.py").read_text(encoding="utf-8")
    return _SHARED.sub(lambda match: _BEGINNING.sub("", function_code(match[1])), text)


@typed
class InlineFunction(Construct):
    """A Lambda function whose code is one Python file of this library, carried by the template.

    What the file imports from its own folder is written in the place of the import. So the code is reviewed
    and versioned with the template, and no archive is uploaded for it. Its role may write its own log, and
    nothing else until its user adds to it.

    Attributes:
        function: The function.
        role: The role of the function.
        log_group: The log of the function; it outlives the stack until its retention has emptied it.
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
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
    ) -> None:
        """Create the function with its role and log group."""
        super().__init__(scope, construct_id)
        code = function_code(source)
        report = Report(self.node.path)
        inline_code(report.at(f"{source}.py"), len(code.encode()))
        report.raise_if_any()
        # It stays: a rollback would delete the reason for itself. Its name is generated, so nothing collides.
        self.log_group = logs.LogGroup(
            self, "Logs", retention=log_retention, removal_policy=RemovalPolicy.RETAIN
        )
        self.role = self._execution_role(description)
        self.function = self._function(
            code, description=description, environment=environment, memory_mb=memory_mb
        )

    def _execution_role(self, description: str) -> iam.Role:
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"For a function: {description}",
        )
        role.add_to_policy(
            iam.PolicyStatement(
                sid="Logs",
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[self.log_group.log_group_arn],
            )
        )
        return role

    def _function(
        self, code: str, *, description: str, environment: Mapping[str, str], memory_mb: int
    ) -> lambda_.CfnFunction:
        function = lambda_.CfnFunction(
            self,
            "Resource",
            description=description,
            runtime=RUNTIME.name,
            handler="index.handler",  # CloudFormation names the file of inline code index.py
            code=lambda_.CfnFunction.CodeProperty(zip_file=code),
            role=self.role.role_arn,
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(log_group=self.log_group.log_group_name),
            environment=lambda_.CfnFunction.EnvironmentProperty(variables=dict(environment))
            if environment
            else None,
            memory_size=memory_mb,
            timeout=LONGEST_RUN_S,
        )
        # Once there is a function, what it needs is allowed.
        function.node.add_dependency(self.role.node.find_child("DefaultPolicy"))
        return function


def allow_successor(scope: Construct, function: InlineFunction) -> iam.Policy:
    """Let a function invoke itself: what it waits for takes longer than its fifteen minutes.

    In a policy of its own, made after the function: the function needs the role's first policy to be there,
    and a policy that names the function needs the function.
    """
    return iam.Policy(
        scope,
        "Successor",
        roles=[function.role],
        statements=[
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function.attr_arn])
        ],
    )
