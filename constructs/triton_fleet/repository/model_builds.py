"""The build job: makes the models on the hardware that serves them, with the TensorRT that loads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from aws_cdk import Duration, IgnoreMode, RemovalPolicy, Stack
from aws_cdk import aws_codebuild as codebuild
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from triton_fleet.arguments.findings import Findings, Problem
from triton_fleet.arguments.tokens import known
from triton_fleet.arguments.typed import typed
from triton_fleet.arguments.values import literal_needed, literal_texts, time_problem
from triton_fleet.images.image import TritonImage
from triton_fleet.repository import processing_builds
from triton_fleet.repository.build_commands import build_spec, commands
from triton_fleet.repository.build_machine import (
    BuildMachineChoice,
    OnDemandMachine,
    ProcessingJob,
    build_machine,
    machine_problems,
)
from triton_fleet.repository.build_project import build_environment, starter_environment, variables
from triton_fleet.repository.model_repository import ModelRepository
from triton_fleet.rules.gpu_generation import gpu_generation
from triton_fleet.rules.image_published import image_published, image_region
from triton_fleet.rules.plan_portability import PlanTarget
from triton_models.instances import DEFAULT_INSTANCE_TYPE, InstanceType
from triton_models.instances import instance_type as find_instance_type
from triton_models.releases import DEFAULT_RELEASE, Release
from triton_models.releases import release as find_release
from triton_models.suggest import did_you_mean

# What tools leave behind in the source folder; with it, the same source would not be the same asset.
_NOT_SOURCE = ("**/__pycache__", "**/.*_cache", "**/*.egg-info", "**/.DS_Store", "/build", "/artifacts")

# A Processing job gets an instance and pulls the image before it begins.
_JOB_START_MINUTES = 30
_LONGEST_BUILD_MINUTES = 2160


class ModelBuilds(Construct):
    """A CodeBuild project that builds models on the hardware that serves them, and publishes them.

    It runs in the Triton image of the release, on the GPU model of the endpoint's instance type: a TensorRT
    plan loads in no other version and runs on no other GPU. For an instance type without a GPU it runs on a
    machine without one, and compiles nothing: what would be a plan stays an ONNX file, and ONNX Runtime
    serves it. A build runs the same commands that a person types: build, check, pack, publish. Start one with
    `aws codebuild start-build`, for fewer models with another FLEET_MODELS.

    CodeBuild has few GPUs on demand. For any other the project starts a SageMaker Processing job on the
    endpoint's own instance type, and ends as the job ends; `machine.reason` says which and why.

    Attributes:
        project: The CodeBuild project.
        machine: What builds run on, and why.
        gpu: The GPU model that compiles; None if nothing is compiled.
        release: The Triton release, with its TensorRT.
        image: The image of the release.
        source: The source folder as an asset.
        role: What a build may do.
        starter_role: What the project may do where it only starts a Processing job; else None.
        log_group: Where builds log; of a Processing job a copy of its own log.
    """

    @typed
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: ModelRepository,
        source: str | Path,
        models: Sequence[str],
        instance_type: str = DEFAULT_INSTANCE_TYPE,
        release: str = DEFAULT_RELEASE,
        machine: BuildMachineChoice | None = None,
        timeout: Duration | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.THREE_MONTHS,
    ) -> None:
        """Create the project; it builds nothing until it is started.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            repository: Where the artifacts are published.
            source: The folder that holds requirements.txt, triton_models/ and models/. It is uploaded at
                deployment, and a change to it is a new version of the project.
            models: Names of the folders in models/ that a build makes.
            instance_type: The endpoint's instance type: it decides the GPU to compile on, or that there is
                none.
            release: The endpoint's Triton release: it decides the TensorRT to compile with.
            machine: What builds run on: OnDemandMachine, ProcessingJob or ReservedMachines. By default what
                has the GPU and costs nothing while idle: CodeBuild on demand, or else a Processing job.
                Reserved machines are billed while they exist, so they are never chosen unasked.
            timeout: Two hours by default.
            log_retention: How long a build's log is kept. It is the record of how a model was made.

        Raises:
            FleetError: An unknown instance type, release or model, a GPU that no build machine has, or not in
                the region, a source folder that is none, or an endpoint of the repository with another GPU
                or TensorRT. All that apply are named.
        """
        super().__init__(scope, construct_id)
        self.repository = repository
        instance, self.release = self._checked(
            instance_type=instance_type,
            release=release,
            source=Path(source),
            models=models,
            timeout=timeout,
            machine=machine,
        )
        self.gpu = instance.gpu
        self.machine = build_machine(machine, instance, known(Stack.of(self).region))
        self.image = TritonImage.of(self, release=self.release, cpu=self.gpu is None)
        self.source = assets.Asset(
            self,
            "Source",
            path=str(source),
            exclude=list(_NOT_SOURCE),
            ignore_mode=IgnoreMode.GIT,
            display_name="Model builds",
        )
        self.log_group = logs.LogGroup(
            self, "Logs", retention=log_retention, removal_policy=RemovalPolicy.DESTROY
        )
        self.starter_role: iam.Role | None = None
        timeout = timeout or Duration.hours(2)
        if isinstance(self.machine.choice, ProcessingJob):
            self.role, self.project = self._processing_job(models, timeout)
        else:
            self.role, self.project = self._codebuild(models, timeout)

    def _checked(
        self,
        *,
        instance_type: str,
        release: str,
        source: Path,
        models: Sequence[str],
        timeout: Duration | None,
        machine: BuildMachineChoice | None,
    ) -> tuple[InstanceType, Release]:
        """The facts behind the arguments, after every check of them."""
        findings = Findings.of(self)
        region = known(Stack.of(self).region)
        where = findings.where("instance_type")
        instance = findings.look_up("instance_type", instance_type, find_instance_type)
        triton = findings.look_up("release", release, find_release)
        gpu = instance.gpu if instance is not None else None
        if instance is not None:
            findings.extend(_machine_problems(machine, instance, region, timeout, findings))
        if triton is not None:
            findings.add(
                image_published(triton, where=findings.where("release")),
                image_region(triton, region, where=findings.where("release")),
            )
        if gpu is not None and triton is not None:
            findings.add(gpu_generation(gpu, triton, where=where))
        if instance is not None and triton is not None:
            target = PlanTarget(gpu=gpu, release=triton, path=self.node.path)
            findings.extend(self.repository.compiled_for(target, where=where))
        findings.add(
            time_problem(
                timeout,
                least=5,
                most=_LONGEST_BUILD_MINUTES,
                name="timeout",
                where=findings.where("timeout"),
                unit="minutes",
            )
        )
        findings.extend(literal_texts(models, name="models", where=findings.where("models")))
        findings.extend(_source_problems(source, models, findings))
        findings.raise_if_any()
        assert instance is not None and triton is not None  # noqa: S101, PT018 -- what is missing was raised
        return instance, triton

    def _codebuild(self, models: Sequence[str], timeout: Duration) -> tuple[iam.Role, codebuild.Project]:
        """The role and the project of builds that CodeBuild runs itself."""
        role = self._build_role("codebuild.amazonaws.com", self._own_statements())
        project = self._project(
            role=role,
            source=codebuild.Source.s3(bucket=self.source.bucket, path=self.source.s3_object_key),
            environment=build_environment(
                self, machine=self.machine, image=self.image, gpu=self.gpu is not None
            ),
            values=self._variables(models),
            spec=build_spec(commands(self.gpu)),
            timeout=timeout,
        )
        return role, project

    def _processing_job(self, models: Sequence[str], timeout: Duration) -> tuple[iam.Role, codebuild.Project]:
        """The role of a job, and the project that starts it and waits."""
        assert self.gpu is not None  # noqa: S101 -- else there would be no job
        role = self._build_role(
            processing_builds.SERVICE, processing_builds.job_statements(self, source=self.source)
        )
        self.starter_role = self._role("StarterRole", "codebuild.amazonaws.com", "What starts a build may do")
        for statement in processing_builds.starter_statements(self, job_role=role, log_group=self.log_group):
            self.starter_role.add_to_policy(statement)
        stack = Stack.of(self)
        request = processing_builds.job_request(
            image=self.image,
            role=role,
            source=self.source,
            instance_type=self.machine.name,
            gpu=self.gpu,
            seconds=timeout.to_seconds(),
            region=stack.region,
        )
        job = {
            "FLEET_JOB": stack.to_json_string(request),
            "FLEET_JOB_PREFIX": processing_builds.job_prefix(self),
        }
        project = self._project(
            role=self.starter_role,
            source=None,
            environment=starter_environment(),
            values=self._variables(models) | job,
            spec=build_spec({"build": [processing_builds.program()]}),
            timeout=_with_start(timeout),
        )
        # The job's permissions are there before anyone can start one.
        project.node.add_dependency(role.node.find_child("DefaultPolicy"))
        return role, project

    def _role(self, construct_id: str, service: str, description: str) -> iam.Role:
        return iam.Role(
            self,
            construct_id,
            assumed_by=iam.ServicePrincipal(
                service, conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}}
            ),
            description=description,
        )

    def _build_role(self, service: str, own: Sequence[iam.PolicyStatement]) -> iam.Role:
        """A role that can publish to the repository, pull one image, and do what is its own."""
        role = self._role("Role", service, "What a build of models may do")
        self.repository.grant_publish(role)
        for statement in (*self.image.pull_statements(), *own):
            role.add_to_policy(statement)
        return role

    def _own_statements(self) -> list[iam.PolicyStatement]:
        """What a build in CodeBuild does beside that: read its source, and log."""
        return [
            iam.PolicyStatement(
                sid="Source",
                actions=["s3:GetObject", "s3:GetObjectVersion"],
                resources=[self.source.bucket.arn_for_objects(self.source.s3_object_key)],
            ),
            iam.PolicyStatement(
                sid="Logs",
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[self.log_group.log_group_arn],
            ),
        ]

    def _project(
        self,
        *,
        role: iam.Role,
        source: codebuild.ISource | None,
        environment: codebuild.BuildEnvironment,
        values: dict[str, str],
        spec: dict[str, object],
        timeout: Duration,
    ) -> codebuild.Project:
        return codebuild.Project(
            self,
            "Resource",
            description=self._description(),
            source=source,
            environment=environment,
            environment_variables=variables(values),
            build_spec=codebuild.BuildSpec.from_object(spec),
            logging=codebuild.LoggingOptions(
                cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=self.log_group)
            ),
            timeout=timeout,
            encryption_key=self.repository.key,
            grant_report_group_permissions=False,  # no reports are made
            # The role is complete as it stands: the CDK would add wildcards to it.
            role=role.without_policy_updates(),
        )

    def _description(self) -> str:
        """What the project does; and of a machine that is not the usual one, why it is that."""
        hardware = self.gpu.name if self.gpu else "CPUs"
        does = f"Builds models for {hardware} and Triton {self.release.name}"
        usual = isinstance(self.machine.choice, OnDemandMachine)
        return does if usual else f"{does}. Machine: {self.machine.reason}"

    def _variables(self, models: Sequence[str]) -> dict[str, str]:
        compiled = {"FLEET_GPU": self.gpu.name} if self.gpu else {}
        return compiled | {
            "FLEET_RELEASE": self.release.name,
            "FLEET_MODELS": " ".join(models),
            "FLEET_REPOSITORY": self.repository.url,
        }


def _machine_problems(
    choice: BuildMachineChoice | None,
    instance: InstanceType,
    region: str | None,
    timeout: Duration | None,
    findings: Findings,
) -> Iterator[Problem]:
    where, where_instance = findings.where("machine"), findings.where("instance_type")
    found = [
        each
        for each in machine_problems(choice, instance, region, where=where, where_instance=where_instance)
        if each is not None
    ]
    yield from found
    if found or timeout is None or not timeout.is_unresolved():
        return
    if isinstance(build_machine(choice, instance, region).choice, ProcessingJob):
        expected = "a time written down: a Processing job counts in seconds, and a build in minutes"
        yield literal_needed("timeout", where=findings.where("timeout"), expected=expected)


def _with_start(timeout: Duration) -> Duration:
    """The time of a build and of getting its job started."""
    return Duration.minutes(min(timeout.to_minutes() + _JOB_START_MINUTES, _LONGEST_BUILD_MINUTES))


def _source_problems(source: Path, models: Sequence[str], findings: Findings) -> Iterator[Problem]:
    if not (source / "requirements.txt").is_file():
        yield Problem(
            what=f"{source} is not a folder with a requirements.txt",
            where=findings.where("source"),
            expected="the folder that holds requirements.txt, triton_models/ and models/",
            why="it is what the build job downloads, installs from and runs",
            fix="give the path of the folder model_builds/",
            rule="build-source",
        )
        return
    if not models:
        yield Problem(
            what="no model to build",
            where=findings.where("models"),
            expected="one or more names of folders in models/",
            why="a build would do nothing and succeed",
            fix="name a model, or leave ModelBuilds out",
            rule="model-build-exists",
        )
    folders = sorted(path.parent.name for path in source.glob("models/*/build.py"))
    for model in models:
        if model not in folders:
            yield Problem(
                what=f"no model build {model!r}",
                where=findings.where("models"),
                expected=f"a folder with a build.py in {source / 'models'}: {', '.join(folders) or 'none'}",
                why="the build job would fail on it, minutes after it was started",
                fix=did_you_mean(model, folders, otherwise=f"add models/{model}/build.py"),
                rule="model-build-exists",
            )
