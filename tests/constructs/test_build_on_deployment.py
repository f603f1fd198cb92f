# ruff: noqa: ARG002, N803 (boto3's clients have these arguments)

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template
from botocore.exceptions import ClientError
from declared import Build, build_in, declare, declare_family
from function_world import Clock, Context, Requests, asked, web_server

from triton_fleet import BuildRuns, DeploymentBuild, ModelRepository, ReservedMachines
from triton_fleet.endpoint.functions.code import deployment_build
from triton_fleet.parts.arguments.late import late_problems

TARGET = "sm86-trt10.13.3"
ELSEWHERE = {"sm75-trt10.13.3": "resnet50-1.tar.gz"}
ARTIFACT = "resnet50-0123456789ab.tar.gz"
BUILD = "Builds-AbC:01234567-89ab-cdef-0123-456789abcdef"
RUN = "arn:aws:states:us-east-1:123456789012:execution:Runs:r-1"


@pytest.fixture
def builds(build: Build) -> Build:
    return lambda **arguments: build(**({"models": None} | arguments))


def _found(stack: Stack, kind: str) -> dict[str, Any]:
    found = Template.from_stack(stack).find_resources(kind)
    return dict(found)


def _only(stack: Stack, kind: str) -> dict[str, Any]:
    (found,) = _found(stack, kind).values()
    return dict(found)


def _inputs(source: Path, **arguments: Any) -> str:
    stack = Stack(App(), "Fleet")
    build = build_in(stack, source=source, repository=ModelRepository(stack, "Repository"))
    DeploymentBuild(stack, "Build", builds=build(**arguments))
    return json.dumps(_only(stack, "Custom::TritonBuild")["Properties"]["Inputs"])


def test_a_deployment_waits_for_the_permissions_of_an_imported_role(stack: Stack, builds: Build) -> None:
    role = iam.Role.from_role_arn(stack, "Mine", "arn:aws:iam::123456789012:role/builds")
    DeploymentBuild(stack, "Build", builds=builds(role=role))
    (policy,) = (name for name in _found(stack, "AWS::IAM::Policy") if name.startswith("Mine"))

    assert _only(stack, "Custom::TritonBuild")["DependsOn"] == [policy]


def test_a_deployment_knows_which_names_are_families(source: Path, stack: Stack, builds: Build) -> None:
    declare_family(source, "minilm", "lambda: 1 / 0")
    DeploymentBuild(stack, "Build", builds=builds()).wait()
    waits = _only(stack, "Custom::TritonModels")["Properties"]
    assert "minilm" in waits["Models"]
    assert waits["Families"] == ["minilm"]


def test_a_family_has_no_artifact_for_a_deployment(source: Path, stack: Stack, builds: Build) -> None:
    declare_family(source, "minilm", "lambda: 1 / 0")
    DeploymentBuild(stack, "Build", builds=builds()).artifact("minilm")

    assert [problem.rule for problem in late_problems(stack)] == ["deployed-model"]


JOB = "ml.g4dn.xlarge for processing job usage"
JOBS = "Number of instances across all processing jobs"


@pytest.mark.parametrize(
    ("given", "codes", "names"),
    [
        ({"instance_type": "ml.c7i.2xlarge"}, ["L-4DDC4A99"], None),
        ({"machine": ReservedMachines()}, None, None),
        ({"instance_type": "ml.g4dn.xlarge"}, ["L-9D07B6EF"], [JOB, JOBS]),
    ],
)
def test_a_deployment_reads_the_quotas_of_what_it_builds_on_and_may_read_no_more(
    stack: Stack, builds: Build, given: dict[str, Any], codes: list[str] | None, names: list[str] | None
) -> None:
    DeploymentBuild(stack, "Build", builds=builds(**given))
    properties = _only(stack, "Custom::TritonBuild")["Properties"]
    policies = json.dumps(_found(stack, "AWS::IAM::Policy"))

    assert (properties.get("QuotaCodes"), properties.get("QuotaNames")) == (codes, names)
    assert ("servicequotas:GetServiceQuota" in policies) == bool(codes)
    assert ("servicequotas:ListAWSDefaultServiceQuotas" in policies) == bool(names)


