"""T5 for translation, in Triton's Python backend: token ids in, token ids of the translation out.

    input_ids, attention_mask -> encoder.onnx, once -> decoder.onnx, for each token -> output

Names, types and answers are those of the AWS post on the Python backend: the greedy output of transformers'
generate(), with the start token first. The runtime differs. The post packs PyTorch and transformers with
conda: gigabytes that every instance downloads, unpacks and imports. Here the build exports T5 to ONNX, and
the model's environment has two wheels, NumPy and ONNX Runtime, without what only their tests, tools and C
API use: two files in three. For a GPU with CUDA 13 they take 371 MB (259 in the artifact) instead of 410
(272), and for a CPU 86 MB (27) instead of 125 (40). CUDA's libraries are in the image, whose own ONNX Runtime backend needs
them. (The decoder could be a separate Triton model that this one
calls, but then each token would be a request of its own.)

T5_WEIGHTS names trained weights: a folder written by save_pretrained, with its tokenizer, or for AWS

    hf://google-t5/t5-small@df1b051c49625cf57a3d0d8d3863ed4d13564fe4

Without it, the model is a small one with random weights, which is enough to test the way to a prediction.

To call it, tokenize "translate English to German: The house is wonderful." with the tokenizer of the
weights, send both tensors as INT32, and decode with `batch_decode(output, skip_special_tokens=True)`.

Shared memory: the largest request, 8 x 512 tokens, is 32 KB and its answer 4 KB, so the Python backend's
smallest region, 1 MiB (SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE=1048576), is plenty.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING

from triton_models.spec import (
    BuildJob,
    DynamicBatching,
    DynamicDim,
    Example,
    Instances,
    ModelDefinition,
    PythonModel,
    RandomWeights,
    Tensor,
    Tensors,
    Wheels,
    weights_at,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, T5ForConditionalGeneration

WEIGHTS = weights_at(os.environ.get("T5_WEIGHTS"), otherwise=RandomWeights(seed=9))
MAX_BATCH = 8
MAX_NEW_TOKENS = 32 if isinstance(WEIGHTS, RandomWeights) else 128  # random weights rarely produce an end
# What ONNX Runtime requires and imports only in its tools.
NOT_NEEDED = ["coloredlogs", "flatbuffers", "packaging", "protobuf", "sympy"]
# What neither imports: with all of it, the same 175 modules are loaded. The library is ONNX Runtime for C.
WITHOUT = [
    "numpy/**/tests",
    "onnxruntime/capi/libonnxruntime.so.*",
    "onnxruntime/quantization",
    "onnxruntime/tools",
    "onnxruntime/transformers",
]
TOKENS = DynamicDim(name="tokens", opt=64, max=512)  # T5 was trained with up to 512
IDS = Tensor("input_ids", "INT32", [TOKENS])
MASK = Tensor("attention_mask", "INT32", [TOKENS])


@functools.cache
def source() -> T5ForConditionalGeneration:
    """Return transformers' network with its weights."""
    if isinstance(WEIGHTS, RandomWeights):
        from .small import network

        return network(WEIGHTS.seed)
    from transformers import T5Config, T5ForConditionalGeneration

    from triton_models.builds.export.pretrained import load_pretrained

    return load_pretrained(T5ForConditionalGeneration, WEIGHTS, untrained=T5Config())


@functools.cache
def tokenizer() -> PreTrainedTokenizerBase:
    """Return the tokenizer that belongs to the weights."""
    if isinstance(WEIGHTS, RandomWeights):
        from .small import tokenizer as small_tokenizer

        return small_tokenizer()
    from transformers import AutoTokenizer

    from triton_models.builds.export.weights import fetch

    return AutoTokenizer.from_pretrained(fetch(WEIGHTS), local_files_only=True)


def write(job: BuildJob) -> None:
    """Export both networks into the version folder."""
    from triton_models.artifact.pbtxt import CONFIG_FILE, read_config, write_config

    folder = job.root / BUILD.name
    export(folder / "1")
    config = read_config(folder / CONFIG_FILE)
    config.parameters["vocabulary"].string_value = str(source().config.vocab_size)
    write_config(config, folder / CONFIG_FILE)


