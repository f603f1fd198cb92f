"""The environment variables that declarations read, such as those for the address of weights."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from triton_models.base.source_files import source_files

_READS = re.compile(r"""environ(?:\.get\(|\[)\s*["']([A-Za-z0-9_]+)["']""")
_RANDOM = re.compile(r"\bRandomWeights\(")
_READS_OR_RANDOM = re.compile(_READS.pattern + r"\s*\)?\s*,\s*otherwise\s*=\s*RandomWeights\(")

# The AWS SDKs read credentials from the first, and a job of GitHub asks for a token with the second.
_OF_CREDENTIALS = re.compile(r"AWS_(?!REGION$|DEFAULT_REGION$).*|ACTIONS_.*")


@contextlib.contextmanager
def environment_of_a_build(given: Mapping[str, str]) -> Iterator[None]:
    """Set the variables of a build for a time, and hide those of credentials, which a build does not inherit.

    A declaration that calls AWS when it is read then fails in the same way everywhere. This does not contain
    hostile code, which may read files and other processes of its user.
    """
    before = dict(os.environ)
    for name in filter(_OF_CREDENTIALS.fullmatch, before):
        del os.environ[name]
    os.environ.update(given)
    try:
        yield
    finally:
        for name in {*given, *filter(_OF_CREDENTIALS.fullmatch, before)}:
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]


def variables_read(folder: Path) -> frozenset[str]:
    """Return the environment variables read by the Python files in a folder and below it."""
    if not folder.is_dir():
        return frozenset()
    return frozenset(
        name
        for path in source_files(folder)
        if path.suffix == ".py"
        for name in _READS.findall(path.read_text(encoding="utf-8", errors="replace"))
    )


def untrained(folder: Path, *, given: Collection[str], form: str = "") -> Iterator[str]:
    """Yield the unset variables that can provide trained weights for a model with random ones.

    Yields "" if the model has random weights and reads no such variable. The declaration is searched but not
    run, which is fast enough for thousands.

    Args:
        folder: The model's folder.
        given: The variables that are set for the build.
        form: The form of the model, which may read its weights from any of the variables.
    """
    path = folder / "build.py"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    read = _READS.findall(text)
    random = [] if form else _READS_OR_RANDOM.findall(text)
    if random:
        yield from dict.fromkeys(name for name in random if name not in given)
    elif _RANDOM.search(text) and not set(read) & set(given):
        yield from dict.fromkeys(read) or [""]
