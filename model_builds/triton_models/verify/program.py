"""The executable of the local Triton server, and its environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from triton_models.base.errors import FleetError
from triton_models.facts.image_contents import IMAGE_SERVER
from triton_models.facts.releases import RELEASE_VARIABLE, known_release

_NAME = "tritonserver"
INSTALLED = Path(sys.prefix).parent / ".venv-triton" / "bin" / _NAME
"""The server that `make rehearse` installs next to the environment that runs this."""

_NO_NUMPY = "the python3 on PATH has no NumPy for Python models"


def find_server(given: Path | None = None) -> Path:
    """Return the server's executable: the given one, the first on PATH, NVIDIA's, or that of `make rehearse`.

    Raises:
        FleetError: The executable does not exist.
    """
    if given is None:
        found = shutil.which(_NAME)
        if found is not None:
            return Path(found).absolute()
        given = next((each for each in (IMAGE_SERVER, INSTALLED) if each.is_file()), IMAGE_SERVER)
    if os.access(given, os.X_OK) and given.is_file():
        return given.absolute()
    raise FleetError.of(
        what=f"{_NAME} not found" if given == IMAGE_SERVER else f"{given} is not an executable",
        where=f"PATH, {IMAGE_SERVER} and {INSTALLED}" if given == IMAGE_SERVER else "--tritonserver",
        why="the server that will serve a build must verify it",
        fix="run this in the image, as the build job does, or `make rehearse` to install a server here",
        rule="no-tritonserver",
    )


def server_environment() -> dict[str, str]:
    """Return the server's environment, which has only the image's PYTHONPATH of this process's Python.

    In the images with DALI, PYTHONPATH is the folder of DALI's packages. They precede the image's other
    packages, an environment's and those next to a model, both on the endpoint and here. Read on 2026-11-22:
    build.py of triton-inference-server/server sets it, and the stub's pybind11 makes Python read it, 2.10
    with the images' Python 3.10 and 2.12 with their 3.12 (python_backend's CMakeLists.txt; pybind11 pull
    request 4473).
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON") or name == "PYTHONPATH"
    }
    release = known_release(kept.get(RELEASE_VARIABLE, ""))
    ours = release.server_variables if release else {}
    # Hide the packages that the build installed for its user, if the image's backend respects this.
    return {**ours, **kept, "PYTHONNOUSERSITE": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def numpy_of_models() -> str:
    """Return a log line with the NumPy that Python models of a local server import."""
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
