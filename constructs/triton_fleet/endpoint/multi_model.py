"""The multi-model endpoint: thousands of models behind one name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from aws_cdk import Annotations as Advice
from aws_cdk import Duration, Size
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from triton_fleet.arguments.collector import look_up, warn
from triton_fleet.arguments.typed import typed
from triton_fleet.endpoint.base import Endpoint
from triton_fleet.endpoint.instance_checks import instance_pools as pool_problems
from triton_fleet.endpoint.instance_checks import multi_model_pools, same_image
from triton_fleet.endpoint.multi_model_checks import (
    EXCLUDED,
    multi_model_arguments,
    multi_model_features,
    multi_model_gpu,
    multi_model_type,
    unload_stall,
)
from triton_fleet.endpoint.shared import Shared, alarm_names
from triton_fleet.hosting.capacity_reservation import CapacityReservation
from triton_fleet.hosting.core_dumps import CoreDumps
from triton_fleet.hosting.deployment import Deployment
from triton_fleet.hosting.server import TritonServer
from triton_fleet.hosting.values import hosting_problems
from triton_fleet.hosting.variants import Hosting, InstancePool, Routing, production_variant
from triton_fleet.images.image import CustomImage
from triton_fleet.metrics.facts import DEFAULT_VARIANT
from triton_fleet.network.endpoint_network import EndpointNetwork
from triton_fleet.repository.model_repository import ModelRepository
from triton_models.base.checks import Report
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, InstanceType
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.releases import DEFAULT_RELEASE, Release

VARIANT = DEFAULT_VARIANT
"""The only variant: SageMaker's documents disagree on whether a multi-model endpoint may have a second."""

_NOTHING: Mapping[str, str] = MappingProxyType({})


