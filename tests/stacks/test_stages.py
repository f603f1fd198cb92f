from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks
from fleet_app import CONTEXT, NO_FILE, mistakes, run_app

from app import declare
from triton_fleet.app import FleetConfig, fleet_configs
from triton_models.base.errors import Problem

STAGING = {"account": "111111111111", "region": "eu-west-1", "max_capacity": 2}
PRODUCTION = {"account": "222222222222", "region": "eu-west-1"}
PROVIDER = "arn:aws:iam::111111111111:oidc-provider/token.actions.githubusercontent.com"
STAGES: dict[str, Any] = {"staging": STAGING, "production": PRODUCTION}


def _context(stages: Any = None, **context: Any) -> dict[str, Any]:
    shared = context.pop("shared", {"release": "26.05", "max_capacity": 8})
    return context | {"tritonFleet": shared | {"stages": STAGES if stages is None else stages}}


def _read(stages: Any = None, **context: Any) -> tuple[FleetConfig, ...]:
    return fleet_configs(App(context=_context(stages, **context)).node, environment={}, file=NO_FILE)


def _problems(stages: Any = None, *, file: Path = NO_FILE, **context: Any) -> list[Problem]:
    return mistakes(file=file, **_context(stages, **context))


def _declared(stages: dict[str, Any], stage: str, **shared: Any) -> App:
    """The app of these stages without models, of which one or all are declared."""
    app = App(context={"tritonFleet": {"models": [], "stages": stages} | shared, "stage": stage})
    for config in fleet_configs(app.node, environment={}, file=NO_FILE):
        declare(app, config)
    return app


def _stack(app: App, name: str) -> Stack:
    found = app.node.find_child(name)
    assert isinstance(found, Stack)
    return found


def _staging(**given: Any) -> dict[str, Any]:
    """The context of a single stage with these settings of its own, which is selected."""
    return {"stages": {"staging": STAGING | given}, "stage": "*"}


def _shared(**given: Any) -> dict[str, Any]:
    """The context of two stages with these shared settings, which are both selected."""
    return {"stage": "*", "shared": {"github_repository": "a/b"} | given}


def test_a_stage_has_its_own_values_and_all_others_are_shared() -> None:
    (staging,) = _read(stage="staging")
    (production,) = _read(stage="production")

    assert (staging.account, staging.max_capacity, staging.release) == ("111111111111", 2, "26.05")
    assert (production.account, production.max_capacity, production.release) == ("222222222222", 8, "26.05")
    assert (staging.stage, staging.deployed_in) == ("staging", "eu-west-1")


def test_every_stage_is_read_in_its_order_with_a_star() -> None:
    assert [each.stage for each in _read(stage="*")] == ["staging", "production"]


def test_the_fleet_of_a_stage_is_named_after_it_unless_it_says_otherwise() -> None:
    given = {"staging": STAGING, "production": PRODUCTION | {"name": "Search"}}
    names = [each.name for each in _read(given, stage="*", shared={"name": "Find"})]

    assert names == ["Find-staging", "Search"]


def test_the_command_line_precedes_the_stage() -> None:
    (config,) = _read(stage="staging", max_capacity="5", name="Search", account="333333333333")

    assert (config.max_capacity, config.name, config.account) == (5, "Search", "333333333333")


def test_a_value_on_the_command_line_is_for_the_selected_stage_only() -> None:
    same = {"staging": STAGING | {"name": "Search"}, "production": PRODUCTION | {"name": "Search"}}
    (config,) = _read(same, stage="staging", account="333333333333")

    assert config.account == "333333333333"


