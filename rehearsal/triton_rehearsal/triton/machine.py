"""The machine and the image that a container has on AWS, as far as a process in it can see them.

The release is in the variables that NVIDIA's image sets, and the GPU is what `nvidia-smi` says. Sources, read
on 2026-11-22: build.py of triton-inference-server/server at r25.09 (PYTHONPATH of the image with DALI,
NVIDIA_TRITON_SERVER_VERSION); the history of nvcr.io/nvidia/pytorch:25.10-py3 (TRT_VERSION of the base image,
10.13.3.9).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from triton_models.facts.image_contents import backends
from triton_models.facts.instances import INSTANCE_TYPES, Gpu
from triton_models.facts.releases import RELEASES, Release
from triton_rehearsal.assumptions import holds

DRIVER = "580.159.03"
"""What `nvidia-smi` says of every host. AWS documents the driver of no build host; AWS's own fleet in
CodeBuild had 580.159 in July 2026 (aws/deep-learning-containers, commit 30c2a4767c)."""

OLD_DRIVER = "550.163.01"
"""What it says where a host is assumed to have a driver that is older than CUDA 13 needs."""

_IMAGE = re.compile(r"[/:](?P<release>\d\d\.\d\d)-py3(?P<cpu>-cpu)?$")
_DALI = "/opt/tritonserver/backends/dali/wheel/dali:"  # of the variable that was unset, the colon is left

# Answers the queries that are sent to it; the real one answers many more.
_NVIDIA_SMI = """\
#!/bin/sh
case "$1" in
  -L) answer='GPU {number}: {device} (UUID: GPU-00000000-0000-0000-0000-00000000000{number})' ;;
  --query-gpu=*) answer=$(echo "${{1#--query-gpu=}}" | sed -e 's/,/, /g' -e 's/driver_version/{driver}/' \\
    -e 's/compute_cap/{capability}/' -e 's/name/{device}/') ;;
  *) echo "nvidia-smi of a rehearsal: $1 is unknown" >&2; exit 1 ;;
esac
number=0
while [ "$number" -lt {count} ]; do
  echo "$answer" | sed "s/{{number}}/$number/g"
  number=$((number + 1))
done
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine of a container, and its image.

    Attributes:
        gpu: The GPU model; None without one.
        gpu_count: Number of GPUs.
        release: The release of the image; None if it is no image of a known one.
        driver: The host's driver.
        cpu_image: It is the image for machines without a GPU, which has no TensorRT and no DALI.
    """

    gpu: Gpu | None = None
    gpu_count: int = 1
    release: Release | None = None
    cpu_image: bool = False
    driver: str = DRIVER

    @classmethod
    def of(cls, *, image: str, instance_type: str | None = None, gpu: Gpu | None = None) -> Machine:
        """The machine of an instance type, or with a GPU, and the image of an address."""
        found = _IMAGE.search(image)
        release = RELEASES.get(found["release"]) if found else None
        instance = INSTANCE_TYPES.get(instance_type) if instance_type else None
        return cls(
            gpu=instance.gpu if instance else gpu,
            gpu_count=instance.gpu_count if instance else 1,
            release=release,
            cpu_image=found is not None and found["cpu"] is not None,
        )

    def variables(self) -> Mapping[str, str]:
        """The variables that the image sets, as far as anything of this project reads them."""
        if self.release is None:
            return {}
        gpu = {"PYTHONPATH": _DALI, "TRT_VERSION": self.release.tensorrt}
        return {"NVIDIA_TRITON_SERVER_VERSION": self.release.name, **({} if self.cpu_image else gpu)}

    def backends(self) -> frozenset[str] | None:
        """The backends of the image; None if its release is not known."""
        return None if self.release is None else backends(self.release, cpu=self.cpu_image)

    def assuming(self, driver: str) -> Machine:
        """The machine, with an older driver where the assumption about its driver does not hold."""
        return self if holds(driver) else replace(self, driver=OLD_DRIVER)

    def install(self, folder: Path) -> None:
        """Put `nvidia-smi` into a folder, if there is a GPU; the folder is made if missing."""
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "nvidia-smi"
        if self.gpu is None:  # whatever GPU the machine of the rehearsal has, this one has no GPU
            program.write_text('#!/bin/sh\necho "nvidia-smi: no devices were found" >&2\nexit 9\n')
        else:
            program.write_text(
                _NVIDIA_SMI.format(
                    device=_device(self.gpu),
                    capability=self.gpu.compute_capability,
                    driver=self.driver,
                    count=self.gpu_count,
                    number="{number}",
                )
            )
        program.chmod(0o755)


def before(folder: Path, path: str) -> str:
    """A search path with a folder before all others."""
    return os.pathsep.join([str(folder), path])


def _device(gpu: Gpu) -> str:
    """The GPU as nvidia-smi names it, roughly: "NVIDIA A100 40GB"."""
    return f"NVIDIA {gpu.name.replace('-', ' ')}"
