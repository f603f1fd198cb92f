"""A container's machine and image on AWS, as far as a process in the container can see them.

NVIDIA's image sets variables with the release, and `nvidia-smi` reports the GPU. Sources, read on 2026-11-22:
build.py of triton-inference-server/server at r25.09 (PYTHONPATH of the image with DALI,
NVIDIA_TRITON_SERVER_VERSION); the history of nvcr.io/nvidia/pytorch:25.10-py3 (TRT_VERSION of the base image,
10.13.3.9).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from triton_models.facts.image_contents import backends
from triton_models.facts.instances import INSTANCE_TYPES, Gpu
from triton_models.facts.releases import Release, known_release

DRIVER = "580.159.03"
"""The driver that `nvidia-smi` reports on every host. AWS does not document the drivers of its build hosts;
AWS's own fleet in CodeBuild had 580.159 in July 2026 (aws/deep-learning-containers, commit 30c2a4767c)."""

_IMAGE = re.compile(r"[/:](?P<release>\d\d\.\d\d)-py3(?P<cpu>-cpu)?$")
_DALI = "/opt/tritonserver/backends/dali/wheel/dali:"  # the colon remains from an unset variable

# Supports only the queries that are used; the real program supports many more.
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
    """The machine of a container, and its image."""

    gpu: Gpu | None = None
    gpu_count: int = 1
    release: Release | None = None  # of the image; None if it is unknown
    cpu_image: bool = False  # the image for machines without a GPU, which lacks TensorRT and DALI

    @classmethod
    def of(cls, *, image: str, instance_type: str | None = None, gpu: Gpu | None = None) -> Machine:
        """Return the machine with an image, and with an instance type's GPUs or a given GPU."""
        found = _IMAGE.search(image)
        release = known_release(found["release"]) if found else None
        instance = INSTANCE_TYPES.get(instance_type) if instance_type else None
        return cls(
            gpu=instance.gpu if instance else gpu,
            gpu_count=instance.gpu_count if instance else 1,
            release=release,
            cpu_image=found is not None and found["cpu"] is not None,
        )

    def variables(self) -> Mapping[str, str]:
        """Return the variables of the image that this project reads."""
        if self.release is None:
            return {}
        gpu = {"PYTHONPATH": _DALI, "TRT_VERSION": self.release.tensorrt}
        return {"NVIDIA_TRITON_SERVER_VERSION": self.release.name, **({} if self.cpu_image else gpu)}

    def backends(self) -> frozenset[str] | None:
        """Return the backends of the image; None if its release is unknown."""
        return None if self.release is None else backends(self.release, cpu=self.cpu_image)

    def install(self, folder: Path) -> None:
        """Put an `nvidia-smi` for this machine into a folder, which is created if missing."""
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "nvidia-smi"
        if self.gpu is None:  # hides a GPU of the machine on which the rehearsal runs
            program.write_text('#!/bin/sh\necho "nvidia-smi: no devices were found" >&2\nexit 9\n')
        else:
            program.write_text(
                _NVIDIA_SMI.format(
                    device=f"NVIDIA {self.gpu.name.replace('-', ' ')}",  # approximately: "NVIDIA A100 40GB"
                    capability=self.gpu.compute_capability,
                    driver=DRIVER,
                    count=self.gpu_count,
                    number="{number}",
                )
            )
        program.chmod(0o755)
