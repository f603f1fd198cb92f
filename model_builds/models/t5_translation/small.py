"""A small T5 and its tokenizer, created from scratch: the same code path as t5-small, without the hub.

The tokenizer is a SentencePiece unigram model like t5-small's, with the words and letters below. The network
has random weights; its output is not German, but depends on every word of the input.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import T5ForConditionalGeneration, T5Tokenizer

SENTENCES = (
    "translate English to German: The house is wonderful.",
    "translate English to German: The garden behind the old house is small and quiet.",
    "translate English to French: Where is the station, and when does the next train leave?",
    "summarize: One server holds thousands of models and loads each when it is asked for.",
    "Das Haus ist wunderbar. Der Garten hinter dem alten Haus ist klein und ruhig.",
)
SPECIAL = ("<pad>", "</s>", "<unk>")  # 0, 1 and 2, as in t5-small
SPACE = "▁"  # SentencePiece's mark for the beginning of a word


def pieces() -> list[tuple[str, float]]:
    """Return the sorted vocabulary with its scores, which are logarithms of frequencies."""
    words = Counter(SPACE + word for sentence in SENTENCES for word in sentence.split())
    letters = Counter(letter for word in words.elements() for letter in word)
    total = sum(words.values()) + sum(letters.values())
    counted = sorted((words + letters).items())
    return [*((name, 0.0) for name in SPECIAL), *((piece, math.log(n / total)) for piece, n in counted)]


def tokenizer() -> T5Tokenizer:
    """Return a tokenizer of the same class as t5-small's."""
    from transformers import T5Tokenizer

    return T5Tokenizer(vocab=pieces(), extra_ids=0)


def network(seed: int) -> T5ForConditionalGeneration:
    """Return a T5 with 50 thousand parameters, in evaluation mode."""
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=len(pieces()),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        t5 = T5ForConditionalGeneration(config)
        for name, parameter in t5.named_parameters():
            if parameter.ndim > 1:
                wide = "shared" in name or "bias" in name
                torch.nn.init.normal_(parameter, std=1.0 if wide else 0.6)
        t5.shared.weight.data[1] *= 1.5  # so that </s> is chosen often enough for some sentences to end
    return t5.eval()
