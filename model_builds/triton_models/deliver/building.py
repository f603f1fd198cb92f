"""The build and the check of one model, and the Triton server that verifies it, inside a `Worker`."""

from __future__ import annotations

import atexit
import contextlib
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from triton_models.base.errors import raise_if_any
from triton_models.builds.build import build
from triton_models.deliver.worker import Report

if TYPE_CHECKING:
    from triton_models.verify.serving import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A model to build."""

    name: str
    release: str
    output: Path
    gpu: str | None = None
    cpu: bool = False
    models: Path | None = None
    verify: bool = True


def built(order: Order, report: Report) -> Path:
    """Build one model, and return its artifact root.

    Raises:
        FleetError: The model is invalid.
    """
    report("build")
    return build(
        order.name,
        output=order.output,
        release=order.release,
        gpu=order.gpu,
        cpu=order.cpu,
        models=order.models,
    )


def check_built(root: Path) -> None:
    """Check an artifact root.

    Raises:
        FleetError: An endpoint could not serve it.
    """
    from triton_models.check.check import check_path

    raise_if_any(check_path(root))


@functools.cache
def process_server() -> Server:
    """Return the Triton server that all models of this process share; it starts on first use."""
    from triton_models.verify.serving import serving

    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(serving())
