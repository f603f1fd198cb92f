"""Invokes the models behind an endpoint by their names.

This package is the interface for applications: `Client`, `AsyncClient`, the error that they raise, and the
encoding of tensors. `core` has the course of a call without input and output: it finds the endpoint of an
alias and the artifact of one of the `names`, which `remembered` refreshes in the background, and holds
inputs against the `signature`. `failures` decides what is sent again. `service` signs requests and sends them
as boto3 would, and `connections` does so in asyncio. `batches` joins and splits many inputs.
"""

from __future__ import annotations

from triton_models.base.clock import Clock
from triton_models.base.encoding import BINARY_TYPE, JSON_TYPE, Content, Parameters, Tensors, decode, encode
from triton_models.client.asynchronous import AsyncClient
from triton_models.client.call import InvocationError
from triton_models.client.client import Client
from triton_models.client.core import DEADLINE_S, READY_LIMIT_S, AnyClient

__all__ = [
    "BINARY_TYPE",
    "DEADLINE_S",
    "JSON_TYPE",
    "READY_LIMIT_S",
    "AnyClient",
    "AsyncClient",
    "Client",
    "Clock",
    "Content",
    "InvocationError",
    "Parameters",
    "Tensors",
    "decode",
    "encode",
]
