"""The build job: makes the models on the hardware that serves them, with the TensorRT that loads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from triton_fleet.arguments.values import literal_texts, time_problem
from triton_fleet.build_machines import BUILD_MACHINES, CPU_BUILD_MACHINE, BuildMachine
from triton_fleet.images.image import TritonImage
from triton_fleet.repository.model_repository import ModelRepository
from triton_fleet.rules.build_gpu import build_gpu, build_region
from triton_fleet.rules.gpu_generation import gpu_generation
from triton_fleet.rules.image_published import image_published, image_region
from triton_fleet.rules.plan_portability import PlanTarget
from triton_models.instances import DEFAULT_INSTANCE_TYPE, Gpu
from triton_models.instances import instance_type as find_instance_type
from triton_models.releases import DEFAULT_RELEASE, Release
from triton_models.releases import release as find_release
from triton_models.suggest import did_you_mean

# What tools leave behind in the source folder; with it, the same source would not be the same asset.
_NOT_SOURCE = ("**/__pycache__", "**/.*_cache", "**/*.egg-info", "**/.DS_Store", "/build", "/artifacts")

_BUILD = 'python3 -m triton_models build $FLEET_MODELS -o build --release "$FLEET_RELEASE"'
_FOR_A_GPU = '${FLEET_GPU:+--gpu "$FLEET_GPU"}'
_FOR_A_CPU = "--cpu"


def _commands(gpu: Gpu | None) -> Mapping[str, Sequence[str]]:
    """What a build runs, by phase."""
    return {
        "install": ("python3 -m pip install --quiet --requirement requirements.txt",),
        "build": (
            f"{_BUILD} {_FOR_A_GPU if gpu else _FOR_A_CPU}",
            "python3 -m triton_models check build/*",
            "python3 -m triton_models pack build/* -o artifacts",
            'python3 -m triton_models publish artifacts/*.tar.gz --repository "$FLEET_REPOSITORY"',
        ),
    }


class ModelBuilds(Construct):
    """A CodeBuild project that builds models on the hardware that serves them, and publishes them.

    It runs in the Triton image of the release, on the GPU model of the endpoint's instance type: a TensorRT
    plan loads in no other version and runs on no other GPU. For an instance type without a GPU it runs on a
    machine without one, and compiles nothing: what would be a plan stays an ONNX file, and ONNX Runtime
    serves it. A build runs the same commands that a person types: build, check, pack, publish. Start one with
    `aws codebuild start-build`, for fewer models with another FLEET_MODELS.

    Attributes:
        project: The CodeBuild project.
        gpu: The GPU model that compiles; None if nothing is compiled.
        release: The Triton release, with its TensorRT.
        image: The image of the release.
        source: The source folder as an asset.
        role: What a build may do.
        log_group: Where builds log.
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
            timeout: Two hours by default.
            log_retention: How long a build's log is kept. It is the record of how a model was made.

        Raises:
            FleetError: An unknown instance type, release or model, a GPU or region that CodeBuild does not
                have, a source folder that is none, or an endpoint of the repository with another GPU or
                TensorRT. All that apply are named.
        """
        super().__init__(scope, construct_id)
        self.repository = repository
        self.gpu, self.release = self._checked(instance_type, release, Path(source), models, timeout)
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
        self.role = self._build_role()
        self.project = self._project(models, timeout or Duration.hours(2))

    def _checked(
        self, instance_type: str, release: str, source: Path, models: Sequence[str], timeout: Duration | None
    ) -> tuple[Gpu | None, Release]:
        """The facts behind the arguments, after every check of them."""
        findings = Findings.of(self)
        region = known(Stack.of(self).region)
        where = findings.where("instance_type")
        instance = findings.look_up("instance_type", instance_type, find_instance_type)
        triton = findings.look_up("release", release, find_release)
        gpu = instance.gpu if instance is not None else None
        if gpu is not None:
            findings.add(build_gpu(gpu, where=where), build_region(gpu, region, where=where))
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
                timeout, least=5, most=2160, name="timeout", where=findings.where("timeout"), unit="minutes"
            )
        )
        findings.extend(literal_texts(models, name="models", where=findings.where("models")))
        findings.extend(_source_problems(source, models, findings))
        findings.raise_if_any()
        assert triton is not None  # noqa: S101 -- what is missing was raised
        return gpu, triton

    def _build_role(self) -> iam.Role:
        """A role that can read its source, pull one image, log, and publish to the repository."""
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "codebuild.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            ),
            description="What a build of models may do",
        )
        self.repository.grant_publish(role)
        for statement in (*self.image.pull_statements(), *self._own_statements()):
            role.add_to_policy(statement)
        return role

    def _own_statements(self) -> list[iam.PolicyStatement]:
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

    def _project(self, models: Sequence[str], timeout: Duration) -> codebuild.Project:
        hardware = self.gpu.name if self.gpu else "CPUs"
        return codebuild.Project(
            self,
            "Resource",
            description=f"Builds models for {hardware} and Triton {self.release.name}",
            source=codebuild.Source.s3(bucket=self.source.bucket, path=self.source.s3_object_key),
            environment=codebuild.BuildEnvironment(
                build_image=self._build_image(),
                compute_type=_compute_type(BUILD_MACHINES[self.gpu.name] if self.gpu else CPU_BUILD_MACHINE),
                privileged=False,
            ),
            environment_variables={
                name: codebuild.BuildEnvironmentVariable(value=value)
                for name, value in self._variables(models).items()
            },
            build_spec=codebuild.BuildSpec.from_object(_build_spec(self.gpu)),
            logging=codebuild.LoggingOptions(
                cloud_watch=codebuild.CloudWatchLoggingOptions(log_group=self.log_group)
            ),
            timeout=timeout,
            encryption_key=self.repository.key,
            grant_report_group_permissions=False,  # no reports are made
            # The role is complete as it stands: the CDK would add wildcards to it.
            role=self.role.without_policy_updates(),
        )

    def _build_image(self) -> codebuild.IBuildImage:
        """The image, in CodeBuild's environment with or without a GPU."""
        image = self.image
        if self.gpu is None:
            # Pulled with the project's role, as CodeBuild calls any image that is not its own.
            return codebuild.LinuxBuildImage.from_docker_registry(image.uri)
        return codebuild.LinuxGpuBuildImage.aws_deep_learning_containers_image(
            image.repository_name, image.tag, image.account
        )

    def _variables(self, models: Sequence[str]) -> dict[str, str]:
        compiled = {"FLEET_GPU": self.gpu.name} if self.gpu else {}
        return compiled | {
            "FLEET_RELEASE": self.release.name,
            "FLEET_MODELS": " ".join(models),
            "FLEET_REPOSITORY": self.repository.url,
        }


def _compute_type(machine: BuildMachine) -> codebuild.ComputeType:
    return codebuild.ComputeType[machine.compute_type.removeprefix("BUILD_GENERAL1_")]


def _build_spec(gpu: Gpu | None) -> dict[str, object]:
    return {
        "version": "0.2",
        "env": {
            "shell": "bash",
            # The image's Python is marked as managed by Ubuntu; the container is thrown away after the build.
            "variables": {"PIP_BREAK_SYSTEM_PACKAGES": "1"},
        },
        "phases": {phase: {"commands": list(commands)} for phase, commands in _commands(gpu).items()},
    }


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