def test_a_deployment_starts_a_run_where_there_are_runs(stack: Stack, builds: Build) -> None:
    DeploymentBuild(stack, "Build", builds=BuildRuns(stack, "Runs", builds=builds()))
    resource = _only(stack, "Custom::TritonBuild")
    (machine,) = _found(stack, "AWS::StepFunctions::StateMachine")
    (children,) = (name for name in _found(stack, "AWS::IAM::Policy") if name.startswith("RunsChildren"))

    assert resource["Properties"]["StateMachine"] == {"Ref": machine}
    assert resource["Properties"]["QuotaCodes"] == ["L-9D07B6EF", "L-F1FE1B52"]
    assert children in resource["DependsOn"]


def test_another_input_is_another_build(source: Path) -> None:
    _add(source, "import os\nADDRESS = os.environ.get('A_WEIGHTS')\n")
    before = _inputs(source)
    others = [
        _inputs(source, models=["resnet50"]),
        _inputs(source, release="25.04"),
        _inputs(source, instance_type="ml.g4dn.xlarge"),
        _inputs(source, weights={"A_WEIGHTS": "s3://weights/a.pt"}),
        _inputs(source, environment={"PIP_INDEX_URL": "https://index.example.com/simple"}),
        _inputs(source, instance_type="ml.c7i.2xlarge"),
        _inputs(source, instance_type="ml.c7i.2xlarge", cpu_image=True),
    ]
    assert _inputs(source) == before

    _add(source, "# another line\n")
    others.append(_inputs(source))

    assert len({before, *others}) == 9


def _add(source: Path, text: str) -> None:
    with (source / "models" / "minilm" / "build.py").open("a") as declaration:
        declaration.write(text)


def test_answers_with_many_artifacts_are_as_long_as_cloudformation_accepts(
    stack: Stack, builds: Build, source: Path, world: World
) -> None:
    names = [f"a_model_with_a_rather_long_name_{number:03}" for number in range(150)]
    declare(source, *names)
    build = DeploymentBuild(stack, "Build", builds=builds(models=names))
    attributes = {build.artifact(name) for name in names}
    asked = [each["Properties"]["Models"] for each in _found(stack, "Custom::TritonArtifacts").values()]
    assert sorted(itertools.chain(*asked)) == names
    assert len(attributes) == len(names)

    stack_id = f"arn:aws:cloudformation:us-east-1:{'1' * 12}:stack/{'s' * 128}/{'u' * 36}"
    for models in asked:
        world.report(*(_published(name, f"{name}-{'0' * 16}.tar.gz") for name in models))
        world.wait(*models, StackId=stack_id, LogicalResourceId="i" * 255)
    assert max(len(body) for *_, body in world.cloudformation.seen) <= 4096


