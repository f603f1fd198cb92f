from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from aws_cdk import Stack
from declared import with_serving

from tests.reported import problems_of
from triton_fleet import (
    BuildMachineChoice,
    FleetError,
    ModelBuildProject,
    ModelRepository,
    OnDemandMachine,
    ProcessingJob,
    ReservedMachines,
)
from triton_fleet.builds.machines import build_machine, check_machine
from triton_models.base.errors import Problem
from triton_models.facts.build_machines import (
    PROCESSING_TYPES,
    RESERVED_MACHINES,
    VOLUME_GB,
    automatic_machine,
    processing_type,
)
from triton_models.facts.instances import INSTANCE_TYPES

Make = Callable[..., ModelBuildProject]
RULE = "build-gpu-is-serving-gpu"


@pytest.fixture
def make(stack_in: Callable[[str], Stack], source: Path) -> Make:
    def builds(region: str = "us-east-1", **arguments: Any) -> ModelBuildProject:
        stack = stack_in(region)
        repository = ModelRepository(stack, "Repository")
        return ModelBuildProject(
            stack,
            "Builds",
            repository=repository,
            source=source,
            models=["minilm"],
            **with_serving(arguments),
        )

    return builds


def _problem(call: Callable[[], object]) -> Problem:
    with pytest.raises(FleetError) as raised:
        call()
    (problem,) = raised.value.problems
    return problem


def test_the_table_of_jobs_is_sagemakers_own() -> None:
    model = botocore.session.Session().get_service_model("sagemaker")
    offered: Any = model.shape_for("ProcessingInstanceType")
    hosted_with_gpu = {name for name, facts in INSTANCE_TYPES.items() if facts.gpu is not None}

    assert set(PROCESSING_TYPES) == hosted_with_gpu & set(offered.enum)


def test_a_job_asks_for_no_more_disk_than_its_machine_has() -> None:
    stores = [INSTANCE_TYPES[name].nvme_gb for name in PROCESSING_TYPES]

    assert all(store == 0 or store >= VOLUME_GB for store in stores)


def test_every_reserved_machine_is_the_smallest_of_its_family_and_found_by_its_gpu() -> None:
    for gpu, machine in RESERVED_MACHINES.items():
        own, family = INSTANCE_TYPES[f"ml.{machine}"], machine.split(".")[0]
        siblings = [facts for name, facts in INSTANCE_TYPES.items() if name.split(".")[1] == family]
        assert own.gpu is not None
        assert own.gpu.name == gpu
        assert own.memory_gib == min(facts.memory_gib for facts in siblings)


@pytest.mark.parametrize(
    ("instance_type", "region", "chosen", "name"),
    [
        ("ml.g5.2xlarge", None, OnDemandMachine(), "BUILD_GENERAL1_SMALL"),
        ("ml.g5.2xlarge", "us-east-1", OnDemandMachine(), "BUILD_GENERAL1_SMALL"),
        ("ml.g5.2xlarge", "eu-north-1", ProcessingJob(), "ml.g5.2xlarge"),
        ("ml.g4dn.xlarge", None, ProcessingJob(), "ml.g4dn.xlarge"),
        ("ml.g6.12xlarge", "us-east-1", ProcessingJob(), "ml.g6.12xlarge"),
        ("ml.g6e.2xlarge", "us-east-1", ProcessingJob(), "ml.g6e.2xlarge"),
        ("ml.p5.48xlarge", "us-east-1", ProcessingJob(), "ml.p5.4xlarge"),
        ("ml.c7i.2xlarge", "us-east-1", OnDemandMachine(), "BUILD_GENERAL1_LARGE"),
    ],
)
def test_what_costs_nothing_while_idle_is_chosen(
    instance_type: str, region: str | None, chosen: BuildMachineChoice, name: str
) -> None:
    machine = build_machine(None, INSTANCE_TYPES[instance_type], region)

    assert (machine.choice, machine.name) == (chosen, name)


@pytest.mark.parametrize(
    "name", [name for name, facts in INSTANCE_TYPES.items() if facts.gpu and facts.gpu.name != "A10G"]
)
def test_every_gpu_is_built_for_somewhere_or_told(name: str) -> None:
    instance = INSTANCE_TYPES[name]
    chosen = automatic_machine(instance, "us-east-1")

    assert (chosen is None) == (processing_type(instance) is None)
    assert (chosen is None) == bool(problems_of(check_machine, None, instance, "us-east-1"))


