"""Installs what builds need from the locks: every file is checked against its hash.

So no index, first or second, can answer with another file. PyTorch comes first, from its own index where that
can be reached: a build exports networks and calculates references on the CPU, and PyPI's wheel brings 3 GB of
CUDA's libraries that no build uses. Where it cannot be reached, as in a network with a mirror of PyPI alone,
the lock of the CUDA build is installed. The environments of models are not touched.

Requirements of a model's own have no lock. They are installed last, held to constraints.txt. A source folder
without locks/ is installed so altogether.
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
# A lock names all dependencies. Nothing is compiled: that would fetch tools without hashes.
_HASHED = ("--no-deps", "--require-hashes", "--only-binary=:all:")
_CPU = ("--retries=1", "--timeout=10", f"--index-url={INDEX}")
_CHANGED = ("boto3", "protobuf")
_PIN = re.compile(r"^torch==(?P<version>[^\s+]+)", re.MULTILINE)
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*", re.MULTILINE)


def torch_version(folder: Path = _SOURCE) -> str | None:
    """The version of PyTorch that a source folder pins, such as "2.13.0"; None without."""
    constraints = folder / "constraints.txt"
    found = _PIN.search(constraints.read_text()) if constraints.is_file() else None
    return found["version"] if found else None


def torch_commands(folder: Path = _SOURCE) -> tuple[Sequence[str], ...]:
    """The commands that install PyTorch: one for the CPU, and one in case it fails.

    Empty where the folder's builds need no PyTorch, or its version is installed.
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
    """The commands that install everything else.

    Args:
        models: The models to build, or forms of them such as "resnet50:torchscript".
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
    """The command that installs what finding changed models needs: none of the frameworks."""
    lock = folder / "locks" / "changed.txt"
    if lock.parent.is_dir():
        return ((*_PIP, *_HASHED, *_requirement(lock)),)
    return ((*_PIP, *_held(folder), *_CHANGED),)


def main(arguments: Sequence[str]) -> int:
    """Install PyTorch ("torch"), what builds need ("build"), or what finds changed models ("changed")."""
    what, *models = arguments
    if not (_SOURCE / "locks").is_dir():
        sys.stderr.write("locks/ is missing: versions are those of constraints.txt, and no hash is checked\n")
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
    sys.stderr.write(
        f"{INDEX} does not offer PyTorch: it comes from the usual index, with CUDA's libraries\n"
    )
    return _run(commands[1:])


def _run(commands: Sequence[Sequence[str]]) -> int:
    """The first status other than 0; what comes after it is not run."""
    return next(filter(None, (subprocess.run(each, check=False).returncode for each in commands)), 0)


def _requirement(path: Path) -> tuple[str, str]:
    return "--requirement", str(path)


def _held(folder: Path) -> tuple[str, ...]:
    """The option that holds versions to the folder's constraints, where it has some."""
    constraints = folder / "constraints.txt"
    return ("--constraint", str(constraints)) if constraints.is_file() else ()


def _installed(name: str) -> str | None:
    """The version of an installed package, without the name of its build."""
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def _names(path: Path) -> set[str]:
    """The packages that a file of requirements or a lock names."""
    return set(_normal(path.read_text()))


def _normal(text: str) -> Iterator[str]:
    return (re.sub(r"[-_.]+", "-", name).lower() for name in _NAME.findall(text))


def _stale(lacking: Sequence[str], lock: Path) -> FleetError:
    return FleetError.of(
        what=f"the lock lacks {', '.join(lacking)}",
        where=str(lock),
        expected="every package of requirements.txt",
        why="a package without a hash can be answered by any index",
        fix="run `make lock`, and commit the locks with the requirements",
        rule="lock-stale",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
