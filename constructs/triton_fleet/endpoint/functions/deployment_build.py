"""Builds models as a part of a deployment."""

from __future__ import annotations

from dataclasses import dataclass

import jsii
from aws_cdk import CustomResource, Duration, IStableListProducer, Lazy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from triton_fleet.builds.build_runs import BuildRuns
from triton_fleet.builds.codebuild import permissions_of
from triton_fleet.builds.machines import OnDemandMachine, ProcessingJob
from triton_fleet.builds.model_build_project import ModelBuildProject
from triton_fleet.builds.working_folder import runs
from triton_fleet.endpoint.functions.checks import LONGEST_ARTIFACT_TIMEOUT, artifact_timeout, deployed_model
from triton_fleet.endpoint.functions.inline_function import InlineFunction, allow_successor
from triton_fleet.parts.arguments.checks import look_up
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Report
from triton_models.facts.quota_needs import PROCESSING_TOTAL, processing_quota, quota_codes
from triton_models.repository.manifest import MANIFEST_NAME

# Left of CloudFormation's hour when the function gives up: for its answer, which says what is missing, to
# come before CloudFormation's own, which says nothing.
_SPARE_S = 60
_ONE_HOUR = Duration.hours(1)
# In bytes. CloudFormation takes 4096 for an answer, of which the ids of the stack and the resource need up to
# 1000. Source, read on 2026-11-21:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html
_LONGEST_DATA = 3000


