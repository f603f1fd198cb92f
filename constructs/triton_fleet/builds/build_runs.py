"""Runs of many builds: every model that changed, several builds at a time, and a result for each model.

The state machine is written with JSONPath. A run keeps everything in a folder of the repository's bucket, and
hands from state to state no more than where that is: thousands of models would not fit into 256 KiB.

Sources, read on 2026-11-21:
https://docs.aws.amazon.com/step-functions/latest/dg/connect-codebuild.html
https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html (256 KiB, 10 000 children)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from triton_fleet.builds.codebuild import (
    CODEBUILD,
    codebuild_statements,
    commands_project,
    network_statements,
    starter_environment,
    variables,
)
from triton_fleet.builds.commands import changed_commands, summary_commands
from triton_fleet.builds.machines import ReservedMachines
from triton_fleet.builds.model_build_project import ModelBuildProject
from triton_fleet.builds.working_folder import WorkingFolder, runs
from triton_fleet.parts.arguments.checks import number_range, quantity_range
from triton_fleet.parts.arguments.roles import service_role
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.network.findings import acknowledge_network_interfaces
from triton_models.base.checks import Check, Report

BUILD_RUNS = Check(
    id="build-runs",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html"
        " https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AppSpecification.html"
    ),
)

MOST_BUILDS = 10_000
"""Child executions of a Distributed Map at a time."""
# A Processing job takes 100 arguments of 256 characters, which are the names of its models.
_MOST_MODELS = 1000
_LONGEST_RUN_S = 31_536_000  # a year

# The fewest builds at a time that a new account is usually given when it asks for any on a GPU is one; four
# is a request that is granted without a talk, and builds a thousand models in a night.
_USUAL_CONCURRENCY = 4

# For as long as old versions of a manifest are kept: who looks at one wants to know how its models were made.
_KEPT_DAYS = 90

_ONE_DAY = Duration.days(1)
_SMALL_STEP = Duration.hours(1)

# The execution of a Distributed Map, and what a run keeps: what each build is to make, a document of each
# build about its models, and the summary of all.
_LABEL, _ITEMS, _RESULTS, _SUMMARY = "Builds", "items.json", "results/", "summary.json"

# A build that could not be started: CodeBuild's queue is full, which has five times as many places as builds
# may run, or it was asked too often, or did not answer. Waited for up to about four hours, the most that a
# queue of builds of two hours takes to get shorter. Source of the queue, read 2026-11-21:
# https://docs.aws.amazon.com/codebuild/latest/userguide/builds-working.html
_NOT_STARTED = (
    "CodeBuild.AccountLimitExceededException",
    "CodeBuild.ThrottlingException",
    "CodeBuild.AWSCodeBuildException",
    "CodeBuild.SdkClientException",
)
_FIRST_WAIT = Duration.seconds(30)
_LONGEST_WAIT = Duration.minutes(10)
_ATTEMPTS = 30

# What the description of a build says whose machine failed. A model that fails makes it FAILED, and a build
# that takes too long TIMED_OUT: both would be the same again.
_MACHINE_FAILED = '*"BuildStatus":"FAULT"*'

_FAILED = "States.TaskFailed"
_ERROR = "$.error"


@typed
class BuildRuns(Construct):
    """A Step Functions state machine that builds the models that changed, many builds at a time.

    A run finds the models whose declaration, toolkit, release, GPU or weights differ from those of the
    published artifact. It divides them among builds of `ModelBuildProject`, and publishes each model as soon
    as it is built and checked. A model that fails does not stop the others. At the end the run writes a
    summary with the reason of each failure. If a model failed, the run fails and names the summary.

    A build whose machine fails is started once more. A model without a result, because its build took too
    long or failed again, counts as failed. Start a run with `aws stepfunctions start-execution`.

    On demand, each build at a time counts against the quota of builds on GPUs, which is 0 in a new account.

    Attributes:
        changed_project: The project that finds what changed, on a small machine.
        summary_project: The project that reports the result of every model, on a small machine.
        folder: The folder that holds a folder for each run.
        step_role: The role of `changed_project` and `summary_project`.
        log_group: The log of both projects and of the state machine.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        builds: ModelBuildProject,
        models_per_build: int = 10,
        max_concurrency: int | None = None,
        timeout: Duration = _ONE_DAY,
        topic: sns.ITopic | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.THREE_MONTHS,
    ) -> None:
        """Create the state machine; it builds nothing until it is started.

        Args:
            builds: The project that makes the models.
            models_per_build: The most models of one build. Each build takes a few minutes to get a machine
                and its packages; after `timeout` of the builds it ends, with its models one after another.
            max_concurrency: The most builds at a time. By default the number of reserved machines, or four.
            timeout: The longest run. It is then ended with its builds; what it has published stays published.
            topic: A topic that gets a notice if a model failed.
            log_retention: The retention of the log.
        """
        super().__init__(scope, construct_id)
        self.builds = builds
        machine = builds.machine.choice
        reserved = machine.base_capacity if isinstance(machine, ReservedMachines) else None
        self._check(models_per_build, max_concurrency, timeout, reserved)
        self.max_concurrency = max_concurrency or reserved or _USUAL_CONCURRENCY
        self.folder: WorkingFolder = runs(builds.repository)
        builds.repository.expire(
            rule=f"Runs{self.node.addr[-8:]}", prefix=self.folder.prefix, after=Duration.days(_KEPT_DAYS)
        )
        self.log_group = logs.LogGroup(
            self, "Logs", retention=log_retention, removal_policy=RemovalPolicy.RETAIN
        )
        self.step_role = self._step_role()
        self.changed_project = self._step(
            "Changed",
            "Finds the models that changed",
            changed_commands(builds.gpu),
            {
                **builds.environment,
                **builds.variables(),
                **builds.weights,
                "FLEET_MODELS_PER_BUILD": str(models_per_build),
            },
        )
        self.summary_project = self._step(
            "Summary", "Summarizes the results of a run", summary_commands(), builds.environment
        )
        builds.role.add_to_principal_policy(self.folder.write_statement("Results"))
        self.role = self._role(topic)
        self.state_machine = self._state_machine(timeout, topic)
        self._allow_children()

    @property
    def items_arn(self) -> str:
        """The ARN pattern of the lists of models for each build of a run."""
        return self.folder.repository.bucket.arn_for_objects(f"{self.folder.prefix}*/{_ITEMS}")

    @property
    def execution_arns(self) -> tuple[str, str]:
        """The ARN patterns of the executions of a Distributed Map, and of every execution."""
        # A child is called execution:NAME/LABEL:ID, and another execution execution:NAME:ID.
        children, every = (
            Stack.of(self).format_arn(
                service="states",
                resource="execution",
                resource_name=f"{self.state_machine.state_machine_name}{rest}",
                arn_format=ArnFormat.COLON_RESOURCE_NAME,
            )
            for rest in (f"/{_LABEL}:*", ":*")
        )
        return children, every

    def _check(
        self, models_per_build: int, max_concurrency: int | None, timeout: Duration, reserved: int | None
    ) -> None:
        report = Report(self.node.path)
        place, builds = report.at("models_per_build and max_concurrency"), known(max_concurrency)
        number_range(place, known(models_per_build), least=1, most=_MOST_MODELS, name="models_per_build")
        number_range(place, builds, least=1, most=MOST_BUILDS, name="max_concurrency")
        machines = known(reserved)
        if machines is not None and builds is not None and builds > machines:
            place(
                BUILD_RUNS,
                f"{builds} builds at a time have {machines} reserved machines",
                fix=f"use {machines} or fewer, or give ReservedMachines a larger base_capacity",
                why="the others would wait in CodeBuild's queue, and fail there after eight hours",
            )
        quantity_range(report.at("timeout"), timeout, least=60, most=_LONGEST_RUN_S, name="timeout")
        report.raise_if_any()

    def _step_role(self) -> iam.Role:
        role = service_role(
            self, "StepRole", service=CODEBUILD, description="What the steps of a run of builds may do"
        )
        self.builds.repository.grant_read(role)
        for statement in (
            *codebuild_statements(
                source=self.builds.source, key=self.builds.source_key, log_group=self.log_group
            ),
            *self.builds._inputs.weights_statements(self),
            *self.folder.read_write_statements("Runs"),
            self.folder.key_statement("RunsKey"),
            *network_statements(self, self.builds.network),
        ):
            role.add_to_policy(statement)
        if self.builds.network is not None:
            acknowledge_network_interfaces(role)
        return role

    def _step(
        self,
        construct_id: str,
        description: str,
        phases: Mapping[str, Sequence[str]],
        values: Mapping[str, str],
    ) -> codebuild.Project:
        return commands_project(
            self,
            construct_id,
            description=f"{description}, for {self.builds.project.node.path}",
            phases=phases,
            environment=starter_environment(),
            values=variables(values),
            role=self.step_role,
            key=self.builds.repository.key,
            log_group=self.log_group,
            timeout=_SMALL_STEP,
            source=self.builds.source,
            network=self.builds.network,
        )

    def _role(self, topic: sns.ITopic | None) -> iam.Role:
        role = service_role(
            self, "Role", service="states.amazonaws.com", description="What a run of builds may do"
        )
        stack = Stack.of(self)
        projects = (self.builds.project, self.changed_project, self.summary_project)
        rule = stack.format_arn(
            service="events", resource="rule", resource_name="StepFunctionsGetEventForCodeBuildStartBuildRule"
        )
        for statement in (
            iam.PolicyStatement(
                sid="Builds",
                actions=["codebuild:StartBuild", "codebuild:StopBuild", "codebuild:BatchGetBuilds"],
                resources=[project.project_arn for project in projects],
            ),
            iam.PolicyStatement(
                sid="BuildsEnded",  # a rule of Step Functions reports it, one for all of the account's builds
                actions=["events:PutTargets", "events:PutRule", "events:DescribeRule"],
                resources=[rule],
            ),
            iam.PolicyStatement(sid="Items", actions=["s3:GetObject"], resources=[self.items_arn]),
            iam.PolicyStatement(
                sid="ItemsKey", actions=["kms:Decrypt"], resources=[self.folder.repository.key.key_arn]
            ),
            iam.PolicyStatement(
                sid="LogDelivery",  # has no resource-level permissions
                actions=[
                    "logs:CreateLogDelivery",
                    "logs:GetLogDelivery",
                    "logs:UpdateLogDelivery",
                    "logs:DeleteLogDelivery",
                    "logs:ListLogDeliveries",
                    "logs:PutResourcePolicy",
                    "logs:DescribeResourcePolicies",
                    "logs:DescribeLogGroups",
                ],
                resources=["*"],
            ),
        ):
            role.add_to_policy(statement)
        if topic is not None:
            topic.grant_publish(role)
        return role

    def _state_machine(self, timeout: Duration, topic: sns.ITopic | None) -> sfn.StateMachine:
        machine = sfn.StateMachine(
            self,
            "Resource",
            comment="Builds the models that changed, and reports how each came out",
            definition_body=sfn.DefinitionBody.from_chainable(_definition(self, topic)),
            timeout=timeout,
            logs=sfn.LogOptions(destination=self.log_group, level=sfn.LogLevel.ALL),
            # The role is complete as it stands: the CDK would add wildcards to it.
            role=self.role.without_policy_updates(),
        )
        # The CDK's own policy for it would belong to no role.
        machine.node.try_remove_child("DistributedMapPolicy")
        machine.node.add_dependency(self.role.node.find_child("DefaultPolicy"))
        return machine

    def _allow_children(self) -> None:
        """Let the state machine start the executions of its Distributed Map, and end them.

        In a policy of its own, made after the state machine, whose name is in it.
        """
        iam.Policy(
            self,
            "Children",
            roles=[self.role],
            statements=[
                iam.PolicyStatement(
                    sid="Start",
                    actions=["states:StartExecution"],
                    resources=[self.state_machine.state_machine_arn],
                ),
                iam.PolicyStatement(
                    sid="Executions",
                    actions=["states:DescribeExecution", "states:StopExecution"],
                    resources=list(self.execution_arns),
                ),
            ],
        )


