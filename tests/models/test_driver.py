"""The machine check before anything is installed: nvidia-smi is an executable that a test puts on PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reported import refused
from triton_fleet.builds.commands import ENVIRONMENT, commands
from triton_models.base.errors import FleetError
from triton_models.builds.tensorrt.driver import library_path
from triton_models.facts.instances import GPUS
from triton_models.facts.releases import RELEASES

SOURCE = Path(__file__).resolve().parents[2] / "model_builds"
OWN = "/usr/local/cuda/lib64"

Machine = Callable[..., Path]


def path_on(compat: Path, *, release: str = "25.09", helps: bool = False, given: str = OWN) -> str:
    return library_path(
        gpu=GPUS["A10G"],
        release=RELEASES[release],
        compat=compat,
        environment={"LD_LIBRARY_PATH": given} if given else {},
        initializes=lambda path: helps and path.split(":")[0] == str(compat),
    )


@pytest.mark.parametrize(
    ("driver", "release"),
    [("580", "25.09"), ("580.159.03", "25.09"), ("525.60.13", "25.04"), ("610.1", "25.09")],
)
def test_a_driver_for_the_releases_cuda_needs_no_help(
    machine: Machine, tmp_path: Path, driver: str, release: str
) -> None:
    machine(gpus=(f"NVIDIA A10G, {driver}",))
    assert path_on(tmp_path, release=release) == OWN


@pytest.mark.parametrize("given", [OWN, ""])
def test_an_older_driver_is_helped_by_the_images_own_where_cuda_starts_with_that(
    machine: Machine, tmp_path: Path, given: str
) -> None:
    machine(gpus=("NVIDIA A10G, 580.1", "NVIDIA A10G, 96.43"))
    assert path_on(tmp_path, helps=True, given=given) == ":".join(filter(None, [str(tmp_path), given]))
    assert (
        path_on(tmp_path, helps=True, given=f"{tmp_path}:{OWN}") == f"{tmp_path}:{OWN}"
    )  # by /etc/shinit_v2


@pytest.mark.parametrize(("driver", "fallback"), [("550.163.01", "25.04"), ("470.57", "ProcessingJob()")])
def test_an_older_driver_that_nothing_helps_is_an_error_that_names_a_release_which_runs_on_it(
    machine: Machine, tmp_path: Path, driver: str, fallback: str
) -> None:
    machine(gpus=(f"NVIDIA A10G, {driver}",))
    for compat in (tmp_path, tmp_path / "missing"):
        problem = refused(path_on, compat)
        assert problem.rule == "driver-too-old"
        assert driver in problem.what
        assert fallback in problem.fix


def test_another_gpu_is_reported_there_too(machine: Machine, tmp_path: Path) -> None:
    machine(gpus=("Tesla T4, 580.1",))
    with pytest.raises(FleetError, match="gpu-absent"):
        path_on(tmp_path)


@pytest.mark.parametrize(("driver", "status"), [("580.159.03", 0), ("470.57", 1)])
def test_the_job_asks_before_it_installs_and_with_nothing_but_python(
    machine: Machine, tmp_path: Path, driver: str, status: int
) -> None:
    machine(gpus=(f"NVIDIA A10G, {driver}",))
    (tmp_path / "bin" / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (tmp_path / "bin" / "python3").chmod(0o755)
    _toolkit, *asks, _ = commands(GPUS["A10G"])["install"]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join([*asks, 'echo "libraries: $LD_LIBRARY_PATH"'])],
        cwd=SOURCE,
        env={**ENVIRONMENT, "PATH": os.environ["PATH"], "FLEET_GPU": "A10G", "FLEET_RELEASE": "25.09"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert ("libraries: " in done.stdout) == (status == 0)
    assert ("driver-too-old" in done.stderr) == (status == 1)
