"""The peaks of GPUs: arithmetic per precision, and memory bandwidth, for the floor of a network.

Source: NVIDIA's datasheets of each GPU, without sparsity; for the A10G, which only AWS has, the comparison
at baseten.co/blog/nvidia-a10-vs-a10g-for-ml-model-inference; read 2026-11-26. Read 2026-11-28:

* B200 and B300: an eighth of the HGX boards' figures, half of those with sparsity
  (fibermall.com/blog/?p=17161, glennklockwood.com/garden/processors/B200).
* RTX PRO: cores at the boost clock (technical.city), tensor cores in FP16 at 4 times the FP32 rate, which a
  public measurement of 407 on the 6000 supports (zzc0721/torch-performance-test-data issue 161); the
  bandwidth of the 4500's server edition (exxactcorp.com) and, of the 6000, of its launch.

No network reaches a peak: on an H200, matrix products of 8192 x 8192 reached 76 % of the FP32 row, 80 % of
TF32 and 75 % of FP16, and a copy 87 % of the bandwidth (PyTorch 2.11, measured 2026-11-26).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from triton_models.base.checks import Check
from triton_models.facts.instances import Gpu
from triton_models.facts.tensorrt import Precision

GPU_PEAKS = Check(id="gpu-peaks", source="NVIDIA's datasheets, read 2026-11-26 and 2026-11-28")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """The peaks of one GPU.

    Attributes:
        gpu: Its name in the GPU table, such as "A10G".
        bandwidth: Bytes that its memory moves per second.
        per_second: Operations per second in each precision; a multiplication and an addition are two. FP32
            runs on the ordinary cores, everything else on the tensor cores. A precision that the GPU lacks
            has the rate of the one in which it computes instead.
    """

    gpu: str
    bandwidth: float
    per_second: Mapping[Precision, float]


# GPU, GB/s, and tera-operations per second in FP32, TF32, FP16, BF16, INT8 and FP8
_ROWS = (
    ("V100", 900, 15.7, 15.7, 125, 15.7, 62.8, 15.7),
    ("T4", 320, 8.1, 8.1, 65, 8.1, 130, 8.1),
    ("A10G", 600, 31.5, 35, 70, 70, 140, 70),
    ("L4", 300, 30.3, 60, 121, 121, 242, 242),
    ("L40S", 864, 91.6, 183, 362, 362, 733, 733),
    ("A100-40GB", 1555, 19.5, 156, 312, 312, 624, 312),
    ("A100-80GB", 2039, 19.5, 156, 312, 312, 624, 312),
    ("H100", 3350, 67, 494, 989, 989, 1979, 1979),
    ("H200", 4800, 67, 494, 989, 989, 1979, 1979),
    ("B200", 8000, 75, 1125, 2250, 2250, 4500, 4500),
    ("B300", 8000, 75, 1125, 2250, 2250, 125, 4500),
    ("RTX-PRO-4500", 800, 55, 110, 220, 220, 440, 440),
    ("RTX-PRO-6000", 1792, 126, 252, 504, 504, 1008, 1008),
)
_PRECISIONS: tuple[Precision, ...] = ("fp32", "tf32", "fp16", "bf16", "int8", "fp8")

PEAKS: Mapping[str, Peaks] = MappingProxyType(
    {
        name: Peaks(
            gpu=name,
            bandwidth=bandwidth * 1e9,
            per_second={each: rate * 1e12 for each, rate in zip(_PRECISIONS, rates, strict=True)},
        )
        for name, bandwidth, *rates in _ROWS
    }
)


def peaks_of(gpu: Gpu) -> Peaks:
    """Return the peaks of a GPU.

    Raises:
        FleetError: The table has no row for it.
    """
    if gpu.name in PEAKS:
        return PEAKS[gpu.name]
    raise GPU_PEAKS.error(
        what=f"the peaks of {gpu.name} are unknown",
        where="the GPU of the floor",
        why="the floor is a network's arithmetic and bytes, divided by the GPU's peaks",
        fix=f"use one of {', '.join(PEAKS)}, or add a row from NVIDIA's datasheet to facts/gpu_peaks.py",
    )
