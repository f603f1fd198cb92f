"""The machines of builds: on demand, reserved, or a SageMaker Processing job, each with its checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from triton_fleet.parts.arguments.checks import number_range
from triton_fleet.parts.arguments.tokens import known
from triton_fleet.parts.arguments.typed import typed
from triton_models.artifact.targets import runs_on
from triton_models.base.checks import Check, Report
from triton_models.facts.build_machines import (
    BUILD_MACHINES,
    CPU_BUILD_MACHINE,
    PROCESSING_TYPES,
    RESERVED_MACHINES,
    RESERVED_REGIONS,
    automatic_machine,
    has_gpu,
    processing_type,
)
from triton_models.facts.instances import DEFAULT_INSTANCE_TYPE, Gpu, InstanceType, instance_type
from triton_models.facts.tensorrt import AMPERE_PLUS

BUILD_GPU_IS_SERVING_GPU = Check(
    id="build-gpu-is-serving-gpu",
    source=(
        "2026-11-21: https://docs.aws.amazon.com/codebuild/latest/userguide/build-env-ref-compute-types.html"
        " https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProcessingClusterConfig.html"
    ),
)

_WHY = "a plan runs only on its own GPU model, unless TensorRt(hardware=...) allows more"
_BY_HAND = "compile on a machine that has the GPU, with `fleet build --gpu`, and leave the build job out"


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
    def _check(self, report: Report, instance: InstanceType, gpu: Gpu, region: str | None) -> None:
        """Report problems with compiling on it for the GPU of an instance type."""

    @abstractmethod
    def _machine(self, instance: InstanceType, gpu: Gpu, *, asked: bool) -> BuildMachine:
        """Return the machine for a GPU of an instance type that it can compile for."""


@typed
@dataclass(frozen=True, slots=True, kw_only=True)
class OnDemandMachine(BuildMachineChoice):
    """A CodeBuild machine that is billed per minute of a build. The available GPU is the A10G.

    Needs the quota "Concurrently running builds for Linux GPU Small environment", 0 in a new account.
    """

    def _check(self, report: Report, instance: InstanceType, gpu: Gpu, region: str | None) -> None:
        machine = BUILD_MACHINES.get(gpu.name)
        if machine is None:
            report(
                BUILD_GPU_IS_SERVING_GPU,
                f"CodeBuild has no {gpu.name} on demand",
                fix=_another_way(instance, region),
                why=_WHY,
            )
        elif not machine.offered_in(region):
            report(
                BUILD_GPU_IS_SERVING_GPU,
                f"CodeBuild has no {gpu.name} in region {region!r}",
                fix=f"deploy to {' or '.join(machine.regions or ())}, or {_another_way(instance, region)}",
                why="the build project would be created, and every build refused",
            )

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

    def _check(self, report: Report, instance: InstanceType, gpu: Gpu, region: str | None) -> None:
        if gpu.name not in RESERVED_MACHINES:
            report(
                BUILD_GPU_IS_SERVING_GPU,
                f"CodeBuild reserves no machine with {gpu.name}",
                fix=_another_way(instance, region),
                why=_WHY,
            )
        if region is not None and region not in RESERVED_REGIONS:
            report(
                BUILD_GPU_IS_SERVING_GPU,
                f"CodeBuild reserves no GPU in region {region!r}",
                fix=f"deploy to {', '.join(RESERVED_REGIONS)}, or {_another_way(instance, region)}",
                why="the fleet would be refused when it is created",
            )
        number_range(report, known(self.base_capacity), least=1, most=None, name="base_capacity")

    def _machine(self, instance: InstanceType, gpu: Gpu, *, asked: bool) -> BuildMachine:  # noqa: ARG002
        return BuildMachine(
            choice=self,
            name=RESERVED_MACHINES[gpu.name],
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

    def _check(self, report: Report, instance: InstanceType, gpu: Gpu, region: str | None) -> None:
        usual = processing_type(instance)
        fitting = [each for each in PROCESSING_TYPES if has_gpu(each, gpu)]
        if usual is None:
            report(
                BUILD_GPU_IS_SERVING_GPU,
                f"SageMaker has no Processing job on {instance.name}, nor on another type with its GPU, "
                f"{gpu.name}",
                fix=_another_way(instance, region),
                why=_WHY,
            )
        elif self.instance_type is not None and self.instance_type not in fitting:
            report(
                BUILD_GPU_IS_SERVING_GPU,
                f"a Processing job on {self.instance_type!r} is asked for",
                fix=f"use {' or '.join(fitting)}, or leave instance_type out for {usual}",
                why=_WHY,
            )

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
    place = report.at("instance_type" if choice is None else "machine")
    if choice is not None and instance.gpu is not None:
        choice._check(place, instance, instance.gpu, region)
    elif choice is not None:
        place(
            BUILD_GPU_IS_SERVING_GPU,
            f"a build machine is named for {instance.name}, which has no GPU",
            fix="leave `machine` out",
            why="a machine with a GPU would be paid for, and its GPU not used",
        )
    elif instance.gpu is not None and automatic_machine(instance, region) is None:
        ways = [*_ways_out(instance, region)]
        place(
            BUILD_GPU_IS_SERVING_GPU,
            f"neither CodeBuild on demand nor a SageMaker Processing job has {instance.gpu.name}",
            fix="; or ".join([*ways, _BY_HAND]),
            why="a reserved machine is billed while idle, so it is never chosen unasked"
            if any("ReservedMachines" in each for each in ways)
            else _WHY,
        )


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


def _another_way(instance: InstanceType, region: str | None) -> str:
    """The fix for a machine that was asked for and cannot be had.

    To leave the machine open helps only where something is then chosen.
    """
    chosen = automatic_machine(instance, region)
    if chosen is not None:
        where = "on demand in CodeBuild" if chosen == "on demand" else "in a SageMaker Processing job"
        return f"leave `machine` out: builds then run {where}"
    ways = (
        *_ways_out(instance, region),
        f"serve from another instance type, such as {DEFAULT_INSTANCE_TYPE}",
        "give ModelBuildProject an instance type without a GPU: its models run on any",
        _BY_HAND,
    )
    return "; or ".join(ways)


def _ways_out(instance: InstanceType, region: str | None) -> Iterator[str]:
    gpu, usual = instance.gpu, instance_type(DEFAULT_INSTANCE_TYPE)
    if gpu is None:
        return
    if gpu.name in RESERVED_MACHINES and (region is None or region in RESERVED_REGIONS):
        yield "give ModelBuildProject machine=ReservedMachines(base_capacity=1), billed while it exists"
    if (
        gpu != usual.gpu
        and automatic_machine(usual, region)
        and runs_on(AMPERE_PLUS, built=usual.gpu, gpu=gpu)
    ):
        yield (
            'declare every plan with TensorRt(hardware="ampere+"), and give ModelBuildProject '
            f'instance_type="{DEFAULT_INSTANCE_TYPE}"'
        )
