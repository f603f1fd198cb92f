"""The models: where they are kept, and the job that builds them."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from stacks.config import EVERY_MODEL, FleetConfig
from triton_fleet import BuildRuns, DeploymentBuild, ModelBuilds, ModelRepository, OnDemandMachine

SOURCE = Path(__file__).parent.parent / "model_builds"


class ModelsStack(Stack):
    """The model repository and its build job. It outlives endpoints, and changes when models do.

    Attributes:
        repository: Where the models are.
        builds: The build job; None if no models are to be built by it.
        built: The models that it builds.
        runs: Runs of several builds at a time; None if one build makes all models.
        deployment_build: What starts a build in a deployment; None if nothing does.
    """

    def __init__(self, scope: Construct, construct_id: str, *, config: FleetConfig) -> None:
        """Wire the stack.

        Args:
            scope: The app.
            construct_id: The stack's name.
            config: The fleet's configuration.
        """
        super().__init__(
            scope,
            construct_id,
            env=Environment(region=config.region),
            description="Triton Fleet: the model repository and the job that builds models for it",
        )
        self.repository = ModelRepository(
            self, "Repository", bucket=self._bucket(config.bucket), encryption_key=self._key(config)
        )
        self.builds: ModelBuilds | None = None
        self.built: tuple[str, ...] = ()
        self.runs: BuildRuns | None = None
        self.deployment_build: DeploymentBuild | None = None
        if config.models:
            self.builds = ModelBuilds(
                self,
                "Builds",
                repository=self.repository,
                source=SOURCE,
                models=None if config.models == (EVERY_MODEL,) else config.models,
                instance_type=config.instance_type,
                release=config.release,
                cpu_image=config.cpu_image,
                weights=config.weights,
                hub_token=self._hub_token(config.hub_token),
                source_key=self._asset_key(config.asset_key),
                expected_region=config.deployed_in,
            )
            self.built = self.builds.models or self.builds.declared
            if config.parallel_builds > 1:
                self.runs = BuildRuns(
                    self, "Runs", builds=self.builds, max_concurrency=config.parallel_builds
                )
                CfnOutput(
                    self,
                    "BuildRunsArn",
                    value=self.runs.state_machine.state_machine_arn,
                    description="Builds what changed: aws stepfunctions start-execution "
                    "--state-machine-arn ...",
                )
            if config.build_on_deployment:
                self.deployment_build = DeploymentBuild(
                    self, "DeploymentBuild", builds=self.runs or self.builds
                )
            CfnOutput(
                self,
                "BuildProjectName",
                value=self.builds.project.project_name,
                description="Builds and publishes the models: aws codebuild start-build --project-name ...",
            )
            machine = self.builds.machine
            if not isinstance(machine.choice, OnDemandMachine):
                CfnOutput(self, "BuildMachine", value=machine.name, description=machine.reason)
        CfnOutput(
            self,
            "RepositoryUrl",
            value=self.repository.url,
            description="Where models are published: fleet publish --repository ...",
        )

    def _bucket(self, name: str) -> s3.IBucket | None:
        return s3.Bucket.from_bucket_name(self, "Kept", name) if name else None

    def _key(self, config: FleetConfig) -> kms.IKey | None:
        arn = config.encryption_key
        return kms.Key.from_key_arn(self, "KeptKey", arn) if arn else None

    def _asset_key(self, arn: str) -> kms.IKey | None:
        return kms.Key.from_key_arn(self, "AssetKey", arn) if arn else None

    def _hub_token(self, arn: str) -> secretsmanager.ISecret | None:
        return secretsmanager.Secret.from_secret_complete_arn(self, "HubToken", arn) if arn else None