def _definition(runs: BuildRuns, topic: sns.ITopic | None) -> sfn.IChainable:
    folder = runs.folder
    items, results, document = (f"{folder.url}{{}}/{name}" for name in (_ITEMS, _RESULTS, _SUMMARY))
    find = _build(
        runs,
        "FindChanged",
        runs.changed_project,
        {"FLEET_ITEMS": _of_run(items), "FLEET_RESULTS": _of_run(f"{results}changed.json")},
    )
    parallel = _map(runs, results)
    parallel.item_processor(_one_build(runs))
    summarize = _build(
        runs,
        "Summarize",
        runs.summary_project,
        {
            "FLEET_ITEMS": _of_run(items),
            "FLEET_RESULTS": _of_run(results),
            "FLEET_SUMMARY": _of_run(document),
        },
    )
    # Whatever became of the builds, the summary says it: no item at all is not a failure, and of a list that
    # could not be read every model is without a result.
    parallel.add_catch(summarize, result_path=_ERROR)
    summarize.add_catch(_failed(runs, document, topic), result_path=_ERROR)
    return find.next(parallel).next(summarize)


def _of_run(pattern: str) -> str:
    """An address in which the run's name stands for {}."""
    return sfn.JsonPath.format(pattern, sfn.JsonPath.execution_name)