class World:
    """AWS as the function meets it: builds, runs and a bucket in this process, and CloudFormation's URL."""

    def __init__(self, cloudformation: Requests) -> None:
        self.clock = Clock()
        self.cloudformation = cloudformation
        self.status = "IN_PROGRESS"
        self.started: list[dict[str, Any]] = []
        self.stopped: list[str] = []
        self.objects: dict[str, Any] = {}
        self.invoked: list[dict[str, Any]] = []
        self.refusal: ClientError | None = None
        self.quotas: dict[str, float] = {}
        self.stack_status: str | None = "UPDATE_IN_PROGRESS"

    # The clients' methods, as boto3 spells them.

    def start_build(self, **request: Any) -> Any:
        if self.refusal:
            raise self.refusal
        self.started.append(request)
        return {"build": {"id": BUILD}}

    def get_service_quota(self, ServiceCode: str, QuotaCode: str) -> Any:
        if QuotaCode not in self.quotas:
            raise ClientError({"Error": {"Code": "NoSuchResourceException"}}, "GetServiceQuota")
        assert (ServiceCode == "sagemaker") == QuotaCode.startswith("L-job")
        return {"Quota": {"Value": self.quotas[QuotaCode]}}

    def get_aws_default_service_quota(self, ServiceCode: str, QuotaCode: str) -> Any:
        if QuotaCode == "L-closed":
            raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetAWSDefaultServiceQuota")
        return {"Quota": {"Value": 0}}

    def start_execution(self, **request: Any) -> Any:
        self.started.append(request)
        return {"executionArn": RUN}

    def batch_get_builds(self, ids: list[str]) -> Any:
        if self.status == "forgotten":
            return {"builds": [], "buildsNotFound": ids}
        return {"builds": [{"buildStatus": self.status, "logs": {"deepLink": f"https://logs/{ids[0]}"}}]}

    def describe_stacks(self, StackName: str) -> Any:
        if self.stack_status is None:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, "DescribeStacks")
        return {"Stacks": [{"StackStatus": self.stack_status}]}

    def describe_execution(self, executionArn: str) -> Any:
        if self.status == "forgotten":
            raise ClientError({"Error": {"Code": "ExecutionDoesNotExist"}}, "DescribeExecution")
        return {"status": self.status, "cause": "read s3://bucket/summary.json"}

    def stop_build(self, id: str) -> None:  # noqa: A002
        self.stopped.append(id)

    def stop_execution(self, executionArn: str, cause: str) -> None:
        self.stopped.append(executionArn)

    def get_paginator(self, _: str) -> World:
        return self

    def paginate(self, Bucket: str = "", Prefix: str = "", **listed: Any) -> Any:
        if listed:
            assert listed["ServiceCode"] == "sagemaker"
            names = {"L-job": "ml.g4dn.xlarge for processing job usage", "L-job2": "another"}
            return [{"Quotas": [{"QuotaCode": code, "QuotaName": names[code]}]} for code in names]
        keys = sorted(key for key in self.objects if key.startswith(Prefix))
        return [{"Contents": [{"Key": key} for key in keys]} if keys else {}]

    def list_objects_v2(self, Bucket: str, Prefix: str, MaxKeys: int) -> Any:
        return self.paginate(Bucket, Prefix)[0]

    def get_object(self, Bucket: str, Key: str) -> Any:
        body = json.dumps(self.objects[Key]).encode()
        return {"Body": type("Body", (), {"read": staticmethod(lambda: body)})}

    def invoke(self, **request: Any) -> None:
        self.invoked.append(json.loads(request["Payload"]))

    # What a test asks for.

    def ask(self, kind: str, properties: dict[str, Any], **more: Any) -> Any:
        """Have the function answer a request; gives the answer, if there was one."""
        return asked(deployment_build, self.cloudformation, self.clock, kind, properties, **more)

    def wait(
        self,
        *models: str,
        build: str = BUILD,
        seconds: int = 600,
        filled: bool = False,
        kind: str = "TritonArtifacts",
        families: tuple[str, ...] = (),
        **more: Any,
    ) -> Any:
        properties = {
            "Families": families,
            "Build": build,
            "Run": "r-1",
            "Models": list(models),
            "Bucket": "bucket",
            "RunsPrefix": "models-builds/runs/",
            "ManifestKey": "models/manifest.json",
            "Target": TARGET,
            "WaitSeconds": str(seconds),
        }
        return self.ask("TritonTarget" if filled else kind, properties, **more)

    def publish(self, **current: str | dict[str, str]) -> None:
        """A manifest of models and what each stands for: one artifact, or one for each target."""
        models = {
            model: {
                "current": {"any": each} if isinstance(each, str) else each,
                "history": [],
                "artifacts": {},
            }
            for model, each in current.items()
        }
        self.objects["models/manifest.json"] = {"version": 2, "models": models}

    def report(self, *results: dict[str, Any], finished: bool = True) -> None:
        """The document that a build writes while it goes on."""
        self.objects["models-builds/runs/r-1/results/0.json"] = {"finished": finished, "models": results}


def _published(model: str, artifact: str = ARTIFACT) -> dict[str, Any]:
    return {"model": model, "status": "published", "step": "publish", "problems": [], "artifact": artifact}


