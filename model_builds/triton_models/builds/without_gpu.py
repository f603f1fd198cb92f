"""A second configuration for machines without a GPU, which a rehearsed build adds to models that need one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from triton_models.config.pbtxt import CONFIG_FILE, read_config, schema, write_config

CONFIG_WITHOUT_GPU = Path("configs") / "cpu.pbtxt"
"""The configuration that the server of a rehearsal prefers, with `--model-config-name=cpu`."""


def configure_without_gpu(root: Path) -> Iterator[str]:
    """Add the configuration to each model of a root that needs a GPU and has none yet.

    Yields:
        The name of each such model.
    """
    needs_gpu = schema().ModelInstanceGroup.KIND_GPU
    for path in sorted(root.glob(f"*/{CONFIG_FILE}")):
        config, other = read_config(path), path.parent / CONFIG_WITHOUT_GPU
        groups = [each for each in config.instance_group if each.kind == needs_gpu or each.gpus]
        if not groups or other.exists():
            continue
        for group in groups:  # the server then chooses, and has no choice but the CPU
            group.ClearField("kind")
            group.ClearField("gpus")
        other.parent.mkdir(exist_ok=True)
        write_config(config, other)
        yield path.parent.name
