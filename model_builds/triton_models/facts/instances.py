"""The table of SageMaker instance types and GPUs.

Sources, as read on 2026-11-21:

* Sizes, GPU counts and instance store:
  https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html, .../pg.html (P3), .../gp.html (M),
  .../co.html (C) and .../mo.html (R).
* Instance types for real-time hosting: the enumeration ProductionVariantInstanceType of the SageMaker API, in
  botocore 1.44.5.
* Instance types for multi-model endpoints:
  https://docs.aws.amazon.com/sagemaker/latest/dg/multi-model-support.html
* Compute capabilities: https://developer.nvidia.com/cuda-gpus
* GPU memory: memory.total of nvidia-smi in public logs, read 2026-11-25 (a T4 has 15,109 MiB with driver 470,
  which does not count what it keeps). Of A100, B200, B300 and RTX PRO, what the pages about sizes report.

Left out on purpose: ml.p2 (K80: no release in `releases` supports it) and ml.p6e-gb200 (arm64; the Triton
images are x86-64).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from triton_models.base.checks import Check
from triton_models.base.suggest import CLOSER, did_you_mean

_TABLE = "the table of triton_models.facts.instances"
UNKNOWN_GPU = Check(id="unknown-gpu", source=_TABLE)
UNKNOWN_INSTANCE_TYPE = Check(id="unknown-instance-type", source=_TABLE)

DEFAULT_INSTANCE_TYPE = "ml.g5.2xlarge"
_KIND = re.compile(r"ml\.[a-z]+(?=\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU model. A TensorRT plan loads only on GPUs of its compute capability, and is tuned for one model.

    Attributes:
        name: The name used throughout this project, such as "A10G" or "A100-40GB".
        compute_capability: NVIDIA's number, such as "8.6". L4 and L40S share 8.9, and TensorRT warns about
            a plan that was compiled on the other.
        memory_mib: Memory of one GPU in MiB as nvidia-smi reports it (an A10G shows 23,028 of 24,576).
    """

    name: str
    compute_capability: str
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """A SageMaker hosting instance type.

    Attributes:
        name: SageMaker's name for it, such as "ml.g5.2xlarge".
        gpu: Its GPU model; None for a type without a GPU.
        memory_gib: Host memory.
        nvme_gb: Local NVMe in GB (10**9 bytes), which is also the disk cache of a multi-model endpoint; 0
            without local NVMe. Types that have it refuse VolumeSizeInGB.
        multi_model_documented: True if AWS lists the type for multi-model endpoints. AWS does not document
            if others are accepted; only the creation of the endpoint shows it.
    """

    name: str
    gpu: Gpu | None
    gpu_count: int
    vcpus: int
    memory_gib: float
    nvme_gb: int
    multi_model_documented: bool


def _gpus(*rows: tuple[str, str, int]) -> Mapping[str, Gpu]:
    return MappingProxyType(
        {name: Gpu(name=name, compute_capability=cc, memory_mib=memory) for name, cc, memory in rows}
    )


# name, compute capability, MiB
GPUS: Mapping[str, Gpu] = _gpus(
    ("V100", "7.0", 16160),
    ("T4", "7.5", 15360),
    ("A100-40GB", "8.0", 40 << 10),
    ("A100-80GB", "8.0", 80 << 10),
    ("A10G", "8.6", 23028),
    ("L4", "8.9", 23034),
    ("L40S", "8.9", 46068),
    ("H100", "9.0", 81559),
    ("H200", "9.0", 143771),
    ("B200", "10.0", 179 << 10),
    ("B300", "10.3", 268 << 10),
    ("RTX-PRO-4500", "12.0", 32 << 10),
    ("RTX-PRO-6000", "12.0", 97887),  # nvidia-smi in public logs, not checked here
)

_Row = tuple[str, int, int, float, int]  # size, GPUs, vCPUs, memory GiB, NVMe GB


def _family(
    family: str, gpu: str | None, rows: tuple[_Row, ...], *, multi_model: tuple[str, ...] = ()
) -> dict[str, InstanceType]:
    return {
        f"ml.{family}.{size}": InstanceType(
            name=f"ml.{family}.{size}",
            gpu=None if gpu is None else GPUS[gpu],
            gpu_count=count,
            vcpus=vcpus,
            memory_gib=memory,
            nvme_gb=nvme,
            multi_model_documented=size in multi_model,
        )
        for size, count, vcpus, memory, nvme in rows
    }


def _cpu_family(family: str, gib_per_vcpu: int, vcpus: tuple[int, ...]) -> dict[str, InstanceType]:
    """Return a family without GPU or instance store; its sizes are multiples of the 4 vCPUs of an xlarge.

    Multi-model endpoints accept every CPU type.
    """
    sizes = {2: "large", 4: "xlarge"}
    rows = tuple(
        (sizes.get(count, f"{count // 4}xlarge"), 0, count, count * gib_per_vcpu, 0) for count in vcpus
    )
    return _family(family, None, rows, multi_model=tuple(row[0] for row in rows))


# The sizes of most families with GPUs: GPUs and vCPUs.
_SIZES = {"xlarge": (1, 4), "2xlarge": (1, 8), "4xlarge": (1, 16), "8xlarge": (1, 32), "12xlarge": (4, 48)}
_SIZES |= {"16xlarge": (1, 64), "24xlarge": (4, 96), "48xlarge": (8, 192)}
_SINGLE_GPU = tuple(size for size, (count, _) in _SIZES.items() if count == 1)


