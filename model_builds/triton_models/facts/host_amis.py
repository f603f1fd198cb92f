"""Host images (AMIs) of SageMaker endpoints, with their drivers and supported GPUs.

Read on 2026-11-22. AWS lists the compatible instance types of each AMI, but the rows for drivers 550 and 580
could not be read. REPORTS lists what others report instead.

* Names, drivers, CUDA versions: ProductionVariantInferenceAmiVersion of the SageMaker API (botocore 1.44.5).
* https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html: the default hosts of ml.g4dn,
  ml.g5, ml.p4d and ml.p4de have driver 470. Others report 535. Release 25.04 finds no GPU with 470, and 26.05
  crashes with 535 (the belief `ami-too-old-symptom`). So endpoints always name the AMI.
* The CUDA major versions of AMI and container must match: with gpu-4-1, a container with CUDA 12.9 stayed in
  Creating, without a log (aws/deep-learning-containers pull request 6187, 2026-06-05).
* The oldest drivers for Blackwell GPUs: the release notes of CUDA 12.8. For ml.g7: NVIDIA/aicr issue 2743 and
  awslabs/amazon-eks-ami pull request 2768.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from triton_models.facts.instances import InstanceType
from triton_models.facts.releases import Release

PATTERN = re.compile(r"al\d+-ami-sagemaker-inference-gpu-\d+(-\d+)?")
"""Names of AMIs for GPUs. AWS adds new ones, so a name that HOST_AMIS lacks is accepted unchecked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAmi:
    """A host image for GPUs, by its InferenceAmiVersion, with the driver as precisely as AWS states it."""

    name: str
    driver: str
    cuda_major: str


HOST_AMIS: Mapping[str, HostAmi] = {
    name: HostAmi(name=name, driver=driver, cuda_major=major)
    for name, driver, major in (
        ("al2-ami-sagemaker-inference-gpu-2", "535", "12"),
        ("al2-ami-sagemaker-inference-gpu-2-1", "535", "12"),
        ("al2-ami-sagemaker-inference-gpu-3-1", "550", "12"),
        ("al2023-ami-sagemaker-inference-gpu-4-1", "580", "13"),
    )
}

OLDEST_DRIVERS: Mapping[str, str] = {"g7": "595", "g7e": "570", "p6-b200": "570", "p6-b300": "570"}
"""The oldest driver for the GPUs of an instance family; every AMI supports the families not listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report about an AMI, by the end of its name, on an instance family: it works, or was refused."""

    family: str
    ami: str
    works: bool
    source: str
    note: str


_SAMPLES = "aws-samples/sagemaker-genai-hosting-examples"
_AUTOGLUON = "autogluon/autogluon-cloud, infer_sagemaker_ami_version"
_CONTAINERS = "aws/deep-learning-containers, commit 2ec0bc190f (2026-07-15)"

# The default for ml.g5 is release 25.09 with gpu-4-1: two sources use it on sizes with one GPU, and the only
# refusal is for a size with four. No report is about a multi-model endpoint. If it fails, use release 25.04,
# whose AMI is gpu-3-1, or set `inference_ami`.
REPORTS = tuple(
    Report(family=family, ami="gpu-4-1", works=works, source=source, note=note)
    for family, works, source, note in (
        ("g4dn", True, _SAMPLES, "ml.g4dn.xlarge works; with its default AMI: CannotStartContainerError"),
        ("g5", True, _AUTOGLUON, "ml.g5 is in its list of families"),
        ("g5", True, _SAMPLES, "the default is ml.g5.xlarge"),
        ("g5", False, _CONTAINERS, "ml.g5.12xlarge, with four GPUs: Invalid combination"),
        ("g6", True, _SAMPLES, "ml.g6.xlarge was tested"),
        ("g6e", True, _AUTOGLUON, "in its list of families"),
        ("g7e", True, _SAMPLES, "an example on ml.g7e.12xlarge"),
        ("p4d", True, _AUTOGLUON, "in its list of families"),
        ("p4de", True, _AUTOGLUON, "in its list of families"),
        ("p5", True, _AUTOGLUON, "in its list of families"),
        ("p5e", True, _AUTOGLUON, "in its list of families"),
        ("p5en", True, _AUTOGLUON, "in its list of families"),
        ("p6-b200", True, _SAMPLES, "an example on 48xlarge"),
    )
)


def default_ami(instance: InstanceType, release: Release) -> str | None:
    """Return the host image for a release on an instance type.

    None without a GPU, or if the driver of the release's AMI is too old for it. SageMaker then chooses a host
    with a suitable driver.
    """
    if instance.gpu is None or release.inference_ami is None:
        return None
    ami = HOST_AMIS[release.inference_ami]
    return None if too_old(ami, instance) else ami.name


def too_old(ami: HostAmi, instance: InstanceType) -> bool:
    """Return True if an AMI's driver is too old for the GPU of an instance type."""
    return int(ami.driver) < int(OLDEST_DRIVERS.get(family(instance), "0"))


def family(instance: InstanceType) -> str:
    """Return the family of an instance type, such as "g5"."""
    return instance.name.split(".")[1]
