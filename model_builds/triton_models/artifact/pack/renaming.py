"""A model under other names: its directories, its configurations, and its build record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from triton_models.artifact.layout import BUILD_FILE, Layout
from triton_models.artifact.pbtxt import CALLS, CONFIG_FILE, ModelConfig, parse_config, to_text

_OTHER_CONFIGS = "configs"


def renamed(layout: Layout, names: Mapping[str, str]) -> Layout:
    """Return a layout with other names for some of its models, without disk copies.

    Args:
        layout: The models, which `check` accepts.
        names: The new name of each model, by its directory.
    """

    def moved(path: str) -> str:
        return _moved(path, names)

    texts = {path: _text(path, text, names) for path, text in layout.texts.items()}
    sizes = {**layout.files, **{path: len(text) for path, text in texts.items()}}
    return replace(
        layout,
        model=names.get(layout.model, layout.model),
        files={moved(path): size for path, size in sizes.items()},
        directories=frozenset(map(moved, layout.directories)),
        texts={moved(path): text for path, text in texts.items()},
        sources={moved(path): source for path, source in layout.sources.items()},
    )


def copies(layout: Layout, count: int) -> Iterator[Layout]:
    """Yield a model as `<name>-1`, `<name>-2` and so on, to test an endpoint with many models.

    Args:
        layout: The model, which `check` accepts, with the other models in its artifact.
        count: The number of copies.
    """
    models = {
        directory for directory in layout.children("") if f"{directory}/{CONFIG_FILE}" in layout.texts
    } | {layout.model}
    for number in range(1, count + 1):
        yield renamed(layout, {model: f"{model}-{number}" for model in sorted(models)})


def _moved(path: str, names: Mapping[str, str]) -> str:
    top, slash, rest = path.partition("/")
    return f"{names.get(top, top)}{slash}{rest}"


def _text(path: str, text: bytes, names: Mapping[str, str]) -> bytes:
    """Return the content of a file with the new names, if it contains any."""
    if path == BUILD_FILE:
        return _record(text, names)
    if not _is_config(PurePosixPath(path)):
        return text
    config = parse_config(text.decode(), where=path)
    _rename_in(config, names)
    return to_text(config).encode()


def _record(text: bytes, names: Mapping[str, str]) -> bytes:
    record: dict[str, Any] = json.loads(text)
    new = dict(record)
    if record.get("model") in names:
        new["model"] = names[record["model"]]
    if "plans" in record:
        new["plans"] = {_moved(path, names): about for path, about in record["plans"].items()}
    return text if new == record else (json.dumps(new, indent=2) + "\n").encode()


def _is_config(path: PurePosixPath) -> bool:
    parts = path.parts
    return parts[1:] == (CONFIG_FILE,) or (parts[1:2] == (_OTHER_CONFIGS,) and path.suffix == ".pbtxt")


def _rename_in(config: ModelConfig, names: Mapping[str, str]) -> None:
    config.name = names.get(config.name, config.name)
    for step in config.ensemble_scheduling.step:
        step.model_name = names.get(step.model_name, step.model_name)
    for key, parameter in config.parameters.items():
        if key.startswith(CALLS):
            parameter.string_value = names.get(parameter.string_value, parameter.string_value)
