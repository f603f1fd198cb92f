"""T5 as two networks that ONNX can represent: the encoder, which runs once, and one step of the decoder.

The decoder keeps the keys and values of the tokens so far, so that a step costs the same for the first token
and the hundredth. Each layer has its own tensors, [batch, heads, tokens, head size]: a step would copy all of
one tensor for all layers. So a list of keys or values is a run of inputs or outputs, in the order of the layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import T5ForConditionalGeneration


class Encoder(nn.Module):
    """Token ids and their mask to the keys and values that every step of the decoder attends to."""

    def __init__(self, t5: T5ForConditionalGeneration) -> None:
        super().__init__()
        self.encoder = t5.encoder
        self.attention = nn.ModuleList(block.layer[1].EncDecAttention for block in t5.decoder.block)
        self.heads = t5.config.num_heads

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """Return the keys of all layers, then their values."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        keys = [_heads(layer.k(hidden), self.heads) for layer in self.attention]
        values = [_heads(layer.v(hidden), self.heads) for layer in self.attention]
        return (*keys, *values)


class DecoderStep(nn.Module):
    """A token to the most likely next one, chosen here so that only its id is copied to the host."""

    def __init__(self, t5: T5ForConditionalGeneration) -> None:
        super().__init__()
        self.decoder = t5.decoder
        self.head = t5.lm_head
        self.heads = t5.config.num_heads
        self.scale = t5.config.d_model**-0.5 if t5.config.scale_decoder_outputs else 1.0

    def forward(self, token: Tensor, attention_mask: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        """Return the next token [batch, 1], and the keys and values of the past including this token.

        The caches are the encoder's keys and values, then the keys and values of the past.
        """
        layers = len(self.decoder.block)
        keys, values, past_keys, past_values = (caches[at * layers : (at + 1) * layers] for at in range(4))
        hidden = self.decoder.embed_tokens(token)
        hide = (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        bias = self._bias(past_keys[0].shape[2])
        own_keys, own_values = [], []
        for number, block in enumerate(self.decoder.block):
            own, cross, feed_forward = block.layer
            normed = own.layer_norm(hidden)
            key = _heads(own.SelfAttention.k(normed), self.heads)
            value = _heads(own.SelfAttention.v(normed), self.heads)
            own_keys.append(torch.cat([past_keys[number], key], dim=2))
            own_values.append(torch.cat([past_values[number], value], dim=2))
            hidden = hidden + self._attend(own.SelfAttention, normed, own_keys[-1], own_values[-1], bias)
            normed = cross.layer_norm(hidden)
            hidden = hidden + self._attend(cross.EncDecAttention, normed, keys[number], values[number], hide)
            hidden = feed_forward(hidden)
        logits = self.head(self.decoder.final_layer_norm(hidden) * self.scale)
        chosen = logits.argmax(dim=-1).to(torch.int32)
        return (chosen, *own_keys, *own_values)

    def _bias(self, past: int) -> Tensor:
        """Return the relative position bias of each earlier token; all layers share the first one's."""
        attention = self.decoder.block[0].layer[0].SelfAttention
        distance = torch.arange(past + 1)[None, :] - past
        bucket = attention._relative_position_bucket(
            distance,
            bidirectional=False,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        bias: Tensor = attention.relative_attention_bias(bucket).permute(2, 0, 1)[None]
        return bias

    def _attend(
        self, attention: nn.Module, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor
    ) -> Tensor:
        scores = _heads(attention.q(query), self.heads) @ keys.transpose(2, 3) + bias  # T5 does not scale
        mixed = (scores.softmax(dim=-1) @ values).transpose(1, 2).flatten(2)
        result: Tensor = attention.o(mixed)
        return result


def _heads(projected: Tensor, heads: int) -> Tensor:
    """Reshape [batch, tokens, heads * size] to [batch, heads, tokens, size]."""
    return projected.unflatten(2, (heads, -1)).transpose(1, 2)