@typed
class MultiModelEndpoint(Endpoint):
    """A SageMaker endpoint that serves every model of a repository from GPU instances, or from CPUs.

    A model is loaded when it is first invoked and evicted when memory runs out, so the repository may be far
    larger than a GPU. Model and endpoint configuration are details in here: SageMaker never changes one, so
    each change replaces them under a new generated name, and the endpoint moves over without an interruption.

    While auto scaling is attached, SageMaker refuses to change the instance type of a live endpoint. Give the
    endpoint a new name together with a new instance type: CloudFormation then creates the new one first.
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
        allow_unlisted_instance_type: bool = False,
        container_start_timeout: Duration | None = None,
        model_download_timeout: Duration | None = None,
        detailed_observability: bool = False,
        enhanced_metrics: bool = False,
        metric_interval: Duration | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        deployment: Deployment | None = None,
        rollback_alarms: Sequence[cloudwatch.IAlarm | str] = (),
        network: EndpointNetwork | None = None,
        network_isolation: bool = False,
        image: CustomImage | None = None,
        cpu_image: bool = False,
        environment: Mapping[str, str] = _NOTHING,
        routing: Routing | None = None,
        ssm_access: bool = False,
        encryption_key: kms.IKey | None = None,
        role: iam.IRole | None = None,
        volume_size: Size | None = None,
        instance_pools: Sequence[str] = (),
        allow_unlisted_instance_pools: bool = False,
        provision_timeout: Duration | None = None,
        capacity_reservation: CapacityReservation | None = None,
        core_dumps: CoreDumps | None = None,
        inference_ami: str | None = None,
        **excluded: NoReturn,
    ) -> None:
        """Create the endpoint with its model, configuration, role and log group.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            repository: The models to serve.
            instance_type: A type with one GPU, or with none for models that need none. The default has twice
                the host memory of the smallest for 8 % more money, and host memory bounds how fast models
                load.
            release: The Triton release. The default is the newest on SageMaker in which evicting one model
                does not stall the others.
            endpoint_name: A literal name, at most 63 letters, digits and hyphens. By default made from the
                construct's path.
            initial_instance_count: Instances at the first deployment. Later deployments keep the number that
                auto scaling has set.
            server: The options of the Triton server.
            keep_models_cached: Keep models loaded until memory runs out. False loads and unloads a model for
                each request, which suits only models that are hardly ever called.
            allow_unlisted_instance_type: Try an instance type that AWS does not list for multi-model
                endpoints, such as ml.g6.2xlarge. SageMaker may refuse it at deployment.
            container_start_timeout: From starting a container to its first good ping, 60 to 3600 s. Triton
                answers within two minutes without a model; the default of ten leaves room for a slow host.
            model_download_timeout: For the platform's download of model data to an instance, 60 to 3600 s.
                Ten minutes by default.
            detailed_observability: Publish metrics of each GPU and of the container to CloudWatch's
                OpenTelemetry store. Always set explicitly, because SageMaker's default has changed. Off by
                default: the alarms and dashboard do not use these metrics.
            enhanced_metrics: Publish metrics of each instance as well, under its id. AWS documents request
                metrics for single-model endpoints only, and host metrics for all real-time endpoints.
            metric_interval: The interval at which metrics of hosts are published, and with enhanced_metrics
                those of requests: 10, 30 or 60 s, by default a minute.
            log_retention: The retention of the containers' logs.
            deployment: The strategy for new configurations. None is SageMaker's default: all at once, without
                rollback on alarms.
            rollback_alarms: The alarms that undo a deployment, or their names. Such an alarm exists before
                the endpoint does: let it name the endpoint by a literal name, as `RollbackAlarms` do.
            network: The private subnets that the containers reach other services from. By default SageMaker's
                own network.
            network_isolation: Cut the containers off from any network. SageMaker still reads the models, but
                a Python model cannot call anything.
            image: An image of your own, made from that of `release`.
            cpu_image: Run AWS's image for CPUs, whose tag ends in "-cpu", on an instance type without a GPU.
                AWS lists the image for GPUs only, which is the default on either.
            environment: Variables for models and backends, besides those that `server` sets.
            routing: The distribution of requests over the instances. None leaves it to SageMaker, which sends
                a multi-model request to an instance that has the model loaded; whether a strategy given here
                keeps that is not documented.
            ssm_access: Let AWS Systems Manager open a shell on the instances, after AWS has allowed the
                account.
            encryption_key: Encrypts the instances' volumes, on types without local NVMe only. The NVMe of the
                others is encrypted by their hardware.
            role: An existing role for the instances, which SageMaker may assume; permissions are added to it.
                By default a new one.
            volume_size: Size of the model cache volume, 1 to 512 GiB. Only for instance types without local
                NVMe.
            instance_pools: Up to four types that stand in for instance_type, in this order, when there is no
                capacity for it. All need its GPU model. Refused without allow_unlisted_instance_pools.
            allow_unlisted_instance_pools: Try instance_pools, which AWS documents for single-model endpoints
                only. SageMaker may refuse them at deployment.
            provision_timeout: The time that SageMaker tries to find capacity, 300 to 3600 s; by default
                SageMaker's own.
            capacity_reservation: The reservation that provides the instances; by default none.
            core_dumps: The place for core dumps of crashed containers; None by default.
            inference_ami: The host image, which brings the GPU's driver. By default the one for the CUDA of
                `release`, even for a custom image. If SageMaker refuses it on your instance type, use release
                25.04, or name another one here.
            excluded: Not allowed. Arguments of single-model endpoints raise an error that explains why.

        Raises:
            FleetError: An unknown instance type or release, a type with several GPUs, or one that AWS does
                not list, without being asked to, a GPU too old for the release, a release or region without
                image, a server argument that cannot be passed on, build jobs that publish plans for another
                GPU or TensorRT, a volume or key on local NVMe, or anything that multi-model endpoints
                exclude. All that apply are named.
            TypeError: There is no such argument.
        """
        _known_arguments(excluded)
        super().__init__(
            scope,
            construct_id,
            shared=Shared(
                endpoint_name=endpoint_name,
                repository=repository,
                release=release,
                server=server or TritonServer(),
                environment=environment,
                image=image,
                cpu_image=cpu_image,
                network=network,
                network_isolation=network_isolation,
                encryption_key=encryption_key,
                deployment=deployment,
                rollback_alarms=alarm_names(rollback_alarms),
                detailed_observability=detailed_observability,
                enhanced_metrics=enhanced_metrics,
                metric_interval=metric_interval,
                log_retention=log_retention,
                role=role,
            ),
        )
        hosting = Hosting(
            name=VARIANT,
            instance_type=instance_type,
            initial_instance_count=initial_instance_count,
            instance_pools=[InstancePool(instance_type=each) for each in instance_pools],
            provision_timeout=provision_timeout,
            routing=routing,
            ssm_access=ssm_access,
            volume_size=volume_size,
            container_start_timeout=container_start_timeout or Duration.minutes(10),
            model_download_timeout=model_download_timeout or Duration.minutes(10),
            capacity_reservation=capacity_reservation,
            core_dumps=core_dumps,
            inference_ami=inference_ami,
        )
        instance, self.release = self._checked(
            hosting,
            excluded,
            undocumented=allow_unlisted_instance_type,
            pools_undocumented=allow_unlisted_instance_pools,
        )
        self._prepare([(hosting, instance)], repository=repository)
        self._resource = self._serve(hosting, instance, cache="Enabled" if keep_models_cached else "Disabled")

    def grant_invoke(self, grantee: iam.IGrantable, *, target_models: Sequence[str] = ()) -> iam.Grant:
        """Allow to invoke models.

        Args:
            grantee: The principal that may invoke.
            target_models: Patterns of target models, such as "minilm-*". Every model if left out.
        """
        return self._grant_invoke(grantee, target_models)

    def _checked(
        self,
        hosting: Hosting,
        excluded: Mapping[str, object],
        *,
        undocumented: bool,
        pools_undocumented: bool,
    ) -> tuple[InstanceType, Release]:
        """The facts behind the arguments, after every check of them."""
        report = Report(self.node.path)
        multi_model_features(report, excluded)
        release = self._shared.check(
            report,
            region=self.env.region,
            capacity=hosting.initial_instance_count,
            variants=1,
            multi_model=True,
        )
        hosting_problems(report, hosting)
        multi_model_arguments(report.at("server"), self.server.extra_arguments)
        instance = look_up(report, "instance_type", hosting.instance_type, find_instance_type)
        types = [instance] + [
            look_up(report, "instance_pools", pool.instance_type, find_instance_type)
            for pool in hosting.instance_pools
        ]
        self._shared.image_problems([each for each in types if each is not None], report)
        where_pools = report.at("instance_pools")
        pool_problems(where_pools, hosting.instance_types)
        multi_model_pools(where_pools, hosting.instance_types, asked=pools_undocumented)
        for index, each in enumerate(types):
            where = report.at("instance_pools" if index else "instance_type")
            if each is not None:
                multi_model_type(where, each, asked=undocumented)
                self._type_problems(where, each, instance)
                self._shared.hardware_problems(where, hosting, each, release)
        report.raise_if_any()
        assert instance is not None and release is not None  # noqa: PT018, S101 -- what is missing was raised
        found = [each for each in types if each is not None]
        self._advise(found, release)
        self._note_served(found, release, where=report.at("instance_type").where)
        return instance, release

    def _type_problems(self, report: Report, instance: InstanceType, preferred: InstanceType | None) -> None:
        multi_model_gpu(report, instance)
        if preferred is not None:
            same_image(report, preferred, instance)

    def _advise(self, types: Sequence[InstanceType], release: Release) -> None:
        """Warn of what AWS does not document, and may refuse at deployment; and of what costs latency."""
        advice = Report(self.node.path)
        unload_stall(advice, release)
        warn(self, advice)
        for instance in types:
            if not instance.multi_model_documented:
                Advice.of(self).add_warning_v2(
                    "triton-fleet:multi-model-undocumented",
                    f"AWS does not list {instance.name} for multi-model endpoints. SageMaker may refuse it "
                    "at deployment. Listed are ml.g4dn and ml.g5 with one GPU.",
                )
        if len(types) > 1:
            Advice.of(self).add_warning_v2(
                "triton-fleet:multi-model-pools-undocumented",
                "AWS documents instance pools for single-model endpoints, and says nothing of multi-model "
                "ones. SageMaker may refuse them at deployment.",
            )

    def _serve(self, hosting: Hosting, instance: InstanceType, *, cache: str) -> sagemaker.CfnEndpoint:
        container = sagemaker.CfnModel.ContainerDefinitionProperty(
            image=self.image.uri,
            mode="MultiModel",
            model_data_url=self.repository.url,
            multi_model_config=sagemaker.CfnModel.MultiModelConfigProperty(model_cache_setting=cache),
            environment=self._environment(hosting),
        )
        model = self._model(self, "Model", container)
        names = [model.attr_model_name] + [None] * len(hosting.instance_pools)
        variant = production_variant(hosting, instance=instance, release=self.release, models=names)
        return self._deployed([variant], hosting=[hosting])


def _known_arguments(excluded: Mapping[str, object]) -> None:
    """Treat a misspelled argument as Python does."""
    for name in excluded:
        if name not in EXCLUDED:
            msg = f"MultiModelEndpoint.__init__() got an unexpected keyword argument {name!r}"
            raise TypeError(msg)
