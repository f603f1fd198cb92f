"""Wheels for pip to find without a network, and the Python that the bundled Triton server runs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from triton_rehearsal.triton.runtime import ENVIRONMENT

PYTHON = f"3.{sys.version_info.minor}"
"""That of the tests, which is the server's too: `make setup` makes both environments with one interpreter."""


def put_wheel(
    shelf: Path,
    name: str,
    files: Mapping[str, str],
    *,
    tag: str = "py3-none-any",
    version: str = "1.0",
    requires: Sequence[str] = (),
) -> None:
    """Put a wheel on the shelf that pip looks in: files by their paths, and requirements as in METADATA."""
    info = f"{name}-{version}.dist-info"
    described = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + "".join(f"Requires-Dist: {each}\n" for each in requires),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    everything = {**files, **described}
    with zipfile.ZipFile(shelf / f"{name}-{version}-{tag}.whl", "w") as wheel:
        for path, text in everything.items():
            wheel.writestr(path, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in (*everything, f"{info}/RECORD")))


def put_numpy(shelf: Path, *, version: str = "2.2.6", requires: Sequence[str] = ()) -> None:
    """Put a NumPy on the shelf that leads to the server's own: the real one needs a network."""
    files = {"server.pth": f"{_server_python()[1]}\n", "numpy/lib/tests/data.txt": ""}
    put_wheel(shelf, "numpy", files, version=version, requires=requires)


def use_servers_python(environment: Path) -> None:
    """Let an environment run on the server's interpreter; an image has its own in /usr/bin."""
    path = environment / "pyvenv.cfg"
    path.write_text(path.read_text().replace("home = /usr/bin", f"home = {_server_python()[0]}/bin"))


def _server_python() -> tuple[str, str]:
    """Return the paths of the server's interpreter and its packages."""
    code = "import sys, sysconfig; print(sys.base_prefix); print(sysconfig.get_path('purelib'))"
    command = [str(ENVIRONMENT / "bin" / "python"), "-I", "-c", code]
    prefix, packages = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return prefix, packages
