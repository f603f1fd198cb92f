"""The machine with a GPU, or the one of a record."""

from __future__ import annotations

import pytest

from conformance.gpu.machine import Machine, machine
from conformance.records import Record
from triton_models.facts.instances import GPUS
from triton_models.facts.releases import release


@pytest.fixture
def here(request: pytest.FixtureRequest, record: Record | None) -> Machine:
    """This machine. With a record: that of the record, by its release and its GPU."""
    if record is None:
        return machine(request.config.option.release)
    gpus = {name.lower(): gpu for name, gpu in GPUS.items()}
    return Machine(release=release(record.release), gpus=[], gpu=gpus.get(record.place.lower()))
