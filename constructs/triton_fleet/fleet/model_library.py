"""A model repository, and what builds the models in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from triton_fleet.builds.build_runs import BuildRuns
from triton_fleet.builds.model_build_project import ModelBuildProject
from triton_fleet.endpoint.functions.automatic_builds import AutomaticBuilds
from triton_fleet.endpoint.functions.deployment_build import DeploymentBuild
from triton_fleet.fleet.accepted_findings import accept, in_automatic_builds, in_builds, in_repository
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.network.endpoint_network import EndpointNetwork
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_fleet.parts.serving import Serving
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report

FLEET_MODELS = Check(id="fleet-models", source=FROM_ARGUMENTS)
WAIT_FOR_BUILD = Check(id="wait-for-build", source=FROM_ARGUMENTS)

_NOTHING: Mapping[str, str] = MappingProxyType({})


@typed
class ModelLibrary(Construct):
    """A model repository with its build job, which outlives endpoints and changes when models do.

    Findings of AwsSolutions about it are accepted, each with its reason.

    Attributes:
        builds: The build job; None if no models are built.
        built: The names of the models that are built.
        source: The folder of their declarations; None if no models are built.
        runs: Runs of several builds at a time; None if one build makes all models.
        deployment_build: Starts a build in a deployment; None if nothing does.
        automatic_builds: Starts runs without a deployment; None if nothing does.
        serving: What models are built for.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        source: str | Path | None = None,
        models: Sequence[str] | None = None,
        serving: Serving | None = None,
        weights: Mapping[str, str] = _NOTHING,
        weights_from: Sequence[str] = (),
        hub_token: secretsmanager.ISecret | None = None,
        source_key: kms.IKey | None = None,
        bucket: s3.IBucket | None = None,
        encryption_key: kms.IKey | None = None,
        parallel_builds: int = 1,
        build_on_deployment: bool = True,
        wait_for_build: bool = False,
        build_on_new_weights: bool = False,
        build_every: Duration | None = None,
        expected_region: str | None = None,
        build_role: iam.IRole | None = None,
        build_environment: Mapping[str, str] = _NOTHING,
        build_network: EndpointNetwork | None = None,
    ) -> None:
        """Create the repository, and what builds for it.

        Args:
            source: The folder that holds models/, such as `model_builds`. None if artifacts are built
                elsewhere.
            models: The models to build: folders in models/, or `folder:form`. By default every folder.
            serving: What the endpoint serves with, which models are built for.
            bucket: An existing bucket for the models. By default a new one.
            encryption_key: The key that encrypts the bucket. By default a new one.
            parallel_builds: The most builds at a time. 1 is one build of all models; more are a state machine
                that divides the models that changed among builds. Automatic builds need it in any case.
            build_on_deployment: Start a build in every deployment that changes what a build would make.
            wait_for_build: Let a deployment wait up to an hour for the build it starts, and fail with it.
            build_on_new_weights: Build what has changed when weights arrive in S3, without a deployment. See
                `AutomaticBuilds`.
            build_every: The interval at which to build what has changed, without a deployment.

        The other arguments are those of `ModelBuildProject`, some with `build_` before their names.
        """
        super().__init__(scope, construct_id)
        report = Report(self.node.path)
        if models and source is None:
            report.at("models")(
                FLEET_MODELS,
                f"there is no source for models {', '.join(models)}",
                fix='give source="model_builds", the folder that holds models/',
            )
        if wait_for_build and (source is None or not build_on_deployment):
            report.at("wait_for_build")(
                WAIT_FOR_BUILD,
                "wait_for_build is true, and no deployment starts a build",
                fix="remove wait_for_build, or set models and build_on_deployment",
            )
        automatic = build_on_new_weights or build_every is not None
        if automatic and source is None:
            report.at("build_on_new_weights" if build_on_new_weights else "build_every")(
                FLEET_MODELS,
                "there is nothing to build",
                fix='give source="model_builds", the folder that holds models/, or remove this',
            )
        report.raise_if_any()
        self.serving = serving or Serving()
        self.source = Path(source) if source is not None else None
        self.repository = ModelRepository(self, "Repository", bucket=bucket, encryption_key=encryption_key)
        self.builds: ModelBuildProject | None = None
        self.built: tuple[str, ...] = ()
        self.runs: BuildRuns | None = None
        self.deployment_build: DeploymentBuild | None = None
        self.automatic_builds: AutomaticBuilds | None = None
        accept(in_repository(self.repository))
        if self.source is None:
            return
        self.builds = ModelBuildProject(
            self,
            "Builds",
            repository=self.repository,
            source=self.source,
            models=models,
            serving=self.serving,
            weights=weights,
            weights_from=weights_from,
            hub_token=hub_token,
            source_key=source_key,
            expected_region=expected_region,
            role=build_role,
            environment=build_environment,
            network=build_network,
        )
        self.built = tuple(self.builds.models or self.builds.declared)
        if parallel_builds != 1 or automatic:
            self.runs = BuildRuns(self, "Runs", builds=self.builds, max_concurrency=parallel_builds)
        if build_on_deployment:
            self.deployment_build = DeploymentBuild(self, "DeploymentBuild", builds=self.runs or self.builds)
            if wait_for_build:
                self.deployment_build.wait()
        if self.runs is not None and automatic:
            self.automatic_builds = AutomaticBuilds(
                self,
                "AutomaticBuilds",
                runs=self.runs,
                on_new_weights=build_on_new_weights,
                every=build_every,
            )
            accept(in_automatic_builds(self.automatic_builds))
        accept(in_builds(self.builds, self.runs, self.deployment_build))
