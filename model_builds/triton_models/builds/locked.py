"""Installation of the build requirements from the locks, with every file checked against its hash.

No index can therefore substitute another file. PyTorch comes first, from its own index if that is reachable:
a build exports networks and computes references on the CPU, and PyPI's wheel adds 3 GB of CUDA libraries
that builds do not use. The lock of the CUDA build is installed if the index is unreachable, as in a network
with only a mirror of PyPI. The environments of models are not affected.

A model's own requirements have no lock. They are installed last, limited by constraints.txt.
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

PACKAGES = Path(__file__).resolve().parent / "packages"
"""The folder of requirements, constraints and locks, which comes with this package."""

SETS = ("autocast", "changed", "dali")
"""The sets that only some models or commands need: AutoCast, `fleet diff` without frameworks, and DALI."""

_PIP = (sys.executable, "-m", "pip", "install", "--quiet")
# A lock lists all dependencies. Source builds are disabled, because they download tools without hashes.
_HASHED = ("--no-deps", "--require-hashes", "--only-binary=:all:")
_CPU = ("--retries=1", "--timeout=10", f"--index-url={INDEX}")
_PIN = re.compile(r"^torch==(?P<version>[^\s+]+)", re.MULTILINE)
_WRONG_HASH = "DO NOT MATCH THE HASHES"  # pip's words; all else says only that the index was not reached
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*", re.MULTILINE)


def torch_version(packages: Path = PACKAGES) -> str | None:
    """Return the pinned version of PyTorch, such as "2.13.0"; None if it is not pinned."""
    found = _PIN.search((packages / "constraints.txt").read_text())
    return found["version"] if found else None


def torch_commands(packages: Path = PACKAGES) -> tuple[Sequence[str], ...]:
    """Return the commands that install PyTorch: one for the CPU, and a fallback.

    Empty if builds do not need PyTorch, or its version is already installed.
    """
    needed = "torch" in _names(packages / "requirements.txt")
    cpu, cuda = (_requirement(packages / "locks" / f"torch-{build}.txt") for build in ("cpu", "cuda"))
    if not needed or torch_version(packages) == _installed("torch"):
        return ()
    return (*_PIP, *_HASHED, *_CPU, *cpu), (*_PIP, *_HASHED, *cuda)


def build_commands(
    names: Sequence[str], *, models: Path = Path("models"), packages: Path = PACKAGES
) -> tuple[Sequence[str], ...]:
    """Return the commands that install everything else."""
    folders = dict.fromkeys(models / name.partition(":")[0] for name in names)
    own = [each / "requirements.txt" for each in folders if (each / "requirements.txt").is_file()]
    lock = packages / "locks" / "requirements.txt"
    lacking = _names(packages / "requirements.txt") - _names(lock) - {"torch"}
    if lacking:
        raise _stale(sorted(lacking), lock)
    hashed = (*_PIP, *_HASHED, *_requirement(lock))
    if not own:
        return (hashed,)
    held = ("--constraint", str(packages / "constraints.txt"))
    return hashed, (*_PIP, *held, *(word for each in own for word in _requirement(each)))


def set_command(name: str, packages: Path = PACKAGES) -> Sequence[str]:
    """Return the command that installs one of the small sets, from its lock."""
    return *_PIP, *_HASHED, *_requirement(packages / "locks" / f"{name}.txt")


def main(arguments: Sequence[str]) -> int:
    """Install PyTorch ("torch"), the build requirements ("build" and the models), or one of SETS."""
    what, *models = arguments
    try:
        if what in SETS:
            return _run([set_command(what)])
        if failed := _install_torch(torch_commands()):
            return failed
        return _run(build_commands(models)) if what == "build" else 0
    except FleetError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _install_torch(commands: Sequence[Sequence[str]]) -> int:
    if not commands:
        return 0
    own, default = commands
    tried = subprocess.run(own, check=False, stderr=subprocess.PIPE, text=True)
    if not tried.returncode:
        return 0
    if _WRONG_HASH in tried.stderr:
        sys.stderr.write(tried.stderr)
    sys.stderr.write(
        f"{INDEX} does not offer PyTorch here: installing it from the default index, with 3 GB of CUDA's "
        "libraries that builds do not use\n"
    )
    return _run([default])


def _run(commands: Sequence[Sequence[str]]) -> int:
    """Run the commands up to the first failure, and return its exit status or 0."""
    return next(filter(None, (subprocess.run(each, check=False).returncode for each in commands)), 0)


def _requirement(path: Path) -> tuple[str, str]:
    return "--requirement", str(path)


def _installed(name: str) -> str | None:
    """Return the version of an installed package, without its label."""
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
        why="without a hash, any index could substitute the package",
        fix="run `make lock` and commit the locks with the requirements",
        rule="lock-stale",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
