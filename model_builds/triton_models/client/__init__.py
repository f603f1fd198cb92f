"""Invokes the models behind an endpoint by their names.

This package is the interface for applications: `Client`, the error it raises, and the encoding of tensors.
`client` finds the endpoint of an `alias` and the artifact of a name, and `remembered` refreshes both in the
background. `call` and `deadline` handle a single request, and `failures` decides which
are sent again.
"""

from __future__ import annotations

from triton_models.base.encoding import BINARY_TYPE, JSON_TYPE, Content, Parameters, Tensors, decode, encode
from triton_models.client.call import InvocationError
from triton_models.client.client import DEADLINE_S, READY_LIMIT_S, Client
from triton_models.client.deadline import Clock

__all__ = [
    "BINARY_TYPE",
    "DEADLINE_S",
    "JSON_TYPE",
    "READY_LIMIT_S",
    "Client",
    "Clock",
    "Content",
    "InvocationError",
    "Parameters",
    "Tensors",
    "decode",
    "encode",
]
