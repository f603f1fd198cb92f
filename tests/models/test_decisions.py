"""A trace loses what Python decides by values: which networks may be traced."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from triton_models.builds.export.decisions import trace

SOURCE = '''
import contextlib, copy, logging, math, operator, pickle, warnings
import numpy as np
import torch
import torch.nn.functional as F

logger = logging.getLogger(__name__)

class Scale:
    def error(self, value):
        self.network.hit = value

@torch.jit.script
def is_old(x: torch.Tensor) -> torch.Tensor:
    return (x[:, 1] >= 65) & (x[:, 1] < 90)

@torch.jit.script
def doubled_if_large(x: torch.Tensor) -> torch.Tensor:
    if bool(x.sum() > 1):
        return x * 2
    return x

@torch.jit.script
def count(x: torch.Tensor) -> torch.Tensor:
    return torch.full([1], int(x.sum()))

def check(x):
    assert (x < 1e12).all()

def has_nan(x):
    """Return whether a value is missing."""
    return bool(torch.isnan(x).any())

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.heads = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(9))
        self.register_buffer("zeros", torch.zeros(2, 3))
        self.hit = False
        self.logger, self.scale = logger, Scale()
        self.scale.network = self
    def remember(self, x):
        self.hit = bool(is_old(x).any())
        return True
    def forward(self, x):
        old = (x[:, 1] >= 65) & (x[:, 1] < 90)
{forward}
'''


@pytest.fixture
def network(tmp_path: Path) -> Callable[[str], torch.nn.Module]:
    def load(forward: str) -> torch.nn.Module:
        path = tmp_path / "network.py"
        path.write_text(
            SOURCE.replace("{forward}", "\n".join(f"        {line}" for line in forward.splitlines()))
        )
        spec = importlib.util.spec_from_file_location("network", path)
        assert spec is not None
        assert spec.loader is not None
        module: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.Net().eval()

    return load


X = torch.tensor([[1.0, 70, 3], [2, 30, 5]])

BY_SIZES = [
    "return x * 2 if old.nonzero().numel() else x",
    "return x * 2 if x[old].shape[0] else x",
    "return x * 2 if len(x[old]) else x",
    "return x * 2 if torch.unique(x[:, 2]).numel() > 1 else x",
    "return x * 2 if torch.where(old)[0].size(0) else x",
    "return x * 2 if x.masked_select(x > 3).shape[0] > 2 else x",
    "return x * 2 if self.linear(x[old]).shape[0] else x",
    "return x * 2 if torch.arange(x.sum()).shape[0] > 3 else x",
    "return x * 2 if x[:, : x.sum().long() % 3].shape[1] > 1 else x",
    "return x * 2 if x.to_sparse().values().shape[0] > 3 else x",
    "return x * 2 if torch.tensor_split(x[:, 0], x[:1, 0].long() % 2)[0].shape[0] else x",
    "return sum(row for row in x[old]) + x",
    "return torch.cat([*x[old].split(1), x])",
    "return sum(x[old].unbind(0)) + x",
    "return sum(x[x[:, 0] > 1e12].unbind(0)) + x",
    "return torch.cat([*x[old].chunk(2), x])",
    "y = F.conv1d(x[old][:, None], torch.ones(1, 1, 2))\nreturn x * 2 if y.shape[0] else x",
    "y = torch.relu(F.conv1d(x[old][:, None], torch.ones(1, 1, 2)))\nreturn x * 2 if len(y) else x",
    "return sum(F.conv1d(x[old][:, None], torch.ones(1, 1, 2)).sum((1, 2))) + x",
    "y = F.conv_transpose1d(x[old][:, None], torch.ones(1, 1, 2))\nreturn x * 2 if y.numel() else x",
    "return x * 2 if F.conv1d(x[:, None], x[old][:, None, :2]).shape[1] else x",
    "return x * 2 if torch.ones_like(x[old]).shape[0] else x",
    "return x * 2 if F.conv1d(torch.ones_like(x[old])[:, None], torch.ones(1, 1, 2)).shape[0] else x",
    "return x * 2 if x.new_zeros(x[old].shape).shape[0] else x",
]
TO_PYTHON = [
    "return x * len(range(x[0, 0].long()))",
    "return x * [1, 2, 3, 4][x[0, 0].long()]",
    "return self.heads[x[0, 0].long()](x)",
    "return x * 2 if torch.equal(x, self.zeros) else x",
    "return x * 2 if torch.allclose(x, self.zeros) else x",
    "return x * 2 if old.any().is_nonzero() else x",
    "return x.clone().apply_(lambda value: value * 2 if value > 60 else value)",
    "return torch.zeros(2, 3).map_(x, lambda _, value: value * 2 if value > 60 else value)",
    "return x * 2 if 70.0 in x else x",
    "return x * float(np.asarray(x)[0, 0])",
    "return x * float(np.array(x)[0, 0])",
    "return x * float(x.__array__()[0, 0])",
    "return x * float(np.from_dlpack(x)[0, 0])",
    "return x * float(f'{x[0, 0]:.0f}')",
    "return x * float('{}'.format(x[0, 0].item()))",
    "return x * len(str(x))",
    "return x * float('%d' % x[0, 0])",
    "return x * math.floor(x[0, 0])",
    "return x * sorted([x[0, 0], x[0, 1]])[0]",
    "return x * torch.tensor([x.sum()])",
    "return x * torch.tensor(data=[x.sum()])",
    "return x * torch.as_tensor([x.sum(), 1.0, 2.0])",
    "return x * x.new_tensor([x.sum(), 1.0, 2.0])",
    "return x * torch.FloatTensor([x.sum()])",
    "return x + copy.deepcopy(x)",
    "return x + pickle.loads(pickle.dumps(x))",
    "return x * torch.ops.aten._local_scalar_dense(x.sum())",
    "while x.sum() < 1000:\n    x = x * 2\nreturn x",
]
NO_CHECKS = [
    "if (age := x[0, 1].item()) > 1e12:\n    raise ValueError\nreturn x * age",
    "assert (age := int(x[0, 1])) <= 80\nreturn x * age",
    "try:\n    assert not old.any()\nexcept AssertionError:\n    x = x * 2\nreturn x",
    "try:\n    check(x * 1e12)\nexcept AssertionError:\n    x = x * 2\nreturn x",
    "with contextlib.suppress(AssertionError):\n    assert old.any()\n    x = x * 2\nreturn x",
    "if old.any(): x = x * 2  # else: raise ValueError\nreturn x",
    "if old.any():\n    x = x * 2\nelif x.sum() > 1e12:\n    raise ValueError\nreturn x",
    "many = bool(old.any()); assert many or True\nreturn x * 2 if many else x",
    "many = bool(old.any())\nassert many or True\nreturn x * 2 if many else x",
    "assert self.remember(x)\nreturn x * 2 if self.hit else x",
    "if old.any():\n    warnings.warn('old')\nelse:\n    x = x * 2\nreturn x",
    "if old.any():\n    warnings.warn('old')\n    x = x * 2\nreturn x",
    "if old.any():\n    logger.info('old')\n    return x * 2\nreturn x",
    "if old.any():\n    warnings.warn('old')\nelif x.sum() > 1:\n    x = x * 2\nreturn x",
    "if many := bool(old.any()):\n    warnings.warn('old')\nreturn x * 2 if many else x",
    "print(many := old.any().item())\nreturn x * 2 if many else x",
    "many = old.any().item()\nprint(more := many)\nreturn x * 2 if more else x",
    "self.scale.error(x.sum().item())\nreturn x * self.hit",
    "many = old.any().item()\nlogger.info('%s', many)\nreturn x * 2 if many else x",
]
LONG_TRAILS = [
    "copy = self.zeros.clone()\ncopy[:, :3] = x\nreturn x * 2 if copy.sum() > 3 else x",
    "self.zeros.copy_(x)\nreturn x * 2 if self.zeros.sum() > 3 else x",
    "out = torch.empty(2, 3)\ntorch.add(x, 1, out=out)\nreturn x * 2 if out.sum() > 3 else x",
    "out = [torch.zeros(2, 3)]\ntorch._foreach_add_(out, [x])\nreturn x * 2 if out[0].sum() > 3 else x",
    "out = torch.zeros(3)\nout[x.sum().long() % 3] = 1\nreturn x * 2 if out[0] > 0 else x",
    "out = torch.full((3,), x.sum())\nreturn x * 2 if out[0] > 3 else x",
    "return x * 2 if is_old(x).any() else x",
    "return x * 2 if count(x)[0] > 3 else x",
]


@pytest.mark.parametrize("forward", [*BY_SIZES, *TO_PYTHON, *NO_CHECKS, *LONG_TRAILS])
def test_a_trace_would_lose_what_python_decides_by_values(forward, network):
    with torch.no_grad():
        _, lines = trace(network(forward), [X])
    assert lines


CHECKS = [
    "if torch.isnan(x).any():\n    message = f'{x}'\n    raise ValueError(message)\nreturn x",
    "if torch.isnan(x).any():  # missing\n    # show the caller\n    raise ValueError\nreturn x",
    "if (\n    torch.isnan(x).any()\n    or torch.isinf(x).any()\n):\n    raise ValueError\nreturn x",
    "if x.shape[1] != 3:\n    raise ValueError\nelif torch.isnan(x).any():\n    raise ValueError\nreturn x",
    "if (x < 1e12).all():\n    x = x * 2\nelse:\n    raise ValueError\nreturn x",
    "if float('inf') in x: raise ValueError\nreturn x",
    "torch._assert(not torch.isnan(x).any(), 'missing')\nreturn x",
    "torch._assert((x < 1e12).all(), 'large')\nreturn x",
    "torch._check(bool((x < 1e12).all()))\nreturn x",
    "assert all(bool(one) for one in (x < 1e12).flatten())\nreturn x",
    "assert (\n    not torch.isnan(x).any()\n), 'missing'\nreturn x",
    "check(x)\nreturn x",
    "if has_nan(x):\n    raise ValueError\nreturn x",
    "missing = int(torch.isnan(x).sum())\nif missing:\n    raise ValueError(f'{missing}')\nreturn x",
    "try:\n    check(x)\nexcept AssertionError as error:\n    raise ValueError from error\nreturn x",
    "if torch.isnan(x).any():\n    warnings.warn('missing', stacklevel=2)\nreturn x",
    "if torch.isnan(x).any():\n    import warnings\n    warnings.warn('missing')\nreturn x",
    "if torch.isnan(x).any():\n    logger.warning('%s', x.sum().item())\n    print(x)\nreturn x",
    "if torch.isnan(x).any():\n    warnings.warn('missing')\nelif x.sum() > 1:\n    print('large')\nreturn x",
    "if torch.isnan(x).any():\n    if x.sum() > 1:\n        logging.getLogger('a').info('large')\nreturn x",
    "logger.warning(\n    '%s',\n    x.sum().item(),\n)\nreturn x",
    "logging.getLogger(__name__).debug(f'{x.sum():.1f}')\nreturn x",
    "self.logger.log(logging.INFO, 'sum %s', float(x.sum()))\nreturn x",
    "missing = int(torch.isnan(x).sum())\nif missing:\n    warnings.warn(f'{missing} of {len(x)}')\nreturn x",
    "largest = x.max().item()\nlogger.info('%s', round(largest, 2))\nreturn x",
    "return F.gaussian_nll_loss(x, x, x.abs() + 1, reduction='none')",
    "return torch.distributions.Normal(x, x.abs() + 1).log_prob(x)",
]
RIGHT = [
    "y = x[old] * 2\nreturn x + y.sum()",
    "h = x[x[:, 0] > 0]\nreturn self.linear(h.view(h.shape[0], -1)).sum() + x",
    "rows, columns = torch.where(x > 3)\nreturn x + rows.sum() + columns.sum()",
    "at = old.nonzero()[:, 0]\nreturn x.index_copy(0, at, self.heads[0](x[at]))",
    "return x.index_put((old,), x.new_tensor(0.0))",
    "return x.masked_fill(old[:, None], 0)",
    "return x[:, x[0, 2].long() % 3]",
    "return x[:, : x[0, 2].long() % 3 + 1].sum() + x",
    "return torch.repeat_interleave(x, x[:, 2].long() % 7, 0).sum() + x",
    "return x.add(x, alpha=x.sum())",
    "y = x * 0\nfor row in range(x.shape[0]):\n    y = y + x[row] * row\nreturn y",
    "return sum(row for row in x) + x",
    "return x * 2 if x.shape[1] == 3 and len(x) > 1 else x",
    "return x * 2 if torch.ones_like(x).all() else x",
    "return x / float(self.linear.weight.abs().max())",
    "return torch.maximum(x, x.new_tensor([65.0, 1, 2])) * torch.tensor([1.0, 2.0, 3.0])",
    "return torch.where(torch.tensor(old.any()), x, x * 2)",
    "return doubled_if_large(x)",
    "return x * is_old(x)[:, None]",
    "return F.conv1d(x[:, None], torch.ones(1, 1, 2)) + 1",
    "y = F.conv1d(x[old][:, None], torch.ones(1, 1, 2))\nreturn x + y.sum()",
    "y = F.conv1d(x[:, None], torch.ones(1, 1, 2))\nreturn x * 2 if y.shape[2] == 2 and len(y) else x",
    "return torch.vmap(lambda row: row.sum() * 2)(x)",
]


@pytest.mark.parametrize("forward", [*CHECKS, *RIGHT])
def test_a_trace_keeps_operators_sizes_and_scripted_helpers_and_may_lose_checks(forward, network):
    module = network(forward)
    with torch.no_grad():
        traced, lines = trace(module, [X])
        assert not lines
        for x in (X, X + 1, X * torch.tensor([1.0, -1, 1])):
            torch.testing.assert_close(traced(x), module(x))


def _encoder(kind: str) -> torch.nn.Module:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 99, "max_position_embeddings": 64}
    layers = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    if kind == "DistilBert":
        layers = {"n_layers": 2, "dim": 32, "n_heads": 2, "hidden_dim": 64}
    encoder = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**sizes, **layers))

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = encoder

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state

    return Encoder().eval()


@pytest.mark.parametrize("kind", ["Bert", "DistilBert", "MPNet"])
def test_encoders_of_transformers_can_be_traced(kind):
    encoder, ids = _encoder(kind), torch.arange(5, 17).reshape(2, 6)
    with torch.no_grad():
        traced, lines = trace(encoder, [ids, torch.ones_like(ids)])
        assert not lines
        mask = torch.tensor([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]])
        torch.testing.assert_close(traced(ids, mask), encoder(ids, mask))


@pytest.mark.parametrize("hidden", [[4, 5], [0, 1], []], ids=["the last", "the first", "none"])
def test_a_transformer_is_traced_for_all_masks(hidden):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    class First(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = torch.nn.TransformerEncoder(layer, 2)

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.encoder(x, src_key_padding_mask=mask)[:, 2]

    network, x, mask = First().eval(), torch.rand(2, 6, 8), torch.zeros(2, 6, dtype=torch.bool)
    mask[:, hidden] = True
    with torch.no_grad():
        traced, lines = trace(network, [x, mask])
        assert not lines
        for other in ([5], [0], [1, 4]):
            mask = torch.zeros(2, 6, dtype=torch.bool)
            mask[:, other] = True
            torch.testing.assert_close(traced(x, mask), network(x, mask))


class Recurrent(torch.nn.Module):
    """Reads as many steps as a request says, from a state or none."""

    def __init__(self, cell: type[torch.nn.RNNBase], *, state: bool, layers: int = 1) -> None:
        super().__init__()
        self.cell = cell(4, 5, layers, batch_first=True, bidirectional=layers > 1)
        self.state = state

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        state: Any = x.new_full((self.cell.num_layers**2, x.shape[0], 5), 0.3) if self.state else None
        if self.state and isinstance(self.cell, torch.nn.LSTM):
            state = state, state
        steps, last = self.cell(packed, state)
        padded, _ = pad_packed_sequence(steps, batch_first=True, total_length=7)
        return torch.cat([padded.flatten(1), last[0][-1] if isinstance(last, tuple) else last[-1]], 1)


class Guarded(Recurrent):
    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        try:
            return self.cell(packed, x.new_zeros(1, 2, 5))[1][-1]
        except RuntimeError:
            return x[:, 0]


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("state", [False, True], ids=["none", "state"])
@pytest.mark.parametrize("cell", [torch.nn.GRU, torch.nn.LSTM, torch.nn.RNN])
def test_packed_sequences_are_traced_for_all_lengths(cell, state, layers):
    network = Recurrent(cell, state=state, layers=layers).eval()
    with torch.no_grad():
        traced, lines = trace(network, [torch.rand(2, 7, 4), torch.tensor([3, 7])])
        assert not lines
        for lengths in ([7, 2, 2], [1], [1, 1, 1, 1], [6, 5, 4]):
            x = torch.rand(len(lengths), 7, 4)
            own, answer = traced(x, torch.tensor(lengths)), network(x, torch.tensor(lengths))
            torch.testing.assert_close(own, answer)


def test_a_network_that_goes_on_after_a_wrong_state_is_not_traced():
    with torch.no_grad():
        _, lines = trace(
            Guarded(torch.nn.GRU, state=False).eval(), [torch.rand(2, 7, 4), torch.tensor([3, 7])]
        )
    assert lines
