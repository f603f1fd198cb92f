"""Copies of a model under different names, to test an endpoint with many models."""

from __future__ import annotations

from collections.abc import Iterator

from triton_models.artifact.layout import Layout
from triton_models.config.pbtxt import CONFIG_FILE
from triton_models.pack.renaming import renamed


def copies(layout: Layout, count: int) -> Iterator[Layout]:
    """Yield the model as `<name>-1`, `<name>-2` and so on, with its other models, without disk copies.

    Args:
        layout: The model, which `check` accepts.
        count: The number of copies.
    """
    models = {
        directory for directory in layout.children("") if f"{directory}/{CONFIG_FILE}" in layout.texts
    } | {layout.model}
    for number in range(1, count + 1):
        yield renamed(layout, {model: f"{model}-{number}" for model in sorted(models)})