@jsii.implements(IStableListProducer)
class _Listed:
    """Names as they are when the template is written: `artifact` may be called until then."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def produce(self) -> list[str]:
        return sorted(self._names)


@dataclass(frozen=True, kw_only=True)
class _Answer:
    """A custom resource and the models whose artifacts it answers with."""

    models: list[str]
    resource: CustomResource

    def has_room_for(self, model: str) -> bool:
        """Return whether the artifact of one more model fits into the answer."""
        return sum(_answered_bytes(each) for each in (*self.models, model)) <= _LONGEST_DATA


def _answered_bytes(model: str) -> int:
    """The length of `"<model>": "<model>-<16 digits>.tar.gz", ` in an answer."""
    return 2 * len(model.encode()) + 32


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
        target: The target of the build.
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
            scope: The parent construct.
            construct_id: The construct's id.
            builds: The build to start: one build of all models, or a run of those that changed.
            artifact_timeout: The longest wait of `artifact`, `wait` and `filled`, one minute to one hour. The
                last minute of a full hour is kept for the answer.
            log_retention: The retention of the function's log.

        Raises:
            FleetError: A time out of range.
        """
        super().__init__(scope, construct_id)
        self._runs = builds if isinstance(builds, BuildRuns) else None
        self._builds = builds.builds if isinstance(builds, BuildRuns) else builds
        self._seconds = self._checked(artifact_timeout)
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
        self._allow()
        self._successor = allow_successor(self, self.function)
        if self._runs is None:
            self._builds.role.add_to_principal_policy(self._folder.write_statement("Results"))
        self.resource = CustomResource(
            self,
            "Resource",
            resource_type="Custom::TritonBuild",
            service_token=self.function.function.attr_arn,
            service_timeout=Duration.minutes(5),
            properties=self._what_to_start() | self._quotas() | {"Inputs": self._inputs()},
        )
        # Nothing is started before it is allowed all that it does.
        self.resource.node.add_dependency(*self._permissions())
        self.target = self._builds.target
        names = list(self._builds.models or self._builds.declared)
        # Another target is another resource: it is created, and so waited for, and deleted if undone.
        self.filled = self._waiting(f"Filled-{self.target}", "Custom::TritonTarget", names)

    def artifact(self, model: str) -> str:
        """The artifact that the build makes of a model, for `Variant.artifact`.

        The deployment waits for it. A model that nothing has changed about has the artifact it had.

        Args:
            model: Its name, as it was given to the build job.

        Raises:
            FleetError: The build does not make it.
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
            names = list(self._builds.models or self._builds.declared)
            self._waiting("Built", "Custom::TritonModels", names)

    def _answer_with(self, model: str) -> _Answer:
        """The custom resource whose answer has the artifact of a model; a new one if the last is full."""
        for answer in self._answers:
            if model in answer.models:
                return answer
        if not self._answers or not self._answers[-1].has_room_for(model):
            models: list[str] = []
            resource = self._waiting(
                f"Artifacts{len(self._answers) + 1 if self._answers else ''}",
                "Custom::TritonArtifacts",
                Lazy.list(_Listed(models)),
            )
            self._answers.append(_Answer(models=models, resource=resource))
        self._answers[-1].models.append(model)
        return self._answers[-1]

    def _checked(self, timeout: Duration) -> int:
        report = Report(self.node.path)
        seconds = None if timeout.is_unresolved() else timeout.to_milliseconds() / 1000
        artifact_timeout(report.at("artifact_timeout"), seconds)
        report.raise_if_any()
        assert seconds is not None  # noqa: S101 -- what is missing was raised
        return int(seconds)

    def _permissions(self) -> list[IConstruct]:
        """The policies of everything that what is started consists of."""
        roles = [self._builds.role, self._builds.starter_role, self._runs.step_role if self._runs else None]
        policies = [permissions_of(role) for role in roles if role is not None]
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
            "models": list(builds.models or builds.declared),
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
        """The resource that exists once the models are published."""
        resource = CustomResource(
            self,
            construct_id,
            resource_type=kind,
            service_token=self.function.function.attr_arn,
            service_timeout=Duration.seconds(min(self._seconds + _SPARE_S, LONGEST_ARTIFACT_TIMEOUT)),
            properties={
                "Build": self.resource.ref,
                "Run": self.resource.get_att_string("Run"),
                "Models": models,
                "Target": str(self._builds.target),
                "Bucket": self._folder.repository.bucket.bucket_name,
                "RunsPrefix": self._folder.prefix,
                "ManifestKey": f"{self._folder.repository.prefix}{MANIFEST_NAME}",
                "WaitSeconds": min(self._seconds, LONGEST_ARTIFACT_TIMEOUT - _SPARE_S),
            },
        )
        resource.node.add_dependency(self._successor)
        return resource

    def _allow(self) -> None:
        rollback = iam.PolicyStatement(
            sid="Rollback", actions=["cloudformation:DescribeStacks"], resources=[Stack.of(self).stack_id]
        )
        statements = (*self._start_statements(), *self._quota_statements(), *self._read_statements())
        for statement in (*statements, rollback):
            self.function.role.add_to_policy(statement)

    def _start_statements(self) -> list[iam.PolicyStatement]:
        if self._runs is None:
            return [
                iam.PolicyStatement(
                    sid="Builds",
                    actions=["codebuild:StartBuild", "codebuild:StopBuild", "codebuild:BatchGetBuilds"],
                    resources=[self._builds.project.project_arn],
                )
            ]
        return [
            iam.PolicyStatement(
                sid="Runs",
                actions=["states:StartExecution"],
                resources=[self._runs.state_machine.state_machine_arn],
            ),
            iam.PolicyStatement(
                sid="Executions",
                actions=["states:DescribeExecution", "states:StopExecution"],
                resources=[self._runs.execution_arns[-1]],
            ),
        ]

    def _quota_statements(self) -> list[iam.PolicyStatement]:
        quotas = self._quotas()
        if not quotas:
            return []
        actions = ["servicequotas:GetServiceQuota", "servicequotas:GetAWSDefaultServiceQuota"]
        if "QuotaNames" in quotas:  # their codes are looked up
            actions.append("servicequotas:ListAWSDefaultServiceQuotas")
        # Service Quotas limits reading to no resource.
        return [iam.PolicyStatement(sid="Quotas", actions=actions, resources=["*"])]

    def _read_statements(self) -> list[iam.PolicyStatement]:
        """Reading how models came out, and what they are called now."""
        repository = self._folder.repository
        manifest = repository.bucket.arn_for_objects(f"{repository.prefix}{MANIFEST_NAME}")
        return [
            iam.PolicyStatement(
                sid="Results", actions=["s3:GetObject"], resources=[self._folder.objects_arn, manifest]
            ),
            iam.PolicyStatement(
                sid="ResultsListed",
                actions=["s3:ListBucket"],
                resources=[repository.bucket.bucket_arn],
                conditions={
                    "StringLike": {
                        "s3:prefix": [f"{self._folder.prefix}*", f"{repository.prefix}{MANIFEST_NAME}"]
                    }
                },
            ),
            iam.PolicyStatement(
                sid="ResultsKey", actions=["kms:Decrypt"], resources=[repository.key.key_arn]
            ),
        ]
