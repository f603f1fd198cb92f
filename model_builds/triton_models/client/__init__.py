"""Invokes the models behind an endpoint by their names.

This is the door for applications: `Client`, the error it raises, and what encodes tensors.
"""

from __future__ import annotations

from triton_models.client.call import InvocationError
from triton_models.client.client import DEADLINE_S, READY_LIMIT_S, Client
from triton_models.client.deadline import Clock
from triton_models.client.encoding import BINARY_TYPE, JSON_TYPE, Content, Tensors, decode, encode

__all__ = [
    "BINARY_TYPE",
    "DEADLINE_S",
    "JSON_TYPE",
    "READY_LIMIT_S",
    "Client",
    "Clock",
    "Content",
    "InvocationError",
    "Tensors",
    "decode",
    "encode",
]
