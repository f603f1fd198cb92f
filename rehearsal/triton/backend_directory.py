"""Lays out the folder in which a server looks for its backends."""

from __future__ import annotations

import importlib.util
import secrets
import string
from pathlib import Path

from rehearsal.triton.runtime import Runtime
from triton_models.declaring.requires import missing

_HERE = Path(__file__).resolve().parent
STAND_INS = _HERE / "backends"
NUMPY_2 = _HERE / "python_backend" / "numpy2.py"

_LIBRARY, _UTILITIES = "libtriton_python.so", "triton_python_backend_utils.py"

# The Python backend makes one folder under this name for the environments that it unpacks, and leaves it
# there when it is killed.
_UNPACK_FOLDER = b"/tmp/python_env_"

_MARK_LETTERS = string.ascii_lowercase + string.digits

_MEND = "\n\nfrom numpy2 import mend as _mend\n\n_mend(globals())\n"


def new_mark() -> str:
    """What the name of everything begins with that one server makes outside its own folder."""
    return "fleet" + "".join(secrets.choice(_MARK_LETTERS) for _ in range(5)) + "_"


def leftovers_of(mark: str) -> list[str]:
    """Glob patterns of what a server with a mark leaves behind when it is killed."""
    return [f"/dev/shm/{mark}*", f"/tmp/{mark}*"]  # noqa: S108


def make_backends(runtime: Runtime, folder: Path, *, mark: str) -> None:
    """Make a backend folder: the Python backend of the server, and our stand-ins for other backends.

    Args:
        runtime: The server.
        folder: The folder to make.
        mark: What the name of everything begins with that the server makes outside its own folder.
    """
    python = folder / "python"
    python.mkdir(parents=True)
    # A copy, since the server refuses to share a library with a stand-in that is a link out of the folder.
    library = (runtime.python_backend / _LIBRARY).read_bytes()
    (python / _LIBRARY).write_bytes(_with_our_mark(library, mark))
    utilities = (runtime.python_backend / _UTILITIES).read_text()
    (python / _UTILITIES).write_text(utilities + _MEND)
    for path in (runtime.stub, NUMPY_2):
        (python / path.name).symlink_to(path)
    shared = list((STAND_INS / "shared").glob("*.py"))
    for model in STAND_INS.glob("*/model.py"):
        backend = folder / model.parent.name
        backend.mkdir()
        for path in (model, *shared):
            (backend / path.name).symlink_to(path)
    found = importlib.util.find_spec("torch")
    if found is not None and found.origin is not None:
        # PyTorch is 700 MB: the stand-in that needs it takes it from where models are built.
        (folder / "pytorch" / "packages").symlink_to(Path(found.origin).parents[1])
    if not missing(["nvidia.dali"]):
        dali = importlib.util.find_spec("nvidia.dali")
        if dali is not None and dali.origin is not None:
            (folder / "dali" / "packages").symlink_to(Path(dali.origin).parents[2])


def _with_our_mark(library: bytes, mark: str) -> bytes:
    """The backend's library with another folder name of the same length, which tells whose the folder is.

    A library that does not hold the name exactly once stays as it is; a killed server then leaves an empty
    folder behind.
    """
    ours = f"/tmp/{mark}".encode()  # noqa: S108
    if library.count(_UNPACK_FOLDER) != 1 or len(ours) != len(_UNPACK_FOLDER):
        return library
    return library.replace(_UNPACK_FOLDER, ours)
