"""Builds models as a part of a deployment."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import jsii
from aws_cdk import CustomResource, Duration, IStableListProducer, Lazy, Stack
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from triton_fleet.builds.build_runs import BuildRuns
from triton_fleet.builds.machines import OnDemandMachine, ProcessingJob
from triton_fleet.builds.model_build_project import ModelBuildProject
from triton_fleet.builds.working_folder import runs
from triton_fleet.endpoint.functions.artifact_ready import artifact_timeout as check_timeout
from triton_fleet.endpoint.functions.artifact_ready import waiting
from triton_fleet.endpoint.functions.inline_function import InlineFunction
from triton_fleet.parts.arguments.checks import look_up
from triton_fleet.parts.arguments.late import LateProblems
from triton_fleet.parts.arguments.roles import policy_of
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.suggest import did_you_mean
from triton_models.facts.quotas import PROCESSING_TOTAL, processing_quota, quota_codes
from triton_models.repository.manifest import MANIFEST_NAME

DEPLOYED_MODEL = Check(id="deployed-model", source=FROM_ARGUMENTS)

_ONE_HOUR = Duration.hours(1)
# In bytes. CloudFormation takes 4096 for an answer, of which the ids of the stack and the resource need up to
# 1000. Source, read on 2026-11-21:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html
_LONGEST_DATA = 3000


@jsii.implements(IStableListProducer)
class _Listed:
    """Names as they are when the template is written: `artifact` may be called until then."""

    def __init__(self, names: Callable[[], list[str]]) -> None:
        self._names = names

    def produce(self) -> list[str]:
        return sorted(self._names())


@dataclass(frozen=True, kw_only=True)
class _Answer:
    models: list[str]
    resource: CustomResource

    def has_room_for(self, model: str) -> bool:
        # Each is there as `"<model>": "<model>-<16 digits>.tar.gz", `.
        return sum(2 * len(each.encode()) + 32 for each in (*self.models, model)) <= _LONGEST_DATA


@typed
class DeploymentBuild(Construct):
    """A custom resource that starts a build in every deployment that changes the inputs of the build.

    The inputs are the source folder, the names of the models, the release, the GPU, the weights, the
    machine, the image, and the environment variables. The deployment continues at once, and models are
    published as they are built: a multi-model endpoint serves each from then on. A single-model endpoint
    needs the name of its artifact, which `artifact` returns. For that the deployment waits, and after
    `wait` for all models. If a model fails, the deployment fails with the model's reason.

    A deployment for another target, that is another release or GPU, waits as well, until every model that
    the repository has for other targets is built for the new one, or unchanged there. The endpoint in
    service keeps its artifacts. If a model fails, the deployment fails before it creates anything that
    depends on this.

    CloudFormation waits for an hour at most. Start a longer build before the deployment, and name the
    artifact that it has published. A deployment that is rolled back ends the build that it has started, and
    starts no other. Names that this build has moved already stay: `fleet rollback NAME` returns them.

    Attributes:
        function: The function that starts builds and waits for them.
        resource: The custom resource: its `ref` is the id of the build, or the ARN of the run's execution.
        filled: The custom resource that exists once the target has every model that other targets have.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        builds: ModelBuildProject | BuildRuns,
        artifact_timeout: Duration = _ONE_HOUR,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
    ) -> None:
        """Create the function and the custom resource.

        Args:
            builds: The build to start: one build of all models, or a run of those that changed.
            artifact_timeout: The longest wait of `artifact`, `wait` and `filled`, one minute to one hour. The
                last minute of a full hour is kept for the answer.
        """
        super().__init__(scope, construct_id)
        self._runs = builds if isinstance(builds, BuildRuns) else None
        self._builds = builds.builds if isinstance(builds, BuildRuns) else builds
        report = Report(self.node.path)
        check_timeout(report.at("artifact_timeout"), artifact_timeout)
        report.raise_if_any()
        self._timeout = artifact_timeout
        self._names = list(self._builds.models or self._builds.declared)
        self._folder = runs(self._builds.repository)
        self._answers: list[_Answer] = []
        self.function = InlineFunction(
            self,
            "Function",
            source="deployment_build",
            description="Starts builds of models and waits for them",
            memory_mb=256,  # it reads the results on thousands of models
            log_retention=log_retention,
        )
        LateProblems(self, self._problems_at_synthesis)
        self._allow()
        self._successor = self.function.allow_successor(self)
        if self._runs is None:
            self._builds.role.add_to_principal_policy(self._folder.write_statement("Results"))
        properties = self._what_to_start() | self._quotas() | {"Inputs": self._inputs()}
        self.resource = self.function.resource(
            self, "Resource", "Build", properties, timeout=Duration.minutes(5)
        )
        # Nothing is started before it is allowed all that it does.
        self.resource.node.add_dependency(*self._permissions())
        self.target = self._builds.target
        # Another target is another resource: it is created, and so waited for, and deleted if undone.
        self.filled = self._waiting(f"Filled-{self.target}", "Target", self._names)

    def artifact(self, model: str) -> str:
        """The artifact that the build makes of a model, for `Variant.artifact`.

        The deployment waits for it. A model that nothing has changed about has the artifact it had. Its name
        is that which was given to the build job.
        """
        report = Report(self.node.path)
        look_up(report, "model", model, str)  # a token is no name that anything could be made for
        report.raise_if_any()
        deployed_model(report.at("model"), model, self._builds.models, declared=self._builds.declared)
        report.raise_if_any()
        artifact = self._answer_with(model).resource.get_att_string(model.replace(":", "."))
        self._builds.repository._usage.note_artifact(artifact, job=self._builds.node.path, asked=model)
        return artifact

    def wait(self) -> None:
        """Let the deployment wait until every model is built, or unchanged, and fail if one of them fails.

        For a deployment whose models are tested right after it. It takes up to `artifact_timeout` longer.
        """
        if self.node.try_find_child("Built") is None:
            self._waiting("Built", "Models", self._names)

    def _answer_with(self, model: str) -> _Answer:
        """The custom resource whose answer has the artifact of a model; a new one if the last is full."""
        for answer in self._answers:
            if model in answer.models:
                return answer
        if not self._answers or not self._answers[-1].has_room_for(model):
            models: list[str] = []
            resource = self._waiting(
                f"Artifacts{len(self._answers) + 1 if self._answers else ''}",
                "Artifacts",
                Lazy.list(_Listed(lambda: models)),
            )
            self._answers.append(_Answer(models=models, resource=resource))
        self._answers[-1].models.append(model)
        return self._answers[-1]

    def _problems_at_synthesis(self, report: Report) -> None:
        families = self._builds._families()
        for family in (each for answer in self._answers for each in answer.models if each in families):
            report.at("model")(
                DEPLOYED_MODEL,
                f"{family!r} is a family, whose members have artifacts",
                fix=f"name one of them, '{family}:<member>'",
            )

    def _permissions(self) -> list[IConstruct]:
        roles = [self._builds.role, self._builds.starter_role, self._runs.step_role if self._runs else None]
        policies = [policy_of(role) for role in roles if role is not None]
        return [*policies, self._runs.node.find_child("Children")] if self._runs else policies

    def _what_to_start(self) -> dict[str, object]:
        if self._runs is not None:
            return {"StateMachine": self._runs.state_machine.state_machine_arn}
        return {"Project": self._builds.project.project_name, "Runs": self._folder.url}

    def _quotas(self) -> dict[str, object]:
        """The quotas without which no build would start: of CodeBuild by code, of SageMaker by name."""
        machine = self._builds.machine
        is_job = isinstance(machine.choice, ProcessingJob)
        codes = quota_codes(
            gpu=self._builds.gpu is not None,
            on_demand=isinstance(machine.choice, OnDemandMachine),
            small=is_job or self._runs is not None,
        )
        found = {
            "QuotaCodes": codes,
            "QuotaNames": [processing_quota(machine.name), PROCESSING_TOTAL] if is_job else [],
        }
        return {key: quotas for key, quotas in found.items() if quotas}

    def _inputs(self) -> str:
        """Return the values whose change makes another build necessary. The function does not read them."""
        builds = self._builds
        inputs = {
            "source": builds.source.asset_hash,
            "models": self._names,
            "release": builds.release.name,
            "gpu": builds.gpu.name if builds.gpu else None,
            "weights": dict(sorted(builds.weights.items())),
            "machine": builds.machine.name,
            "image": builds.image.uri,
            "environment": dict(sorted(builds.environment.items())),
            "hub_token": builds.hub_token.secret_arn if builds.hub_token else None,
        }
        return Stack.of(self).to_json_string(inputs)

    def _waiting(self, construct_id: str, kind: str, models: list[str]) -> CustomResource:
        properties = {
            "Build": self.resource.ref,
            "Run": self.resource.get_att_string("Run"),
            "Models": models,
            "Families": Lazy.list(_Listed(self._builds._families), omit_empty=True),
            "Target": str(self._builds.target),
            "Bucket": self._folder.repository.bucket.bucket_name,
            "RunsPrefix": self._folder.prefix,
            "ManifestKey": f"{self._folder.repository.prefix}{MANIFEST_NAME}",
        }
        resource = self.function.resource(self, construct_id, kind, **waiting(properties, self._timeout))
        resource.node.add_dependency(self._successor)
        return resource

    def _allow(self) -> None:
        allow, quotas, repository = self.function.allow, self._quotas(), self._folder.repository
        if self._runs is None:
            actions = ["codebuild:StartBuild", "codebuild:StopBuild", "codebuild:BatchGetBuilds"]
            allow("Builds", actions, [self._builds.project.project_arn])
        else:
            allow("Runs", ["states:StartExecution"], [self._runs.state_machine.state_machine_arn])
            actions = ["states:DescribeExecution", "states:StopExecution"]
            allow("Executions", actions, [self._runs.execution_arns[-1]])
        if quotas:
            actions = ["servicequotas:GetServiceQuota", "servicequotas:GetAWSDefaultServiceQuota"]
            if "QuotaNames" in quotas:  # their codes are looked up
                actions.append("servicequotas:ListAWSDefaultServiceQuotas")
            allow("Quotas", actions, ["*"])  # Service Quotas limits reading to no resource
        manifest = f"{repository.prefix}{MANIFEST_NAME}"
        read = [self._folder.objects_arn, repository.bucket.arn_for_objects(manifest)]
        allow("Results", ["s3:GetObject"], read)
        prefixes = [f"{self._folder.prefix}*", manifest]
        allow("ResultsListed", ["s3:ListBucket"], [repository.bucket.bucket_arn], prefixes=prefixes)
        allow("ResultsKey", ["kms:Decrypt"], [repository.key.key_arn])
        allow("Rollback", ["cloudformation:DescribeStacks"], [Stack.of(self).stack_id])


def deployed_model(
    report: Report, model: str, models: Collection[str] | None, *, declared: Collection[str]
) -> None:
    """Report problems if the build does not make the model of a requested artifact."""
    made = sorted(declared if models is None else models)
    if model in made or (models is None and model.partition(":")[0] in made):
        return
    report(
        DEPLOYED_MODEL,
        f"the build has no model {model!r}",
        fix=did_you_mean(model, made, otherwise=f"add {model!r} to the models of ModelBuildProject"),
        why="the deployment would wait for it, time out and fail",
    )
