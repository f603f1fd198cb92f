"""The program of the Triton server on this machine: where it is, and what it inherits."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from triton_models.base.errors import FleetError
from triton_models.facts.image_contents import IMAGE_SERVER
from triton_models.facts.releases import RELEASES

# Where NVIDIA's images say which release they are: build.py of triton-inference-server/server, 2026-11-22.
_RELEASE_VARIABLE = "NVIDIA_TRITON_SERVER_VERSION"

_NAME = "tritonserver"
_NO_NUMPY = "Python models get no NumPy from the python3 on PATH"


def find_server(given: Path | None = None) -> Path:
    """The server's executable: the given one, the first on PATH, or that of NVIDIA's image.

    Raises:
        FleetError: There is no such program.
    """
    if given is None:
        found = shutil.which(_NAME)
        if found is not None:
            return Path(found).absolute()
        given = IMAGE_SERVER
    if os.access(given, os.X_OK) and given.is_file():
        return given.absolute()
    raise FleetError.of(
        what=f"there is no {_NAME}" if given == IMAGE_SERVER else f"{given} is no program",
        where=f"PATH and {IMAGE_SERVER}" if given == IMAGE_SERVER else "--tritonserver",
        expected="the Triton server, which NVIDIA's and SageMaker's Triton images have",
        why="a build is verified by the server that will serve it",
        fix="run this in the image, as the build job does; on this machine `fleet rehearse` verifies",
        rule="no-tritonserver",
    )


def server_environment() -> dict[str, str]:
    """What the server inherits: of this process's Python only PYTHONPATH, which the image sets.

    In the images with DALI it names the folder of DALI's packages, which outranks the image's others, an
    environment's and those next to a model: on the endpoint as here. Read on 2026-11-22: build.py of
    triton-inference-server/server sets it, and the stub's pybind11 has Python read it, 2.10 with the images'
    Python 3.10 and 2.12 with their 3.12 (python_backend's CMakeLists.txt; pybind11 pull request 4473).
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON") or name == "PYTHONPATH"
    }
    release = RELEASES.get(kept.get(_RELEASE_VARIABLE, ""))
    ours = release.server_variables if release else {}
    # An image whose backend minds them keeps what the build installed for its user from the models.
    return {**ours, **kept, "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def numpy_of_models() -> str:
    """The NumPy that Python models of a server of this machine get, in a line for a log."""
    code = "import numpy; print(numpy.__version__, 'in', numpy.__file__)"
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            ["python3", "-c", code],
            env=server_environment(),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    return f"Python models get NumPy {run.stdout.strip()}" if run.returncode == 0 else _NO_NUMPY
