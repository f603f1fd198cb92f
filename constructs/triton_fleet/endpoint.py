"""The multi-model endpoint: thousands of models behind one name."""

from __future__ import annotations

from collections.abc import Sequence

import jsii
from aws_cdk import Annotations as Advice
from aws_cdk import Duration, Names, RemovalPolicy, Resource
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk.interfaces import aws_sagemaker as references
from constructs import Construct

from triton_fleet.errors import Findings
from triton_fleet.image import TritonImage
from triton_fleet.metrics import HOST_NAMESPACE, INVOCATION_NAMESPACE, EndpointMetrics
from triton_fleet.repository import ModelRepository
from triton_fleet.rules.gpu_generation import gpu_generation
from triton_fleet.rules.image_published import image_published, image_region
from triton_fleet.rules.multi_model_gpu import multi_model_gpu
from triton_fleet.rules.plan_portability import PlanTarget
from triton_fleet.server import TritonServer
from triton_fleet.tokens import known
from triton_models.instances import DEFAULT_INSTANCE_TYPE, InstanceType
from triton_models.instances import instance_type as find_instance_type
from triton_models.releases import DEFAULT_RELEASE, Release
from triton_models.releases import release as find_release

VARIANT = "AllTraffic"
"""The only variant: SageMaker's documents disagree on whether a multi-model endpoint may have a second."""

_LONGEST_NAME = 63


