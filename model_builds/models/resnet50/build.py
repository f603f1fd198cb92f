"""ResNet-50 in the forms that AWS's post on ONNX Runtime compares: images in, logits of 1000 classes out.

| | runs in | image | logits |
|---|---|---|---|
| resnet50 | ONNX Runtime, tuned as in the post | INPUT | OUTPUT |
| resnet50:untuned | ONNX Runtime with its defaults | INPUT | OUTPUT |
| resnet50:torchscript | LibTorch | INPUT__0 | OUTPUT__0 |
| resnet50:tensorrt | TensorRT, in FP16; a portable build has ONNX instead of a plan | INPUT | OUTPUT |

    fleet compare resnet50

builds and serves all four here, and prints their sizes, cold starts and latencies side by side.

For images on a GPU, prefer `resnet50:tensorrt`. Since release 24.12, ONNX Runtime plans each convolution again
whenever the batch size changes, so Triton joins no requests for it here. A request of several images is one
batch.

RESNET50_WEIGHTS names trained weights: a path or an s3:// address of torchvision's state_dict. Without it,
the network is untrained, with the same seeded weights everywhere, which is enough to test the way to a
prediction.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from triton_models.spec import (
    Between,
    DynamicBatching,
    Example,
    Instances,
    LibTorch,
    ModelDefinition,
    OnnxRuntime,
    PyTorchNetwork,
    RandomWeights,
    Tensor,
    TensorRt,
    Tensors,
    WarmUp,
    weights_at,
)

if TYPE_CHECKING:
    from .network import ResNet50

WEIGHTS = weights_at(os.environ.get("RESNET50_WEIGHTS"), otherwise=RandomWeights(seed=50))
MAX_BATCH = 128
# The post's plan takes 128 images too. It then needs 559 MiB on a T4 (cv-benchmark.ipynb of
# aws-samples/sagemaker-mme-gpu-benchmarking), but an invocation has at most 6 MB, so 10 images, and batches of
# more than 32 rarely form. Two instances copy the images of one batch while another is computed.
PLAN_BATCH, PLAN_INSTANCES = 32, Instances(count=2)

# The post's values, except for two. With arena_extension="same_as_requested", batches that grow from 1 to 20
# images took 1970 MiB instead of 249. CUDA ignores execution="parallel", but the session starts a thread per core
# for it: 7 with eight cores, for each model (ONNX Runtime 1.31.1, 2026-11-28). The post measured a cold start of 1.6 seconds with graph level, search
# and execution mode, and 4.4 without. Its level 1 is "extended"; by default ONNX Runtime also rearranges
# weights, at every load.
TUNED = OnnxRuntime(graph_optimization="extended", convolution_search="heuristic", memory_pattern=True)


@functools.cache
def network() -> ResNet50:
    """Return the network with its weights, in evaluation mode."""
    from triton_models.builds.export.weights import load_weights

    from .network import ResNet50, seeded

    if isinstance(WEIGHTS, RandomWeights):
        return seeded(WEIGHTS.seed).eval()
    trained = ResNet50()
    load_weights(trained, WEIGHTS)
    return trained.eval()


def examples(image: str) -> list[Example]:
    """Return images of random waves. One image has 0.6 MB in binary; the limit of an invocation is 6 MB."""
    import numpy as np

    def images(count: int, seed: int) -> Tensors:
        random = np.random.default_rng(seed)
        y, x = np.mgrid[0:224, 0:224] / 224
        up, right, phase = random.uniform(0, 12, (3, count, 3, 1, 1))
        return {image: np.sin(up * y + right * x + phase).astype(np.float32) * 2}

    return [
        Example(name="one image", inputs=images(1, seed=1)),
        Example(name="two images", inputs=images(2, seed=2)),
    ]


def reference(image: str, logits: str, inputs: Tensors) -> Tensors:
    """Return the answers of PyTorch."""
    import torch

    with torch.inference_mode():
        return {logits: network()(torch.from_numpy(inputs[image])).numpy()}


def form(
    *,
    name: str,
    backend: OnnxRuntime | TensorRt | LibTorch,
    served_by: str,
    image: str = "INPUT",
    logits: str = "OUTPUT",
) -> ModelDefinition:
    """Return the declaration of one form. The forms differ in their backends and tensor names."""
    plan = isinstance(backend, TensorRt)
    return ModelDefinition(
        name=name,
        description=f"ResNet-50 on {served_by}: images to logits of 1000 classes",
        weights=WEIGHTS,
        models=[
            PyTorchNetwork(
                name=name,
                network=network,
                inputs=[Tensor(image, "FP32", [3, 224, 224])],
                outputs=[logits],
                inputs_between={image: Between(-2.2, 2.7, why="pixels, normalized as ImageNet's are")},
                backend=backend,
                max_batch_size=PLAN_BATCH if plan else MAX_BATCH,
                instances=PLAN_INSTANCES if plan else Instances(),
                batching=None if isinstance(backend, OnnxRuntime) else DynamicBatching(max_delay_us=500),
                warm_up=WarmUp(),
            )
        ],
        examples=functools.partial(examples, image),
        reference=functools.partial(reference, image, logits),
        output=logits,
        tolerance={"fp32": 1e-4, "tf32": 0.02, "fp16": 0.05},
    )


BUILD = form(name="resnet50", backend=TUNED, served_by="ONNX Runtime")
FORMS = {
    "untuned": form(
        name=f"{BUILD.name}_untuned", backend=OnnxRuntime(), served_by="ONNX Runtime with its defaults"
    ),
    "torchscript": form(
        name=f"{BUILD.name}_torchscript",
        backend=LibTorch(),
        served_by="LibTorch",
        image="INPUT__0",
        logits="OUTPUT__0",
    ),
    "tensorrt": form(name=f"{BUILD.name}_tensorrt", backend=TensorRt(precision="fp16"), served_by="TensorRT"),
}
