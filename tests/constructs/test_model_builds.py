from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Annotations, Match
from declared import Build, declare
from jsii._runtime import kernel
from synthesised import Resources

from tests.reported import reported
from tests.triton_models import declared_models
from triton_fleet import ModelBuildProject, ModelRepository, MultiModelFleet
from triton_fleet.builds.inputs import BUILD_WEIGHTS
from triton_fleet.parts.arguments.late import late_problems

FORMS = Path(__file__).parents[2] / "model_builds"


def _project(resources: Resources) -> dict[str, Any]:
    (project,) = resources("AWS::CodeBuild::Project")
    return project


def test_the_source_is_one_asset_that_leftovers_do_not_change(
    stack: Stack, repository: ModelRepository, source: Path
) -> None:
    def hash_now() -> str:
        inner = Stack(App(), "Fleet")
        inner_repository = ModelRepository(inner, "Repository")
        return ModelBuildProject(
            inner, "Builds", repository=inner_repository, source=source, models=["minilm"]
        ).source.asset_hash

    before = hash_now()
    for leftover in ("models/__pycache__/x.pyc", ".mypy_cache/3.11/x.json", "build/minilm/build.json"):
        (source / leftover).parent.mkdir(parents=True)
        (source / leftover).write_text("left over")
    assert hash_now() == before

    with (source / "models" / "minilm" / "build.py").open("a") as declaration:
        declaration.write("# another line\n")
    assert hash_now() != before


@pytest.mark.parametrize(("mutable", "policies"), [(True, 1), (False, 0)])
def test_an_imported_role_gets_them_unless_it_is_immutable(
    stack: Stack, build: Build, resources: Resources, mutable: bool, policies: int
) -> None:
    arn = "arn:aws:iam::123456789012:role/builds"
    build(role=iam.Role.from_role_arn(stack, "Mine", arn, mutable=mutable))

    assert _project(resources)["ServiceRole"] == arn
    assert len(resources("AWS::IAM::Policy")) == policies


@pytest.mark.parametrize(
    ("instance_type", "service"), [("ml.g5.2xlarge", "CodeBuild"), ("ml.g6.xlarge", "SageMaker")]
)
def test_what_an_immutable_role_must_allow_is_a_warning(
    stack: Stack, build: Build, instance_type: str, service: str
) -> None:
    arn = "arn:aws:iam::123456789012:role/builds"
    build(instance_type=instance_type, role=iam.Role.from_role_arn(stack, "Mine", arn, mutable=False))

    allow = Match.string_like_regexp(f"(?=.*s3:PutObject)(?=.*ecr:BatchGetImage).*{service} to assume")
    assert len(Annotations.from_stack(stack).find_warning("/Fleet/Builds", allow)) == 1


def test_a_processing_job_runs_with_an_existing_role(
    stack: Stack, build: Build, resources: Resources
) -> None:
    arn = "arn:aws:iam::123456789012:role/builds"
    build(role=iam.Role.from_role_arn(stack, "Mine", arn), instance_type="ml.g6.xlarge")
    variables = {
        each["Name"]: each["Value"] for each in _project(resources)["Environment"]["EnvironmentVariables"]
    }

    assert f'"RoleArn":"{arn}"' in str(variables["FLEET_JOB"])
    assert len(resources("AWS::IAM::Role")) == 1  # of what starts the job


def test_a_build_may_take_two_hours_or_what_is_asked_for(build: Build, resources: Resources) -> None:
    build(timeout=Duration.hours(4))

    assert _project(resources)["TimeoutInMinutes"] == 240


@pytest.mark.parametrize(
    ("arguments", "rules"),
    [
        ({"instance_type": "ml.p4d.24xlarge"}, ["build-gpu-is-serving-gpu"]),
        ({"instance_type": "ml.g5.2xlrage", "release": "25.9"}, ["unknown-instance-type", "unknown-release"]),
        ({"models": ["minilm", "resnet"]}, ["model-build-exists"]),
        ({"models": []}, ["model-build-exists"]),
        ({"source": "nowhere"}, ["build-source"]),
    ],
)
def test_a_mistake_names_its_rule(build: Build, arguments: dict[str, Any], rules: list[str]) -> None:
    with reported(*rules):
        build(**arguments)


def test_a_declared_model_that_the_release_cannot_serve_fails_the_synthesis(
    build: Build, source: Path
) -> None:
    path = source / "models" / "minilm" / "build.py"
    path.write_text(
        path.read_text()
        .replace("import Example", "import Wheels, Example")
        .replace('code="code.py"', 'code="code.py", environment=Wheels(["numpy==2.2.0"])')
    )

    stack = build(release="24.09").node.root

    with pytest.raises(RuntimeError, match=r"\[environment-numpy\]"):
        stack.synth()
    assert {problem.rule for problem in late_problems(stack)} == {"environment-numpy"}


def test_a_synthesis_calls_the_cdk_as_often_with_more_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []
    get = kernel.provider.get

    def counted(request: Any) -> Any:
        calls.append(request)
        return get(request)

    def calls_with(count: int) -> int:
        source = declare(tmp_path / str(count), *(f"model{number}" for number in range(count)))
        stack = Stack(App(), "Fleet", env=Environment(region="us-east-1"))
        MultiModelFleet(stack, "Fleet", source=source)
        before = len(calls)
        assert list(late_problems(stack)) == []
        return len(calls) - before

    monkeypatch.setattr(kernel.provider, "get", counted)
    assert calls_with(12) == calls_with(2)


def test_weights_that_only_this_machine_has_fail_the_synthesis(build: Build, source: Path) -> None:
    weights = "LocalWeights(path='/data/minilm.pt')"
    top = "from triton_models.spec import LocalWeights"
    declared_models.declare(source / "models", "minilm", top=top, weights=weights)

    (problem,) = late_problems(build().node.root)
    assert (problem.rule, problem.what) == (BUILD_WEIGHTS.id, "the weights are at '/data/minilm.pt'")


def test_a_declaration_that_cannot_be_read_fails_the_synthesis(build: Build, source: Path) -> None:
    (source / "models" / "minilm" / "build.py").write_text("BUILD = 1\n")

    with pytest.raises(RuntimeError, match="BUILD is 1"):
        build().node.root.synth()


def test_a_form_is_built_under_the_name_that_a_person_types(build: Build, resources: Resources) -> None:
    build(source=FORMS, models=["resnet50", "resnet50:torchscript"])
    (project,) = resources("AWS::CodeBuild::Project")
    variables = {each["Name"]: each["Value"] for each in project["Environment"]["EnvironmentVariables"]}
    assert variables["FLEET_MODELS"] == "resnet50 resnet50:torchscript"


def test_an_unknown_form_is_reported_with_the_close_one(stack: Stack, build: Build) -> None:
    build(source=FORMS, models=["resnet50:torchscipt"])

    (problem,) = late_problems(stack.node.root)

    assert (problem.rule, problem.fix) == ("unknown-form", "did you mean torchscript?")


def test_a_form_of_an_unknown_model_is_reported_with_the_close_one(build: Build) -> None:
    with reported("model-build-exists") as problems:
        build(source=FORMS, models=["resnet5:torchscript"])

    assert problems[0].fix == "did you mean resnet50?"
