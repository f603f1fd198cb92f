"""BERT compiled by TensorRT: token ids in, one vector for each token and one for the text out.

Texts are padded to 128 tokens. The plan accepts 1 to 128 texts and computes in FP16. It is tuned for 16 texts,
the batch that Triton prefers, and has a second profile for 1 to 4.
On a GPU machine, `fleet build bert_tensorrt --gpu A10G` compiles it; the plan only runs on that GPU model.

    tokens = tokenizer(texts, padding="max_length", max_length=128, truncation=True, return_tensors="np")
    client.infer(
        model="bert_tensorrt",
        inputs={
            "token_ids": tokens["input_ids"].astype("int32"),
            "attn_mask": tokens["attention_mask"].astype("int32"),
        },
        outputs=["pooled_output"],
    )

BERT_WEIGHTS names trained weights: hf://google-bert/bert-base-uncased@<full commit hash>, or a folder written
by save_pretrained. Without it, the network has two layers instead of twelve, with seeded weights.

To see many models loaded and unloaded, publish copies of one build under different names:

    fleet pack build/bert_tensorrt --copies 5 -o dist
    fleet publish dist/bert_tensorrt-*.tar.gz
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
    PyTorchNetwork,
    RandomWeights,
    Tensor,
    TensorRt,
    Tensors,
    WarmUp,
    weights_at,
)

if TYPE_CHECKING:
    import torch
    from transformers import BertModel

WEIGHTS = weights_at(os.environ.get("BERT_WEIGHTS"), otherwise=RandomWeights(seed=128))
TOKENS = 128


@functools.cache
def source() -> BertModel:
    """Return transformers' BERT."""
    from transformers import BertConfig, BertModel

    from triton_models.builds.export.pretrained import load_pretrained

    return load_pretrained(BertModel, WEIGHTS, untrained=BertConfig(num_hidden_layers=2))


def network() -> torch.nn.Module:
    """Return BERT with plain tensors as inputs and outputs."""
    import torch

    class Bert(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = source()

        def forward(
            self, token_ids: torch.Tensor, attn_mask: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            one_sentence = torch.zeros_like(token_ids)
            answer = self.bert(token_ids, attention_mask=attn_mask, token_type_ids=one_sentence)
            return answer.last_hidden_state, answer.pooler_output

    return Bert()


def examples() -> list[Example]:
    """Return random texts between [CLS] (101) and [SEP] (102), padded with [PAD] (0)."""
    import numpy as np

    def texts(*lengths: int) -> Tensors:
        ids = np.random.default_rng(seed=lengths).integers(1000, 30000, (len(lengths), TOKENS))
        position, length = np.arange(TOKENS), np.array(lengths)[:, None]
        ids = np.where(position == 0, 101, np.where(position == length - 1, 102, ids))
        mask = position < length
        return {"token_ids": (ids * mask).astype(np.int32), "attn_mask": mask.astype(np.int32)}

    return [
        Example(name="one text", inputs=texts(27)),
        Example(name="a batch of different lengths", inputs=texts(2, 60, TOKENS)),
    ]


def reference(inputs: Tensors) -> Tensors:
    """Return the answers of transformers."""
    import torch

    with torch.inference_mode():
        answer = source()(
            torch.from_numpy(inputs["token_ids"]), attention_mask=torch.from_numpy(inputs["attn_mask"])
        )
    return {"output": answer.last_hidden_state.numpy(), "pooled_output": answer.pooler_output.numpy()}


BUILD = ModelDefinition(
    name="bert_tensorrt",
    description="BERT: 128 tokens to a vector of 768 numbers for each, and one for the text",
    weights=WEIGHTS,
    models=[
        PyTorchNetwork(
            name="bert_tensorrt",
            network=network,
            inputs=[
                Tensor("token_ids", "INT32", [TOKENS]),  # 32 bits, as TensorRT uses
                Tensor("attn_mask", "INT32", [TOKENS]),
            ],
            inputs_between={"attn_mask": Between(0, 1, why="each text has a first token", never_empty=True)},
            outputs=["output", "pooled_output"],
            backend=TensorRt(precision="fp16"),
            max_batch_size=128,
            batching=DynamicBatching(preferred=[16]),
            warm_up=WarmUp(),
        )
    ],
    examples=examples,
    reference=reference,
    output="output",
    tolerance={"fp32": 1e-4, "fp16": 0.05},
)
