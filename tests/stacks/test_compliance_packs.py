from __future__ import annotations

from collections.abc import Callable

import pytest
from aws_cdk import aws_logs as logs
from fleet_app import UPDATES, FleetApp, accepted_apart, findings, fleet_app
from vpc_fleet import vpc_fleet

from stacks.policy import PACKS, attach, synthesise
from triton_fleet import FleetError

FLEETS: dict[str, Callable[[], FleetApp]] = {
    "many builds at a time": lambda: fleet_app(parallel_builds=4),
    "elsewhere": lambda: fleet_app(
        region="eu-south-1", instance_type="ml.g4dn.xlarge", models="", alarm_email="a@b.c"
    ),
    "updates": lambda: fleet_app(**UPDATES),
    "in a VPC": vpc_fleet,
}


@pytest.mark.parametrize("name", FLEETS)
def test_no_pack_finds_what_was_not_accepted(name: str) -> None:
    assert findings(FLEETS[name]()) == set()


def test_an_app_can_be_held_to_every_pack_at_each_synthesis() -> None:
    fleet = fleet_app()
    attach(fleet.app, packs=PACKS)

    synthesise(fleet.app)


def test_a_finding_of_a_pack_for_a_standard_stops_the_synthesis() -> None:
    fleet = fleet_app()
    attach(fleet.app, packs=PACKS)
    logs.LogGroup(fleet.models, "Forgotten")

    with pytest.raises(FleetError) as raised:
        synthesise(fleet.app)
    assert {problem.rule for problem in raised.value.problems} == {
        f"{pack}-CloudWatchLogGroupEncrypted" for pack in ("NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321")
    }


@pytest.mark.parametrize("name", FLEETS)
def test_every_acceptance_is_still_needed_by_every_pack(name: str) -> None:
    with accepted_apart() as accepted:
        fleet = FLEETS[name]()
    given = [f"{each.finding} {each.construct.node.path}" for each in accepted]

    assert len(set(given)) == len(given)
    assert findings(fleet) == set(given)
