"""The steps of one model before publication: read, build, check, verify, pack; inside a `Worker`."""

from __future__ import annotations

from dataclasses import dataclass

from triton_models.builds.export.objects import tag
from triton_models.builds.inputs import Found, Inputs, find_inputs, with_objects
from triton_models.declare.reading import load_build
from triton_models.deliver.building import Order, built, process_server
from triton_models.deliver.worker import Report
from triton_models.pack.pack import Artifact, pack


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A model that is ready to be published.

    Attributes:
        name: The name in the order.
        artifact: The packed model.
        inputs: The inputs of its build, taken before the build started. An input that changes during the
            build therefore counts as changed.
    """

    name: str
    artifact: Artifact
    inputs: Inputs


def make(order: Order, report: Report) -> Made:
    """Build, check, verify and pack one model.

    Raises:
        FleetError: The model is invalid; the step reported last is the one that failed.
    """
    report("read")
    declaration = load_build(order.name, order.models)
    inputs = with_objects(_found(order), _entity_tag)
    root = built(order, report)
    if order.verify:
        from triton_models.verify.verify import verify

        report("verify")
        verify(root, declaration, server=process_server())
    report("pack")
    return Made(name=order.name, artifact=pack(root, output=order.output), inputs=inputs)


def find(order: Order, report: Report) -> Found:
    """Return the inputs of a model's build, without a network request.

    Raises:
        FleetError: Its declaration is invalid.
    """
    report("read")
    return _found(order)


def _found(order: Order) -> Found:
    return find_inputs(order.name, release=order.release, gpu=order.gpu, cpu=order.cpu, models=order.models)


def _entity_tag(address: str) -> str:
    from triton_models.repository.s3 import repository_client

    return tag(address, repository_client())
