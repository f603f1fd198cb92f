"""Models with sequence batching, found in the files of their folders without reading a declaration."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from triton_models.declare.reading import FORM_MARK

_FIELDS = (b"sequence_batching", b"SequenceBatching(")
_SUFFIXES = (".py", ".pbtxt")


def sequence_models(source: Path, files: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the folders of models whose code or configurations mention sequence batching.

    Args:
        source: The folder that contains models/.
        files: The paths of the files in it.
        names: The names of the models: folders, or `folder:form`.
    """
    folders = {name.partition(FORM_MARK)[0] for name in names}
    found: dict[str, None] = {}
    for path in files:
        top, _, rest = path.partition("/")
        folder = rest.partition("/")[0]
        if top == "models" and folder in folders and folder not in found and path.endswith(_SUFFIXES):
            with open(source / path, "rb") as file:  # noqa: PTH123  a Path per file doubles the cost
                content = file.read()
                if any(field in content for field in _FIELDS):
                    found[folder] = None
    return tuple(found)
