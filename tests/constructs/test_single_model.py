from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Size, Stack, Token
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from declared import Build, of_placement
from synthesised import Resources, refusals, the_container

from tests.reported import reported
from tests.triton_models.declared_models import declare
from triton_fleet import (
    Canary,
    CustomImage,
    DataCapture,
    DeploymentBuild,
    FleetError,
    InstancePool,
    ModelBuildProject,
    ModelRepository,
    Rolling,
    Routing,
    SingleModelEndpoint,
    Variant,
)
from triton_fleet.parts.arguments.late import late_problems

ARTIFACT = "resnet50-0123456789ab.tar.gz"
CANDIDATE = "resnet50-ba9876543210.tar.gz"
BUILT = "minilm-0123456789abcdef.tar.gz"
OF_L4 = "minilm-fedcba9876543210.tar.gz"
LATER = Token.as_string({"Ref": "Artifact"})
A10G, T4, L4 = "ml.g5.2xlarge", "ml.g4dn.xlarge", "ml.g6.2xlarge"
GPU, CPU = (
    Variant(artifact=ARTIFACT, name="Gpu"),
    Variant(artifact=CANDIDATE, name="Cpu", instance_type="ml.c7i.xlarge"),
)


def _create(stack: Stack, *variants: Variant, **arguments: Any) -> SingleModelEndpoint:
    repository = stack.node.try_find_child("Repository") or ModelRepository(stack, "Repository")
    return SingleModelEndpoint(
        stack,
        "Endpoint",
        repository=repository,  # type: ignore[arg-type]
        variants=variants or [Variant(artifact=ARTIFACT)],
        **of_placement(arguments),
    )


def _config(resources: Resources) -> dict[str, Any]:
    (config,) = resources("AWS::SageMaker::EndpointConfig")
    return dict(config)


def _everything(stack: Stack) -> SingleModelEndpoint:
    return _create(
        stack,
        Variant(
            artifact=ARTIFACT,
            name="Current",
            default_model="pipeline",
            instance_type="ml.m5.xlarge",
            volume_size=Size.gibibytes(50),
            instance_pools=[InstancePool(instance_type="ml.c5.2xlarge", artifact=CANDIDATE)],
        ),
        shadow_variant=Variant(
            artifact=CANDIDATE, name="Candidate", instance_type="ml.m5.xlarge", weight=0.5
        ),
        data_capture=DataCapture(bucket=s3.Bucket(stack, "Captured"), sampling_percent=10),
        encryption_key=kms.Key(stack, "Key"),
        deployment=Canary(),
        rollback_alarms=["errors"],
        endpoint_name="everything",
    )


def test_one_artifact_gives_an_endpoint_that_the_services_accept(stack: Stack, resources: Resources) -> None:
    _create(stack)
    (model,) = resources("AWS::SageMaker::Model")

    assert refusals(stack) == []
    assert model["PrimaryContainer"]["Mode"] == "SingleModel"
    assert model["PrimaryContainer"]["ModelDataUrl"]["Fn::Join"][1][-1] == f"/models/{ARTIFACT}"
    assert "MultiModelConfig" not in model["PrimaryContainer"]
    assert "ModelName" not in model


def test_every_option_together_is_what_the_services_accept(stack: Stack) -> None:
    _everything(stack)

    assert refusals(stack) == []


@pytest.mark.parametrize("default_model", [None, "pipeline"])
def test_an_instance_gets_requests_only_once_its_model_is_loaded_and_an_ensemble_is_named(
    default_model: str | None, stack: Stack, resources: Resources
) -> None:
    _create(stack, Variant(artifact=ARTIFACT, default_model=default_model))
    environment = the_container(resources)["Environment"]

    assert environment["SAGEMAKER_TRITON_PING_MODE"] == "ready"
    assert environment.get("SAGEMAKER_TRITON_DEFAULT_MODEL_NAME") == default_model


def test_weight_zero_stays_zero(stack: Stack, resources: Resources) -> None:
    _create(
        stack, Variant(artifact=ARTIFACT, name="Current"), Variant(artifact=CANDIDATE, name="Dark", weight=0)
    )
    weights = [each["InitialVariantWeight"] for each in _config(resources)["ProductionVariants"]]

    assert weights == [1, 0]


def test_each_variant_has_its_model_type_and_metrics(stack: Stack, resources: Resources) -> None:
    endpoint = _create(
        stack,
        Variant(artifact=ARTIFACT, name="Gpu", initial_instance_count=2),
        Variant(artifact=CANDIDATE, name="Cpu", instance_type="ml.c5.xlarge"),
    )
    gpu, cpu = _config(resources)["ProductionVariants"]

    assert gpu["ModelName"] != cpu["ModelName"]
    assert ("InferenceAmiVersion" in gpu, "InferenceAmiVersion" in cpu) == (True, False)
    assert list(endpoint.variants) == ["Gpu", "Cpu"]
    assert endpoint.variant() is endpoint.variant("Gpu")
    assert endpoint.variant("Gpu").initial_instance_count == 2
    assert endpoint.variant("Cpu").metric_invocations().dimensions == {
        "EndpointName": endpoint.literal_name,
        "VariantName": "Cpu",
    }


