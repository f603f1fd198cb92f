"""The paths of the bundled Triton server, its Python stub and the stub's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton_models.base.errors import FleetError

# The environment that `make` fills from requirements-triton.txt, next to the one that runs this.
ENVIRONMENT = Path(sys.prefix).parent / ".venv-triton"

_QUESTIONS = """
import importlib.util, json, sys, sysconfig
def root(name):
    found = importlib.util.find_spec(name)
    return found.submodule_search_locations[0] if found else None
print(json.dumps({
    "version": sys.version_info[:2], "base": sys.base_prefix, "pytriton": root("pytriton"),
    "numpy": root("numpy"),
    "libdir": sysconfig.get_config_var("LIBDIR") or "", "arch": sysconfig.get_config_var("MULTIARCH") or "",
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A Triton server that can be started."""

    server: Path
    python_backend: Path  # the folder of the Python backend
    stub: Path  # the executable that runs Python models, built for the interpreter in `binaries`
    libraries: tuple[Path, ...]  # the folders that the dynamic loader must search, in order
    binaries: Path  # must come first on PATH, so that the stub finds its packages

    def variables(self) -> dict[str, str]:
        """Return the environment variables that the server needs."""
        return {
            "PATH": f"{self.binaries}:{os.environ.get('PATH', os.defpath)}",
            "LD_LIBRARY_PATH": ":".join(str(folder) for folder in self.libraries),
            # A package in the user's home would take precedence over the stub's environment.
            "PYTHONNOUSERSITE": "1",
        }


def find_runtime(environment: Path = ENVIRONMENT) -> Runtime:
    """Find the server and everything that it needs."""
    binaries = environment / "bin"
    python = binaries / "python"
    if not python.exists():
        raise _not_set_up(environment, what=f"there is no Python environment at {environment}")
    answer = subprocess.run([python, "-I", "-c", _QUESTIONS], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise _not_set_up(environment, what=f"{python} does not run: {answer.stderr.strip()}")
    facts: dict[str, Any] = json.loads(answer.stdout)
    version = ".".join(str(part) for part in facts["version"])
    for module, package in (("pytriton", "nvidia-pytriton"), ("numpy", "numpy")):
        if not facts[module]:
            raise _not_set_up(environment, what=f"the environment {environment} has no {package}")
    wheel = Path(facts["pytriton"]) / "tritonserver"
    stub = wheel / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        stubs = stub.parents[1]
        known = sorted((path.name for path in stubs.iterdir()), key=lambda name: int(name.split(".")[1]))
        raise FleetError.of(
            what=f"the bundled Triton server cannot run models with Python {version}",
            where=str(stubs),
            fix=f"use Python {', '.join(known)}: run `make clean rehearse PYTHON=python3.12`",
        )
    return Runtime(
        server=wheel / "bin" / "tritonserver",
        python_backend=wheel / "backends" / "python",
        stub=stub,
        libraries=_libraries(facts, version, wheel.parent.parent / "nvidia_pytriton.libs"),
        binaries=binaries,
    )


def _libraries(facts: dict[str, Any], version: str, bundled: Path) -> tuple[Path, ...]:
    """Return the folders of the server's libraries and of the interpreter's, which the stub embeds."""
    # The stub for the interpreter of the wheel's build, 3.13, embeds the wheel's own copy.
    if list(bundled.glob(f"libpython3-*.{version.partition('.')[2]}.so*")):
        return (bundled,)
    name = f"libpython{version}.so.1.0"
    base, libdir, arch = Path(facts["base"]), Path(facts["libdir"]), str(facts["arch"])
    folders = [libdir, libdir / arch, base / "lib", base / "lib" / arch, base / "lib64"]
    for folder in folders:
        if (folder / name).exists():
            return bundled, folder
    raise FleetError.of(
        what=f"Python {version} at {base} has no shared library {name}",
        where=", ".join(dict.fromkeys(str(folder) for folder in folders)),
        why="the Triton server runs Python models in a process that embeds this interpreter",
        fix=f"install the package libpython{version} (Debian, Ubuntu) or python{version}-libs (Fedora), "
        "or a Python built with --enable-shared; then run `make clean rehearse`",
    )


def _not_set_up(environment: Path, *, what: str) -> FleetError:
    return FleetError.of(what=what, where=str(environment), fix="run `make rehearse`")