@pytest.mark.parametrize(
    ("machine", "instance_type", "says"),
    [
        (None, "ml.g5.xlarge", "CodeBuild has the A10G of ml.g5.xlarge on demand, billed by the minute"),
        (None, "ml.g6.xlarge", "CodeBuild has no L4 on demand here: a job on ml.g6.xlarge has it"),
        (None, "ml.c7i.xlarge", "ml.c7i.xlarge has no GPU, so nothing is compiled"),
        (ProcessingJob(), "ml.g5.xlarge", "a Processing job was asked for: a job on ml.g5.xlarge has it"),
        (ProcessingJob(instance_type="ml.g6.4xlarge"), "ml.g6.48xlarge", "a job on ml.g6.4xlarge has it"),
        (ReservedMachines(), "ml.g6.xlarge", "were asked for: billed while they exist"),
    ],
)
def test_a_build_job_says_why_it_runs_where_it_runs(
    make: Make, machine: BuildMachineChoice | None, instance_type: str, says: str
) -> None:
    assert says in make(machine=machine, instance_type=instance_type).machine.reason


def test_a_gpu_that_costs_while_idle_is_never_taken_unasked(make: Make) -> None:
    problem = _problem(lambda: make(instance_type="ml.p4d.24xlarge"))

    assert problem.rule == RULE
    assert "A100-40GB" in problem.what
    assert "machine=ReservedMachines(base_capacity=1)" in problem.fix
    assert make(instance_type="ml.p4d.24xlarge", machine=ReservedMachines()).machine.name == "p4d.24xlarge"


def test_a_gpu_that_nobody_rents_is_left_to_the_users_own_machine_or_to_plans_for_more_gpus(
    make: Make,
) -> None:
    problem = _problem(lambda: make(instance_type="ml.p6-b200.48xlarge", release="25.09"))
    ways = problem.fix.split("; or ")

    assert len(ways) == 2
    assert 'TensorRt(hardware="ampere+")' in ways[0]
    assert ways[1].startswith("compile on a machine that has the GPU")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"machine": OnDemandMachine(), "instance_type": "ml.g6.xlarge"}, "CodeBuild has no L4 on demand"),
        (
            {"machine": OnDemandMachine(), "region": "eu-north-1"},
            "CodeBuild has no A10G in region 'eu-north-1'",
        ),
        ({"machine": ReservedMachines(), "region": "eu-north-1"}, "reserves no GPU in region 'eu-north-1'"),
        ({"machine": ReservedMachines(), "instance_type": "ml.g7e.2xlarge"}, "no machine with RTX-PRO-6000"),
        ({"machine": ReservedMachines(base_capacity=0)}, "base_capacity is 0"),
        ({"machine": ProcessingJob(), "instance_type": "ml.p4d.24xlarge"}, "no Processing job on ml.p4d"),
        ({"machine": ProcessingJob(instance_type="ml.g6.xlarge")}, "a Processing job on 'ml.g6.xlarge'"),
        ({"machine": ProcessingJob(instance_type="ml.g5.huge")}, "a Processing job on 'ml.g5.huge'"),
        (
            {"machine": ProcessingJob(instance_type="ml.p5.48xlarge"), "instance_type": "ml.p5.48xlarge"},
            "a Processing job on 'ml.p5.48xlarge'",
        ),
        ({"machine": OnDemandMachine(), "instance_type": "ml.c7i.xlarge"}, "which has no GPU"),
    ],
)
def test_a_machine_that_cannot_build_for_the_endpoint_is_refused(
    make: Make, given: dict[str, Any], what: str
) -> None:
    problem = _problem(lambda: make(**given))

    assert what in problem.what
    assert problem.where == "machine of Fleet/Builds"


@pytest.mark.parametrize("region", [None, "us-east-1", "eu-north-1", "ca-central-1"])
@pytest.mark.parametrize("choice", [OnDemandMachine(), ReservedMachines(), ProcessingJob()], ids=repr)
def test_to_leave_the_machine_open_is_advised_where_that_helps(
    choice: BuildMachineChoice, region: str | None
) -> None:
    for instance in (facts for facts in INSTANCE_TYPES.values() if facts.gpu):
        helps = automatic_machine(instance, region) is not None
        found = problems_of(check_machine, choice, instance, region)
        for problem in found:
            assert ("leave `machine` out" in problem.fix) is helps
            assert ("compile on a machine that has the GPU" in problem.fix) is not helps


def test_where_nothing_is_free_each_way_out_is_named_and_works(make: Make) -> None:
    problem = _problem(lambda: make(instance_type="ml.p4d.24xlarge", machine=ProcessingJob()))
    ways = problem.fix.split("; or ")

    assert (
        ways[0] == "give ModelBuildProject machine=ReservedMachines(base_capacity=1), billed while it exists"
    )
    assert ways[1].endswith('and give ModelBuildProject instance_type="ml.g5.2xlarge"')
    assert ways[2] == "serve from another instance type, such as ml.g5.2xlarge"
    assert ways[3].startswith("give ModelBuildProject an instance type without a GPU")
    assert make(instance_type="ml.p4d.24xlarge", machine=ReservedMachines(base_capacity=1))
    assert make(instance_type="ml.g5.2xlarge")
    assert make(instance_type="ml.c7i.2xlarge")
