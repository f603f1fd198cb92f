"""Checks of instance types: their GPUs, volumes, host images and pools."""

from __future__ import annotations

from collections.abc import Sequence

from triton_fleet.parts.repository.endpoint_fit import INSTANCE_POOLS, gpu_named
from triton_models.base.checks import Check, Report
from triton_models.base.suggest import did_you_mean
from triton_models.facts.host_amis import HOST_AMIS, PATTERN, REPORTS, HostAmi, default_ami, family, too_old
from triton_models.facts.instances import InstanceType
from triton_models.facts.releases import CUDA_MAJORS, Release

# The table triton_models.facts.host_amis has every source.
HOST_AMI = Check(
    id="host-ami",
    source="2026-11-22: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html",
)
HOST_AMI_REFUSED = Check(
    id="triton-fleet:host-ami-refused",
    source="2026-11-22: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html",
)


def host_ami(report: Report, ami: str | None, instance: InstanceType, release: Release) -> None:
    """Report problems with starting a release on an instance type from this host image."""
    if ami is None:
        return
    found = HOST_AMIS.get(ami)
    if not PATTERN.fullmatch(ami):
        report(
            HOST_AMI,
            f"the host image is {ami!r}",
            why="SageMaker refuses any other at deployment",
            fix=did_you_mean(ami, HOST_AMIS, otherwise=f"use one of {', '.join(HOST_AMIS)}"),
        )
    elif instance.gpu is None:
        report(
            HOST_AMI,
            f"{ami} is for GPUs, and {instance.name} has no GPU",
            why="SageMaker refuses a host with a GPU driver for this type",
            fix="remove inference_ami",
        )
    elif found is not None:
        _check_known_ami(report, found, instance, release)


def host_ami_reported(report: Report, ami: str | None, instance: InstanceType, release: Release) -> None:
    """Report problems about a host image that was refused on such an instance type."""
    name = ami or default_ami(instance, release) or ""
    for seen in REPORTS:
        same = seen.family == family(instance) and name.endswith(seen.ami)
        if same and not seen.works and instance.gpu_count > 1:
            report(
                HOST_AMI_REFUSED,
                f"SageMaker has refused {name} on an instance type like {instance.name}",
                fix="if it is refused here, use release 25.04, which has another host image, or a type with "
                "one GPU",
                why=f"{seen.note}; {seen.source}",
            )
            return


def _check_known_ami(report: Report, ami: HostAmi, instance: InstanceType, release: Release) -> None:
    major = release.cuda.partition(".")[0]
    if ami.cuda_major != major:
        report(
            HOST_AMI,
            f"{ami.name} is for CUDA {ami.cuda_major}, and release {release.name} has CUDA {release.cuda}",
            why="with another major version the container does not start, or finds no GPU",
            fix=f"use {CUDA_MAJORS[major].inference_ami}, or a release with CUDA {ami.cuda_major}",
        )
    if too_old(ami, instance):
        assert instance.gpu is not None  # noqa: S101 -- a type without one has no driver to be too old
        report(
            HOST_AMI,
            f"{ami.name} has driver {ami.driver}, too old for the {instance.gpu.name} of {instance.name}",
            why="an older driver does not find the GPU",
            fix="remove inference_ami, or use another instance type",
        )


LOCAL_STORAGE_NO_VOLUME = Check(
    id="local-storage-no-volume",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html",
)


def local_storage(report: Report, instance: InstanceType, *, has_volume_size: bool, has_key: bool) -> None:
    """Report problems with options of a volume on this instance type."""
    if not instance.nvme_gb:
        return
    for asked, drop in ((has_volume_size, "volume_size"), (has_key, "encryption_key")):
        if asked:
            report(
                LOCAL_STORAGE_NO_VOLUME,
                f"{drop} is given, and {instance.name} has local NVMe ({instance.nvme_gb} GB)",
                fix=f"remove {drop}, or use a type without local NVMe, such as those of ml.m5",
                why="SageMaker refuses it: there is no volume, and the NVMe is always encrypted",
            )


MULTI_MODEL_POOLS = Check(
    id="multi-model-pools",
    source="2026-11-21: https://docs.aws.amazon.com/sagemaker/latest/dg/realtime-endpoints-heterogeneous.html",
)
_MOST_POOLS = 5


def instance_pools(report: Report, types: Sequence[str]) -> None:
    """Report problems with trying these instance types in this order."""
    if len(types) > _MOST_POOLS:
        report(
            INSTANCE_POOLS,
            f"{len(types)} instance types for one variant",
            fix=f"name at most {_MOST_POOLS}, including the preferred one",
            why="SageMaker has five priorities",
        )
    for name in sorted({each for each in types if types.count(each) > 1}):
        report(
            INSTANCE_POOLS,
            f"{name} is named {types.count(name)} times",
            fix="keep only the first",
            why="a type without capacity has none the second time",
        )


def multi_model_pools(report: Report, types: Sequence[str], *, asked: bool) -> None:
    """Report problems with several instance types behind a multi-model endpoint."""
    if asked or len(types) == 1:
        return
    report(
        MULTI_MODEL_POOLS,
        f"{len(types)} instance types for a multi-model endpoint: {', '.join(types)}",
        fix="remove instance_pools, or try it with allow_unlisted_instance_pools=True",
        why="AWS documents pools for single-model endpoints and inference components only",
    )


def same_image(report: Report, preferred: InstanceType, other: InstanceType) -> None:
    """Report problems if the two types cannot start from one host image."""
    if (preferred.gpu is None) == (other.gpu is None):
        return
    report(
        INSTANCE_POOLS,
        f"{other.name} has {gpu_named(other.gpu)}, {preferred.name} has {gpu_named(preferred.gpu)}",
        fix="serve the other type from a separate variant",
        why="a variant has one host AMI, and those for GPUs start on GPU types only",
    )
