"""A model under other names: its directories, its configurations, and its build record.

Triton finds a called model by its name among all artifacts of an instance. If two have the name, as two
versions of a model would, one answers in place of the other, or calls to both fail (seen on Triton 24.10). So
`fleet pack` adds a digest of the content, which the caller's configuration names; see
`triton_models.builds.called_models`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from triton_models.artifact.layout import BUILD_FILE, Layout
from triton_models.artifact.pack.content import Content
from triton_models.artifact.pbtxt import CALLS, CONFIG_FILE, ModelConfig, calls_of, parse_config, to_text

_OTHER_CONFIGS = "configs"
_DIGITS = 12
_CHUNK_BYTES = 1 << 20


def renamed(layout: Layout, names: Mapping[str, str]) -> Layout:
    """Return a layout with new names for some of its models, by directory, without disk copies."""

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
    """Yield a model as `<name>-1`, `<name>-2` and so on, to test an endpoint with many models."""
    models = {
        directory for directory in layout.children("") if f"{directory}/{CONFIG_FILE}" in layout.texts
    } | {layout.model}
    for number in range(1, count + 1):
        yield renamed(layout, {model: f"{model}-{number}" for model in sorted(models)})


def called_models(layout: Layout) -> dict[str, str]:
    """Return the declared name of each model that others call, by its directory."""
    configs = [layout.texts.get(f"{directory}/{CONFIG_FILE}") for directory in layout.children("")]
    return {
        directory: declared
        for text in configs
        if text is not None and CALLS.encode() in text
        for declared, directory in calls_of(parse_config(text.decode(), where=layout.where)).items()
    }


def uniquely_named(layout: Layout, contents: Mapping[str, Content]) -> Layout:
    """Return a layout whose called models have a digest of the artifact's content in their names."""
    digest = _digest(contents)
    return renamed(layout, {name: f"{name}-{digest}" for name in called_models(layout)})


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


def _digest(contents: Mapping[str, Content]) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{name}\0{content.size}\0".encode())
        for offset in range(0, content.size, _CHUNK_BYTES):
            digest.update(content.read(min(_CHUNK_BYTES, content.size - offset), offset=offset))
    return digest.hexdigest()[:_DIGITS]
