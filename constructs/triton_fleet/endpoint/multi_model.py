"""The multi-model endpoint: thousands of models behind one name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn

from aws_cdk import Annotations as Advice
from aws_cdk import Duration, Size
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from triton_fleet.endpoint.base import Endpoint
from triton_fleet.endpoint.hosting.core_dumps import CoreDumps
from triton_fleet.endpoint.hosting.deployment import Deployment
from triton_fleet.endpoint.hosting.server import TritonServer
from triton_fleet.endpoint.hosting.variants import Hosting, InstancePool, Routing, production_variant
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
from triton_fleet.parts.arguments.checks import look_up, warn
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.images.serving import Serving
from triton_fleet.parts.metrics.facts import DEFAULT_VARIANT
from triton_fleet.parts.network.placement import Placement
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_models.base.checks import Report
from triton_models.facts.instances import InstanceType
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.releases import Release

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
        serving: Serving | None = None,
        endpoint_name: str | None = None,
        initial_instance_count: int = 1,
        server: TritonServer | None = None,
        keep_models_cached: bool = True,
        container_start_timeout: Duration | None = None,
        model_download_timeout: Duration | None = None,
        metric_interval: Duration | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        deployment: Deployment | None = None,
        rollback_alarms: Sequence[cloudwatch.IAlarm | str] = (),
        placement: Placement | None = None,
        environment: Mapping[str, str] = _NOTHING,
        routing: Routing | None = None,
        volume_size: Size | None = None,
        instance_pools: Sequence[str] = (),
        allow_unlisted_instance_pools: bool = False,
        core_dumps: CoreDumps | None = None,
        **excluded: NoReturn,
    ) -> None:
        """Create the endpoint with its model, configuration, role and log group.

        Args:
            scope: The parent construct.
            construct_id: The construct's id.
            repository: The models to serve.
            serving: The instance type, the release and the image. By default those of `Serving()`.
            endpoint_name: A literal name, at most 63 letters, digits and hyphens. By default made from the
                construct's path.
            initial_instance_count: Instances at the first deployment. Later deployments keep the number that
                auto scaling has set.
            server: The options of the Triton server.
            keep_models_cached: Keep models loaded until memory runs out. False loads and unloads a model for
                each request, which suits only models that are hardly ever called.
            container_start_timeout: From starting a container to its first good ping, 60 to 3600 s. Triton
                answers within two minutes without a model; the default of ten leaves room for a slow host.
            model_download_timeout: For the platform's download of model data to an instance, 60 to 3600 s.
                Ten minutes by default.
            metric_interval: The interval at which metrics of hosts are published: 10, 30 or 60 s. A minute by
                default.
            log_retention: The retention of the containers' logs.
            deployment: The strategy for new configurations. None is SageMaker's default: all at once, without
                rollback on alarms.
            rollback_alarms: The alarms that undo a deployment, or their names. Such an alarm exists before
                the endpoint does: let it name the endpoint by a literal name, as `RollbackAlarms` do.
            placement: The network, the role and the key of the instances. By default those of `Placement()`.
            environment: Variables for models and backends, besides those that `server` sets.
            routing: The distribution of requests over the instances. None leaves it to SageMaker, which sends
                a multi-model request to an instance that has the model loaded; whether a strategy given here
                keeps that is not documented.
            volume_size: Size of the model cache volume, 1 to 512 GiB. Only for instance types without local
                NVMe.
            instance_pools: Up to four types that stand in for that of `serving`, in this order, when there is
                no capacity for it. All need its GPU model. Refused without allow_unlisted_instance_pools.
            allow_unlisted_instance_pools: Try instance_pools, which AWS documents for single-model endpoints
                only. SageMaker may refuse them at deployment.
            core_dumps: The place for core dumps of crashed containers; None by default.
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
        serving = serving or Serving()
        super().__init__(
            scope,
            construct_id,
            shared=Shared(
                endpoint_name=endpoint_name,
                repository=repository,
                serving=serving,
                server=server or TritonServer(),
                environment=environment,
                placement=placement or Placement(),
                deployment=deployment,
                rollback_alarms=alarm_names(rollback_alarms),
                metric_interval=metric_interval,
                log_retention=log_retention,
            ),
        )
        hosting = Hosting(
            name=VARIANT,
            instance_type=serving.instance_type,
            initial_instance_count=initial_instance_count,
            instance_pools=[InstancePool(instance_type=each) for each in instance_pools],
            routing=routing,
            volume_size=volume_size,
            container_start_timeout=container_start_timeout or Duration.minutes(10),
            model_download_timeout=model_download_timeout or Duration.minutes(10),
            core_dumps=core_dumps,
            inference_ami=serving.inference_ami,
        )
        instance, self.release = self._checked(
            hosting, excluded, pools_undocumented=allow_unlisted_instance_pools
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
        self, hosting: Hosting, excluded: Mapping[str, object], *, pools_undocumented: bool
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
        hosting._check(report)
        multi_model_arguments(report.at("server"), self.server.extra_arguments)
        instance = look_up(report, "instance_type", hosting.instance_type, find_instance_type)
        types = [instance] + [
            look_up(report, "instance_pools", pool.instance_type, find_instance_type)
            for pool in hosting.instance_pools
        ]
        pools = report.at("instance_pools")
        pool_problems(pools, hosting.instance_types)
        multi_model_pools(pools, hosting.instance_types, asked=pools_undocumented)
        for index, each in enumerate(types):
            place = report.at("instance_pools" if index else "instance_type")
            if each is not None:
                asked = self._shared.serving.allow_unlisted_instance_type
                multi_model_type(place, each, asked=asked)
                self._check_type(place, each, instance)
                self._shared.hardware_problems(report, place, hosting, each, release)
        report.raise_if_any()
        assert instance is not None and release is not None  # noqa: PT018, S101 -- what is missing was raised
        found = [each for each in types if each is not None]
        self._advise(found, release)
        self._note_served(found, release, where=report.at("instance_type").where)
        return instance, release

    def _check_type(self, report: Report, instance: InstanceType, preferred: InstanceType | None) -> None:
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
