"""The stack of the models: their repository, and the job that builds them."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import Aspects, CfnOutput, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from triton_fleet import LogEncryption, ModelLibrary, OnDemandMachine
from triton_fleet.app import FleetConfig

SOURCE = Path(__file__).parent.parent / "model_builds"


class ModelsStack(Stack):
    """The model repository and its builds. It outlives endpoints, and changes when models do."""

    def __init__(self, scope: Construct, construct_id: str, *, config: FleetConfig) -> None:
        """Create the model library."""
        super().__init__(
            scope,
            construct_id,
            env=Environment(account=config.account, region=config.region),
            description="Triton Fleet: the model repository and the job that builds models for it",
        )
        self.library = ModelLibrary(
            self,
            "Default",  # adds nothing to the names of what is in it
            source=SOURCE if config.models else None,
            models=config.built_models,
            serving=config.serving(self),
            weights=config.weights,
            weights_from=config.weights_from,
            hub_token=self._hub_token(config.hub_token),
            source_key=self._key("AssetKey", config.asset_key),
            bucket=self._bucket(config.bucket),
            encryption_key=self._key("KeptKey", config.encryption_key),
            parallel_builds=config.parallel_builds,
            build_on_deployment=config.build_on_deployment,
            wait_for_build=config.wait_for_build,
            build_on_new_weights=config.build_on_new_weights,
            build_every=config.build_every,
            expected_region=config.deployed_in,
            build_role=self._role(config.build_role),
            build_environment=config.build_environment,
            build_network=config.vpc.network(self) if config.vpc and config.models else None,
        )
        if config.promoted_by:
            self.library.repository.allow_reading(*config.promoted_by)
        if config.log_encryption_key:
            key = kms.Key.from_key_arn(self, "LogKey", config.log_encryption_key)
            Aspects.of(self).add(LogEncryption(key))
        self._put_out(signals=config.signals)

    def _put_out(self, *, signals: bool) -> None:
        library = self.library
        if library.runs is not None:
            CfnOutput(
                self,
                "BuildRunsArn",
                value=library.runs.state_machine.state_machine_arn,
                description="Builds what changed: aws stepfunctions start-execution --state-machine-arn ...",
            )
        if library.builds is not None:
            CfnOutput(
                self,
                "BuildProjectName",
                value=library.builds.project.project_name,
                description="Builds and publishes the models: aws codebuild start-build --project-name ...",
            )
            machine = library.builds.machine
            if not isinstance(machine.choice, OnDemandMachine):
                CfnOutput(self, "BuildMachine", value=machine.name, description=machine.reason)
        CfnOutput(
            self,
            "RepositoryUrl",
            value=library.repository.url,
            description="Where models are published: fleet publish --repository ...",
        )
        if signals:
            CfnOutput(
                self,
                "SignalsUrl",
                value=library.repository.signals_url,
                description="Where clients write what they count of each model: Client(signals=...)",
            )

    def _role(self, arn: str) -> iam.IRole | None:
        return iam.Role.from_role_arn(self, "BuildRole", arn) if arn else None

    def _bucket(self, name: str) -> s3.IBucket | None:
        return s3.Bucket.from_bucket_name(self, "Kept", name) if name else None

    def _key(self, construct_id: str, arn: str) -> kms.IKey | None:
        return kms.Key.from_key_arn(self, construct_id, arn) if arn else None

    def _hub_token(self, arn: str) -> secretsmanager.ISecret | None:
        return secretsmanager.Secret.from_secret_complete_arn(self, "HubToken", arn) if arn else None
