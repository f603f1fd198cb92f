"""The Lambda functions: what is delivered, what they may do, and what the rule packs say of them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk.assertions import Template
from botocore.exceptions import ClientError
from cdk_nag import AwsSolutionsChecks
from cfnlint.api import ManualArgs, lint
from declared import declare
from synthesised import Resources

from tests.reported import reported
from triton_fleet import (
    Canary,
    DeploymentBuild,
    EndpointAlias,
    EndpointWarmUp,
    ModelBuildProject,
    ModelRepository,
    MultiModelEndpoint,
    SingleModelEndpoint,
    Variant,
    WarmUpRequest,
    endpoint_name_for,
)
from triton_fleet.endpoint.functions import inline_function
from triton_fleet.endpoint.functions.code import endpoint_start
from triton_fleet.endpoint.functions.inline_function import (
    LARGEST_TEMPLATE,
    RUNTIME,
    InlineFunction,
    function_code,
)

SOURCES = sorted(
    each.stem
    for each in Path(str(inline_function.__file__)).with_name("code").glob("[!_]*.py")
    if "def handler(" in each.read_text()
)
FUNCTIONS = ("Artifacts/ArtifactReady/", "WarmUp/")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """Endpoints with everything that runs code in AWS."""
    source = declare(tmp_path_factory.mktemp("model_builds"), "minilm")
    stack = Stack(App(), "Fleet")
    repository = ModelRepository(stack, "Repository")
    SingleModelEndpoint(
        stack, "Artifacts", repository=repository, variants=[Variant(artifact="resnet50-01.tar.gz")]
    )
    endpoint = MultiModelEndpoint(
        stack,
        "Endpoint",
        repository=repository,
        endpoint_name=endpoint_name_for("Fleet", "ml.g5.2xlarge"),
        deployment=Canary(),
    )
    EndpointAlias(stack, "Alias", endpoint=endpoint, fleet="Fleet")
    builds = ModelBuildProject(stack, "Builds", repository=repository, source=source)
    DeploymentBuild(stack, "Build", builds=builds)
    EndpointWarmUp(stack, "WarmUp", endpoint=endpoint, requests=[WarmUpRequest(model="minilm", body="{}")])
    return stack


@pytest.fixture(scope="module")
def template(fleet: Stack) -> dict[str, Any]:
    return dict(Template.from_stack(fleet).to_json())


def _create(stack: Stack, **arguments: Any) -> InlineFunction:
    return InlineFunction(stack, "Function", source="warm_up", description="Loads models", **arguments)


def test_the_code_that_runs_is_the_file(template: dict[str, Any]) -> None:
    delivered = {
        each["Properties"]["Code"]["ZipFile"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::Lambda::Function"
    }

    assert delivered == {function_code(source) for source in SOURCES}


@pytest.mark.parametrize("source", SOURCES)
def test_a_file_is_complete_in_itself_and_needs_only_what_lambda_has(source: str, tmp_path: Path) -> None:
    imported = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(function_code(source)))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }
    assert imported <= {*sys.stdlib_module_names, "boto3", "botocore"}

    (tmp_path / "index.py").write_text(function_code(source))  # as CloudFormation names it
    subprocess.run(
        [sys.executable, "-c", "import index; assert callable(index.handler)"], cwd=tmp_path, check=True
    )


def test_code_that_no_template_can_carry_is_refused(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "warm_up.py").write_text("#" * LARGEST_TEMPLATE)
    monkeypatch.setattr(inline_function, "_SOURCES", tmp_path)

    with reported("inline-code"):
        _create(stack)


def test_the_runtime_is_the_newest_python() -> None:
    versions = [
        tuple(int(part) for part in each.name.removeprefix("python").split("."))
        for each in lambda_.Runtime.ALL
        if each.name.startswith("python")
    ]

    assert RUNTIME.name == "python{}.{}".format(*max(versions))


def test_a_function_is_as_it_is_asked_for(stack: Stack, resources: Resources) -> None:
    _create(stack, environment={"A": "b"}, memory_mb=256, log_retention=logs.RetentionDays.ONE_WEEK)
    (function,) = resources("AWS::Lambda::Function")
    (log_group,) = resources("AWS::Logs::LogGroup")

    assert function["Handler"] == "index.handler"
    assert function["Environment"] == {"Variables": {"A": "b"}}
    assert (function["MemorySize"], function["Timeout"]) == (256, 900)
    assert log_group["RetentionInDays"] == 7


def test_a_function_logs_to_its_own_group_and_may_do_nothing_else(stack: Stack, resources: Resources) -> None:
    created = _create(stack)
    (function,) = resources("AWS::Lambda::Function")
    (role,) = resources("AWS::IAM::Role")
    (policy,) = resources("AWS::IAM::Policy")
    (statement,) = policy["PolicyDocument"]["Statement"]

    assert statement["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]
    assert statement["Resource"] == stack.resolve(created.log_group.log_group_arn)
    assert function["LoggingConfig"] == {"LogGroup": stack.resolve(created.log_group.log_group_name)}
    # It has the reason of a failure, which a rollback would delete.
    Template.from_stack(stack).has_resource("AWS::Logs::LogGroup", {"DeletionPolicy": "Retain"})
    assert "ManagedPolicyArns" not in role


def test_a_function_is_made_once_its_role_has_its_policy(template: dict[str, Any]) -> None:
    resources = template["Resources"]
    for function in [each for each in resources.values() if each["Type"] == "AWS::Lambda::Function"]:
        (policy,) = function["DependsOn"]

        assert resources[policy]["Type"] == "AWS::IAM::Policy"


def test_the_template_is_clean_where_the_functions_run(template: dict[str, Any]) -> None:
    assert not lint(json.dumps(template), config=ManualArgs(regions=["us-east-1", "eu-west-1", "cn-north-1"]))


def _findings(app: App) -> Iterator[tuple[str, str]]:
    """Rule and path of every finding of AwsSolutions."""
    app.synth()
    for violation in AwsSolutionsChecks(app).validate_scope(app).violations:
        for resource in violation.violating_resources:
            yield violation.rule_name, resource.construct_path


def test_nothing_is_found_about_the_functions(fleet: Stack) -> None:
    app = fleet.node.root
    assert isinstance(app, App)
    found = [each for each in _findings(app) if each[1].removeprefix("Fleet/").startswith(FUNCTIONS)]

    assert found == []


def test_a_start_waits_for_permissions_that_take_effect_later() -> None:
    slept: list[float] = []

    def put() -> str:
        if len(slept) < 3:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "PutObject")
        return "done"

    assert endpoint_start._patiently(put, slept.append) == "done"
    assert sum(slept) < endpoint_start.REFUSED_S