@pytest.mark.parametrize(
    ("keys", "rule", "where", "fix"),
    [
        ({}, "stage-choice", "the command line", "-c stage=staging"),
        ({"stage": "productio"}, "unknown-stage", "the command line", "did you mean production"),
        ({"stage": "production", "stages": {}}, "unknown-stage", "the command line", "remove it"),
        (
            {"stages": STAGES | {"third": {"region": "eu-west-1"}}, "stage": "*"},
            "stage-environment",
            "stage 'third'",
            '"account"',
        ),
        ({"stages": {"third": {"account": "1" * 12}}, "stage": "*"}, "stage-environment", "", '"region"'),
        (
            _staging(max_capcity=3),
            "unknown-config-key",
            "max_capcity of stage 'staging'",
            "did you mean max_capacity",
        ),
        (_staging(stages={}), "unknown-config-key", "stages of stage 'staging'", ""),
        (_staging(max_capacity="many"), "config-value-kind", "max_capacity of stage 'staging'", "an integer"),
        (_staging(account=111111111111), "config-value-kind", "account of stage 'staging'", "a string"),
        (
            {
                "stages": dict.fromkeys(("staging", "production"), STAGING),
                "stage": "*",
                "shared": {"github_repository": "octo-org/search", "models": []},
            },
            "stage-provider",
            "stages of cdk.json",
            "in the stage 'production', set github_provider to arn:aws:iam::111111111111:oidc",
        ),
        (
            {"stages": {}, "stage": None, "shared": {"github_repository": "octo-org/search"}},
            "github-stage",
            "github_repository of cdk.json",
            "declare `stages`",
        ),
        (_shared(github_provider="github"), "github-provider", "github_provider of cdk.json", ""),
        ({"stages": [STAGING], "stage": "*"}, "config-value-kind", "stages of cdk.json", "an object"),
        ({"stages": {"staging": "1"}, "stage": "*"}, "config-value-kind", "stage 'staging'", "an object"),
        ({"stages": {}, "stage": None, "tritonflet": 1}, "unknown-config-key", "", "tritonFleet"),
        ({"stage": None, "stages": {}, "shared": {"stage": "a"}}, "unknown-config-key", "", "stages"),
    ],
)
def test_a_mistake_is_reported_at_its_place(keys: dict[str, Any], rule: str, where: str, fix: str) -> None:
    problem = _problems(**keys)[0]

    assert (problem.rule, where in problem.where, fix in problem.fix) == (rule, True, True)


def test_ids_of_github_are_numbers_or_strings_of_digits() -> None:
    config, _ = _read(stage="*", shared={"github_owner_id": 583231, "github_repository_id": " 1296269 "})

    assert (config.github_owner_id, config.github_repository_id) == ("583231", "1296269")


@pytest.mark.parametrize("given", ["octo-org", -1, True])
def test_an_id_that_is_no_number_is_one_mistake(given: Any) -> None:
    shared = {"github_repository": "a/b", "github_owner_id": given, "github_repository_id": 1296269}

    assert {each.rule for each in _problems(stage="staging", shared=shared)} == {"github-ids"}


@pytest.mark.parametrize(
    ("other", "selected", "refused"),
    [
        ({"account": "111111111111"}, "staging", True),
        ({"account": "111111111111", "region": "eu-central-1"}, "staging", False),
        ({}, "staging", False),
        ({}, "*", True),
    ],
    ids=["same place", "another region", "another account", "in one synthesis"],
)
def test_two_stages_of_one_name_are_refused_where_they_would_be_the_same_stacks(
    other: dict[str, str], selected: str, refused: bool
) -> None:
    stages = {"staging": STAGING | {"name": "Search"}, "production": PRODUCTION | {"name": "search"} | other}

    found = (
        [each.rule for each in _problems(stages, stage=selected)]
        if refused
        else _read(stages, stage=selected)
    )

    assert found == ["stage-name"] if refused else len(found) == 1


def test_stages_that_are_not_selected_are_checked_too() -> None:
    given = {"staging": STAGING, "production": PRODUCTION | {"instance_type": "ml.g5.2xlrage"}}
    (problem,) = _problems(given, stage="staging")

    assert problem.where.startswith("instance_type of stage 'production'")


def test_a_mistake_in_shared_settings_is_reported_once() -> None:
    (problem,) = _problems(stage="*", shared={"release": "25.9"})

    assert problem.where == "release of cdk.json"


def test_a_duplicate_key_is_found_in_the_file_as_the_command_line_loses_the_first(tmp_path: Path) -> None:
    file = tmp_path / "cdk.json"
    file.write_text('{"context": {"tritonFleet": {"stages": {"a": {"account": "1", "account": "2"}}}}}')

    (problem,) = _problems(stage="*", file=file)

    assert (problem.rule, problem.where) == ("repeated-key", "cdk.json")
    assert problem.what == 'duplicate key \'account\', with the values "1" and "2"'


@pytest.mark.parametrize("text", ["{", "[]", '{"context": 1}'])
def test_a_file_that_the_command_line_refuses_is_left_to_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cdk.json"
    file.write_text(text)

    assert len(fleet_configs(App(context=_context(stage="*")).node, environment={}, file=file)) == 2


