"""Chooses the Python that runs a model whose environment is for another one than the server's own.

A script of the standard library, which runs before the Python stub of such a model. The server's wheel has a
stub for each version of Python. If this machine has an interpreter of the environment's version, the model
runs in it: a folder with the environment's packages and the interpreter's path stands in for the environment,
whose pyvenv.cfg names the image's interpreter.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LIBRARY = re.compile(r"python(\d+\.\d+)")
_IMPORT_S = 60.0
_TRIED = "imports-numpy"  # the file in a stand-in whose interpreter has been tried, which takes a load's time


def main(environment: str, folder: str, stubs: str, own: str, mark: str) -> str:
    """Return shell code that sets the stub and its variables; empty if the environment is not loaded.

    The stubs are in folders by version. The mark begins the line in the log that says why an environment is
    not loaded.
    """
    names = (_LIBRARY.fullmatch(each.name) for each in Path(environment, "lib").glob("python*"))
    version = next((match[1] for match in names if match), None)
    if version is None:
        return ""
    stub = Path(stubs, version, "triton_python_backend_stub")
    what = f"it is for Python {version}, and this server's is {own}"
    if not stub.is_file():
        return _refused(mark, f"{what}; the server has no stub for Python {version}")
    reason = f"{what}; this machine has no Python {version} with libpython{version}.so"
    for prefix, shared in interpreters(Path(environment), version):
        own_folder = _stand_in(Path(environment), Path(folder), prefix, version)
        found = f"{shared}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
        if (own_folder / _TRIED).exists() or _imports_numpy(own_folder / "bin" / "python3", found):
            (own_folder / _TRIED).touch()
            sys.stderr.write(f"Python {version} of {prefix} runs the model, as its environment requires\n")
            variables = {"PATH": f"{own_folder / 'bin'}:{os.environ['PATH']}", "LD_LIBRARY_PATH": found}
            exports = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
            return f"export {exports}; stub={shlex.quote(str(stub))}"
        reason = f"{what}; Python {version} in {prefix} cannot import its NumPy"
    return _refused(mark, reason)


def _refused(mark: str, why: str) -> str:
    sys.stderr.write(f"{mark}{why}\n")
    return ""


def interpreters(environment: Path, version: str) -> Iterator[tuple[Path, Path]]:
    """Yield the prefixes of interpreters of a version, and the folders of their shared libraries."""
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)  # HOME is another folder in a rehearsed build
    pyenv = Path(os.environ.get("PYENV_ROOT", home / ".pyenv")) / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", home / ".local/share/uv/python"))
    programs = (Path(folder, f"python{version}") for folder in os.environ["PATH"].split(":") if folder)
    prefixes = [
        environment,
        Path(sys.base_prefix),
        *(each.resolve().parents[1] for each in programs if each.is_file()),
        Path("/usr"),
        Path("/usr/local"),
        *sorted(pyenv.glob(f"{version}*"), reverse=True),
        *sorted(uv.glob(f"cpython-{version}*"), reverse=True),
    ]
    for prefix in dict.fromkeys(prefixes):
        if not (prefix / f"lib/python{version}/os.py").is_file():
            continue
        folders = [prefix / "lib", *sorted(prefix.glob("lib/*-linux-gnu")), prefix / "lib64"]
        shared = next((each for each in folders if (each / f"libpython{version}.so.1.0").exists()), None)
        if shared is not None:
            yield prefix, shared


def _stand_in(environment: Path, folder: Path, prefix: Path, version: str) -> Path:
    """Make a virtual environment of an interpreter with the packages of an environment."""
    library = environment / "lib"
    about = f"{library.resolve()} {library.stat().st_ino} {library.stat().st_mtime_ns} {prefix}"
    made = folder / hashlib.sha256(about.encode()).hexdigest()[:16]
    if made.exists():
        return made
    folder.mkdir(exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder))
    (new / "bin").mkdir()
    (new / "bin" / "python3").symlink_to(prefix / "bin" / f"python{version}")
    (new / "lib").symlink_to(library)
    (new / "pyvenv.cfg").write_text(f"home = {prefix / 'bin'}\ninclude-system-site-packages = false\n")
    try:
        new.rename(made)
    except OSError:  # another instance of the model has made it
        return made
    return made


def _imports_numpy(python: Path, libraries: str) -> bool:
    """Return True if an interpreter can import the environment's NumPy, without which no model loads."""
    try:
        run = subprocess.run(
            [python, "-c", "import numpy"],
            env={**os.environ, "LD_LIBRARY_PATH": libraries, "PYTHONNOUSERSITE": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_IMPORT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return run.returncode == 0


if __name__ == "__main__":
    print(main(*sys.argv[1:]))  # noqa: T201  the shell evaluates it
