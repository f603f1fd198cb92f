from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Annotations as Advice
from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk.assertions import Annotations, Match, Template
from botocore_model import refused, resolved
from declared import Build, declare_family
from synthesised import Resources

from triton_fleet import FleetError, ModelBuildProject, ModelRepository
from triton_fleet.builds.code import run_processing_job
from triton_fleet.builds.inputs import BUILD_WEIGHTS, RANDOM_WEIGHTS, weights_advice
from triton_fleet.parts.arguments.late import late_problems
from triton_models.spec import models_folder

COMMIT = "df1b051c49625cf57a3d0d8d3863ed4d13564fe4"
WEIGHTS = {"T5_WEIGHTS": "s3://weights/t5/model.safetensors", "BERT_WEIGHTS": f"hf://google/bert@{COMMIT}"}


@pytest.fixture
def build(build: Build, source: Path) -> Build:
    """Makes builds of models that read WEIGHTS."""
    reads = "\n".join(f"os.environ.get('{name}')" for name in WEIGHTS)
    with (source / "models" / "minilm" / "build.py").open("a") as declaration:
        declaration.write(f"import os\n{reads}\n")
    return build


def _variables(resources: Resources) -> dict[str, Any]:
    (project,) = resources("AWS::CodeBuild::Project")
    return {each["Name"]: each for each in project["Environment"]["EnvironmentVariables"]}


def _statements(resources: Resources) -> dict[str, Any]:
    policies = resources("AWS::IAM::Policy")
    return {
        each["Sid"]: each
        for policy in policies
        for each in policy["PolicyDocument"]["Statement"]
        if "Sid" in each
    }


def test_a_build_finds_each_address_in_its_variable_and_may_read_exactly_the_objects(
    build: Build, resources: Resources
) -> None:
    build(weights=WEIGHTS)
    variables = _variables(resources)

    assert {name: variables[name]["Value"] for name in WEIGHTS} == WEIGHTS
    statement = _statements(resources)["Weights"]

    assert statement["Action"] == "s3:GetObject"
    assert statement["Resource"]["Fn::Join"][1][-1] == ":s3:::weights/t5/model.safetensors"


def test_a_build_may_read_what_is_under_a_prefix_and_list_nothing_else(
    build: Build, resources: Resources
) -> None:
    build(weights={"T5_WEIGHTS": "s3://weights/t5/"}, weights_from=["s3://data/checkpoints/"])
    reads = _statements(resources)["Weights"]
    lists = {
        each["Resource"]["Fn::Join"][1][-1]: each["Condition"]
        for policy in resources("AWS::IAM::Policy")
        for each in policy["PolicyDocument"]["Statement"]
        if each["Action"] == "s3:ListBucket" and "Fn::Join" in each["Resource"]
    }

    assert [each["Fn::Join"][1][-1] for each in reads["Resource"]] == [
        ":s3:::data/checkpoints/*",
        ":s3:::weights/t5/*",
    ]
    assert lists == {
        ":s3:::data": {"StringLike": {"s3:prefix": "checkpoints/*"}},
        ":s3:::weights": {"StringLike": {"s3:prefix": "t5/*"}},
    }


def test_each_model_with_random_weights_is_a_warning_until_trained_ones_are_named_or_it_is_acknowledged(
    stack: Stack, repository: ModelRepository, source: Path
) -> None:
    spec = "import os\nfrom triton_models.spec import RandomWeights\n"
    for name, reads in {"minilm": 'os.environ.get("T5_WEIGHTS")', "resnet50": "None"}.items():
        with (source / "models" / name / "build.py").open("a") as declaration:
            declaration.write(f"{spec}W = ({reads}, RandomWeights(seed=1))\n")

    def warned(construct_id: str, *, weights: dict[str, str], acknowledged: str = "") -> list[str]:
        builds = ModelBuildProject(stack, construct_id, repository=repository, source=source, weights=weights)
        if acknowledged:
            Advice.of(builds).acknowledge_warning(acknowledged)
        found = Annotations.from_stack(stack).find_warning(f"/Fleet/{construct_id}", Match.any_value())
        return sorted(str(each.entry.data).partition("[ack: ")[2].rstrip("]") for each in found)

    ids = [f"{RANDOM_WEIGHTS}:{name}" for name in ("minilm", "resnet50")]
    assert warned("Random", weights={}) == ids
    assert warned("Trained", weights={"T5_WEIGHTS": WEIGHTS["T5_WEIGHTS"]}) == ids[1:]
    assert warned("Known", weights={}, acknowledged=ids[1]) == ids[:1]


