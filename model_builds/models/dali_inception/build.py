"""Inception v3 behind DALI: encoded images in, the probabilities of 1001 classes out.

    INPUT -> dali_inception_images (DALI) -> dali_inception_network (ONNX Runtime) -> OUTPUT

A request has the bytes of a file, whose image may have any size:

    image = np.fromfile("dog.jpg", dtype=np.uint8)
    client.infer(model="dali_inception", inputs={"INPUT": image[np.newaxis]})["OUTPUT"].argmax()

A batch is one array, so shorter files are padded with zeros at their ends, which decoders ignore:

    longest = max(map(len, images))
    batch = np.stack([np.pad(image, (0, longest - len(image))) for image in images])

Class 0 is the background, and class n + 1 is ImageNet's class n: the 1001 classes of TensorFlow's slim.
INCEPTION_WEIGHTS names trained weights: a path or an s3:// address of a state_dict. timm's conversion of
slim's weights has the 1001 rows in tf_inception_v3-e0069de4.pth, among the files of its first releases. Its
copy on the hub and torchvision's weights are for 1000 classes, and are refused. Pixels range from -1 to 1, as
in slim's training; the post's mean and deviation are those of torchvision. Without INCEPTION_WEIGHTS, the
network is untrained, with the same seeded weights everywhere.

Put inception_labels.txt next to this file, a name for each of the 1001 classes, and requests with Triton's
parameter `classification` get names. Each request is decoded by itself: joined with others, a file that is no
image would fail all of them.

Other forms:

    fleet build dali_inception:tensorrt      the network as a TensorRT plan: prefer it on a GPU
    fleet build dali_inception:tensorflow --release 24.12
                                             an unmodified frozen TensorFlow graph, named by INCEPTION_GRAPH.
                                             Release 25.03 removed TensorFlow.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triton_models.spec import (
    Between,
    DaliPipeline,
    DynamicBatching,
    Ensemble,
    EnsembleStep,
    Example,
    Instances,
    LocalWeights,
    ModelDefinition,
    OnnxRuntime,
    PyTorchNetwork,
    RandomWeights,
    Tensor,
    TensorFlowGraph,
    TensorRt,
    Tensors,
    WarmUp,
    Weights,
    weights_at,
)

if TYPE_CHECKING:
    from .network import InceptionV3

WEIGHTS = weights_at(os.environ.get("INCEPTION_WEIGHTS"), otherwise=RandomWeights(seed=15))
GRAPH = weights_at(
    os.environ.get("INCEPTION_GRAPH"), otherwise=LocalWeights(path="inception_v3_2016_08_28_frozen.pb")
)
SIZE = 299
MAX_BATCH = 256
SOFTMAX = "InceptionV3/Predictions/Softmax"
NAMES = "inception_labels.txt"
LABELS = {SOFTMAX: NAMES} if Path(__file__).with_name(NAMES).exists() else {}

ENCODED = Tensor("DALI_INPUT_0", "UINT8", [-1])
IMAGE = Tensor("DALI_OUTPUT_0", "FP32", [SIZE, SIZE, 3])


def preprocessing(device: str) -> Any:
    """Decode, scale to 299 x 299 without keeping the proportions, and map 0 to 255 to -1 to 1."""
    from nvidia.dali import fn, types

    encoded = fn.external_source(name=ENCODED.name, device="cpu", dtype=types.UINT8, ndim=1)
    # By default, a GPU's decoder repeats chroma values where the CPU's interpolates, and pixels differ by up
    # to 7 levels. If it interpolates too, some differ by one level (test_fancy_upsampling of NVIDIA/DALI).
    images = fn.decoders.image(encoded, device=device, output_type=types.RGB, jpeg_fancy_upsampling=True)
    images = fn.resize(images, resize_x=SIZE, resize_y=SIZE)
    return fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="HWC", mean=[127.5] * 3, std=[127.5] * 3
    )


def network() -> InceptionV3:
    """Return the network with its weights, in evaluation mode."""
    from triton_models.builds.export.weights import load_weights

    from .network import InceptionV3, seeded

    if isinstance(WEIGHTS, RandomWeights):
        return seeded(WEIGHTS.seed).eval()
    trained = InceptionV3()
    load_weights(trained, WEIGHTS)
    return trained.eval()


def examples() -> list[Example]:
    """Return the files next to this one: one alone, and two in a batch, the second one without colors."""
    import numpy as np

    def files(*names: str) -> Tensors:
        images = [
            np.fromfile(Path(__file__).with_name("images") / f"{name}.jpg", dtype=np.uint8) for name in names
        ]
        longest = max(map(len, images))
        return {"INPUT": np.stack([np.pad(image, (0, longest - len(image))) for image in images])}

    return [
        Example(name="one image", inputs=files("landscape")),
        Example(name="images of two sizes", inputs=files("portrait", "grey")),
    ]


def reference(inputs: Tensors) -> Tensors:
    """Return the answers of DALI and PyTorch."""
    import torch

    from triton_models.builds.export.dali import run_pipeline

    images = run_pipeline(images_of(BUILD.name), {ENCODED.name: inputs["INPUT"]})[IMAGE.name]
    with torch.inference_mode():
        return {"OUTPUT": network()(torch.from_numpy(images)).numpy()}


def images_of(name: str) -> DaliPipeline:
    """Return the preprocessing of one form."""
    return DaliPipeline(
        name=f"{name}_images",
        pipeline=preprocessing,
        inputs=[ENCODED],
        outputs=[IMAGE],
        max_batch_size=MAX_BATCH,
    )


def pytorch(name: str, backend: OnnxRuntime | TensorRt, *, max_batch: int) -> PyTorchNetwork:
    """Return the network of a form that is exported from PyTorch."""
    return PyTorchNetwork(
        name=f"{name}_network",
        network=network,
        inputs=[Tensor("input", "FP32", IMAGE.dims)],
        outputs=[SOFTMAX],
        inputs_between={"input": Between(-1, 1, why="the images divide pixels by 127.5, less 1")},
        labels=LABELS,
        backend=backend,
        max_batch_size=max_batch,
        # A plan of 32 images is small enough for a second instance, which copies while the other computes.
        instances=Instances(count=2 if isinstance(backend, TensorRt) else 1),
        # All images have the same size here, so requests can be joined. Since release 24.12, ONNX Runtime plans
        # its 94 convolutions again whenever the batch size changes.
        batching=None if isinstance(backend, OnnxRuntime) else DynamicBatching(max_delay_us=500),
        warm_up=WarmUp(),
    )


def form(
    name: str,
    served: PyTorchNetwork | TensorFlowGraph,
    *,
    weights: Weights = WEIGHTS,
    reference: Callable[[Tensors], Tensors] | None = reference,
) -> ModelDefinition:
    """Return a form: the ensemble of the preprocessing and a network."""
    steps = [
        EnsembleStep(
            model_name=f"{name}_images",
            inputs={ENCODED.name: "INPUT"},
            outputs={IMAGE.name: "preprocessed_image"},
        ),
        EnsembleStep(
            model_name=f"{name}_network", inputs={"input": "preprocessed_image"}, outputs={SOFTMAX: "OUTPUT"}
        ),
    ]
    return ModelDefinition(
        name=name,
        description="Inception v3: encoded images to the probabilities of 1001 classes",
        weights=weights,
        models=[images_of(name), served, Ensemble(name=name, steps=steps)],
        examples=examples,
        reference=reference,
        output="OUTPUT",
        # A GPU build also decodes on the GPU, and some pixels differ by one level from the reference.
        tolerance={"fp32": 5e-4, "tf32": 5e-2, "fp16": 5e-2},
        requires=["nvidia.dali"],
    )


BUILD = form(
    "dali_inception",
    pytorch("dali_inception", OnnxRuntime(convolution_search="heuristic"), max_batch=MAX_BATCH),
)

FORMS = {
    "tensorrt": form(
        "dali_inception_tensorrt",
        pytorch("dali_inception_tensorrt", TensorRt(precision="fp16"), max_batch=32),
    ),
    "tensorflow": form(
        "dali_inception_tensorflow",
        TensorFlowGraph(
            name="dali_inception_tensorflow_network",
            inputs=[Tensor("input", "FP32", IMAGE.dims)],
            outputs=[Tensor(SOFTMAX, "FP32", [1001])],
            labels=LABELS,
            max_batch_size=MAX_BATCH,
            batching=DynamicBatching(max_delay_us=500),
        ),
        weights=GRAPH,
        reference=None,  # the graph is served unmodified, so there is no source to compare it with
    ),
}
