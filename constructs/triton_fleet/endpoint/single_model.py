"""The single-model endpoint: one model or one ensemble, in as many versions as are compared."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from triton_fleet.endpoint.base import Endpoint
from triton_fleet.endpoint.functions.artifact_ready import ArtifactReady
from triton_fleet.endpoint.functions.artifact_ready import artifact_timeout as check_timeout
from triton_fleet.endpoint.hosting.deployment import Deployment
from triton_fleet.endpoint.hosting.server import PingMode, TritonServer
from triton_fleet.endpoint.hosting.storage import AsyncInference, DataCapture
from triton_fleet.endpoint.hosting.variants import Variant, production_variant
from triton_fleet.endpoint.instance_checks import instance_pools, same_image
from triton_fleet.endpoint.shared import Shared, alarm_names
from triton_fleet.parts.arguments.checks import look_up
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_fleet.parts.images.image import CustomImage, TritonImage
from triton_fleet.parts.network.placement import Placement
from triton_fleet.parts.repository.model_repository import ModelRepository
from triton_fleet.parts.serving import Serving
from triton_models.base.checks import Check, Report
from triton_models.facts.instances import InstanceType
from triton_models.facts.instances import instance_type as find_instance_type
from triton_models.facts.releases import DEFAULT_RELEASE, Release

# The pages list the features, and which metrics are published.
ASYNC_EXCLUDES = Check(
    id="async-excludes",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/model-deploy-feature-matrix.html"
        " https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-monitor.html"
    ),
)
# The arguments of features that asynchronous endpoints lack: the reason, the fix.
_NOT_ASYNC: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "shadow_variant": (
            "SageMaker copies no requests of an asynchronous endpoint to a shadow variant",
            "remove shadow_variant",
        ),
        "data_capture": (
            "SageMaker captures no data of asynchronous endpoints",
            "remove data_capture: requests and answers are in S3 anyway",
        ),
    }
)

_NOTHING: Mapping[str, str] = MappingProxyType({})
_DEFAULT_MODEL = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"
_ONE_HOUR = Duration.hours(1)
_Checked = tuple[Variant, InstanceType]


@typed
class SingleModelEndpoint(Endpoint):
    """A SageMaker endpoint that serves one artifact of a repository: a model, or an ensemble.

    The model is loaded when an instance starts and stays loaded, so there is no cold start and no eviction,
    and a GPU for this model alone. Several variants share the requests by their weights, to compare versions
    or instance types; a shadow variant gets copies of requests, and its answers are thrown away.

    The artifact need not be in the repository yet: the deployment waits for it, up to `artifact_timeout`,
    before SageMaker reads it. So repository, build job and endpoint can be one deployment, during which the
    build is started: `DeploymentBuild` starts it, and gives the artifact that it makes. With the repository
    in a stack of its own, its artifacts are still there after a first deployment that fails; otherwise the
    next one makes another bucket.

    In an artifact each model is a folder, and an ensemble is named by `Variant.default_model`.

    Attributes:
        data_capture: The capture of requests and answers; None without one.
        async_inference: The queue of requests; None if they are answered at once.
        shadow_variant: The variant that gets copies of requests; None without one.
        artifact_ready: The resource that waits for the artifacts; None without one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        repository: ModelRepository,
        variants: Sequence[Variant],
        shadow_variant: Variant | None = None,
        artifact_timeout: Duration | None = _ONE_HOUR,
        data_capture: DataCapture | None = None,
        async_inference: AsyncInference | None = None,
        release: str = DEFAULT_RELEASE,
        endpoint_name: str | None = None,
        server: TritonServer | None = None,
        metric_interval: Duration | None = None,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        deployment: Deployment | None = None,
        rollback_alarms: Sequence[cloudwatch.IAlarm | str] = (),
        placement: Placement | None = None,
        image: CustomImage | None = None,
        cpu_image: bool = False,
        environment: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Create the endpoint with its models, configuration, role and log group.

        Args:
            repository: The repository of the artifacts.
            variants: The production variants, one to ten; of most endpoints one, as in
                `[Variant(artifact="resnet50-0123456789ab.tar.gz")]`.
            shadow_variant: Gets copies of the requests of the only production variant.
            artifact_timeout: The time that a deployment waits for artifacts that are not in the repository,
                one minute to one hour; then it fails, and names them. An artifact that another deployment
                replaces is waited for again. None for artifacts that are always published first: nothing is
                waited for, and no function is made for it.
            data_capture: Keeps a sample of requests and answers.
            async_inference: Requests wait in a queue, and answers are written to S3: for large requests and
                slow models. The fleet may then scale to zero.
            release: The Triton release of every variant.
            server: The options of the Triton server. By default as for a multi-model endpoint, except that an
                instance answers pings only once its model is loaded, and requests are routed to it only then.
            image: An image of your own, made from that of `release`.
            cpu_image: Run AWS's image for CPUs, whose tag ends in "-cpu", on instance types without a GPU: of
                every variant, because they share an image. By default they run the image for GPUs as well.

        The other arguments are those of `MultiModelEndpoint`.
        """
        super().__init__(
            scope,
            construct_id,
            shared=Shared(
                endpoint_name=endpoint_name,
                repository=repository,
                serving=Serving(release=release, image=image, cpu_image=cpu_image),
                server=server or TritonServer(ping_mode=PingMode.READY),
                environment=environment,
                placement=placement or Placement(),
                deployment=deployment,
                rollback_alarms=alarm_names(rollback_alarms),
                metric_interval=metric_interval,
                log_retention=log_retention,
            ),
        )
        self.data_capture = data_capture
        self.async_inference = async_inference
        self.shadow_variant = shadow_variant
        self._artifacts = _artifacts_of(variants)  # of what answers: a shadow's answers are thrown away
        served, self.release = self._checked(tuple(variants), artifact_timeout)
        production = served[:-1] if shadow_variant else served
        self._prepare(production, asynchronous=async_inference is not None)
        self.artifact_ready = None
        if artifact_timeout is not None:
            self.artifact_ready = ArtifactReady(
                self,
                "ArtifactReady",
                repository=repository,
                artifacts=_artifacts_of([variant for variant, _ in served]),
                timeout=artifact_timeout,
                log_retention=log_retention,
            )
        self._resource = self._serve(served)

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow to invoke the endpoint; of an asynchronous one also to put requests and to read answers."""
        if self.async_inference is None:
            return super().grant_invoke(grantee)
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=["sagemaker:InvokeEndpointAsync"], resource_arns=[self.endpoint_arn]
        ).combine(self.async_inference._grant_caller(grantee))

    def _checked(
        self, variants: Sequence[Variant], timeout: Duration | None
    ) -> tuple[list[_Checked], Release]:
        """The facts behind the arguments; the shadow is the last variant."""
        report = Report(self.node.path)
        shadow = [self.shadow_variant] if self.shadow_variant else []
        every = (*variants, *shadow)
        counts = [known(variant.initial_instance_count) for variant in variants]
        fewest = min((count for count in counts if count is not None), default=None)
        release = self._shared.check(
            report,
            region=self.env.region,
            capacity=fewest,
            variants=len(variants) + len(shadow),
            multi_model=False,
            reserved=dict.fromkeys(
                [_DEFAULT_MODEL] if any(each.default_model is not None for each in every) else [],
                "Variant.default_model",
            ),
        )
        variant_set(
            report.at("variants"),
            [variant.name for variant in every],
            [known(variant.weight) for variant in variants],
            has_shadow=bool(shadow),
        )
        if timeout is not None:
            check_timeout(report.at("artifact_timeout"), timeout)
        if self.data_capture is not None:
            self.data_capture._check(report.at("data_capture"))
        if self.async_inference is not None:
            place = report.at("async_inference")
            self.async_inference._check(place)
            excluded = {name: each for name, each in _NOT_ASYNC.items() if getattr(self, name) is not None}
            if len(variants) > 1:
                why = "an asynchronous endpoint has one production variant only"
                excluded[f"{len(variants)} variants"] = (why, "give each variant its own endpoint")
            for argument, (why, fix) in excluded.items():
                what = f"{argument} and async_inference are given"
                place(ASYNC_EXCLUDES, what, fix=fix, why=why)
        found = [(variant, self._instance(variant, release, report)) for variant in every]
        report.raise_if_any()
        assert release is not None  # noqa: S101 -- what is missing was raised
        served = [(variant, instance) for variant, instance in found if instance is not None]
        for variant, instance in served:
            where = report.at(f"variant {variant.name!r}").where
            for artifact, types in _types_by_artifact(variant, instance).items():
                self._note_served(types, release, where=where, artifact=artifact)
        return served, release

    def _instance(self, variant: Variant, release: Release | None, report: Report) -> InstanceType | None:
        """A variant's preferred instance type, after noting what is wrong with the variant."""
        argument = f"variant {variant.name!r}"
        place = report.at(argument)
        look_up(report, "name of a variant", variant.name, str)  # scaling and alarms need it as a literal
        single_model_artifact(place, known(variant.artifact))
        variant._check(place)
        instance_pools(place, variant.instance_types)
        preferred = look_up(report, argument, variant.instance_type, find_instance_type)
        if preferred is not None:
            self._shared.hardware_problems(report, place, variant, preferred, release)
        for pool in variant.instance_pools:
            single_model_artifact(place, pool.artifact and known(pool.artifact))
            other = look_up(report, argument, pool.instance_type, find_instance_type)
            if other is None:
                continue
            self._shared.hardware_problems(report, place, variant, other, release)
            if preferred is not None:
                same_image(place, preferred, other)
        return preferred

    def _sequence_models(self) -> tuple[str, ...]:
        return self.repository._usage.sequence_models(self._artifacts)

    def _variant(
        self, variant: Variant, instance: InstanceType
    ) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        """The variant with its models; those are in a scope of its own, so that no two ids collide."""
        place, image = Construct(self, f"Variant-{variant.name}"), self._image()
        first = self._model(place, "Model", self._container(variant, variant.artifact, image))
        models: list[str | None] = [first.attr_model_name]
        for priority, pool in enumerate(variant.instance_pools, start=2):
            if pool.artifact is None or pool.artifact == variant.artifact:
                models.append(None)
                continue
            container = self._container(variant, pool.artifact, image)
            models.append(self._model(place, f"Model{priority}", container).attr_model_name)
        return production_variant(variant, instance=instance, release=self.release, models=models)

    def _serve(self, served: Sequence[_Checked]) -> sagemaker.CfnEndpoint:
        capture, asynchronous = self.data_capture, self.async_inference
        if capture is not None:
            capture._grant(self.role)
        if asynchronous is not None:
            asynchronous._grant(self.role, self._shared.placement.network)
        rendered = [self._variant(variant, instance) for variant, instance in served]
        return self._deployed(
            rendered[: len(self.variants)],
            hosting=[variant for variant, _ in served],
            shadow=rendered[-1] if self.shadow_variant else None,
            capture=capture,
            asynchronous=asynchronous,
            # Otherwise changing a weight or the capture here would change nothing on a live endpoint.
            declared=("DesiredWeight", "DataCaptureConfig"),
        )

    def _model(
        self, scope: Construct, construct_id: str, container: sagemaker.CfnModel.ContainerDefinitionProperty
    ) -> sagemaker.CfnModel:
        model = super()._model(scope, construct_id, container)
        if self.artifact_ready is not None:
            model.node.add_dependency(self.artifact_ready.resource)
        return model

    def _container(
        self, variant: Variant, artifact: str, image: TritonImage
    ) -> sagemaker.CfnModel.ContainerDefinitionProperty:
        further = {}
        if variant.default_model is not None:
            further[_DEFAULT_MODEL] = variant.default_model
        return sagemaker.CfnModel.ContainerDefinitionProperty(
            image=image.uri,
            mode="SingleModel",
            model_data_url=f"{self.repository.url}{artifact}",
            environment=self._environment(variant, **further),
        )