def _build(
    scope: Construct, name: str, project: codebuild.IProject, values: Mapping[str, str]
) -> tasks.CodeBuildStartBuild:
    """A build, until it has ended; started again only if it could not be started."""
    state = tasks.CodeBuildStartBuild(
        scope,
        name,
        project=project,
        integration_pattern=sfn.IntegrationPattern.RUN_JOB,
        environment_variables_override=variables(values),
        result_path=sfn.JsonPath.DISCARD,
    )
    state.add_retry(
        errors=list(_NOT_STARTED),
        interval=_FIRST_WAIT,
        backoff_rate=2,
        max_delay=_LONGEST_WAIT,
        max_attempts=_ATTEMPTS,
        jitter_strategy=sfn.JitterType.FULL,
    )
    return state


def _map(runs: BuildRuns, results: str) -> sfn.DistributedMap:
    """A build for each item. However many fail, the others go on: their results say which did."""
    bucket, prefix = runs.folder.repository.bucket, runs.folder.prefix
    return sfn.DistributedMap(
        runs,
        "BuildChanged",
        label=_LABEL,
        map_execution_type=sfn.StateMachineType.STANDARD,  # an express one ends after five minutes
        item_reader=sfn.S3JsonItemReader(bucket=bucket, key=_of_run(f"{prefix}{{}}/{_ITEMS}")),
        item_selector={
            "models": sfn.JsonPath.string_at("$$.Map.Item.Value.models"),
            "results": sfn.JsonPath.format(
                f"{results}{{}}.json",
                sfn.JsonPath.execution_name,
                sfn.JsonPath.string_at("$$.Map.Item.Index"),
            ),
        },
        max_concurrency=runs.max_concurrency,
        tolerated_failure_percentage=100,
        result_path=sfn.JsonPath.DISCARD,
    )


