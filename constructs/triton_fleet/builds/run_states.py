"""The state machine of a run: find what changed, build it in parallel, report how every model came out.

Written with JSONPath. A run keeps everything in a folder of the repository's bucket, and hands from state to
state no more than where that is: thousands of models would not fit into a state's 256 KiB.

Sources, read on 2026-11-21:
https://docs.aws.amazon.com/step-functions/latest/dg/connect-codebuild.html
https://docs.aws.amazon.com/step-functions/latest/dg/state-map-distributed.html
https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html (256 KiB, 10 000 children)
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_sns as sns
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from triton_fleet.builds.working_folder import WorkingFolder

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


def definition(
    scope: Construct,
    *,
    changed: codebuild.IProject,
    builds: codebuild.IProject,
    summary: codebuild.IProject,
    folder: WorkingFolder,
    max_concurrency: int,
    topic: sns.ITopic | None,
) -> sfn.IChainable:
    """The states of a run."""
    items, results, document = (f"{folder.url}{{}}/{name}" for name in (ITEMS, RESULTS, SUMMARY))
    find = _build(
        scope,
        "FindChanged",
        changed,
        {"FLEET_ITEMS": _of_run(items), "FLEET_RESULTS": _of_run(f"{results}changed.json")},
    )
    parallel = _map(scope, folder, results=results, max_concurrency=max_concurrency)
    parallel.item_processor(_one_build(scope, builds))
    summarize = _build(
        scope,
        "Summarize",
        summary,
        {
            "FLEET_ITEMS": _of_run(items),
            "FLEET_RESULTS": _of_run(results),
            "FLEET_SUMMARY": _of_run(document),
        },
    )
    # Whatever became of the builds, the summary says it: no item at all is not a failure, and of a list that
    # could not be read every model is without a result.
    parallel.add_catch(summarize, result_path=_ERROR)
    summarize.add_catch(_failed(scope, document, topic), result_path=_ERROR)
    return find.next(parallel).next(summarize)


LABEL = "Builds"
"""What the executions of the Distributed Map have in their names."""

ITEMS = "items.json"
"""What each build of a run is to make."""

RESULTS = "results/"
"""How each model came out, in a document for each build."""

SUMMARY = "summary.json"
"""How all of them came out."""


def _of_run(pattern: str) -> str:
    """An address in which the run's name stands for {}."""
    return sfn.JsonPath.format(pattern, sfn.JsonPath.execution_name)


def _build(
    scope: Construct, name: str, project: codebuild.IProject, variables: Mapping[str, str]
) -> tasks.CodeBuildStartBuild:
    """A build, until it has ended; started again only if it could not be started."""
    state = tasks.CodeBuildStartBuild(
        scope,
        name,
        project=project,
        integration_pattern=sfn.IntegrationPattern.RUN_JOB,
        environment_variables_override={
            variable: codebuild.BuildEnvironmentVariable(value=value) for variable, value in variables.items()
        },
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


def _map(
    scope: Construct, folder: WorkingFolder, *, results: str, max_concurrency: int
) -> sfn.DistributedMap:
    """A build for each item. However many fail, the others go on: their results say which did."""
    return sfn.DistributedMap(
        scope,
        "BuildChanged",
        label=LABEL,
        map_execution_type=sfn.StateMachineType.STANDARD,  # an express one ends after five minutes
        item_reader=sfn.S3JsonItemReader(
            bucket=folder.repository.bucket, key=_of_run(f"{folder.prefix}{{}}/{ITEMS}")
        ),
        item_selector={
            "models": sfn.JsonPath.string_at("$$.Map.Item.Value.models"),
            "results": sfn.JsonPath.format(
                f"{results}{{}}.json",
                sfn.JsonPath.execution_name,
                sfn.JsonPath.string_at("$$.Map.Item.Index"),
            ),
        },
        max_concurrency=max_concurrency,
        tolerated_failure_percentage=100,
        result_path=sfn.JsonPath.DISCARD,
    )


def _one_build(scope: Construct, project: codebuild.IProject) -> sfn.IChainable:
    """The build of an item; once more if its machine failed, which built what it had built by then."""
    variables = {
        "FLEET_MODELS": sfn.JsonPath.string_at("$.models"),
        "FLEET_RESULTS": sfn.JsonPath.string_at("$.results"),
    }
    failed = sfn.Fail(scope, "BuildFailed", error_path=f"{_ERROR}.Error", cause_path=f"{_ERROR}.Cause")
    why = (
        sfn.Choice(scope, "WhyFailed")
        .when(
            sfn.Condition.string_matches(f"{_ERROR}.Cause", _MACHINE_FAILED),
            _build(scope, "BuildAgain", project, variables),
        )
        .otherwise(failed)
    )
    return _build(scope, "Build", project, variables).add_catch(why, errors=[_FAILED], result_path=_ERROR)


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
