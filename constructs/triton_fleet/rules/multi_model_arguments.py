"""No argument of the server turns a shared endpoint against its own models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from triton_models.base.errors import Problem

RULE = "multi-model-argument"
# Read on 2026-11-21: core's backend_model_instance.cc and cache_manager.cc (main of 2026-06-09), and
# sagemaker_server.cc of 2026-08-19.
SOURCE = "https://github.com/triton-inference-server/core/blob/main/src/cache_manager.cc"

_CACHE = (
    "the cache distinguishes models by name and version alone, and outlives an unloaded model: composing "
    "models of two artifacts answer for each other"
)

_HARM: Mapping[str, str] = MappingProxyType(
    {
        "--model-load-gpu-limit": "a load beyond the limit is answered with 400, for which SageMaker "
        "evicts nothing: the model fails to load on a GPU that could make room",
        "--cache-config": _CACHE,
        "--response-cache-byte-size": _CACHE,
    }
)


def multi_model_arguments(arguments: Sequence[str], *, where: str) -> Iterator[Problem]:
    """The problems with arguments for the server of a multi-model endpoint."""
    for argument in arguments:
        name = argument.partition("=")[0]
        if name in _HARM:
            yield Problem(
                what=f"the server argument {argument!r}",
                where=where,
                expected=f"no {name} on a multi-model endpoint",
                why=_HARM[name],
                fix="leave it out, or serve the model that needs it on an endpoint of its own",
                rule=RULE,
            )
