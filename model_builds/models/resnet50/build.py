"""ResNet-50 on ONNX Runtime: normalised images in, logits of the 1000 ImageNet classes out.

RESNET50_WEIGHTS names trained weights, a path or an s3:// address of torchvision's state_dict. Without it the
network is untrained, with the same seeded weights everywhere: enough to prove the whole way to a prediction.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from triton_models.spec import (
    DynamicBatching,
    Example,
    ModelBuild,
    OnnxRuntime,
    PyTorchNetwork,
    SeededWeights,
    Tensor,
    Tensors,
    WarmUp,
    weights_at,
)

if TYPE_CHECKING:
    from .network import ResNet50

WEIGHTS = weights_at(os.environ.get("RESNET50_WEIGHTS"), otherwise=SeededWeights(seed=50))


def network() -> ResNet50:
    """The network with its weights, ready to predict."""
    from triton_models.export.weights import load_weights

    from .network import ResNet50, seeded

    if isinstance(WEIGHTS, SeededWeights):
        return seeded(WEIGHTS.seed).eval()
    trained = ResNet50()
    load_weights(trained, WEIGHTS)
    return trained.eval()


def examples() -> list[Example]:
    """Images of random waves. One image is 0.6 MB as binary, and an invocation carries 6 MB at most."""
    import numpy as np

    def images(count: int, seed: int) -> Tensors:
        random = np.random.default_rng(seed)
        y, x = np.mgrid[0:224, 0:224] / 224
        up, right, phase = random.uniform(0, 12, (3, count, 3, 1, 1))
        return {"INPUT": np.sin(up * y + right * x + phase).astype(np.float32) * 2}

    return [
        Example(name="one image", inputs=images(1, seed=1)),
        Example(name="two images", inputs=images(2, seed=2)),
    ]


def reference(inputs: Tensors) -> Tensors:
    """What PyTorch answers."""
    import torch

    with torch.inference_mode():
        return {"OUTPUT": network()(torch.from_numpy(inputs["INPUT"])).numpy()}


BUILD = ModelBuild(
    name="resnet50",
    description="ResNet-50: images to logits of 1000 classes",
    weights=WEIGHTS,
    models=[
        PyTorchNetwork(
            name="resnet50",
            network=network,
            inputs=[Tensor("INPUT", "FP32", [3, 224, 224])],
            outputs=["OUTPUT"],
            backend=OnnxRuntime(convolution_search="heuristic"),
            max_batch_size=32,
            batching=DynamicBatching(max_delay_us=500),
            warm_up=WarmUp(),
        )
    ],
    examples=examples,
    reference=reference,
    output="OUTPUT",
    tolerance=1e-4,
)
