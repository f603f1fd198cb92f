"""The ledger: every belief about AWS, Triton, TensorRT or an image that was not observed here.

A `Belief` has an id, a grade, a source, a list of dependents, and the probe or command that decides it. Each
module holds the beliefs about one subject. `make docs` makes a page of them, and `fleet probe` decides
them.

Imports: base.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from triton_models.base.errors import FleetError
from triton_models.base.suggest import did_you_mean
from triton_models.ledger import accounts, builds, containers, endpoints, gpu, image, metrics, server
from triton_models.ledger.belief import Belief, DecidedBy, Grade, Record

__all__ = ["BELIEFS", "SUBJECTS", "Belief", "DecidedBy", "Grade", "Record", "belief"]

SUBJECTS: Mapping[str, tuple[Belief, ...]] = MappingProxyType(
    {
        "GPUs and TensorRT": gpu.ROWS,
        "Triton's images": image.ROWS,
        "Triton's server": server.ROWS,
        "SageMaker endpoints": endpoints.ROWS,
        "Containers and callers of endpoints": containers.ROWS,
        "Metrics and scaling": metrics.ROWS,
        "Builds in AWS": builds.ROWS,
        "Accounts, storage and permissions": accounts.ROWS,
    }
)

BELIEFS: Mapping[str, Belief] = MappingProxyType({row.id: row for rows in SUBJECTS.values() for row in rows})
"""Every belief by its id."""


def belief(wanted: str) -> Belief:
    """Return the belief with that id.

    Raises:
        FleetError: The ledger has no such belief.
    """
    try:
        return BELIEFS[wanted]
    except KeyError:
        raise FleetError.of(
            what=f"unknown belief {wanted!r}",
            where="the ledger",
            expected="the id of a belief",
            fix=did_you_mean(wanted, BELIEFS, otherwise="see the ids in triton_models/ledger"),
            rule="unknown-belief",
        ) from None
