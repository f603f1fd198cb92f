"""Triton's log lines about requests, and about models that are loaded and unloaded.

Seen in the log of a server (release 24.10, core 2.51) by SageMaker's multi-model contract, on 2026-11-21 and
2026-11-27:

    Invoking SageMaker TargetModel: minilm-0123.tar.gz
    Loading SageMaker TargetModel: minilm-0123.tar.gz
    successfully loaded '/opt/ml/models/9c1f/model::minilm-0123.tar.gz'
    failed to load '/opt/ml/models/77ab/model::broken-0123.tar.gz' version 1: Internal: RuntimeError: no
    failed to load '/opt/ml/models/77ab/model::broken-0123.tar.gz'
    failed to load model '/opt/ml/models/77ab/model::empty-0123.tar.gz': at least one version ...
    Poll failed for model directory '/opt/ml/models/77ab/model::typo-0123.tar.gz': failed to read ...
    ensemble '/opt/ml/models/77ab/model::both-0123.tar.gz' depends on '...::part' which has ...
    UNLOAD for model minilm-0123.tar.gz completed in 2 seconds.

A failure is two lines; the one with a version says why. Without model namespacing there is nothing before the
model's name. Triton writes the lines about a failure at the level of errors, and the others at that of
information, which `TritonServer(log_info=False)` switches off.
"""

from __future__ import annotations

INVOKED = "Invoking SageMaker TargetModel"
"""In the line of each request that reaches a model; in the sources of the server until 26.05 as well."""
LOADING = "Loading SageMaker TargetModel"
"""In the line of each load that begins."""
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