def _failed(model: str, step: str = "build") -> dict[str, Any]:
    problem = {"what": "no such operator: Foo", "fix": "use another"}
    return {"model": model, "status": "failed", "step": step, "problems": [problem], "log": "logs/resnet50"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with web_server() as cloudformation:
        world = World(cloudformation)
        monkeypatch.setattr(deployment_build.boto3, "client", lambda _: world)
        yield world


PROJECT = {"Project": "Builds-AbC", "Runs": "s3://bucket/models-builds/runs/"}


def test_the_build_is_started_and_the_deployment_goes_on(world: World) -> None:
    answer = world.ask("TritonBuild", PROJECT)

    assert answer["Status"] == "SUCCESS"
    assert answer["PhysicalResourceId"] == BUILD
    assert answer["Data"] == {"Run": "r-1"}
    assert world.clock.slept == []
    (request,) = world.started
    assert request["projectName"] == "Builds-AbC"
    assert request["environmentVariablesOverride"] == [
        {
            "name": "FLEET_RESULTS",
            "value": "s3://bucket/models-builds/runs/r-1/results/0.json",
            "type": "PLAINTEXT",
        }
    ]


def test_a_request_that_is_repeated_starts_no_second_build(world: World) -> None:
    for _ in range(2):
        world.ask("TritonBuild", PROJECT)
        world.ask("TritonBuild", {"StateMachine": "arn:machine"})

    assert {each.get("idempotencyToken") or each["name"] for each in world.started} == {"r-1"}


@pytest.mark.parametrize(
    ("started", "status", "stops"),
    [
        (BUILD, "IN_PROGRESS", True),
        (RUN, "RUNNING", True),
        (RUN, "FAILED", False),
        ("Build", "IN_PROGRESS", False),  # as CloudFormation names what was never made
    ],
)
def test_what_a_deployment_that_is_undone_has_started_does_not_go_on(
    world: World, started: str, status: str, stops: bool
) -> None:
    world.status = status
    answer = world.ask("TritonBuild", PROJECT, request="Delete", PhysicalResourceId=started)

    assert answer["Status"] == "SUCCESS"
    assert world.stopped == [started] * stops


def test_a_resource_that_was_never_made_is_deleted_without_a_word(world: World) -> None:
    assert (
        world.ask("TritonBuild", PROJECT, request="Delete", PhysicalResourceId="Build")["Status"] == "SUCCESS"
    )
    assert world.stopped == []


def test_an_account_without_a_quota_is_reported_at_once(world: World) -> None:
    world.refusal = ClientError(
        {"Error": {"Code": "AccountLimitExceededException", "Message": "Cannot have more than 0 builds"}},
        "StartBuild",
    )
    answer = world.ask("TritonBuild", PROJECT)

    assert answer["Status"] == "FAILED"
    assert "Cannot have more than 0 builds" in answer["Reason"]
    assert "fleet check-quotas" in answer["Reason"]


@pytest.mark.parametrize(
    ("codes", "ends"),
    [
        (["L-1"], "SUCCESS"),
        (["L-1", "L-new"], "FAILED"),
        (["L-closed"], "SUCCESS"),
        (["L-closed", "L-new"], "FAILED"),
    ],
)
def test_nothing_is_started_where_a_quota_is_0_and_all_is_where_none_can_be_read(
    world: World, codes: list[str], ends: str
) -> None:
    world.quotas = {"L-1": 1}
    answer = world.ask("TritonBuild", {**PROJECT, "QuotaCodes": codes})

    assert answer["Status"] == ends
    assert len(world.started) == (ends == "SUCCESS")
    assert ("L-new" in answer["Reason"]) == (ends == "FAILED")


@pytest.mark.parametrize(
    ("instance_type", "value", "ends"),
    [("ml.g4dn.xlarge", 0, "FAILED"), ("ml.g4dn.xlarge", 1, "SUCCESS"), ("ml.renamed", 0, "SUCCESS")],
)
def test_the_quota_of_jobs_is_found_by_its_name(
    world: World, instance_type: str, value: float, ends: str
) -> None:
    world.quotas = {"L-job": value, "L-job2": 0}
    name = f"{instance_type} for processing job usage"
    answer = world.ask("TritonBuild", {**PROJECT, "QuotaNames": [name]})

    assert answer["Status"] == ends
    assert len(world.started) == (ends == "SUCCESS")
    assert (f"{name} of sagemaker is 0" in answer["Reason"]) == (ends == "FAILED")


def test_a_start_that_a_new_permission_does_not_allow_yet_is_tried_again_for_two_minutes(
    world: World,
) -> None:
    world.refusal = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "StartBuild")
    world.clock.at(40, lambda: setattr(world, "refusal", None))
    assert world.ask("TritonBuild", PROJECT)["Status"] == "SUCCESS"
    assert world.clock.now == 45

    world.refusal = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "StartBuild")
    answer = world.ask("TritonBuild", PROJECT)
    assert "could not be started" in answer["Reason"]
    assert 120 <= world.clock.now - 45 < 150


def test_a_published_model_is_there_before_its_build_has_ended(world: World) -> None:
    world.clock.at(
        60, lambda: world.report(_published("resnet50"), _failed("minilm", "wait"), finished=False)
    )
    answer = world.wait("resnet50")

    assert answer["Status"] == "SUCCESS"
    assert answer["Data"] == {"resnet50": ARTIFACT}
    assert world.clock.now == 60


