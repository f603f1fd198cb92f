"""Checks of instance types: their GPUs, volumes, host images and pools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triton_fleet.repository.checks import INSTANCE_POOLS, gpu_named
from triton_models.base.checks import Check
from triton_models.base.errors import Problem
from triton_models.base.suggest import did_you_mean
from triton_models.facts.host_amis import HOST_AMIS, PATTERN, REPORTS, HostAmi, default_ami, family, too_old
from triton_models.facts.instances import InstanceType
from triton_models.facts.releases import CUDA_MAJORS, Release

# The table triton_models.facts.host_amis has every source.
HOST_AMI = Check(
    id="host-ami",
    source="2026-11-22: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html",
)
# The table triton_models.facts.host_amis has every source.
HOST_AMI_REFUSED = Check(
    id="triton-fleet:host-ami-refused",
    source="2026-11-22: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html",
)
"""The host image of an endpoint has a driver for its GPU, and the CUDA major of its container."""


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
        yield _host_ami_problem(
            f"the host image is {ami!r}",
            where,
            expected=f"one of {', '.join(HOST_AMIS)}, or a newer one of AWS",
            why="SageMaker refuses any other at deployment",
            fix=did_you_mean(ami, HOST_AMIS, otherwise="leave inference_ami out"),
        )
    elif instance.gpu is None:
        yield _host_ami_problem(
            f"{ami} is for GPUs, and {instance.name} has no GPU",
            where,
            expected="no inference_ami",
            why="SageMaker refuses a host with a GPU driver there",
            fix="leave inference_ami out",
        )
    elif found is not None:
        yield from _known_ami(found, instance, release, where)


def host_ami_reported(
    ami: str | None, instance: InstanceType, release: Release, *, where: str
) -> Iterator[Problem]:
    """The warning of a host image that was refused on such an instance type."""
    name = ami or default_ami(instance, release) or ""
    for report in REPORTS:
        same = report.family == family(instance) and name.endswith(report.ami)
        if same and not report.works and instance.gpu_count > 1:
            yield HOST_AMI_REFUSED.problem(
                what=f"SageMaker has refused {name} on an instance type like {instance.name}",
                where=where,
                expected="a host image that SageMaker accepts on the type",
                why=f"{report.note}; {report.source}",
                fix="if it is refused here, use release 25.04, whose host image is another, or a type with "
                "one GPU",
            )
            return


def _known_ami(ami: HostAmi, instance: InstanceType, release: Release, where: str) -> Iterator[Problem]:
    major = release.cuda.partition(".")[0]
    if ami.cuda_major != major:
        yield _host_ami_problem(
            f"{ami.name} is for CUDA {ami.cuda_major}, and release {release.name} has CUDA {release.cuda}",
            where,
            expected=f"an image for CUDA {major}, such as {CUDA_MAJORS[major].inference_ami}",
            why="under another major version the container does not start, and leaves no log",
            fix="leave inference_ami out, or choose a release of that CUDA",
        )
    if too_old(ami, instance):
        assert instance.gpu is not None  # noqa: S101 -- a type without one has no driver to be too old
        yield _host_ami_problem(
            f"{ami.name} has driver {ami.driver}, and {instance.name} a {instance.gpu.name}",
            where,
            expected="no inference_ami: SageMaker's own host for the type has a driver for it",
            why="an older driver does not find the GPU",
            fix="leave inference_ami out, or use another instance type",
        )


def _host_ami_problem(what: str, where: str, *, expected: str, why: str, fix: str) -> Problem:
    return HOST_AMI.problem(what=what, where=where, expected=expected, why=why, fix=fix)


LOCAL_STORAGE_NO_VOLUME = Check(
    id="local-storage-no-volume",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html",
)
"""A volume is sized and encrypted only where there is one: instance types with local NVMe have none."""


def local_storage(
    instance: InstanceType, *, has_volume_size: bool, has_key: bool, where: str
) -> Iterator[Problem]:
    """The problems with asking for a volume on this instance type.

    Args:
        instance: The instance type.
        has_volume_size: Whether a size of the volume was given.
        has_key: Whether a key for the volume was given.
        where: What the problems are reported for.
    """
    if not instance.nvme_gb:
        return
    for asked, drop in (
        (has_volume_size, "volume_size"),
        (has_key, "encryption_key"),
    ):
        if asked:
            yield LOCAL_STORAGE_NO_VOLUME.problem(
                what=f"{drop} is given, and {instance.name} has local NVMe ({instance.nvme_gb} GB)",
                where=where,
                expected="an instance type without local NVMe, such as the ml.m5 and ml.c5 types",
                why="SageMaker refuses it: there is no volume, and the NVMe is always encrypted",
                fix=f"leave {drop} out",
            )


MULTI_MODEL_POOLS = Check(
    id="multi-model-pools",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html",
)
"""Instance types that stand in for each other: at most five, each once, all able to run the model."""

MOST_POOLS = 5
"""Instance types of one variant."""


def instance_pools(types: Sequence[str], *, where: str) -> Iterator[Problem]:
    """The problems with trying these instance types in this order.

    Args:
        types: Their names, the preferred first.
        where: What the problems are reported for.
    """
    if len(types) > MOST_POOLS:
        yield INSTANCE_POOLS.problem(
            what=f"{len(types)} instance types for one variant",
            where=where,
            expected=f"at most {MOST_POOLS}, the preferred one among them",
            why="SageMaker knows five priorities",
            fix="leave the least preferred types out",
        )
    for name in sorted({each for each in types if types.count(each) > 1}):
        yield INSTANCE_POOLS.problem(
            what=f"{name} is named {types.count(name)} times",
            where=where,
            expected="each instance type once",
            why="a type without capacity has no capacity a second time either",
            fix="name it once, in the place where it is to be tried first",
        )


def multi_model_pools(types: Sequence[str], *, asked: bool, where: str) -> Iterator[Problem]:
    """The problem with several instance types behind a multi-model endpoint.

    Args:
        types: Their names, the preferred first.
        asked: Whether the caller accepts what AWS does not document.
        where: What the problem is reported for.
    """
    if asked or len(types) == 1:
        return
    yield MULTI_MODEL_POOLS.problem(
        what=f"{len(types)} instance types for a multi-model endpoint: {', '.join(types)}",
        where=where,
        expected="one instance type",
        why="AWS documents pools for single-model endpoints and inference components only",
        fix="leave instance_pools out, or try it with undocumented_instance_pools=True",
    )


def same_image(preferred: InstanceType, other: InstanceType, *, where: str) -> Iterator[Problem]:
    """The problem with starting both on one host image, whatever model each has."""
    if (preferred.gpu is None) == (other.gpu is None):
        return
    yield INSTANCE_POOLS.problem(
        what=f"{other.name} has {gpu_named(other.gpu)}, {preferred.name} has {gpu_named(preferred.gpu)}",
        where=where,
        expected="instance types that all have a GPU, or none that has one",
        why="a variant has one host AMI, and that for GPUs starts on GPU types only",
        fix="serve the other type from a variant of its own",
    )
