"""ResNet-50 on ONNX Runtime: normalised images in, logits of the 1000 ImageNet classes out.

RESNET50_WEIGHTS names trained weights, a path or an s3:// address of torchvision's state_dict. Without it the
network is untrained, with the same seeded weights everywhere: enough to prove the whole way to a prediction.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from triton_models.spec import BuildJob, Example, ModelBuild, Tensors

if TYPE_CHECKING:
    from .network import ResNet50

SEED = 50
MAX_BATCH = 32


def write(job: BuildJob) -> None:
    """Make the model."""
    import torch

    from triton_models.config import DynamicBatching, plain, tensor
    from triton_models.export.onnx import export_onnx

    version = job.model(
        plain(
            name="resnet50",
            backend="onnxruntime",
            max_batch_size=MAX_BATCH,
            inputs=[tensor("INPUT", "FP32", [3, 224, 224])],
            outputs=[tensor("OUTPUT", "FP32", [1000])],
            dynamic_batching=DynamicBatching(max_delay_us=500),
        )
    )
    network, job.sources["weights"] = _network()
    export_onnx(
        network,
        version / "model.onnx",
        inputs={"INPUT": torch.zeros(2, 3, 224, 224)},
        outputs=["OUTPUT"],
        dynamic={"INPUT": {0: "batch"}},
    )


def _network() -> tuple[ResNet50, str]:
    """The network that is served, and where its weights come from."""
    from triton_models.export.weights import load_weights

    from .network import ResNet50, seeded

    source = os.environ.get("RESNET50_WEIGHTS")
    if not source:
        return seeded(SEED).eval(), f"untrained, seed {SEED}"
    network = ResNet50()
    return network.eval(), load_weights(network, source)


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
        return {"OUTPUT": _network()[0](torch.from_numpy(inputs["INPUT"])).numpy()}


BUILD = ModelBuild(
    name="resnet50",
    description="ResNet-50: images to logits of 1000 classes",
    write=write,
    examples=examples,
    reference=reference,
    output="OUTPUT",
    tolerance=1e-4,
)
