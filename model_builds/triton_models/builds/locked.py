"""Installation of the build requirements from the locks, with every file checked against its hash.

No index can therefore substitute another file. PyTorch comes first, from its own index if that is reachable:
a build exports networks and computes references on the CPU, and PyPI's wheel adds 3 GB of CUDA libraries that
builds do not use. If the index is unreachable, as in a network with only a mirror of PyPI, the lock of the
CUDA build is installed. The environments of models are not affected.

A model's own requirements have no lock. They are installed last, limited by constraints.txt. In a source
folder without locks/, all requirements are installed this way.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from triton_models.base.errors import FleetError

INDEX = "https://download.pytorch.org/whl/cpu"

_SOURCE = Path(__file__).resolve().parents[2]
_PIP = (sys.executable, "-m", "pip", "install", "--quiet")
# A lock lists all dependencies. Source builds are disabled, because they download tools without hashes.
_HASHED = ("--no-deps", "--require-hashes", "--only-binary=:all:")
_CPU = ("--retries=1", "--timeout=10", f"--index-url={INDEX}")
_CHANGED = ("boto3", "protobuf")
_PIN = re.compile(r"^torch==(?P<version>[^\s+]+)", re.MULTILINE)
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*", re.MULTILINE)


def torch_version(folder: Path = _SOURCE) -> str | None:
    """Return the version of PyTorch that a source folder pins, such as "2.13.0"; otherwise None."""
    constraints = folder / "constraints.txt"
    found = _PIN.search(constraints.read_text()) if constraints.is_file() else None
    return found["version"] if found else None


def torch_commands(folder: Path = _SOURCE) -> tuple[Sequence[str], ...]:
    """Return the commands that install PyTorch: one for the CPU, and a fallback.

    Empty if the folder's builds do not need PyTorch, or its version is already installed.
    """
    version = torch_version(folder)
    if (
        version is None
        or "torch" not in _names(folder / "requirements.txt")
        or version == _installed("torch")
    ):
        return ()
    locks = folder / "locks"
    if locks.is_dir():
        cpu, cuda = (_requirement(locks / f"torch-{build}.txt") for build in ("cpu", "cuda"))
        return (*_PIP, *_HASHED, *_CPU, *cpu), (*_PIP, *_HASHED, *cuda)
    pin = f"torch=={version}"
    return (*_PIP, "--no-deps", *_CPU, pin), (*_PIP, *_held(folder), pin)


def build_commands(models: Sequence[str], folder: Path = _SOURCE) -> tuple[Sequence[str], ...]:
    """Return the commands that install everything else.

    Args:
        models: The models to build, or their forms such as "resnet50:torchscript".
        folder: The source folder.

    Raises:
        FleetError: The lock lacks a requirement.
    """
    folders = dict.fromkeys(folder / "models" / name.partition(":")[0] for name in models)
    own = [each / "requirements.txt" for each in folders if (each / "requirements.txt").is_file()]
    wanted = [word for each in own for word in _requirement(each)]
    usual, lock = folder / "requirements.txt", folder / "locks" / "requirements.txt"
    if not lock.parent.is_dir():
        return ((*_PIP, *_held(folder), *_requirement(usual), *wanted),)
    lacking = _names(usual) - _names(lock) - {"torch"}
    if lacking:
        raise _stale(sorted(lacking), lock)
    hashed = (*_PIP, *_HASHED, *_requirement(lock))
    return (hashed, (*_PIP, *_held(folder), *wanted)) if own else (hashed,)


def changed_commands(folder: Path = _SOURCE) -> tuple[Sequence[str], ...]:
    """Return the command that installs the requirements of `fleet diff`, without frameworks."""
    lock = folder / "locks" / "changed.txt"
    if lock.parent.is_dir():
        return ((*_PIP, *_HASHED, *_requirement(lock)),)
    return ((*_PIP, *_held(folder), *_CHANGED),)


def main(arguments: Sequence[str]) -> int:
    """Install PyTorch ("torch"), the build requirements ("build"), or those of `fleet diff` ("changed")."""
    what, *models = arguments
    if not (_SOURCE / "locks").is_dir():
        sys.stderr.write("locks/ is missing: versions follow constraints.txt, and hashes are not checked\n")
    try:
        if what == "changed":
            return _run(changed_commands())
        if failed := _install_torch(torch_commands()):
            return failed
        return _run(build_commands(models)) if what == "build" else 0
    except FleetError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _install_torch(commands: Sequence[Sequence[str]]) -> int:
    if not commands or not _run(commands[:1]):
        return 0
    sys.stderr.write(f"{INDEX} does not offer PyTorch: using the default index, with CUDA's libraries\n")
    return _run(commands[1:])


def _run(commands: Sequence[Sequence[str]]) -> int:
    """Run the commands up to the first failure, and return its exit status or 0."""
    return next(filter(None, (subprocess.run(each, check=False).returncode for each in commands)), 0)


def _requirement(path: Path) -> tuple[str, str]:
    return "--requirement", str(path)


def _held(folder: Path) -> tuple[str, ...]:
    """Return the option that applies the folder's constraints, if it has any."""
    constraints = folder / "constraints.txt"
    return ("--constraint", str(constraints)) if constraints.is_file() else ()


def _installed(name: str) -> str | None:
    """Return the version of an installed package, without its local version label."""
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def _names(path: Path) -> set[str]:
    """Return the names of the packages in a requirements file or a lock."""
    return set(_normal(path.read_text()))


def _normal(text: str) -> Iterator[str]:
    return (re.sub(r"[-_.]+", "-", name).lower() for name in _NAME.findall(text))


def _stale(lacking: Sequence[str], lock: Path) -> FleetError:
    return FleetError.of(
        what=f"the lock lacks {', '.join(lacking)}",
        where=str(lock),
        expected="every package of requirements.txt",
        why="without a hash, any index could substitute the package",
        fix="run `make lock` and commit the locks with the requirements",
        rule="lock-stale",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
