"""A second configuration for a rehearsal's server, which has no GPU and is Triton 24.10."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from triton_models.artifact.networks import AOTI_FILE, AOTI_PLATFORM
from triton_models.artifact.pbtxt import CONFIG_FILE, ModelConfig, read_config, schema, write_config

CONFIG_HERE = Path("configs") / "cpu.pbtxt"
"""The configuration that the server of a rehearsal prefers, with `--model-config-name=cpu`."""


def configure_for_rehearsal(root: Path, *, cpu: bool = False) -> Iterator[tuple[str, str]]:
    """Add the configuration to each model of a root that needs another one here and has none yet.

    Args:
        root: The artifact root.
        cpu: True if the endpoint has no GPU either, so that a model that asks for one fails here too.

    Yields:
        The name of each such model, with what its own configuration asks for and what happens here.
    """
    for path in sorted(root.glob(f"*/{CONFIG_FILE}")):
        config, other = read_config(path), path.parent / CONFIG_HERE
        if other.exists():
            continue
        notes = [*(() if cpu else _without_gpu(config)), *_with_an_older_platform(config)]
        if notes:
            other.parent.mkdir(exist_ok=True)
            write_config(config, other)
        yield from ((path.parent.name, note) for note in notes)


def _without_gpu(config: ModelConfig) -> Iterator[str]:
    needs_gpu = schema().ModelInstanceGroup.KIND_GPU
    groups = [each for each in config.instance_group if each.kind == needs_gpu or each.gpus]
    for group in groups:  # the server then chooses, and has no choice but the CPU
        group.ClearField("kind")
        group.ClearField("gpus")
    if groups:
        yield "asks for a GPU (KIND_GPU); here it runs on the CPU"


def _with_an_older_platform(config: ModelConfig) -> Iterator[str]:
    """Name the compiled network by its file, because Triton before 26.03 refuses the platform."""
    if config.platform == AOTI_PLATFORM:
        config.platform = ""
        config.default_model_filename = config.default_model_filename or AOTI_FILE
        yield "asks for the platform torch_aoti; here PyTorch's Python package runs it"
