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
from triton_fleet.endpoint.hosting.deployment import Deployment
from triton_fleet.endpoint.hosting.server import TritonServer
from triton_fleet.endpoint.hosting.variants import Hosting, InstancePool, Routing, production_variant
from triton_fleet.endpoint.instance_checks import instance_pools as pool_problems
from triton_fleet.endpoint.instance_checks import multi_model_pools, same_image
from triton_fleet.endpoint.shared import Shared, alarm_names
from triton_fleet.parts.arguments.checks import look_up, warn
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.network.placement import Placement
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_fleet.parts.serving import Serving
from triton_models.base.checks import Check, Report
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, INSTANCE_TYPES, InstanceType
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.releases import Release

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
        **excluded: NoReturn,
    ) -> None:
        """Create the endpoint with its model, configuration, role and log group.

        Args:
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
            excluded: Not allowed. Arguments of single-model endpoints raise an error that explains why.
        """
        for name in excluded:
            if name not in EXCLUDED:  # as Python does with a misspelled one
                msg = f"MultiModelEndpoint.__init__() got an unexpected keyword argument {name!r}"
                raise TypeError(msg)
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
        # One variant: SageMaker's documents disagree on whether a multi-model endpoint may have a second.
        hosting = Hosting(
            instance_type=serving.instance_type,
            initial_instance_count=initial_instance_count,
            instance_pools=[InstancePool(instance_type=each) for each in instance_pools],
            routing=routing,
            volume_size=volume_size,
            container_start_timeout=container_start_timeout or Duration.minutes(10),
            model_download_timeout=model_download_timeout or Duration.minutes(10),
            inference_ami=serving.inference_ami,
        )
        instance, self.release = self._checked(
            hosting, excluded, pools_undocumented=allow_unlisted_instance_pools
        )
        self._prepare([(hosting, instance)], repository=repository)
        self._resource = self._serve(hosting, instance, cache="Enabled" if keep_models_cached else "Disabled")

    def grant_invoke(self, grantee: iam.IGrantable, *, target_models: Sequence[str] = ()) -> iam.Grant:
        """Allow to invoke models that match patterns such as "minilm-*"; without patterns, every model."""
        return self._grant_invoke(grantee, target_models)

    def _checked(
        self, hosting: Hosting, excluded: Mapping[str, object], *, pools_undocumented: bool
    ) -> tuple[InstanceType, Release]:
        report = Report(self.node.path)
        for name in excluded:
            why, instead = EXCLUDED[name]
            report(MULTI_MODEL_EXCLUDES, f"{name} is given", fix=instead, why=why)
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
                multi_model_type(place, each, asked=self._shared.serving.allow_unlisted_instance_type)
                if instance is not None:
                    same_image(place, instance, each)
                self._shared.hardware_problems(report, place, hosting, each, release)
        report.raise_if_any()
        assert instance is not None and release is not None  # noqa: PT018, S101 -- what is missing was raised
        found = [each for each in types if each is not None]
        self._advise(found, release)
        self._note_served(found, release, where=report.at("instance_type").where)
        return instance, release

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


# Core's backend_model_instance.cc and cache_manager.cc (main of 2026-06-09), and sagemaker_server.cc of
# 2026-08-19.
MULTI_MODEL_ARGUMENT = Check(
    id="multi-model-argument",
    source="2026-11-21: https://github.com/triton-inference-server/core/blob/main/src/cache_manager.cc",
)

_CACHE = "composing models with the same name in two artifacts would share cached answers"
_HARM: Mapping[str, str] = MappingProxyType(
    {
        "--model-load-gpu-limit": "above the limit a load fails with 400, and SageMaker evicts nothing",
        "--cache-config": _CACHE,
        "--response-cache-byte-size": _CACHE,
    }
)


def multi_model_arguments(report: Report, arguments: Sequence[str]) -> None:
    """Report problems with arguments for the server of a multi-model endpoint."""
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in _HARM:
            report(
                MULTI_MODEL_ARGUMENT,
                f"the server argument {argument!r}",
                fix="remove it, or serve the model that needs it from a separate endpoint",
                why=_HARM[name],
            )


MULTI_MODEL_EXCLUDES = Check(
    id="multi-model-excludes",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html",
)

_SINGLE = "use a SingleModelEndpoint for that model"
_NEITHER = "call the endpoint from the consumer of a queue, or host the models in another way"
# The arguments of features that multi-model endpoints lack: the reason, the fix.
EXCLUDED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "data_capture": ("SageMaker captures no data of multi-model endpoints", _SINGLE),
        "variants": ("a multi-model endpoint has one production variant only", _SINGLE),
        "shadow_variant": (
            "SageMaker copies no requests of a multi-model endpoint to a shadow variant",
            _SINGLE,
        ),
        "async_inference": ("SageMaker has no asynchronous inference for multi-model endpoints", _NEITHER),
        "serverless": ("SageMaker has no serverless inference for multi-model endpoints", _NEITHER),
        "managed_instance_scaling": (
            "scaling to zero needs inference components, which a multi-model endpoint lacks",
            "keep one instance and attach an EndpointScaling",
        ),
        "model_data_source": (
            "a multi-model endpoint cannot read uncompressed models",
            "pack each model into an artifact, as `fleet build` does",
        ),
    }
)


MULTI_MODEL_ONE_GPU = Check(
    id="multi-model-one-gpu",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-endpoint-instance.html",
)
# The GPU types on AWS's list are ml.p2, ml.p3, ml.g4dn and ml.g5. SageMaker has a list of its own, and
# refused ml.g4dn before it was added there (sagemaker-python-sdk issue 1323).
MULTI_MODEL_TYPE = Check(
    id="multi-model-type",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-support.html",
)


def multi_model_type(report: Report, instance: InstanceType, *, asked: bool) -> None:
    """Report problems with running a multi-model endpoint on an instance type."""
    if instance.gpu_count > 1:
        smaller = INSTANCE_TYPES.get(f"{instance.name.rsplit('.', 1)[0]}.2xlarge")
        fits = smaller is not None and smaller.gpu_count == 1 and smaller.multi_model_documented
        better = smaller.name if smaller is not None and fits else DEFAULT_INSTANCE_TYPE
        report(
            MULTI_MODEL_ONE_GPU,
            f"{instance.name} has {instance.gpu_count} GPUs",
            fix=f"use {better}, and more instances for more throughput",
            why="SageMaker runs multi-model endpoints on types with at most one GPU",
        )
    elif not (asked or instance.multi_model_documented):
        report(
            MULTI_MODEL_TYPE,
            f"{instance.name} is not on AWS's list for multi-model endpoints",
            fix=f"use {DEFAULT_INSTANCE_TYPE}, or try it with allow_unlisted_instance_type=True",
            why="SageMaker may refuse it at deployment",
        )


# At the tags v2.51 to v2.71: commits d697e8d71 and f3bdcc7db, first in 2.64.
UNLOAD_STALL = Check(
    id="triton-fleet:unload-stall",
    source="2026-11-21: https://github.com/triton-inference-server/server/blob/main/src/sagemaker_server.cc",
)

FIRST_WITH_STALL = "25.12"


def unload_stall(report: Report, release: Release) -> None:
    """Report problems about evictions with this release on an endpoint of many models."""
    if release.name >= FIRST_WITH_STALL:
        report(
            UNLOAD_STALL,
            f"release {release.name} holds a lock while it unloads a model",
            fix="size the fleet so that models are rarely evicted, watch ModelUnloadingTime, or use "
            "release 25.09",
            why="all requests to the instance wait for it, for half a second or more",
        )
