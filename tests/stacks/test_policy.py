from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from cdk_nag import AwsSolutionsChecks
from fleet_app import UPDATES, FleetApp, fleet_app

from stacks.policy import Acceptance, accept, acceptances

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


def _findings(fleet: FleetApp, accepted: Iterable[Acceptance]) -> list[str]:
    """What the pack finds, without what is accepted: the rule and the construct."""
    accept(accepted)
    fleet.app.synth()  # only then do references between the stacks read as they will in the template
    return sorted(
        f"{violation.rule_name} {resource.construct_path.removesuffix('/Resource')}"
        for violation in AwsSolutionsChecks(fleet.app).validate_scope(fleet.app).violations
        for resource in violation.violating_resources
    )


def _accepted(fleet: FleetApp) -> list[Acceptance]:
    return list(acceptances(models=fleet.models, inference=fleet.inference))


# With everything that builds, so that every acceptance is there.
LARGEST: dict[str, object] = {"parallel_builds": 4, **UPDATES}


@pytest.mark.parametrize("name", FLEETS)
def test_cdk_nag_finds_nothing_that_was_not_accepted(name: str) -> None:
    fleet = fleet_app(**FLEETS[name])

    assert _findings(fleet, _accepted(fleet)) == []


def test_every_acceptance_is_still_needed() -> None:
    fleet = fleet_app(**LARGEST)

    accepted = _accepted(fleet)

    assert _findings(fleet, []) == sorted(f"{each.finding} {each.construct.node.path}" for each in accepted)


def test_every_acceptance_is_written_beside_its_construct_with_its_reason() -> None:
    fleet = fleet_app(**LARGEST)
    accepted = _accepted(fleet)
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


def test_no_acceptance_covers_more_than_a_resource_and_its_parts() -> None:
    paths = [each.construct.node.path for each in _accepted(fleet_app(**LARGEST))]

    assert {len(path.split("/")) for path in paths} <= {3, 4, 5, 6}