def test_a_build_may_read_the_side_file_of_an_onnx_file(build: Build, resources: Resources) -> None:
    build(weights={"T5_WEIGHTS": "s3://weights/fraud.onnx"})
    named = [each["Fn::Join"][1][-1] for each in _statements(resources)["Weights"]["Resource"]]

    assert named == [":s3:::weights/fraud.onnx", ":s3:::weights/fraud.onnx.data"]


@pytest.mark.parametrize(
    ("name", "given", "warned"),
    [
        ("dali_inception", "INCEPTION_GRAPH", True),
        ("dali_inception", "INCEPTION_WEIGHTS", False),
        ("dali_inception:tensorflow", "INCEPTION_GRAPH", False),
        ("dali_inception:tensorflow", "T5_WEIGHTS", True),
    ],
)
def test_only_the_variable_of_the_random_weights_ends_the_warning(
    name: str, given: str, warned: bool
) -> None:
    advice = weights_advice([name], source=models_folder().parent, given={given: "s3://weights/file"})
    assert [each for each, _ in advice] == [f"{RANDOM_WEIGHTS}:{name}"] * warned


def test_a_processing_job_gets_the_weights_and_what_a_build_overrides(build: Build, stack: Stack) -> None:
    build(weights=WEIGHTS, instance_type="ml.g4dn.xlarge")
    template = Template.from_stack(stack).to_json()
    (project,) = (
        each["Properties"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::CodeBuild::Project"
    )
    found = {
        each["Name"]: resolved(each["Value"], template)
        for each in project["Environment"]["EnvironmentVariables"]
    }
    other = "s3://weights/other.pt"
    request = run_processing_job.job_request(found | {"CODEBUILD_BUILD_ID": "b:1", "T5_WEIGHTS": other})

    assert request["Environment"]["BERT_WEIGHTS"] == WEIGHTS["BERT_WEIGHTS"]
    assert request["Environment"]["T5_WEIGHTS"] == other
    assert refused("sagemaker", "CreateProcessingJob", request) == []


def test_a_variable_that_no_declaration_reads_is_reported_with_the_close_ones(build: Build) -> None:
    with pytest.raises(
        FleetError, match=r"(?s)no declaration reads T5_WEIGHT\b.*did you mean T5_WEIGHTS"
    ) as raised:
        build(weights={"T5_WEIGHT": WEIGHTS["T5_WEIGHTS"]})

    assert [problem.rule for problem in raised.value.problems] == [BUILD_WEIGHTS.id]


@pytest.mark.parametrize("instance_type", ["ml.g5.2xlarge", "ml.g4dn.xlarge"])
def test_a_build_may_decrypt_its_source_where_the_bucket_of_assets_has_a_key_of_its_own(
    build: Build, stack: Stack, resources: Resources, instance_type: str
) -> None:
    arn = "arn:aws:kms:us-east-1:123456789012:key/01234567-89ab-cdef-0123-456789abcdef"
    build(source_key=kms.Key.from_key_arn(stack, "Company", arn), instance_type=instance_type)
    statement = _statements(resources)["SourceKey"]

    assert (statement["Action"], statement["Resource"]) == ("kms:Decrypt", arn)


def test_a_processing_job_reads_the_token_itself_so_that_describing_it_shows_none(
    build: Build, stack: Stack, resources: Resources
) -> None:
    build(hub_token=secretsmanager.Secret(stack, "Token"), instance_type="ml.g4dn.xlarge")
    variables = _variables(resources)
    job = str(variables["FLEET_JOB"]["Value"])

    assert "HF_TOKEN" not in variables
    assert "FLEET_HUB_TOKEN_SECRET" in job
    assert job.index("get_secret_value") < job.index("triton_models deliver")


@pytest.mark.parametrize(
    ("members", "rules"),
    [
        ("lambda: 1 / 0", []),  # a list that is read at synthesis would fail it
        ("'s3://weights/tenants/'", ["build-weights"]),
        ("'s3://lists/tenants.csv'", []),
    ],
)
def test_a_family_is_synthesised_by_its_sample_and_its_list_must_be_readable(
    source: Path, build: Build, stack: Stack, members: str, rules: list[str]
) -> None:
    declare_family(source, "minilm", members)
    build(weights_from=["s3://lists/"])

    found = {problem.rule for problem in late_problems(stack)}
    assert found == set(rules)