@jsii.implements(sagemaker.IEndpoint)
class MultiModelEndpoint(Resource):
    """A SageMaker endpoint that serves every model of a repository from GPU instances.

    A model is loaded when it is first invoked and evicted when memory runs out, so the repository may be far
    larger than a GPU. Model and endpoint configuration are details in here: SageMaker never changes one, so
    each change replaces them under a new generated name, and the endpoint moves over without an interruption.

    It is an `aws_sagemaker.IEndpoint`: whatever takes one, such as the API Gateway integration, takes this.

    While auto scaling is attached, SageMaker refuses to change the instance type of a live endpoint. Give the
    endpoint a new name together with a new instance type: CloudFormation then creates the new one first.

    Attributes:
        name: The endpoint's name as a literal string, for what must not depend on the resource.
        variant_name: The name of its only variant.
        instance: The instance type with its facts.
        release: The Triton release with its facts.
        repository: Where its models come from.
        role: What the instances may do.
        image: The image of the release.
        server: How Triton is started.
        log_group: Where the containers log.
        metrics: Everything it publishes to CloudWatch.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: ModelRepository,
        instance_type: str = DEFAULT_INSTANCE_TYPE,
        release: str = DEFAULT_RELEASE,
        endpoint_name: str | None = None,
        initial_instance_count: int = 1,
        server: TritonServer | None = None,
        keep_models_cached: bool = True,
        container_start_timeout: Duration | None = None,
        model_download_timeout: Duration | None = None,
        detailed_observability: bool = False,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
    ) -> None:
        """Create the endpoint with its model, configuration, role and log group.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            repository: The models to serve.
            instance_type: A type with one GPU. The default has twice the host memory of the smallest for
                8 % more money, and host memory bounds how fast models load.
            release: The Triton release. The default is the newest on SageMaker in which evicting one model
                does not stall the others.
            endpoint_name: A literal name, at most 63 letters, digits and hyphens. By default made from the
                construct's path.
            initial_instance_count: Instances at the first deployment. Later ones keep what auto scaling has
                made of it.
            server: How Triton is started.
            keep_models_cached: Keep models loaded until memory runs out. False loads and unloads a model for
                each request, which suits only models that are hardly ever called.
            container_start_timeout: From starting a container to its first good ping, 60 to 3600 s. Triton
                answers within two minutes without a model; the default of ten leaves room for a slow host.
            model_download_timeout: For the platform's download of model data to an instance, 60 to 3600 s.
                Ten minutes by default.
            detailed_observability: Publish metrics of each GPU and of the container to CloudWatch's
                OpenTelemetry store. Set in any case, for SageMaker's own default depends on when the
                configuration was made; off, for no alarm or dashboard here can read that store.
            log_retention: How long the containers' logs are kept.

        Raises:
            FleetError: An unknown instance type or release, a type without exactly one GPU, a GPU too old for
                the release, a release or region without image, a server argument that cannot be passed on,
                or build jobs that publish plans for another GPU or TensorRT. All that apply are named.
        """
        super().__init__(scope, construct_id)
        self.server = server or TritonServer()
        self.repository = repository
        self.variant_name = VARIANT
        self.name = endpoint_name or Names.unique_resource_name(self, max_length=_LONGEST_NAME, separator="-")
        self.instance, self.release = self._checked(instance_type, release, endpoint_name)
        self.metrics = EndpointMetrics(endpoint_name=self.name, variant_name=VARIANT, instance=self.instance)
        self.image = TritonImage.of(self, release=self.release)
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            # SageMaker writes here whatever we do; making the group first is what bounds its retention.
            log_group_name=f"/aws/sagemaker/Endpoints/{self.name}",
            retention=log_retention,
            removal_policy=RemovalPolicy.DESTROY,
        )
        self.role = self._execution_role()
        self._resource = self._deployed(
            variant=self._variant(
                self._model(keep_models_cached=keep_models_cached),
                initial_instance_count=initial_instance_count,
                container_start_timeout=container_start_timeout or Duration.minutes(10),
                model_download_timeout=model_download_timeout or Duration.minutes(10),
            ),
            detailed_observability=detailed_observability,
        )

    @property
    def endpoint_arn(self) -> str:
        """The endpoint's ARN."""
        return self._resource.ref

    @property
    def endpoint_name(self) -> str:
        """The endpoint's name; what uses it is deployed after the endpoint."""
        return self._resource.attr_endpoint_name

    @property
    def endpoint_ref(self) -> references.EndpointReference:
        """The reference that CloudFormation-level constructs take."""
        return references.EndpointReference(endpoint_arn=self.endpoint_arn)

    def grant_invoke(self, grantee: iam.IGrantable, *, target_models: Sequence[str] = ()) -> iam.Grant:
        """Allow to invoke models.

        Args:
            grantee: Who may invoke.
            target_models: Patterns of target models, such as "minilm-*". Every model if left out.
        """
        return iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["sagemaker:InvokeEndpoint"],
            resource_arns=[self.endpoint_arn],
            conditions={"StringLike": {"sagemaker:TargetModel": list(target_models)}}
            if target_models
            else None,
        )

    def _checked(
        self, instance_type: str, release: str, endpoint_name: str | None
    ) -> tuple[InstanceType, Release]:
        """The facts behind the arguments, after every check of them."""
        findings = Findings.of(self)
        if endpoint_name is not None:
            findings.look_up("endpoint_name", endpoint_name, str)
        findings.extend(self.server.problems(where=findings.where("server")))
        instance = findings.look_up("instance_type", instance_type, find_instance_type)
        triton = findings.look_up("release", release, find_release)
        where = findings.where("instance_type")
        if instance is not None:
            findings.add(multi_model_gpu(instance, where=where))
        if triton is not None:
            findings.add(
                image_published(triton, where=findings.where("release")),
                image_region(triton, known(self.env.region), where=findings.where("release")),
            )
        if instance is not None and instance.gpu is not None and triton is not None:
            target = PlanTarget(gpu=instance.gpu, release=triton, path=self.node.path)
            findings.add(gpu_generation(instance.gpu, triton, where=where))
            findings.extend(self.repository.served_by(target, where=where))
        findings.raise_if_any()
        assert instance is not None and triton is not None  # noqa: PT018, S101 -- what is missing was raised
        if not instance.multi_model_documented:
            self._advise_on_undocumented(instance)
        return instance, triton

    def _advise_on_undocumented(self, instance: InstanceType) -> None:
        Advice.of(self).add_warning_v2(
            "triton-fleet:multi-model-undocumented",
            f"AWS does not list {instance.name} for multi-model endpoints. SageMaker may refuse it, "
            "and would only at deployment. Listed are ml.g4dn and ml.g5 with one GPU.",
        )

    def _execution_role(self) -> iam.Role:
        """A role for the instances that can read the repository, pull one image, log and publish metrics."""
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            description=f"What the instances of the endpoint {self.name} may do",
        )
        self.repository.grant_read(role)
        for statement in (*self.image.pull_statements(), *self._telemetry_statements()):
            role.add_to_policy(statement)
        return role

    def _telemetry_statements(self) -> list[iam.PolicyStatement]:
        return [
            iam.PolicyStatement(
                sid="Logs",
                # CreateLogGroup although the group exists: the host's log agent starts by asking for it.
                actions=[
                    "logs:CreateLogGroup",
                    "logs:CreateLogStream",
                    "logs:DescribeLogStreams",
                    "logs:PutLogEvents",
                ],
                resources=[self.log_group.log_group_arn],
            ),
            iam.PolicyStatement(
                sid="Metrics",  # PutMetricData knows no resources, only the namespace narrows it
                actions=["cloudwatch:PutMetricData"],
                resources=["*"],
                conditions={"StringEquals": {"cloudwatch:namespace": [INVOCATION_NAMESPACE, HOST_NAMESPACE]}},
            ),
        ]

    def _model(self, *, keep_models_cached: bool) -> sagemaker.CfnModel:
        """The container and its prefix. Unnamed, because a named one could not be replaced."""
        model = sagemaker.CfnModel(
            self,
            "Model",
            execution_role_arn=self.role.role_arn,
            primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
                image=self.image.uri,
                mode="MultiModel",
                model_data_url=self.repository.url,
                multi_model_config=sagemaker.CfnModel.MultiModelConfigProperty(
                    model_cache_setting="Enabled" if keep_models_cached else "Disabled"
                ),
                environment=dict(self.server.environment()),
            ),
        )
        # SageMaker tries the role out when the model is created; without this its policy may come later.
        model.node.add_dependency(self.role.node.find_child("DefaultPolicy"))
        return model

    def _variant(
        self,
        model: sagemaker.CfnModel,
        *,
        initial_instance_count: int,
        container_start_timeout: Duration,
        model_download_timeout: Duration,
    ) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        """The instances; without volume size and key, which types with local NVMe refuse: it is encrypted."""
        return sagemaker.CfnEndpointConfig.ProductionVariantProperty(
            variant_name=VARIANT,
            instance_type=self.instance.name,
            initial_instance_count=initial_instance_count,
            initial_variant_weight=1,
            # The default host's driver is of 2021: this image would not start on it, and leave no log.
            inference_ami_version=self.release.inference_ami,
            model_name=model.attr_model_name,
            container_startup_health_check_timeout_in_seconds=container_start_timeout.to_seconds(),
            model_data_download_timeout_in_seconds=model_download_timeout.to_seconds(),
        )

    def _deployed(
        self,
        *,
        variant: sagemaker.CfnEndpointConfig.ProductionVariantProperty,
        detailed_observability: bool,
    ) -> sagemaker.CfnEndpoint:
        config = sagemaker.CfnEndpointConfig(
            self,
            "Config",
            production_variants=[variant],
            metrics_config=sagemaker.CfnEndpointConfig.MetricsConfigProperty(
                enable_detailed_observability=detailed_observability
            ),
        )
        endpoint = sagemaker.CfnEndpoint(
            self,
            "Resource",
            endpoint_name=self.name,
            endpoint_config_name=config.attr_endpoint_config_name,
            # Without it every deployment throws the fleet back to its initial instance count.
            retain_all_variant_properties=True,
        )
        endpoint.node.add_dependency(self.log_group)
        return endpoint
