"""A Python environment inside an artifact, for a model that needs more than its image contains.

It is a folder of wheels for the release's Python, named by EXECUTION_ENV_PATH. pip fetches the wheels on any
machine, without conda and without that Python version. The environment stays unpacked in the artifact, as
Triton unpacks an environment.tar.gz into /tmp and keeps it there until the server ends.

It replaces the image's packages, so it must include NumPy; the interpreter and the standard library remain
those of the image. `PythonModel.packages` is lighter, for packages that load in any Python: see
`triton_models.artifact.environments.packages`. A declaration names the wheels:
`triton_models.declare.environments`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from triton_models.base.errors import FleetError

# The folder of the interpreter in the Triton images: Ubuntu's own.
_IMAGE_PYTHON = "/usr/bin"

# The oldest image in the table has glibc 2.35 (Ubuntu 22.04). pip needs each compatible tag by name.
_PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(35, 16, -1)), "manylinux2014_x86_64")

# Files that an installer adds or rewrites; they differ between installations of the same wheel.
_INSTALLER_FILES = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")

# The model's process finds its packages by the first executable python3 on PATH. Releases up to 25.07 source
# this file before they start it; later ones only check that it exists, and extend PATH themselves.
_ACTIVATE = """\
environment="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
chmod +x "$environment/bin/python3"
export PATH="$environment/bin:$PATH"
"""

# Never run: Python finds its packages relative to this path.
_PLACEHOLDER = f'#!/bin/sh\nexec {_IMAGE_PYTHON}/python3 "$@"\n'


def make_environment(
    folder: Path, *, wheels: Sequence[str], python: str, not_needed: Collection[str] = ()
) -> None:
    """Create an environment from wheels.

    Raises:
        FleetError: pip found no matching wheel, or the wheels require others.
    """
    from triton_models.artifact.environments.required import refuse_unmet  # needs a package of builds

    packages = folder / "lib" / f"python{python}" / "site-packages"
    packages.mkdir(parents=True)
    command = _pip(packages, python)
    _install(command, wheels, packages, python)
    refuse_unmet(packages, python=python, not_needed=not_needed, pip=[*command, *wheels])
    (folder / "bin").mkdir()
    (folder / "bin" / "activate").write_text(_ACTIVATE)
    (folder / "bin" / "python3").write_text(_PLACEHOLDER)
    (folder / "bin" / "python3").chmod(0o755)
    (folder / "pyvenv.cfg").write_text(
        f"home = {_IMAGE_PYTHON}\ninclude-system-site-packages = false\nversion = {python}\n"
    )


def _pip(packages: Path, python: str) -> list[str]:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-compile", "--only-binary=:all:", "--implementation", "cp"]
    command += ["--python-version", python, "--target", str(packages)]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    return command


def _install(command: Sequence[str], wheels: Sequence[str], packages: Path, python: str) -> None:
    # A build job sets PIP_USER, which pip cannot combine with a target.
    own = {**os.environ, "PIP_USER": "0"}
    run = subprocess.run([*command, *wheels], env=own, capture_output=True, text=True, check=False)
    if run.returncode:
        said = [line for line in run.stderr.splitlines() if line.startswith("ERROR: ")]
        raise FleetError.of(
            what=f"pip cannot install {', '.join(wheels)}: {' '.join(said) or run.stderr.strip()[-500:]}",
            where=f"the environment {packages}",
            why="the model would lack its packages",
            fix=f"fix the names and versions: each needs a wheel for Python {python} on Linux x86-64; or set "
            "PIP_INDEX_URL or PIP_FIND_LINKS",
            rule="environment-wheels",
        )
    shutil.rmtree(packages / "bin", ignore_errors=True)  # scripts that contain paths of this machine
    for record in packages.glob("*.dist-info/*"):
        if record.name in _INSTALLER_FILES:
            record.unlink()
