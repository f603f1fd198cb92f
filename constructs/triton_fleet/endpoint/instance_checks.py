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
"""The host image of an endpoint has a driver for its GPU and for the CUDA of its container."""


def host_ami(ami: str | None, instance: InstanceType, release: Release, *, where: str) -> Iterator[Problem]:
    """Yield the problems with starting a release on an instance type from this host image.

    Args:
        ami: The requested image; None for the release's default.
        instance: The instance type.
        release: The release of the container, or the one that it is based on.
        where: The place that the problems name.
    """
    if ami is None:
        return
    found = HOST_AMIS.get(ami)
    if not PATTERN.fullmatch(ami):
        yield _host_ami_problem(
            f"the host image is {ami!r}",
            where,
            expected=f"one of {', '.join(HOST_AMIS)}, or a newer image from AWS",
            why="SageMaker refuses any other at deployment",
            fix=did_you_mean(ami, HOST_AMIS, otherwise="remove inference_ami"),
        )
    elif instance.gpu is None:
        yield _host_ami_problem(
            f"{ami} is for GPUs, and {instance.name} has no GPU",
            where,
            expected="no inference_ami",
            why="SageMaker refuses a host with a GPU driver for this type",
            fix="remove inference_ami",
        )
    elif found is not None:
        yield from _known_ami(found, instance, release, where)


def host_ami_reported(
    ami: str | None, instance: InstanceType, release: Release, *, where: str
) -> Iterator[Problem]:
    """Yield the warning about a host image that was refused on such an instance type."""
    name = ami or default_ami(instance, release) or ""
    for report in REPORTS:
        same = report.family == family(instance) and name.endswith(report.ami)
        if same and not report.works and instance.gpu_count > 1:
            yield HOST_AMI_REFUSED.problem(
                what=f"SageMaker has refused {name} on an instance type like {instance.name}",
                where=where,
                expected="a host image that SageMaker accepts on this type",
                why=f"{report.note}; {report.source}",
                fix="if it is refused here, use release 25.04, which has another host image, or a type with "
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
            why="with another major version the container does not start, or finds no GPU",
            fix=f"remove inference_ami, or use a release with CUDA {ami.cuda_major}",
        )
    if too_old(ami, instance):
        assert instance.gpu is not None  # noqa: S101 -- a type without one has no driver to be too old
        yield _host_ami_problem(
            f"{ami.name} has driver {ami.driver}, too old for the {instance.gpu.name} of {instance.name}",
            where,
            expected="no inference_ami: SageMaker's default host for the type has a driver for it",
            why="an older driver does not find the GPU",
            fix="remove inference_ami, or use another instance type",
        )


def _host_ami_problem(what: str, where: str, *, expected: str, why: str, fix: str) -> Problem:
    return HOST_AMI.problem(what=what, where=where, expected=expected, why=why, fix=fix)


LOCAL_STORAGE_NO_VOLUME = Check(
    id="local-storage-no-volume",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html",
)
"""Only instance types without local NVMe have a volume to size and encrypt."""


def local_storage(
    instance: InstanceType, *, has_volume_size: bool, has_key: bool, where: str
) -> Iterator[Problem]:
    """Yield the problems with options of a volume on this instance type.

    Args:
        instance: The instance type.
        has_volume_size: A size of the volume was given.
        has_key: A key for the volume was given.
        where: The place that the problems name.
    """
    if not instance.nvme_gb:
        return
    for asked, drop in ((has_volume_size, "volume_size"), (has_key, "encryption_key")):
        if asked:
            yield LOCAL_STORAGE_NO_VOLUME.problem(
                what=f"{drop} is given, and {instance.name} has local NVMe ({instance.nvme_gb} GB)",
                where=where,
                expected="an instance type without local NVMe, such as the ml.m5 and ml.c5 types",
                why="SageMaker refuses it: there is no volume, and the NVMe is always encrypted",
                fix=f"remove {drop}",
            )


MULTI_MODEL_POOLS = Check(
    id="multi-model-pools",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html",
)
"""A multi-model endpoint has one instance type, unless several are allowed explicitly."""
MOST_POOLS = 5
"""Instance types of one variant."""


def instance_pools(types: Sequence[str], *, where: str) -> Iterator[Problem]:
    """Yield the problems with trying these instance types in this order.

    Args:
        types: Their names, the preferred first.
        where: The place that the problems name.
    """
    if len(types) > MOST_POOLS:
        yield INSTANCE_POOLS.problem(
            what=f"{len(types)} instance types for one variant",
            where=where,
            expected=f"at most {MOST_POOLS}, including the preferred one",
            why="SageMaker has five priorities",
            fix="remove the least preferred types",
        )
    for name in sorted({each for each in types if types.count(each) > 1}):
        yield INSTANCE_POOLS.problem(
            what=f"{name} is named {types.count(name)} times",
            where=where,
            expected="each instance type once",
            why="a type without capacity has none the second time",
            fix="keep only the first",
        )


def multi_model_pools(types: Sequence[str], *, asked: bool, where: str) -> Iterator[Problem]:
    """Yield a problem with several instance types behind a multi-model endpoint.

    Args:
        types: Their names, the preferred first.
        asked: The caller allows what AWS does not document.
        where: The place that the problem names.
    """
    if asked or len(types) == 1:
        return
    yield MULTI_MODEL_POOLS.problem(
        what=f"{len(types)} instance types for a multi-model endpoint: {', '.join(types)}",
        where=where,
        expected="one instance type",
        why="AWS documents pools for single-model endpoints and inference components only",
        fix="remove instance_pools, or try it with allow_unlisted_instance_pools=True",
    )


def same_image(preferred: InstanceType, other: InstanceType, *, where: str) -> Iterator[Problem]:
    """Yield a problem if the two types cannot start from one host image."""
    if (preferred.gpu is None) == (other.gpu is None):
        return
    yield INSTANCE_POOLS.problem(
        what=f"{other.name} has {gpu_named(other.gpu)}, {preferred.name} has {gpu_named(preferred.gpu)}",
        where=where,
        expected="only instance types with a GPU, or only types without one",
        why="a variant has one host AMI, and those for GPUs start on GPU types only",
        fix="serve the other type from a separate variant",
    )
