"""Requests of examples: one, or one after the other of a sequence."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from triton_models.base.errors import FleetError
from triton_models.client.encoding import Parameters, Tensors
from triton_models.declare.declaration import Example

_IDS = 1 << 31

Ask = Callable[[Tensors, Parameters], Tensors]


def answered(example: Example, ask: Ask) -> dict[str, Any]:
    """Return the answer to an example, or the answers to a sequence, stacked.

    Raises:
        FleetError: The requests of a sequence are not alike, or their answers are not.
    """
    import numpy as np

    if not example.sequence:
        return dict(ask(example.inputs, {}))
    lengths = {len(each) for each in example.inputs.values()}
    if len(lengths) != 1 or 0 in lengths:
        found = ", ".join(f"{len(each)} of {name}" for name, each in example.inputs.items())
        raise _uneven(example, found or "no inputs")
    (length,) = lengths
    number = secrets.randbelow(_IDS - 1) + 1
    answers = [
        ask(
            {name: each[step] for name, each in example.inputs.items()},
            {"sequence_id": number, "sequence_start": step == 0, "sequence_end": step == length - 1},
        )
        for step in range(length)
    ]
    for name in answers[0]:
        shapes = {answer[name].shape for answer in answers}
        if len(shapes) > 1:
            found = " and ".join(str(list(shape)) for shape in sorted(shapes))
            raise _uneven(example, f"answers with {name} of the shapes {found}")
    return {name: np.stack([answer[name] for answer in answers]) for name in answers[0]}


def _uneven(example: Example, what: str) -> FleetError:
    return FleetError.of(
        what=f"the sequence {example.name!r} has {what}",
        where="examples() of the declaration",
        why="the requests of a sequence are the first dimension of inputs and answers",
        fix="pad them, or write two examples",
        rule="sequence-example",
    )