def test_all_models_are_waited_for_without_an_answer_that_would_be_too_long(world: World) -> None:
    names = [f"model_{number}" for number in range(200)]
    world.clock.at(60, lambda: world.report(*(_published(each) for each in names)))
    answer = world.wait(*names, kind="TritonModels")

    assert (answer["Status"], answer.get("Data", {})) == ("SUCCESS", {})
    assert world.clock.now == 60


@pytest.mark.parametrize("kind", ["TritonArtifacts", "TritonModels", "TritonTarget"])
def test_a_failed_model_fails_the_deployment_with_its_own_reason(world: World, kind: str) -> None:
    world.publish(resnet50=ELSEWHERE)
    world.clock.at(30, lambda: world.report(_failed("resnet50"), finished=False))
    answer = world.wait("resnet50", kind=kind)

    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith(
        "resnet50 failed in the step build: no such operator: Foo. use another."
    )
    assert "logs/resnet50" in answer["Reason"]
    assert world.clock.now == 30


def test_a_family_is_there_once_the_build_has_ended_without_a_failed_member(world: World) -> None:
    def end() -> None:
        world.status = "SUCCEEDED"

    world.report(_published("tenants:acme"), finished=False)
    world.clock.at(60, end)

    assert world.wait("tenants", families=("tenants",), kind="TritonModels")["Status"] == "SUCCESS"
    assert world.clock.now == 60


def test_a_failed_member_fails_the_deployment_with_its_name(world: World) -> None:
    world.report(_published("tenants:acme"), _failed("tenants:beta"))
    world.publish(tenants_beta=ELSEWHERE)
    world.status = "FAILED"

    answer = world.wait("tenants", families=("tenants",), filled=True)

    assert answer["Reason"].startswith("tenants:beta failed in the step build")


def test_another_models_failure_keeps_no_deployment_from_its_own(world: World) -> None:
    world.status = "FAILED"
    world.report(_failed("minilm"), _published("resnet50"))

    assert world.wait("resnet50")["Status"] == "SUCCESS"


def test_a_build_that_ends_without_a_result_fails_the_deployment_and_names_its_log(world: World) -> None:
    def die() -> None:
        world.status = "FAULT"

    world.clock.at(45, die)
    answer = world.wait("resnet50")

    assert answer["Status"] == "FAILED"
    assert answer["Reason"] == (
        f"The build that makes resnet50 ended as FAULT without it. Read: https://logs/{BUILD}"
    )


def test_a_run_that_had_nothing_to_build_gives_the_current_artifact(world: World) -> None:
    world.status = "SUCCEEDED"
    world.publish(resnet50=ARTIFACT)

    assert world.wait("resnet50", build=RUN)["Data"] == {"resnet50": ARTIFACT}


@pytest.mark.parametrize("build", [BUILD, RUN])
def test_a_forgotten_build_gives_what_its_results_or_the_manifest_have(world: World, build: str) -> None:
    world.status = "forgotten"
    world.report(_published("minilm", "minilm-1.tar.gz"))
    world.publish(resnet50=ARTIFACT, minilm="minilm-2.tar.gz")

    answer = world.wait("resnet50", "minilm", build=build, request="Update")

    assert answer["Data"] == {"resnet50": ARTIFACT, "minilm": "minilm-1.tar.gz"}
    assert world.clock.now == 0


def test_a_rollback_starts_no_build_and_ends_the_one_that_was_started(world: World) -> None:
    world.stack_status = "UPDATE_ROLLBACK_IN_PROGRESS"
    properties = {**PROJECT, "QuotaCodes": ["L-new"]}
    answer = world.ask("TritonBuild", properties, request="Update", PhysicalResourceId=BUILD)

    assert (answer["Status"], answer["PhysicalResourceId"]) == ("SUCCESS", BUILD)
    assert (world.started, world.stopped) == ([], [BUILD])


@pytest.mark.parametrize("kind", ["TritonArtifacts", "TritonModels", "TritonTarget"])
def test_a_rollback_waits_for_no_build_and_fails_for_none(world: World, kind: str) -> None:
    world.stack_status = "UPDATE_ROLLBACK_IN_PROGRESS"
    world.report(_failed("resnet50"))
    world.publish(resnet50=ARTIFACT)
    answer = world.wait("resnet50", kind=kind, request="Update")

    assert answer["Status"] == "SUCCESS"
    assert answer.get("Data", {}) == ({"resnet50": ARTIFACT} if kind == "TritonArtifacts" else {})
    assert world.clock.now == 0


