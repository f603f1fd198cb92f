"""Probes of the host: its GPUs and its driver."""

from __future__ import annotations

from collections.abc import Iterator

from triton_models.facts.instances import GPUS
from triton_models.probe.gpu.machine import python_says
from triton_models.probe.gpu.situation import GpuProbe, Situation
from triton_models.probe.verdict import Verdict, decide, true, undecided

# Drivers differ in whether they count the memory that they keep.
_MEMORY_MARGIN = 0.97

# Loads the image's CUDA runtime, counts the devices, and prints the versions of driver and runtime.
_CUDA = (
    "import ctypes, glob; found = sorted(glob.glob('/usr/local/cuda/lib64/libcudart.so*')); "
    "cudart = ctypes.CDLL((found or ['libcudart.so'])[0]); number = ctypes.c_int(); "
    "status = cudart.cudaGetDeviceCount(ctypes.byref(number)); print('status', status)"
)
_WORKS = "status 0"


def gpus(situation: Situation) -> Iterator[Verdict]:
    """Compare the GPUs with the table."""
    shown = ", ".join(f"{each.name} {each.capability} {each.memory_mib} MiB" for each in situation.gpus)
    situation.observe(
        "gpus", {}, {"gpus": [[each.name, each.capability, each.memory_mib] for each in situation.gpus]}
    )
    gpu = situation.gpu
    if gpu is None:
        known = ", ".join(GPUS)
        for belief in GPUS_PROBE.decides:
            yield undecided(belief, f"{shown} is not in the GPU table ({known})")
        return
    yield true("nvidia-smi-names", f"{shown}: {gpu.name}")
    capabilities = {each.capability for each in situation.gpus}
    if capabilities == {""}:
        yield undecided("gpu-compute-capability", "this nvidia-smi does not report compute_cap")
    else:
        yield decide(
            "gpu-compute-capability",
            f"{shown}; the table has {gpu.compute_capability}",
            holds=capabilities == {gpu.compute_capability},
        )
    least = min(each.memory_mib for each in situation.gpus)
    if least == 0:
        yield undecided("gpu-memory", "this nvidia-smi does not report memory.total")
    else:
        yield decide(
            "gpu-memory",
            f"{shown}; the table has {gpu.memory_mib} MiB",
            holds=least >= gpu.memory_mib * _MEMORY_MARGIN,
        )


def driver(situation: Situation) -> Iterator[Verdict]:
    """Check if the image's CUDA runs on the host's driver."""
    found, needed = situation.gpus[0].driver, situation.release.min_driver
    answer = python_says(_CUDA)
    works = answer.last == _WORKS
    situation.observe("cuda-on-driver", {"driver": found, "cuda": situation.release.cuda}, {"starts": works})
    seen = f"driver {found}, CUDA {situation.release.cuda} answers {answer.last!r}; {needed} is needed"
    if _number(found) >= _number(needed):
        yield decide("cuda-min-driver", seen, holds=works)
    else:
        how = "it starts all the same" if works else "put /usr/local/cuda/compat/lib.real first"
        yield undecided("cuda-min-driver", f"the driver is too old to decide: {how}; {seen}")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


GPUS_PROBE = GpuProbe(
    id="gpus",
    what="compares the GPUs with the GPU table",
    decides=("nvidia-smi-names", "gpu-compute-capability", "gpu-memory"),
    ask=gpus,
    needs_gpu=True,
    needs_image=False,
)

PROBES = (
    GPUS_PROBE,
    GpuProbe(
        id="driver",
        what="starts the image's CUDA on the host's driver",
        decides=("cuda-min-driver",),
        ask=driver,
        needs_gpu=True,
    ),
)
