"""Creates the folder in which a server looks for its backends."""

from __future__ import annotations

import importlib.util
import secrets
import shlex
import string
import sys
from pathlib import Path

from triton_models.artifact import forest_head
from triton_models.check import backend_rules
from triton_models.declare.requires import missing
from triton_models.deliver.verify.server import ENVIRONMENT_NOT_LOADED
from triton_rehearsal.triton.runtime import Runtime

_HERE = Path(__file__).resolve().parent
STAND_INS = _HERE / "backends"
# Used by the stand-ins and by the instance.
GPU = _HERE / "gpu.py"
NUMPY_2 = _HERE / "python_backend" / "numpy2.py"
ENVIRONMENT = _HERE / "python_backend" / "environment.py"

_LIBRARY, _UTILITIES = "libtriton_python.so", "triton_python_backend_utils.py"

# The Python backend creates a folder with this name for the environments that it unpacks, and leaves it
# behind when it is killed.
_UNPACK_FOLDER = b"/tmp/python_env_"

# The stub finds its packages through the first python3 on PATH, which is that of the model's environment if
# it has one. If that is for another Python than the server's, `environment.py` chooses another stub with an
# interpreter of this machine. Without one, the model runs with the server's own packages.
_STUB = """\
#!/bin/sh
environment=$(command -v python3)
environment=${{environment%/bin/python3}}
home=$(sed -n 's/^home = //p' "$environment/pyvenv.cfg" 2> /dev/null)
[ -d "$environment/lib/{library}" ] && [ -e "${{home:-$environment/bin}}/../lib/{library}/os.py" ] \\
  || chosen=$({python} -I {chooser} "$environment" {folder} {stubs} {own} {mark})
stub={stub}
if [ -n "$chosen" ]; then
  eval "$chosen"
elif [ -n "${{chosen+tried}}" ]; then
  export PATH={binaries}:"$PATH"
fi
exec "$stub" "$@"
"""

_PACKAGES = {"pytorch": "torch", "fil": "treelite", "dali": "nvidia.dali"}

_MARK_LETTERS = string.ascii_lowercase + string.digits

_PATCH = "\n\nfrom numpy2 import patch as _patch\n\n_patch(globals())\n"


def new_mark() -> str:
    """Return a prefix for the names that one server creates outside its folder."""
    return "fleet" + "".join(secrets.choice(_MARK_LETTERS) for _ in range(5)) + "_"


def leftovers_of(mark: str) -> list[str]:
    """Return glob patterns of the files that a server with a mark leaves behind when it is killed."""
    return [f"/dev/shm/{mark}*", f"/tmp/{mark}*"]  # noqa: S108


def make_backends(
    runtime: Runtime, folder: Path, *, mark: str, of_image: frozenset[str] | None = None
) -> None:
    """Create a backend folder: the server's Python backend, and stand-ins for the image's others, or all."""
    python = folder / "python"
    python.mkdir(parents=True)
    # A copy: for a stand-in, the server does not load a shared library through a link out of the folder.
    library = (runtime.python_backend / _LIBRARY).read_bytes()
    (python / _LIBRARY).write_bytes(_with_our_mark(library, mark))
    utilities = (runtime.python_backend / _UTILITIES).read_text()
    (python / _UTILITIES).write_text(utilities + _PATCH)
    (python / NUMPY_2.name).symlink_to(NUMPY_2)
    _write_stub(python / runtime.stub.name, runtime)
    shared = [GPU, *(STAND_INS / "shared").glob("*.py")]
    for model in STAND_INS.glob("*/model.py"):
        backend = folder / model.parent.name
        if of_image is not None and backend.name not in of_image:
            continue
        backend.mkdir()
        for path in (model, *shared, Path(backend_rules.__file__).parent):
            (backend / path.name).symlink_to(path)
    for name, package in _PACKAGES.items():
        found = None if missing([package]) else importlib.util.find_spec(package)
        if found is not None and found.origin is not None and (folder / name).is_dir():
            # PyTorch has 700 MB: a stand-in uses the package of the environment that builds models.
            (folder / name / "packages").symlink_to(Path(found.origin).parents[1 + package.count(".")])
    if (folder / "fil").is_dir():
        (folder / "fil" / "forest_head.py").symlink_to(Path(forest_head.__file__))


def _write_stub(path: Path, runtime: Runtime) -> None:
    path.write_text(
        _STUB.format(
            library=f"python{runtime.stub.parent.name}",
            binaries=shlex.quote(str(runtime.binaries)),
            stub=shlex.quote(str(runtime.stub)),
            python=shlex.quote(sys.executable),
            chooser=shlex.quote(str(ENVIRONMENT)),
            folder=shlex.quote(str(path.parent / "environments")),
            stubs=shlex.quote(str(runtime.stub.parents[1])),
            own=runtime.stub.parent.name,
            mark=shlex.quote(ENVIRONMENT_NOT_LOADED),
        )
    )
    path.chmod(0o755)


def _with_our_mark(library: bytes, mark: str) -> bytes:
    """Return the backend's library with another folder name of the same length, which identifies the owner.

    If a library does not contain the name exactly once, it stays unchanged; a killed server then leaves an
    empty folder behind.
    """
    ours = f"/tmp/{mark}".encode()  # noqa: S108
    if library.count(_UNPACK_FOLDER) != 1 or len(ours) != len(_UNPACK_FOLDER):
        return library
    return library.replace(_UNPACK_FOLDER, ours)
