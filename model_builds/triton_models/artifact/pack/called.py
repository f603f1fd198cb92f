"""Names of called models that no other artifact has.

Triton finds a called model by its name among all artifacts of an instance. If two have the name, as two
versions of a model would, one answers in place of the other, or calls to both fail (seen on Triton 24.10). So
`fleet pack` adds a digest of the content, which the caller's configuration names; see
`triton_models.builds.called_models`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from triton_models.artifact.layout import Layout
from triton_models.artifact.pack.content import Content
from triton_models.artifact.pack.renaming import renamed
from triton_models.artifact.pbtxt import CALLS, CONFIG_FILE, calls_of, parse_config

_DIGITS = 12
_CHUNK_BYTES = 1 << 20


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
    """Return a layout whose called models have a digest of the artifact's content in their names.

    Args:
        layout: The models.
        contents: The content of each file.
    """
    digest = _digest(contents)
    return renamed(layout, {name: f"{name}-{digest}" for name in called_models(layout)})


def _digest(contents: Mapping[str, Content]) -> str:
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{name}\0{content.size}\0".encode())
        for offset in range(0, content.size, _CHUNK_BYTES):
            digest.update(content.read(min(_CHUNK_BYTES, content.size - offset), offset=offset))
    return digest.hexdigest()[:_DIGITS]
