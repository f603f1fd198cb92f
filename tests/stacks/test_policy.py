from __future__ import annotations

import json
from pathlib import Path

import pytest
from fleet_app import UPDATES, accepted_apart, findings, fleet_app

from triton_fleet.fleet.accepted_findings import accept

FLEETS: dict[str, dict[str, object]] = {
    "default": {},
    "many builds at a time": {"parallel_builds": 4},
    "many jobs at a time": {"parallel_builds": 4, "instance_type": "ml.g4dn.xlarge"},
    "builds by hand": {"build_on_deployment": "false"},
    "weights of a private hub": {
        "hub_token": "arn:aws:secretsmanager:eu-west-1:123456789012:secret:hub-token-a1B2c3"
    },
    "a bucket that exists": {
        "bucket": "kept-models",
        "encryption_key": "arn:aws:kms:eu-west-1:123456789012:key/1234abcd",
        "parallel_builds": 4,
    },
    "updates": UPDATES,
    "elsewhere": {
        "region": "eu-south-1",
        "instance_type": "ml.g4dn.xlarge",
        "models": "",
        "alarm_email": "a@b.c",
    },
}


# With everything that builds, so that every acceptance is there.
LARGEST: dict[str, object] = {"parallel_builds": 4, **UPDATES}


@pytest.mark.parametrize("name", FLEETS)
def test_cdk_nag_finds_nothing_that_was_not_accepted(name: str) -> None:
    assert findings(fleet_app(**FLEETS[name]), ["AwsSolutions"]) == set()


def test_every_acceptance_is_still_needed() -> None:
    with accepted_apart() as accepted:
        fleet = fleet_app(**LARGEST)

    assert findings(fleet, ["AwsSolutions"]) == {
        f"{each.finding} {each.construct.node.path}"
        for each in accepted
        if each.finding.startswith("AwsSolutions-")
    }


def test_every_acceptance_is_written_next_to_its_construct_with_its_reason() -> None:
    with accepted_apart() as accepted:
        fleet = fleet_app(**LARGEST)
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
    assert "" not in {each.reason for each in accepted}
    assert {len(each.construct.node.path.split("/")) for each in accepted} <= {3, 4, 5, 6, 7}
