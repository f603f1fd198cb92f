"""The machines of builds: on demand, reserved, or a SageMaker Processing job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from triton_fleet.builds.machine_checks import (
    BUILD_GPU_IS_SERVING_GPU,
    build_gpu,
    build_region,
    nowhere_to_build,
    processing_gpu,
    processing_instance,
    reserved_gpu,
    reserved_region,
)
from triton_fleet.parts.arguments.checks import number_range
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_models.base.checks import Report
from triton_models.facts.build_machines import (
    BUILD_MACHINES,
    CPU_BUILD_MACHINE,
    RESERVED_MACHINES,
    automatic_machine,
    processing_type,
)
from triton_models.facts.instances import Gpu, InstanceType


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class BuildMachine:
    """The machine of builds, and the reason for it.

    Attributes:
        choice: The machine that was requested or chosen.
        name: CodeBuild's compute type, or the instance type: "BUILD_GENERAL1_SMALL", "g6.xlarge",
            "ml.g6.2xlarge".
        reason: The reason for it, in a sentence.
    """

    choice: BuildMachineChoice
    name: str
    reason: str


class BuildMachineChoice(ABC):
    """The choice of a machine for `ModelBuildProject`: OnDemandMachine, ReservedMachines or ProcessingJob."""

    __slots__ = ()

    @abstractmethod
    def _check(self, report: Report, instance: InstanceType, region: str | None) -> None:
        """Report problems with compiling on it for an instance type with a GPU."""

    @abstractmethod
    def _machine(self, instance: InstanceType, gpu: Gpu, *, asked: bool) -> BuildMachine:
        """Return the machine for a GPU of an instance type that it can compile for."""


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class OnDemandMachine(BuildMachineChoice):
    """A CodeBuild machine that is billed per minute of a build. The available GPU is the A10G.

    Needs the quota "Concurrently running builds for Linux GPU Small environment", 0 in a new account.
    """

    def _check(self, report: Report, instance: InstanceType, region: str | None) -> None:
        build_gpu(report, instance, region)
        build_region(report, instance, region)

    def _machine(self, instance: InstanceType, gpu: Gpu, *, asked: bool) -> BuildMachine:  # noqa: ARG002
        return BuildMachine(
            choice=self,
            name=BUILD_MACHINES[gpu.name].compute_type,
            reason=f"CodeBuild has the {gpu.name} of {instance.name} on demand, billed by the minute",
        )


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class ReservedMachines(BuildMachineChoice):
    """Machines that CodeBuild reserves for this account: a reserved-capacity fleet.

    Builds start at once. The machines are billed for every hour that the fleet exists, used or not, with an
    initial charge for each; delete the stack, or leave this out, to end that. Builds beyond their number
    wait in a queue. Needs the quota of running GPU instances in fleets, 0 in a new account.

    Attributes:
        base_capacity: The number of machines, and so of builds at a time.
    """

    base_capacity: int = 1

    def _check(self, report: Report, instance: InstanceType, region: str | None) -> None:
        reserved_gpu(report, instance, region)
        reserved_region(report, instance, region)
        number_range(report, known(self.base_capacity), least=1, most=None, name="base_capacity")

    def _machine(self, instance: InstanceType, gpu: Gpu, *, asked: bool) -> BuildMachine:  # noqa: ARG002
        return BuildMachine(
            choice=self,
            name=RESERVED_MACHINES[gpu.name].instance_type,
            reason=f"reserved machines with the {gpu.name} of {instance.name} were asked for: "
            "billed while they exist",
        )


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessingJob(BuildMachineChoice):
    """A SageMaker Processing job for each build, billed by the second, on the hardware that serves.

    The CodeBuild project remains the way to start a build: it starts the job on a small machine without a
    GPU, shows its log, and ends as the job ends. Needs the quota "... for processing job usage" of the
    instance type, often 0 in a new account.

    Attributes:
        instance_type: Another type with the same GPU, such as a smaller one. The default is the endpoint's.
    """

    instance_type: str | None = None

    def _check(self, report: Report, instance: InstanceType, region: str | None) -> None:
        processing_gpu(report, instance, region)
        if self.instance_type is not None:
            processing_instance(report, self.instance_type, instance)

    def _machine(self, instance: InstanceType, gpu: Gpu, *, asked: bool) -> BuildMachine:
        name = self.instance_type or processing_type(instance)
        assert name is not None  # noqa: S101 -- its problems were reported
        why = "a Processing job was asked for" if asked else f"CodeBuild has no {gpu.name} on demand here"
        has = f"a job on {name} has it, billed by the second, free while idle"
        return BuildMachine(choice=self, name=name, reason=f"{why}: {has}")


def check_machine(
    report: Report, choice: BuildMachineChoice | None, instance: InstanceType, region: str | None
) -> None:
    """Check building for an instance type on a machine; the report is that of the construct."""
    if choice is None:
        nowhere_to_build(report.at("instance_type"), instance, region)
    elif instance.gpu is None:
        _no_gpu(report.at("machine"), instance)
    else:
        choice._check(report.at("machine"), instance, region)


def build_machine(
    choice: BuildMachineChoice | None, instance: InstanceType, region: str | None
) -> BuildMachine:
    """Return the machine of builds for an instance type that `check_machine` accepts."""
    if instance.gpu is None:
        return BuildMachine(
            choice=OnDemandMachine(),
            name=CPU_BUILD_MACHINE.compute_type,
            reason=f"{instance.name} has no GPU, so nothing is compiled",
        )
    if choice is not None:
        return choice._machine(instance, instance.gpu, asked=True)
    on_demand = automatic_machine(instance, region) == "on demand"
    chosen = OnDemandMachine() if on_demand else ProcessingJob()
    return chosen._machine(instance, instance.gpu, asked=False)


def _no_gpu(report: Report, instance: InstanceType) -> None:
    report(
        BUILD_GPU_IS_SERVING_GPU,
        f"a build machine is named for {instance.name}, which has no GPU",
        fix="leave `machine` out",
        why="a machine with a GPU would be paid for, and its GPU not used",
    )
