"""Weights that PyTorch's and Lightning's wrappers saved under other names, and how to save them plainly."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_ENTRIES = ("state_dict", "model_state_dict", "model", "module", "net", "ema", "weights")
# torch.compile and FSDP insert these, also inside a network; DataParallel adds "module." in front.
_INSERTED = re.compile(r"(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
_LOAD = "state = torch.load(PATH, weights_only=True)"


def entry_of(checkpoint: Mapping[object, object], tensor: type) -> tuple[str, str] | None:
    """Return what a checkpoint is and how to fix it, if one of its entries is a state_dict."""
    for name in _ENTRIES:
        entry = checkpoint.get(name)
        if isinstance(entry, Mapping) and entry and all(isinstance(each, tensor) for each in entry.values()):
            others = ", ".join(repr(key) for key in checkpoint if key != name)
            what = (
                f"a training checkpoint: the weights are its entry {name!r}"
                + f", next to {others}" * bool(others)
            )
            return what, f'save this entry alone: {_LOAD}; torch.save(state["{name}"], PATH)'
    return None


def renamed(
    expected: Collection[str], actual: Collection[str], *, safetensors: bool = False
) -> tuple[str, str] | None:
    """Return how names differ and how to fix it, if a wrapper alone makes the difference."""
    names = set(expected)
    if not names or names == set(actual):
        return None
    if {_INSERTED.sub("", name) for name in actual} == names:
        marks = sorted({match for name in actual for match in _INSERTED.findall(name)})
        what = f"the names contain {' and '.join(marks)}, from torch.compile or a wrapper"
        code = f're.sub(r"{_INSERTED.pattern}", "", name): value for name, value in state.items()'
        return what, f"save them without it: import re; {_again(code, safetensors=safetensors)}"
    for prefix in _prefixes(actual, min(names)):
        stripped = [name.removeprefix(prefix) for name in actual if name.startswith(prefix)]
        if {_INSERTED.sub("", name) for name in stripped} == names:
            what = f"the names begin with {prefix!r}, from {_wrapper(prefix)}"
            pairs = f'name.removeprefix("{prefix}"): value for name, value in state.items()'
            code = f'{pairs} if name.startswith("{prefix}")'
            return what, f"save them without it: {_again(code, safetensors=safetensors)}"
    for prefix in _prefixes(names, min(actual, default="")):
        if {f"{prefix}{name}" for name in actual} == names:
            what = f"the network's names begin with {prefix!r}, and the weights' do not"
            code = f'f"{prefix}{{name}}": value for name, value in state.items()'
            fix = "declare the network without its wrapper, or save them with it: "
            return what, fix + _again(code, safetensors=safetensors)
    return None


def _prefixes(names: Collection[str], end: str) -> list[str]:
    """Return what is before a name in longer names, the shortest first."""
    longer = [name for name in names if name.endswith(f".{end}")]
    return [name.removesuffix(end) for name in sorted(longer, key=len)]


def _again(pairs: str, *, safetensors: bool) -> str:
    """Return the code that saves weights under other names."""
    if safetensors:
        load = "from safetensors.torch import load_file, save_file; state = load_file(PATH)"
        return f"{load}; save_file({{{pairs}}}, PATH)"
    return f"{_LOAD}; torch.save({{{pairs}}}, PATH)"


def _wrapper(prefix: str) -> str:
    if prefix.startswith("module."):
        return "DataParallel or DistributedDataParallel"
    return "torch.compile" if "_orig_mod." in prefix else "a module around the network, such as Lightning's"