def test_a_star_is_a_fleet_without_stages_as_well() -> None:
    assert _read({}, stage="*") == (FleetConfig(release="26.05", max_capacity=8),)


def test_stages_that_share_an_account_have_stacks_of_their_own() -> None:
    app = _declared({"staging": STAGING, "production": STAGING}, "*")

    assert [each.stack_name for each in app.node.children if isinstance(each, Stack)] == [
        f"TritonFleet-{stage}{part}"
        for stage in ("staging", "production")
        for part in ("Models", "Inference")
    ]


def test_the_role_of_a_workflow_belongs_to_its_stage_and_cdk_nag_finds_nothing_in_it() -> None:
    stages = {"staging": STAGING, "production": STAGING | {"github_provider": PROVIDER}}
    app = _declared(stages, "production", github_repository="octo-org/search")
    app.synth()

    stack = _stack(app, "TritonFleet-productionDelivery")
    Template.from_stack(stack).has_output("DeployRole", {})
    assert "repo:octo-org/search:environment:production" in json.dumps(Template.from_stack(stack).to_json())
    violations = AwsSolutionsChecks(app).validate_scope(stack).violations
    assert [each.rule_name for each in violations] == []


def test_the_role_of_a_workflow_may_read_what_a_promotion_watches() -> None:
    stages = {"staging": STAGING, "production": STAGING | {"github_provider": PROVIDER}}
    app = _declared(stages, "production", github_repository="octo-org/search")
    delivery = Template.from_stack(_stack(app, "TritonFleet-productionDelivery"))

    (policy,) = delivery.find_resources("AWS::IAM::Policy").values()
    allowed = {
        each["Action"]: json.dumps(each["Resource"])
        for each in policy["Properties"]["PolicyDocument"]["Statement"]
        if isinstance(each["Action"], str)
    }
    assert allowed["cloudwatch:DescribeAlarms"] == '"*"'  # composite alarms need it
    assert ':endpoint/TritonFleet-production-*"' in allowed["sagemaker:DescribeEndpoint"]


@pytest.mark.parametrize(
    ("production", "reads"),
    [
        (STAGING | {"github_provider": PROVIDER}, True),
        (STAGING | {"github_provider": PROVIDER, "region": "us-west-2"}, True),
        (PRODUCTION, False),
    ],
)
def test_a_stage_reads_the_repository_of_the_one_before_it_in_the_same_account(
    production: dict[str, str], reads: bool
) -> None:
    stages = {
        "dev": PRODUCTION | {"name": "Dev", "account": "333333333333"},
        "staging": STAGING,
        "production": production,
    }
    app = _declared(stages, "production", github_repository="octo-org/search")
    delivery = Template.from_stack(_stack(app, "TritonFleet-productionDelivery"))
    found = json.dumps(delivery.to_json(), sort_keys=True)

    asked = {"StackName": "TritonFleet-stagingModels", "OutputName": "RepositoryUrl", "Region": "eu-west-1"}
    assert (json.dumps({"Fn::GetStackOutput": asked}, sort_keys=True) in found) is reads
    assert "Dev" not in found


def test_a_role_of_the_same_account_needs_no_permission_of_the_repository() -> None:
    role = "arn:aws:iam::111111111111:role/TritonFleet-productionDelivery"
    (problem,) = _problems({"staging": STAGING | {"promoted_by": [role]}}, stage="staging")

    assert problem.rule == "promoted-by"


@pytest.mark.story
def test_one_synthesis_writes_every_stage_for_its_own_account_and_region(tmp_path: Path) -> None:
    stages = {"staging": STAGING, "production": PRODUCTION | {"region": "us-west-2"}}
    settings = CONTEXT["tritonFleet"] | {"stages": stages}

    completed = run_app(tmp_path, context={"tritonFleet": settings, "stage": "*"})

    assert completed.returncode == 0, completed.stderr
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    found = {
        name: each["environment"]
        for name, each in manifest["artifacts"].items()
        if each["type"] == "aws:cloudformation:stack"
    }
    assert found == {
        "TritonFleet-stagingModels": "aws://111111111111/eu-west-1",
        "TritonFleet-stagingInference": "aws://111111111111/eu-west-1",
        "TritonFleet-productionModels": "aws://222222222222/us-west-2",
        "TritonFleet-productionInference": "aws://222222222222/us-west-2",
    }
