"""Copies of a model under different names, to test an endpoint with many models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from triton_models.artifact.layout import BUILD_FILE, Layout
from triton_models.config.pbtxt import CONFIG_FILE, parse_config, to_text


def copies(layout: Layout, count: int) -> Iterator[Layout]:
    """Yield the model as `<name>-1`, `<name>-2` and so on, with its composing models, without disk copies.

    Args:
        layout: The model, which `check` accepts.
        count: The number of copies.
    """
    models = {
        directory for directory in layout.children("") if f"{directory}/{CONFIG_FILE}" in layout.texts
    } | {layout.model}
    for number in range(1, count + 1):
        yield _copy(layout, {model: f"{model}-{number}" for model in sorted(models)})


def _copy(layout: Layout, names: Mapping[str, str]) -> Layout:
    def moved(path: str) -> str:
        top, slash, rest = path.partition("/")
        return f"{names.get(top, top)}{slash}{rest}"

    texts = {path: _renamed(path, text, names) for path, text in layout.texts.items()}
    sizes = {**layout.files, **{path: len(text) for path, text in texts.items()}}
    return replace(
        layout,
        model=names[layout.model],
        files={moved(path): size for path, size in sizes.items()},
        directories=frozenset(map(moved, layout.directories)),
        texts={moved(path): text for path, text in texts.items()},
        sources={moved(path): source for path, source in layout.sources.items()},
    )


def _renamed(path: str, text: bytes, names: Mapping[str, str]) -> bytes:
    """Return the content of a file with the new names, if it contains any."""
    if path == BUILD_FILE:
        about = json.loads(text)
        if about.get("model") not in names:
            return text
        return (json.dumps({**about, "model": names[about["model"]]}, indent=2) + "\n").encode()
    if PurePosixPath(path).name != CONFIG_FILE or path.count("/") > 1:
        return text
    config = parse_config(text.decode(), where=path)
    config.name = names.get(config.name, config.name)
    for step in config.ensemble_scheduling.step:
        step.model_name = names.get(step.model_name, step.model_name)
    return to_text(config).encode()