def _artifacts_of(variants: Sequence[Variant]) -> list[str]:
    pools = [pool.artifact for variant in variants for pool in variant.instance_pools]
    return [*(variant.artifact for variant in variants), *filter(None, pools)]


def _types_by_artifact(variant: Variant, instance: InstanceType) -> dict[str, list[InstanceType]]:
    found = {variant.artifact: [instance]}
    for pool in variant.instance_pools:
        types = found.setdefault(pool.artifact or variant.artifact, [])
        types.append(find_instance_type(pool.instance_type))
    return found


SINGLE_MODEL_ARTIFACT = Check(
    id="single-model-artifact",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html",
)


_ARTIFACT = re.compile(r"[^/\s*]+\.tar\.gz")


def single_model_artifact(report: Report, artifact: str | None) -> None:
    """Report problems with the name of an artifact; None if it is known only at deployment."""
    if artifact is None or _ARTIFACT.fullmatch(artifact):
        return
    report(
        SINGLE_MODEL_ARTIFACT,
        f"the artifact is {artifact!r}",
        fix="use the name that `fleet publish` printed, such as resnet50-0123456789ab.tar.gz",
        why="SageMaker reads one archive below the prefix, whose name ends in .tar.gz",
    )


VARIANT_SET = Check(
    id="variant-set",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html",
)


def variant_set(
    report: Report, names: Sequence[str], weights: Sequence[float | None], *, has_shadow: bool
) -> None:
    """Report problems with serving these production variants together."""
    if not weights:
        report(VARIANT_SET, "the endpoint has no variant", fix="add a Variant with an artifact")
    for name in sorted({each for each in names if names.count(each) > 1}):
        report(
            VARIANT_SET,
            f"{names.count(name)} variants are called {name!r}",
            fix="name them, for example name='Current' and name='Candidate'",
            why="metrics, scaling and invocations identify a variant by its name",
        )
    if weights and all(weight == 0 for weight in weights):
        report(
            VARIANT_SET,
            "every variant has weight 0",
            fix="set the weight of the serving variant to 1",
            why="no variant would get requests that do not name one",
        )
    if has_shadow and len(weights) > 1:
        report(
            VARIANT_SET,
            f"a shadow variant next to {len(weights)} production variants",
            fix="remove the shadow, or all variants but one",
            why="SageMaker copies the requests of one variant only, to one other",
        )
