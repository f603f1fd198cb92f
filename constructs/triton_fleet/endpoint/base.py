"""The common part of every endpoint: a name, variants, and the permission to invoke it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import jsii
from aws_cdk import Annotations as Advice
from aws_cdk import Names, Resource, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk.interfaces import aws_sagemaker as references
from constructs import Construct, IDependable

from triton_fleet.endpoint.execution_role import execution_role, see_alarms
from triton_fleet.endpoint.functions.around_endpoint import EndpointChange, EndpointStart
from triton_fleet.endpoint.hosting.deployment import (
    WITHOUT_ROLLBACK,
    Deployment,
    deployment_advice,
    rollback_alarm_problems,
)
from triton_fleet.endpoint.hosting.storage import AsyncInference, DataCapture
from triton_fleet.endpoint.hosting.variants import DeployedVariant, Hosting
from triton_fleet.endpoint.imported import ImportedEndpoint, invocation_grant
from triton_fleet.endpoint.instance_checks import host_ami_reported
from triton_fleet.endpoint.sequence_advice import SequenceAdvice
from triton_fleet.endpoint.shared import Shared, alarm_names
from triton_fleet.parts.arguments.checks import in_unit, warn
from triton_fleet.parts.arguments.roles import is_immutable
from triton_fleet.parts.arguments.service_model import hold_against_services
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.images.image import TritonImage
from triton_fleet.parts.metrics.published import VariantMetrics
from triton_fleet.parts.repository.endpoint_fit import ServedModels
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_fleet.parts.serving import release_unlisted
from triton_models.artifact.targets import ArtifactTarget
from triton_models.base.checks import FROM_ARGUMENTS, Check, Report
from triton_models.base.suggest import did_you_mean
from triton_models.facts.instances import InstanceType
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.releases import Release

UNKNOWN_VARIANT = Check(id="unknown-variant", source=FROM_ARGUMENTS)

_LONGEST_NAME = 63
_LONGEST_LOGICAL_ID = 255
_DIGITS = 8


@jsii.implements(sagemaker.IEndpoint)
class Endpoint(Resource, VariantMetrics):
    """A SageMaker endpoint, the base of `MultiModelEndpoint` and `SingleModelEndpoint`.

    It is an `aws_sagemaker.IEndpoint`: whatever takes one, such as the API Gateway integration, takes this.
    The metrics of its first variant are its own, such as `endpoint.metric_gpu_utilization()`. Those of
    another are its variant's: `endpoint.variant("b").metric_gpu_utilization()`. See `VariantMetrics`.

    Attributes:
        literal_name: The endpoint's name as a string. Use it to avoid a dependency on the endpoint, for
            example in a rollback alarm. `endpoint_name` is the same name as a token: CloudFormation deploys
            what uses that one after the endpoint.
        variants: Its variants by name, in the order in which they were given.
        variant_name: The name of the first variant, of most endpoints the only one.
        instance: The first variant's instance type with its facts.
        release: The Triton release with its facts.
        image: The image that the first variant runs.
        role: The execution role of the instances.
        log_group: The log group of the containers. It belongs to no stack, and outlives the endpoint.
    """

    variants: Mapping[str, DeployedVariant]
    variant_name: str
    instance: InstanceType
    release: Release
    image: TritonImage
    role: iam.IRole
    _policy: IDependable
    log_group: logs.ILogGroup
    _start: EndpointStart
    _change: EndpointChange
    _resource: sagemaker.CfnEndpoint
    _configuration: sagemaker.CfnEndpointConfig

    def __init__(self, scope: Construct, construct_id: str, *, shared: Shared) -> None:
        super().__init__(scope, construct_id)
        self._shared = shared
        self.literal_name = shared.endpoint_name or Names.unique_resource_name(
            self, max_length=_LONGEST_NAME, separator="-"
        )
        self.repository = shared.repository
        self.server = shared.server
        self.deployment = shared.deployment

    @staticmethod
    def from_endpoint_name(scope: Construct, construct_id: str, endpoint_name: str) -> ImportedEndpoint:
        """An endpoint of this account and region that something else has created."""
        return ImportedEndpoint._from_name(scope, construct_id, endpoint_name)

    @staticmethod
    def from_endpoint_arn(scope: Construct, construct_id: str, endpoint_arn: str) -> ImportedEndpoint:
        """An endpoint that something else has created, maybe in another account or region."""
        return ImportedEndpoint._from_arn(scope, construct_id, endpoint_arn)

    @property
    def target(self) -> ArtifactTarget:
        """The target of its artifacts: its release's TensorRT and its first variant's GPU, or no GPU."""
        return ArtifactTarget.of(release=self.release, gpu=self.instance.gpu)

    @property
    def endpoint_arn(self) -> str:
        """The endpoint's ARN."""
        return self._resource.ref

    @property
    def endpoint_name(self) -> str:
        """The endpoint's name as a token; what uses it is deployed after the endpoint."""
        return self._resource.attr_endpoint_name

    @property
    def endpoint_ref(self) -> references.EndpointReference:
        """The reference that CloudFormation-level constructs take."""
        return references.EndpointReference(endpoint_arn=self.endpoint_arn)

    def variant(self, name: str | None = None) -> DeployedVariant:
        """One of the variants by its name; None for the first, of most endpoints the only one."""
        if name is None:
            return self.variants[self.variant_name]
        if name not in self.variants:
            raise UNKNOWN_VARIANT.error(
                what=f"there is no variant {name!r}",
                where=f"the variants of {self.node.path}",
                why="nothing is published under another name, so nothing would ever be scaled or alarmed",
                fix=did_you_mean(name, self.variants, otherwise=f"use one of {', '.join(self.variants)}"),
            )
        return self.variants[name]

    def _name_of(self, variant: DeployedVariant) -> str:
        first = variant.name == self.variant_name
        return self.literal_name if first else f"{self.literal_name}-{variant.name}"

    @property
    def _dimensions(self) -> Mapping[str, str]:
        return self.variant()._dimensions

    @property
    def endpoint_config_name(self) -> str:
        """The name of its configuration, another with every change of that.

        What uses it is deployed after the configuration, and before the endpoint if the endpoint needs it.
        """
        return self._resource.endpoint_config_name

    def roll_back_on(self, alarms: Sequence[cloudwatch.IAlarm | str]) -> None:
        """Undo a deployment for these alarms as well.

        An alarm of the new fleet names the endpoint's configuration, so it is created after that, and this is
        how the endpoint learns of it. The role may describe the alarms, unless it is immutable.
        """
        names, before = alarm_names(alarms), len(self._shared.rollback_alarms)
        self._roll_back_on(names)
        if is_immutable(self.role):
            return
        # A policy of its own: an alarm may need the configuration, which needs the role's first policy.
        policy = iam.Policy(
            self, f"RollbackAlarms{before}", statements=[see_alarms(self, names)], roles=[self.role]
        )
        self._resource.node.add_dependency(policy)

    def _roll_back_on(self, further: Sequence[str]) -> None:
        """Undo a deployment for alarms that the role may describe already."""
        report = Report(self.node.path)
        deployment, names = self._shared.deployment, [*self._shared.rollback_alarms, *further]
        rollback_alarm_problems(report.at("rollback_alarms"), names, has_deployment=deployment is not None)
        report.raise_if_any()
        if deployment is not None:
            self._shared = replace(self._shared, rollback_alarms=names)
            self._deploy_by(self._resource, deployment)
            Advice.of(self).acknowledge_warning(WITHOUT_ROLLBACK, "alarms were added later")

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to invoke the endpoint."""
        return self._grant_invoke(grantee, ())

    def _grant_invoke(self, grantee: iam.IGrantable, target_models: Sequence[str]) -> iam.Grant:
        return invocation_grant(grantee, endpoint_arn=self.endpoint_arn, target_models=target_models)

    def _deploy_by(self, endpoint: sagemaker.CfnEndpoint, deployment: Deployment) -> None:
        """Set the strategy and its alarms. Others make another configuration.

        SageMaker refuses an update to the configuration in use, even if the strategy differs.
        """
        stack, config = Stack.of(self), self._configuration
        endpoint.deployment_config = deployment._render(rollback_alarms=self._shared.rollback_alarms)
        settings = json.dumps(stack.resolve(endpoint.deployment_config), sort_keys=True)
        digest = hashlib.sha256(settings.encode()).hexdigest()[:_DIGITS].upper()
        logical_id = stack.get_logical_id(config)[: _LONGEST_LOGICAL_ID - _DIGITS]
        config.override_logical_id(f"{logical_id}{digest}")

    def _register(self, variants: Sequence[tuple[Hosting, InstanceType]], *, asynchronous: bool) -> None:
        deployed = [
            DeployedVariant(
                name=hosting.name,
                instance=instance,
                literal_endpoint_name=self.literal_name,
                initial_instance_count=hosting.initial_instance_count,
                asynchronous=asynchronous,
            )
            for hosting, instance in variants
        ]
        self.variants = MappingProxyType({variant.name: variant for variant in deployed})
        self.variant_name = deployed[0].name
        self.instance = deployed[0].instance
        counts = [known(variant.initial_instance_count) for variant in deployed]
        SequenceAdvice(
            self,
            self._sequence_models,
            instances=None if None in counts else sum(filter(None, counts)),
            setting="initial_instance_count=1" + " and one variant" * (len(deployed) > 1),
        )

    def _note_served(
        self, types: Sequence[InstanceType], release: Release, *, where: str, artifact: str | None = None
    ) -> None:
        """Note with the repository which instance types load an artifact, or every model if that is None."""
        pool = self.server._pool(types)
        size = None if pool is None else in_unit(pool, "bytes")
        served = ServedModels(
            types=tuple(types),
            release=release,
            path=self.node.path,
            where=where,
            artifact=artifact,
            plugins=tuple(self.server.tensorrt_plugins),
            completes=self.server.auto_complete_config,
            pool=None if size is None else size // (1 << 20),
        )
        self.repository._usage.note_served(served)

    def _sequence_models(self) -> tuple[str, ...]:
        return self.repository.sequence_models()

    def _image(self) -> TritonImage:
        own, cpu = self._shared.serving.image, self._shared.serving.cpu_image
        return own._resolved() if own else TritonImage.of(self, release=self.release, cpu=cpu)

    @property
    def _log_group_name(self) -> str:
        return f"/aws/sagemaker/Endpoints/{self.literal_name}"

    def _prepare(
        self,
        variants: Sequence[tuple[Hosting, InstanceType]],
        *,
        asynchronous: bool = False,
        repository: ModelRepository | None = None,
    ) -> None:
        """Create what comes before the models: the log group, the manifest of a repository, and the role."""
        self._register(variants, asynchronous=asynchronous)
        self.image = self._image()
        self._start = EndpointStart(
            self,
            "Start",
            # SageMaker writes here whatever we do; making the group first is what bounds its retention.
            log_group_name=self._log_group_name,
            log_retention=self._shared.log_retention,
            repository=repository,
        )
        self.log_group = logs.LogGroup.from_log_group_name(self, "Logs", self._start.log_group_name)
        self.role, self._policy = execution_role(
            self,
            endpoint_name=self.literal_name,
            shared=self._shared,
            image=self.image,
            log_group_arn=self._start.log_group_arn,
        )

    def _model(
        self, scope: Construct, construct_id: str, container: sagemaker.CfnModel.ContainerDefinitionProperty
    ) -> sagemaker.CfnModel:
        """A container as SageMaker keeps it. Unnamed, because a named one could not be replaced."""
        network = self._shared.placement.network
        model = sagemaker.CfnModel(
            scope,
            construct_id,
            execution_role_arn=self.role.role_arn,
            primary_container=container,
            vpc_config=network._vpc_config() if network else None,
            enable_network_isolation=self._shared.placement.network_isolation or None,
        )
        # SageMaker tries the role out when the model is created; without this its policy may come later.
        model.node.add_dependency(self._policy, self._start.resource)
        return model

    def _environment(self, hosting: Hosting, **further: str) -> dict[str, str]:
        machines = [find_instance_type(each) for each in hosting.instance_types]
        return {
            **self.release.server_variables,
            **self.server._environment(log_group=self._log_group_name, machines=machines),
            **further,
            **self._shared.environment,
        }

    def _deployed(
        self,
        variants: Sequence[sagemaker.CfnEndpointConfig.ProductionVariantProperty],
        *,
        hosting: Sequence[Hosting],
        shadow: sagemaker.CfnEndpointConfig.ProductionVariantProperty | None = None,
        capture: DataCapture | None = None,
        asynchronous: AsyncInference | None = None,
        declared: Sequence[str] = (),
    ) -> sagemaker.CfnEndpoint:
        shared, interval, placement = self._shared, self._shared.metric_interval, self._shared.placement
        config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=list(variants),
            shadow_production_variants=[shadow] if shadow else None,
            data_capture_config=capture._render() if capture else None,
            async_inference_config=asynchronous._render() if asynchronous else None,
            kms_key_id=placement.encryption_key.key_arn if placement.encryption_key else None,
            metrics_config=sagemaker.CfnEndpointConfig.MetricsConfigProperty(
                enable_detailed_observability=False,  # the default has changed; nothing here uses them
                metric_publish_frequency_in_seconds=interval.to_seconds() if interval else None,
            ),
        )
        advice = Report(self.node.path)
        for each in hosting:
            instance = find_instance_type(each.instance_type)
            host_ami_reported(advice, known(each.inference_ami), instance, self.release)
        release_unlisted(advice, self.release)
        warn(self, advice)
        endpoint = sagemaker.CfnEndpoint(
            self,
            "Resource",
            endpoint_name=self.literal_name,
            endpoint_config_name=config.attr_endpoint_config_name,
            # Without it every deployment throws the fleet back to its initial instance count.
            retain_all_variant_properties=True,
            exclude_retained_variant_properties=[
                sagemaker.CfnEndpoint.VariantPropertyProperty(variant_property_type=each) for each in declared
            ]
            or None,
        )
        self._configuration = config
        if shared.deployment is not None:
            self._deploy_by(endpoint, shared.deployment)
        fewest = min(each.initial_instance_count for each in self.variants.values())
        for warning, text in deployment_advice(
            shared.deployment, rollback_alarms=shared.rollback_alarms, capacity=fewest
        ):
            Advice.of(self).add_warning_v2(warning, text)
        if placement.network is not None:
            # An instance that starts before its VPC endpoints cannot pull its image.
            endpoint.node.add_dependency(placement.network)
        self._change = EndpointChange(
            self,
            "Change",
            endpoint=endpoint,
            endpoint_name=self.literal_name,
            log_retention=shared.log_retention,
        )
        hold_against_services(self)
        return endpoint
