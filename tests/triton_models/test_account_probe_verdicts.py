"""The verdicts of account probes where AWS answers in part as it is believed to: every part counts."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from triton_models.facts.instances import INSTANCE_TYPES
from triton_models.facts.quota_needs import needs
from triton_models.facts.releases import release
from triton_models.probe.account.journal import Journal
from triton_models.probe.account.probes import PROBES
from triton_models.probe.account.work import Place, Work

PLACE = Place(
    account="123456789012",
    partition="aws",
    region="us-east-1",
    release=release("25.09"),
    instance=INSTANCE_TYPES["ml.g5.2xlarge"],
)

Probe = Callable[..., dict[str, str]]


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Probe]:
    """Run a probe with these clients, by service; returns the outcome of each of its beliefs."""
    journal = Journal.begin(tmp_path, place=PLACE.as_dict(), probes=())

    def run(name: str, clients: Mapping[str, Any]) -> dict[str, str]:
        asked: Any = clients.__getitem__
        with ThreadPoolExecutor(1) as background:
            work = Work(place=PLACE, clients=asked, journal=journal, background=background)
            (steps,) = (each.run(work) for each in PROBES if each.id == name)
            try:
                while True:
                    next(steps)
            except StopIteration as ended:
                return {each.belief: each.outcome.value for each in ended.value}

    yield run
    journal.delete()


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Call")


class Accepting:
    """A client that accepts every call."""

    def __getattr__(self, call: str) -> Callable[..., dict[str, Any]]:
        return lambda **_: {}


# S3


class Bucket(Accepting):
    """A bucket that refuses what S3 should, except what it accepts; what it refuses it may still write."""

    def __init__(self, *, accepts: str = "", overwrites: bool = False) -> None:
        self._accepts, self._overwrites = accepts, overwrites
        self._objects: dict[str, bytes] = {}
        self._part = b""

    def put_object(self, *, Key: str, Body: bytes, **more: str) -> dict[str, Any]:  # noqa: N803
        if "ChecksumSHA256" in more:
            self._refuse("object", "BadDigest")
        self._write("put", Key, Body, more)
        return {}

    def create_multipart_upload(self, **_: str) -> dict[str, Any]:
        return {"UploadId": "1"}

    def upload_part(self, *, Key: str, Body: bytes, **_: Any) -> dict[str, Any]:  # noqa: N803
        if Key.endswith("part"):
            self._refuse("part", "BadDigest")
        self._part = Body
        return {"ETag": "e"}

    def complete_multipart_upload(self, *, Key: str, **more: Any) -> dict[str, Any]:  # noqa: N803
        self._write("complete", Key, self._part, more)
        return {}

    def get_object(self, *, Key: str, **_: str) -> dict[str, Any]:  # noqa: N803
        return {"Body": io.BytesIO(self._objects[Key])}

    def _write(self, what: str, key: str, content: bytes, conditions: Mapping[str, Any]) -> None:
        taken = "IfNoneMatch" in conditions and key in self._objects
        if not taken or self._overwrites:
            self._objects[key] = content
        if taken:
            self._refuse(what, "PreconditionFailed")

    def _refuse(self, what: str, code: str) -> None:
        if what != self._accepts:
            raise refused(code)


def test_a_bucket_that_refuses_all_that_it_should_is_as_believed(probe: Probe) -> None:
    assert probe("writes", {"s3": Bucket()}) == {"s3-refuses-taken-key": "true"}


@pytest.mark.parametrize("accepts", ["complete", "put", "part", "object"])
def test_a_bucket_that_accepts_one_write_that_it_should_refuse_is_found(accepts: str, probe: Probe) -> None:
    assert probe("writes", {"s3": Bucket(accepts=accepts)}) == {"s3-refuses-taken-key": "false"}


def test_a_bucket_that_refuses_a_write_and_keeps_it_is_found(probe: Probe) -> None:
    assert probe("writes", {"s3": Bucket(overwrites=True)}) == {"s3-refuses-taken-key": "false"}


# Service quotas


class AbsentError(Exception):
    """Service Quotas has no quota of a code."""


class ServiceQuotas:
    """Service Quotas, with the names that are wanted; quotas found by their code may have others."""

    exceptions = type("Exceptions", (), {"NoSuchResourceException": AbsentError})

    def __init__(self, renamed: Collection[str] = (), absent: Collection[str] = ()) -> None:
        wanted = [
            need
            for machine in ("on-demand", "processing-job")
            for need in needs(PLACE.instance, region=PLACE.region, machine=machine)
        ]
        names = {need.code or f"L-{need.name}": need.name for need in wanted}
        self._names = {code: "Another" if code in renamed else name for code, name in names.items()}
        self._absent = absent

    def get_paginator(self, _: str) -> ServiceQuotas:
        return self

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Quotas": [self._quota(code) for code in self._names]}]

    def get_service_quota(self, *, QuotaCode: str, **_: str) -> dict[str, Any]:  # noqa: N803
        return {"Quota": self._quota(QuotaCode)}

    def get_aws_default_service_quota(self, *, QuotaCode: str, **_: str) -> dict[str, Any]:  # noqa: N803
        if QuotaCode in self._absent:
            raise AbsentError
        return {"Quota": self._quota(QuotaCode)}

    def _quota(self, code: str) -> dict[str, Any]:
        return {"QuotaCode": code, "QuotaName": self._names[code], "Value": 1.0}


GPU_BUILDS = "L-F1FE1B52"


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (ServiceQuotas(), "true"),
        (ServiceQuotas(renamed={GPU_BUILDS}), "false"),
        (ServiceQuotas(absent={GPU_BUILDS}), "false"),
    ],
    ids=["as documented", "renamed", "absent"],
)
def test_a_quota_that_is_found_by_its_code_must_have_its_name(
    service: ServiceQuotas, expected: str, probe: Probe
) -> None:
    assert probe("quotas", {"service-quotas": service}) == {"quota-names": expected}


# Endpoint configurations


class Configurations(Accepting):
    """SageMaker, which refuses configurations that have one of these."""

    def __init__(self, refuses: Collection[str]) -> None:
        self._refuses = refuses

    def create_endpoint_config(self, *, ProductionVariants: list[Any], **more: Any) -> None:  # noqa: N803
        has = {*more, *(["two variants"] if len(ProductionVariants) > 1 else [])}
        if has & set(self._refuses):
            raise refused("ValidationException")


@pytest.mark.parametrize(
    ("refuses", "expected"),
    [
        ({"DataCaptureConfig", "ShadowProductionVariants", "two variants"}, "true"),
        (set(), "false"),
        ({"DataCaptureConfig"}, "undecided"),
        ({"ShadowProductionVariants", "two variants"}, "undecided"),
    ],
)
def test_configurations_decide_something_only_if_all_are_refused_or_none_is(
    refuses: set[str], expected: str, probe: Probe
) -> None:
    clients = {"sagemaker": Configurations(refuses), "s3": Accepting(), "iam": Accepting()}
    assert probe("configurations", clients)["data-capture-excluded"] == expected


# Stacks

CREATED = ("Last", "CREATE_COMPLETE")
UPDATED = ("Last", "UPDATE_COMPLETE")
CLEANING = ("", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
REMOVING = ("Replaced", "DELETE_IN_PROGRESS")


class Stacks(Accepting):
    """CloudFormation, where an update has these events; "" is the stack itself."""

    def __init__(self, *events: tuple[str, str]) -> None:
        self._events = events

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        return {"Stacks": [{"StackStatus": "UPDATE_COMPLETE"}]}

    def describe_stack_events(self, *, StackName: str) -> dict[str, Any]:  # noqa: N803
        newest_first = reversed(self._events)
        return {
            "StackEvents": [
                {"LogicalResourceId": what or StackName, "ResourceStatus": status}
                for what, status in newest_first
            ]
        }


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((CREATED, UPDATED, CLEANING, REMOVING), "true"),
        ((CREATED, CLEANING, REMOVING, UPDATED), "false"),
        ((CREATED, UPDATED, REMOVING, CLEANING), "false"),
    ],
)
def test_what_an_update_replaces_must_be_removed_after_everything_is_updated(
    events: tuple[tuple[str, str], ...], expected: str, probe: Probe
) -> None:
    clients = {"cloudformation": Stacks(*events)}
    assert probe("replaced", clients) == {"old-endpoint-removed-last": expected}