def test_two_endpoints_with_several_variants_live_in_one_stack(stack: Stack) -> None:
    repository = ModelRepository(stack, "Repository")
    for construct_id in ("First", "Second"):
        SingleModelEndpoint(
            stack,
            construct_id,
            repository=repository,
            variants=[
                # Names that end alike: ids of models made from names and numbers could be the same.
                Variant(
                    artifact=ARTIFACT,
                    name="A",
                    instance_pools=[InstancePool(instance_type="ml.g6.xlarge", artifact=CANDIDATE)],
                ),
                Variant(artifact=ARTIFACT, name="A-Model2"),
                Variant(artifact=ARTIFACT, name="AModel2"),
            ],
        )

    assert len(Template.from_stack(stack).find_resources("AWS::SageMaker::Model")) == 8


def test_a_deployment_keeps_the_instance_counts_and_sets_weights_and_capture(
    stack: Stack, resources: Resources
) -> None:
    _create(stack)
    (endpoint,) = resources("AWS::SageMaker::Endpoint")

    assert endpoint["RetainAllVariantProperties"] is True
    assert [each["VariantPropertyType"] for each in endpoint["ExcludeRetainedVariantProperties"]] == [
        "DesiredWeight",
        "DataCaptureConfig",
    ]


def test_requests_go_to_the_least_busy_instance_unless_said_otherwise(
    stack: Stack, resources: Resources
) -> None:
    _create(
        stack,
        Variant(artifact=ARTIFACT, name="A"),
        Variant(artifact=ARTIFACT, name="B", routing=Routing.RANDOM),
        Variant(artifact=ARTIFACT, name="C", routing=None),
    )
    routing = [each.get("RoutingConfig") for each in _config(resources)["ProductionVariants"]]

    assert routing == [{"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}, {"RoutingStrategy": "RANDOM"}, None]


def test_a_shadow_is_beside_the_variant_and_not_among_the_served(stack: Stack, resources: Resources) -> None:
    endpoint = _everything(stack)
    config = _config(resources)

    assert [each["VariantName"] for each in config["ProductionVariants"]] == ["Current"]
    assert [each["VariantName"] for each in config["ShadowProductionVariants"]] == ["Candidate"]
    assert config["ShadowProductionVariants"][0]["InitialVariantWeight"] == 0.5
    assert list(endpoint.variants) == ["Current"]


def test_a_type_that_stands_in_may_have_another_gpu_with_a_plan_of_its_own(
    stack: Stack, resources: Resources
) -> None:
    _create(
        stack,
        Variant(
            artifact=ARTIFACT,
            instance_pools=[
                InstancePool(instance_type="ml.g6.2xlarge", artifact=CANDIDATE),
                InstancePool(instance_type="ml.g5.xlarge"),
            ],
        ),
    )
    first, second, third = _config(resources)["ProductionVariants"][0]["InstancePools"]

    assert "ModelNameOverride" not in first
    assert second["InstanceType"] == "ml.g6.2xlarge"
    assert second["ModelNameOverride"] != _config(resources)["ProductionVariants"][0]["ModelName"]
    assert "ModelNameOverride" not in third


@pytest.mark.parametrize(
    ("pools", "rules"),
    [
        ([InstancePool(instance_type="ml.c5.xlarge", artifact=CANDIDATE)], ["instance-pools"]),
        ([InstancePool(instance_type="ml.g5.xlarge", artifact="a/b")], ["single-model-artifact"]),
        ([InstancePool(instance_type="ml.p3.2xlarge", artifact=CANDIDATE)], ["gpu-generation-supported"]),
    ],
)
def test_pools_that_could_not_run_the_model_are_refused(
    stack: Stack, pools: list[InstancePool], rules: list[str]
) -> None:
    with reported(*rules):
        _create(stack, Variant(artifact=ARTIFACT, instance_pools=pools))


@pytest.mark.parametrize(
    ("variants", "arguments", "rules"),
    [
        ([Variant(artifact=ARTIFACT)], {"shadow_variant": Variant(artifact=CANDIDATE)}, ["variant-set"]),
        (
            [Variant(artifact=ARTIFACT, name="A"), Variant(artifact=CANDIDATE, name="B")],
            {"deployment": Rolling()},
            ["rolling-one-variant"],
        ),
        ([Variant(artifact=ARTIFACT, volume_size=Size.gibibytes(10))], {}, ["local-storage-no-volume"]),
    ],
)
def test_a_mistake_names_its_rule(
    stack: Stack, variants: list[Variant], arguments: dict[str, Any], rules: list[str]
) -> None:
    repository = ModelRepository(stack, "Repository")
    with reported(*rules):
        SingleModelEndpoint(stack, "Endpoint", repository=repository, variants=variants, **arguments)


def test_every_mistake_is_reported_at_once_with_the_variant_it_is_in(stack: Stack) -> None:
    with pytest.raises(FleetError) as raised:
        _create(
            stack,
            Variant(artifact="resnet50", name="Current"),
            Variant(artifact=ARTIFACT, name="Candidate", instance_type="ml.g5.huge"),
            release="25.06",
        )

    assert {(problem.rule, problem.where) for problem in raised.value.problems} == {
        ("release-not-on-sagemaker", "release of Fleet/Endpoint"),
        ("single-model-artifact", "variant 'Current' of Fleet/Endpoint"),
        ("unknown-instance-type", "variant 'Candidate' of Fleet/Endpoint"),
    }


@pytest.fixture
def build(build: Build, source: Path) -> Build:
    """Makes a build job of models with plans, named after its instance type."""

    def make(instance_type: str = "ml.g5.2xlarge", *models: str) -> ModelBuildProject:
        names = models or ("minilm",)
        for name in names:
            declare(source / "models", name, body="job.compile_plan(None)")
        return build(f"Builds on {instance_type}", models=names, instance_type=instance_type)

    return make


def _pooled(artifact: str, *, of_pool: str | None = None) -> Variant:
    return Variant(artifact=artifact, instance_pools=[InstancePool(instance_type=L4, artifact=of_pool)])


@pytest.mark.parametrize(
    ("variant", "built_on", "rules"),
    [
        (Variant(artifact=BUILT, instance_type=T4), [A10G], ["plan-fits-endpoint"]),
        (Variant(artifact=ARTIFACT, instance_type=T4), [A10G], []),
        (Variant(artifact=LATER), [A10G], []),
        (Variant(artifact=LATER, instance_type=T4), [A10G], ["plan-fits-endpoint"]),
        (_pooled(BUILT), [A10G], ["plan-fits-endpoint"]),
        (_pooled(ARTIFACT), [A10G], ["instance-pools"]),
        (_pooled(BUILT, of_pool=OF_L4), [A10G], ["plan-fits-endpoint"]),
        (_pooled(BUILT, of_pool=OF_L4), [A10G, L4], []),
    ],
)
def test_an_artifact_is_built_for_the_gpu_of_its_variant_and_that_of_each_pool(
    variant: Variant, built_on: list[str], rules: list[str], stack: Stack, build: Build
) -> None:
    for each in built_on:
        build(each)
    _create(stack, variant)

    assert [problem.rule for problem in late_problems(stack)] == rules


def test_an_artifact_of_a_deployments_build_is_the_one_of_its_job(stack: Stack, build: Build) -> None:
    build(T4, "minilm", "resnet50")
    deployed = DeploymentBuild(stack, "Deployed", builds=build("ml.g5.2xlarge", "minilm", "resnet50"))
    _create(stack, Variant(artifact=deployed.artifact("minilm"), instance_type=T4))

    (problem,) = late_problems(stack)
    assert problem.where == "variant 'AllTraffic' of Fleet/Endpoint"
    assert problem.what.startswith("Fleet/Builds on ml.g5.2xlarge compiles for A10G")
    assert problem.what.endswith(": minilm")


def test_every_variant_runs_the_image_for_cpus_if_it_is_asked_for(stack: Stack) -> None:
    other = Variant(artifact=ARTIFACT, name="Other", instance_type="ml.m5.large")
    endpoint = _create(stack, CPU, shadow_variant=other, cpu_image=True)
    models = Template.from_stack(stack).find_resources("AWS::SageMaker::Model").values()
    images = [each["Properties"]["PrimaryContainer"]["Image"]["Fn::Join"][1][-1] for each in models]

    assert endpoint.image.tag == "25.09-py3-cpu"
    assert [image.rpartition(":")[2] for image in images] == ["25.09-py3-cpu"] * 2


@pytest.mark.parametrize(
    ("variants", "given"),
    [([GPU], {}), ([CPU, GPU], {}), ([CPU], {"shadow_variant": GPU})],
    ids=["the variant's", "a second variant's", "a shadow's"],
)
def test_the_image_for_cpus_is_refused_on_a_gpu(
    stack: Stack, variants: list[Variant], given: dict[str, Any]
) -> None:
    with reported("cpu-image"):
        _create(stack, *variants, cpu_image=True, **given)


def test_the_image_for_cpus_is_refused_besides_an_image_of_ones_own(stack: Stack) -> None:
    own = CustomImage(repository=ecr.Repository(stack, "Own"), tag="7")
    with reported("cpu-image"):
        _create(stack, CPU, cpu_image=True, image=own)
