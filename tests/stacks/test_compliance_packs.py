from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from aws_cdk import aws_logs as logs
from fleet_app import UPDATES, FleetApp, fleet_app
from vpc_fleet import vpc_fleet

from stacks.policy import (
    PACKS,
    Acceptance,
    accept,
    acceptances,
    attach,
    compliance_acceptances,
    synthesise,
)
from triton_fleet import FleetError

FLEETS: dict[str, Callable[[], FleetApp]] = {
    "many builds at a time": lambda: fleet_app(parallel_builds=4),
    "elsewhere": lambda: fleet_app(
        region="eu-south-1", instance_type="ml.g4dn.xlarge", models="", alarm_email="a@b.c"
    ),
    "updates": lambda: fleet_app(**UPDATES),
    "in a VPC": vpc_fleet,
}


def _findings(fleet: FleetApp, accepted: Iterable[Acceptance]) -> set[str]:
    """What the packs find, without what is accepted: the rule and the construct."""
    accept(accepted)
    fleet.app.synth()  # only then do references between the stacks read as they will in the template
    return {
        f"{violation.rule_name} {resource.construct_path.removesuffix('/Resource')}"
        for pack in PACKS.values()
        for violation in pack(fleet.app).validate_scope(fleet.app).violations
        for resource in violation.violating_resources
    }


def _for_standards(fleet: FleetApp) -> list[Acceptance]:
    return list(compliance_acceptances(models=fleet.models, inference=fleet.inference))


def _accepted(fleet: FleetApp) -> list[Acceptance]:
    return [*acceptances(models=fleet.models, inference=fleet.inference), *_for_standards(fleet)]


@pytest.mark.parametrize("name", FLEETS)
def test_no_pack_finds_what_was_not_accepted(name: str) -> None:
    fleet = FLEETS[name]()

    assert _findings(fleet, _accepted(fleet)) == set()


def test_an_app_can_be_held_to_every_pack_at_each_synthesis() -> None:
    fleet = fleet_app()
    attach(fleet.app, models=fleet.models, inference=fleet.inference, packs=PACKS)

    synthesise(fleet.app)


def test_a_finding_of_a_pack_for_a_standard_stops_the_synthesis() -> None:
    fleet = fleet_app()
    attach(fleet.app, models=fleet.models, inference=fleet.inference, packs=PACKS)
    logs.LogGroup(fleet.models, "Forgotten")

    with pytest.raises(FleetError) as raised:
        synthesise(fleet.app)
    assert {problem.rule for problem in raised.value.problems} == {
        f"{pack}-CloudWatchLogGroupEncrypted" for pack in ("NIST.800.53.R5", "HIPAA.Security", "PCI.DSS.321")
    }


def test_the_packs_are_awake() -> None:
    found = _findings(fleet_app(), [])

    assert all(any(each.startswith(f"{pack}-") for each in found) for pack in PACKS)


@pytest.mark.parametrize("name", FLEETS)
def test_every_acceptance_for_a_standard_is_still_needed(name: str) -> None:
    fleet = FLEETS[name]()
    given = [f"{each.finding} {each.construct.node.path}" for each in _for_standards(fleet)]

    assert len(set(given)) == len(given)
    assert _findings(fleet, acceptances(models=fleet.models, inference=fleet.inference)) == set(given)


def test_every_acceptance_is_for_one_resource_and_gives_a_reason() -> None:
    accepted = _accepted(fleet_app())

    assert {len(each.construct.node.path.split("/")) for each in accepted} <= {3, 4, 5, 6}
    assert all(len(each.reason) > 60 for each in accepted)
