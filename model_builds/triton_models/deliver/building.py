"""One model built and checked, and the server of the process that verifies it; in a `Worker`."""

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
    """What to make.

    Attributes:
        name: The model, or `folder:form`.
        release: The Triton release that will serve it.
        gpu: The GPU to compile for; None for a portable build or one for CPUs.
        cpu: It is served without a GPU.
        models: The folder of model builds; None for the one next to this package.
        output: The folder that gets the artifact root and the artifact.
        verify: Whether a Triton server must answer as the declaration says.
    """

    name: str
    release: str
    output: Path
    gpu: str | None = None
    cpu: bool = False
    models: Path | None = None
    verify: bool = True


def built(order: Order, report: Report) -> Path:
    """Build one model and check it; returns its artifact root.

    Raises:
        FleetError: What is wrong with it, in the step that was reported last.
    """
    # The probes of a GPU begin without a package installed.
    from triton_models.check.check import check_path

    report("build")
    root = build(
        order.name,
        output=order.output,
        release=order.release,
        gpu=order.gpu,
        cpu=order.cpu,
        models=order.models,
    )
    report("check")
    raise_if_any(check_path(root))
    return root


@functools.cache
def process_server() -> Server:
    """The Triton server of this process, for all models that it makes; it is started when it is needed."""
    from triton_models.verify.serving import serving

    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(serving())
