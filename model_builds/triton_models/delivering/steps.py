"""What one model goes through before it is published: read, build, check, verify, pack; in a `Worker`."""

from __future__ import annotations

import atexit
import contextlib
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from triton_models.build import build
from triton_models.check import check_path
from triton_models.delivering.worker import Report
from triton_models.errors import raise_if_any
from triton_models.inputs import Found, Inputs, entity_tag, find_inputs, with_objects
from triton_models.pack import Artifact, pack
from triton_models.spec import load_build

if TYPE_CHECKING:
    from triton_models.verifying.serving import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to make.

    Attributes:
        name: The model, or `folder:form`.
        release: The Triton release that will serve it.
        gpu: The GPU to compile for; None for a portable build or one for CPUs.
        cpu: It is served without a GPU.
        models: The folder of model builds; None for the one beside this package.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A model that is ready to be published.

    Attributes:
        name: As it was ordered.
        artifact: The packed model.
        inputs: What its build depended on, as it was before the build began: what changes meanwhile may or
            may not be in it, and shows as a change.
    """

    name: str
    artifact: Artifact
    inputs: Inputs


def make(order: Order, report: Report) -> Made:
    """Make one model.

    Raises:
        FleetError: What is wrong with it, in the step that was reported last.
    """
    report("read")
    declaration = load_build(order.name, order.models)
    inputs = with_objects(_found(order), _entity_tag)
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
    if order.verify:
        from triton_models.verify import verify

        report("verify")
        verify(root, declaration, server=_server())
    report("pack")
    return Made(name=order.name, artifact=pack(root, output=order.output), inputs=inputs)


def find(order: Order, report: Report) -> Found:
    """What the build of a model depends on, without a request.

    Raises:
        FleetError: Its declaration has a mistake.
    """
    report("read")
    return _found(order)


def _found(order: Order) -> Found:
    return find_inputs(order.name, release=order.release, gpu=order.gpu, cpu=order.cpu, models=order.models)


def _entity_tag(address: str) -> str:
    from triton_models.publishing.s3 import repository_client

    return entity_tag(address, repository_client())


@functools.cache
def _server() -> Server:
    """The Triton server of this process, for all models that it makes; it is started when it is needed."""
    from triton_models.verifying.serving import serving

    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(serving())
