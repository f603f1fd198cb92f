from __future__ import annotations

import re
from pathlib import Path

import pytest
from aws_cdk import App, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match, Template
from declared import with_values

from tests.reported import reported
from triton_fleet import GpuUtilization, ModelLibrary, MultiModelFleet, Replace, Serving, TritonServer
from triton_fleet.fleet.multi_model_fleet import BUDGET_BELOW_MINIMUM, NOTHING_IS_BUILT
from triton_fleet.operations.dashboard import PRICE_OF_ANOTHER_REGION


def fleet(stack: Stack, source: Path, **given: object) -> MultiModelFleet:
    return MultiModelFleet(stack, "Fleet", source=source, models=["minilm", "resnet50"], **with_values(given))  # type: ignore[arg-type]


def test_a_fleet_that_is_replaced_has_another_endpoint_for_other_settings_and_no_rollback_alarms(
    source: Path,
) -> None:
    def endpoint(*, role: str = "", **given: object) -> str:
        stack = Stack(App(), "Fleet")
        mine = iam.Role.from_role_arn(stack, "Role", role) if role else None
        made = fleet(stack, source, fleet_name="search", deployment=Replace(), role=mine, **given)
        assert made.rollback == ()
        [found] = Template.from_stack(stack).find_resources("AWS::SageMaker::Endpoint").values()
        return str(found["Properties"]["EndpointName"])

    before = endpoint()
    others = [
        endpoint(min_capacity=2),
        endpoint(role="arn:aws:iam::123456789012:role/mine"),
        endpoint(server=TritonServer(log_info=False)),
    ]

    assert re.fullmatch(r"search-g5-2xlarge-25-09-[0-9a-f]{6}", before)
    assert len({before, *others}) == 4
    assert endpoint(max_capacity=9, hourly_price_usd=1.0) == before


def test_a_library_of_another_stack_decides_hardware_and_release(source: Path) -> None:
    app = App()
    library = ModelLibrary(
        Stack(app, "Models"),
        "Models",
        source=source,
        models=["minilm"],
        serving=Serving(instance_type="ml.g5.xlarge"),
    )

    inference = Stack(app, "Inference")

    made = MultiModelFleet(inference, "Fleet", library=library, fleet_name="search")

    assert made.library is library
    Template.from_stack(inference).has_resource_properties(
        "AWS::SageMaker::Endpoint",
        {"EndpointName": f"search-g5-xlarge-{library.serving.release.replace('.', '-')}"},
    )


def test_warnings_of_the_budget_go_where_the_alarms_go(stack: Stack) -> None:
    topic = sns.Topic(stack, "Topic")
    MultiModelFleet(stack, "Fleet", alarm_topic=topic, alarm_email="ml@example.com", monthly_budget_usd=500)
    (budget,) = Template.from_stack(stack).find_resources("AWS::Budgets::Budget").values()
    warnings = budget["Properties"]["NotificationsWithSubscribers"]

    assert {each["SubscriptionType"] for one in warnings for each in one["Subscribers"]} == {"SNS"}


@pytest.mark.parametrize(
    ("limit", "price", "warned"),
    [(1105, None, True), (1106, None, False), (10, 0.01, False), (10, 1.0, True)],
)
def test_a_budget_below_the_cost_of_the_fewest_instances_is_warned_of(
    limit: float, price: float | None, warned: bool, stack: Stack
) -> None:
    MultiModelFleet(
        stack, "Fleet", alarm_email="ml@example.com", monthly_budget_usd=limit, hourly_price_usd=price
    )
    found = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp(BUDGET_BELOW_MINIMUM))

    assert len(found) == warned


TENANTS = """
from pathlib import Path
from triton_models.spec import ModelDefinition, PyTorchNetwork, Tensor

with Path(__file__).with_name("read.pyc").open("a") as file:
    file.write("read ")

def declared(name):
    network = PyTorchNetwork(
        name=name, network=print, inputs=[Tensor("X", "FP32", [4])], outputs=["Y"], max_batch_size=8
    )
    return ModelDefinition(name=name, description="", models=[network], examples=list, output="Y")

BUILD = declared("score")
FORMS = {f"t{number}": declared(f"score_t{number}") for number in range(300)}
"""