def wheels(job: BuildJob) -> list[str]:
    """Return the packages the model imports, in versions for the release's Python and CUDA.

    ONNX Runtime 1.23 is built for CUDA 12 and has a wheel for Python 3.10; 1.31 is built for CUDA 13. Before
    release 24.12, with Python 3.10, the Python backend answers with empty tensors under NumPy 2.

    Raises:
        FleetError: The image does not have the cuDNN that the GPU wheel needs. The wheel was built against
            version 9, released in February 2024, which is not compatible with others (onnxruntime.ai, CUDA
            Execution Provider).
    """
    from triton_models.base.errors import FleetError

    if job.gpu and job.release.name < "24.03":
        raise FleetError.of(
            what=f"T5 on a GPU with release {job.release.name}",
            where="the environment of 't5_translation'",
            why="the image has cuDNN 8, and the wheels of ONNX Runtime for CUDA 12 need cuDNN 9",
            fix="serve it with release 24.03 or newer, or build it with --cpu",
            rule="environment-cudnn",
        )
    numpy = "numpy==1.26.4" if job.release.python == "3.10" else "numpy==2.2.6"
    runtime = "onnxruntime-gpu" if job.gpu else "onnxruntime"
    return [numpy, f"{runtime}=={'1.23.2' if job.release.cuda.startswith('12.') else '1.31.1'}"]


def export(version: Path) -> None:
    """Write encoder.onnx and decoder.onnx."""
    import torch

    from triton_models.builds.export.fused import fuse_normalizations
    from triton_models.builds.export.onnx import export_onnx

    from .network import DecoderStep, Encoder

    t5 = source()
    rows, tokens, past = 2, 3, 4  # unusual sizes, so that the exporter does not treat them as constants
    heads, size = t5.config.num_heads, t5.config.d_kv
    ids = torch.arange(rows * tokens, dtype=torch.int32).reshape(rows, tokens) % 2
    text = {0: "batch", 1: "tokens"}

    def by_layer(kind: str) -> list[str]:
        return [f"{kind}_{layer}" for layer in range(t5.config.num_decoder_layers)]

    read = [*by_layer("keys"), *by_layer("values")]
    written = [*by_layer("past_keys"), *by_layer("past_values")]
    export_onnx(
        Encoder(t5),
        version / "encoder.onnx",
        inputs={IDS.name: ids, MASK.name: ids},
        outputs=read,
        dynamic={IDS.name: text, MASK.name: text},
    )
    export_onnx(
        DecoderStep(t5),
        version / "decoder.onnx",
        inputs={
            "token": ids[:, :1],
            MASK.name: ids,
            **dict.fromkeys(read, torch.zeros(rows, heads, tokens, size)),
            **dict.fromkeys(written, torch.zeros(rows, heads, past, size)),
        },
        outputs=["next_token", *by_layer("all_keys"), *by_layer("all_values")],
        dynamic={
            "token": {0: "batch"},
            MASK.name: text,
            **{name: {0: "batch", 2: "tokens"} for name in read},
            **{name: {0: "batch", 2: "past"} for name in written},
        },
    )
    for name in ("encoder.onnx", "decoder.onnx"):
        fuse_normalizations(version / name)


def examples() -> list[Example]:
    """Return sentences, encoded like a caller does with the tokenizer."""
    german = "translate English to German: "
    texts = {
        "the post's sentence": [f"{german}The house is wonderful."],
        "a batch of different lengths": [
            f"{german}The garden behind the old house is small and quiet.",
            f"{german}The house is small.",
            "translate English to French: Where is the station?",
        ],
        "words missing from the vocabulary": [f"{german}Triton 今天 🚀"],
        "a long text": [german + "The old house is wonderful, and so is the garden behind it. " * 8],
    }
    return [Example(name=name, inputs=request(each)) for name, each in texts.items()]


def request(texts: list[str]) -> Tensors:
    """Return the request for some strings."""
    import numpy as np

    tokens = tokenizer()(texts, return_tensors="np", padding=True, truncation=True, max_length=TOKENS.max)
    return {name: tokens[name].astype(np.int32) for name in (IDS.name, MASK.name)}


def reference(inputs: Tensors) -> Tensors:
    """Return the answers of transformers' generate()."""
    import numpy as np
    import torch

    with torch.inference_mode():
        output = source().generate(
            input_ids=torch.from_numpy(inputs[IDS.name]).long(),
            attention_mask=torch.from_numpy(inputs[MASK.name]).long(),
            max_new_tokens=MAX_NEW_TOKENS,
            do_sample=False,
            num_beams=1,
        )
    return {"output": output.numpy().astype(np.int32)}


BUILD = ModelDefinition(
    name="t5_translation",
    description="T5: a sentence's tokens to the tokens of its translation",
    weights=WEIGHTS,
    models=[
        PythonModel(
            name="t5_translation",
            code="translator.py",
            environment=Wheels(wheels, not_needed=NOT_NEEDED, without=WITHOUT),
            inputs=[IDS, MASK],
            outputs=[Tensor("output", "INT32", [-1])],
            parameters={"max_tokens": TOKENS.max, "max_new_tokens": MAX_NEW_TOKENS, "threads": 1},
            max_batch_size=MAX_BATCH,
            instances=Instances(),
            batching=DynamicBatching(),
        )
    ],
    write=write,
    examples=examples,
    reference=reference,
    output="output",
    tolerance=0,  # tokens must be equal
)
