"""The findings of cdk-nag in the stacks are accepted where they are, and there are no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from aws_cdk import aws_s3 as s3
from fleet_app import COMPANY, UPDATES, FleetApp, accepted_apart, findings, new_fleet

from triton_fleet import FleetError
from triton_fleet.app.synthesis import attach, write_templates
from triton_fleet.fleet.accepted_findings import accept

T4 = "ml.g4dn.xlarge"  # CodeBuild does not rent it: models are built in Processing jobs
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hub-token-a1B2c3"
KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd"
# An aspect sets the key of logs after the findings about logs without one were accepted.
_COMPANY = {**COMPANY, "log_encryption_key": ""}

FLEETS: dict[str, Callable[[], FleetApp]] = {
    "many builds at a time": partial(new_fleet, parallel_builds=4),
    "a job at a time": partial(new_fleet, instance_type=T4),
    "many jobs at a time in a region": partial(
        new_fleet, instance_type=T4, parallel_builds=4, region="eu-south-1"
    ),
    "builds of new weights": partial(
        new_fleet, build_on_new_weights="true", weights_from="s3://weights/", build_every_hours="24"
    ),
    "signals": partial(new_fleet, signals="true", watch="minilm"),
    "builds by hand": partial(new_fleet, build_on_deployment="false"),
    "weights of a private hub": partial(new_fleet, hub_token=SECRET),
    "a bucket that exists": partial(
        new_fleet, bucket="kept-models", encryption_key=KEY, parallel_builds=4, signals="true"
    ),
    "updates": partial(new_fleet, **UPDATES),
    "no builds": partial(new_fleet, region="eu-south-1", models="", alarm_email="a@b.c"),
    "on CPUs": partial(new_fleet, instance_type="ml.c7i.2xlarge"),
    "in a company's VPC": partial(new_fleet, parallel_builds=4, vpc=COMPANY["vpc"]),
    "with all that a company has": partial(new_fleet, **_COMPANY),
    "jobs with all that a company has": partial(new_fleet, instance_type=T4, **_COMPANY),
}


@pytest.mark.parametrize("name", FLEETS)
def test_every_finding_is_accepted_and_every_acceptance_is_needed(name: str) -> None:
    with accepted_apart() as accepted:
        fleet = FLEETS[name]()
    given = [f"{each.finding} {each.construct.node.path}" for each in accepted]
    found = findings(fleet)
    accept(accepted)

    assert sorted(given) == sorted(found)
    assert findings(fleet) == set()


def test_every_acceptance_is_written_next_to_its_construct_with_its_reason() -> None:
    with accepted_apart() as accepted:
        fleet = new_fleet(parallel_builds=4, **UPDATES)
    accept(accepted)
    written = {
        (path, finding.removeprefix("Annotation::"), reason)
        for file in Path(fleet.app.synth().directory).glob("*.metadata.json")
        for path, entries in json.loads(file.read_text()).items()
        for entry in entries
        if entry["type"] == "aws:cdk:acknowledged-rules"
        for finding, reason in entry["data"].items()
    }

    assert {(f"/{each.construct.node.path}", each.finding, each.reason) for each in accepted} <= written
    assert all(each.reason for each in accepted)


def test_a_finding_stops_the_synthesis() -> None:
    fleet = new_fleet()
    attach(fleet.app)
    s3.Bucket(fleet.models, "Forgotten")

    with pytest.raises(FleetError) as raised:
        write_templates(fleet.app)
    assert "AwsSolutions-S10" in {problem.rule for problem in raised.value.problems}
