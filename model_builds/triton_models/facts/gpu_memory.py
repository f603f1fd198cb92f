"""GPU memory of a server, of the first model of a backend, and of each model, in MiB.

The figures are nvidia-smi's inside real multi-model endpoints (aws-samples/sagemaker-mme-gpu-benchmarking, in
its history; ml.g4dn.2xlarge and ml.p3.2xlarge, image 22.10; read 2026-11-25). Each model was loaded again and
again under other names; the memory grows by the same amount each time.

| model | weights | each copy | all others | where |
|---|---|---|---|---|
| none | | | 165 (T4), 370 (V100) | 9c4dae247f [22], ca921448d0 [25] |
| ResNet-50, TorchScript | 97 | 269 to 271 | 941 | 9c4dae247f [26] |
| BERT-base, TorchScript | 418 | 482 to 485 | 710 | 6bd92b0b8f [29] |
| ViT-large, TorchScript | 1,161 | 1,205 | 941 | 1f097903f1 [26] |
| RoBERTa-large, TorchScript (V100) | 1,356 | 1,391 | 900 | ca921448d0 [29] |
| ResNet-50, FP16 plan for 128 rows | 49 | 559 | 533 | 9c4dae247f [52] |
| BERT-base, FP16 plan for 32 rows | 209 | 311 | 453 | 6bd92b0b8f [56] |
| ViT-large, FP16 plan for 128 rows (V100) | 580 | 1,432 | 668 | 8e29310e25 [52] |
| RoBERTa-large, FP16 plan (V100) | 678 | 1,488 | 669 | ca921448d0 [56] |

So a model takes its weights, and a term for its activations, which depends on the network: 33 to 67 MiB for a
transformer in TorchScript and 172 for ResNet-50, and 3 to 25 MiB per row of the largest batch for a plan. The
first model of PyTorch brings 530 to 776 MiB of context and libraries, the first plan 288 to 368.
`Instances(gpu_memory_mb=...)` says what a model really takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from triton_models.facts.instances import Gpu

SERVER_MIB = 101
"""A server without models and without its pool: the CUDA context. 165 on a T4, with the default pool."""

SERVER_POOL_MIB = 64
"""The pool of a server that is given no size: --cuda-memory-pool-byte-size of Triton."""

_POOL_MIB, _SMALL_POOL_MIB, _SMALL_GPU_MIB = 1024, 512, 20 << 10

FOREST_PARTS = 4
"""A forest takes at most one part in four of its file: a node takes 56 bytes or more in a checkpoint
(src/serializer.cc of Treelite 4.7), and 8 or 16 on a GPU (cuML's sparse_node16 and fil/detail/node.hpp). Only
old importers may take more, up to 256 MiB, for a forest whose trees differ in depth."""


ARENA_OF_CONVOLUTIONS, ARENA_OF_OTHERS = (1.2, 1.7, 2.5), (1.5, 3.0, 4.0)
"""ONNX Runtime's arena by the peak of a graph's live values: at least, likely and at most.

The arena of ResNet-50 (FP32, CPU, 2026-11-28) grew by 90, 359 and 726 MiB for 8, 32 and 64 rows, which is
1.63 to 1.65 times what is alive; that of transformers with unfused attention by about 3 times. The range is a
guess: no GPU with ONNX Runtime is on record, whose convolutions need a workspace of cuDNN as well."""

ARENA_OF_UNKNOWN_MIB = (0.5, 6.0, 80.0)
"""The arena of a row whose graph is unknown, in MiB: the most is RoBERTa's with 512 tokens in FP32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendMemory:
    """The GPU memory of a backend's models, in MiB.

    Attributes:
        first: The libraries and contexts that its first model brings, which stay.
        model: The memory of each instance besides its weights.
        row: More memory of it for each row of its largest batch.
    """

    first: int
    model: int = 0
    row: int = 0


BACKENDS: Mapping[str, BackendMemory] = {
    "pytorch": BackendMemory(first=660, model=40),
    "tensorrt": BackendMemory(first=368, row=4),
    # No endpoint with ONNX Runtime is on record: it loads cuBLAS and cuDNN, as PyTorch does.
    "onnxruntime": BackendMemory(first=660),
}
"""The backends whose models take memory of the GPU for themselves. Forests take theirs from the pool."""


def default_pool_mib(gpu: Gpu) -> int:
    """Return the size of the CUDA memory pool that endpoints of this project reserve on a GPU.

    Forests, GPU tensors between models, and inputs of batches come from it, and it cannot grow. It is taken
    from the models: 512 MiB are two copies of ResNet-50 on a T4, of 50.
    """
    return _SMALL_POOL_MIB if gpu.memory_mib < _SMALL_GPU_MIB else _POOL_MIB
