"""The host image of an endpoint has a driver for its GPU, and the CUDA major of its container."""

from __future__ import annotations

from collections.abc import Iterator

from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.facts.host_amis import HOST_AMIS, PATTERN, REPORTS, HostAmi, default_ami, family, too_old
from triton_models.facts.instances import InstanceType
from triton_models.facts.releases import CUDA_MAJORS, Release

RULE = "host-ami"
REPORTED_RULE = "triton-fleet:host-ami-refused"
# Read on 2026-11-22; the table triton_models.facts.host_amis has every source.
SOURCE = "https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html"


def host_ami(ami: str | None, instance: InstanceType, release: Release, *, where: str) -> Iterator[Problem]:
    """The problems with starting a release on an instance type from this host image.

    Args:
        ami: The image that was asked for; None for the release's own.
        instance: The instance type.
        release: The release that the container is, or was made from.
        where: What the problems are reported for.
    """
    if ami is None:
        return
    found = HOST_AMIS.get(ami)
    if not PATTERN.fullmatch(ami):
        yield _problem(
            f"the host image is {ami!r}",
            where,
            expected=f"one of {', '.join(HOST_AMIS)}, or a newer one of AWS",
            why="SageMaker refuses any other at deployment",
            fix=did_you_mean(ami, HOST_AMIS, otherwise="leave inference_ami out"),
        )
    elif instance.gpu is None:
        yield _problem(
            f"{ami} is for GPUs, and {instance.name} has no GPU",
            where,
            expected="no inference_ami",
            why="SageMaker refuses a host with a GPU driver there",
            fix="leave inference_ami out",
        )
    elif found is not None:
        yield from _fitting(found, instance, release, where)


def host_ami_reported(ami: str | None, instance: InstanceType, release: Release) -> str | None:
    """What to know about a host image that was refused on such an instance type, if anything."""
    name = ami or default_ami(instance, release) or ""
    for report in REPORTS:
        same = report.family == family(instance) and name.endswith(report.ami)
        if same and not report.works and instance.gpu_count > 1:
            return (
                f"SageMaker has refused {name} on such a type ({report.note}; {report.source}). If it does "
                "so here, use release 25.04, whose host image is another, or a type with one GPU."
            )
    return None


def _fitting(ami: HostAmi, instance: InstanceType, release: Release, where: str) -> Iterator[Problem]:
    major = release.cuda.partition(".")[0]
    if ami.cuda_major != major:
        yield _problem(
            f"{ami.name} is for CUDA {ami.cuda_major}, and release {release.name} has CUDA {release.cuda}",
            where,
            expected=f"an image for CUDA {major}, such as {CUDA_MAJORS[major].inference_ami}",
            why="under another major version the container does not start, and leaves no log",
            fix="leave inference_ami out, or choose a release of that CUDA",
        )
    if too_old(ami, instance):
        assert instance.gpu is not None  # noqa: S101 -- a type without one has no driver to be too old
        yield _problem(
            f"{ami.name} has driver {ami.driver}, and {instance.name} a {instance.gpu.name}",
            where,
            expected="no inference_ami: SageMaker's own host for the type has a driver for it",
            why="an older driver does not find the GPU",
            fix="leave inference_ami out, or use another instance type",
        )


def _problem(what: str, where: str, *, expected: str, why: str, fix: str) -> Problem:
    return Problem(what=what, where=where, expected=expected, why=why, fix=fix, rule=RULE)
