"""Quotas that are too low for a fleet are reported with the command that raises them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3.session
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

import triton_models.cli.main as cli
from tests.reported import reported
from tests.triton_models.publishing_aws import ENVIRONMENT, endpoint, own_endpoints
from triton_models.base.errors import FleetError
from triton_models.facts import quotas
from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.facts.quotas import Need, Quota, Quotas, needs, read

G5 = INSTANCE_TYPES["ml.g5.2xlarge"]
LISTED = "ml.g4dn.2xlarge"  # moto has no newer type with a GPU
ENDPOINT = "ml.g5.2xlarge for endpoint usage"
ENDPOINTS = "Number of instances across active endpoints"
JOBS = "Number of instances across all processing jobs"
SMALL = "Concurrently running builds for Linux/Small environment"
JOB = "ml.g4dn.xlarge for processing job usage"


@pytest.fixture(scope="module")
def client() -> Any:
    return boto3.session.Session().client(
        "service-quotas", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
    )


@pytest.fixture
def service(client: Any) -> Iterator[Stubber]:
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def _quota(name: str, code: str, value: float, **fields: Any) -> dict[str, Any]:
    return {"QuotaName": name, "QuotaCode": code, "Value": value, "Adjustable": True, **fields}


def _listed(service: Stubber, *quotas: dict[str, Any], more: bool = False) -> None:
    service.add_response(
        "list_aws_default_service_quotas", {"Quotas": list(quotas), **({"NextToken": "more"} if more else {})}
    )


def _applied(service: Stubber, quota: dict[str, Any], *, code: str = "sagemaker") -> None:
    expected = {"ServiceCode": code, "QuotaCode": quota["QuotaCode"]}
    service.add_response("get_service_quota", {"Quota": quota}, expected)


def _need(name: str = ENDPOINT, *, least: float = 1) -> Need:
    return Need(service="sagemaker", name=name, least=least, what="an endpoint")


def _outcome(value: float, *, adjustable: bool = True) -> Quotas:
    quota = Quota(need=_need(least=4), code="L-1", value=value, adjustable=adjustable)
    return Quotas(region="eu-west-1", quotas=(quota,))


def test_a_fleet_needs_its_endpoint_twice_over_and_a_machine_that_builds_for_its_gpu() -> None:
    endpoint, total, build = needs(G5, region="us-east-1", instances=4)

    assert (endpoint.service, endpoint.name, endpoint.least) == ("sagemaker", ENDPOINT, 8)
    assert (total.name, total.code, total.least) == (ENDPOINTS, "L-7A3DF611", 8)
    assert (build.service, build.code, build.least) == ("codebuild", "L-F1FE1B52", 1)

    _, _, build, total, starter = needs(INSTANCE_TYPES["ml.g4dn.xlarge"], region="us-east-1")
    assert (build.service, build.name, build.code) == ("sagemaker", JOB, None)
    assert (total.name, total.code, total.least) == (JOBS, "L-F311B08F", 1)
    assert (starter.service, starter.name, starter.code) == ("codebuild", SMALL, "L-9D07B6EF")

    job = needs(G5, region="us-east-1", machine="processing-job", build_type="ml.g5.xlarge")
    assert job[2].name == "ml.g5.xlarge for processing job usage"
    assert len(needs(G5, region="us-east-1", machine="none")) == 2


@pytest.mark.parametrize(("name", "small"), [("ml.g5.2xlarge", 1), ("ml.g4dn.xlarge", 8)])
def test_builds_at_a_time_need_as_many_and_small_ones_beside_them(name: str, small: int) -> None:
    _, _, build, *total, steps = needs(INSTANCE_TYPES[name], region="us-east-1", builds=8)

    assert (build.least, steps.name, steps.least) == (8, SMALL, small)
    assert [each.least for each in total] == ([8] if small == 8 else [])
    assert build.what.startswith("8 builds at a time")


def test_without_a_gpu_a_build_needs_a_machine_without_one() -> None:
    _, _, build = needs(INSTANCE_TYPES["ml.c7i.large"], region="us-east-1")

    assert build.name == "Concurrently running builds for Linux/Large environment"


def test_a_quota_is_found_by_its_name_on_whatever_page(service: Stubber, client: Any) -> None:
    _listed(service, _quota("ml.g5.xlarge for endpoint usage", "L-0", 0), more=True)
    _listed(service, _quota(ENDPOINT, "L-1", 0), more=True)  # and no page after it is read
    _applied(service, _quota(ENDPOINT, "L-1", 8))

    (quota,) = read([_need()], client)

    assert (quota.code, quota.value, quota.enough) == ("L-1", 8, True)


def test_a_quota_with_a_documented_code_is_not_looked_for(service: Stubber, client: Any) -> None:
    build = needs(G5, region="us-east-1")[2]
    service.add_client_error("get_service_quota", "NoSuchResourceException")
    service.add_response(
        "get_aws_default_service_quota",
        {"Quota": _quota(build.name, "L-F1FE1B52", 0)},
        {"ServiceCode": "codebuild", "QuotaCode": "L-F1FE1B52"},
    )

    assert read([build], client)[0].value == 0


def test_names_that_there_are_not_are_reported_together(service: Stubber, client: Any) -> None:
    _listed(service)

    with reported("service-quotas", "service-quotas") as problems:
        read([_need(), _need(JOB)], client)

    assert [each.what.split("'")[1] for each in problems] == [ENDPOINT, JOB]


def test_a_quota_that_is_too_low_comes_with_the_command_that_raises_it() -> None:
    outcome = _outcome(1)

    assert outcome.exit_code == 1
    assert list(outcome.lines()) == [
        f"low  1 of 4 needed  {ENDPOINT} (sagemaker L-1)",
        "     for an endpoint",
        "     aws service-quotas request-service-quota-increase --region eu-west-1 "
        "--service-code sagemaker --quota-code L-1 --desired-value 4",
    ]
    assert outcome.as_dict()["quotas"][0]["request"].startswith("aws service-quotas request")


def test_quotas_that_are_enough_pass() -> None:
    outcome = _outcome(4)

    assert outcome.exit_code == 0
    assert list(outcome.lines()) == [f"ok   4 of 4 needed  {ENDPOINT} (sagemaker L-1)"]
    assert "request" not in outcome.as_dict()["quotas"][0]
    assert "AWS Support" in list(_outcome(1, adjustable=False).lines())[-1]


@pytest.fixture
def no_access(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "DEFAULT_REGION", "REGION", "PROFILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    for name in ("AWS_EC2_METADATA_DISABLED", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, ENVIRONMENT[name])


@pytest.mark.parametrize(
    ("region", "given", "what"),
    [
        ("", {}, "the region is missing"),
        ("us-east-1", {}, "cannot read Service Quotas"),  # without credentials
        ("", {"instance_type": "ml.g5.huge"}, "unknown instance type 'ml.g5.huge'"),
        ("", {"build_instance_type": "ml.g5.huge"}, "unknown instance type 'ml.g5.huge'"),
    ],
)
def test_what_cannot_be_asked_is_one_error(
    no_access: None, monkeypatch: pytest.MonkeyPatch, region: str, given: dict[str, Any], what: str
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)

    with pytest.raises(FleetError) as caught:
        quotas.run(quotas.CheckQuotasOptions(**{"instance_type": "ml.g5.2xlarge", **given}))

    assert [problem.what for problem in caught.value.problems] == [what]


def _read_eight(wanted: list[Need], _: Any) -> tuple[Quota, ...]:
    return tuple(Quota(need=each, code=each.code or "L-1", value=8, adjustable=True) for each in wanted)


def test_instances_of_other_endpoints_need_quota_too(
    environment: pytest.MonkeyPatch, aws: str, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.setattr(quotas, "read", _read_eight)
    with own_endpoints(aws) as sagemaker:
        for name, type_, count in (
            ("search", LISTED, 3),
            ("demo", "ml.m5.large", 1),
            ("TritonFleet-25-09", LISTED, 1),
        ):
            endpoint(sagemaker, "s3://b/m/", name=name, image="t", instance_type=type_, count=count)
        asked = ["check-quotas", "--instance-type", LISTED, "--fleet", "TritonFleet"]
        status = cli.main([*asked, "--json"])
        document = json.loads(capsys.readouterr().out)
        cli.main(asked)
    found = {each["name"]: each for each in document["quotas"]}
    own = found[f"{LISTED} for endpoint usage"]

    assert (status, document["unread"]) == (1, "")
    assert own["in_use"] == {"search": 3}
    assert found[ENDPOINTS]["in_use"].items() >= {"search": 3, "demo": 1}.items()
    assert own["request"].endswith("--desired-value 11")
    assert f"low  8 of 8 needed, and 3 in use (3 by search)  {LISTED}" in capsys.readouterr().out


def test_endpoints_that_may_not_be_read_are_said_to_be_unknown(
    environment: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "ListEndpoints")

    environment.setattr(quotas, "read", _read_eight)
    environment.setattr(quotas, "in_use", refuse)

    assert cli.main(["check-quotas", "--instance-type", "ml.g5.2xlarge"]) == 0
    assert "Other endpoints count as well, and could not be read: AccessDenied" in capsys.readouterr().out