def _one_build(runs: BuildRuns) -> sfn.IChainable:
    """The build of an item; once more if its machine failed, which built what it had built by then."""
    values = {
        "FLEET_MODELS": sfn.JsonPath.string_at("$.models"),
        "FLEET_RESULTS": sfn.JsonPath.string_at("$.results"),
    }
    failed = sfn.Fail(runs, "BuildFailed", error_path=f"{_ERROR}.Error", cause_path=f"{_ERROR}.Cause")
    why = (
        sfn.Choice(runs, "WhyFailed")
        .when(
            sfn.Condition.string_matches(f"{_ERROR}.Cause", _MACHINE_FAILED),
            _build(runs, "BuildAgain", runs.builds.project, values),
        )
        .otherwise(failed)
    )
    return _build(runs, "Build", runs.builds.project, values).add_catch(
        why, errors=[_FAILED], result_path=_ERROR
    )


def _failed(scope: Construct, document: str, topic: sns.ITopic | None) -> sfn.IChainable:
    """The end of a run in which a model failed: it names what to read."""
    message = (
        "Not every model was built. Those that were are published. "
        f"Which were not, and why: {document}; without that, the log of the build that writes it."
    )
    name = sfn.Pass(scope, "NameSummary", parameters={"message": _of_run(message)})
    failed = sfn.Fail(scope, "ModelsFailed", error="ModelsFailed", cause_path="$.message")
    if topic is None:
        return name.next(failed)
    notify = tasks.SnsPublish(
        scope,
        "Notify",
        topic=topic,
        subject="Models were not built",
        message=sfn.TaskInput.from_json_path_at("$.message"),
        result_path=sfn.JsonPath.DISCARD,
    )
    # Without the notice, the run itself shows it.
    notify.add_catch(failed, result_path=_ERROR)
    return name.next(notify).next(failed)
