"""The stack of the delivery: the role with which a workflow on GitHub deploys the other stacks."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Fn, Stack
from constructs import Construct

from triton_fleet import GitHubDeployRole, MultiModelFleet
from triton_fleet.app import FleetConfig


class DeliveryStack(Stack):
    """The role of the workflow of a stage, which you deploy once yourself."""

    def __init__(
        self, scope: Construct, construct_id: str, *, config: FleetConfig, fleet: MultiModelFleet
    ) -> None:
        """Create the role of a fleet, whose models the workflow tests and promotes."""
        super().__init__(
            scope,
            construct_id,
            env=Environment(account=config.account, region=config.region),
            description="Triton Fleet: the role with which GitHub Actions deploys",
        )
        self.deploy = GitHubDeployRole(
            self,
            "Default",  # adds nothing to the names of what is in it
            repository=config.github_repository,
            environment=config.stage or "",
            owner_id=str(config.github_owner_id) or None,
            repository_id=str(config.github_repository_id) or None,
            provider_arn=config.github_provider or None,
            fleet=fleet,
            promoted_from=config.promoted_from or self._before(config.follows, fleet) or None,
        )
        CfnOutput(
            self,
            "DeployRole",
            value=self.deploy.role.role_arn,
            description="The variable DEPLOY_ROLE of the environment on GitHub",
        )

    def _before(self, stage: FleetConfig | None, fleet: MultiModelFleet) -> str:
        """Return the URL of the model repository of the stage before, if it is in this account."""
        if stage is None:
            return ""
        url = Fn.get_stack_output(f"{stage.name}Models", "RepositoryUrl", stage.region)
        bucket = Fn.select(2, Fn.split("/", url))
        return f"s3://{bucket}/{fleet.library.repository.prefix}"
