"""Installs PyTorch without CUDA's libraries for a build, where PyTorch's own index can be reached.

A build exports networks and calculates references, both on the CPU. PyPI's wheel of PyTorch brings 3 GB of
CUDA's libraries that no build uses, and each build of a run installs them. PyTorch's own index has the same
version without them. Only PyTorch is asked of that index, so it answers for no other package. Where it cannot
be reached, as in a network with a mirror of PyPI alone, the build's usual installation brings PyTorch. The
environments of models are not touched: those need what their GPU needs.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

INDEX = "https://download.pytorch.org/whl/cpu"

_REQUIRED = re.compile(r"^torch\b", re.MULTILINE)
_PIN = re.compile(r"^torch==\S+", re.MULTILINE)


def command(folder: Path = Path()) -> list[str] | None:
    """The command that installs it; None if the folder's requirements lack PyTorch, or it is installed."""
    required = _REQUIRED.search((folder / "requirements.txt").read_text())
    pin = pinned(folder)
    if not (required and pin) or importlib.util.find_spec("torch"):
        return None
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--retries=1", "--timeout=10"]
    return [*pip, "--index-url", INDEX, pin]


def pinned(folder: Path = Path()) -> str | None:
    """PyTorch with the version that a folder's constraints name, such as torch==2.13.0; None without."""
    constraints = folder / "constraints.txt"
    found = _PIN.search(constraints.read_text()) if constraints.is_file() else None
    return found[0] if found else None


def main() -> None:
    """Install it, or say that it comes with CUDA's libraries."""
    wanted = command()
    if wanted and subprocess.run(wanted, check=False).returncode:
        sys.stderr.write(f"{INDEX} does not offer PyTorch: it comes from the usual index\n")


if __name__ == "__main__":
    main()
