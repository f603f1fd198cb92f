"""Packages of the environment that builds models, which has the same Python, for stand-ins that run them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

# Next to the stand-in, a link to the folder of the packages.
PACKAGES = Path(__file__).parent / "packages"


def build_package(module: str, *, fix: str = "run `make clean rehearse`") -> Any:
    """Import a module, which may take seconds, so that only models that need it wait for it.

    Args:
        module: The module's name.
        fix: The way to install it, for the error.
    """
    # Last on the path, so that the stub keeps its own version of all other packages, above all NumPy.
    if str(PACKAGES) not in sys.path:
        sys.path.append(str(PACKAGES))
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = (
            f"{module} cannot be loaded: {error}. The rehearsal uses the package of the environment that "
            f"builds models, which must have the same Python as the server's: {fix}"
        )
        raise pb_utils.TritonModelException(message) from error
