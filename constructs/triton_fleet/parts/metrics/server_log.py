"""Triton's log lines about loaded and unloaded models, and the queries that find them in CloudWatch Logs.

Seen in the log of a server (release 24.10, core 2.51) that loaded, failed to load and unloaded models by
SageMaker's multi-model contract, on 2026-11-21:

    successfully loaded '/opt/ml/models/9c1f/model::minilm-0123.tar.gz'
    failed to load '/opt/ml/models/77ab/model::broken-0123.tar.gz' version 1: Internal: RuntimeError: no
    failed to load '/opt/ml/models/77ab/model::broken-0123.tar.gz'
    UNLOAD for model minilm-0123.tar.gz completed in 2 seconds.

A failure is two lines; the one with a version says why. Without model namespacing there is nothing before the
model's name. Triton writes the line about a failure at the level of errors, and the others at that of
information, which `TritonServer(log_info=False)` switches off.
"""

from __future__ import annotations

LOADED = "successfully loaded '"
"""In the line of each model that was loaded."""
UNLOADED = "UNLOAD for model "
"""In the line of each model that was unloaded."""
LOAD_FAILED = ("failed to load '", "' version ")
"""Both in the one line of each load that failed and that says why."""
OUT_OF_MEMORY = (
    "CUDA out of memory",
    "CUDA_OUT_OF_MEMORY",
    "Out of memory",
    "Out Of Memory",
    "out of memory",
    "MemoryError",
    "OutOfMemory",
    "OOM",
    "Dst tensor is not initialized",
    "Src tensor is not initialized",
    "CNMEM_STATUS_OUT_OF_MEMORY",
    "CUDNN_STATUS_NOT_INITIALIZED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "Failed to allocate memory",
    "failed to allocate memory",
    "No space left on device",
)
"""Any of these in the reason makes Triton ask SageMaker to evict models and try again, which is no failure.

SageMakerMMECheckOOMError in src/sagemaker_server.cc of triton-inference-server/server, r23.12 to r26.06, read
2026-11-25. It compares capitals too, as CloudWatch's filter does.
"""

LOAD_FAILURE_PATTERN = " ".join(
    [*(f'"{term}"' for term in LOAD_FAILED), *(f'-"{term}"' for term in OUT_OF_MEMORY)]
)
"""A filter pattern for loads that failed for another reason than memory."""

_NAME = "'(?:[^']*::)?(?<model>[^']+)'"

MOST_LOADED = (
    f'filter @message like "{LOADED}"',
    f"parse @message /successfully loaded {_NAME}/",
    "stats count(*) as loads, count_distinct(@logStream) as instances by model",
    "sort loads desc",
    "limit 20",
)
"""The models that are loaded most often. Many more loads than instances: they are evicted again and again."""

FAILED_LOADS = (
    f'filter @message like "{LOAD_FAILED[0]}" and @message like "{LOAD_FAILED[1]}"',
    f"parse @message /failed to load {_NAME} version [0-9]+: (?<reason>.*)/",
    "stats count(*) as failures, latest(@timestamp) as last by model, reason",
    "sort failures desc",
    "limit 20",
)
"""The models that could not be loaded, and why."""

SLOWEST_UNLOADS = (
    f'filter @message like "{UNLOADED}"',
    "parse @message /UNLOAD for model (?<model>[^ ]+) completed in (?<seconds>[0-9]+) seconds/",
    "stats count(*) as unloads, max(seconds) as slowest_seconds by model",
    "sort slowest_seconds desc",
    "limit 20",
)
"""The models that are unloaded, the slowest first: SageMaker gives up waiting for one after 360 seconds."""
