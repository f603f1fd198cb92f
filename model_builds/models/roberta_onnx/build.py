"""RoBERTa on ONNX Runtime: 512 token ids in, one vector for each token and one for the text out.

Requests that arrive within 100 microseconds of each other run together, preferably five at a time.

    tokens = tokenizer(texts, padding="max_length", max_length=512, truncation=True, return_tensors="np")
    client.infer(model="roberta_onnx", inputs=dict(tokens), outputs=["1550"])

"1550" is the pooled vector. The vectors of all tokens have 1.6 MB per text; the limit of an answer is 6 MB.

ROBERTA_WEIGHTS names trained weights: hf://FacebookAI/roberta-base@<full commit hash>, or a folder written by
save_pretrained. The hub's weights lack the layer for "1550", which then gets seeded weights: train it, or use
the vectors of the tokens. Without ROBERTA_WEIGHTS, the network has two layers instead of twelve, with seeded
weights.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from triton_models.spec import (
    Between,
    DynamicBatching,
    Example,
    ModelDefinition,
    OnnxRuntime,
    PyTorchNetwork,
    RandomWeights,
    Tensor,
    Tensors,
    WarmUp,
    weights_at,
)

if TYPE_CHECKING:
    import torch
    from transformers import RobertaModel

WEIGHTS = weights_at(os.environ.get("ROBERTA_WEIGHTS"), otherwise=RandomWeights(seed=512))
TOKENS = 512


@functools.cache
def source() -> RobertaModel:
    """Return transformers' RoBERTa."""
    from transformers import RobertaConfig, RobertaModel

    from triton_models.builds.export.pretrained import load_pretrained

    small = RobertaConfig(
        num_hidden_layers=2, vocab_size=50265, max_position_embeddings=TOKENS + 2, type_vocab_size=1
    )
    return load_pretrained(RobertaModel, WEIGHTS, untrained=small, may_lack=["pooler."])


def network() -> torch.nn.Module:
    """Return RoBERTa with plain tensors as inputs and outputs."""
    import torch

    class Roberta(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.roberta = source()

        def forward(
            self, input_ids: torch.Tensor, attention_mask: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            answer = self.roberta(input_ids, attention_mask=attention_mask)
            return answer.last_hidden_state, answer.pooler_output

    return Roberta()


def examples() -> list[Example]:
    """Return random texts between <s> (0) and </s> (2), padded with <pad> (1)."""
    import numpy as np

    def texts(*lengths: int) -> Tensors:
        ids = np.random.default_rng(seed=lengths).integers(3, 50000, (len(lengths), TOKENS))
        position, length = np.arange(TOKENS), np.array(lengths)[:, None]
        ids = np.where(position == 0, 0, np.where(position == length - 1, 2, ids))
        mask = position < length
        return {"input_ids": np.where(mask, ids, 1), "attention_mask": mask.astype(np.int64)}

    return [
        Example(name="one text", inputs=texts(6)),
        Example(name="a batch of different lengths", inputs=texts(200, TOKENS)),
    ]


def reference(inputs: Tensors) -> Tensors:
    """Return the answers of transformers."""
    import torch

    with torch.inference_mode():
        answer = source()(
            torch.from_numpy(inputs["input_ids"]), attention_mask=torch.from_numpy(inputs["attention_mask"])
        )
    return {"last_hidden_state": answer.last_hidden_state.numpy(), "1550": answer.pooler_output.numpy()}


BUILD = ModelDefinition(
    name="roberta_onnx",
    description="RoBERTa: 512 tokens to a vector of 768 numbers for each, and one for the text",
    weights=WEIGHTS,
    models=[
        PyTorchNetwork(
            name="roberta_onnx",
            network=network,
            inputs=[Tensor("input_ids", "INT64", [TOKENS]), Tensor("attention_mask", "INT64", [TOKENS])],
            inputs_between={
                "attention_mask": Between(0, 1, why="each text has a first token", never_empty=True)
            },
            outputs=["last_hidden_state", "1550"],
            # Every request has the same shape, so memory can be planned.
            backend=OnnxRuntime(memory_pattern=True),
            max_batch_size=32,
            batching=DynamicBatching(preferred=[5], max_delay_us=100),
            warm_up=WarmUp(),
        )
    ],
    examples=examples,
    reference=reference,
    output="last_hidden_state",
    tolerance={"fp32": 1e-4, "tf32": 1e-2, "fp16": 0.05},
)