def _gpu_family(
    family: str, gpu: str, gib_per_vcpu: int, *nvme: int, multi_model: tuple[str, ...] = ()
) -> dict[str, InstanceType]:
    """Return a family of the usual sizes, as many as there are sizes of NVMe."""
    sizes = zip(_SIZES.items(), nvme, strict=False)
    rows = tuple((size, count, vcpus, vcpus * gib_per_vcpu, gb) for (size, (count, vcpus)), gb in sizes)
    return _family(family, gpu, rows, multi_model=multi_model)


INSTANCE_TYPES: Mapping[str, InstanceType] = MappingProxyType(
    _gpu_family("g4dn", "T4", 4, 125, 225, 225, 900, 900, 900, multi_model=_SINGLE_GPU)
    | _gpu_family("g5", "A10G", 4, 250, 450, 600, 900, 3800, 1900, 3800, 7600, multi_model=_SINGLE_GPU)
    | _gpu_family("g6", "L4", 4, 250, 450, 600, 900, 3760, 1880, 3760, 7520)
    | _gpu_family("g6e", "L40S", 8, 250, 450, 600, 900, 3800, 1900, 3800, 7600)
    | _family(
        "g7",
        "RTX-PRO-4500",
        # The EC2 API reports slightly different instance stores for the three smallest: 440, 875 and 930 GB.
        (
            ("2xlarge", 1, 8, 32, 600),
            ("4xlarge", 1, 16, 64, 600),
            ("8xlarge", 1, 32, 128, 950),
            ("12xlarge", 2, 48, 192, 1900),
            ("24xlarge", 4, 96, 384, 3800),
            ("48xlarge", 8, 192, 768, 7600),
        ),
    )
    | _family(
        "g7e",
        "RTX-PRO-6000",
        (
            ("2xlarge", 1, 8, 64, 1900),
            ("4xlarge", 1, 16, 128, 1900),
            ("8xlarge", 1, 32, 256, 1900),
            ("12xlarge", 2, 48, 512, 3800),
            ("24xlarge", 4, 96, 1024, 7600),
            ("48xlarge", 8, 192, 2048, 15200),
        ),
    )
    | _family(
        "p3",
        "V100",
        (("2xlarge", 1, 8, 61, 0), ("8xlarge", 4, 32, 244, 0), ("16xlarge", 8, 64, 488, 0)),
        multi_model=("2xlarge",),
    )
    | _family("p4d", "A100-40GB", (("24xlarge", 8, 96, 1152, 8000),))
    | _family("p4de", "A100-80GB", (("24xlarge", 8, 96, 1152, 8000),))
    | _family("p5", "H100", (("4xlarge", 1, 16, 256, 3800), ("48xlarge", 8, 192, 2048, 30400)))
    | _family("p5e", "H200", (("48xlarge", 8, 192, 2048, 30400),))
    | _family("p5en", "H200", (("48xlarge", 8, 192, 2048, 30400),))
    | _family("p6-b200", "B200", (("48xlarge", 8, 192, 2048, 30400),))
    | _family("p6-b300", "B300", (("48xlarge", 8, 192, 4096, 30400),))
    | _cpu_family("m5", 4, (2, 4, 8, 16, 48, 96))
    | _cpu_family("c5", 2, (2, 4, 8, 16, 36, 72))
    | _cpu_family("m6i", 4, (2, 4, 8, 16, 32, 48, 64, 96, 128))
    | _cpu_family("c6i", 2, (2, 4, 8, 16, 32, 48, 64, 96, 128))
    | _cpu_family("m7i", 4, (2, 4, 8, 16, 32, 48, 64, 96, 192))
    | _cpu_family("c7i", 2, (2, 4, 8, 16, 32, 48, 64, 96, 192))
    | _cpu_family("r7i", 8, (2, 4, 8, 16, 32, 48, 64, 96, 192))
)


def least_vcpus(gpu: Gpu) -> int:
    """Return the vCPUs for each GPU of the smallest instance type that has it."""
    return min(each.vcpus // each.gpu_count for each in INSTANCE_TYPES.values() if each.gpu == gpu)


def gpu(name: str) -> Gpu:
    """Return the GPU model with that name.

    Raises:
        FleetError: The GPU model is unknown.
    """
    try:
        return GPUS[name]
    except KeyError:
        otherwise = f"use that of the endpoint's instance type, one of {', '.join(GPUS)}"
        what = f"unknown GPU {name!r}"
        why = "a TensorRT plan is compiled for one GPU model"
        fix = did_you_mean(name, GPUS, otherwise=otherwise, cutoff=CLOSER)
        raise UNKNOWN_GPU.error(what=what, where="the GPU a model is built for", why=why, fix=fix) from None


def _of_its_kind(name: str) -> list[str]:
    """Return the types whose family begins with the letters of a name's: no G or R for Inferentia."""
    kind = _KIND.match(name)
    return [each for each in INSTANCE_TYPES if kind is None or re.match(rf"{kind[0]}\d", each)]


def instance_type(name: str) -> InstanceType:
    """Return the SageMaker hosting instance type with that name.

    Raises:
        FleetError: The instance type is unknown; the message has close matches.
    """
    try:
        return INSTANCE_TYPES[name]
    except KeyError:
        why = "SageMaker refuses other instance types, but only during the deployment"
        fix = did_you_mean(name, _of_its_kind(name), otherwise=f"use {DEFAULT_INSTANCE_TYPE}")
        raise UNKNOWN_INSTANCE_TYPE.error(
            what=f"unknown instance type {name!r}", where="the endpoint's instance type", why=why, fix=fix
        ) from None
