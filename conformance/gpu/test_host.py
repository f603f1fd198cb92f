"""Beliefs about the host: its GPUs and its driver."""

from __future__ import annotations

import pytest

from conformance.gpu.machine import Machine, numbers, python
from conformance.records import Asked

pytestmark = pytest.mark.gpu("GPU")

# Drivers differ in whether they count the memory that they keep.
MARGIN = 0.97
# Loads the image's CUDA runtime, and counts the devices.
CUDA = (
    "import ctypes, glob; found = sorted(glob.glob('/usr/local/cuda/lib64/libcudart.so*')); "
    "cudart = ctypes.CDLL((found or ['libcudart.so'])[0]); number = ctypes.c_int(); "
    "status = cudart.cudaGetDeviceCount(ctypes.byref(number)); print('status', status)"
)


def test_the_name_of_a_gpu_is_that_of_the_table(here: Machine, ask: Asked) -> None:
    assert here.present.name in ask(lambda: [here.place, *(each[0] for each in here.gpus)])


def test_a_gpu_has_the_compute_capability_of_the_table(here: Machine, ask: Asked) -> None:
    assert set(ask(lambda: [each[2] for each in here.gpus])) == {here.present.compute_capability}


def test_a_gpu_has_the_memory_of_the_table(here: Machine, ask: Asked) -> None:
    shown = ask(lambda: [each[3] for each in here.gpus])
    assert min(int(each.partition(" ")[0]) for each in shown) >= here.present.memory_mib * MARGIN


@pytest.mark.gpu("image")
def test_a_driver_that_is_new_enough_runs_the_images_cuda(here: Machine, ask: Asked) -> None:
    driver = ask(lambda: here.gpus[0][1], "driver")
    status = ask(lambda: python(CUDA), "CUDA")
    if numbers(driver) < numbers(here.release.min_driver):
        pytest.skip(f"driver {driver} is too old to decide: put /usr/local/cuda/compat/lib.real first")
    assert status == "status 0"