@pytest.mark.parametrize("status", ["UPDATE_IN_PROGRESS", None])
def test_an_update_of_a_stack_that_is_not_known_to_roll_back_starts_a_build(
    world: World, status: str | None
) -> None:
    world.stack_status = status
    answer = world.ask("TritonBuild", PROJECT, request="Update", PhysicalResourceId="Builds-AbC:before")

    assert answer["PhysicalResourceId"] == BUILD


@pytest.mark.parametrize("before", [{}, {TARGET: "resnet50-0.tar.gz"}])
def test_a_target_that_lacks_a_model_is_filled_before_the_deployment_goes_on(
    world: World, before: dict[str, str]
) -> None:
    world.publish(resnet50={**ELSEWHERE, **before}, minilm=ARTIFACT)
    world.clock.at(90, lambda: world.report(_published("resnet50")))

    assert world.wait("resnet50", "minilm", "new", filled=True)["Status"] == "SUCCESS"
    assert world.clock.now == 90


def test_a_model_that_is_held_for_a_new_target_fails_the_deployment(world: World) -> None:
    world.publish(resnet50=ELSEWHERE)
    world.status = "SUCCEEDED"

    answer = world.wait("resnet50", build=RUN, filled=True)

    assert answer["Reason"].startswith(f"resnet50 is not in the repository for {TARGET}")


@pytest.mark.parametrize(
    ("request_type", "published"),
    [
        ("Create", {}),
        ("Create", {"resnet50": {TARGET: ARTIFACT}}),
        # As a deployment that is undone updates, and finds whatever is there.
        ("Update", {"resnet50": ELSEWHERE}),
        ("Delete", {"resnet50": ELSEWHERE}),
    ],
)
def test_a_target_that_lacks_nothing_is_not_waited_for(
    world: World, request_type: str, published: dict[str, Any]
) -> None:
    if published:
        world.publish(**published)

    assert world.wait("resnet50", filled=True, request=request_type)["Status"] == "SUCCESS"
    assert world.clock.now == 0


@pytest.mark.parametrize(
    ("build", "step", "finished"),
    [(BUILD, "wait", False), (RUN, "build", True)],
    ids=["the build has not come to it", "a run builds it once more"],
)
def test_a_model_whose_result_is_not_its_last_is_waited_for(
    world: World, build: str, step: str, finished: bool
) -> None:
    world.report(_failed("resnet50", step), finished=finished)
    world.clock.at(90, lambda: world.report(_published("resnet50")))

    assert world.wait("resnet50", build=build)["Data"] == {"resnet50": ARTIFACT}


def test_a_name_of_a_form_is_an_attribute_that_cloudformation_can_read(world: World) -> None:
    world.report(_published("resnet50:torchscript"))

    assert world.wait("resnet50:torchscript")["Data"] == {"resnet50.torchscript": ARTIFACT}


def test_a_build_that_takes_too_long_fails_the_deployment_with_what_to_do(world: World) -> None:
    answer = world.wait("resnet50", seconds=120)

    assert answer["Status"] == "FAILED"
    assert answer["Reason"].startswith(f"resnet50 not built within 2 min, by {BUILD}.")


def test_an_invocation_hands_over_before_its_time_is_up_and_the_next_ends_at_the_same_time(
    world: World,
) -> None:
    assert world.wait("resnet50", seconds=3540) is None
    (event,) = world.invoked
    assert world.clock.now < 900
    assert event["Deadline"] == 3540

    world.report(_published("resnet50"))
    deployment_build.handler(event, Context(world.clock), clock=world.clock, sleep=world.clock.sleep)

    assert world.cloudformation.bodies("/answer")[-1]["Data"] == {"resnet50": ARTIFACT}


def test_aws_that_does_not_answer_is_asked_again_for_two_minutes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "BatchGetBuilds")

    monkeypatch.setattr(world, "batch_get_builds", refuse)
    answer = world.wait("resnet50")

    assert answer["Status"] == "FAILED"
    assert "AccessDenied" in answer["Reason"]
    assert 120 <= world.clock.now < 150