def test_three_hundred_models_of_one_network_are_declared_in_one_file(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "models" / "score"
    folder.mkdir(parents=True)
    (folder / "build.py").write_text(TENANTS)
    names = [f"score:t{number}" for number in range(300)]
    made = MultiModelFleet(stack, "Fleet", source=tmp_path, models=names, alarm_email="ml@example.com")
    template = Template.from_stack(stack)

    assert made.library.built == tuple(names)
    variables = [
        each["Properties"]["Environment"]["EnvironmentVariables"]
        for each in template.find_resources("AWS::CodeBuild::Project").values()
    ]
    assert {"Name": "FLEET_MODELS", "Type": "PLAINTEXT", "Value": " ".join(names)} in variables[0]
    assert len((folder / "read.pyc").read_text().split()) < 10  # once in each process


def test_without_a_source_nothing_is_built(stack: Stack) -> None:
    made = MultiModelFleet(stack, "Fleet")

    assert made.library.builds is None
    Annotations.from_stack(stack).has_info("/Fleet/Fleet", Match.string_like_regexp(NOTHING_IS_BUILT))
    Template.from_stack(stack).resource_count_is("AWS::CodeBuild::Project", 0)


@pytest.mark.parametrize(
    ("region", "given", "warned"),
    [
        ("eu-central-1", None, True),
        ("eu-central-1", 2.0, False),
        ("us-east-1", None, False),
        (None, None, False),
    ],
)
def test_a_price_of_another_region_is_said_to_be_one(
    region: str | None, given: float | None, warned: bool, app: App
) -> None:
    stack = Stack(app, "Priced", env=Environment(region=region))
    cost = MultiModelFleet(stack, "Fleet", hourly_price_usd=given).dashboard.cost
    found = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp(PRICE_OF_ANOTHER_REGION))

    assert cost is not None
    assert ("; eu-central-1 may differ: set hourly_price_usd" in ". ".join(cost.lines())) is warned
    assert len(found) == warned


def test_targets_of_your_own_replace_the_usual_ones(stack: Stack, source: Path) -> None:
    fleet(stack, source, targets=[GpuUtilization(percent=40)])

    template = Template.from_stack(stack)
    template.resource_count_is("AWS::ApplicationAutoScaling::ScalingPolicy", 1)
    template.has_resource_properties(
        "AWS::ApplicationAutoScaling::ScalingPolicy",
        {"TargetTrackingScalingPolicyConfiguration": Match.object_like({"TargetValue": 40})},
    )


@pytest.mark.parametrize(
    "given",
    [{"library": True, "models": ["minilm"]}, {"library": True, "source": "x"}, {"models": ["minilm"]}],
)
def test_models_come_from_a_library_or_from_a_source(given: dict[str, object], stack: Stack) -> None:
    library = ModelLibrary(stack, "Library") if given.pop("library", False) else None

    with reported("fleet-models"):
        MultiModelFleet(stack, "Fleet", library=library, **given)  # type: ignore[arg-type]


def test_an_application_may_follow_resolve_and_invoke_and_reads_no_weights(
    stack: Stack, source: Path
) -> None:
    role = iam.Role(stack, "Application", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    fleet(stack, source).grant_invoke(role)

    policies = Template.from_stack(stack).find_resources("AWS::IAM::Policy")
    [document] = [
        each["Properties"]["PolicyDocument"]
        for name, each in policies.items()
        if name.startswith("Application")
    ]
    found = {statement["Action"]: str(statement["Resource"]) for statement in document["Statement"]}
    assert set(found) == {
        "ssm:GetParameter",
        "sagemaker:InvokeEndpoint",
        "s3:ListBucket",
        "s3:GetObject",
        "kms:Decrypt",
    }
    assert "/models/manifest.json" in found["s3:GetObject"]
