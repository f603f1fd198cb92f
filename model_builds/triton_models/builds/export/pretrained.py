"""Networks of the transformers library with trained weights or reproducible random ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from triton_models.base.suggest import some_of
from triton_models.builds.export.weights import fetch, unusable
from triton_models.declare.weights import RandomWeights, Weights

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    Network = TypeVar("Network", bound=PreTrainedModel)


def load_pretrained(
    architecture: type[Network],
    weights: Weights,
    *,
    untrained: PreTrainedConfig | None = None,
    may_lack: Sequence[str] = (),
) -> Network:
    """Return a network in FP32, ready to predict.

    Args:
        architecture: Its class, such as transformers.BertModel.
        weights: A folder written by `save_pretrained` (on disk, under a prefix in S3, in an archive or in a
            registry), a repository of the hub, or a seed.
        untrained: The network's configuration for a seed; trained weights include their own.
        may_lack: Name prefixes of parameters that trained weights may lack, such as "pooler."; they get
            seeded values, because those of transformers are random.

    Raises:
        FleetError: The weights are unavailable, unreadable, or belong to another network.
    """
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(weights.seed if isinstance(weights, RandomWeights) else 0)
        if isinstance(weights, RandomWeights):
            if untrained is None:
                raise unusable(str(weights), "a seed, and no configuration of the network")
            network = architecture(untrained)
        else:
            network, missing = _load(architecture, weights)
            _refuse_missing([name for name in missing if not name.startswith(tuple(may_lack))], weights)
    network.train(mode=False)
    return network


def _load(architecture: type[Network], weights: Weights) -> tuple[Network, list[str]]:
    """Return the network, and the names of the parameters that the weights lack, which have random values."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoConfig
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    folder = fetch(weights)
    loaded: Any
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        if not isinstance(config, architecture.config_class or type(config)):
            wanted = getattr(architecture.config_class, "model_type", "")
            raise unusable(str(weights), f"weights of the architecture {config.model_type!r}, not {wanted!r}")
        loaded = architecture.from_pretrained(
            folder, local_files_only=True, dtype=torch.float32, output_loading_info=True
        )
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise unusable(str(weights), str(error).strip().partition("\n")[0]) from error
    network, report = loaded
    return network, sorted(report["missing_keys"])


def _refuse_missing(names: Sequence[str], weights: Weights) -> None:
    if names:
        raise unusable(str(weights), f"the weights lack {some_of(names)}")
